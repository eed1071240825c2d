//! [`MergeState`]: which chunks are still in the store, which of them a step copies, and which changes are in
//! flight. Pure.
//!
//! # Invariants
//!
//! * A chunk that a step copies is not changed: changes of it wait until the step has ended, and the step waits for
//!   those that were before it.
//! * A chunk leaves the map only with the end of its step.

use std::ops;

use block::Range;

use crate::overlay::map::{ChunkPiece, ChunkPieces, Exception, Map, chunks_of};

/// Name of a change in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MergeWriteId(u64);

/// What a merge knows.
#[derive(Debug)]
pub(super) struct MergeState {
    /// Bytes.
    chunk: u64,
    map: Map,
    /// Chunks that a step copies, in order.
    step: Vec<u64>,
    writes: Vec<(MergeWriteId, ops::Range<u64>)>,
    next: u64,
}

impl MergeState {
    /// `exceptions` are sorted by chunk of the disk.
    pub(super) fn new(chunk: u64, exceptions: &[Exception]) -> Self {
        Self {
            chunk,
            map: Map::of_sorted(exceptions),
            step: Vec::new(),
            writes: Vec::new(),
            next: 0,
        }
    }

    /// Chunks that are still in the store.
    pub(super) const fn left(&self) -> u64 {
        self.map.count()
    }

    /// Where the bytes of `range` are.
    pub(super) fn pieces(&self, range: Range) -> ChunkPieces {
        self.map.pieces(range, self.chunk).collect()
    }

    /// The first of the pieces, where it is all of `range`.
    pub(super) fn single(&self, range: Range) -> Option<ChunkPiece> {
        let first = self.map.pieces(range, self.chunk).next()?;
        (first.at == range).then_some(first)
    }

    /// A change of `range` begins; `None` while a step copies one of its chunks.
    pub(super) fn begin_write(&mut self, range: Range) -> Option<MergeWriteId> {
        if self.is_copied(range) {
            return None;
        }
        let id = MergeWriteId(self.next);
        self.next += 1;
        self.writes.push((id, chunks_of(range, self.chunk)));
        Some(id)
    }

    /// Whether a step copies a chunk of `range`.
    pub(super) fn is_copied(&self, range: Range) -> bool {
        let chunks = chunks_of(range, self.chunk);
        let first = self.step.partition_point(|&chunk| chunk < chunks.start);
        self.step
            .get(first)
            .is_some_and(|&chunk| chunk < chunks.end)
    }

    /// A change has ended.
    pub(super) fn end_write(&mut self, id: MergeWriteId) {
        self.writes.retain(|(other, _)| *other != id);
    }

    /// A step will copy these chunks, in any order: no change of them begins from now on.
    pub(super) fn begin_step(&mut self, chunks: impl IntoIterator<Item = u64>) {
        self.step = chunks.into_iter().collect();
        self.step.sort_unstable();
    }

    /// Whether no change that began before is in flight on the chunks of the step.
    pub(super) fn may_copy(&self) -> bool {
        let overlaps = |chunks: &ops::Range<u64>| {
            let first = self.step.partition_point(|&chunk| chunk < chunks.start);
            self.step
                .get(first)
                .is_some_and(|&chunk| chunk < chunks.end)
        };
        !self.writes.iter().any(|(_, chunks)| overlaps(chunks))
    }

    /// The chunks of the step are in the origin, and no table lists them any more.
    pub(super) fn finish_step(&mut self) {
        for chunk in std::mem::take(&mut self.step) {
            self.map.remove(chunk);
        }
    }

    /// The step ends, and its chunks stay in the store.
    pub(super) fn cancel_step(&mut self) {
        self.step.clear();
    }
}
