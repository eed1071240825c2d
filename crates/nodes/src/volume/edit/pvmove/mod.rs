//! Moving extents to other physical volumes, described as LVM's pvmove describes it. Pure.
//!
//! ```text
//! before      media    striped   pv0 0-9
//! begin       media    striped   pvmove0 0-9                        status LOCKED
//!             pvmove0  mirror    pv0 0-9 | pv1 5-14                 status PVMOVE LOCKED, extents_moved = 0
//! moved       pvmove0  mirror    pv0 0-9 | pv1 5-14                 extents_moved = 10: the second area counts
//! end         media    striped   pv1 5-14
//! ```
//!
//! # Invariants
//!
//! * At each step one area of each segment has all its bytes: the first one until `extents_moved` is the whole segment, then
//!   the second one. Ending a move takes that one, so a move may be ended, which aborts it, at any step.
//! * A segment of a volume that is being moved lies on exactly one segment of `pvmoveN`: LVM refuses others.
//!
//! # What it does not do
//!
//! It copies nothing ([`super::super::pvmove`] does).

mod begin;
mod rewrite;

pub use self::begin::MoveRequest;
use self::rewrite::{merge_segments, rewrite_segments};
use super::{EditError, GroupEdit, list_section, number, volume_section};
use crate::volume::format::text::{Section, TextValue};
use crate::volume::format::{LogicalVolume, SegmentArea, SegmentLayout, VolumeSegment};

/// The status of the volume that describes a move.
const PVMOVE: &str = "PVMOVE";
/// The status of volumes of which extents are being moved.
const LOCKED: &str = "LOCKED";

/// A move that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtentMove {
    /// The volume that describes it: `pvmove0`.
    pub name: String,
    /// Its segments, in order.
    pub segments: Vec<MoveSegment>,
}

/// Extents that are moved in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveSegment {
    /// First extent in the volume that describes the move.
    pub start: u64,
    /// How many.
    pub extents: u64,
    /// Physical volume and first extent of the old place.
    pub from: SegmentArea,
    /// The same of the new one.
    pub to: SegmentArea,
    /// The new place has all bytes.
    pub moved: bool,
}

impl ExtentMove {
    /// The physical volume that extents are moved away from.
    #[must_use]
    pub fn source(&self) -> Option<&str> {
        self.segments.first().map(|first| first.from.on.as_str())
    }

    /// Extents of all segments.
    #[must_use]
    pub fn extents(&self) -> u64 {
        self.segments.iter().map(|segment| segment.extents).sum()
    }

    /// Extents that are at their new place.
    #[must_use]
    pub fn extents_moved(&self) -> u64 {
        let moved = self.segments.iter().filter(|segment| segment.moved);
        moved.map(|segment| segment.extents).sum()
    }
}

impl MoveSegment {
    /// The place that has all bytes.
    const fn current(&self) -> &SegmentArea {
        match self.moved {
            true => &self.to,
            false => &self.from,
        }
    }
}

impl GroupEdit {
    /// The moves that were begun and not ended, by LVM or here.
    ///
    /// # Errors
    /// [`EditError::Kind`] if one is not made of segments that are moved one after the other: `pvmove --atomic` makes others.
    pub fn moves(&self) -> Result<Vec<ExtentMove>, EditError> {
        let volumes = self.group.volumes.iter();
        let moves = volumes.filter(|volume| volume.has_flag(PVMOVE));
        moves.map(|volume| self.extent_move(volume)).collect()
    }

    fn extent_move(&self, volume: &LogicalVolume) -> Result<ExtentMove, EditError> {
        let segments = volume.segments.iter();
        let segments = segments.map(|segment| self.move_segment(volume, segment));
        Ok(ExtentMove {
            name: volume.name.clone(),
            segments: segments.collect::<Result<_, _>>()?,
        })
    }

    fn move_segment(
        &self,
        volume: &LogicalVolume,
        segment: &VolumeSegment,
    ) -> Result<MoveSegment, EditError> {
        let member = |area: &SegmentArea| self.group.member(&area.on).is_some();
        match &segment.layout {
            SegmentLayout::Mirror {
                areas,
                log: None,
                moved: Some(moved),
                ..
            } if areas.iter().all(member) => match areas.as_slice() {
                [from, to] => Ok(MoveSegment {
                    start: segment.start,
                    extents: segment.extents,
                    from: from.clone(),
                    to: to.clone(),
                    moved: *moved == segment.extents,
                }),
                _ => Err(not_by_segments(volume)),
            },
            _ => Err(not_by_segments(volume)),
        }
    }

    fn find_move(&self, name: &str) -> Result<ExtentMove, EditError> {
        let volume = self.volume(name)?;
        match volume.has_flag(PVMOVE) {
            true => self.extent_move(volume),
            false => Err(not_by_segments(volume)),
        }
    }

    /// Records that the segment from extent `start` of a move on is at its new place.
    ///
    /// # Errors
    /// [`EditError`] if there is no such segment.
    pub fn set_moved(&mut self, name: &str, start: u64) -> Result<(), EditError> {
        let moved = self.find_move(name)?;
        let segment = moved.segments.iter().find(|one| one.start == start);
        let extents = segment.ok_or_else(|| super::lacks(name))?.extents;
        self.change_extents(|root| {
            let layer = volume_section(root, name)?;
            for (_, segment) in layer.sections_mut() {
                if segment.number("start_extent") == Some(start) {
                    segment.set("extents_moved", number(extents));
                }
            }
            Ok(())
        })
    }

    /// Ends a move: what was moved is at its new place, all else at its old one. The other places are free.
    ///
    /// # Errors
    /// [`EditError`] if volumes do not fit the move.
    pub fn end_move(&mut self, name: &str) -> Result<(), EditError> {
        let ended = self.find_move(name)?;
        let users: Vec<String> = self.users(name).map(|user| user.name.clone()).collect();
        self.change_extents(|root| {
            for user in &users {
                let volume = volume_section(root, user)?;
                rewrite_segments(volume, |segment| Ok(vec![placed(segment, &ended, user)?]))?;
                merge_segments(volume);
                set_status(volume, LOCKED, false);
            }
            list_section(root, "logical_volumes")?.remove(name);
            Ok(())
        })
    }
}

fn not_by_segments(volume: &LogicalVolume) -> EditError {
    EditError::Kind {
        name: volume.name.clone(),
        kind: format!(
            "a move that is not made segment by segment ({})",
            volume.kind()
        ),
    }
}

/// The segment of `user`, with the places that have its bytes instead of the volume that describes the move.
fn placed(segment: &Section, ended: &ExtentMove, user: &str) -> Result<Section, EditError> {
    let mut segment = segment.clone();
    let Some(stripes) = segment.list("stripes") else {
        return Ok(segment);
    };
    let count = (stripes.len() as u64 / 2).max(1);
    let extents = segment.number("extent_count").unwrap_or(0) / count;
    let pairs = stripes.chunks(2).map(|pair| match pair {
        [TextValue::Text(on), extent @ TextValue::Integer(start)] if *on == ended.name => {
            let is_it = |one: &&MoveSegment| i64::try_from(one.start) == Ok(*start);
            let layer = ended.segments.iter().find(is_it);
            match layer.filter(|layer| layer.extents == extents) {
                Some(layer) => {
                    let current = layer.current();
                    Ok(vec![
                        TextValue::Text(current.on.clone()),
                        number(current.extent),
                    ])
                }
                None => Err(EditError::Damaged(format!(
                    "a segment of {user} does not fit a segment of {on}: {extent:?}"
                ))),
            }
        }
        other => Ok(other.to_vec()),
    });
    let pairs: Vec<Vec<TextValue>> = pairs.collect::<Result<_, _>>()?;
    let stripes = TextValue::List(pairs.concat());
    segment.set("stripes", stripes);
    Ok(segment)
}

/// Adds a flag to the status of a volume, or takes it away.
fn set_status(volume: &mut Section, flag: &str, is_set: bool) {
    let mut status = volume.texts("status");
    status.retain(|found| found != flag);
    if is_set {
        status.push(flag.to_owned());
    }
    let status = TextValue::texts(status.iter().map(String::as_str));
    volume.set("status", status);
}
