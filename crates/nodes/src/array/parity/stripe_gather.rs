//! [`StripeGather`]: writes that arrive together, by the rows that they change. Pure, but for the callers that it keeps.
//!
//! What waits for a row is written together: a writer that sends one chunk after the other, and does not wait for each, gets
//! full stripes. A batch that goes on where a write just ended, at the beginning of a row, is likely to become a full stripe: it is
//! worth waiting for while batches before it are being written, and while more arrives.
//!
//! # Invariants
//!
//! * Pieces of a batch do not overlap: where writes do, none of which was answered yet, the later one counts.
//! * The caller that begins a batch sees that it is written, and ends it; the batch takes more until it is taken.
//! * A batch waits for batches that began before it only: each of them is written under any load.

use std::collections::{BTreeSet, HashMap, VecDeque};

use block::{IoBufs, IoError, Range, WriteFlags};
use tokio::sync::oneshot;

use crate::blocks::slice;

/// Writes of which the ends are known: as many writers are found to be sequential at once.
const ENDS_MAX: usize = 16;

/// What becomes of a batch, for one caller.
type Waiter = oneshot::Sender<Result<(), IoError>>;

/// Bytes of the array that are written.
#[derive(Debug, Clone)]
pub(in crate::array) struct RowPiece {
    pub(in crate::array) range: Range,
    pub(in crate::array) data: IoBufs,
}

/// A row: its name, and which bytes of the array it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) struct RowKey {
    /// A number that no other row has.
    pub(in crate::array) id: u64,
    /// Its first byte.
    pub(in crate::array) start: u64,
    /// Its bytes.
    pub(in crate::array) len: u64,
}

/// Name of one batch; rises in order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(in crate::array) struct BatchNumber(u64);

/// What is written of one row together.
#[derive(Debug, Default)]
pub(in crate::array) struct RowBatch {
    pub(in crate::array) pieces: Vec<RowPiece>,
    /// Durably.
    pub(in crate::array) flags: WriteFlags,
    waiters: Vec<Waiter>,
    number: BatchNumber,
    /// It has the first bytes of its row, and the bytes before them were written just before.
    is_sequential: bool,
}

/// Batches that take more, by their rows.
#[derive(Debug, Default)]
pub(in crate::array) struct StripeGather {
    batches: HashMap<u64, RowBatch>,
    /// Batches that have not ended, also those that were taken.
    unfinished: BTreeSet<BatchNumber>,
    next: u64,
    /// Where the last writes ended, bytes of the array.
    ends: VecDeque<u64>,
}

/// What a write did to the batch of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) struct Gathered {
    /// It begins this batch.
    pub(in crate::array) begins: Option<BatchNumber>,
    /// All of the row is written.
    pub(in crate::array) is_full: bool,
}

/// What a batch waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) enum BatchWait {
    /// It is a full stripe, or not likely to become one.
    Nothing,
    /// To become a full stripe while batches before it are being written.
    Batches,
    /// To become one with what has arrived, and was not read yet.
    More {
        /// Bytes that it has.
        len: u64,
    },
}

impl StripeGather {
    /// Adds a write of one row.
    pub(in crate::array) fn add(
        &mut self,
        row: RowKey,
        piece: RowPiece,
        flags: WriteFlags,
        waiter: Waiter,
    ) -> Gathered {
        let Range { offset, .. } = piece.range;
        let continues = offset == row.start && self.ends.contains(&offset);
        self.ends.retain(|end| *end != offset);
        self.ends.truncate(ENDS_MAX - 1);
        self.ends.push_front(piece.range.end());
        let begins = (!self.batches.contains_key(&row.id)).then_some(BatchNumber(self.next));
        let batch = self.batches.entry(row.id).or_default();
        if let Some(number) = begins {
            self.next += 1;
            self.unfinished.insert(number);
            batch.number = number;
        }
        batch.put(piece);
        batch.flags |= flags & WriteFlags::FUA;
        batch.waiters.push(waiter);
        batch.is_sequential |= continues;
        Gathered {
            begins,
            is_full: batch.len() == row.len,
        }
    }

    /// What the batch of a row is to wait for before it is written.
    pub(in crate::array) fn wait(&self, row: RowKey) -> BatchWait {
        let Some(batch) = self.batches.get(&row.id) else {
            return BatchWait::Nothing;
        };
        let len = batch.len();
        if !batch.is_sequential || len == row.len {
            return BatchWait::Nothing;
        }
        match self.unfinished.first() == Some(&batch.number) {
            true => BatchWait::More { len },
            false => BatchWait::Batches,
        }
    }

    /// A batch was written, or never will be.
    pub(in crate::array) fn finish(&mut self, number: BatchNumber) {
        self.unfinished.remove(&number);
    }

    /// Takes what is to be written of a row.
    pub(in crate::array) fn take(&mut self, row: u64) -> RowBatch {
        self.batches.remove(&row).unwrap_or_default()
    }
}

impl RowBatch {
    /// Bytes that it writes.
    fn len(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.range.len).sum()
    }

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
