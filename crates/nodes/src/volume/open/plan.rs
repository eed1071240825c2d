//! [`VolumePlan`]: what a volume is made of, down to the physical volumes, checked before anything is opened. Pure.
//!
//! # Invariants
//!
//! * A volume that contradicts itself (a gap, extents that its disk does not have, a circle) is refused, and so is nesting
//!   beyond [`DEPTH_MAX`].
//! * Each volume is visited once, however often it is referred to.
//! * A disk that is missing matters only to the volumes that need it to be read: an image of RAID and a leg of a
//!   mirror may be missing.

use std::collections::{BTreeSet, HashMap};

use block::Range;

use super::visit::Visit;
use crate::volume::format::{
    LogicalVolume, SegmentLayout, SnapshotRelation, VolumeGroup, VolumeSegment,
};
use crate::volume::group::{AssembledGroup, MemberPlace, VolumeAccess};
use crate::volume::{MissingMember, VolumeError};

/// Volumes within volumes: a snapshot of a thin volume in a pool on RAID that is being moved has six.
pub(super) const DEPTH_MAX: usize = 12;

/// Bytes of a physical volume that a volume lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeUse {
    /// Where they are in the volume; `None`: anywhere in it, or it needs them to find its bytes.
    pub at: Option<u64>,
    /// Index of the member of the group.
    pub member: usize,
    /// Where on the member's disk.
    pub range: Range,
}

impl VolumeUse {
    /// Whether both are the same bytes of a physical volume.
    #[must_use]
    pub fn is_same_place(&self, other: &Self) -> bool {
        (self.member, self.range) == (other.member, other.range)
    }
}

/// The snapshots that a volume is opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SnapshotRole<'a> {
    /// The volume that they are snapshots of.
    pub(super) origin: &'a str,
    /// Those that matter.
    pub(super) stores: Vec<SnapshotRelation<'a>>,
    /// The one that is opened; `None`: the origin is.
    pub(super) opens: Option<&'a str>,
}

/// What a volume is made of.
#[derive(Debug)]
pub(super) struct VolumePlan<'a> {
    /// The volume.
    pub(super) volume: &'a LogicalVolume,
    /// The snapshots that it is opened with, if any.
    pub(super) snapshots: Option<SnapshotRole<'a>>,
    /// Members that are missing, for each volume that was visited: without them its bytes cannot be had.
    pub(super) missing: HashMap<&'a str, BTreeSet<usize>>,
    /// All bytes it needs.
    pub(super) uses: Vec<VolumeUse>,
}

/// Plans the opening of the volume `name`.
///
/// # Errors
/// Why it cannot be opened.
pub(super) fn plan<'a>(
    assembled: &'a AssembledGroup,
    name: &str,
    access: &VolumeAccess,
) -> Result<VolumePlan<'a>, VolumeError> {
    let group = &assembled.group;
    let volume = group.volume(name).ok_or_else(|| VolumeError::NoVolume {
        group: group.name.clone(),
        name: name.to_owned(),
        found: assembled.volume_names(),
    })?;
    check_kind(group, volume)?;
    let snapshots = snapshot_role(group, volume, access);
    let mut visit = Visit {
        assembled,
        stack: Vec::new(),
        missing: HashMap::new(),
        uses: Vec::new(),
        is_top: snapshots.is_none(),
    };
    visit.volume(volume)?;
    for name in snapshots.iter().flat_map(SnapshotRole::names) {
        visit.named(name, volume)?;
    }
    let plan = VolumePlan {
        volume,
        snapshots,
        missing: visit.missing,
        uses: visit.uses,
    };
    plan.check_missing(assembled)?;
    Ok(plan)
}

/// Plans the opening of the store of a snapshot by itself, or of an origin without its snapshots.
///
/// # Errors
/// Why it cannot be opened.
pub(super) fn plan_alone<'a>(
    assembled: &'a AssembledGroup,
    name: &str,
) -> Result<VolumePlan<'a>, VolumeError> {
    let group = &assembled.group;
    let volume = group.volume(name).ok_or_else(|| VolumeError::NoVolume {
        group: group.name.clone(),
        name: name.to_owned(),
        found: assembled.volume_names(),
    })?;
    let mut visit = Visit {
        assembled,
        stack: Vec::new(),
        missing: HashMap::new(),
        uses: Vec::new(),
        is_top: true,
    };
    visit.volume(volume)?;
    let plan = VolumePlan {
        volume,
        snapshots: None,
        missing: visit.missing,
        uses: visit.uses,
    };
    plan.check_missing(assembled)?;
    Ok(plan)
}

impl<'a> SnapshotRole<'a> {
    /// All volumes that it needs.
    fn names(&self) -> impl Iterator<Item = &'a str> {
        let stores = self.stores.iter().map(|one| one.store);
        std::iter::once(self.origin).chain(stores)
    }
}

/// The snapshots that `volume` has to be opened with. What is only read overwrites nothing that a snapshot needs; but while a
/// snapshot is merged, the newest bytes are in its store.
fn snapshot_role<'a>(
    group: &'a VolumeGroup,
    volume: &LogicalVolume,
    access: &VolumeAccess,
) -> Option<SnapshotRole<'a>> {
    let opened = group.snapshot_with_store(&volume.name);
    let origin = opened.map_or(volume.name.as_str(), |one| one.origin);
    let matters = |one: &SnapshotRelation<'_>| match opened {
        _ if !access.read_only => true,
        Some(opened) => *one == opened,
        None => one.merging,
    };
    let stores: Vec<_> = group
        .snapshots()
        .filter(|one| one.origin == origin && matters(one))
        .collect();
    let first = stores.first()?;
    Some(SnapshotRole {
        origin: first.origin,
        opens: opened.map(|one| one.store),
        stores,
    })
}

/// Refuses what is no disk of its own.
fn check_kind(group: &VolumeGroup, volume: &LogicalVolume) -> Result<(), VolumeError> {
    let name = || volume.name.clone();
    if let Some(snapshot) = group.snapshot_with_store(&volume.name)
        && snapshot.merging
    {
        return Err(VolumeError::State {
            volume: name(),
            what: format!("is being merged into {}", snapshot.origin),
            next: "open the volume that it is merged into: it has the bytes of the snapshot",
        });
    }
    let no_disk = |what, next| {
        let volume = name();
        Err(VolumeError::NoDisk { volume, what, next })
    };
    match volume.segments.first().map(|segment| &segment.layout) {
        Some(SegmentLayout::ThinPool { .. }) => {
            return no_disk("a thin pool", "open one of its volumes");
        }
        Some(SegmentLayout::CachePool { .. }) => {
            return no_disk("a cache pool", "open the volume that it caches");
        }
        Some(SegmentLayout::Snapshot { .. }) => {
            return no_disk(
                "the description of a snapshot",
                "open the snapshot by its own name",
            );
        }
        _ => {}
    }
    if group.is_for_users(volume) {
        return Ok(());
    }
    match group.owner(&volume.name) {
        Some(owner) => Err(VolumeError::Hidden {
            volume: name(),
            owner: owner.name.clone(),
        }),
        None => no_disk(
            "a hidden volume of LVM's own",
            "`outboard inspect` lists those that can be opened",
        ),
    }
}

impl VolumePlan<'_> {
    /// Whether the volume `name` cannot be had without a disk that is missing.
    pub(super) fn is_missing(&self, name: &str) -> bool {
        self.missing
            .get(name)
            .is_none_or(|missing| !missing.is_empty())
    }

    /// Whether its status, or the type of anything it is made of, keeps it from being written.
    pub(super) fn is_only_read(&self, group: &VolumeGroup) -> bool {
        let parts = self.missing.keys().filter_map(|name| group.volume(name));
        let mut segments = parts.flat_map(|volume| &volume.segments);
        !self.volume.is_writable() || segments.any(is_only_read)
    }

    /// Refuses if the volume itself, or a snapshot that it is opened with, needs a disk that is missing.
    fn check_missing(&self, assembled: &AssembledGroup) -> Result<(), VolumeError> {
        let mut needed: BTreeSet<usize> = self.missing[self.volume.name.as_str()].clone();
        for name in self.snapshots.iter().flat_map(SnapshotRole::names) {
            needed.extend(&self.missing[name]);
        }
        missing_members(assembled, &self.volume.name, &needed)
    }
}

/// Whether segments of this type are never written here.
fn is_only_read(segment: &VolumeSegment) -> bool {
    match &segment.layout {
        SegmentLayout::Thin { .. } | SegmentLayout::Cache { .. } => true,
        SegmentLayout::Mirror { moved, .. } => moved.is_none(),
        _ => false,
    }
}

/// The error for members that are missing, if there are any.
pub(super) fn missing_members(
    assembled: &AssembledGroup,
    volume: &str,
    missing: &BTreeSet<usize>,
) -> Result<(), VolumeError> {
    if missing.is_empty() {
        return Ok(());
    }
    let members = missing.iter().map(|index| {
        let member = &assembled.group.members[*index];
        MissingMember {
            id: member.id.clone(),
            device: member.device.clone(),
            is_marked: matches!(assembled.places[*index], MemberPlace::MarkedMissing(_)),
        }
    });
    Err(VolumeError::Missing {
        volume: volume.to_owned(),
        members: members.collect(),
    })
}
