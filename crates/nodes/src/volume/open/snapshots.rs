//! Origins and their snapshots.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use block::Node;
use engine::clock;

use super::VolumeSet;
use super::plan::{SnapshotRole, VolumeUse, plan_alone};
use super::segments::{OpenParts, VolumeOpener};
use crate::volume::VolumeError;
use crate::volume::format::{LogicalVolume, SnapshotRelation};
use crate::volume::group::AssembledGroup;
use crate::volume::snapshot::{
    Origin, SnapshotError, SnapshotState, SnapshotStatus, SnapshotStore, read_status,
};

/// How long a write of an origin that no flush followed may be in memory only, plus the time that a drain takes.
const DRAIN_INTERVAL: Duration = Duration::from_secs(5);

/// A snapshot, by its names in the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotOwner {
    /// The volume that it is a snapshot of.
    pub origin: String,
    /// Its own name.
    pub name: String,
}

/// The origins of a set that are open with their snapshots, by the names of all of them.
#[derive(Debug, Default)]
pub(super) struct OpenOrigins(Mutex<HashMap<String, Origin>>);

impl OpenOrigins {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Origin>> {
        // The list is right at every moment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn all(&self) -> Vec<Origin> {
        self.lock().values().cloned().collect()
    }

    pub(super) fn find(&self, key: &str) -> Option<Origin> {
        self.lock().get(key).cloned()
    }

    fn insert(&self, key: String, origin: Origin) {
        self.lock().insert(key, origin);
    }
}

/// Writes what origins have buffered to their disks, again and again, until the set is closed.
pub(super) async fn drain_by_clock(set: Weak<VolumeSet>) {
    loop {
        clock::sleep(DRAIN_INTERVAL).await;
        let Some(set) = set.upgrade() else {
            return;
        };
        for origin in set.origins.all() {
            origin.drain().await;
        }
    }
}

impl VolumeSet {
    /// Opens the store of the snapshot `name` itself: to wipe it before it is one, or to see how full it is.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub async fn open_store(&self, name: &str) -> Result<Node, VolumeError> {
        let group = self.group();
        let mut parts = self.parts.lock().await;
        self.open_store_of(&group, name, &mut parts).await
    }

    /// The same of a group that may not be this one's yet.
    pub(super) async fn open_store_of(
        &self,
        group: &AssembledGroup,
        name: &str,
        parts: &mut OpenParts,
    ) -> Result<Node, VolumeError> {
        let plan = plan_alone(group, name)?;
        self.check_sizes(&plan)?;
        let mut remarks = Vec::new();
        let mut opener = VolumeOpener {
            set: self,
            group,
            plan: &plan,
            parts,
            remarks: &mut remarks,
            is_only_read: plan.is_only_read(&group.group),
        };
        opener.volume(name).await
    }

    /// The bytes of physical volumes that the store of a snapshot lies on.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub fn store_uses(&self, name: &str) -> Result<Vec<VolumeUse>, VolumeError> {
        Ok(plan_alone(&self.group(), name)?.uses)
    }

    /// How full the stores of all snapshots of the group are, in the order of the text. `None` where a store cannot be
    /// opened, with why.
    pub async fn snapshot_status(&self) -> Vec<(SnapshotOwner, Result<SnapshotStatus, String>)> {
        let group = &self.group().group;
        let mut all = Vec::new();
        for one in group.snapshots() {
            let owner = SnapshotOwner {
                origin: one.origin.to_owned(),
                name: one.store.to_owned(),
            };
            let status = self.store_status(&one).await;
            all.push((owner, status.map_err(|error| error.to_string())));
        }
        all
    }

    async fn store_status(
        &self,
        one: &SnapshotRelation<'_>,
    ) -> Result<SnapshotStatus, VolumeError> {
        let group = &self.group().group;
        let origin = group.volume(one.origin).map_or(0, LogicalVolume::extents);
        let store = SnapshotStore {
            name: one.store.to_owned(),
            cow: self.open_store(one.store).await?,
            chunk: one.chunk_size,
            merging: one.merging,
        };
        let status = read_status(store, group.bytes(origin)).await;
        status.map_err(|source| failed(one.store, source))
    }

    /// The open origin that has this snapshot.
    pub(super) fn open_origin_of(&self, snapshot: &str) -> Option<Origin> {
        let mut open = self.origins.all().into_iter();
        open.find(|open| open.status().iter().any(|one| one.name == snapshot))
    }

    /// The snapshots of origins that are open, each once, and how full their stores are now.
    #[must_use]
    pub fn open_snapshots(&self) -> Vec<(SnapshotOwner, SnapshotStatus)> {
        let group = &self.group().group;
        let mut found: Vec<(SnapshotOwner, SnapshotStatus)> = Vec::new();
        for status in self.origins.all().iter().flat_map(Origin::status) {
            let relation = group.snapshot_with_store(&status.name);
            let is_known = found.iter().any(|(known, _)| known.name == status.name);
            if let (Some(relation), false) = (relation, is_known) {
                let owner = SnapshotOwner {
                    origin: relation.origin.to_owned(),
                    name: status.name.clone(),
                };
                found.push((owner, status));
            }
        }
        found
    }
}

impl VolumeOpener<'_> {
    /// The origin or the snapshot that is to be opened.
    pub(super) async fn snapshots(&mut self, role: &SnapshotRole<'_>) -> Result<Node, VolumeError> {
        let origin = self.origin(role).await?;
        let Some(name) = role.opens else {
            return Ok(origin.disk());
        };
        let status = origin.status();
        let own = status.iter().find(|status| status.name == name);
        if let Some(SnapshotState::Invalid(why)) = own.map(|own| &own.state) {
            return Err(VolumeError::State {
                volume: name.to_owned(),
                what: format!("is a snapshot that was lost: {why}"),
                next: "its origin is not affected: open that",
            });
        }
        origin.snapshot(name).map_err(|source| failed(name, source))
    }

    /// The origin with the snapshots that matter, opened once for all of them.
    async fn origin(&mut self, role: &SnapshotRole<'_>) -> Result<Origin, VolumeError> {
        let read_only = self.set.access.read_only;
        // Where nothing is written an origin is opened with those of its snapshots that matter.
        let stores = role
            .stores
            .iter()
            .map(|one| one.store)
            .filter(|_| read_only);
        let parts: Vec<&str> = std::iter::once(role.origin).chain(stores).collect();
        let key = parts.join("/");
        if self.parts.broken_merge.as_deref() == Some(role.origin) {
            return Err(VolumeError::State {
                volume: role.origin.to_owned(),
                what: "has a merge that may have begun, and failed".to_owned(),
                next: "stop what uses volumes of its group, and open it again",
            });
        }
        if let Some(known) = self.set.origins.find(&key) {
            return Ok(known);
        }
        let disk = self.volume(role.origin).await?;
        let mut stores = Vec::with_capacity(role.stores.len());
        for one in &role.stores {
            stores.push(SnapshotStore {
                name: one.store.to_owned(),
                cow: self.volume(one.store).await?,
                chunk: one.chunk_size,
                merging: one.merging,
            });
        }
        let opened = Box::pin(Origin::open(disk, stores, read_only)).await;
        let origin = opened.map_err(|source| failed(role.origin, source))?;
        self.set.origins.insert(key, origin.clone());
        Ok(origin)
    }
}

pub(super) fn failed(volume: &str, source: SnapshotError) -> VolumeError {
    let volume = volume.to_owned();
    VolumeError::Snapshot { volume, source }
}
