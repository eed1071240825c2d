//! `delay`: a disk that adds latency to requests.
//!
//! Each request waits for its delay, then goes to the disk below. Any number wait side by side: a
//! delay bounds what one request after the other can do, not what many do together (that is
//! `throttle`).
//!
//! # Invariants
//!
//! * Nothing goes around a delay: there is no `remap` and no file region, and what would be answered
//!   on the fast path takes the waiting path, unless its delay is zero.
//! * The seed decides the jitter: the `n`th delayed request of two disks with one seed waits equally
//!   long.
//! * A request that is dropped while it waits was never sent.
//!
//! # What it does not do
//!
//! The clock counts whole milliseconds: a delay ends up to one later than configured.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block::{
    BlockDevice, Extent, Geometry, Identity, IoBufs, IoFuture, Node, Operation, Range, TryIo,
    WriteFlags,
};
use engine::clock;

pub use self::plan::DelayTimes;
use crate::guard::revalidated;

/// A disk that answers late.
#[derive(Debug)]
pub struct Delay {
    child: Node,
    times: DelayTimes,
    /// Delays drawn so far, also by this disk before it was revalidated.
    drawn: Arc<AtomicU64>,
}

impl Delay {
    /// Makes requests to `child` take `times` longer.
    #[must_use]
    pub fn new(child: Node, times: DelayTimes) -> Self {
        Self {
            child,
            times,
            drawn: Arc::default(),
        }
    }

    /// Waits before `request` if `operation` has a delay.
    fn later<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        request: impl FnOnce() -> IoFuture<'a, T> + Send + 'a,
    ) -> IoFuture<'a, T> {
        if self.times.of(operation).is_zero() {
            return request();
        }
        Box::pin(async move {
            let n = self.drawn.fetch_add(1, Ordering::Relaxed);
            if let Some(delay) = self.times.draw(operation, n) {
                clock::sleep(delay).await;
            }
            request().await
        })
    }
}

impl BlockDevice for Delay {
    fn geometry(&self) -> &Geometry {
        self.child.geometry()
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        self.later(Operation::Read, move || self.child.read(range))
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.later(Operation::Write, move || {
            self.child.write(range, data, flags)
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.later(Operation::Flush, || self.child.flush())
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.later(Operation::WriteZeroes, move || {
            self.child.write_zeroes(range, flags)
        })
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        self.later(Operation::Trim, move || self.child.trim(range))
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        self.later(Operation::Extents, move || self.child.extents(range))
    }

    fn identity(&self) -> Option<Identity> {
        self.child.identity()
    }

    fn opening(&self) -> Option<u64> {
        self.child.opening()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.child.settle()
    }

    fn connection_epoch(&self) -> u64 {
        self.child.connection_epoch()
    }

    fn revalidate(&self) -> IoFuture<'_, Option<Node>> {
        Box::pin(revalidated(&self.child, |child| {
            Arc::new(Self {
                child,
                times: self.times,
                drawn: self.drawn.clone(),
            })
        }))
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        if self.times.read.is_zero() {
            return self.child.try_read(range, into);
        }
        TryIo::WouldBlock
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        if self.times.write.is_zero() {
            return self.child.try_write(range, data);
        }
        TryIo::WouldBlock
    }
}
