//! Both places of a step, and which parts of open volumes lie on the old one.
//!
//! # Invariants
//!
//! * Every byte of the old place belongs to one part of one open disk, or the step is refused.

use std::sync::Arc;

use block::{BlockDevice as _, Geometry, Node, Range};

use super::super::VolumeSet;
use super::super::change::OpenChangeError;
use crate::volume::edit::MoveSegment;
use crate::volume::format::SegmentArea;
use crate::volume::movable::MovableDisk;

/// A part of a step: what is relocated, and where it begins on the old disk.
pub(super) type StepPart = (Arc<MovableDisk>, Range, u64);

/// Extents of a member.
pub(super) struct MemberRange {
    pub(super) member: usize,
    pub(super) range: Range,
    pub(super) disk: Node,
    pub(super) name: String,
}

impl VolumeSet {
    pub(super) fn member_index(&self, name: &str) -> Option<usize> {
        let group = self.group();
        let mut members = group.group.members.iter();
        members.position(|member| member.name == name)
    }

    pub(super) fn member_range(&self, area: &SegmentArea, extents: u64) -> Option<MemberRange> {
        let member = self.member_index(&area.on)?;
        let group = self.group();
        let group = &group.group;
        let range = group.members[member].place(area.extent, extents, group.extent)?;
        Some(MemberRange {
            member,
            range,
            disk: self.disk(member)?,
            name: self.disk_name(member),
        })
    }

    /// Both places of a step, and what lies on the old one.
    pub(super) fn check_step(
        &self,
        segment: &MoveSegment,
    ) -> Result<(MemberRange, MemberRange, Vec<StepPart>), OpenChangeError> {
        let place = |area: &SegmentArea| {
            let place = self.member_range(area, segment.extents);
            place.ok_or_else(|| OpenChangeError::Incomplete(self.group().group.name.clone()))
        };
        let (from, to) = (place(&segment.from)?, place(&segment.to)?);
        let size = to.disk.geometry().size;
        if to.range.end() > size {
            return Err(OpenChangeError::Incomplete(self.group().group.name.clone()));
        }
        let mut parts: Vec<StepPart> = Vec::new();
        for disk in self.movable.all() {
            let found = disk.find(from.member, from.range);
            parts.extend(
                found
                    .into_iter()
                    .map(|(range, at)| (disk.clone(), range, at)),
            );
        }
        let parts = joined(parts);
        let busy = || OpenChangeError::Busy {
            disk: from.name.clone(),
        };
        let mut next = from.range.offset;
        for (number, (disk, range, at)) in parts.iter().enumerate() {
            let is_known = |(known, ..): &StepPart| Arc::ptr_eq(known, disk);
            if *at != next || parts[..number].iter().any(is_known) {
                return Err(busy());
            }
            next += range.len;
            check_target(&from, &to, disk.geometry())?;
        }
        if next != from.range.end() {
            return Err(busy());
        }
        Ok((from, to, parts))
    }
}

/// Parts in the order of the old disk, those joined of which one continues the other.
fn joined(mut parts: Vec<StepPart>) -> Vec<StepPart> {
    parts.sort_by_key(|(_, _, at)| *at);
    let mut joined: Vec<StepPart> = Vec::with_capacity(parts.len());
    for (disk, range, at) in parts {
        match joined.last_mut() {
            Some((known, before, begun))
                if Arc::ptr_eq(known, &disk)
                    && before.end() == range.offset
                    && *begun + before.len == at =>
            {
                before.len += range.len;
            }
            _ => joined.push((disk, range, at)),
        }
    }
    joined
}

/// Refuses a new place that cannot be used as the old one is.
fn check_target(
    from: &MemberRange,
    to: &MemberRange,
    volume: &Geometry,
) -> Result<(), OpenChangeError> {
    let target = to.disk.geometry();
    let (ours, theirs) = (volume.block_size, target.block_size);
    let why = if theirs > ours {
        format!("its blocks have {theirs} bytes, those of the volume {ours}")
    } else if to.range.check(target.size, theirs).is_err() {
        format!("the extents there are not made of whole blocks of {theirs} bytes")
    } else if target.flush.any() && !volume.flush.any() {
        "it has a cache that the volume is not flushed for".to_owned()
    } else {
        return Ok(());
    };
    Err(OpenChangeError::Target {
        from: from.name.clone(),
        to: to.name.clone(),
        why,
    })
}
