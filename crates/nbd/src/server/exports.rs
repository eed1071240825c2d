//! [`Export`]: a disk under a name, and the table that clients choose from, which may change while
//! they do.
//!
//! # Invariants
//!
//! * An export that a client may not use is unknown to it: not found, not listed. Its disk
//!   gets no request.
//! * An export that was taken out is kept in `retired` until its disk was flushed, so that a stop
//!   meanwhile flushes it too.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use block::{BlockDevice, Node};
use nbd_proto::{DiskId, limits};

use super::access::Access;
use super::client_disks::DiskPerClient;
use super::error::{ChangeError, ServeError};
use super::peer::Peer;
use super::served_export::ServedExport;
use super::standby::StandbyDisk;
use super::writers::WriterRules;

/// A disk that clients can ask for by name.
#[derive(Debug, Clone)]
pub struct Export {
    /// Its name: any text up to 4096 bytes; never a path to anything.
    pub name: String,
    /// A text for people.
    pub description: String,
    /// The disk.
    pub disk: ExportDisk,
}

/// What the clients of an export get.
#[derive(Debug, Clone)]
pub enum ExportDisk {
    /// All of them the same disk.
    Shared(Node),
    /// Each a disk of its own.
    PerClient(Arc<dyn DiskPerClient>),
    /// All of them the same disk, which is taken over from another server when a client may write to it.
    Standby(Arc<dyn StandbyDisk>),
}

impl<D: BlockDevice + 'static> From<Arc<D>> for ExportDisk {
    fn from(disk: Arc<D>) -> Self {
        Self::Shared(disk)
    }
}

impl From<Node> for ExportDisk {
    fn from(disk: Node) -> Self {
        Self::Shared(disk)
    }
}

/// Which clients may use an export, and how many.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// Which clients.
    pub access: Access,
    /// Clients at once; `None`: as many as the server takes.
    pub connections_max: Option<usize>,
    /// How writers are taken.
    pub writers: WriterRules,
    /// What clients get as the identity of the disk in place of its own: copies that are the same disk to them have the same.
    pub identity: Option<DiskId>,
}

/// The exports of a server. The first is also the default, which has the empty name.
#[derive(Debug)]
pub(super) struct Exports {
    table: RwLock<Vec<Arc<ServedExport>>>,
    retired: Mutex<Vec<Arc<ServedExport>>>,
}

impl Exports {
    pub(super) fn new(exports: Vec<(Export, Rules)>) -> Result<Self, ServeError> {
        let mut table: Vec<Arc<ServedExport>> = Vec::new();
        for (export, rules) in exports {
            if export.name.len() > limits::STRING_MAX {
                return Err(ServeError::NameTooLong(export.name));
            }
            if table.iter().any(|served| served.name() == export.name) {
                return Err(ServeError::NameTwice(export.name));
            }
            table.push(ServedExport::new(export, rules));
        }
        if table.is_empty() {
            return Err(ServeError::NoExports);
        }
        Ok(Self {
            table: RwLock::new(table),
            retired: Mutex::default(),
        })
    }

    fn table(&self) -> RwLockReadGuard<'_, Vec<Arc<ServedExport>>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Vec<Arc<ServedExport>>> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn retired(&self) -> MutexGuard<'_, Vec<Arc<ServedExport>>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The export `name`, if `peer` may use it.
    pub(super) fn find(&self, name: &str, peer: &Peer) -> Option<Arc<ServedExport>> {
        let table = self.table();
        let named = table.iter().find(|served| served.name() == name);
        let found = named.or_else(|| table.first().filter(|_| name.is_empty()))?;
        found.allows(peer).then(|| found.clone())
    }

    /// Names and descriptions of what `peer` may use.
    pub(super) fn list(&self, peer: &Peer) -> Vec<(String, String)> {
        let table = self.table();
        let allowed = table.iter().filter(|served| served.allows(peer));
        allowed
            .map(|served| (served.name().to_owned(), served.description()))
            .collect()
    }

    /// The export of exactly this name.
    pub(super) fn named(&self, name: &str) -> Option<Arc<ServedExport>> {
        let table = self.table();
        table.iter().find(|served| served.name() == name).cloned()
    }

    /// All that are served.
    pub(super) fn all(&self) -> Vec<Arc<ServedExport>> {
        self.table().clone()
    }

    /// All exports with disks that may hold unflushed writes.
    pub(super) fn all_open(&self) -> Vec<Arc<ServedExport>> {
        let mut all = self.all();
        all.extend(self.retired().iter().cloned());
        all
    }

    /// Serves one more.
    pub(super) fn add(&self, served: Arc<ServedExport>) -> Result<(), ChangeError> {
        let name = served.name();
        if name.len() > limits::STRING_MAX {
            return Err(ChangeError::NameTooLong(name.to_owned()));
        }
        let mut table = self.change();
        if table.iter().any(|other| other.name() == name) {
            return Err(ChangeError::NameTwice(name.to_owned()));
        }
        table.push(served);
        Ok(())
    }

    /// Takes one out; `instead` comes to its place.
    pub(super) fn take_out(
        &self,
        name: &str,
        instead: Option<(Export, Rules)>,
    ) -> Result<Arc<ServedExport>, ChangeError> {
        let mut table = self.change();
        let at = table.iter().position(|served| served.name() == name);
        let at = at.ok_or_else(|| ChangeError::Unknown(name.to_owned()))?;
        let served = match instead {
            Some((export, rules)) => {
                std::mem::replace(&mut table[at], ServedExport::new(export, rules))
            }
            None => table.remove(at),
        };
        self.retired().push(served.clone());
        Ok(served)
    }

    /// Forgets one that was taken out.
    pub(super) fn forget(&self, served: &Arc<ServedExport>) {
        self.retired().retain(|other| !Arc::ptr_eq(other, served));
    }

    /// Puts the exports into the order of `names`; others come behind those.
    pub(super) fn arrange(&self, names: &[String]) {
        let place = |served: &Arc<ServedExport>| {
            let named = names.iter().position(|name| name == served.name());
            named.unwrap_or(usize::MAX)
        };
        self.change().sort_by_key(place);
    }
}
