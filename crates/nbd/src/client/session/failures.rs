//! What a failure that a caller saw means for everything after it.
//!
//! # Invariants
//!
//! * **A failed flush stays failed**: once a flush was reported as failed, for any reason, none succeeds. So it
//!   is for a durable write (FUA) that failed after the server took it up: it was a write and a flush. A flush that was in
//!   flight with it fails, too, whichever reply arrives first (`flush_order`).
//! * **A timeout ends the past.** When a request is failed because of time, nothing of before is sent again, neither
//!   it nor the journal, and no flush succeeds any more. A read that timed out while nothing waited for a flush ended nothing: there
//!   was nothing to send.
//! * **Nothing stale is read.** Where acknowledged writes were given up that the server may have lost, every request
//!   fails until the disk is opened again. That is so when a timeout gives up a journal, when the server
//!   refuses a journal, and when a server is lost after a failed flush, because the journal keeps nothing from then on.
//!
//! A disk that only failed a write or a flush goes on with reads and new writes, as a local one does.

use std::sync::Arc;
use std::time::Instant;

use block::Errno;
use nbd_proto::{CommandFlags, WireError};

#[cfg(test)]
use crate::client::session::mutation::{self, Mutation};
use crate::client::session::work::{Body, Part, Work};
use crate::client::session::{Phase, Session, failure};
use crate::client::{ClientError, Target};

impl Session {
    /// No flush will succeed any more.
    pub(super) fn flush_failed(&mut self) {
        #[cfg(test)]
        if mutation::is_on(Mutation::FailedFlushIsForgotten) {
            return;
        }
        if self.unflushed.fail() {
            tracing::error!(target = %self.target, "a flush failed: written data may be lost");
        }
    }

    /// A request of a caller failed because of `why`, which is time. `matters`: it was a change or a flush.
    pub(super) fn timed_out(&mut self, matters: bool, why: &ClientError, now: Instant) {
        #[cfg(test)]
        if mutation::is_on(Mutation::TimeoutKeepsThePast) {
            return;
        }
        if matters || self.unflushed.journal().unflushed() > 0 {
            self.flush_failed();
        }
        self.die_if_writes_are_lost(why, now);
    }

    /// Ends the disk if acknowledged writes were given up that a server which was lost because of `why` may
    /// not have any more. Whether it did.
    pub(super) fn die_if_writes_are_lost(&mut self, why: &ClientError, now: Instant) -> bool {
        let writes = self.unflushed.journal().given_up();
        if writes == 0 {
            return false;
        }
        let error = ClientError::LostWrites {
            target: self.target.clone(),
            writes,
            why: Box::new(why.clone()),
        };
        self.die(error, now);
        true
    }

    /// No I/O any more.
    pub(super) fn die(&mut self, error: ClientError, now: Instant) {
        if matches!(self.phase, Phase::Dead(_)) {
            return;
        }
        tracing::error!("{error}");
        self.note_error(error.clone(), now);
        self.unflushed.fail();
        self.reconnect.cancel();
        self.drop_parts();
        self.fail_all(Errno::Io, |_| error.clone());
        self.renewal_over(Err(error.clone()));
        self.phase = Phase::Dead(Arc::new(error));
    }

    /// Why requests fail at once, if the server has been away for longer than they wait.
    pub(super) fn gone(&self, now: Instant) -> Option<Arc<ClientError>> {
        let outage = self.reconnect.outage()?;
        let after = now.duration_since(outage.since);
        let waits = !matches!(self.phase, Phase::Lost) || after < self.config.reconnect_for;
        (!waits).then(|| {
            Arc::new(ClientError::Gone {
                after,
                last: Box::new(outage.last.clone()),
            })
        })
    }

    /// Fails what waits for a server that has been gone for longer than requests wait.
    pub(super) fn fail_if_gone(&mut self, now: Instant) {
        let Some(gone) = self.gone(now) else {
            return;
        };
        if !self.jobs.is_empty() {
            let matters = self.jobs.iter().any(Work::is_change_or_flush);
            self.fail_all(Errno::Io, |_| (*gone).clone());
            self.timed_out(matters, &gone, now);
        }
        self.renewal_over(Err((*gone).clone()));
    }

    /// Fails every request of a caller. Without connections, so that no part of one is out.
    pub(super) fn fail_all(&mut self, errno: Errno, error: impl Fn(Target) -> ClientError) {
        if self.jobs.is_empty() {
            return;
        }
        self.drop_parts();
        let why = Arc::new(error(self.target.clone()));
        let mut a_flush = false;
        self.jobs.fail_all(|work, range| {
            a_flush |= matches!(work, Work::Flush);
            failure(errno, work, range, Arc::clone(&why))
        });
        #[cfg(test)]
        if mutation::is_on(Mutation::TimeoutKeepsThePast) {
            return;
        }
        if a_flush {
            self.flush_failed();
        }
    }

    /// Drops every connection, and all parts that were to be sent again.
    pub(super) fn drop_parts(&mut self) {
        drop(self.pool.abandon());
        self.abandoned.reset();
        self.resend.clear();
        self.unflushed.drop_in_flight();
    }
}

/// Whether `error` to `part` means that what was written before may not be durable. A durable write that the server
/// refused as such was not even begun.
pub(super) fn spoils_flushes(part: &Part, error: WireError) -> bool {
    let refused = matches!(
        error,
        WireError::Permission | WireError::Invalid | WireError::NotSupported | WireError::Overflow
    );
    match part.body {
        Body::Flush { .. } => true,
        _ => part.flags.contains(CommandFlags::FUA) && !refused,
    }
}
