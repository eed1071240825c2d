//! Volumes opened: from the description of a group and the disks of its members to one disk.
//!
//! ```text
//! AssembledGroup ─┐              plan (pure): everything it is made of, checked
//! disks by PV id ─┴► VolumeSet ──► segments: linear, stripe, … of members and of other volumes
//!                                └► snapshots, if it is an origin that is written, or a snapshot
//! ```
//!
//! # Invariants
//!
//! * Nothing is opened, and so nothing is written, before all that a volume is made of was checked.
//! * Within a [`VolumeSet`] each volume, origin and pool is opened once: an origin and its snapshots stay consistent when both
//!   are used.
//! * A volume is writable only if its status, its type, and the disks it lies on are.
//!
//! # What it does not do
//!
//! It activates nothing in the kernel. Of the metadata it changes snapshots (`change.rs`, `merges.rs`) and where extents are (`moves.rs`).

mod areas;
mod change;
mod disk;
mod merges;
mod moves;
mod plan;
mod raid;
mod segments;
mod snapshots;
#[cfg(test)]
mod tests;
mod thin;
mod visit;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use block::{Identity, Node};
use tokio::sync::Mutex;

use self::areas::MovableDisks;
pub use self::change::{OpenChangeError, SnapshotChange};
use self::disk::VolumeDisk;
pub use self::moves::{LiveMove, LiveMoveOptions, LiveMoveState};
pub use self::plan::VolumeUse;
use self::segments::OpenParts;
use self::snapshots::OpenOrigins;
pub use self::snapshots::SnapshotOwner;
use super::VolumeError;
use super::group::{AssembledGroup, VolumeAccess};
use super::thin::{ThinPool, ThinPoolUsage};
use crate::array::Array;

/// The volumes of a group that are open, and what they share.
#[derive(Debug)]
pub struct VolumeSet {
    /// Replaced when its metadata are changed while volumes are open.
    group: RwLock<Arc<AssembledGroup>>,
    /// By the id of the physical volume.
    disks: HashMap<String, Node>,
    access: VolumeAccess,
    /// What is open already; locked while a volume is being opened.
    parts: Mutex<OpenParts>,
    /// Origins with their snapshots.
    origins: OpenOrigins,
    /// The disks of volumes that were opened, by name.
    opened: std::sync::Mutex<HashMap<String, Vec<Weak<VolumeDisk>>>>,
    /// The extents of volumes that were opened.
    movable: MovableDisks,
    /// The arrays of RAID volumes that were opened.
    arrays: std::sync::Mutex<Vec<Weak<Array>>>,
    /// How much of the thin pools that are open is used, by name.
    pools: std::sync::Mutex<BTreeMap<String, ThinPoolUsage>>,
    /// The last move of extents, which may be running.
    last_move: std::sync::Mutex<Option<Arc<LiveMove>>>,
}

/// A volume that is open.
#[derive(Debug, Clone)]
pub struct OpenVolume {
    /// The disk.
    pub disk: Node,
    /// The bytes of physical volumes that it uses.
    pub uses: Vec<VolumeUse>,
    /// What it is: `linear`, `raid1`, `thin`…
    pub kind: String,
    /// Its status or its type keeps it from being written, on any disks.
    pub is_only_read: bool,
    /// What is not as it should be.
    pub remarks: Vec<String>,
    /// The RAID volumes below it that were opened with it. Their opener stops them ([`Array::stop`]) when no volume of the
    /// set is in use any more, after a flush of each: until then their metadata may say that they are dirty.
    pub arrays: Vec<Arc<Array>>,
}

impl VolumeSet {
    /// The volumes of `group`, over the disks of its members: those in `disks`, by the id of the physical volume.
    ///
    /// # Errors
    /// As [`AssembledGroup::check_access`].
    pub fn new(
        group: AssembledGroup,
        disks: HashMap<String, Node>,
        access: VolumeAccess,
    ) -> Result<Arc<Self>, VolumeError> {
        group.check_access(&access)?;
        Ok(Arc::new(Self {
            group: RwLock::new(Arc::new(group)),
            disks,
            access,
            parts: Mutex::default(),
            origins: OpenOrigins::default(),
            opened: std::sync::Mutex::default(),
            movable: MovableDisks::default(),
            arrays: std::sync::Mutex::default(),
            pools: std::sync::Mutex::default(),
            last_move: std::sync::Mutex::default(),
        }))
    }

    /// The group as it is now.
    #[must_use]
    pub fn group(&self) -> Arc<AssembledGroup> {
        let group = self.group.read();
        group.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether its volumes may be written.
    #[must_use]
    pub const fn is_writable(&self) -> bool {
        !self.access.read_only
    }

    /// Whether the disk of a volume is in use.
    #[must_use]
    pub fn is_open(&self, name: &str) -> bool {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let mut disks = opened.get(name).into_iter().flatten();
        disks.any(|disk| disk.strong_count() > 0)
    }

    /// Whether it is the array of a RAID volume of the group, which is open as long as the group is.
    #[must_use]
    pub fn has_array(&self, array: &Arc<Array>) -> bool {
        let arrays = self.arrays.lock().unwrap_or_else(PoisonError::into_inner);
        let mut arrays = arrays.iter();
        arrays.any(|one| std::ptr::eq(one.as_ptr(), Arc::as_ptr(array)))
    }

    /// The thin pools that are open, by name, and how much of each is used. Nothing writes to them here, so that this does not
    /// change.
    #[must_use]
    pub fn thin_pools(&self) -> BTreeMap<String, ThinPoolUsage> {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.clone()
    }

    fn note_pools(&self, opened: &HashMap<String, Arc<ThinPool>>) {
        let usages = opened
            .iter()
            .map(|(name, pool)| (name.clone(), pool.usage()));
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.extend(usages);
    }

    fn note_arrays(&self, opened: &[Arc<Array>]) {
        let mut arrays = self.arrays.lock().unwrap_or_else(PoisonError::into_inner);
        arrays.extend(opened.iter().map(Arc::downgrade));
    }

    fn note_opened(&self, name: &str, disk: &Arc<VolumeDisk>) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let disks = opened.entry(name.to_owned()).or_default();
        disks.retain(|disk| disk.strong_count() > 0);
        disks.push(Arc::downgrade(disk));
    }

    /// The bytes of physical volumes that the volume `name` uses.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub fn uses(&self, name: &str) -> Result<Vec<VolumeUse>, VolumeError> {
        let group = self.group();
        let plan = plan::plan(&group, name, &self.access)?;
        self.check_sizes(&plan)?;
        Ok(plan.uses)
    }

    /// Opens the volume `name`. While one that may get snapshots is open for writing, what is buffered of it is written every
    /// few seconds by a task of this core.
    ///
    /// # Panics
    /// If a volume that may get snapshots is opened for writing outside the engine.
    ///
    /// # Errors
    /// [`VolumeError`]: why not; nothing was written.
    pub async fn open(self: &Arc<Self>, name: &str) -> Result<OpenVolume, VolumeError> {
        let mut parts = self.parts.lock().await;
        let group = self.group();
        let plan = plan::plan(&group, name, &self.access)?;
        self.check_sizes(&plan)?;
        let mut remarks = Vec::new();
        let opened = segments::open(self, &group, &plan, &mut parts, &mut remarks);
        let disk = Box::pin(opened).await?;
        let arrays = std::mem::take(&mut parts.arrays);
        self.note_arrays(&arrays);
        self.note_pools(&parts.pools);
        if !self.access.read_only && !self.origins.is_empty() && !parts.is_draining {
            parts.is_draining = true;
            drop(engine::spawn(snapshots::drain_by_clock(Arc::downgrade(
                self,
            ))));
        }
        let volume = plan.volume;
        let facts = [group.group.id.as_bytes(), volume.id.as_bytes()];
        let identity = Identity::of("lvm", &facts);
        let is_only_read = plan.is_only_read(&group.group);
        let read_only = self.access.read_only || is_only_read;
        let disk = Arc::new(VolumeDisk::new(disk, read_only, identity, self.clone()));
        self.note_opened(name, &disk);
        let kind = match plan.snapshots.as_ref().and_then(|role| role.opens) {
            Some(_) => "snapshot",
            None => volume.kind(),
        };
        Ok(OpenVolume {
            disk,
            kind: kind.to_owned(),
            is_only_read,
            uses: plan.uses,
            remarks,
            arrays,
        })
    }

    /// Refuses disks that end before the volume does.
    fn check_sizes(&self, plan: &plan::VolumePlan<'_>) -> Result<(), VolumeError> {
        for used in &plan.uses {
            let Some(disk) = self.disk(used.member) else {
                continue;
            };
            let (size, end) = (disk.geometry().size, used.range.end());
            if end > size {
                return Err(VolumeError::Short {
                    volume: plan.volume.name.clone(),
                    disk: self.disk_name(used.member),
                    size,
                    end,
                });
            }
        }
        Ok(())
    }

    /// The disk of the member at `index` of the group's members.
    fn disk(&self, index: usize) -> Option<Node> {
        let group = self.group();
        group.disk_of(index)?;
        self.disks.get(&group.group.members[index].id).cloned()
    }

    /// What that disk is called.
    fn disk_name(&self, index: usize) -> String {
        let group = self.group();
        match group.disk_of(index) {
            Some(disk) => group.names[disk].clone(),
            None => group.group.members[index].name.clone(),
        }
    }
}

/// Opens one volume of a group: [`VolumeSet::open`] without others that share its parts.
///
/// # Errors
/// [`VolumeError`]: why not; nothing was written.
pub async fn open_volume(
    group: &AssembledGroup,
    name: &str,
    disks: &HashMap<String, Node>,
    access: &VolumeAccess,
) -> Result<OpenVolume, VolumeError> {
    let set = VolumeSet::new(group.clone(), disks.clone(), access.clone())?;
    set.open(name).await
}
