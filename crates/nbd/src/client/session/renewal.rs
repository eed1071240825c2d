//! New connections in good order, to see an export's new size: what is in flight is finished, the
//! old connections say goodbye, and the new ones begin as after a loss, with the journal.
//!
//! The journal is written again although nothing was lost: without `CAN_MULTI_CONN` a flush on a
//! new connection need not cover what an old one wrote.
//!
//! # Invariants
//!
//! * Of several servers, the next connections may lead to another one than those before. So the disk owes nothing when these are
//!   ended: what the server did not flush it could write later over what another one was sent. That it takes no connection any more
//!   says nothing of that, and that it closed its connections neither, since they were closed in answer to the goodbye.
//! * A server in doubt of an earlier loss keeps its connections until others are made: that it ends them, and takes none, is what ends the
//!   doubt. After a goodbye nothing would.
//! * The caller waits for what is in flight, and for what the disk owes, no longer than for the answer to a request: new requests wait
//!   behind a renewal, and a server that never answers a flush is connected to again for ever.
//! * A disk of which unflushed writes were given up keeps its connections: the next ones may lead to a server that does not have these
//!   writes, and what is read there would be stale.

use std::time::Instant;

use engine::clock;

use crate::client::session::connection::Connection;
use crate::client::session::work::{Renewal, Renewed};
use crate::client::session::{GOODBYE, Phase, Session};
use crate::client::{ClientError, Target};

impl Session {
    /// A caller wants new connections; there is one such caller at a time.
    pub(super) fn wants_renewal(&mut self, answer_to: Renewed, now: Instant) {
        let target = self.target.clone();
        match &self.phase {
            Phase::Dead(why) => answer(answer_to, Err((**why).clone())),
            _ if self.closing.is_some() => answer(answer_to, Err(ClientError::ShutDown { target })),
            _ => {
                self.renewal = Some(Renewal {
                    since: now,
                    answer_to,
                });
            }
        }
    }

    /// Goes on to new connections once nothing is in flight on the old ones.
    pub(super) fn renew(&mut self, now: Instant) {
        if self.pool.has_in_flight() {
            self.limit_renewal(now);
            return;
        }
        if self.unflushed.journal().given_up() > 0 {
            let target = self.target.clone();
            self.renewal_over(Err(ClientError::FlushFailed { target }));
            return;
        }
        // Nor would a disk be recognized otherwise that nothing identifies.
        let owes_nothing_first = self.servers.has_several() || !self.known.is_recognizable();
        if owes_nothing_first && self.unflushed.journal().len() > 0 {
            if !self.unflushed.has_own_flush() {
                self.push_own_flush(now);
            }
            self.limit_renewal(now);
            return;
        }
        tracing::info!(target = %self.target, "reconnecting to use the new size of the export");
        if self.servers.has_doubt() {
            drop(self.abandon_connections(now));
        } else {
            let incarnation = self.pool.incarnation();
            for connection in self.pool.take() {
                drop(engine::spawn(say_goodbye(self.target.clone(), connection)));
            }
            // Their end follows from the goodbye, and is no evidence of the end of the server.
            self.abandoned.forget();
            self.abandoned.replace(Vec::new(), incarnation, true);
            self.servers
                .lost(0, self.unflushed.journal().unflushed(), now);
        }
        self.phase = Phase::Lost;
        self.redial(now);
    }

    /// Gives the renewal up if it has waited for too long. The connections go on as they are.
    fn limit_renewal(&mut self, now: Instant) {
        let Some(renewal) = &self.renewal else {
            return;
        };
        let after = now.saturating_duration_since(renewal.since);
        if after >= self.config.request_timeout {
            let target = self.target.clone();
            self.renewal_over(Err(ClientError::NotRenewed { target, after }));
        }
    }

    /// Answers the caller that waits for new connections.
    pub(super) fn renewal_over(&mut self, result: Result<(), ClientError>) {
        if let Some(renewal) = self.renewal.take() {
            answer(
                renewal.answer_to,
                result.map(|()| self.shared.geometry().size),
            );
        }
    }

    /// The export may have grown since it was last checked: `size` is what every connection has.
    pub(super) fn grow(&mut self, size: u64) {
        if size <= self.export.size {
            return;
        }
        let was = self.export.size;
        self.export.size = size;
        if self.shared.grow(size) {
            tracing::info!(target = %self.target, was, is = size, "the export has grown");
        }
    }
}

/// Says goodbye on a connection without anything in flight.
pub(super) async fn say_goodbye(target: Target, connection: Connection) {
    let goodbye = clock::timeout(GOODBYE, connection.disconnect()).await;
    if !matches!(goodbye, Ok(Ok(()))) {
        tracing::debug!(%target, "no goodbye: the server does not end the connection");
    }
}

/// A caller that no longer waits has dropped its end.
fn answer(caller: Renewed, result: Result<u64, ClientError>) {
    drop(caller.send(result));
}
