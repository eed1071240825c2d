//! [`AheadPieces`]: what has been read ahead, what is in flight, and where nothing may be kept. Pure.
//!
//! # Invariants
//!
//! * A change takes the pieces that it touches out when it begins, and no piece there begins before
//!   it has ended: what is kept is what the disk below holds.
//! * A change that was dropped may land late: no piece touches its range until the disk below has
//!   settled.
//! * Pieces that are kept or in flight, also those that no reader will request any more, hold at most
//!   the given number of bytes.

use std::collections::BTreeMap;

use block::Range;

use super::streams::StreamId;

/// Name of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PieceId(u64);

/// Name of a change that is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChangeId(u64);

/// A moment between changes that were abandoned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

#[derive(Debug)]
struct AheadPiece<S> {
    id: PieceId,
    range: Range,
    stream: StreamId,
    in_flight: bool,
    slot: S,
}

/// A piece for a read: where it is, and what holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownPiece<S> {
    pub(super) range: Range,
    pub(super) slot: S,
}

/// The pieces, by their numbers. `S` is what holds the data of one.
#[derive(Debug)]
pub(super) struct AheadPieces<S> {
    bytes_max: u64,
    bytes: u64,
    kept: BTreeMap<u64, AheadPiece<S>>,
    /// Under way, whether or not they will be kept.
    reads: BTreeMap<PieceId, u64>,
    next: u64,
    changes: Vec<(ChangeId, Range)>,
    abandoned: Option<(Moment, Range)>,
}

impl<S: Clone> AheadPieces<S> {
    /// No pieces, and room for `bytes_max` bytes.
    pub(super) const fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            kept: BTreeMap::new(),
            reads: BTreeMap::new(),
            next: 0,
            changes: Vec::new(),
            abandoned: None,
        }
    }

    /// The pieces that hold `range`, if all of it is there or in flight; `piece` is their length.
    pub(super) fn find(&self, range: Range, piece: u64) -> Option<Vec<KnownPiece<S>>> {
        let mut found = Vec::new();
        let mut at = range.offset;
        while at < range.end() {
            let piece = self.kept.get(&(at / piece))?;
            // The last piece of a disk that has grown since may be short.
            if piece.range.offset > at || piece.range.end() <= at {
                return None;
            }
            found.push(KnownPiece {
                range: piece.range,
                slot: piece.slot.clone(),
            });
            at = piece.range.end();
        }
        Some(found)
    }

    /// Whether piece `index` may begin; it is neither there nor on a range that changes.
    pub(super) fn may_begin(&self, index: u64, range: Range) -> bool {
        let changing = self
            .changes
            .iter()
            .any(|(_, change)| change.overlaps(&range));
        !range.is_empty()
            && !self.kept.contains_key(&index)
            && !changing
            && !self.is_blocked_by_abandoned(range)
    }

    /// Whether a change of `range` was abandoned and may land late.
    pub(super) fn is_blocked_by_abandoned(&self, range: Range) -> bool {
        self.abandoned
            .is_some_and(|(_, there)| there.overlaps(&range))
    }

    /// Whether so many bytes more fit.
    pub(super) const fn has_room(&self, len: u64) -> bool {
        self.bytes + len <= self.bytes_max
    }

    /// A piece begins that may, and for which there is room.
    pub(super) fn begin(&mut self, index: u64, range: Range, stream: StreamId, slot: S) -> PieceId {
        assert!(
            self.may_begin(index, range) && self.has_room(range.len),
            "a piece begins only where it may"
        );
        let id = PieceId(self.tick());
        self.bytes += range.len;
        self.reads.insert(id, range.len);
        let piece = AheadPiece {
            id,
            range,
            stream,
            in_flight: true,
            slot,
        };
        self.kept.insert(index, piece);
        id
    }

    /// The read of a piece has ended.
    pub(super) fn ended(&mut self, id: PieceId, well: bool) {
        let Some(len) = self.reads.remove(&id) else {
            return;
        };
        let index = self.kept.iter().find(|(_, piece)| piece.id == id);
        let Some(index) = index.map(|(&index, _)| index) else {
            self.bytes -= len;
            return;
        };
        if let Some(piece) = self.kept.get_mut(&index) {
            piece.in_flight = false;
        }
        if !well {
            self.remove(index);
        }
    }

    /// The last read of those that began before `moment` has ended.
    pub(super) fn has_ended(&self, moment: Moment) -> bool {
        self.reads
            .keys()
            .next()
            .is_none_or(|first| first.0 >= moment.0)
    }

    /// Takes out the pieces of `stream` that end at `before` or earlier.
    pub(super) fn pass(&mut self, stream: StreamId, before: u64) {
        self.remove_all(|piece| piece.stream == stream && piece.range.end() <= before);
    }

    /// Takes out the pieces of readers that `keep` is false of.
    pub(super) fn retain(&mut self, keep: impl Fn(StreamId) -> bool) {
        self.remove_all(|piece| !keep(piece.stream));
    }

    /// Whether there are pieces of `stream`.
    pub(super) fn holds(&self, stream: StreamId) -> bool {
        self.kept.values().any(|piece| piece.stream == stream)
    }

    /// A change of `range` begins.
    pub(super) fn change(&mut self, range: Range) -> ChangeId {
        self.remove_all(|piece| piece.range.overlaps(&range));
        let id = ChangeId(self.tick());
        self.changes.push((id, range));
        id
    }

    /// A change has ended, well or not.
    pub(super) fn changed(&mut self, id: ChangeId) {
        self.changes.retain(|(change, _)| *change != id);
    }

    /// A change was dropped in flight.
    pub(super) fn abandon(&mut self, id: ChangeId) {
        let Some(&(_, range)) = self.changes.iter().find(|(change, _)| *change == id) else {
            return;
        };
        self.changed(id);
        let joined = self
            .abandoned
            .map_or(range, |(_, there)| hull(there, range));
        self.abandoned = Some((Moment(self.tick()), joined));
    }

    /// Now.
    pub(super) const fn now(&self) -> Moment {
        Moment(self.next)
    }

    /// The disk below has settled what was abandoned before `moment`.
    pub(super) fn settled(&mut self, moment: Moment) {
        self.abandoned = self.abandoned.take_if(|(since, _)| *since >= moment);
    }

    /// Bytes that are kept or in flight.
    #[cfg(test)]
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    const fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn remove_all(&mut self, goes: impl Fn(&AheadPiece<S>) -> bool) {
        let all = self.kept.iter();
        let going: Vec<u64> = all
            .filter(|(_, p)| goes(p))
            .map(|(&index, _)| index)
            .collect();
        for index in going {
            self.remove(index);
        }
    }

    fn remove(&mut self, index: u64) {
        if let Some(piece) = self.kept.remove(&index)
            && !piece.in_flight
        {
            self.bytes -= piece.range.len;
        }
    }
}

/// The smallest range that holds both.
fn hull(a: Range, b: Range) -> Range {
    let start = a.offset.min(b.offset);
    Range::new(start, a.end().max(b.end()) - start)
}
