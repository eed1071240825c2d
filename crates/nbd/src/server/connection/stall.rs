//! [`Stall`]: ends a connection on which too little moves although the client is at turn.
//!
//! # Invariants
//!
//! * A client is shown the door only if it was at turn all the time of one whole timeout and moved
//!   less than [`PROGRESS_MIN`] in it. So a stall is found within two timeouts, a trickle too.
//! * While others wait for memory, a [`TICKS`]th of the timeout is enough: clients that hold memory and make
//!   no progress are disconnected first.
//! * One timer at most is armed, and it is looked at only when it fires: a busy connection pays for
//!   a few timers a timeout, an idle one for none.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::ConnectionEnd;

/// Bytes that must move within a timeout where the client stays at turn. A client that is slower
/// holds memory of the server that others wait for.
pub(super) const PROGRESS_MIN: u64 = 64 << 10;
/// A timeout is so many ticks.
pub(super) const TICKS: u32 = 6;

/// What was seen since a time.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    /// Bytes that had moved then.
    progress: u64,
    /// The client owed nothing at some time since.
    was_even: bool,
}

impl Mark {
    const fn at(progress: u64) -> Self {
        Self {
            progress,
            was_even: false,
        }
    }

    const fn is_stalled(self, progress: u64) -> bool {
        !self.was_even && progress - self.progress < PROGRESS_MIN
    }
}

/// Watches one connection.
pub(super) struct Stall {
    timeout: Duration,
    timer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Ticks since `timeout_mark`.
    ticks: u32,
    timeout_mark: Mark,
    tick_mark: Mark,
}

impl Stall {
    pub(super) fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            timer: None,
            ticks: 0,
            timeout_mark: Mark::default(),
            tick_mark: Mark::default(),
        }
    }

    /// Looks at the connection as it is now. `at_turn`: it waits for the client to send or to take
    /// bytes. `progress`: bytes moved, ever. `is_pressed`: others wait for memory.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        at_turn: bool,
        progress: u64,
        is_pressed: impl Fn() -> bool,
    ) -> Poll<ConnectionEnd> {
        self.timeout_mark.was_even |= !at_turn;
        self.tick_mark.was_even |= !at_turn;
        let tick = self.timeout / TICKS;
        loop {
            let Some(timer) = &mut self.timer else {
                if !at_turn {
                    return Poll::Pending;
                }
                if self.ticks == 0 {
                    self.timeout_mark = Mark::at(progress);
                }
                self.tick_mark = Mark::at(progress);
                self.timer = Some(Box::pin(engine::clock::sleep(tick)));
                continue;
            };
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.timer = None;
            self.ticks += 1;
            if self.tick_mark.is_stalled(progress) && is_pressed() {
                return Poll::Ready(ConnectionEnd::Stalled(tick));
            }
            if self.ticks == TICKS && self.timeout_mark.is_stalled(progress) {
                return Poll::Ready(ConnectionEnd::Stalled(self.timeout));
            }
            if self.ticks == TICKS || self.timeout_mark.was_even {
                self.ticks = 0;
            }
        }
    }
}
