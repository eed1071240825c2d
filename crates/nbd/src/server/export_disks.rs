//! [`ExportDisks`]: what the clients of an export get: one disk for all, or each one of its own. Pure.

use std::sync::Arc;

use block::{Geometry, Node};

use super::client_disks::{ClientDisks, DiskPerClient};
use super::exports::ExportDisk;
use super::standby::Standby;

/// What clients get.
#[derive(Debug)]
pub(super) enum ExportDisks {
    /// All of them the same.
    Shared(Node),
    /// Each its own.
    PerClient {
        /// Those of new clients…
        current: Arc<ClientDisks>,
        /// …and the sources for clients of before.
        older: Vec<Arc<ClientDisks>>,
    },
    /// All of them the same, which another server may have.
    Standby(Box<Standby>),
}

impl ExportDisks {
    pub(super) fn new(disk: ExportDisk) -> Self {
        match disk {
            ExportDisk::Shared(disk) => Self::Shared(disk),
            ExportDisk::PerClient(source) => Self::PerClient {
                current: ClientDisks::new(source),
                older: Vec::new(),
            },
            ExportDisk::Standby(source) => Self::Standby(Box::new(Standby::new(source))),
        }
    }

    /// The disk for all has another size.
    pub(super) fn resize(&mut self, disk: Node) {
        match self {
            Self::Standby(standby) => standby.resize(disk),
            _ => *self = Self::Shared(disk),
        }
    }

    /// That of an export that stands by.
    pub(super) const fn standby(&self) -> Option<&Standby> {
        match self {
            Self::Standby(standby) => Some(standby),
            _ => None,
        }
    }

    /// The disk for all.
    pub(super) fn shared(&self) -> Option<&Node> {
        match self {
            Self::Shared(disk) => Some(disk),
            Self::PerClient { .. } => None,
            Self::Standby(standby) => Some(standby.disk()),
        }
    }

    /// The sources of disks, the one for new clients last; none where all share one disk.
    pub(super) fn sources(&self) -> Vec<Arc<ClientDisks>> {
        match self {
            Self::Shared(_) | Self::Standby(_) => Vec::new(),
            Self::PerClient { current, older } => older.iter().chain([current]).cloned().collect(),
        }
    }

    /// The geometry that a client gets before its disk is open.
    pub(super) fn geometry(&self) -> &Geometry {
        match self {
            Self::Shared(disk) => disk.geometry(),
            Self::PerClient { current, .. } => current.source().geometry(),
            Self::Standby(standby) => standby.geometry(),
        }
    }

    /// New clients get disks from `source`. Whether they get disks of their own at all.
    pub(super) fn renew(&mut self, source: Arc<dyn DiskPerClient>) -> bool {
        self.prune();
        let Self::PerClient { current, older } = self else {
            return false;
        };
        let before = std::mem::replace(current, ClientDisks::new(source));
        before.supersede();
        older.push(before);
        true
    }

    /// Drops sources that no client uses nor may return to. Returns whether older ones are left.
    pub(super) fn prune(&mut self) -> bool {
        let Self::PerClient { older, .. } = self else {
            return false;
        };
        older.retain(|source| !source.is_over());
        !older.is_empty()
    }
}
