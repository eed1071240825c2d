//! [`Stall`]: ends a connection on which too little moves although the client is at turn.
//!
//! # Invariants
//!
//! * A client is shown the door only if it was at turn all the time of one whole timeout and moved
//!   less than [`PROGRESS_MIN`] in it. So a stall is found within two timeouts, a trickle too.
//! * One timer at most is armed, and it is looked at only when it fires: a busy connection pays for
//!   one timer a timeout, an idle one for none.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::End;

/// Bytes that must move within a timeout where the client stays at turn. A client that is slower
/// holds memory of the server that others wait for.
pub(super) const PROGRESS_MIN: u64 = 64 << 10;

/// Watches one connection.
pub(super) struct Stall {
    timeout: Duration,
    timer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Bytes that had moved when the timer was armed.
    progress: u64,
    /// The client owed nothing at some time since.
    was_even: bool,
}

impl Stall {
    pub(super) const fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            timer: None,
            progress: 0,
            was_even: false,
        }
    }

    /// Looks at the connection as it is now. `at_turn`: it waits for the client to send or to take
    /// bytes. `progress`: bytes moved, ever.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, at_turn: bool, progress: u64) -> Poll<End> {
        self.was_even |= !at_turn;
        loop {
            let Some(timer) = &mut self.timer else {
                if !at_turn {
                    return Poll::Pending;
                }
                self.progress = progress;
                self.was_even = false;
                self.timer = Some(Box::pin(engine::clock::sleep(self.timeout)));
                continue;
            };
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.timer = None;
            if !self.was_even && progress - self.progress < PROGRESS_MIN {
                return Poll::Ready(End::Stalled(self.timeout));
            }
        }
    }
}
