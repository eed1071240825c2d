//! Clearing what the metadata of the images of a volume of RAID get: of a new one all, of one that is extended what is added.
//!
//! # Invariants
//!
//! * Only extents that no committed text uses are written: this comes before the text with the volume is committed.
//! * When it returns the extents read as zeroes, durably: to the kernel and to us a new volume was never in use, and neither
//!   takes what an earlier one left there for its state.

use std::collections::HashMap;

use block::{IoError, Node, Range, WriteFlags};

use super::{UpdateError, sector_disk};
use crate::guard::flush;
use crate::volume::format::{LogicalVolume, RaidImage, SegmentLayout, VolumeGroup};

/// Clears the metadata of the images of `volume`, a volume of RAID in `group`, which is about to be committed: what they have
/// not had in `before`, the group as it is. `disks`: what each physical volume (`pv0`) is called, and its disk.
///
/// # Errors
/// [`UpdateError::Clear`] with the disk that failed. What was cleared is free.
///
/// # Panics
/// If a physical volume that has metadata of an image is not among `disks`.
pub async fn clear_raid_metadata(
    before: Option<&VolumeGroup>,
    group: &VolumeGroup,
    volume: &str,
    disks: &HashMap<String, (String, Node)>,
) -> Result<(), UpdateError> {
    let had: Vec<(&str, Range)> =
        before.map_or_else(Vec::new, |group| metadata_ranges(group, volume));
    for (member, range) in metadata_ranges(group, volume) {
        let Some(range) = added(&had, member, range) else {
            continue;
        };
        let (name, disk) = &disks[member];
        let cleared = clear(&sector_disk(disk), range).await;
        cleared.map_err(|source| {
            let disk = name.clone();
            UpdateError::Clear { disk, source }
        })?;
    }
    Ok(())
}

async fn clear(disk: &Node, range: Range) -> Result<(), IoError> {
    disk.write_zeroes(range, WriteFlags::empty()).await?;
    flush(disk).await
}

/// What of `range` is not among the ranges before: segments grow at their end only.
fn added(had: &[(&str, Range)], member: &str, range: Range) -> Option<Range> {
    let mut had = had.iter();
    let same = had.find(|(on, had)| *on == member && had.offset == range.offset);
    let kept = same.map_or(0, |(_, had)| had.len);
    let len = range.len.checked_sub(kept).filter(|len| *len > 0)?;
    Some(Range::new(range.offset + kept, len))
}

/// Where the metadata of the images of a volume are: names of physical volumes, and bytes of their disks.
fn metadata_ranges<'a>(group: &'a VolumeGroup, volume: &str) -> Vec<(&'a str, Range)> {
    let segments = group
        .volume(volume)
        .into_iter()
        .flat_map(|volume| &volume.segments);
    let images = segments.flat_map(|segment| match &segment.layout {
        SegmentLayout::Raid { images, .. } => images.as_slice(),
        _ => &[],
    });
    let metadata = |image: &RaidImage| group.volume(image.metadata.as_deref()?);
    let parts: Vec<&LogicalVolume> = images.filter_map(metadata).collect();
    let segments = parts.into_iter().flat_map(|part| &part.segments);
    let ranges = segments.filter_map(|segment| {
        let area = segment.linear_area()?;
        let member = group.member(&area.on)?;
        let range = member.place(area.extent, segment.extents, group.extent)?;
        Some((member.name.as_str(), range))
    });
    ranges.collect()
}
