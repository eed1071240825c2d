//! [`ConnectTimes`]: the queue in front of a wire, seen by what a server's program has no part in: the time of a
//! connect. Pure.
//!
//! A wire that is full makes every packet wait in its queue, also those that a kernel answers by itself; a server that is
//! busy lets its kernel answer at once. Each reply of the server's own occupies the wire for a while, too, so that many
//! connects wait for one although the wire has room. Therefore the fastest fifth of them counts: it waits only
//! where the queue is never empty, and for longer than a part of one reply.
//!
//! # What it does not do
//!
//! No wait is no proof of a wire with room: fair queueing (`fq_codel`, `cake`) lets a connect pass a full queue.

use serde::{Deserialize, Serialize};

use super::DoctorJob;
use crate::units::{Nanos, Rate};

/// So many times the time when idle, and the queue is never empty.
const FULL_TIMES: u64 = 4;
/// And by this much longer: less is the noise of two kernels.
const FULL_BY: Nanos = Nanos(2_000_000);
/// And by this part of the time that one reply of the target's occupies the wire.
const FULL_REPLIES: f64 = 0.5;
/// Of a large reply, no more than this is ever in the queue.
const FULL_REPLY_MAX: f64 = 6e6;
/// Up to so many times the time when idle and by this much longer, nothing waits.
const CLEAR_TIMES: f64 = 1.5;
/// See [`CLEAR_TIMES`].
const CLEAR_BY: Nanos = Nanos(300_000);
/// And by this part of the time that one reply occupies the wire: of a wire that is in use nine tenths of the time, the fastest
/// fifth waits for a tenth of one reply.
const CLEAR_REPLIES: f64 = 0.12;
/// Of the times that were measured, one in so many is faster than the one that counts.
const FASTEST: usize = 5;

/// The times that connecting to the server takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectTimes {
    /// The middle when nothing else is in flight.
    pub idle: Nanos,
    /// While the target is measured: the time that the fastest fifth takes at most.
    pub loaded: Nanos,
}

impl ConnectTimes {
    /// Of the times that were measured; none where there are none of one kind.
    #[must_use]
    pub fn new(idle: Vec<Nanos>, mut loaded: Vec<Nanos>) -> Option<Self> {
        loaded.sort_unstable();
        let fifth = loaded.len() / FASTEST;
        Some(Self {
            idle: Nanos::middle(idle)?,
            loaded: *loaded.get(fifth)?,
        })
    }

    /// Whether packets wait in front of the wire all the time, with the target at `rate`.
    pub(super) fn is_full(&self, job: &DoctorJob, rate: Rate) -> bool {
        let by = self.loaded.0.saturating_sub(self.idle.0);
        let reply = Nanos::of_transfer(job.block_size, rate);
        self.loaded.0 >= self.idle.0 * FULL_TIMES
            && by >= FULL_BY.0
            && by as f64 >= (reply.0 as f64 * FULL_REPLIES).min(FULL_REPLY_MAX)
    }

    /// Whether packets find the wire's queue empty much of the time, with the target at `rate`.
    pub(super) fn is_clear(&self, job: &DoctorJob, rate: Rate) -> bool {
        let reply = Nanos::of_transfer(job.block_size, rate).0 as f64;
        let by = (reply * CLEAR_REPLIES).min(FULL_REPLY_MAX / 2.0);
        let most = self.idle.0 as f64 * CLEAR_TIMES + CLEAR_BY.0 as f64;
        self.loaded.0 as f64 <= most + by
    }

    /// What a full queue is reported by.
    pub(super) fn text(&self) -> String {
        format!(
            "Packets wait in front of the wire: connecting, which the other end's kernel answers by itself, takes {} and \
             more meanwhile, and {} when nothing else goes over it.",
            self.loaded, self.idle
        )
    }
}
