//! [`WriteBuffer`]: changes of an origin that were acknowledged and wait until what they replace is durable in the
//! snapshots. Pure.
//!
//! ```text
//! write ──► filling ──begin_drain──► draining ──finish_drain──► the disk below has it
//! ```
//!
//! # Invariants
//!
//! * It holds whole chunks, as they will be; the newest content of a chunk is here where the chunk is.
//! * A chunk is never both filling and draining: a change of one that is draining waits.
//! * Content that was read from below is taken only if no drain began or ended since ([`WriteBuffer::epoch`]).

use std::collections::BTreeMap;
use std::ops;

use block::{IoBufs, Range};
use bytes::Bytes;

use crate::blocks::slice;

/// Bytes that are buffered before a drain begins.
const DRAIN_LEN: u64 = 8 << 20;
/// Bytes that are buffered before further changes wait for a drain. Changes in flight come on top.
const FILLING_MAX: u64 = 16 << 20;
/// Longest run that a drain writes in one request, bytes.
const RUN_LEN_MAX: u64 = 1 << 20;

/// The chunks at the ends of a change, as they were; `None` where the change fills its chunk.
#[derive(Debug, Default)]
pub(super) struct OldEdges {
    pub(super) first: Option<IoBufs>,
    pub(super) last: Option<IoBufs>,
}

/// Chunks that the disk below does not have yet.
#[derive(Debug)]
pub(super) struct WriteBuffer {
    /// Bytes of a chunk.
    unit: u64,
    /// Bytes of the disk.
    size: u64,
    filling: BTreeMap<u64, Bytes>,
    draining: BTreeMap<u64, Bytes>,
    epoch: u64,
}

impl WriteBuffer {
    pub(super) const fn new(size: u64, unit: u64) -> Self {
        Self {
            unit,
            size,
            filling: BTreeMap::new(),
            draining: BTreeMap::new(),
            epoch: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.filling.is_empty() && self.draining.is_empty()
    }

    /// Changes whenever a drain begins or ends.
    pub(super) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether a drain is due.
    pub(super) fn should_drain(&self) -> bool {
        self.filling.len() as u64 * self.unit >= DRAIN_LEN
    }

    /// Whether changes must wait for a drain.
    pub(super) fn is_full(&self) -> bool {
        self.filling.len() as u64 * self.unit >= FILLING_MAX
    }

    /// Whether a drain has begun that has not ended.
    pub(super) fn has_draining(&self) -> bool {
        !self.draining.is_empty()
    }

    /// Whether a drain writes a chunk of `range`.
    pub(super) fn is_draining(&self, range: Range) -> bool {
        self.draining.range(self.chunks(range)).next().is_some()
    }

    /// Whether a chunk of `range` is here.
    pub(super) fn overlaps(&self, range: Range) -> bool {
        self.is_draining(range) || self.filling.range(self.chunks(range)).next().is_some()
    }

    /// The parts of `range` that are here, in order.
    pub(super) fn pieces(&self, range: Range) -> Vec<(Range, Bytes)> {
        let chunks = || self.chunks(range);
        let mut found: Vec<(&u64, &Bytes)> = self.filling.range(chunks()).collect();
        found.extend(self.draining.range(chunks()));
        found.sort_unstable_by_key(|(chunk, _)| **chunk);
        let pieces = found.into_iter().map(|(&chunk, bytes)| {
            let whole = self.chunk_range(chunk);
            let start = whole.offset.max(range.offset);
            let end = whole.end().min(range.end());
            let from = Range::new(0, start - whole.offset).len_usize();
            let part = Range::new(start, end - start);
            (part, bytes.slice(from..from + part.len_usize()))
        });
        pieces.collect()
    }

    /// The chunks that a change of `range` fills only in part, at its beginning and at its end.
    pub(super) fn edges(&self, range: Range) -> (Option<Range>, Option<Range>) {
        let chunks = self.chunks(range);
        let first = self.chunk_range(chunks.start);
        let last = self.chunk_range(chunks.end.saturating_sub(1));
        let cuts = |chunk: Range| chunk.offset < range.offset || range.end() < chunk.end();
        let tail = (last != first && cuts(last)).then_some(last);
        (cuts(first).then_some(first), tail)
    }

    /// Takes a change of `range`, unless a drain began or ended since `epoch`. Where a chunk is not filled and not here yet,
    /// the rest of it is in `edges`.
    pub(super) fn insert(
        &mut self,
        epoch: u64,
        range: Range,
        data: &IoBufs,
        edges: &OldEdges,
    ) -> bool {
        if epoch != self.epoch {
            return false;
        }
        let chunks = self.chunks(range);
        for chunk in chunks.clone() {
            let whole = self.chunk_range(chunk);
            let start = whole.offset.max(range.offset);
            let end = whole.end().min(range.end());
            let from = Range::new(0, start - range.offset).len_usize();
            let part = slice(data, from, Range::new(start, end - start).len_usize());
            let old = if chunk == chunks.start {
                &edges.first
            } else {
                &edges.last
            };
            let bytes = if (start, end) == (whole.offset, whole.end()) {
                part.concat()
            } else {
                let known = self.filling.get(&chunk).map(|bytes| bytes.to_vec());
                let mut bytes = known
                    .or_else(|| old.as_ref().map(|old| old.concat()))
                    .expect("a chunk that is not filled was read");
                let at = Range::new(0, start - whole.offset).len_usize();
                let part = part.concat();
                bytes[at..at + part.len()].copy_from_slice(&part);
                bytes
            };
            self.filling.insert(chunk, bytes.into());
        }
        true
    }

    /// Everything that is here is to be written below: runs in order. The next call returns the same ones until the
    /// drain has ended.
    pub(super) fn begin_drain(&mut self) -> Vec<(Range, IoBufs)> {
        if self.draining.is_empty() {
            self.draining = std::mem::take(&mut self.filling);
            self.epoch += 1;
        }
        let mut runs: Vec<(Range, IoBufs)> = Vec::new();
        for (&chunk, bytes) in &self.draining {
            let range = self.chunk_range(chunk);
            match runs.last_mut() {
                Some((run, data)) if run.end() == range.offset && run.len < RUN_LEN_MAX => {
                    run.len += range.len;
                    data.push(bytes.clone());
                }
                _ => runs.push((range, std::iter::once(bytes.clone()).collect())),
            }
        }
        runs
    }

    /// What was draining is below.
    pub(super) fn finish_drain(&mut self) {
        self.draining.clear();
        self.epoch += 1;
    }

    /// A chunk, as far as the disk reaches.
    fn chunk_range(&self, chunk: u64) -> Range {
        let start = chunk * self.unit;
        Range::new(start, self.unit.min(self.size - start))
    }

    fn chunks(&self, range: Range) -> ops::Range<u64> {
        range.offset / self.unit..range.end().div_ceil(self.unit)
    }
}
