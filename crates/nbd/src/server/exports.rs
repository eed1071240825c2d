//! [`Export`]: a disk under a name, and the table that clients choose from, which may change while
//! they do.
//!
//! # Invariants
//!
//! * An export that a client may not use is unknown to it: not found, not listed. Nothing is asked
//!   of its disk.
//! * A client is admitted under the same lock under which an export is retired: none slips in
//!   behind the flush that ends it.
//! * An export that was taken out is kept in `retired` until its disk was flushed, so that a stop
//!   meanwhile flushes it too.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use block::Node;
use engine::InFlight;
use nbd_proto::{ExportInfo, Refusal, TransmissionFlags, limits};
use tokio::sync::Notify;

use super::access::Access;
use super::clients::{Admitted, Client, Roster};
use super::error::{ChangeError, ServeError};
use super::peer::Peer;
use super::plan;
use super::stats::ExportFigures;

/// A disk that clients can ask for by name.
#[derive(Debug, Clone)]
pub struct Export {
    /// Its name: any text up to 4096 bytes; never a path to anything.
    pub name: String,
    /// A text for people.
    pub description: String,
    /// The disk.
    pub disk: Node,
}

/// Who may use an export, and how many.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// Who.
    pub access: Access,
    /// Clients at once; `None`: as many as the server takes.
    pub connections_max: Option<usize>,
}

/// An export as its connections see it.
#[derive(Debug)]
pub(super) struct Served {
    name: String,
    state: Mutex<State>,
    /// Connections that are over but for requests that their disk has not answered.
    pub(super) leaving: InFlight,
    /// Told when the last client has left.
    emptied: Notify,
}

/// What of an export may change.
#[derive(Debug)]
struct State {
    description: String,
    disk: Node,
    rules: Rules,
    roster: Roster,
    /// It takes no more clients.
    is_retired: bool,
}

impl Served {
    fn new(export: Export, rules: Rules) -> Arc<Self> {
        Arc::new(Self {
            name: export.name,
            state: Mutex::new(State {
                description: export.description,
                disk: export.disk,
                rules,
                roster: Roster::default(),
                is_retired: false,
            }),
            leaving: InFlight::new(),
            emptied: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The disk that new clients get.
    pub(super) fn disk(&self) -> Node {
        self.state().disk.clone()
    }

    /// Takes `peer` in as a client, if the export still is what it was told.
    pub(super) fn admit(
        self: &Arc<Self>,
        id: u64,
        peer: &Peer,
        told: &ExportInfo,
    ) -> Result<Admitted, NotAdmitted> {
        let mut state = self.state();
        if state.is_retired || !state.rules.access.allows(peer) {
            return Err(NotAdmitted::Gone);
        }
        if state.is_full() {
            return Err(NotAdmitted::Full);
        }
        let geometry = state.disk.geometry();
        // These are the handshake's to take away; everything else must still be true.
        let negotiable = TransmissionFlags::SEND_DF | TransmissionFlags::BLOCK_STATUS_PAYLOAD;
        let flags = plan::transmission_flags(geometry);
        let other = flags.symmetric_difference(told.flags) - negotiable;
        if geometry.size != told.size || !other.is_empty() {
            return Err(NotAdmitted::Changed);
        }
        let client = Arc::new(Client::new(id, peer.clone(), geometry.size));
        state.roster.enter(client.clone());
        Ok(Admitted::new(self.clone(), client, state.disk.clone()))
    }

    /// A client has left.
    pub(super) fn release(&self, client: &Arc<Client>) {
        let is_empty = self.state().roster.leave(client);
        if is_empty {
            self.emptied.notify_waiters();
        }
    }

    /// Takes no more clients and tells those there are to leave.
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
        self.leaving.settled().await;
    }

    pub(super) fn clients(&self) -> usize {
        self.state().roster.len()
    }

    /// Tells the client of this number to leave.
    pub(super) fn dismiss(&self, id: u64) -> bool {
        self.state().roster.dismiss(|client| client.id() == id) > 0
    }

    /// Other rules and another text. Clients that the rules leave out are told to leave.
    pub(super) fn update(&self, description: String, rules: Rules) {
        let mut state = self.state();
        state.description = description;
        state.rules = rules;
        let State { roster, rules, .. } = &mut *state;
        roster.dismiss(|client| !rules.access.allows(client.peer()));
    }

    /// New clients get `disk`, which is this one measured anew.
    pub(super) fn resize(&self, disk: Node) -> Result<(), ChangeError> {
        let mut state = self.state();
        let (from, to) = (state.disk.geometry().size, disk.geometry().size);
        if to < from && state.roster.len() > 0 {
            return Err(ChangeError::Shrinks {
                name: self.name.clone(),
                from,
                to,
                clients: state.roster.len(),
            });
        }
        state.disk = disk;
        Ok(())
    }

    pub(super) fn figures(&self) -> ExportFigures {
        let state = self.state();
        let geometry = state.disk.geometry();
        ExportFigures {
            name: self.name.clone(),
            description: state.description.clone(),
            size: geometry.size,
            read_only: geometry.read_only,
            clients_ever: state.roster.ever(),
            clients: state.roster.clients(),
            figures: state.roster.figures(),
        }
    }
}

impl State {
    fn is_full(&self) -> bool {
        let max = self.rules.connections_max;
        max.is_some_and(|max| self.roster.len() >= max)
    }
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
}

/// The exports of a server. The first is also the default, which has the empty name.
#[derive(Debug)]
pub(super) struct Exports {
    table: RwLock<Vec<Arc<Served>>>,
    retired: Mutex<Vec<Arc<Served>>>,
}

impl Exports {
    pub(super) fn new(exports: Vec<(Export, Rules)>) -> Result<Self, ServeError> {
        let mut table: Vec<Arc<Served>> = Vec::new();
        for (export, rules) in exports {
            if export.name.len() > limits::STRING_MAX {
                return Err(ServeError::NameTooLong(export.name));
            }
            if table.iter().any(|served| served.name == export.name) {
                return Err(ServeError::NameTwice(export.name));
            }
            table.push(Served::new(export, rules));
        }
        if table.is_empty() {
            return Err(ServeError::NoExports);
        }
        Ok(Self {
            table: RwLock::new(table),
            retired: Mutex::default(),
        })
    }

    fn table(&self) -> RwLockReadGuard<'_, Vec<Arc<Served>>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Vec<Arc<Served>>> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn retired(&self) -> MutexGuard<'_, Vec<Arc<Served>>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `peer` gets who asks for `name`.
    pub(super) fn find(&self, name: &str, peer: &Peer) -> Option<Arc<Served>> {
        let table = self.table();
        let named = table.iter().find(|served| served.name == name);
        let found = named.or_else(|| table.first().filter(|_| name.is_empty()))?;
        let allowed = found.state().rules.access.allows(peer);
        allowed.then(|| found.clone())
    }

    /// Names and descriptions of what `peer` may use.
    pub(super) fn list(&self, peer: &Peer) -> Vec<(String, String)> {
        let mut list = Vec::new();
        for served in self.table().iter() {
            let state = served.state();
            if state.rules.access.allows(peer) {
                list.push((served.name.clone(), state.description.clone()));
            }
        }
        list
    }

    /// The export of exactly this name.
    pub(super) fn named(&self, name: &str) -> Option<Arc<Served>> {
        let table = self.table();
        table.iter().find(|served| served.name == name).cloned()
    }

    /// All that are served.
    pub(super) fn all(&self) -> Vec<Arc<Served>> {
        self.table().clone()
    }

    /// All whose disks may hold unflushed writes.
    pub(super) fn all_open(&self) -> Vec<Arc<Served>> {
        let mut all = self.all();
        all.extend(self.retired().iter().cloned());
        all
    }

    /// Serves one more.
    pub(super) fn add(&self, export: Export, rules: Rules) -> Result<(), ChangeError> {
        if export.name.len() > limits::STRING_MAX {
            return Err(ChangeError::NameTooLong(export.name));
        }
        let mut table = self.change();
        if table.iter().any(|served| served.name == export.name) {
            return Err(ChangeError::NameTwice(export.name));
        }
        table.push(Served::new(export, rules));
        Ok(())
    }

    /// Takes one out; `instead` comes to its place.
    pub(super) fn take_out(
        &self,
        name: &str,
        instead: Option<(Export, Rules)>,
    ) -> Result<Arc<Served>, ChangeError> {
        let mut table = self.change();
        let at = table.iter().position(|served| served.name == name);
        let at = at.ok_or_else(|| ChangeError::Unknown(name.to_owned()))?;
        let served = match instead {
            Some((export, rules)) => std::mem::replace(&mut table[at], Served::new(export, rules)),
            None => table.remove(at),
        };
        self.retired().push(served.clone());
        Ok(served)
    }

    /// Forgets one that was taken out.
    pub(super) fn forget(&self, served: &Arc<Served>) {
        self.retired().retain(|other| !Arc::ptr_eq(other, served));
    }

    /// Puts the exports into the order of `names`; others come behind those.
    pub(super) fn arrange(&self, names: &[String]) {
        let place = |served: &Arc<Served>| {
            let named = names.iter().position(|name| *name == served.name);
            named.unwrap_or(usize::MAX)
        };
        self.change().sort_by_key(place);
    }
}

/// What a client is told of an export.
pub(super) fn describe(served: Option<&Served>, payload_max: u32) -> Result<ExportInfo, Refusal> {
    let served = served.ok_or(Refusal::Unknown)?;
    let state = served.state();
    if state.is_full() {
        return Err(Refusal::Policy(NotAdmitted::Full.to_string()));
    }
    let geometry = state.disk.geometry();
    Ok(ExportInfo {
        name: served.name.clone(),
        description: state.description.clone(),
        size: geometry.size,
        flags: plan::transmission_flags(geometry),
        block_size_min: geometry.block_size,
        block_size_preferred: geometry.preferred_block_size.max(geometry.block_size),
        block_size_max: payload_max,
    })
}
