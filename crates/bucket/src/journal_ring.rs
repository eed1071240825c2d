//! [`JournalQueue`]: what of the changes in memory is in the local journal, and how much of its ring is in use. Pure.
//!
//! # Invariants
//!
//! * A change that was taken is in `unjournaled` or `older` until a record with it was appended, or a commit with it is in the store: a
//!   flush that finds both empty, and no record under way, has nothing to do.
//! * A commit covers the records before the position at which its changes were frozen: each of their blocks is in it, as it was in the
//!   record or later. Their space is free when the commit is in the store, and not before.
//! * Records follow one another without a gap, and one is appended at a time.

use block::Range;

use crate::dirty::DirtyMap;
use crate::figures::JournalFigures;
use crate::format::{BLOCK, JournalPosition, RecordPlan};

/// The ring of records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JournalRing {
    blocks: u64,
    /// That of the next record.
    head: JournalPosition,
    /// The first record that is not in the store.
    tail: JournalPosition,
    /// The first record that the commit under way does not cover.
    frozen: JournalPosition,
}

impl JournalRing {
    /// An empty one of so many blocks.
    pub(crate) const fn new(blocks: u64, at: JournalPosition) -> Self {
        Self {
            blocks,
            head: at,
            tail: at,
            frozen: at,
        }
    }

    /// Blocks of records that are not in the store.
    pub(crate) const fn used(&self) -> u64 {
        self.head.block - self.tail.block
    }

    /// Takes space for a record, if there is enough.
    fn append(&mut self, blocks: u64) -> Option<JournalPosition> {
        if self.used() + blocks > self.blocks {
            return None;
        }
        let at = self.head;
        self.head = JournalPosition {
            sequence: at.sequence + 1,
            block: at.block + blocks,
        };
        Some(at)
    }

    /// The parts of the journal, bytes, that a record of so many blocks takes: two where it continues at the begin of the ring.
    pub(crate) fn parts(
        blocks: u64,
        at: JournalPosition,
        count: u64,
    ) -> impl Iterator<Item = Range> {
        let place = at.block % blocks;
        let first = count.min(blocks - place);
        // Behind the header.
        let part = |place: u64, count: u64| Range::new((1 + place) * BLOCK, count * BLOCK);
        let both = [part(place, first), part(0, count - first)];
        both.into_iter().filter(|part| part.len > 0)
    }
}

/// What a flush has to append.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Append {
    /// Nothing.
    Nothing,
    /// This record.
    Record(RecordPlan, JournalPosition),
    /// More than there is space for: the changes have to be committed.
    Full,
}

/// What of the changes in memory is in the journal.
#[derive(Debug)]
pub(crate) struct JournalQueue {
    ring: JournalRing,
    /// Changes behind the last record.
    unjournaled: DirtyMap,
    /// The same, of those that are being committed.
    older: DirtyMap,
    is_appending: bool,
    /// Flushes that found no space, since it was opened.
    full_waits: u64,
}

impl JournalQueue {
    /// That of an empty ring.
    pub(crate) fn new(ring: JournalRing) -> Self {
        Self {
            ring,
            unjournaled: DirtyMap::default(),
            older: DirtyMap::default(),
            is_appending: false,
            full_waits: 0,
        }
    }

    /// The changes behind the last record, to be changed as the memory is.
    pub(crate) const fn changes(&mut self) -> &mut DirtyMap {
        &mut self.unjournaled
    }

    /// Memory of what is not in the journal, besides the data, which the memory has.
    pub(crate) fn cost(&self) -> u64 {
        let cost = |map: &DirtyMap| map.cost() - map.data_len();
        cost(&self.unjournaled) + cost(&self.older)
    }

    /// Whether all changes are in the journal or in the store.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_appending && self.unjournaled.is_empty() && self.older.is_empty()
    }

    /// Begins to append what is not in the journal.
    pub(crate) fn begin_append(&mut self) -> Append {
        assert!(!self.is_appending, "one record is appended at a time");
        let mut all = std::mem::take(&mut self.older);
        all.apply(&self.unjournaled);
        if all.is_empty() {
            return Append::Nothing;
        }
        let plan = RecordPlan::of(&all);
        let Some(at) = self.ring.append(plan.blocks()) else {
            // As it was, but that a change of both is in the later one alone.
            self.unjournaled = all;
            self.full_waits += 1;
            return Append::Full;
        };
        self.unjournaled = DirtyMap::default();
        self.is_appending = true;
        Append::Record(plan, at)
    }

    /// The record is durable. Whether so much of the ring is in use that a commit should begin.
    pub(crate) fn appended(&mut self) -> bool {
        self.is_appending = false;
        self.ring.used() > self.ring.blocks / 2
    }

    /// A commit of all changes begins: the first record that it does not cover.
    pub(crate) fn freeze(&mut self) -> JournalPosition {
        self.older.apply(&std::mem::take(&mut self.unjournaled));
        self.ring.frozen = self.ring.head;
        self.ring.frozen
    }

    /// The commit is in the store.
    pub(crate) fn committed(&mut self) {
        self.older = DirtyMap::default();
        self.ring.tail = self.ring.frozen;
    }

    /// All changes are in the store, without a commit that could cover records: these stay until the next one.
    pub(crate) fn stored(&mut self) {
        self.older = DirtyMap::default();
        self.unjournaled = DirtyMap::default();
    }

    /// The first record that is not in the store.
    pub(crate) const fn tail(&self) -> JournalPosition {
        self.ring.tail
    }

    /// For the status.
    pub(crate) const fn figures(&self) -> JournalFigures {
        JournalFigures {
            unstored: self.ring.used() * BLOCK,
            size: self.ring.blocks * BLOCK,
            full_waits: self.full_waits,
        }
    }
}
