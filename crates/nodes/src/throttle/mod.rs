//! `throttle`: a disk that carries out so many bytes and requests per second, and no more.
//!
//! ```text
//! reads   ──► [ line of reads  ] ──┐
//!                                  ├──► [ line of both ] ──► disk below
//! changes ──► [ line of writes ] ──┘
//! ```
//!
//! A request pays first and is carried out then: like on a slow disk, one of 1 MiB at 1 MiB/s takes
//! a second.
//!
//! # Invariants
//!
//! * Nothing goes around a rate: there is no `remap` and no file region, and what would be answered
//!   on the fast path is if it has been saved up, else it takes the waiting path.
//! * Each line is first come, first served: no request starves. Reads that wait for their own rate block
//!   only other reads.
//! * Rates are exact over time (`state.rs`) for every resolution of the clock, as long as the burst is
//!   longer than one of them (1 ms).
//! * A request that is dropped while it waits was never sent and costs nothing.
//!
//! # What it does not do
//!
//! The sender of requests bounds how many wait here. Requests for extents are not counted.

mod gate;
mod plan;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use block::{
    BlockDevice, Extent, Geometry, Identity, IoBufs, IoFuture, Node, Operation, Range, TryIo,
    WriteFlags,
};
use engine::clock;

use self::gate::Gate;
pub use self::plan::Rates;
use crate::guard::revalidated;

/// The lines of one throttled disk.
#[derive(Debug)]
struct Gates {
    started: Instant,
    read: Gate,
    write: Gate,
    both: Gate,
}

impl Gates {
    fn new(rates: &Rates) -> Self {
        Self {
            started: clock::now(),
            read: Gate::new(rates.read()),
            write: Gate::new(rates.write()),
            both: Gate::new(rates.both()),
        }
    }

    fn now(&self) -> Duration {
        clock::now().saturating_duration_since(self.started)
    }

    const fn own(&self, operation: Operation) -> &Gate {
        match operation {
            Operation::Read => &self.read,
            _ => &self.write,
        }
    }

    async fn pass(&self, operation: Operation, range: Option<Range>) {
        let Some(cost) = plan::cost(operation, range) else {
            return;
        };
        let arrived = self.now();
        let now = || self.now();
        let own = self.own(operation).pass(arrived, cost, now).await;
        // Time spent in the first line counts in the second: both rates hold, they do not add up.
        let both = self.both.pass(arrived, cost, now).await;
        own.keep();
        both.keep();
    }

    /// Runs what will not wait, if it is paid for.
    fn try_pass(&self, operation: Operation, range: Range, run: impl FnOnce() -> TryIo) -> TryIo {
        let Some(cost) = plan::cost(operation, Some(range)) else {
            return TryIo::WouldBlock;
        };
        let now = self.now();
        let Some(own) = self.own(operation).try_pass(now, cost) else {
            return TryIo::WouldBlock;
        };
        let Some(both) = self.both.try_pass(now, cost) else {
            return TryIo::WouldBlock;
        };
        let done = run();
        if done == TryIo::Done {
            own.keep();
            both.keep();
        }
        done
    }
}

/// A disk of bounded speed.
#[derive(Debug)]
pub struct Throttle {
    child: Node,
    gates: Arc<Gates>,
}

impl Throttle {
    /// Bounds what `child` carries out by `rates`.
    #[must_use]
    pub fn new(child: Node, rates: Rates) -> Self {
        Self {
            child,
            gates: Arc::new(Gates::new(&rates)),
        }
    }

    fn paid<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        range: Option<Range>,
        request: impl FnOnce() -> IoFuture<'a, T> + Send + 'a,
    ) -> IoFuture<'a, T> {
        Box::pin(async move {
            self.gates.pass(operation, range).await;
            request().await
        })
    }
}

impl BlockDevice for Throttle {
    fn geometry(&self) -> &Geometry {
        self.child.geometry()
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        self.paid(Operation::Read, Some(range), move || self.child.read(range))
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.paid(Operation::Write, Some(range), move || {
            self.child.write(range, data, flags)
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.paid(Operation::Flush, None, || self.child.flush())
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.paid(Operation::WriteZeroes, Some(range), move || {
            self.child.write_zeroes(range, flags)
        })
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        self.paid(Operation::Trim, Some(range), move || self.child.trim(range))
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        self.child.extents(range)
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
                gates: self.gates.clone(),
            })
        }))
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        self.gates
            .try_pass(Operation::Read, range, || self.child.try_read(range, into))
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        self.gates.try_pass(Operation::Write, range, || {
            self.child.try_write(range, data)
        })
    }
}
