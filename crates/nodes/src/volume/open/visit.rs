//! [`Visit`]: the walk over all that a volume is made of, which checks it on its way. Pure.

use std::collections::{BTreeSet, HashMap};

use super::plan::{DEPTH_MAX, VolumeUse};
use crate::volume::VolumeError;
use crate::volume::format::{
    LogicalVolume, Member, SegmentArea, SegmentLayout, VolumeGroup, VolumeSegment,
};
use crate::volume::group::AssembledGroup;

/// A walk over all that a volume is made of.
#[derive(Debug)]
pub(super) struct Visit<'a> {
    pub(super) assembled: &'a AssembledGroup,
    /// The volumes around, the outermost first.
    pub(super) stack: Vec<&'a str>,
    pub(super) missing: HashMap<&'a str, BTreeSet<usize>>,
    pub(super) uses: Vec<VolumeUse>,
    /// Whether bytes of the first volume are in the order of its segments.
    pub(super) is_top: bool,
}

impl<'a> Visit<'a> {
    /// The volume `name`, which `user` refers to.
    pub(super) fn named(&mut self, name: &str, user: &LogicalVolume) -> Result<(), VolumeError> {
        let volume = self.assembled.group.volume(name);
        let volume = volume.ok_or_else(|| {
            metadata(
                user,
                format!("it refers to `{name}`, which the group does not have"),
            )
        })?;
        self.volume(volume)
    }

    pub(super) fn volume(&mut self, volume: &'a LogicalVolume) -> Result<(), VolumeError> {
        let name = volume.name.as_str();
        if self.missing.contains_key(name) {
            return Ok(());
        }
        if self.stack.contains(&name) {
            return Err(metadata(volume, "it is made of itself".to_owned()));
        }
        if self.stack.len() == DEPTH_MAX {
            let what = format!("volumes are nested more than {DEPTH_MAX} deep");
            return Err(metadata(volume, what));
        }
        if let Some(flag) = volume.unknown_flag() {
            return Err(VolumeError::Unknown {
                group: self.assembled.group.name.clone(),
                flag,
            });
        }
        check_segments(&self.assembled.group, volume)?;
        self.stack.push(name);
        let mut missing = BTreeSet::new();
        for segment in &volume.segments {
            self.segment(volume, segment, &mut missing)?;
        }
        self.stack.pop();
        self.missing.insert(name, missing);
        Ok(())
    }

    fn segment(
        &mut self,
        volume: &'a LogicalVolume,
        segment: &'a VolumeSegment,
        missing: &mut BTreeSet<usize>,
    ) -> Result<(), VolumeError> {
        match &segment.layout {
            SegmentLayout::Striped { areas, .. } => {
                let each = stripe_extents(volume, segment, areas)?;
                let at = match areas.as_slice() {
                    [_] => Some(segment.start),
                    _ => None,
                };
                for area in areas {
                    self.area(volume, area, each, at, missing)?;
                }
                Ok(())
            }
            SegmentLayout::Mirror {
                areas, log, moved, ..
            } => {
                if let Some(area) = current_area(areas, *moved, segment.extents) {
                    let at = Some(segment.start);
                    return self.area(volume, area, segment.extents, at, missing);
                }
                for area in areas {
                    // A leg may be missing.
                    self.area(volume, area, segment.extents, None, &mut BTreeSet::new())?;
                }
                log.iter().try_for_each(|log| self.named(log, volume))
            }
            SegmentLayout::Raid { images, .. } => {
                for image in images {
                    for part in image.metadata.iter().chain([&image.data]) {
                        self.named(part, volume)?;
                    }
                }
                Ok(())
            }
            SegmentLayout::Error | SegmentLayout::Zero => Ok(()),
            SegmentLayout::Unsupported { lacks: None, .. } => {
                Err(VolumeError::unsupported(&volume.name, &segment.kind))
            }
            SegmentLayout::Unsupported {
                lacks: Some(field), ..
            } => Err(VolumeError::Lacks {
                volume: volume.name.clone(),
                kind: segment.kind.clone(),
                field,
            }),
            SegmentLayout::Snapshot { .. } => Err(metadata(
                volume,
                "it refers to the description of a snapshot".to_owned(),
            )),
            SegmentLayout::ThinPool { .. }
            | SegmentLayout::Thin { .. }
            | SegmentLayout::Cache { .. }
            | SegmentLayout::CachePool { .. } => {
                for part in segment.references() {
                    self.named(part, volume)?;
                    missing.extend(&self.missing[part]);
                }
                Ok(())
            }
        }
    }

    /// `count` extents from `area` on, which are at extent `at` of the volume if they are in order.
    fn area(
        &mut self,
        volume: &'a LogicalVolume,
        area: &'a SegmentArea,
        count: u64,
        at: Option<u64>,
        missing: &mut BTreeSet<usize>,
    ) -> Result<(), VolumeError> {
        let group = &self.assembled.group;
        let members = group
            .members
            .iter()
            .position(|member| member.name == area.on);
        let Some(index) = members else {
            self.named(&area.on, volume)?;
            let below = group.volume(&area.on).map_or(0, LogicalVolume::extents);
            if area.extent.checked_add(count).is_none_or(|end| end > below) {
                return Err(outside(volume, area, count, below));
            }
            missing.extend(&self.missing[area.on.as_str()]);
            return Ok(());
        };
        let member: &Member = &group.members[index];
        let range = member.place(area.extent, count, group.extent);
        let range = range.ok_or_else(|| outside(volume, area, count, member.extents))?;
        if self.assembled.disk_of(index).is_none() {
            missing.insert(index);
            return Ok(());
        }
        let is_in_order = self.is_top && self.stack.len() == 1;
        let at = at.filter(|_| is_in_order).map(|at| group.bytes(at));
        self.uses.push(VolumeUse {
            at,
            member: index,
            range,
        });
        Ok(())
    }
}

fn metadata(volume: &LogicalVolume, what: String) -> VolumeError {
    let volume = volume.name.clone();
    VolumeError::Metadata { volume, what }
}

fn outside(volume: &LogicalVolume, area: &SegmentArea, count: u64, below: u64) -> VolumeError {
    let (on, extent) = (&area.on, area.extent);
    let what =
        format!("it lies on {count} extents of {on} from extent {extent} on, which has {below}");
    metadata(volume, what)
}

/// Refuses segments that leave a gap, overlap or have a size that no disk has.
fn check_segments(group: &VolumeGroup, volume: &LogicalVolume) -> Result<(), VolumeError> {
    let mut next: u64 = 0;
    for segment in &volume.segments {
        let (start, extents) = (segment.start, segment.extents);
        if start != next || extents == 0 {
            let what = format!("a segment of {extents} extents begins at {start}, not at {next}");
            return Err(metadata(volume, what));
        }
        next = start.saturating_add(extents);
    }
    let size = group.extent.checked_mul(next);
    if next == 0 || size.is_none_or(|size| i64::try_from(size).is_err()) {
        let what = format!("it cannot have {next} extents of {} bytes", group.extent);
        return Err(metadata(volume, what));
    }
    let is_alone = |segment: &VolumeSegment| {
        !matches!(
            segment.layout,
            SegmentLayout::Thin { .. }
                | SegmentLayout::ThinPool { .. }
                | SegmentLayout::Cache { .. }
                | SegmentLayout::CachePool { .. }
        )
    };
    let (count, mixed) = (volume.segments.len(), volume.segments.iter());
    if count > 1 && !mixed.clone().all(is_alone) {
        let what = "a thin or cached volume has one segment, it has several".to_owned();
        return Err(metadata(volume, what));
    }
    Ok(())
}

/// Extents that a striped segment uses of each of its areas.
pub(super) fn stripe_extents(
    volume: &LogicalVolume,
    segment: &VolumeSegment,
    areas: &[SegmentArea],
) -> Result<u64, VolumeError> {
    let (extents, count) = (segment.extents, areas.len() as u64);
    if count == 0 || extents % count != 0 {
        let what = format!("{extents} extents cannot be spread over {count} stripes");
        return Err(metadata(volume, what));
    }
    Ok(extents / count)
}

/// Of a segment that is being moved: the area that has all its bytes. The new place has them once all extents were copied,
/// the old one until then; the kernel and LVM start the copy of a segment again if it was interrupted.
pub(super) fn current_area(
    areas: &[SegmentArea],
    moved: Option<u64>,
    extents: u64,
) -> Option<&SegmentArea> {
    let is_done = moved? == extents;
    if is_done { areas.get(1) } else { areas.first() }
}
