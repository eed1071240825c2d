//! The clients of an export: their names, their figures, and how one is disconnected.

use std::sync::Arc;
use std::time::Instant;

use block::Node;
use engine::InFlight;
use nbd_proto::WriterAccess;
use tokio::sync::Notify;

use super::client_disks::ClientName;
use super::peer::Peer;
use super::served_export::ServedExport;
use super::stats::{ClientFigures, Counters, Figures, Meter};
use super::writers::WriteGate;

/// A client in transmission.
#[derive(Debug)]
pub(super) struct Client {
    id: u64,
    peer: Peer,
    size: u64,
    /// Its name, if it has a disk of its own.
    disk_name: Option<ClientName>,
    /// The number of the opening that its disk is, if that may be lost to another server.
    opening: Option<u64>,
    since: Instant,
    counters: Arc<Counters>,
    dismissed: Notify,
}

impl Client {
    /// With its name if it has a disk of its own, and the opening that its disk is.
    pub(super) fn new(
        id: u64,
        peer: Peer,
        size: u64,
        (disk_name, opening): (Option<ClientName>, Option<u64>),
    ) -> Self {
        Self {
            id,
            peer,
            size,
            disk_name,
            opening,
            since: engine::clock::now(),
            counters: Arc::default(),
            dismissed: Notify::new(),
        }
    }

    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    pub(super) const fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(super) const fn disk_name(&self) -> Option<&ClientName> {
        self.disk_name.as_ref()
    }

    pub(super) const fn opening(&self) -> Option<u64> {
        self.opening
    }

    fn figures(&self) -> ClientFigures {
        let connected = engine::clock::now().saturating_duration_since(self.since);
        ClientFigures {
            id: self.id,
            peer: self.peer.label.clone(),
            process: self.peer.process,
            address: self.peer.address,
            certificate: self.peer.certificate_name.clone(),
            size: self.size,
            connected_seconds: connected.as_secs(),
            figures: self.counters.figures(),
        }
    }
}

/// The clients of one export, and what those did that left.
#[derive(Debug, Default)]
pub(super) struct ClientRoster {
    live: Vec<Arc<Client>>,
    past: Figures,
    ever: u64,
}

impl ClientRoster {
    pub(super) const fn len(&self) -> usize {
        self.live.len()
    }

    pub(super) const fn ever(&self) -> u64 {
        self.ever
    }

    pub(super) fn enter(&mut self, client: Arc<Client>) {
        self.ever += 1;
        self.live.push(client);
    }

    /// Whether it was the last one.
    pub(super) fn leave(&mut self, client: &Arc<Client>) -> bool {
        if let Some(at) = self.live.iter().position(|c| Arc::ptr_eq(c, client)) {
            self.live.remove(at);
            self.past.add(&client.counters.figures());
        }
        self.live.is_empty()
    }

    /// Disconnects the clients of a kind and returns how many there are.
    pub(super) fn dismiss(&self, which: impl Fn(&Client) -> bool) -> usize {
        let matching = self.live.iter().filter(|client| which(client));
        // A permit stays for a client that does not listen yet.
        matching.map(|client| client.dismissed.notify_one()).count()
    }

    pub(super) fn clients(&self) -> Vec<ClientFigures> {
        self.live.iter().map(|client| client.figures()).collect()
    }

    /// What all clients ever did.
    pub(super) fn figures(&self) -> Figures {
        let mut figures = self.past.clone();
        for client in &self.live {
            figures.add(&client.counters.figures());
        }
        figures
    }
}

/// A client's place at its export, until it is dropped.
#[derive(Debug)]
pub(super) struct AdmittedClient {
    served: Arc<ServedExport>,
    client: Arc<Client>,
    disk: Node,
    leaving: InFlight,
}

impl AdmittedClient {
    pub(super) const fn new(
        served: Arc<ServedExport>,
        client: Arc<Client>,
        disk: Node,
        leaving: InFlight,
    ) -> Self {
        Self {
            served,
            client,
            disk,
            leaving,
        }
    }

    /// Connections to its disk that are over but for requests that this has not answered.
    pub(super) const fn leaving(&self) -> &InFlight {
        &self.leaving
    }

    pub(super) fn served(&self) -> &ServedExport {
        &self.served
    }

    /// The disk as it was when the client came.
    pub(super) const fn disk(&self) -> &Node {
        &self.disk
    }

    /// A meter for its connection.
    pub(super) fn meter(&self) -> Meter {
        Meter::new(self.client.counters.clone(), engine::clock::now())
    }

    /// Whether its disk may be lost to another server.
    pub(super) fn is_of_standby(&self) -> bool {
        self.client.opening().is_some() || self.client.disk_name().is_some()
    }

    /// What its connection knows of writing.
    pub(super) fn gate(&self, access: Option<WriterAccess>) -> WriteGate {
        self.served.gate(self.client.id, &self.client.peer, access)
    }

    /// Resolves when it is to leave.
    pub(super) async fn dismissed(&self) {
        self.client.dismissed.notified().await;
    }
}

impl Drop for AdmittedClient {
    fn drop(&mut self) {
        self.served.release(&self.client);
    }
}
