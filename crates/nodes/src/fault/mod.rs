//! `fault`: a disk that fails as configured, and a drive that is pulled and plugged in again.
//!
//! ```text
//! request ─► is the drive there? ─► does a rule hit? ─► write cache, if it has one ─► disk below
//!              no: fails               fails, is torn,      lost when the drive
//!              at once                 is lost              is pulled
//! ```
//!
//! # Fault model
//!
//! * **A pulled drive** fails every request at once, also those in flight: their writes may have
//!   landed or not, whole or in part. Plugged in again it works; first it waits for what it gave up,
//!   so that nothing lands late.
//! * **A write cache** holds acknowledged writes until a flush, FUA (which writes down what came
//!   before it, too), zeroing or trimming, or until it is full. Reads see it. A pull loses it: from
//!   then on no flush reports success, since what it would promise is gone; reopen the disk, as a
//!   drive that comes back is another device. Without a cache nothing acknowledged is lost.
//! * **A lost write** is acknowledged and never carried out: reads give what was there before. A lost
//!   flush is acknowledged, and what it should have written down stays in the cache. A silently torn
//!   write is a lost write of which the first sectors arrive. These break the contract of `block`, on
//!   purpose.
//! * **A torn write** leaves its first sectors, some of them, never all, and fails.
//! * **A failed flush** stays failed, however its rule goes on.
//!
//! # Invariants
//!
//! * Nothing goes around the faults: there is no `remap`, no file region, nothing is answered on the fast path.
//! * Without rules, and while the drive is there, it is the disk below.
//!
//! # What it does not do
//!
//! A file that pulls the drive is looked for when a request comes and every 20 ms while one is under
//! way. A pull that no request saw did not happen.

mod cache;
mod drive;
mod plan;
mod state;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use block::{
    BlockDevice, Errno, Extent, Geometry, Identity, IoBufs, IoError, IoFuture, Node, Operation,
    Range, Support, WriteFlags,
};
use futures_util::future::{Either, select};

use self::cache::{Cache, CacheMark, lay_over};
use self::drive::Drive;
pub use self::drive::FaultHandle;
pub use self::plan::{FaultEffect, FaultPlan, FaultRule};
use self::state::FaultVerdict;
use crate::blocks::slice;
use crate::guard::{admit, assert_len, len_of, revalidated};

/// Why a request failed that would not have.
#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error("injected fault")]
    Injected,
    #[error("the drive is pulled")]
    Pulled,
    #[error("acknowledged writes were lost when the drive was pulled; reopen the disk")]
    CacheLost,
}

/// A disk that fails as configured.
#[derive(Debug)]
pub struct Fault {
    child: Node,
    geometry: Geometry,
    cached: bool,
    drive: Arc<Drive>,
}

impl Fault {
    /// Puts the faults of `plan` in front of `child`.
    #[must_use]
    pub fn new(child: Node, plan: FaultPlan) -> Self {
        let cached = plan.cache.is_some();
        Self::with(child, cached, Arc::new(Drive::new(plan)))
    }

    fn with(child: Node, cached: bool, drive: Arc<Drive>) -> Self {
        let mut geometry = child.geometry().clone();
        if cached {
            geometry.flush = Support::Native;
        }
        Self {
            child,
            geometry,
            cached,
            drive,
        }
    }

    /// What changes the faults while the disk is used.
    #[must_use]
    pub fn handle(&self) -> FaultHandle {
        FaultHandle::new(self.drive.clone())
    }

    /// Runs a request as long as the drive is there.
    async fn run<T>(
        &self,
        operation: Operation,
        range: Option<Range>,
        request: impl Future<Output = Result<T, IoError>>,
    ) -> Result<T, IoError> {
        if let Some(range) = range {
            admit(&self.geometry, operation, range)?;
        }
        let failed = |cause| Err(IoError::new(Errno::Io, operation, range).because(cause));
        let Some(pulls) = self.drive.enter() else {
            return failed(Cause::Pulled);
        };
        let work = async {
            self.drive.recover(&*self.child).await?;
            request.await
        };
        let pulled = self.drive.pulled_after(pulls);
        match select(pin!(pulled), pin!(work)).await {
            Either::Left(_) => {
                self.drive.give_up();
                failed(Cause::Pulled)
            }
            Either::Right((result, _)) => result,
        }
    }

    /// What becomes of a request, where that is not a failure.
    fn judge(&self, operation: Operation, range: Option<Range>) -> Result<FaultVerdict, IoError> {
        let now = self.drive.now();
        let unit = self.geometry.block_size;
        let verdict = self
            .drive
            .inside()
            .state
            .decide(operation, range, unit, now);
        match verdict {
            FaultVerdict::Fail(errno) => {
                Err(IoError::new(errno, operation, range).because(Cause::Injected))
            }
            other => Ok(other),
        }
    }

    /// A write that is carried out: into the cache, or below.
    async fn store(&self, range: Range, data: IoBufs, flags: WriteFlags) -> Result<(), IoError> {
        if !self.cached {
            return self.child.write(range, data, flags).await;
        }
        let stays = |cache: &Cache| cache.can_hold(range.len) && !flags.contains(WriteFlags::FUA);
        if !self.drive.inside().cache.as_ref().is_some_and(stays) {
            let write = self.child.write(range, data, flags);
            return self.past_the_cache(write).await;
        }
        while !self.put(range, &data)? {
            let _turn = self.drive.writing.lock().await;
            self.write_down_one(self.mark()).await?;
        }
        Ok(())
    }

    /// Puts a write into the cache if there is room.
    fn put(&self, range: Range, data: &IoBufs) -> Result<bool, IoError> {
        let mut inside = self.drive.inside();
        if inside.state.is_pulled() {
            let error = IoError::new(Errno::Io, Operation::Write, Some(range));
            return Err(error.because(Cause::Pulled));
        }
        let cache = inside.cache.as_mut();
        Ok(cache.is_some_and(|cache| cache.put(range, data)))
    }

    fn mark(&self) -> Option<CacheMark> {
        self.drive.inside().cache.as_ref().map(Cache::mark)
    }

    /// Writes down the oldest write of the cache, if it came before `mark`. Only with the turn.
    async fn write_down_one(&self, mark: Option<CacheMark>) -> Result<bool, IoError> {
        // One that was dropped half way must not land behind its successors.
        self.drive.recover(&*self.child).await?;
        let oldest = |cache: &Cache| mark.and_then(|mark| cache.oldest(mark));
        let Some(entry) = self.drive.inside().cache.as_ref().and_then(oldest) else {
            return Ok(false);
        };
        let data = entry.data.clone();
        let write = self.child.write(entry.range, data, WriteFlags::empty());
        let written = self.drive.in_order(write).await;
        let mut inside = self.drive.inside();
        if let Err(error) = written {
            inside.state.fail_flushes(error.errno);
            return Err(error);
        }
        if let Some(cache) = &mut inside.cache {
            cache.written(&entry);
        }
        Ok(true)
    }

    /// Writes down what the cache holds now. Only with the turn.
    async fn write_down(&self) -> Result<(), IoError> {
        let mark = self.mark();
        while self.write_down_one(mark).await? {}
        Ok(())
    }

    /// Runs a request below with everything in front of it written down.
    async fn past_the_cache<T>(
        &self,
        request: impl Future<Output = Result<T, IoError>>,
    ) -> Result<T, IoError> {
        if !self.cached {
            return request.await;
        }
        let _turn = self.drive.writing.lock().await;
        self.write_down().await?;
        self.drive.in_order(request).await
    }

    /// Zeroes or trims.
    async fn change(
        &self,
        operation: Operation,
        range: Range,
        request: IoFuture<'_, ()>,
    ) -> Result<(), IoError> {
        match self.judge(operation, Some(range))? {
            FaultVerdict::Lose => Ok(()),
            _ => self.past_the_cache(request).await,
        }
    }
}

impl BlockDevice for Fault {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        let at = Some(range);
        Box::pin(self.run(Operation::Read, at, async move {
            self.judge(Operation::Read, at)?;
            // Before the request to the disk below: a write-back in between is not missed.
            let over = |cache: &Cache| cache.over(range);
            let over = self.drive.inside().cache.as_ref().map(over);
            let data = self.child.read(range).await?;
            Ok(match over {
                None => data,
                Some(over) => lay_over(range, data, &over),
            })
        }))
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        let at = Some(range);
        Box::pin(self.run(Operation::Write, at, async move {
            assert_len(range, len_of(&data));
            match self.judge(Operation::Write, at)? {
                FaultVerdict::Lose => Ok(()),
                FaultVerdict::Tear { kept, then } => {
                    let kept = Range::new(range.offset, kept);
                    if !kept.is_empty() {
                        let data = slice(&data, 0, kept.len_usize());
                        self.store(kept, data, flags).await?;
                    }
                    then.map_or(Ok(()), |errno| {
                        Err(IoError::new(errno, Operation::Write, at).because(Cause::Injected))
                    })
                }
                _ => self.store(range, data, flags).await,
            }
        }))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(self.run(Operation::Flush, None, async {
            match self.judge(Operation::Flush, None)? {
                FaultVerdict::Lose => Ok(()),
                _ if self.drive.inside().state.has_lost() => {
                    let error = IoError::new(Errno::Io, Operation::Flush, None);
                    Err(error.because(Cause::CacheLost))
                }
                _ => self.past_the_cache(self.child.flush()).await,
            }
        }))
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(self.run(Operation::WriteZeroes, Some(range), async move {
            let request = self.child.write_zeroes(range, flags);
            self.change(Operation::WriteZeroes, range, request).await
        }))
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(self.run(Operation::Trim, Some(range), async move {
            let request = self.child.trim(range);
            self.change(Operation::Trim, range, request).await
        }))
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        Box::pin(self.run(Operation::Extents, Some(range), async move {
            self.judge(Operation::Extents, Some(range))?;
            self.past_the_cache(self.child.extents(range)).await
        }))
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
        Box::pin(self.run(Operation::Measure, None, async {
            self.judge(Operation::Measure, None)?;
            let over =
                |child| -> Node { Arc::new(Self::with(child, self.cached, self.drive.clone())) };
            revalidated(&self.child, over).await
        }))
    }
}
