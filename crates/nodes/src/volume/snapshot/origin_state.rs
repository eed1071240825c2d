//! [`OriginState`]: the snapshots of an origin, what was copied to all of them, and what waits for that. Pure.
//!
//! # Invariants
//!
//! * A chunk with its bit set is not in the buffer: changes of it go straight below.
//! * A bit that was set stays set until the list of snapshots changes.
//! * Changes of a chunk without its bit set take turns.

use std::ops;
use std::sync::Arc;

use block::Range;

use super::chunk_bitmap::ChunkBitmap;
use super::node::Snapshot;
use super::write_buffer::WriteBuffer;

/// Chunk of an origin without snapshots, bytes.
const UNIT_DEFAULT: u64 = 4096;

/// Name of a change that has its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChangeTurn(u64);

/// What an origin knows.
#[derive(Debug)]
pub(super) struct OriginState {
    pub(super) snapshots: Vec<Arc<Snapshot>>,
    /// `None`: no snapshot has to be preserved.
    copied: Option<ChunkBitmap>,
    pub(super) buffer: WriteBuffer,
    unit: u64,
    size: u64,
    turns: Vec<(ChangeTurn, ops::Range<u64>)>,
    next: u64,
}

impl OriginState {
    pub(super) fn new(size: u64, snapshots: Vec<Arc<Snapshot>>) -> Self {
        let mut state = Self {
            snapshots,
            copied: None,
            buffer: WriteBuffer::new(size, UNIT_DEFAULT),
            unit: UNIT_DEFAULT,
            size,
            turns: Vec::new(),
            next: 0,
        };
        state.restart();
        state
    }

    /// Whether `range` may be changed below at once.
    pub(super) fn is_copied(&self, range: Range) -> bool {
        self.copied
            .as_ref()
            .is_none_or(|copied| copied.covers(range))
    }

    /// Whether a write of `range` may be buffered: none of its chunks may be changed below meanwhile.
    pub(super) fn may_buffer(&self, range: Range) -> bool {
        let copied = self.copied.as_ref();
        copied.is_some_and(|copied| !copied.touches(range)) && self.has_live()
    }

    /// Whether a snapshot is left to be preserved.
    fn has_live(&self) -> bool {
        self.snapshots.iter().any(|one| !one.is_retired())
    }

    /// What `range` held is durable in all snapshots, and nothing of it is in the buffer.
    pub(super) fn set_copied(&mut self, range: Range) {
        if !self.has_live() && self.buffer.is_empty() {
            self.copied = None;
        } else if let Some(copied) = &mut self.copied {
            copied.insert(range);
        }
    }

    /// Forgets what was copied: the list of snapshots has changed. The buffer is empty, and no change has a turn.
    pub(super) fn restart(&mut self) {
        let live = self.snapshots.iter().filter(|one| !one.is_retired());
        let unit = live.map(|one| one.chunk()).min();
        self.unit = unit.unwrap_or(UNIT_DEFAULT);
        self.copied = unit.map(|unit| ChunkBitmap::new(self.size, unit));
        self.buffer = WriteBuffer::new(self.size, self.unit);
    }

    /// A change of `range` takes its turn; `None` while another one has a turn of one of its chunks.
    pub(super) fn take_turn(&mut self, range: Range) -> Option<ChangeTurn> {
        let chunks = range.offset / self.unit..range.end().div_ceil(self.unit);
        let overlaps =
            |other: &ops::Range<u64>| other.start < chunks.end && chunks.start < other.end;
        if self.turns.iter().any(|(_, other)| overlaps(other)) {
            return None;
        }
        let turn = ChangeTurn(self.next);
        self.next += 1;
        self.turns.push((turn, chunks));
        Some(turn)
    }

    /// Its turn has ended.
    pub(super) fn end_turn(&mut self, turn: ChangeTurn) {
        self.turns.retain(|(other, _)| *other != turn);
    }
}
