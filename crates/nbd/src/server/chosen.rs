//! [`Chosen`]: a client's hold on the disk that was opened for it alone, from the handshake to its end.
//!
//! # Invariants
//!
//! * However a connection ends, the hold is given back, and the disk closed behind the last
//!   one, before its task ends: a stop waits for that.

use std::sync::Arc;
use std::time::Duration;

use nbd_proto::{Refusal, WriterAccess};

use super::client_disks::{Lease, NotClosed, RETURN_TIME};
use super::control::ServerCore;
use super::peer::Peer;
use super::served_export::ServedExport;
use super::writers::Claim;

/// What a client chose, if it is an export with a disk for each client.
#[derive(Debug)]
pub(super) struct Chosen {
    limit: Duration,
    /// How long a claim may take.
    claim_limit: Duration,
    /// The number of its connection.
    connection: u64,
    held: Option<(Arc<ServedExport>, Lease)>,
    claim: Option<Claim>,
}

impl Chosen {
    pub(super) fn new(core: &ServerCore) -> Self {
        Self {
            limit: core.limits.stop_timeout,
            // The handshake goes on behind it.
            claim_limit: core.limits.handshake_timeout.mul_f32(0.8),
            connection: core.next_id(),
            held: None,
            claim: None,
        }
    }

    /// Holds the disk of `peer` at `served`, if it has one of its own there, instead of what it held.
    pub(super) async fn choose(
        &mut self,
        served: &Arc<ServedExport>,
        peer: &Peer,
    ) -> Result<Option<&Lease>, Refusal> {
        self.leave(true).await;
        if let Some(lease) = served.lease(peer).await? {
            self.held = Some((served.clone(), lease));
        }
        Ok(self.held.as_ref().map(|(_, lease)| lease))
    }

    /// Claims `served` for a client that sent its identity, if the export takes claims.
    pub(super) async fn claim(
        &mut self,
        served: &Arc<ServedExport>,
        peer: &Peer,
        access: WriterAccess,
    ) -> Result<(), Refusal> {
        let limit = self.claim_limit;
        let claimed = Box::pin(served.claim(self.connection, peer, access, limit));
        self.claim = claimed.await?;
        Ok(())
    }

    /// The number of its connection.
    pub(super) const fn connection(&self) -> u64 {
        self.connection
    }

    /// What is held, and at which export.
    pub(super) const fn held(&self) -> Option<(&Arc<ServedExport>, &Lease)> {
        match &self.held {
            Some((served, lease)) => Some((served, lease)),
            None => None,
        }
    }

    /// Gives it back. `said_goodbye`: the client is not going to come back for what it had.
    pub(super) async fn leave(&mut self, said_goodbye: bool) {
        self.claim = None;
        let Some((served, lease)) = self.held.take() else {
            return;
        };
        let (export, client) = (served.name(), lease.name().to_string());
        match lease.leave(said_goodbye, self.limit).await {
            Ok(()) => {}
            Err(NotClosed::Flush(e)) => {
                tracing::error!(export, client, "its disk was not flushed at its end: {e}");
            }
            Err(NotClosed::Timeout(limit)) => {
                tracing::error!(
                    export,
                    client,
                    "its disk did not answer within {limit:?} at its end; what was written since the \
                     last flush may be lost"
                );
            }
        }
        if served.prune() {
            // An older image stays open no longer than its clients may reconnect.
            let served = Arc::downgrade(&served);
            drop(engine::spawn(async move {
                engine::clock::sleep(RETURN_TIME).await;
                served.upgrade().map(|served| served.prune());
            }));
        }
    }
}
