//! Which extents of the physical volumes of a group are free. Pure.
//!
//! # Invariants
//!
//! * An extent that any segment of any volume uses is not free. Where a segment cannot be understood, nothing is
//!   stated to be.

use super::{EditError, FreeCount};
use crate::volume::format::{LogicalVolume, Member, SegmentLayout, VolumeGroup, VolumeSegment};

/// Extents of a physical volume, one behind the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtentRun {
    /// The physical volume's name in the text: `pv0`.
    pub member: String,
    /// First extent.
    pub start: u64,
    /// How many.
    pub count: u64,
}

/// Extents that a volume uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedRun<'a> {
    /// The volume.
    pub volume: &'a str,
    /// Its extents.
    pub run: ExtentRun,
}

impl ExtentRun {
    /// The extent behind the last.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.start + self.count
    }
}

/// All extents of physical volumes that the volumes of `group` use, by physical volume in the group's order, then by
/// their place.
///
/// # Errors
/// [`EditError`] if they contradict one another, or a segment is of a type that is not known.
pub fn used_runs(group: &VolumeGroup) -> Result<Vec<UsedRun<'_>>, EditError> {
    let mut used = Vec::new();
    for volume in &group.volumes {
        for segment in &volume.segments {
            segment_runs(group, volume, segment, &mut used)?;
        }
    }
    let place = |run: &UsedRun<'_>| {
        let mut members = group.members.iter();
        let member = members.position(|member| member.name == run.run.member);
        (member, run.run.start)
    };
    used.sort_by_key(place);
    for two in used.windows(2) {
        let [first, second] = two else { continue };
        if first.run.member == second.run.member && first.run.end() > second.run.start {
            let (extent, member) = (second.run.start, &second.run.member);
            return Err(EditError::Damaged(format!(
                "extent {extent} of {member} is used by {} and by {}",
                first.volume, second.volume
            )));
        }
    }
    Ok(used)
}

/// The free extents of `group`, by physical volume in its order, then by their place.
///
/// # Errors
/// As of [`used_runs`].
pub fn free_runs(group: &VolumeGroup) -> Result<Vec<ExtentRun>, EditError> {
    let used = used_runs(group)?;
    let mut free = Vec::new();
    for member in &group.members {
        let mut next = 0;
        let mut add = |start: u64, end: u64| {
            if end > start {
                free.push(ExtentRun {
                    member: member.name.clone(),
                    start,
                    count: end - start,
                });
            }
        };
        for UsedRun { run, .. } in used.iter().filter(|used| used.run.member == member.name) {
            add(next, run.start);
            next = run.end();
        }
        add(next, member.extents);
    }
    Ok(free)
}

/// Free extents of each physical volume, in the order of `free`.
pub(super) fn free_counts(free: &[ExtentRun]) -> Vec<FreeCount> {
    let mut counts: Vec<FreeCount> = Vec::new();
    for run in free {
        match counts.iter_mut().find(|count| count.member == run.member) {
            Some(count) => count.extents += run.count,
            None => counts.push(FreeCount {
                member: run.member.clone(),
                extents: run.count,
            }),
        }
    }
    counts
}

fn segment_runs<'a>(
    group: &VolumeGroup,
    volume: &'a LogicalVolume,
    segment: &VolumeSegment,
    used: &mut Vec<UsedRun<'a>>,
) -> Result<(), EditError> {
    let member = |name: &str| group.member(name);
    let each = match &segment.layout {
        SegmentLayout::Striped { areas, .. } => stripe_extents(volume, segment, areas.len())?,
        SegmentLayout::Unsupported { references, .. } => {
            let mut members = references.iter().filter(|name| member(name).is_some());
            if members.next().is_none() {
                return Ok(());
            }
            return Err(EditError::UnknownSegment {
                volume: volume.name.clone(),
                kind: segment.kind.clone(),
            });
        }
        _ => segment.extents,
    };
    for area in segment.areas() {
        let Some(member) = member(&area.on) else {
            continue;
        };
        let run = ExtentRun {
            member: member.name.clone(),
            start: area.extent,
            count: each,
        };
        check_within(volume, member, &run)?;
        if run.count > 0 {
            let volume = &volume.name;
            used.push(UsedRun { volume, run });
        }
    }
    Ok(())
}

/// Extents of a striped segment on each of its areas.
fn stripe_extents(
    volume: &LogicalVolume,
    segment: &VolumeSegment,
    areas: usize,
) -> Result<u64, EditError> {
    let areas = areas as u64;
    if areas == 0 || !segment.extents.is_multiple_of(areas) {
        return Err(EditError::Damaged(format!(
            "{} extents of the volume {} cannot be spread over {areas} stripes",
            segment.extents, volume.name
        )));
    }
    Ok(segment.extents / areas)
}

fn check_within(volume: &LogicalVolume, member: &Member, run: &ExtentRun) -> Result<(), EditError> {
    let end = run.start.checked_add(run.count);
    if end.is_some_and(|end| end <= member.extents) {
        return Ok(());
    }
    Err(EditError::Damaged(format!(
        "the volume {} uses extents of {} behind its end",
        volume.name, member.name
    )))
}
