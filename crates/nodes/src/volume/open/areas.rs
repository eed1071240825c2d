//! [`VolumeAreas`]: the extents of physical volumes that a volume lies on, as one disk that can be moved.
//!
//! # Invariants
//!
//! * One disk for each volume: it is flushed once, in however many pieces the volume is.
//! * Only volumes that may be written, and so moved, have one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use block::Range;

use super::segments::VolumeOpener;
use super::visit::{current_area, stripe_extents};
use crate::parts::Segment;
use crate::volume::VolumeError;
use crate::volume::format::{LogicalVolume, SegmentArea, SegmentLayout};
use crate::volume::movable::{MovableDisk, UserActivity};

/// The extents of one volume.
#[derive(Debug)]
pub(super) struct VolumeAreas {
    disk: Arc<MovableDisk>,
    /// Where each area begins there: by member, first extent and length.
    starts: HashMap<(usize, u64, u64), u64>,
}

impl VolumeAreas {
    /// The area of a member that begins with this extent.
    pub(super) fn find(&self, member: usize, extent: u64, len: u64) -> Option<Segment> {
        let start = *self.starts.get(&(member, extent, len))?;
        Some(Segment {
            disk: self.disk.clone(),
            range: Range::new(start, len),
        })
    }
}

/// The disks of volumes that can be moved, as long as they are open.
#[derive(Debug, Default)]
pub(super) struct MovableDisks {
    disks: Mutex<Vec<Weak<MovableDisk>>>,
    users: Arc<UserActivity>,
}

impl MovableDisks {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<MovableDisk>>> {
        // The list is right at every moment.
        self.disks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The requests of users to all of them.
    pub(super) const fn users(&self) -> &Arc<UserActivity> {
        &self.users
    }

    fn insert(&self, disk: &Arc<MovableDisk>) {
        let mut disks = self.lock();
        disks.retain(|disk| disk.strong_count() > 0);
        disks.push(Arc::downgrade(disk));
    }

    /// Those that are open.
    pub(super) fn all(&self) -> Vec<Arc<MovableDisk>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl VolumeOpener<'_> {
    /// The extents that a volume itself lies on; `None` where there are none, or they are never moved.
    pub(super) fn areas(&self, volume: &LogicalVolume) -> Result<Option<VolumeAreas>, VolumeError> {
        if !self.set.is_writable() {
            return Ok(None);
        }
        let mut segments: Vec<(usize, Segment)> = Vec::new();
        let mut starts = HashMap::new();
        let mut start = 0;
        for (area, extents) in areas_of(volume)? {
            let Some((member, segment)) = self.member_segment(area, extents) else {
                continue;
            };
            let len = segment.range.len;
            starts.insert((member, area.extent, len), start);
            start += len;
            segments.push((member, segment));
        }
        if segments.is_empty() {
            return Ok(None);
        }
        let disk = MovableDisk::new(segments, self.set.movable.users().clone());
        let disk = disk.map_err(|source| VolumeError::Part {
            volume: volume.name.clone(),
            source,
        })?;
        let disk = Arc::new(disk);
        self.set.movable.insert(&disk);
        Ok(Some(VolumeAreas { disk, starts }))
    }

    /// Extents of a member of which the disk is there.
    fn member_segment(&self, area: &SegmentArea, extents: u64) -> Option<(usize, Segment)> {
        let group = &self.group.group;
        let mut members = group.members.iter();
        let index = members.position(|member| member.name == area.on)?;
        let range = group.members[index].place(area.extent, extents, group.extent)?;
        let disk = self.set.disk(index)?;
        Some((index, Segment { disk, range }))
    }
}

/// The areas of a volume of the types that can be moved, with their extents.
fn areas_of(volume: &LogicalVolume) -> Result<Vec<(&SegmentArea, u64)>, VolumeError> {
    let mut found = Vec::new();
    for segment in &volume.segments {
        match &segment.layout {
            SegmentLayout::Striped { areas, .. } => {
                let each = stripe_extents(volume, segment, areas)?;
                found.extend(areas.iter().map(|area| (area, each)));
            }
            SegmentLayout::Mirror { areas, moved, .. } => {
                let area = current_area(areas, *moved, segment.extents);
                found.extend(area.map(|area| (area, segment.extents)));
            }
            _ => {}
        }
    }
    Ok(found)
}
