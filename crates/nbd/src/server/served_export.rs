//! [`ServedExport`]: an export as its connections see it.
//!
//! # Invariants
//!
//! * A client is admitted under the same lock under which an export is retired: none slips in
//!   behind the flush that ends it.
//! * The lock is never held while a disk works on a request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use block::{Geometry, Node};
use engine::InFlight;
use nbd_proto::{DiskIdentity, ExportInfo, Refusal, TransmissionFlags, WriterPolicy};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::Notify;

use super::client_disks::{ClientDisks, ClientName, DiskPerClient, NotClosed};
use super::clients::{AdmittedClient, Client, ClientRoster};
use super::error::ChangeError;
use super::export_disks::ExportDisks;
use super::export_selection::HeldDisk;
use super::exports::{Export, Rules};
use super::peer::Peer;
use super::plan;
use super::standby::Standby;
use super::stats::{ExportFigures, StandbyFigures};
use super::writers::Writers;

/// Refusals of writers are logged this often at most.
const REFUSAL_LOG_PAUSE: Duration = Duration::from_secs(10);

/// An export as its connections see it.
#[derive(Debug)]
pub(super) struct ServedExport {
    name: String,
    state: Mutex<ExportState>,
    /// Connections to a shared disk that are over but for requests that it has not answered.
    leaving: InFlight,
    /// Notified when the last client has left.
    emptied: Notify,
    /// Notified when a claim ends.
    pub(super) writers_changed: Notify,
    /// Another one for each opening of the disk.
    incarnation: u64,
}

/// What of an export may change.
#[derive(Debug)]
struct ExportState {
    description: String,
    disks: ExportDisks,
    rules: Rules,
    roster: ClientRoster,
    /// It takes no more clients.
    is_retired: bool,
    writers: Writers,
    /// When a writer's refusal was last logged.
    refusal_logged: Option<Instant>,
}

impl ServedExport {
    pub(super) fn new(export: Export, rules: Rules) -> Arc<Self> {
        let disks = ExportDisks::new(export.disk);
        Arc::new(Self {
            name: export.name,
            state: Mutex::new(ExportState {
                description: export.description,
                disks,
                writers: Writers::new(rules.writers.clone()),
                rules,
                roster: ClientRoster::default(),
                is_retired: false,
                refusal_logged: None,
            }),
            leaving: InFlight::new(),
            emptied: Notify::new(),
            writers_changed: Notify::new(),
            incarnation: u64::from_be_bytes(random()),
        })
    }

    fn state(&self) -> MutexGuard<'_, ExportState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn description(&self) -> String {
        self.state().description.clone()
    }

    /// Whether `peer` may use it, and know of it.
    pub(super) fn allows(&self, peer: &Peer) -> bool {
        self.state().rules.access.allows(peer)
    }

    pub(super) fn with_disks<T>(&self, work: impl FnOnce(&mut ExportDisks) -> T) -> T {
        work(&mut self.state().disks)
    }

    /// Connections to the disk for all that are over but for requests that it has not answered.
    pub(super) fn leaving(&self) -> InFlight {
        let state = self.state();
        let standby = state.disks.standby();
        let leaving = standby.and_then(|standby| standby.leaving());
        leaving.unwrap_or(&self.leaving).clone()
    }

    /// Another server has the disk, or it failed: its clients are disconnected, and it is in standby.
    pub(super) fn lose_standby(&self, number: u64, why: &str) {
        let mut state = self.state();
        let ExportDisks::Standby(standby) = &mut state.disks else {
            return;
        };
        if !standby.lose(number) {
            return;
        }
        let clients = state.roster.dismiss(|one| one.opening() == Some(number));
        drop(state);
        tracing::info!(export = self.name, clients, "in standby: {why}");
    }

    /// The disk that new clients get, if it is one for all.
    pub(super) fn shared_disk(&self) -> Option<Node> {
        self.state().disks.shared().cloned()
    }

    /// The disks that are open, with their clients if they are not for all.
    pub(super) fn open_disks(&self) -> Vec<(Option<ClientName>, Node)> {
        if let Some(disk) = self.shared_disk() {
            return vec![(None, disk)];
        }
        let sources = self.state().disks.sources();
        let open = sources.iter().flat_map(|source| source.open());
        open.map(|(name, disk)| (Some(name), disk)).collect()
    }

    /// Disks of clients that were not closed well.
    pub(super) fn take_failed(&self) -> Vec<(ClientName, NotClosed)> {
        let sources = self.state().disks.sources();
        sources.iter().filter_map(|s| s.take_failed()).collect()
    }

    /// The description of the export for a client; `held` is its hold on a disk.
    pub(super) fn describe(
        &self,
        held: Option<&HeldDisk>,
        payload_max: u32,
    ) -> Result<ExportInfo, Refusal> {
        let state = self.state();
        if state.is_full() {
            return Err(Refusal::Policy(NotAdmitted::Full.to_string()));
        }
        let geometry = state.geometry(held);
        Ok(ExportInfo {
            name: self.name.clone(),
            description: state.description.clone(),
            size: geometry.size,
            flags: plan::transmission_flags(geometry),
            block_size_min: geometry.block_size,
            block_size_preferred: geometry.preferred_block_size.max(geometry.block_size),
            block_size_max: payload_max,
        })
    }

    /// The sources that may open a disk for `peer`, the current one last; none where all share one disk.
    pub(super) fn sources_for(&self, peer: &Peer) -> Result<Vec<Arc<ClientDisks>>, Refusal> {
        let mut state = self.state();
        // No disk is opened for a client that would not be admitted.
        if state.is_retired || !state.rules.access.allows(peer) {
            return Err(Refusal::Unknown);
        }
        if state.is_full() {
            return Err(Refusal::Policy(NotAdmitted::Full.to_string()));
        }
        state.disks.prune();
        Ok(state.disks.sources())
    }

    /// Admits `peer` as a client, if the export still is what the handshake described. `held` is its hold on a disk that is not
    /// one for all at any time.
    pub(super) fn admit(
        self: &Arc<Self>,
        id: u64,
        peer: &Peer,
        announced: &ExportInfo,
        held: Option<&HeldDisk>,
    ) -> Result<AdmittedClient, NotAdmitted> {
        let mut state = self.state();
        let is_evicted = held.is_some_and(HeldDisk::is_evicted);
        if state.is_retired || is_evicted || !state.rules.access.allows(peer) {
            return Err(NotAdmitted::Gone);
        }
        if state.is_full() {
            return Err(NotAdmitted::Full);
        }
        if state.writers.is_cut(id) {
            return Err(NotAdmitted::Fenced);
        }
        let opening = held.and_then(HeldDisk::opening);
        let standby = state.disks.standby();
        if opening.is_some_and(|number| !standby.is_some_and(|one| one.is_current(number))) {
            return Err(NotAdmitted::Lost);
        }
        let disk = held.map(HeldDisk::disk).or(state.disks.shared());
        let disk = disk.ok_or(NotAdmitted::Changed)?.clone();
        let geometry = disk.geometry();
        // These are the handshake's to take away; everything else must still be true.
        let negotiable = TransmissionFlags::SEND_DF | TransmissionFlags::BLOCK_STATUS_PAYLOAD;
        let flags = plan::transmission_flags(geometry);
        let other = flags.symmetric_difference(announced.flags) - negotiable;
        if geometry.size != announced.size || !other.is_empty() {
            return Err(NotAdmitted::Changed);
        }
        let name = held.and_then(HeldDisk::client_name).cloned();
        let client = Client::new(id, peer.clone(), geometry.size, (name, opening));
        let client = Arc::new(client);
        state.roster.enter(client.clone());
        let leaving = held.map_or(&self.leaving, HeldDisk::leaving).clone();
        Ok(AdmittedClient::new(self.clone(), client, disk, leaving))
    }

    /// A client has left.
    pub(super) fn release(&self, client: &Arc<Client>) {
        let is_empty = self.state().roster.leave(client);
        self.release_writer(client.id());
        if is_empty {
            self.emptied.notify_waiters();
        }
    }

    /// Whether clients that write need a claim: not where each has a disk of its own, or none can.
    pub(super) fn takes_claims(&self) -> bool {
        self.state().takes_claims()
    }

    /// Which disk it is, and how it takes writers; `held` is the client's hold on one. A disk of the client's own that is not held has no
    /// identity.
    pub(super) fn identity(&self, held: Option<&HeldDisk>) -> DiskIdentity {
        if let Some(own) = held.and_then(HeldDisk::identity) {
            return own;
        }
        let shared = self.shared_disk();
        let writers = match shared {
            Some(_) => self.with_writers(|writers| writers.policy()),
            None => WriterPolicy::Many,
        };
        let state = self.state();
        let configured = state.rules.identity.clone();
        let incarnation = state.disks.standby().map(Standby::incarnation);
        drop(state);
        let own = || shared.and_then(|disk| disk.identity());
        DiskIdentity {
            identity: configured.or_else(|| own()?.as_str().parse().ok()),
            incarnation: Some(incarnation.unwrap_or(self.incarnation)),
            writers: Some(writers),
            is_fenced: incarnation.is_some(),
        }
    }

    pub(super) fn with_writers<T>(&self, change: impl FnOnce(&mut Writers) -> T) -> T {
        change(&mut self.state().writers)
    }

    /// A connection gives back what it was granted.
    pub(super) fn release_writer(&self, connection: u64) {
        if self.with_writers(|writers| writers.release(connection)) {
            self.writers_changed.notify_waiters();
        }
    }

    /// Whether it is time to log a refusal: a client that tries again and again is not worth a line each.
    pub(super) fn may_log_refusal(&self) -> bool {
        let now = engine::clock::now();
        let mut state = self.state();
        let is_due = state
            .refusal_logged
            .is_none_or(|then| now.saturating_duration_since(then) >= REFUSAL_LOG_PAUSE);
        if is_due {
            state.refusal_logged = Some(now);
        }
        is_due
    }

    /// Disconnects these connections.
    pub(super) fn dismiss_all(&self, connections: &[u64]) {
        let is_one = |client: &Client| connections.contains(&client.id());
        self.state().roster.dismiss(is_one);
    }

    /// Admits no more clients and disconnects those there are.
    pub(super) fn retire(&self) {
        let mut state = self.state();
        state.is_retired = true;
        state.roster.dismiss(|_| true);
    }

    /// Resolves when no client is left, and no write of one is under way.
    pub(super) async fn vacated(&self) {
        loop {
            let emptied = self.emptied.notified();
            tokio::pin!(emptied);
            emptied.as_mut().enable();
            if self.clients() == 0 {
                break;
            }
            emptied.await;
        }
        self.leaving().settled().await;
        let sources = self.state().disks.sources();
        for source in sources {
            source.idle().await;
        }
    }

    pub(super) fn clients(&self) -> usize {
        self.state().roster.len()
    }

    /// Disconnects the client of this number.
    pub(super) fn dismiss(&self, id: u64) -> bool {
        self.state().roster.dismiss(|client| client.id() == id) > 0
    }

    /// Whether clients have disks of their own that other servers have, too.
    pub(super) fn has_fenced_clients(&self) -> bool {
        let sources = self.state().disks.sources();
        let is_fenced = |source: &Arc<ClientDisks>| source.source().fence().is_some();
        sources.last().is_some_and(is_fenced)
    }

    /// Disconnects the client with the disk of this name, which another server has.
    pub(super) fn dismiss_owner(&self, name: &ClientName) {
        let is_owner = |client: &Client| client.disk_name() == Some(name);
        let connections = self.state().roster.dismiss(is_owner);
        let (export, client) = (self.name(), name.to_string());
        tracing::warn!(
            export,
            client,
            connections,
            "disconnected: another server opened its disk"
        );
    }

    /// Other rules and another text. Clients that the rules exclude are disconnected.
    pub(super) fn update(&self, description: String, rules: Rules) {
        let mut state = self.state();
        state.description = description;
        state.rules = rules;
        let ExportState {
            roster,
            rules,
            writers,
            ..
        } = &mut *state;
        let cut = writers.change_rules(rules.writers.clone());
        roster.dismiss(|client| !rules.access.allows(client.peer()) || cut.contains(&client.id()));
        drop(state);
        self.writers_changed.notify_waiters();
    }

    /// New clients get `disk`, which is this one with its new size.
    pub(super) fn resize(&self, disk: Node) -> Result<(), ChangeError> {
        let mut state = self.state();
        let (from, to) = (state.disks.geometry().size, disk.geometry().size);
        if to < from && state.roster.len() > 0 {
            return Err(ChangeError::Shrinks {
                name: self.name.clone(),
                from,
                to,
                clients: state.roster.len(),
            });
        }
        state.disks.resize(disk);
        Ok(())
    }

    /// New clients get disks from `source`; connected clients keep theirs.
    pub(super) fn renew(&self, source: Arc<dyn DiskPerClient>) -> Result<(), ChangeError> {
        let renewed = self.state().disks.renew(source);
        renewed
            .then_some(())
            .ok_or_else(|| ChangeError::Shared(self.name.clone()))
    }

    /// Drops older images that no client uses nor may return to. Returns whether others are left.
    pub(super) fn prune(&self) -> bool {
        self.state().disks.prune()
    }

    /// Removes the disk of a client; where `force`, its connections are ended first.
    pub(super) async fn remove_client_disk(
        &self,
        name: &ClientName,
        image: &str,
        force: bool,
    ) -> Result<(), ChangeError> {
        let sources = self.state().disks.sources();
        let Some(current) = sources.last() else {
            return Err(ChangeError::Shared(self.name.clone()));
        };
        let mut reserved = Vec::new();
        for source in sources.iter().filter(|s| s.source().image() == image) {
            let _evicted = force.then(|| {
                let evicted = source.evict(name);
                let is_of = |client: &Client| client.disk_name() == Some(name);
                self.state().roster.dismiss(is_of);
                evicted
            });
            let taken = source.reserve(name, force).await;
            reserved.push(taken.map_err(|connections| ChangeError::ClientConnected {
                client: name.to_string(),
                connections,
            })?);
        }
        let removed = current.source().remove(name, image).await;
        removed.map_err(|why| ChangeError::NotRemoved {
            client: name.to_string(),
            why,
        })
    }

    /// What it did so far. Disks of clients are listed, which may block.
    pub(super) fn figures(&self) -> ExportFigures {
        let (sources, mut figures) = {
            let mut state = self.state();
            state.disks.prune();
            let geometry = state.disks.geometry();
            let figures = ExportFigures {
                name: self.name.clone(),
                description: state.description.clone(),
                size: geometry.size,
                read_only: geometry.read_only,
                clients_ever: state.roster.ever(),
                clients: state.roster.clients(),
                figures: state.roster.figures(),
                client_disks: None,
                writers: state.takes_claims().then(|| state.writers.figures()),
                standby: state.disks.standby().map(|standby| StandbyFigures {
                    is_open: standby.is_open(),
                    takeovers: standby.takeovers(),
                }),
            };
            (state.disks.sources(), figures)
        };
        figures.client_disks = sources.last().map(|current| {
            let mut disks = current.source().list();
            for disk in &mut disks {
                let same = sources.iter();
                let same = same.filter(|source| source.source().image() == disk.image_id);
                let connections: usize = same.map(|source| source.connections(&disk.name)).sum();
                disk.connections = connections as u64;
            }
            disks
        });
        figures
    }
}

impl ExportState {
    fn takes_claims(&self) -> bool {
        let shared = self.disks.shared();
        shared.is_some_and(|disk| !disk.geometry().read_only)
    }

    fn is_full(&self) -> bool {
        let max = self.rules.connections_max;
        max.is_some_and(|max| self.roster.len() >= max)
    }

    fn geometry<'a>(&'a self, held: Option<&'a HeldDisk>) -> &'a Geometry {
        held.map_or_else(|| self.disks.geometry(), |held| held.disk().geometry())
    }
}

/// Bytes that no other opening of a disk, and no other client, has.
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let rng = SystemRandom::new();
    rng.fill(&mut bytes).expect("the kernel has random bytes");
    bytes
}

/// Why a client that got through the handshake is not taken in after all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotAdmitted {
    #[error("the export is gone")]
    Gone,
    #[error("the export has as many clients as it may have")]
    Full,
    #[error("the export changed during the handshake")]
    Changed,
    #[error("another server took the disk over during the handshake")]
    Lost,
    #[error("another client took over writing during the handshake")]
    Fenced,
}
