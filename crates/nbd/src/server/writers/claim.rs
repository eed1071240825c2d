//! [`Claim`]: a connection's part in its client's claim, from the handshake to its end.
//!
//! Invariants: a claim is given back however a connection ends; the export's lock is not held while
//! anything is waited for; every wait has the limit that its caller gives.

use std::sync::Arc;
use std::time::Duration;

use nbd_proto::{AccessMode, ClientToken, Refusal, WriterAccess};

use super::record::Record;
use super::state::Decision;
use super::{ClaimRequest, Denied, WriteGate, store};
use crate::server::peer::Peer;
use crate::server::served_export::{ServedExport, random};

/// What a connection was granted, until it is dropped.
#[derive(Debug)]
pub(in crate::server) struct Claim {
    served: Arc<ServedExport>,
    connection: u64,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.served.release_writer(self.connection);
    }
}

impl ServedExport {
    /// Admits a client that sent its identity, by the number of its connection. `None`: it needs no claim.
    pub(in crate::server) async fn claim(
        self: &Arc<Self>,
        connection: u64,
        peer: &Peer,
        access: WriterAccess,
        limit: Duration,
    ) -> Result<Option<Claim>, Refusal> {
        if !self.takes_claims() {
            return Ok(None);
        }
        let asker = ClaimRequest::of(connection, peer, Some(access.token));
        // Made before anything is granted, so that nothing is kept that is not given back.
        let claim = Claim {
            served: self.clone(),
            connection,
        };
        let deciding = self.decide(&asker, access.mode);
        let decided = engine::clock::timeout(limit, deciding).await;
        match decided.unwrap_or(Err(Denied::Unsettled)) {
            Ok(()) => Ok(Some(claim)),
            Err(denied) => {
                self.log_refusal(peer, &denied);
                Err(Refusal::Policy(denied.to_string()))
            }
        }
    }

    /// Refuses writers from before, as if `by` had taken over and ended. Nothing where many may write.
    pub(in crate::server) async fn fence(
        self: &Arc<Self>,
        connection: u64,
        by: &str,
        limit: Duration,
    ) -> Result<(), String> {
        let access = WriterAccess {
            token: ClientToken::new(random()),
            mode: AccessMode::Takeover,
        };
        let peer = Peer::new(by, None);
        let claimed = self.claim(connection, &peer, access, limit).await;
        claimed.map(drop).map_err(|refusal| refusal.to_string())
    }

    async fn decide(&self, asker: &ClaimRequest, mode: AccessMode) -> Result<(), Denied> {
        loop {
            let changed = self.writers_changed.notified();
            tokio::pin!(changed);
            // Registered before the state is looked at, so that no change is missed.
            changed.as_mut().enable();
            let decision = self.with_writers(|writers| writers.request(asker, mode));
            match decision {
                Decision::Granted => return Ok(()),
                Decision::Denied(denied) => return Err(denied),
                Decision::Wait => changed.await,
                Decision::Load(path) => {
                    let read = path.clone();
                    let result = engine::blocking(move || store::load(&read)).await;
                    self.with_writers(|writers| writers.loaded(&path, result));
                }
                Decision::Cut(connections) => {
                    self.dismiss_all(&connections);
                    changed.await;
                }
                Decision::Commit(path, record) => {
                    // Nothing of another client may land behind the answer.
                    self.leaving().settled().await;
                    self.record(path, &record).await?;
                    self.log_writer(asker, mode, &record);
                    self.with_writers(|writers| writers.commit(asker, record));
                    self.writers_changed.notify_waiters();
                    return Ok(());
                }
            }
        }
    }

    async fn record(
        &self,
        path: Option<std::path::PathBuf>,
        record: &Record,
    ) -> Result<(), Denied> {
        let Some(path) = path else {
            return Ok(());
        };
        let record = record.clone();
        let saved = engine::blocking(move || store::save(&path, &record)).await;
        saved.map_err(Denied::Record)
    }

    fn log_writer(&self, asker: &ClaimRequest, mode: AccessMode, record: &Record) {
        let (export, peer, generation) = (self.name(), &asker.label, record.generation);
        match mode {
            AccessMode::Takeover => tracing::warn!(export, peer, generation, "took over writing"),
            _ => tracing::info!(export, peer, generation, "is the writer"),
        }
    }

    fn log_refusal(&self, peer: &Peer, denied: &Denied) {
        if self.may_log_refusal() {
            let export = self.name();
            tracing::warn!(export, peer = peer.label, "refused to write: {denied}");
        }
    }

    /// What a connection that was admitted knows of writing.
    pub(in crate::server) fn gate(
        self: &Arc<Self>,
        connection: u64,
        peer: &Peer,
        access: Option<WriterAccess>,
    ) -> WriteGate {
        match access {
            _ if !self.takes_claims() => WriteGate::open(),
            Some(access) if access.mode == AccessMode::Read => {
                WriteGate::asking(|| Err(Denied::ReadOnly.to_string()))
            }
            Some(_) => WriteGate::open(),
            None => {
                let (served, peer) = (self.clone(), peer.clone());
                WriteGate::asking(move || {
                    let asker = ClaimRequest::of(connection, &peer, None);
                    let claimed = served.with_writers(|writers| writers.write(&asker));
                    claimed.map_err(|denied| {
                        served.log_refusal(&peer, &denied);
                        denied.to_string()
                    })
                })
            }
        }
    }
}
