//! How the volumes of a group relate: snapshots and their origins, and what uses what. Pure.

use super::group::VolumeGroup;
use super::logical::LogicalVolume;
use super::segment::SegmentLayout;

/// A classic snapshot of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotRelation<'a> {
    /// The volume it is a snapshot of.
    pub origin: &'a str,
    /// The volume with what differs. Its name is the snapshot's.
    pub store: &'a str,
    /// Bytes of one exception.
    pub chunk_size: u64,
    /// It is being merged into the origin.
    pub merging: bool,
}

impl VolumeGroup {
    /// All classic snapshots.
    pub fn snapshots(&self) -> impl Iterator<Item = SnapshotRelation<'_>> {
        let segments = self.volumes.iter().flat_map(|volume| &volume.segments);
        segments.filter_map(|segment| match &segment.layout {
            SegmentLayout::Snapshot {
                origin,
                store,
                merging,
                chunk_size,
            } => Some(SnapshotRelation {
                origin,
                store,
                chunk_size: *chunk_size,
                merging: *merging,
            }),
            _ => None,
        })
    }

    /// The snapshot with the volume `name` as its store.
    #[must_use]
    pub fn snapshot_with_store(&self, name: &str) -> Option<SnapshotRelation<'_>> {
        self.snapshots().find(|snapshot| snapshot.store == name)
    }

    /// The volume that has `name` as a part of it; a snapshot's store and origin, and the volumes of a thin pool, are no
    /// parts.
    #[must_use]
    pub fn owner(&self, name: &str) -> Option<&LogicalVolume> {
        let is_part = |volume: &&LogicalVolume| {
            let mut segments = volume.segments.iter().filter(|segment| {
                !matches!(
                    segment.layout,
                    SegmentLayout::Snapshot { .. } | SegmentLayout::Thin { .. }
                )
            });
            segments.any(|segment| segment.references().contains(&name))
        };
        self.volumes.iter().find(is_part)
    }

    /// Whether users open `volume` by its name: it is visible and a disk, or the store of a snapshot.
    #[must_use]
    pub fn is_for_users(&self, volume: &LogicalVolume) -> bool {
        let mut segments = volume.segments.iter();
        let is_no_disk = segments.any(|segment| {
            matches!(
                segment.layout,
                SegmentLayout::Snapshot { .. }
                    | SegmentLayout::ThinPool { .. }
                    | SegmentLayout::CachePool { .. }
            )
        });
        match self.snapshot_with_store(&volume.name) {
            Some(snapshot) => !snapshot.merging,
            None => volume.is_visible() && !is_no_disk,
        }
    }
}
