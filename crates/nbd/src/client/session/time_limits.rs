//! Every limit of time: whether the server is there, slow, or gone.
//!
//! A flush takes as long as the server's disk needs for what its caches hold: minutes for a GiB on an
//! SD card. Meanwhile that disk is slow for reads and writes too, and many a server takes nothing else
//! up. To come back to such a server gains nothing, and has it flush once more. So while a request is
//! waited for that may take long, the limits are suspended for all of them, on whichever connection.
//!
//! # Invariants
//!
//! * Every request ends: the limits are suspended for no longer than
//!   [`flush_timeout`](crate::client::ClientConfig::flush_timeout) in all for one request, and for one
//!   silence.
//! * Limits are not suspended for a machine that is gone: TCP probes it, and gives up after the same limit
//!   as for any request.
//!
//! # What it does not do
//!
//! While a flush is waited for, it cannot distinguish a server that hangs from one whose disk is slow.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use block::Errno;
use engine::clock;

use crate::client::ClientError;
#[cfg(test)]
use crate::client::session::mutation::{self, Mutation};
use crate::client::session::work::Part;
use crate::client::session::{Phase, Session};

/// Looks at the clock while something is outstanding.
const TICK_MIN: Duration = Duration::from_millis(10);
const TICK_MAX: Duration = Duration::from_millis(500);

/// When the limits are checked next. It runs while something is outstanding.
pub(super) struct LimitTimer {
    /// When they were last checked, or began to be.
    checked: Instant,
    next: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl LimitTimer {
    pub(super) const fn new(now: Instant) -> Self {
        let next = None;
        Self { checked: now, next }
    }

    /// Ready when the limits are to be checked.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(next) = &mut self.next else {
            return Poll::Pending;
        };
        let is_due = next.as_mut().poll(cx);
        if is_due.is_ready() {
            self.next = None;
        }
        is_due
    }

    /// Time since the last check.
    fn passed(&self, now: Instant) -> Duration {
        now.duration_since(self.checked)
    }

    /// Sets the next check, if none is set. `shortest` is the shortest limit.
    fn arm(&mut self, shortest: Duration, now: Instant) {
        if self.next.is_none() {
            self.checked = now;
            let tick = (shortest / 8).clamp(TICK_MIN, TICK_MAX);
            self.next = Some(Box::pin(clock::sleep(tick)));
        }
    }
}

impl Session {
    /// Looks at every limit of time.
    pub(super) fn check_time(&mut self, now: Instant) {
        self.extend(now);
        if let Some(error) = self.overdue(now) {
            self.lose(error, now);
        }
        self.fail_if_gone(now);
        let limit = self.config.request_timeout;
        let closing = self.closing.as_ref();
        if closing.is_some_and(|closing| now.duration_since(closing.since) >= limit) {
            drop(self.pool.take());
            self.fail_all(Errno::ShuttingDown, |target| ClientError::ShutDown {
                target,
            });
        }
    }

    /// Puts everything off by the time since the last look, where a request may take long.
    fn extend(&mut self, now: Instant) {
        self.idle_timer.moved(self.pool.last_progress());
        // One that is to be sent again may still be what the server's disk is busy with.
        let waits_long = self.pool.waits_long() || self.resend.iter().any(Part::may_take_long);
        if !waits_long {
            return;
        }
        let passed = self.limit_timer.passed(now);
        self.pool.extend(passed);
        if self.idle_timer.extend(passed, now) {
            let after = self.config.request_timeout.as_secs_f64();
            tracing::warn!(
                target = %self.target,
                "nothing moved for {after} s; a flush is waited for, or what may take as long"
            );
        }
    }

    /// Why the connections are to be given up, if a limit has passed.
    fn overdue(&mut self, now: Instant) -> Option<ClientError> {
        #[cfg(test)]
        if mutation::is_on(Mutation::NoTimeLimits) {
            return None;
        }
        let limit = self.config.request_timeout;
        let unheard = self
            .pool
            .unheard_for(now)
            .filter(|unheard| *unheard >= limit);
        let target = || self.target.clone();
        if let Some(after) = unheard {
            return Some(ClientError::Unheard {
                target: target(),
                after,
            });
        }
        // A server that works off what one connection sent may leave the others waiting: it is silent
        // where nothing moves on any of them.
        if self.pool.has_in_flight()
            && let Some(after) = self.idle_timer.too_long(now)
        {
            return Some(ClientError::Silent {
                target: target(),
                after,
            });
        }
        self.pool.is_overdue(now).then(|| ClientError::Unanswered {
            target: target(),
            after: limit,
        })
    }

    pub(super) fn arm_timer(&mut self, now: Instant) {
        let idle = self.jobs.is_empty()
            && !self.unflushed.has_own_flush()
            && self.renewal.is_none()
            && self.closing.is_none()
            && matches!(self.phase, Phase::Ready | Phase::Dead(_));
        if !idle {
            let shortest = self.config.request_timeout.min(self.config.reconnect_for);
            self.limit_timer.arm(shortest, now);
        }
    }
}
