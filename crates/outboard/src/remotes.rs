//! The remote disks that are open in this process: which server each uses, for metrics.
//!
//! # What it does not do
//!
//! It keeps no client open.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nbd::client::{Client, ClientHealth, ClientMonitor, Target};

static OPEN: Mutex<Vec<ClientMonitor>> = Mutex::new(Vec::new());

/// A remote disk, and all clients that this process has of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RemoteReport {
    /// The disk, as a URI of all its servers.
    pub(crate) disk: String,
    /// Each server as a URI, in order, and how many clients use it, or used it last.
    pub(crate) servers: Vec<(String, u64)>,
    /// Clients that no server answers.
    pub(crate) unreachable: u64,
    /// How often another server took the place of the one that was used.
    pub(crate) server_changes: u64,
    /// How often connections were made again.
    pub(crate) reconnects: u64,
    /// Time without a server, of all clients together.
    pub(crate) unreachable_for: Duration,
    /// Bytes of acknowledged writes that no flush has covered.
    pub(crate) unflushed: u64,
}

impl RemoteReport {
    /// A disk without a client.
    fn of(target: &Target) -> Self {
        let servers = target.servers().into_iter();
        Self {
            disk: target.to_string(),
            servers: servers.map(|server| (server.to_string(), 0)).collect(),
            ..Self::default()
        }
    }

    /// Adds a client of the disk.
    fn add(&mut self, health: &ClientHealth) {
        for (server, clients) in &mut self.servers {
            *clients += u64::from(*server == health.server);
        }
        self.unreachable += u64::from(!health.connected);
        self.server_changes += health.server_changes;
        self.reconnects += health.reconnects;
        self.unreachable_for += health.gone_in_all;
        self.unflushed += health.unflushed;
    }
}

/// Adds a client that was connected.
pub(crate) fn register(client: &Client) {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|known| known.health().is_some());
    open.push(client.monitor());
}

/// The disks of all clients, by URI.
pub(crate) fn reports() -> Vec<RemoteReport> {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let of_open = |one: &ClientMonitor| Some((one.target().clone(), one.health()?));
    summed(open.iter().filter_map(of_open))
}

fn summed(clients: impl Iterator<Item = (Target, ClientHealth)>) -> Vec<RemoteReport> {
    let mut reports = BTreeMap::new();
    for (target, health) in clients {
        let report = reports.entry(target.to_string());
        let report = report.or_insert_with(|| RemoteReport::of(&target));
        report.add(&health);
    }
    reports.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_one_disk_are_one_report() {
        let [several, one] = ["nbd://a,b/x", "nbd://a/x"].map(|uri| uri.parse().expect("a URI"));
        let health = |server: &str, gone_s| ClientHealth {
            server: server.to_owned(),
            connected: gone_s == 0,
            server_changes: 2,
            reconnects: 3,
            unflushed: 512,
            gone_in_all: Duration::from_secs(gone_s),
            ..ClientHealth::default()
        };
        let several: Target = several;
        let clients = [
            (several.clone(), health("nbd://b/x", 0)),
            (one, health("nbd://a/x", 0)),
            (several, health("nbd://b/x", 7)),
        ];
        let reports = summed(clients.into_iter());
        let disks: Vec<&str> = reports.iter().map(|report| report.disk.as_str()).collect();
        assert_eq!(disks, ["nbd://a,b/x", "nbd://a/x"]);
        let expected = RemoteReport {
            disk: "nbd://a,b/x".to_owned(),
            servers: vec![("nbd://a/x".to_owned(), 0), ("nbd://b/x".to_owned(), 2)],
            unreachable: 1,
            server_changes: 4,
            reconnects: 6,
            unreachable_for: Duration::from_secs(7),
            unflushed: 1024,
        };
        assert_eq!(reports[0], expected);
        assert_eq!(reports[1].servers, [("nbd://a/x".to_owned(), 1)]);
    }
}
