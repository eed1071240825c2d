//! [`Meter`]: what a connection's task calls while it serves.
//!
//! ```text
//! begin_step(now)                     a step begins; `now` is a clock it reads anyway
//!   answered(op, bytes)               a request was taken in and answered within the step
//!   refused(op)                       the same, with an error
//!   started = begin(op)               a request was taken in and must wait
//!   end(started, bytes)               …was carried out
//!   fail(started)                     …failed
//! end_step(now)                       the step's replies are sent
//! ```
//!
//! Calls outside a step are legal: they count at the last step's time.

use std::sync::Arc;
use std::time::Instant;

use super::Op;
use super::counters::Counters;

/// A request that waits. `Copy`, so that it travels with its job.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct StartedRequest {
    op: Op,
    at: Instant,
}

/// Requests of one command that a step took in and answered.
#[derive(Debug, Clone, Copy, Default)]
struct FastPathCounts {
    answered: u32,
    refused: u32,
    bytes: u64,
}

/// One connection's meter.
#[derive(Debug)]
pub(in crate::server) struct Meter {
    counters: Arc<Counters>,
    now: Instant,
    fast_path: [FastPathCounts; Op::ALL.len()],
    /// Something is in `fast_path`.
    is_due: bool,
}

impl Meter {
    /// A meter that feeds `counters`, from `now` on.
    pub(in crate::server) fn new(counters: Arc<Counters>, now: Instant) -> Self {
        Self {
            counters,
            now,
            fast_path: [FastPathCounts::default(); Op::ALL.len()],
            is_due: false,
        }
    }

    /// A step begins.
    pub(in crate::server) fn begin_step(&mut self, now: Instant) {
        self.now = now;
    }

    /// A request was taken in and answered in this step; it was about `bytes`.
    pub(in crate::server) fn answered(&mut self, op: Op, bytes: u64) {
        let here = &mut self.fast_path[op.index()];
        here.answered += 1;
        here.bytes += bytes;
        self.is_due = true;
    }

    /// A request was taken in and answered with an error in this step.
    pub(in crate::server) fn refused(&mut self, op: Op) {
        self.fast_path[op.index()].refused += 1;
        self.is_due = true;
    }

    /// A request was taken in and waits. Each ends in [`end`](Self::end) or [`fail`](Self::fail),
    /// or with the connection.
    pub(in crate::server) fn begin(&mut self, op: Op) -> StartedRequest {
        let command = self.counters.of(op);
        command.requests.add(1);
        command.in_flight.add(1);
        StartedRequest { op, at: self.now }
    }

    /// A request that waited was carried out; it was about `bytes`.
    pub(in crate::server) fn end(&mut self, started: StartedRequest, bytes: u64) {
        self.counters.of(started.op).bytes.add(bytes);
        self.leave(started);
    }

    /// A request that waited failed.
    pub(in crate::server) fn fail(&mut self, started: StartedRequest) {
        self.counters.of(started.op).errors.add(1);
        self.leave(started);
    }

    fn leave(&self, started: StartedRequest) {
        let command = self.counters.of(started.op);
        command.in_flight.subtract(1);
        let latency = self.now.saturating_duration_since(started.at);
        command.latency().record(latency, 1);
    }

    /// The step's replies are sent. Free where nothing was answered on the fast path.
    pub(in crate::server) fn end_step(&mut self, now: Instant) {
        if self.is_due {
            self.flush(now);
        }
    }

    /// Whether [`end_step`](Self::end_step) would do something, so that a clock is worth reading.
    pub(in crate::server) const fn is_due(&self) -> bool {
        self.is_due
    }

    fn flush(&mut self, now: Instant) {
        let latency = now.saturating_duration_since(self.now);
        for op in Op::ALL {
            let here = std::mem::take(&mut self.fast_path[op.index()]);
            let requests = u64::from(here.answered) + u64::from(here.refused);
            if requests == 0 {
                continue;
            }
            let command = self.counters.of(op);
            command.requests.add(requests);
            command.errors.add(u64::from(here.refused));
            command.bytes.add(here.bytes);
            command.latency().record(latency, requests);
        }
        self.is_due = false;
    }
}

impl Drop for Meter {
    /// Requests that the connection did not answer are no longer in flight.
    fn drop(&mut self) {
        self.flush(self.now);
        for op in Op::ALL {
            let in_flight = &self.counters.of(op).in_flight;
            in_flight.subtract(in_flight.value());
        }
    }
}
