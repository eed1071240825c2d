//! [`BusyWait`]: looks for the next request instead of sleeping, for clients that ask one thing at a
//! time and at once.
//!
//! Falling asleep and being woken costs more than a 4 KiB request itself. A client that sends its
//! next request within microseconds of a reply is met awake: its task stays runnable for a bounded
//! time and polls the socket each turn. Other tasks of the thread run in between.
//!
//! # Invariants
//!
//! * It never waits longer than `max` behind the last request, and only for clients that recently
//!   sent requests one at a time and within `max` of each other; so a client far away costs nothing.
//! * After [`MISSES_MAX`] waits in vain it gives up until the client has shown the pattern again.

use std::time::{Duration, Instant};

/// Lone requests in a row that make the pattern.
pub(super) const STREAK_MIN: u32 = 32;
/// Waits in vain before the pattern must be shown again.
pub(super) const MISSES_MAX: u32 = 8;

/// What is known of a client's rhythm.
#[derive(Debug)]
pub(super) struct BusyWait {
    max: Duration,
    /// Lone requests in a row, each within `max` of the one before.
    streak: u32,
    misses: u32,
    last: Option<Instant>,
    waiting: bool,
}

impl BusyWait {
    /// Waits at most `max`; zero never waits.
    pub(super) const fn new(max: Duration) -> Self {
        Self {
            max,
            streak: 0,
            misses: 0,
            last: None,
            waiting: false,
        }
    }

    /// Something was received at `now`; `lone` if it was one small request and no more.
    pub(super) fn received(&mut self, lone: bool, now: Instant) {
        let near = self.last.is_some_and(|last| now - last <= self.max);
        self.streak = if lone && near {
            self.streak.saturating_add(1)
        } else {
            0
        };
        if self.waiting && near {
            self.misses = 0;
        }
        self.waiting = false;
        self.last = Some(now);
    }

    /// Nothing is there at `now`: whether to look again at once.
    pub(super) fn goes_on(&mut self, now: Instant) -> bool {
        if self.streak < STREAK_MIN {
            return false;
        }
        let near = self.last.is_some_and(|last| now - last <= self.max);
        if near {
            self.waiting = true;
            return true;
        }
        if std::mem::take(&mut self.waiting) {
            self.misses += 1;
            if self.misses >= MISSES_MAX {
                self.misses = 0;
                self.streak = 0;
            }
        }
        false
    }

    /// Whether the pattern is there, so that a clock is worth reading.
    pub(super) const fn is_likely(&self) -> bool {
        self.streak >= STREAK_MIN
    }
}
