//! [`FaultDisk`]: a disk that fails as a plan says, from a seed.
//!
//! # Invariants
//!
//! * The same faults, seed and requests fail in the same places.
//! * The block contract holds: once a flush was made to fail, every later flush fails with the
//!   same kind. [`Effect::Lie`] is there to break it on purpose.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{
    BlockDevice, Errno, Extent, Geometry, Identity, IoBufs, IoError, IoFuture, Node, Operation,
    Range, WriteFlags,
};

use crate::image::SECTOR;

/// What happens to a request that a [`Fault`] hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Fails; the disk below never sees it.
    Fail(Errno),
    /// Is carried out, then reported as failed.
    FailAfter(Errno),
    /// A write of which only leading sectors arrive, then a failure. Other requests just fail.
    Tear(Errno),
    /// Reports success without being carried out. Reads are left alone.
    Lie,
}

/// One rule of a plan: which requests, how often, to what effect. The first fault that hits wins.
#[derive(Debug, Clone)]
pub struct Fault {
    effect: Effect,
    operation: Option<Operation>,
    range: Option<Range>,
    skip: u64,
    times: u64,
    per_million: u32,
}

impl Fault {
    /// A fault that hits every request.
    #[must_use]
    pub const fn new(effect: Effect) -> Self {
        Self {
            effect,
            operation: None,
            range: None,
            skip: 0,
            times: u64::MAX,
            per_million: 1_000_000,
        }
    }

    /// Only requests of this kind.
    #[must_use]
    pub const fn on(mut self, operation: Operation) -> Self {
        self.operation = Some(operation);
        self
    }

    /// Only requests that touch `range`. A flush touches no range.
    #[must_use]
    pub const fn at(mut self, range: Range) -> Self {
        self.range = Some(range);
        self
    }

    /// The first `count` matching requests pass.
    #[must_use]
    pub const fn after(mut self, count: u64) -> Self {
        self.skip = count;
        self
    }

    /// Hits at most `count` times.
    #[must_use]
    pub const fn times(mut self, count: u64) -> Self {
        self.times = count;
        self
    }

    /// Hits this many of a million matching requests, chosen by the seed.
    #[must_use]
    pub const fn rate(mut self, per_million: u32) -> Self {
        self.per_million = per_million;
        self
    }

    fn matches(&self, operation: Operation, range: Option<Range>) -> bool {
        self.operation.is_none_or(|wanted| wanted == operation)
            && self
                .range
                .is_none_or(|wanted| range.is_some_and(|range| range.overlaps(&wanted)))
    }

    fn hits(&mut self, rng: &mut fastrand::Rng) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if self.times == 0 || rng.u32(0..1_000_000) >= self.per_million {
            return false;
        }
        self.times -= 1;
        true
    }
}

#[derive(Debug)]
struct FaultSchedule {
    rng: fastrand::Rng,
    faults: Vec<Fault>,
    hits: u64,
    flush_failed: Option<Errno>,
}

/// A disk in front of `child` that fails as planned.
#[derive(Debug)]
pub struct FaultDisk {
    child: Node,
    plan: Mutex<FaultSchedule>,
}

#[derive(Debug, thiserror::Error)]
#[error("injected fault")]
struct FaultRequest;

impl FaultDisk {
    /// Puts `faults` in front of `child`; `seed` decides what their rates leave open.
    #[must_use]
    pub fn new(child: Node, seed: u64, faults: Vec<Fault>) -> Arc<Self> {
        Arc::new(Self {
            child,
            plan: Mutex::new(FaultSchedule {
                rng: fastrand::Rng::with_seed(seed),
                faults,
                hits: 0,
                flush_failed: None,
            }),
        })
    }

    /// Adds a fault behind those there are.
    pub fn inject(&self, fault: Fault) {
        self.plan().faults.push(fault);
    }

    /// Removes all faults. A flush that failed stays failed.
    pub fn heal(&self) {
        self.plan().faults.clear();
    }

    /// How many requests were hit.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.plan().hits
    }

    fn plan(&self) -> MutexGuard<'_, FaultSchedule> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decide(&self, operation: Operation, range: Option<Range>) -> Option<Effect> {
        let mut plan = self.plan();
        let FaultSchedule { rng, faults, .. } = &mut *plan;
        let hit = faults.iter_mut().find_map(|fault| {
            (fault.matches(operation, range) && fault.hits(rng)).then_some(fault.effect)
        });
        plan.hits += u64::from(hit.is_some());
        hit
    }

    /// Carries out one request, or what the plan makes of it.
    async fn run<'a, T>(
        &'a self,
        operation: Operation,
        range: Option<Range>,
        lied: Option<T>,
        request: impl FnOnce() -> IoFuture<'a, T> + Send,
    ) -> Result<T, IoError> {
        let effect = self.decide(operation, range);
        carry_out(effect, operation, range, lied, request).await
    }

    async fn torn_write(
        &self,
        range: Range,
        data: IoBufs,
        flags: WriteFlags,
        errno: Errno,
    ) -> Result<(), IoError> {
        let unit = SECTOR.max(u64::from(self.geometry().block_size));
        let whole = bytes::Bytes::from(data.concat());
        let kept = Range::new(
            range.offset,
            self.plan().rng.u64(0..=range.len / unit) * unit,
        );
        if !kept.is_empty() {
            let head = whole.slice(..kept.len_usize());
            self.child
                .write(kept, smallvec::smallvec![head], flags)
                .await?;
        }
        Err(IoError::new(errno, Operation::Write, Some(range)).because(FaultRequest))
    }
}

/// Carries out one request with this effect. `lied` is what a lie answers.
async fn carry_out<'a, T>(
    effect: Option<Effect>,
    operation: Operation,
    range: Option<Range>,
    lied: Option<T>,
    request: impl FnOnce() -> IoFuture<'a, T> + Send,
) -> Result<T, IoError> {
    let failed = |errno| Err(IoError::new(errno, operation, range).because(FaultRequest));
    match (effect, lied) {
        (None, _) | (Some(Effect::Lie), None) => request().await,
        (Some(Effect::Lie), Some(answer)) => Ok(answer),
        (Some(Effect::Fail(errno) | Effect::Tear(errno)), _) => failed(errno),
        (Some(Effect::FailAfter(errno)), _) => {
            request().await?;
            failed(errno)
        }
    }
}

impl BlockDevice for FaultDisk {
    fn geometry(&self) -> &Geometry {
        self.child.geometry()
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        Box::pin(self.run(Operation::Read, Some(range), None, move || {
            self.child.read(range)
        }))
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let effect = self.decide(Operation::Write, Some(range));
            if let Some(Effect::Tear(errno)) = effect {
                return self.torn_write(range, data, flags, errno).await;
            }
            let request = || self.child.write(range, data, flags);
            carry_out(effect, Operation::Write, Some(range), Some(()), request).await
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let earlier = self.plan().flush_failed;
            if let Some(errno) = earlier {
                return Err(IoError::new(errno, Operation::Flush, None).because(FaultRequest));
            }
            let result = self
                .run(Operation::Flush, None, Some(()), || self.child.flush())
                .await;
            if let Err(e) = &result {
                self.plan().flush_failed.get_or_insert(e.errno);
            }
            result
        })
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        let request = move || self.child.write_zeroes(range, flags);
        Box::pin(self.run(Operation::WriteZeroes, Some(range), Some(()), request))
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(self.run(Operation::Trim, Some(range), Some(()), move || {
            self.child.trim(range)
        }))
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        let request = move || self.child.extents(range);
        Box::pin(self.run(Operation::Extents, Some(range), None, request))
    }

    fn identity(&self) -> Option<Identity> {
        self.child.identity()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.child.settle()
    }
}
