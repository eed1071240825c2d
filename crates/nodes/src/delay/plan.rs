//! How long each request waits. Pure.

use std::time::Duration;

use block::Operation;

use crate::chance::below;

/// Delays of requests, by what they ask. A delay of zero is none: such a request goes straight on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DelayTimes {
    /// Of reads.
    pub read: Duration,
    /// Of writes.
    pub write: Duration,
    /// Of flushes.
    pub flush: Duration,
    /// Of trims.
    pub trim: Duration,
    /// Of `write_zeroes`.
    pub write_zeroes: Duration,
    /// Of questions for extents.
    pub extents: Duration,
    /// Up to so much is added to each delay that is not zero.
    pub jitter: Duration,
    /// Decides how much.
    pub seed: u64,
}

impl DelayTimes {
    /// The same delay for all reads, writes, flushes, zeroes and trims.
    #[must_use]
    pub fn all(delay: Duration) -> Self {
        Self {
            read: delay,
            write: delay,
            flush: delay,
            trim: delay,
            write_zeroes: delay,
            ..Self::default()
        }
    }

    /// The delay of `operation` without jitter.
    #[must_use]
    pub const fn of(&self, operation: Operation) -> Duration {
        match operation {
            Operation::Read => self.read,
            Operation::Write => self.write,
            Operation::Flush => self.flush,
            Operation::Trim => self.trim,
            Operation::WriteZeroes => self.write_zeroes,
            Operation::Extents => self.extents,
            Operation::Measure => Duration::ZERO,
        }
    }

    /// The delay of the `n`th request, if `operation` has one. The same seed draws the same delays.
    pub(super) fn draw(&self, operation: Operation, n: u64) -> Option<Duration> {
        let delay = self.of(operation);
        if delay.is_zero() {
            return None;
        }
        let jitter = u64::try_from(self.jitter.as_nanos()).unwrap_or(u64::MAX);
        let more = below(self.seed, n, jitter.saturating_add(1));
        let more = Duration::from_nanos(more);
        Some(delay.saturating_add(more))
    }
}
