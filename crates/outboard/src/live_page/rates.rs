//! [`Rates`]: what was done between two snapshots of counters. Pure.
//!
//! # Invariants
//!
//! * Counters that restarted (an export that got another disk) give rates of what they have counted since, never
//!   negative ones.

use std::time::Duration;

use nbd::server::{CommandFigures, Figures, Op};
use serde::Serialize;

/// The counters that rates are made of.
#[derive(Debug, Clone)]
pub(super) struct RateCounters {
    reads: u64,
    writes: u64,
    read_bytes: u64,
    written_bytes: u64,
    /// Answered requests of all commands by latency.
    answered: CommandFigures,
}

/// What was done in a second, and how fast it was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Rates {
    /// Reads a second.
    pub(super) reads: u64,
    /// Writes a second.
    pub(super) writes: u64,
    /// Bytes read a second.
    pub(super) read_bytes: u64,
    /// Bytes written a second.
    pub(super) written_bytes: u64,
    /// Microseconds within which half of the requests were answered, at most; `None`: none was answered.
    pub(super) p50_us: Option<u64>,
    /// The same for 99 of 100.
    pub(super) p99_us: Option<u64>,
}

impl RateCounters {
    /// Those of these figures.
    pub(super) fn of(figures: &Figures) -> Self {
        let find = |op: Op| figures.commands.iter().find(|one| one.command == op);
        let requests = |op: Op| find(op).map_or(0, |one| one.requests);
        let bytes = |op: Op| find(op).map_or(0, |one| one.bytes);
        Self {
            reads: requests(Op::Read),
            writes: requests(Op::Write),
            read_bytes: bytes(Op::Read),
            written_bytes: bytes(Op::Write),
            answered: figures.total(),
        }
    }

    /// Whether these count from zero, and `before` did not.
    pub(super) const fn is_restart_of(&self, before: &Self) -> bool {
        before.answered.requests > self.answered.requests
    }

    /// What was done since `before`, over `interval`.
    pub(super) fn rates_since(&self, before: &Self, interval: Duration) -> Rates {
        let millis = u64::try_from(interval.as_millis())
            .unwrap_or(u64::MAX)
            .max(1);
        let rate = |now: u64, before: u64| {
            let done = now.checked_sub(before).unwrap_or(now);
            done.saturating_mul(1000) / millis
        };
        let mut answered = self.answered.clone();
        let is_restarted = self.is_restart_of(before);
        for (ours, theirs) in answered.latency.iter_mut().zip(&before.answered.latency) {
            if !is_restarted {
                *ours = ours.saturating_sub(*theirs);
            }
        }
        let within = |percent| {
            let found: Duration = answered.percentile(percent)?;
            u64::try_from(found.as_micros()).ok()
        };
        let is_idle = answered.latency.iter().all(|&count| count == 0);
        Rates {
            reads: rate(self.reads, before.reads),
            writes: rate(self.writes, before.writes),
            read_bytes: rate(self.read_bytes, before.read_bytes),
            written_bytes: rate(self.written_bytes, before.written_bytes),
            p50_us: within(50).filter(|_| !is_idle),
            p99_us: within(99).filter(|_| !is_idle),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of rates between two sets of counters.

    use super::*;

    fn counters(reads: u64, bytes: u64, latency: &[(usize, u64)]) -> RateCounters {
        let mut read = CommandFigures::none(Op::Read);
        (read.requests, read.bytes) = (reads, bytes);
        for &(bucket, count) in latency {
            read.latency[bucket] = count;
        }
        let commands = vec![read];
        RateCounters::of(&Figures { commands })
    }

    #[test]
    fn rates_are_of_the_interval_alone() {
        let before = counters(1000, 1 << 20, &[(20, 1000)]);
        let now = counters(1300, 2 << 20, &[(2, 297), (5, 3), (20, 1000)]);
        let rates = now.rates_since(&before, Duration::from_millis(500));
        assert_eq!((rates.reads, rates.read_bytes), (600, 2 << 20));
        assert_eq!((rates.writes, rates.written_bytes), (0, 0));
        // Limits of the buckets: 2^12 ns, and 297 of 300 are 99 %.
        assert_eq!((rates.p50_us, rates.p99_us), (Some(4), Some(4)));
    }

    #[test]
    fn an_idle_interval_has_no_latency() {
        let counters = counters(1000, 1 << 20, &[(20, 1000)]);
        let rates = counters.rates_since(&counters, Duration::from_secs(1));
        assert_eq!((rates.reads, rates.p50_us, rates.p99_us), (0, None, None));
    }

    #[test]
    fn counters_that_restarted_count_from_zero() {
        let before = counters(1000, 1 << 20, &[(20, 1000)]);
        let now = counters(10, 4096, &[(3, 10)]);
        let rates = now.rates_since(&before, Duration::from_secs(1));
        assert_eq!((rates.reads, rates.read_bytes), (10, 4096));
        assert_eq!(rates.p50_us, Some(8));
    }
}
