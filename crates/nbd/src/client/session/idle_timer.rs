//! [`IdleTimer`]: whether no byte has moved for too long. Pure.

use std::time::{Duration, Instant};

/// How long no byte has moved on any connection, without the time in which the limit was suspended.
#[derive(Debug)]
pub(crate) struct IdleTimer {
    limit: Duration,
    extension_max: Duration,
    moved: Option<Instant>,
    extend: Duration,
    /// Since bytes last moved, the log has that the limit was extended.
    is_logged: bool,
}

impl IdleTimer {
    /// For a server that is called silent after `limit`, put off by `extension_max` at most.
    pub(crate) const fn new(limit: Duration, extension_max: Duration) -> Self {
        Self {
            limit,
            extension_max,
            moved: None,
            extend: Duration::ZERO,
            is_logged: false,
        }
    }

    /// Bytes last moved at `moved`.
    pub(crate) fn moved(&mut self, moved: Option<Instant>) {
        if self.moved != moved {
            self.moved = moved;
            self.extend = Duration::ZERO;
            self.is_logged = false;
        }
    }

    /// For `time` nothing had to move. Returns whether to log that: once, when the limit is over.
    pub(crate) fn extend(&mut self, time: Duration, now: Instant) -> bool {
        self.extend = self.extend.saturating_add(time).min(self.extension_max);
        let is_new = !self.is_logged && self.for_at(now) >= self.limit;
        self.is_logged |= is_new;
        is_new
    }

    /// How long nothing has moved, if that is too long.
    pub(crate) fn too_long(&self, now: Instant) -> Option<Duration> {
        let allowed = self.limit.saturating_add(self.extend);
        (self.for_at(now) >= allowed).then_some(allowed)
    }

    fn for_at(&self, now: Instant) -> Duration {
        self.moved
            .map_or(Duration::ZERO, |moved| now.duration_since(moved))
    }
}
