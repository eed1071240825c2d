//! The greeting of a server: whether its program gets a processor, seen by the time that it takes to send the first bytes
//! of a new connection. Pure.
//!
//! A server sends them without a look at its disk. One that its quota has stopped, or that waits for a core, sends them late;
//! one that waits for its disk sends them at once. The wire has no part in a wait that a connect does not have.
//!
//! # What it does not do
//!
//! * Greetings that are prompt are no proof of a processor with time to spare: another thread than the one that serves the
//!   target may send them. They count only where the target takes so little of any processor that no thread of a server is
//!   busy with it.
//! * Late ones prove nothing: a server that waits for a core each time that its disk has answered may wait for its disk most
//!   of the time.

use super::{Examination, Stage};
use crate::units::Nanos;

/// Up to so many times an idle connect and by this much longer, a greeting is prompt: each is one packet there and back.
const PROMPT_TIMES: f64 = 1.5;
/// See [`PROMPT_TIMES`].
const PROMPT_BY: Nanos = Nanos(1_500_000);
/// A server's processor carries at least this part of what a null export of ours carries on this machine: it may be ten times
/// slower, and its disk may cost it four times as much as the protocol.
const SLOWEST: f64 = 1.0 / 40.0;

/// The time of a greeting while the target is measured, and that of an idle connect.
fn times(examination: &Examination) -> Option<(Nanos, Nanos)> {
    let connect = examination.connect.as_ref()?;
    Some((examination.greeting?, connect.idle))
}

fn is_prompt((greeting, connect): (Nanos, Nanos)) -> bool {
    greeting.0 as f64 <= connect.0 as f64 * PROMPT_TIMES + PROMPT_BY.0 as f64
}

/// Whether the processor of the server may limit the target, although it is not seen.
pub(super) fn may_be_busy(examination: &Examination) -> bool {
    let is_prompt = times(examination).is_some_and(is_prompt);
    let null = examination.bounds.iter().find(|bound| {
        // A null export of ours on this machine: processor time of both ends, and nothing else.
        bound.part == Stage::Protocol && !bound.is_an_end()
    });
    let is_slow = null.is_some_and(|null| examination.rate.0 <= null.rate.0 * SLOWEST);
    !(is_prompt && is_slow)
}
