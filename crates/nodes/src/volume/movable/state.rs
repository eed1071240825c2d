//! [`MovableState`]: where the bytes of a volume's extents are, and the relocation of some of them. Pure, but for the wakers of
//! its locks.
//!
//! ```text
//! disk         ├── piece ──┼──────────── piece ────────────┼── piece ──┤
//! relocation                   ├─ begun ──┼─ not begun ─┤
//! writes           one place     both          old          one place
//! ```
//!
//! # Invariants
//!
//! * Pieces cover the disk in order, without a gap.
//! * The old place of a relocation has every write; the new one has all of what was copied, and every later write of it.
//! * A window is begun before it is read: a write that came first lands first, one that came later waits and goes to both.

use std::sync::Arc;

use block::{IoError, Node, Range};
use smallvec::SmallVec;

use super::RelocateError;
use super::place::{OldPlace, Place};
use super::run::Run;
use crate::array::range_locks::{Kind, RangeLocks, Turn};
use crate::parts::is_same;

/// What bytes from `start` on lie on, up to the next piece.
#[derive(Debug)]
struct VolumePiece {
    start: u64,
    place: Arc<Place>,
}

/// Whether the new place has to take every write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TargetRole {
    /// One that it does not take ends the relocation; the request succeeds.
    Copy,
    /// It counts, or may count after a crash: a write that it does not take has failed.
    Required,
}

/// Bytes that are being moved.
#[derive(Debug, Clone)]
pub(super) struct Relocation {
    /// Which.
    pub(super) range: Range,
    /// Where the first of them goes.
    pub(super) target: Arc<Place>,
    /// Windows up to here were begun.
    pub(super) begun_to: u64,
    pub(super) role: TargetRole,
}

/// Where a change of bytes under relocation goes.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) turn: Turn,
    /// What an earlier one left on the fast path is gone over by this one: it must not be left half done either.
    pub(super) over: bool,
    /// Where it goes all of it.
    pub(super) runs: SmallVec<[Run; 1]>,
    /// The part that also goes to the new place.
    pub(super) copy: Option<Run>,
    pub(super) role: TargetRole,
}

/// The extents of a volume.
#[derive(Debug)]
pub(super) struct MovableState {
    pieces: Vec<VolumePiece>,
    size: u64,
    pub(super) relocation: Option<Relocation>,
    /// Why the relocation cannot go on: changes go to the old place only.
    pub(super) failure: Option<RelocateError>,
    pub(super) locks: RangeLocks,
}

impl Relocation {
    /// Where `range`, which is part of it, is at the new place.
    pub(super) fn target_of(&self, range: Range) -> Run {
        let by = range.offset - self.range.offset;
        Run {
            range,
            place: self.target.clone(),
            below: Range::new(self.target.offset + by, range.len),
        }
    }

    /// The part of `range` that was copied, or is being copied.
    pub(super) fn begun(&self, range: Range) -> Option<Range> {
        let start = range.offset.max(self.range.offset);
        let end = range.end().min(self.begun_to);
        (start < end).then(|| Range::new(start, end - start))
    }
}

impl MovableState {
    /// Places one behind the other, with their lengths.
    pub(super) fn new(places: Vec<(Arc<Place>, u64)>) -> Self {
        let mut size = 0;
        let mut pieces = Vec::with_capacity(places.len());
        for (place, len) in places {
            let start = size;
            pieces.push(VolumePiece { start, place });
            size += len;
        }
        Self {
            pieces,
            size,
            relocation: None,
            failure: None,
            locks: RangeLocks::default(),
        }
    }

    /// The places, in order.
    pub(super) fn places(&self) -> impl Iterator<Item = &Arc<Place>> {
        let target = self.relocation.iter().map(|relocation| &relocation.target);
        self.pieces.iter().map(|piece| &piece.place).chain(target)
    }

    fn index_of(&self, offset: u64) -> usize {
        self.pieces.partition_point(|piece| piece.start <= offset) - 1
    }

    fn piece_end(&self, index: usize) -> u64 {
        let next = self.pieces.get(index + 1);
        next.map_or(self.size, |next| next.start)
    }

    /// The first bytes of `range`, as many as lie together.
    #[inline]
    pub(super) fn first_run(&self, range: Range) -> (&Arc<Place>, Range) {
        let index = self.index_of(range.offset);
        let piece = &self.pieces[index];
        let len = range.end().min(self.piece_end(index)) - range.offset;
        let offset = piece.place.offset + (range.offset - piece.start);
        (&piece.place, Range::new(offset, len))
    }

    /// Where `range` is, in order.
    pub(super) fn runs(&self, range: Range) -> SmallVec<[Run; 1]> {
        let mut runs = SmallVec::new();
        let mut at = range.offset;
        loop {
            let rest = Range::new(at, range.end() - at);
            let (place, below) = self.first_run(rest);
            runs.push(Run {
                range: Range::new(at, below.len),
                place: place.clone(),
                below,
            });
            at += below.len;
            if at >= range.end() {
                return runs;
            }
        }
    }

    /// Whether a change of `range` has to wait for its turn.
    pub(super) fn is_relocating(&self, range: Range) -> bool {
        let relocation = self.relocation.as_ref();
        relocation.is_some_and(|relocation| relocation.range.overlaps(&range))
    }

    /// A change of bytes that are being moved arrives. One that `fills` its range goes over what the fast path left there.
    pub(super) fn admit(&mut self, range: Range, fills: bool) -> Admitted {
        let turn = self.locks.enter(range, Kind::Change);
        let over = fills && !self.locks.go_over(turn).is_empty();
        self.admitted(turn, range, over)
    }

    /// The same, if no other is before it.
    pub(super) fn try_admit(&mut self, range: Range) -> Option<Admitted> {
        let turn = self.locks.try_enter(range)?;
        Some(self.admitted(turn, range, false))
    }

    fn admitted(&self, turn: Turn, range: Range, over: bool) -> Admitted {
        let relocation = self.relocation.as_ref();
        let relocation = relocation.filter(|_| self.failure.is_none());
        let copy = relocation.and_then(|relocation| {
            let begun = relocation.begun(range)?;
            Some(relocation.target_of(begun))
        });
        Admitted {
            turn,
            over,
            runs: self.runs(range),
            copy,
            role: relocation.map_or(TargetRole::Copy, |relocation| relocation.role),
        }
    }

    /// The next window of at most `len` bytes, unless all were begun or the relocation has failed.
    pub(super) fn begin_window(&mut self, len: u64) -> Option<(Turn, Run, Run)> {
        if self.failure.is_some() {
            return None;
        }
        let relocation = self.relocation.as_mut()?;
        let at = relocation.begun_to;
        let len = len.min(relocation.range.end() - at);
        if len == 0 {
            return None;
        }
        let relocation = relocation.clone();
        // All of it lies on one place, as the relocation does.
        let (place, below) = self.first_run(Range::new(at, len));
        let range = Range::new(at, below.len);
        let place = place.clone();
        let turn = self.locks.enter(range, Kind::Window);
        if let Some(relocation) = &mut self.relocation {
            relocation.begun_to = range.end();
        }
        let target = relocation.target_of(range);
        Some((
            turn,
            Run {
                range,
                place,
                below,
            },
            target,
        ))
    }

    /// The relocation cannot go on; the first reason counts. Once the new place is required it does: then a change that was
    /// dropped, or has failed, may be there in part.
    pub(super) fn fail(&mut self, error: RelocateError) {
        let role = self.relocation.as_ref().map(|relocation| relocation.role);
        match role {
            Some(TargetRole::Copy) => {
                self.failure.get_or_insert(error);
            }
            Some(TargetRole::Required) => {
                tracing::warn!(
                    "extents are moved with a change that failed or was dropped: {error}"
                );
            }
            None => {}
        }
    }

    /// A disk failed a flush: an error, unless it is only copied to, which ends the relocation.
    pub(super) fn fail_flush(&mut self, disk: &Node, error: IoError) -> Result<(), IoError> {
        let is_it = |place: &Arc<Place>| is_same(&place.disk, disk);
        let is_needed = self.pieces.iter().any(|piece| is_it(&piece.place));
        let relocation = self.relocation.as_ref();
        let is_copy =
            relocation.is_none_or(|one| is_it(&one.target) && one.role == TargetRole::Copy);
        if is_needed || !is_copy {
            return Err(error);
        }
        self.fail(RelocateError::Write(error));
        Ok(())
    }

    /// The new place is required from here on.
    pub(super) fn require_target(&mut self) -> Result<(), RelocateError> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        if let Some(relocation) = &mut self.relocation {
            relocation.role = TargetRole::Required;
        }
        Ok(())
    }

    /// Changes go to the old place only.
    pub(super) fn abandon(&mut self) {
        if let Some(relocation) = &mut self.relocation {
            relocation.role = TargetRole::Copy;
        }
        self.failure.get_or_insert(RelocateError::Cancelled);
    }

    /// The relocation is over; all is where it was.
    pub(super) fn end(&mut self) {
        self.relocation = None;
        self.failure = None;
    }

    /// Where bytes from `offset` on of the disk of `member` are here: parts in order of the member's disk.
    pub(super) fn find(&self, member: usize, below: Range) -> Vec<(Range, u64)> {
        let pieces = self.pieces.iter().enumerate();
        let found = pieces.filter_map(|(index, piece)| {
            let len = self.piece_end(index) - piece.start;
            let start = piece.place.offset.max(below.offset);
            let end = (piece.place.offset + len).min(below.end());
            let is_here = piece.place.member == member && start < end;
            let at = piece.start + start.checked_sub(piece.place.offset)?;
            is_here.then(|| (Range::new(at, end - start), start))
        });
        found.collect()
    }

    /// The relocation is done: its bytes are at the new place. Returns the old ones.
    pub(super) fn switch(&mut self) -> Vec<OldPlace> {
        let Some(relocation) = self.relocation.take() else {
            return Vec::new();
        };
        let (range, target) = (relocation.range, relocation.target);
        let mut old = Vec::new();
        let mut pieces = Vec::with_capacity(self.pieces.len() + 2);
        let ends: Vec<u64> = (0..self.pieces.len()).map(|n| self.piece_end(n)).collect();
        for (piece, end) in std::mem::take(&mut self.pieces).into_iter().zip(ends) {
            let whole = Range::new(piece.start, end - piece.start);
            if !whole.overlaps(&range) {
                pieces.push(piece);
                continue;
            }
            old.push(piece.place.retire());
            if piece.start < range.offset {
                let place = piece.place.advanced(0);
                let start = piece.start;
                pieces.push(VolumePiece { start, place });
            }
            if piece.start <= range.offset {
                let (start, place) = (range.offset, target.clone());
                pieces.push(VolumePiece { start, place });
            }
            if range.end() < end {
                let place = piece.place.advanced(range.end() - piece.start);
                let start = range.end();
                pieces.push(VolumePiece { start, place });
            }
        }
        self.pieces = pieces;
        self.failure = None;
        old
    }
}
