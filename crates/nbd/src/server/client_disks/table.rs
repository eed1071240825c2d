//! [`ClientDiskTable`]: which clients' disks are open, opening or closing. Pure: decides, and never waits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use block::Node;
use engine::InFlight;

use super::client_name::ClientName;

/// A client's open disk.
#[derive(Debug)]
pub(in crate::server) struct OpenDisk {
    pub(super) name: ClientName,
    pub(super) disk: Node,
    /// Another one for each opening.
    pub(super) incarnation: u64,
    /// Connections that are over but for requests that the disk has not answered.
    pub(super) leaving: InFlight,
}

#[derive(Debug)]
enum DiskSlot {
    /// A task opens, closes or removes it.
    Busy,
    /// Connections use it.
    Open {
        opened: Arc<OpenDisk>,
        connections: usize,
        /// No other connection may use it: its client is to leave it.
        is_evicted: bool,
        /// Nor this: another server has the disk.
        is_lost: bool,
    },
    /// Its client lost its connections, and may come back.
    Left { until: Instant },
}

/// What is to be done for a client that wants its disk.
#[derive(Debug)]
pub(super) enum JoinDecision {
    /// Use this one.
    Join(Arc<OpenDisk>),
    /// Ask again when a slot was left.
    Wait,
    /// Open it. The slot is taken until [`ClientDiskTable::opened`] or [`ClientDiskTable::free`].
    Open,
    /// Another source has it to give.
    Elsewhere,
}

/// Why a name cannot be reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotReserved {
    /// So many connections use its disk.
    Open(usize),
    /// Ask again when a slot was left.
    Wait,
}

/// The disks of one source. A name without a slot has a disk that is closed, or none.
#[derive(Debug, Default)]
pub(super) struct ClientDiskTable {
    slots: HashMap<ClientName, DiskSlot>,
    is_superseded: bool,
}

impl ClientDiskTable {
    /// From here on opens disks for known clients only.
    pub(super) fn supersede(&mut self) {
        self.is_superseded = true;
    }

    /// A client wants its disk.
    pub(super) fn join(&mut self, name: &ClientName, now: Instant) -> JoinDecision {
        match self.slots.get_mut(name) {
            Some(DiskSlot::Open {
                opened,
                connections,
                is_evicted: false,
                is_lost: false,
            }) => {
                *connections += 1;
                return JoinDecision::Join(opened.clone());
            }
            Some(DiskSlot::Busy | DiskSlot::Open { .. }) => return JoinDecision::Wait,
            Some(DiskSlot::Left { until }) if self.is_superseded && *until <= now => {
                self.slots.remove(name);
                return JoinDecision::Elsewhere;
            }
            None if self.is_superseded => return JoinDecision::Elsewhere,
            Some(DiskSlot::Left { .. }) | None => {}
        }
        self.slots.insert(name.clone(), DiskSlot::Busy);
        JoinDecision::Open
    }

    /// Its disk is open, for one connection.
    pub(super) fn opened(&mut self, opened: Arc<OpenDisk>) {
        let slot = DiskSlot::Open {
            opened: opened.clone(),
            connections: 1,
            is_evicted: false,
            is_lost: false,
        };
        self.slots.insert(opened.name.clone(), slot);
    }

    /// A connection leaves. Returns whether it was the last one, which must close the disk. The slot
    /// is taken until then.
    pub(super) fn leave(&mut self, name: &ClientName) -> bool {
        let Some(DiskSlot::Open { connections, .. }) = self.slots.get_mut(name) else {
            return false;
        };
        *connections -= 1;
        if *connections > 0 {
            return false;
        }
        self.slots.insert(name.clone(), DiskSlot::Busy);
        true
    }

    /// Its disk is closed; the client may come back until then.
    pub(super) fn free(&mut self, name: &ClientName, back_until: Option<Instant>, now: Instant) {
        match back_until {
            Some(until) => self.slots.insert(name.clone(), DiskSlot::Left { until }),
            None => self.slots.remove(name),
        };
        self.slots
            .retain(|_, slot| !matches!(slot, DiskSlot::Left { until } if *until <= now));
    }

    /// Lets no more connections use the disk of `name`, or does so again.
    pub(super) fn evict(&mut self, name: &ClientName, evict: bool) {
        if let Some(DiskSlot::Open { is_evicted, .. }) = self.slots.get_mut(name) {
            *is_evicted = evict;
        }
    }

    /// Another server has a disk that was opened here. False if that was known, or it is closed.
    pub(super) fn lose(&mut self, lost: &Arc<OpenDisk>) -> bool {
        match self.slots.get_mut(&lost.name) {
            Some(DiskSlot::Open {
                opened, is_lost, ..
            }) if Arc::ptr_eq(opened, lost) => !std::mem::replace(is_lost, true),
            _ => false,
        }
    }

    /// Whether the client of that name is to leave its disk.
    pub(super) fn is_evicted(&self, name: &ClientName) -> bool {
        let slot = self.slots.get(name);
        matches!(slot, Some(DiskSlot::Open { is_evicted, is_lost, .. }) if *is_evicted || *is_lost)
    }

    /// Takes the slot, if its disk is closed.
    pub(super) fn reserve(&mut self, name: &ClientName) -> Result<(), NotReserved> {
        match self.slots.get(name) {
            Some(DiskSlot::Busy) => Err(NotReserved::Wait),
            Some(DiskSlot::Open { connections, .. }) => Err(NotReserved::Open(*connections)),
            Some(DiskSlot::Left { .. }) | None => {
                self.slots.insert(name.clone(), DiskSlot::Busy);
                Ok(())
            }
        }
    }

    /// Whether no client uses it, nor may reconnect.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let is_past = |slot: &DiskSlot| matches!(slot, DiskSlot::Left { until } if *until <= now);
        self.slots.values().all(is_past)
    }

    /// Whether every disk is closed.
    pub(super) fn is_idle(&self) -> bool {
        let is_left = |slot: &DiskSlot| matches!(slot, DiskSlot::Left { .. });
        self.slots.values().all(is_left)
    }

    /// Connections that use the disk of `name`.
    pub(super) fn connections(&self, name: &ClientName) -> usize {
        match self.slots.get(name) {
            Some(DiskSlot::Open { connections, .. }) => *connections,
            _ => 0,
        }
    }

    /// The disks that are open.
    pub(super) fn open(&self) -> Vec<Arc<OpenDisk>> {
        let open = self.slots.values().filter_map(|slot| match slot {
            DiskSlot::Open { opened, .. } => Some(opened.clone()),
            DiskSlot::Busy | DiskSlot::Left { .. } => None,
        });
        open.collect()
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the choice of a disk for a client.

    use std::time::Duration;

    use testkit::MemDisk;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn name(text: &str) -> ClientName {
        ClientName::Certificate(text.to_owned())
    }

    fn open(table: &mut ClientDiskTable, who: &str, now: Instant) -> Arc<OpenDisk> {
        assert!(matches!(table.join(&name(who), now), JoinDecision::Open));
        let opened = Arc::new(OpenDisk {
            name: name(who),
            disk: Arc::new(MemDisk::new(512)),
            incarnation: 1,
            leaving: InFlight::new(),
        });
        table.opened(opened.clone());
        opened
    }

    #[test]
    fn connections_of_a_client_share_its_disk_and_the_last_one_closes_it() {
        let (mut table, now) = (ClientDiskTable::default(), engine::clock::now());
        open(&mut table, "a", now);
        assert!(matches!(table.join(&name("a"), now), JoinDecision::Join(_)));
        assert!(matches!(table.join(&name("b"), now), JoinDecision::Open));
        assert!(!table.leave(&name("a")));
        assert!(table.leave(&name("a")));
        assert!(matches!(table.join(&name("a"), now), JoinDecision::Wait));
        table.free(&name("a"), None, now);
        assert!(matches!(table.join(&name("a"), now), JoinDecision::Open));
    }

    #[test]
    fn a_superseded_source_keeps_its_clients_and_those_that_reconnect_in_time() {
        let (mut table, now) = (ClientDiskTable::default(), engine::clock::now());
        for who in ["here", "lost", "gone"] {
            open(&mut table, who, now);
        }
        // It lost its connection before the image was replaced.
        assert!(table.leave(&name("lost")));
        table.free(&name("lost"), Some(now + LONG), now);
        table.supersede();
        assert!(table.leave(&name("gone")));
        table.free(&name("gone"), None, now);
        assert!(matches!(
            table.join(&name("here"), now),
            JoinDecision::Join(_)
        ));
        assert!(matches!(
            table.join(&name("gone"), now),
            JoinDecision::Elsewhere
        ));
        assert!(matches!(
            table.join(&name("new"), now),
            JoinDecision::Elsewhere
        ));
        assert!(matches!(table.join(&name("lost"), now), JoinDecision::Open));
        table.free(&name("lost"), Some(now + LONG), now);
        assert!(!table.is_over(now));
        let late = now + 2 * LONG;
        assert!(matches!(
            table.join(&name("lost"), late),
            JoinDecision::Elsewhere
        ));
    }

    #[test]
    fn only_a_closed_disk_can_be_reserved_and_no_client_opens_it_then() {
        let (mut table, now) = (ClientDiskTable::default(), engine::clock::now());
        open(&mut table, "a", now);
        let held = table.reserve(&name("a"));
        assert_eq!(held, Err(NotReserved::Open(1)));
        assert!(table.leave(&name("a")));
        assert_eq!(table.reserve(&name("a")), Err(NotReserved::Wait));
        table.free(&name("a"), Some(now + LONG), now);
        assert_eq!(table.reserve(&name("a")), Ok(()));
        assert!(matches!(table.join(&name("a"), now), JoinDecision::Wait));
        table.free(&name("a"), None, now);
        assert!(table.is_over(now) && table.is_idle());
    }

    #[test]
    fn no_connection_joins_an_evicted_client_until_the_eviction_is_undone() {
        let (mut table, now) = (ClientDiskTable::default(), engine::clock::now());
        open(&mut table, "a", now);
        table.evict(&name("a"), true);
        assert!(table.is_evicted(&name("a")));
        assert!(matches!(table.join(&name("a"), now), JoinDecision::Wait));
        table.evict(&name("a"), false);
        assert!(matches!(table.join(&name("a"), now), JoinDecision::Join(_)));
        table.evict(&name("b"), true);
        assert!(matches!(table.join(&name("b"), now), JoinDecision::Open));
    }

    #[test]
    fn a_disk_that_another_server_has_is_opened_again_when_its_connections_have_left() {
        let (mut table, now) = (ClientDiskTable::default(), engine::clock::now());
        let first = open(&mut table, "a", now);
        assert!(table.lose(&first) && table.is_evicted(&name("a")));
        assert!(!table.lose(&first), "it is known");
        assert!(matches!(table.join(&name("a"), now), JoinDecision::Wait));
        assert!(table.leave(&name("a")));
        table.free(&name("a"), None, now);
        open(&mut table, "a", now);
        assert!(!table.lose(&first), "that is closed");
        assert!(!table.is_evicted(&name("a")));
    }

    #[test]
    fn a_client_that_left_is_forgotten_after_its_return_time() {
        let (mut table, now) = (ClientDiskTable::default(), engine::clock::now());
        for who in ["a", "b"] {
            open(&mut table, who, now);
            assert!(table.leave(&name(who)));
        }
        table.free(&name("a"), Some(now + LONG), now);
        assert_eq!(table.slots.len(), 2);
        table.free(&name("b"), None, now + LONG);
        assert!(table.slots.is_empty());
    }
}
