//! [`HeldDisk`]: a disk that holds its requests until the test releases them.
//!
//! # Invariants
//!
//! * A request enters at its future's first poll and is carried out by
//!   [`release`](HeldDisk::release), in any order.
//! * A change that was cancelled stays and lands when it is released, as on a real disk
//!   with a command queue that forgets nothing. Dropped reads and flushes vanish.
//! * [`settle`](BlockDevice::settle) resolves when no such change is left.

mod queue;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{
    BlockDevice, Extent, Geometry, Identity, IoBufs, IoError, IoFuture, Node, Operation, Range,
    WriteFlags,
};
use tokio::sync::Notify;

use self::queue::{HeldQueue, HeldRequest, Reply};

/// A request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Its name; rises in order of arrival.
    pub id: u64,
    /// The operation.
    pub operation: Operation,
    /// Where; `None` for a flush.
    pub range: Option<Range>,
    /// Its future was dropped.
    pub abandoned: bool,
}

/// A disk in front of `child` that holds requests.
#[derive(Debug)]
pub struct HeldDisk {
    child: Node,
    queue: Mutex<HeldQueue>,
    changed: Notify,
}

impl HeldDisk {
    /// Holds all requests to `child` from now on.
    #[must_use]
    pub fn new(child: Node) -> Arc<Self> {
        Arc::new(Self {
            child,
            queue: Mutex::new(HeldQueue::new()),
            changed: Notify::new(),
        })
    }

    /// Holds new requests, or lets them through. Those held already stay.
    pub fn hold(&self, holding: bool) {
        self.queue().holding = holding;
    }

    /// The requests that wait, in order of arrival.
    #[must_use]
    pub fn held(&self) -> Vec<Held> {
        self.queue().held()
    }

    /// Ranges of the changes that landed after their futures had been dropped, in that order.
    #[must_use]
    pub fn late_changes(&self) -> Vec<Range> {
        self.queue().late_changes.clone()
    }

    /// Carries out request `id`. Nothing happens if it is not held (any more).
    pub async fn release(&self, id: u64) {
        let Some(request) = self.queue().start(id) else {
            return;
        };
        let result = request.perform(&*self.child).await;
        self.queue().finish(id, result);
        self.changed.notify_waiters();
    }

    /// Carries out the oldest request; false if none waits.
    pub async fn release_oldest(&self) -> bool {
        let Some(first) = self.held().first().copied() else {
            return false;
        };
        self.release(first.id).await;
        true
    }

    /// Carries out what waits now, in order of arrival, and returns how many that were.
    pub async fn release_all(&self) -> usize {
        let held = self.held();
        for request in &held {
            self.release(request.id).await;
        }
        held.len()
    }

    /// Resolves when a request waits.
    pub async fn arrival(&self) {
        self.arrivals(1).await;
    }

    /// Resolves when so many requests wait.
    pub async fn arrivals(&self, count: usize) {
        self.until(|queue| queue.held().len() >= count).await;
    }

    async fn until(&self, reached: impl Fn(&mut HeldQueue) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if reached(&mut self.queue()) {
                return;
            }
            changed.await;
        }
    }

    fn queue(&self) -> MutexGuard<'_, HeldQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, request: HeldRequest) -> Result<Reply, IoError> {
        let entered = self.queue().enter(request);
        match entered {
            Ok(reply) => {
                self.changed.notify_waiters();
                reply
                    .await
                    .expect("a held request is answered by its release")
            }
            Err(request) => request.perform(&*self.child).await,
        }
    }
}

impl BlockDevice for HeldDisk {
    fn geometry(&self) -> &Geometry {
        self.child.geometry()
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        Box::pin(async move { Ok(self.ask(HeldRequest::Read(range)).await?.into_data()) })
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.ask(HeldRequest::Write(range, data, flags))
                .await
                .map(drop)
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move { self.ask(HeldRequest::Flush).await.map(drop) })
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.ask(HeldRequest::WriteZeroes(range, flags))
                .await
                .map(drop)
        })
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(async move { self.ask(HeldRequest::Trim(range)).await.map(drop) })
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        Box::pin(async move { Ok(self.ask(HeldRequest::Extents(range)).await?.into_extents()) })
    }

    fn identity(&self) -> Option<Identity> {
        self.child.identity()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.until(|queue| !queue.has_abandoned_changes()).await;
            self.child.settle().await
        })
    }
}
