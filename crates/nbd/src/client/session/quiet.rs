//! [`Quiet`]: whether no byte has moved for too long. Pure.

use std::time::{Duration, Instant};

/// How long no byte has moved on any connection, without the time that stood still.
#[derive(Debug)]
pub(crate) struct Quiet {
    limit: Duration,
    put_off_max: Duration,
    moved: Option<Instant>,
    put_off: Duration,
    /// It was told since bytes last moved that the limit was put off.
    is_told: bool,
}

impl Quiet {
    /// For a server that is called silent after `limit`, put off by `put_off_max` at most.
    pub(crate) const fn new(limit: Duration, put_off_max: Duration) -> Self {
        Self {
            limit,
            put_off_max,
            moved: None,
            put_off: Duration::ZERO,
            is_told: false,
        }
    }

    /// Bytes last moved at `moved`.
    pub(crate) fn moved(&mut self, moved: Option<Instant>) {
        if self.moved != moved {
            self.moved = moved;
            self.put_off = Duration::ZERO;
            self.is_told = false;
        }
    }

    /// For `time` nothing had to move. Whether that is worth to be told: once, when the limit is over.
    pub(crate) fn put_off(&mut self, time: Duration, now: Instant) -> bool {
        self.put_off = self.put_off.saturating_add(time).min(self.put_off_max);
        let is_new = !self.is_told && self.for_at(now) >= self.limit;
        self.is_told |= is_new;
        is_new
    }

    /// How long nothing has moved, if that is too long.
    pub(crate) fn too_long(&self, now: Instant) -> Option<Duration> {
        let allowed = self.limit.saturating_add(self.put_off);
        (self.for_at(now) >= allowed).then_some(allowed)
    }

    fn for_at(&self, now: Instant) -> Duration {
        self.moved
            .map_or(Duration::ZERO, |moved| now.duration_since(moved))
    }
}
