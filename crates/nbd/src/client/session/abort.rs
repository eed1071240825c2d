//! The end of a session at once, for a disk that must not be touched any more.
//!
//! # Invariants
//!
//! * Nothing is sent after it: no request that waited, none that a lost connection would have been
//!   sent again for, nothing of the journal, no goodbye. What the sockets had not sent they forget
//!   (TCP).
//!
//! # What it does not do
//!
//! It takes nothing back: what the server's machine has received it may still carry out.

use std::time::Instant;

use block::Errno;
use tokio::sync::oneshot;

use crate::client::ClientError;
use crate::client::session::{Closing, Phase, Session};

/// Dropped when it is done, which is the answer.
pub(in crate::client) type Aborted = oneshot::Sender<()>;

impl Session {
    /// Gives up everything.
    pub(super) fn abort(&mut self, aborted: Aborted, now: Instant) {
        tracing::info!(target = %self.target, in_flight = self.jobs.len(), "given up");
        self.reconnect.cancel();
        drop(self.pool.abandon());
        self.abandoned.reset();
        self.phase = Phase::Lost;
        self.unflushed.journal_mut().give_up();
        let shut_down = |target| ClientError::ShutDown { target };
        self.fail_all(Errno::ShuttingDown, shut_down);
        self.renewal_over(Err(shut_down(self.target.clone())));
        let closing = self.closing.get_or_insert_with(|| Closing {
            since: now,
            done: Vec::new(),
        });
        closing.done.push(aborted);
    }
}
