//! [`ExportSelection`]: the export that a client selected in its handshake, with its hold on a disk: a lease on one of its own, or the
//! disk of an export that stands by (`standby.rs`).
//!
//! # How the certificate of a client selects its overlay
//!
//! 1. `tls/certificate_name.rs` reads the name from the verified certificate, `handshake.rs` stores it as
//!    [`Peer::certificate_name`].
//! 2. [`ServedExport::lease`], here, has the export's [`DiskPerClient`](super::DiskPerClient) turn the peer
//!    into a [`ClientName`], by the rules in `client_disks/client_name.rs`.
//! 3. `ClientDisks::acquire` (`client_disks/mod.rs`) opens the disk of that name, or joins the connections
//!    that have it open. The overlay in a file is made by `PerClient` of the command `serve`
//!    (`outboard/src/commands/serve/per_client/mod.rs`).
//!
//! The storage of such disks may fence other servers ([`DiskFence`](super::DiskFence)). Their identity is known when they are open, and a client
//! has to know it before it sends anything: [`ExportSelection::prepare`] takes these steps for the query of a client that is going to use the
//! export, and [`ExportSelection::select`] keeps the hold at its `GO`.
//!
//! # Invariants
//!
//! * However a connection ends, the hold is given back, and the disk closed behind the last
//!   one, before its task ends: a stop waits for that.
//! * What the client learned of the disk in its query is true of the disk at its `GO`: the hold is the same one, and is confirmed again;
//!   a disk that was lost meanwhile is not opened again, because it may be another one.

use std::sync::Arc;
use std::time::Duration;

use block::Node;
use engine::InFlight;
use nbd_proto::{AccessMode, DiskIdentity, Refusal, WriterAccess};

use super::client_disks::{CannotOpen, ClientDisks, ClientName, Lease, NotClosed, RETURN_TIME};
use super::control::ServerCore;
use super::peer::Peer;
use super::served_export::ServedExport;
use super::standby::StandbyHold;
use super::writers::Claim;

/// A disk that is not simply the one for all.
#[derive(Debug)]
pub(super) enum HeldDisk {
    /// One of the client's own.
    Own(Lease),
    /// That of an export that stands by.
    Standby(StandbyHold),
}

impl HeldDisk {
    pub(super) fn disk(&self) -> &Node {
        match self {
            Self::Own(lease) => lease.disk(),
            Self::Standby(hold) => &hold.disk,
        }
    }

    /// Connections to it that wait for the disk only.
    pub(super) fn leaving(&self) -> &InFlight {
        match self {
            Self::Own(lease) => lease.leaving(),
            Self::Standby(hold) => &hold.leaving,
        }
    }

    /// Whether the client is to leave its disk.
    pub(super) fn is_evicted(&self) -> bool {
        matches!(self, Self::Own(lease) if lease.is_evicted())
    }

    pub(super) fn client_name(&self) -> Option<&ClientName> {
        match self {
            Self::Own(lease) => Some(lease.name()),
            Self::Standby(_) => None,
        }
    }

    /// Which disk it is, where it is one of a client's own that other servers have, too.
    pub(super) fn identity(&self) -> Option<DiskIdentity> {
        match self {
            Self::Own(lease) => lease.identity(),
            Self::Standby(_) => None,
        }
    }

    /// The number of the opening, of a disk that may be lost to another server.
    pub(super) const fn opening(&self) -> Option<u64> {
        match self {
            Self::Own(_) => None,
            Self::Standby(hold) => hold.opening,
        }
    }
}

/// The disk was opened for a query, before the client's `GO`.
#[derive(Debug)]
struct PreparedDisk {
    served: Arc<ServedExport>,
    /// It was not: what `GO` is answered.
    refusal: Option<Refusal>,
}

/// The selection of one connection.
#[derive(Debug)]
pub(super) struct ExportSelection {
    limit: Duration,
    /// How long a claim may take.
    claim_limit: Duration,
    /// The number of its connection.
    connection: u64,
    held: Option<(Arc<ServedExport>, HeldDisk)>,
    prepared: Option<PreparedDisk>,
    claim: Option<Claim>,
}

impl ExportSelection {
    pub(super) fn new(core: &ServerCore) -> Self {
        Self {
            limit: core.limits.stop_timeout,
            // The handshake goes on behind it.
            claim_limit: core.limits.handshake_timeout.mul_f32(0.8),
            connection: core.next_id(),
            held: None,
            prepared: None,
            claim: None,
        }
    }

    /// Holds the disk of `peer` at `served`, if it has one of its own there or the export stands by, instead of what it held.
    /// `access`: what the client declared.
    pub(super) async fn select(
        &mut self,
        served: &Arc<ServedExport>,
        peer: &Peer,
        access: Option<WriterAccess>,
    ) -> Result<Option<&HeldDisk>, Refusal> {
        let prepared = self.prepared.take();
        if let Some(prepared) = prepared.filter(|one| Arc::ptr_eq(&one.served, served)) {
            self.confirm(prepared).await?;
            return Ok(self.held());
        }
        self.leave(true).await;
        let own = served.lease(peer, self.limit).await?.map(HeldDisk::Own);
        let may_write = access.is_none_or(|access| access.mode != AccessMode::Read);
        let held = match own {
            Some(own) => Some(own),
            None => served.hold_standby(may_write).await?.map(HeldDisk::Standby),
        };
        self.held = held.map(|held| (served.clone(), held));
        Ok(self.held())
    }

    /// Opens the disk of a client that is going to use `served`, if it is one of its own that the storage fences other servers from:
    /// which one it is, the client has to learn before its `GO`. An error is the answer to that.
    pub(super) async fn prepare(
        &mut self,
        served: &Arc<ServedExport>,
        peer: &Peer,
    ) -> Option<&HeldDisk> {
        if !served.has_fenced_clients() {
            return None;
        }
        let is_prepared = |one: &PreparedDisk| Arc::ptr_eq(&one.served, served);
        if !self.prepared.as_ref().is_some_and(is_prepared) {
            let refusal = self.select(served, peer, None).await.err();
            self.prepared = Some(PreparedDisk {
                served: served.clone(),
                refusal,
            });
        }
        self.held()
    }

    /// Whether the disk that was prepared still is this server's.
    async fn confirm(&self, prepared: PreparedDisk) -> Result<(), Refusal> {
        if let Some(refusal) = prepared.refusal {
            return Err(refusal);
        }
        let Some(HeldDisk::Own(lease)) = self.held() else {
            return Ok(());
        };
        match prepared.served.confirm_lease(lease).await? {
            true => Ok(()),
            false => {
                let why = "another server has your disk; connect again";
                Err(Refusal::Unavailable(why.to_owned()))
            }
        }
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

    /// The export at which something is held.
    pub(super) fn export(&self) -> Option<&Arc<ServedExport>> {
        self.held.as_ref().map(|(served, _)| served)
    }

    /// What is held.
    pub(super) fn held(&self) -> Option<&HeldDisk> {
        self.held.as_ref().map(|(_, held)| held)
    }

    /// Lets another client write.
    pub(super) fn release_claim(&mut self) {
        self.claim = None;
    }

    /// Gives it back. `said_goodbye`: the client is not going to come back for what it had.
    pub(super) async fn leave(&mut self, said_goodbye: bool) {
        self.release_claim();
        self.prepared = None;
        let Some((served, HeldDisk::Own(lease))) = self.held.take() else {
            return;
        };
        served.give_back(lease, said_goodbye, self.limit).await;
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

impl ServedExport {
    /// A hold on the disk of `peer`, which is opened for it; none where there is one for all.
    /// Within `limit` a disk is closed that another server has.
    async fn lease(
        self: &Arc<Self>,
        peer: &Peer,
        limit: Duration,
    ) -> Result<Option<Lease>, Refusal> {
        loop {
            let mut sources = self.sources_for(peer)?;
            let Some(current) = sources.pop() else {
                return Ok(None);
            };
            for older in &sources {
                if let Ok(name) = older.source().name(peer)
                    && let Some(lease) = self.open(older, &name, limit).await?
                {
                    return Ok(Some(lease));
                }
            }
            let name = current.source().name(peer).map_err(|e| {
                tracing::warn!(peer = peer.label, export = self.name(), "refused: {e}");
                Refusal::Policy(e.to_string())
            })?;
            if let Some(lease) = self.open(&current, &name, limit).await? {
                return Ok(Some(lease));
            }
            // Another one came in its place meanwhile.
        }
    }

    async fn open(
        self: &Arc<Self>,
        source: &Arc<ClientDisks>,
        name: &ClientName,
        limit: Duration,
    ) -> Result<Option<Lease>, Refusal> {
        loop {
            let acquired = source.acquire(name).await;
            let Some(lease) = acquired.map_err(|e| self.refuse_disk(name, e))? else {
                return Ok(None);
            };
            if lease.is_first() {
                self.watch(&lease);
                return Ok(Some(lease));
            }
            let confirmed = self.confirm_lease(&lease).await;
            if let Ok(true) = confirmed {
                return Ok(Some(lease));
            }
            // If it is lost, it is opened again when its last connection has left.
            self.give_back(lease, true, limit).await;
            confirmed?;
        }
    }

    /// Disconnects the client of a disk that another server opens.
    fn watch(self: &Arc<Self>, lease: &Lease) {
        if let Some(lost) = lease.lost() {
            let (served, name) = (Arc::downgrade(self), lease.name().clone());
            drop(engine::spawn(async move {
                if lost.await
                    && let Some(served) = served.upgrade()
                {
                    served.dismiss_owner(&name);
                }
            }));
        }
    }

    /// Whether the disk still is this server's; if not, its client is disconnected.
    async fn confirm_lease(&self, lease: &Lease) -> Result<bool, Refusal> {
        let confirmed = lease.confirm().await;
        let is_ours = confirmed.map_err(|e| self.refuse_disk(lease.name(), e))?;
        if !is_ours && lease.lose() {
            self.dismiss_owner(lease.name());
        }
        Ok(is_ours)
    }

    fn refuse_disk(&self, name: &ClientName, error: CannotOpen) -> Refusal {
        let client = name.to_string();
        tracing::warn!(
            client,
            export = self.name(),
            "its disk is not opened: {error}"
        );
        Refusal::Unavailable(error.client_message)
    }

    /// Gives a lease back, and logs what went wrong with it.
    async fn give_back(&self, lease: Lease, said_goodbye: bool, limit: Duration) {
        let (export, client) = (self.name(), lease.name().to_string());
        match lease.leave(said_goodbye, limit).await {
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
    }
}
