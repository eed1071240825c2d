//! [`StripeGather`]: writes that arrive together, by the rows that they change. Pure, but for the callers that it keeps.
//!
//! What waits for a row is written together: a writer that sends one chunk after the other, and does not wait for each, gets
//! full stripes.
//!
//! # Invariants
//!
//! * Pieces of a batch do not overlap: where writes do, none of which was answered yet, the later one counts.
//! * The caller that begins a batch sees that it is written; the batch takes more until then.

use std::collections::HashMap;

use block::{IoBufs, IoError, Range, WriteFlags};
use tokio::sync::oneshot;

use crate::blocks::slice;

/// What becomes of a batch, for one caller.
type Waiter = oneshot::Sender<Result<(), IoError>>;

/// Bytes of the array that are written.
#[derive(Debug, Clone)]
pub(in crate::array) struct RowPiece {
    pub(in crate::array) range: Range,
    pub(in crate::array) data: IoBufs,
}

/// What is written of one row together.
#[derive(Debug, Default)]
pub(in crate::array) struct RowBatch {
    pub(in crate::array) pieces: Vec<RowPiece>,
    /// Durably.
    pub(in crate::array) flags: WriteFlags,
    waiters: Vec<Waiter>,
}

/// Batches that take more, by their rows.
#[derive(Debug, Default)]
pub(in crate::array) struct StripeGather {
    batches: HashMap<u64, RowBatch>,
}

impl StripeGather {
    /// Adds a write of one row. Whether it begins a batch.
    pub(in crate::array) fn add(
        &mut self,
        row: u64,
        piece: RowPiece,
        flags: WriteFlags,
        waiter: Waiter,
    ) -> bool {
        let begins = !self.batches.contains_key(&row);
        let batch = self.batches.entry(row).or_default();
        batch.put(piece);
        batch.flags |= flags & WriteFlags::FUA;
        batch.waiters.push(waiter);
        begins
    }

    /// Takes what is to be written of a row.
    pub(in crate::array) fn take(&mut self, row: u64) -> RowBatch {
        self.batches.remove(&row).unwrap_or_default()
    }
}

impl RowBatch {
    fn put(&mut self, piece: RowPiece) {
        if self
            .pieces
            .iter()
            .any(|own| own.range.overlaps(&piece.range))
        {
            let before = std::mem::take(&mut self.pieces);
            let left = before.into_iter().flat_map(|own| own.without(piece.range));
            self.pieces = left.collect();
        }
        self.pieces.push(piece);
    }

    /// Answers all callers.
    pub(in crate::array) fn answer(self, result: &Result<(), IoError>) {
        for waiter in self.waiters {
            // One that has gone wants no answer.
            drop(waiter.send(result.clone()));
        }
    }
}

impl RowPiece {
    /// What is left of it without `over`.
    fn without(self, over: Range) -> impl Iterator<Item = Self> {
        let own = self.range;
        let before = (own.offset, over.offset.min(own.end()));
        let behind = (over.end().max(own.offset), own.end());
        let left = [before, behind]
            .into_iter()
            .filter(|(start, end)| start < end);
        left.map(move |(start, end)| {
            let range = Range::new(start, end - start);
            let skip = Range::new(0, start - own.offset).len_usize();
            Self {
                range,
                data: slice(&self.data, skip, range.len_usize()),
            }
        })
    }
}
