//! Moving extents to other physical volumes: the data, and the metadata at each step.
//!
//! ```text
//! begin_move ─► commit ─► for each segment: copy, flush, set_moved ─► commit ─► … ─► end_move ─► commit
//! ```
//!
//! # Fault model
//!
//! * Power may be cut at any point, and the process may be killed; of what was not flushed any sectors may survive.
//! * A disk may fail any read, write or flush.
//!
//! # Invariants
//!
//! * A segment counts as moved only after its copy was flushed, and its old place is free only after the move has ended: at
//!   any time the places that the metadata name have all bytes of each volume.
//! * An interrupted move is resumed with the first segment that does not count as moved, here or by LVM's `pvmove`.
//!
//! # What it does not do
//!
//! No process may write the volumes meanwhile: the caller has locked the disks.

mod error;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use block::{Node, Range};

pub use self::error::PvmoveError;
use super::edit::{EditStamp, GroupEdit, MoveSegment};
use super::format::{SegmentArea, VolumeGroup};
use super::update::{MetadataArea, commit};
use crate::copy::{CopyOptions, CopyProgress, copy};
use crate::{Linear, Segment};

/// The disks of a group of which extents are moved.
#[derive(Debug, Clone)]
pub struct PvmoveDisks {
    /// What each physical volume (`pv0`) is called, and its disk.
    pub members: HashMap<String, (String, Node)>,
    /// All metadata areas of the group.
    pub areas: Vec<MetadataArea>,
    /// What the texts say about their writing.
    pub stamp: EditStamp,
}

impl PvmoveDisks {
    /// Commits a change; returns the group with it.
    ///
    /// # Errors
    /// [`PvmoveError`]: the group has its old or its new metadata; a disk that failed may have outdated ones.
    pub async fn commit(&self, edit: GroupEdit) -> Result<VolumeGroup, PvmoveError> {
        let text = edit.finish(&self.stamp)?;
        let mut report = commit(&self.areas, &text).await?;
        match report.failed.pop() {
            None => Ok(VolumeGroup::of(&text).map_err(super::edit::EditError::Text)?),
            Some(failed) => Err(PvmoveError::Metadata {
                disk: failed.name,
                source: failed.source,
            }),
        }
    }

    /// Carries out the move that the volume `name` of `group` describes, from where it is; returns the group behind it.
    ///
    /// # Errors
    /// [`PvmoveError`]: the move is interrupted, and can be resumed or ended. No byte of a volume is lost.
    pub async fn run(
        &self,
        group: VolumeGroup,
        name: &str,
        progress: &CopyProgress,
    ) -> Result<VolumeGroup, PvmoveError> {
        let mut edit = GroupEdit::open(group)?;
        let moves = edit.moves()?;
        let segments = moves.into_iter().filter(|one| one.name == name);
        let segments: Vec<MoveSegment> = segments.flat_map(|one| one.segments).collect();
        let mut left = segments.iter().filter(|segment| !segment.moved).peekable();
        while let Some(segment) = left.next() {
            self.copy(edit.group(), segment, progress).await?;
            edit.set_moved(name, segment.start)?;
            // The last one is recorded together with the end.
            if left.peek().is_some() {
                edit = GroupEdit::open(self.commit(edit).await?)?;
            }
        }
        edit.end_move(name)?;
        self.commit(edit).await
    }

    /// Copies a segment to its new place, durably.
    async fn copy(
        &self,
        group: &VolumeGroup,
        segment: &MoveSegment,
        progress: &CopyProgress,
    ) -> Result<(), PvmoveError> {
        let source = self.place(group, &segment.from, segment.extents)?;
        let target = self.place(group, &segment.to, segment.extents)?;
        let options = CopyOptions::default();
        let copied = Box::pin(copy(source, target, &options, progress)).await;
        copied.map_err(|source| {
            let disk = |area: &SegmentArea| self.members[&area.on].0.clone();
            PvmoveError::Copy {
                from: disk(&segment.from),
                to: disk(&segment.to),
                source,
            }
        })
    }

    /// Extents of a physical volume as a disk.
    fn place(
        &self,
        group: &VolumeGroup,
        area: &SegmentArea,
        extents: u64,
    ) -> Result<Node, PvmoveError> {
        let member = group.member(&area.on);
        let range = member.and_then(|member| member.place(area.extent, extents, group.extent));
        let disk = self.members.get(&area.on);
        let missing = || PvmoveError::NoPlace {
            member: area.on.clone(),
        };
        let (range, (_, disk)) = range.zip(disk).ok_or_else(missing)?;
        if range.end() > disk.geometry().size {
            return Err(missing());
        }
        let segment = Segment {
            disk: disk.clone(),
            range: Range::new(range.offset, range.len),
        };
        let linear = Linear::new(vec![segment]).map_err(|_| missing())?;
        Ok(Arc::new(linear))
    }
}
