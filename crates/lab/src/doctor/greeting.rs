//! [`GreetingTimes`]: whether the server's program gets a processor, seen by the time that it takes to send the first bytes
//! of a new connection. Pure.
//!
//! A server sends them without a look at its disk. One that its quota has stopped, or that waits for a core, sends them late;
//! one that waits for its disk sends them at once. The wire has no part in a wait that a connect does not have.
//!
//! # What it does not do
//!
//! Greetings that are prompt are no proof of a processor with time to spare: another thread than the one that serves the
//! target may send them. They count only where the target takes so little of any processor that no thread of a server is
//! busy with it.

use serde::{Deserialize, Serialize};

use super::suspects::has_processor;
use super::{Examination, Stage, wire};
use crate::units::Nanos;

/// Up to so many times the time when idle and by this much longer, a greeting is prompt.
const PROMPT_TIMES: f64 = 1.5;
/// See [`PROMPT_TIMES`].
const PROMPT_BY: Nanos = Nanos(1_000_000);
/// So many times the time when idle, and a greeting is late.
const LATE_TIMES: u64 = 4;
/// And by this much longer: less is the noise of two kernels.
const LATE_BY: Nanos = Nanos(5_000_000);
/// A server's processor carries at least this part of what a null export of ours carries on this machine: it may be ten times
/// slower, and its disk may cost it four times as much as the protocol.
const SLOWEST: f64 = 1.0 / 40.0;

/// The times from a connect until the server's first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GreetingTimes {
    /// The middle when nothing else is in flight.
    pub idle: Nanos,
    /// The middle while the target is measured.
    pub loaded: Nanos,
}

impl GreetingTimes {
    /// Of the times that were measured; none where there are none of one kind.
    #[must_use]
    pub fn new(mut idle: Vec<Nanos>, mut loaded: Vec<Nanos>) -> Option<Self> {
        idle.sort_unstable();
        loaded.sort_unstable();
        Some(Self {
            idle: *idle.get(idle.len() / 2)?,
            loaded: *loaded.get(loaded.len() / 2)?,
        })
    }

    fn is_prompt(&self) -> bool {
        self.loaded.0 as f64 <= self.idle.0 as f64 * PROMPT_TIMES + PROMPT_BY.0 as f64
    }

    fn is_late(&self) -> bool {
        let by = self.loaded.0.saturating_sub(self.idle.0);
        self.loaded.0 >= self.idle.0 * LATE_TIMES && by >= LATE_BY.0
    }

    /// What a late greeting is reported by.
    pub(super) fn text(&self) -> String {
        format!(
            "The server's program gets too little of a processor: its first bytes of a new connection take {} meanwhile, and \
             {} when nothing else is asked of it. Connecting, which its kernel answers by itself, does not take longer.",
            self.loaded, self.idle
        )
    }
}

/// Whether the processor of the server may limit the target, although it is not seen.
pub(super) fn may_be_busy(examination: &Examination) -> bool {
    let is_prompt = examination.greeting.is_some_and(|times| times.is_prompt());
    let null = examination.bounds.iter().find(|bound| {
        // A null export of ours on this machine: processor time of both ends, and nothing else.
        bound.part == Stage::Protocol && !bound.is_an_end()
    });
    let is_slow = null.is_some_and(|null| examination.rate.0 <= null.rate.0 * SLOWEST);
    !(is_prompt && is_slow)
}

/// Whether one of our own servers, of which the processor is not seen, waits for it: such a server greets without a wait for
/// its disk.
pub(super) fn is_late(examination: &Examination) -> bool {
    let is_seen = has_processor(examination, Stage::Server);
    let times = examination
        .greeting
        .filter(|_| examination.is_own_server && !is_seen);
    wire::has_empty_queue(examination) && times.is_some_and(|times| times.is_late())
}
