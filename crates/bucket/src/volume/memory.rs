//! [`VolumeMemory`]: what an open volume has in memory: changes, the commit that is under way, and whether it failed. Pure.
//!
//! # Invariants
//!
//! * Changes are in the active map, then in the frozen one while they are committed; a lookup finds them in either. They leave when
//!   they are in the store.
//! * Together both cost at most [`COST_MAX`], and one change more: a change that would exceed it waits.
//! * What has failed stays failed.

use std::sync::Arc;

use block::{ExtentKind, Range};
use bytes::Bytes;

use crate::dirty::{DirtyBlock, DirtyMap, RunPart};
use crate::error::VolumeFailure;
use crate::format::{JournalPosition, RUN_BLOCKS};
use crate::journal_ring::{Append, JournalQueue};

/// Memory for changes that are not in the store, bytes.
pub(super) const COST_MAX: u64 = 64 << 20;
/// Changes that begin a commit by themselves, bytes.
const WRITE_BACK_COST: u64 = 16 << 20;

/// What a change caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// Nothing is to be done.
    Taken,
    /// It is the first of its epoch: it is committed within a time.
    TakenFirst {
        /// The epoch.
        epoch: u64,
    },
    /// There is enough for a commit, and none was started for it.
    TakenFull,
    /// There is no space: wait for a commit.
    Full,
}

/// What an open volume has in memory.
#[derive(Debug, Default)]
pub(super) struct VolumeMemory {
    active: DirtyMap,
    /// Counts the active maps.
    epoch: u64,
    frozen: Option<Arc<DirtyMap>>,
    /// Everything of the epochs before this one is in the store.
    durable: u64,
    /// A commit was started because there is enough for it.
    is_write_back_due: bool,
    failure: Option<VolumeFailure>,
    /// What of it is in the local journal, if there is one.
    journal: Option<JournalQueue>,
}

impl VolumeMemory {
    /// From now on changes are journaled.
    pub(super) fn set_journal(&mut self, journal: JournalQueue) {
        self.journal = Some(journal);
    }

    /// Takes the changes of a journal, of a volume that takes no requests yet.
    pub(super) fn replay(&mut self, changes: DirtyMap) {
        assert!(
            self.cost() == 0,
            "a journal is replayed before all requests"
        );
        self.active = changes;
    }

    /// What the local journal has, if there is one.
    pub(super) const fn journal(&self) -> Option<&JournalQueue> {
        self.journal.as_ref()
    }

    /// The result of a flush to the journal, if there is nothing to append.
    pub(super) fn journaled(&self) -> Option<Result<(), VolumeFailure>> {
        if let Some(failure) = &self.failure {
            return Some(Err(failure.clone()));
        }
        let is_idle = self.journal.as_ref().is_some_and(JournalQueue::is_idle);
        is_idle.then_some(Ok(()))
    }

    /// Begins to append to the journal what is not in it.
    pub(super) fn begin_append(&mut self) -> Result<Append, VolumeFailure> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let journal = self.journal.as_mut().expect("it has a journal");
        Ok(journal.begin_append())
    }

    /// The record is durable. Whether a commit should begin to free the space of records.
    pub(super) fn appended(&mut self) -> bool {
        let journal = self.journal.as_mut().expect("it has a journal");
        let is_due = journal.appended() && !self.is_write_back_due && !self.active.is_empty();
        self.is_write_back_due |= is_due;
        is_due
    }

    /// Why it failed.
    pub(super) const fn failure(&self) -> Option<&VolumeFailure> {
        self.failure.as_ref()
    }

    /// The volume is out of use. The first cause stays, but a takeover replaces a failed commit. Whether the cause is another one now.
    pub(super) fn fail(&mut self, failure: VolumeFailure) -> bool {
        let replaces = matches!(
            (&self.failure, &failure),
            (None, _)
                | (
                    Some(VolumeFailure::Commit(_) | VolumeFailure::Journal(_)),
                    VolumeFailure::Fenced
                )
        );
        if replaces {
            self.failure = Some(failure);
        }
        replaces
    }

    /// Memory of its changes, bytes.
    pub(super) fn cost(&self) -> u64 {
        self.active.cost()
            + self.frozen.as_ref().map_or(0, |frozen| frozen.cost())
            + self.journal.as_ref().map_or(0, JournalQueue::cost)
    }

    /// Whether a write of `range` is taken now.
    pub(super) fn is_ready(&self, range: Range) -> bool {
        self.failure.is_none() && self.has_space(DirtyMap::cost_of(range))
    }

    fn has_space(&self, cost: u64) -> bool {
        self.cost() + cost <= COST_MAX || (self.active.is_empty() && self.frozen.is_none())
    }

    /// Takes a change of at most `cost` bytes if there is space.
    fn admit(&mut self, cost: u64, change: impl FnOnce(&mut Self)) -> Admission {
        let is_first = self.active.is_empty();
        if !self.has_space(cost) {
            return Admission::Full;
        }
        change(self);
        if self.active.cost() >= WRITE_BACK_COST && !self.is_write_back_due {
            self.is_write_back_due = true;
            return Admission::TakenFull;
        }
        match is_first {
            true => Admission::TakenFirst { epoch: self.epoch },
            false => Admission::Taken,
        }
    }

    /// Writes blocks, if there is space. They are taken only then.
    pub(super) fn write(&mut self, range: Range, blocks: &mut Vec<Bytes>) -> Admission {
        self.admit(DirtyMap::cost_of(range), |memory| {
            let blocks = std::mem::take(blocks);
            if let Some(journal) = &mut memory.journal {
                journal.changes().write(range, blocks.clone());
            }
            memory.active.write(range, blocks);
        })
    }

    /// Makes a part of a run zeroes, if there is space.
    pub(super) fn zero(&mut self, part: RunPart) -> Admission {
        let cost = DirtyMap::cost_of(Range::new(0, 0));
        self.admit(cost, |memory| {
            if let Some(journal) = &mut memory.journal {
                journal.changes().zero(part);
            }
            memory.active.zero(part);
        })
    }

    /// Runs among these that changed, in order.
    pub(super) fn changed_runs(&self, runs: std::ops::Range<u64>) -> Vec<u64> {
        let mut changed = self.active.runs_within(runs.clone());
        if let Some(frozen) = &self.frozen {
            changed.extend(frozen.runs_within(runs));
        }
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    /// What the changed blocks of these runs are, in order.
    pub(super) fn changed_kinds(
        &self,
        runs: std::ops::Range<u64>,
    ) -> Vec<(u64, [Option<ExtentKind>; RUN_BLOCKS])> {
        let kinds = |run| {
            std::array::from_fn(|block| {
                self.block(run, block).map(|changed| match changed {
                    DirtyBlock::Data(_) => ExtentKind::Data,
                    DirtyBlock::Zero => ExtentKind::Hole,
                })
            })
        };
        let runs = self.changed_runs(runs).into_iter();
        runs.map(|run| (run, kinds(run))).collect()
    }

    /// The change of each block of `range`.
    pub(super) fn lookup(&self, range: Range) -> Vec<Option<DirtyBlock>> {
        let blocks = RunPart::all(range)
            .flat_map(|part| part.blocks().map(move |block| self.block(part.run, block)));
        blocks.collect()
    }

    fn block(&self, run: u64, block: usize) -> Option<DirtyBlock> {
        let active = self.active.get(run, block);
        active.or_else(|| self.frozen.as_ref()?.get(run, block))
    }

    /// The epoch that a flush has to wait for: everything of those before it must be in the store.
    pub(super) const fn flush_target(&self) -> u64 {
        self.epoch + 1
    }

    /// The result of a flush of all changes of the epochs before `target`, if it needs no commit.
    pub(super) fn flushed(&self, target: u64) -> Option<Result<(), VolumeFailure>> {
        if let Some(failure) = &self.failure {
            return Some(Err(failure.clone()));
        }
        let is_durable =
            self.durable >= target || (self.frozen.is_none() && self.active.is_empty());
        is_durable.then_some(Ok(()))
    }

    /// Whether this epoch is still the active one, and has changes.
    pub(super) fn is_active(&self, epoch: u64) -> bool {
        self.epoch == epoch && !self.active.is_empty()
    }

    /// Whether all changes are in the store.
    pub(super) fn is_stored(&self) -> bool {
        self.active.is_empty() && self.frozen.is_none()
    }

    /// Begins a commit: the changes that it writes, and the first record of the journal that it does not cover. One commit is under way
    /// at a time.
    pub(super) fn freeze(&mut self) -> Option<(Arc<DirtyMap>, Option<JournalPosition>)> {
        assert!(self.frozen.is_none(), "one commit is under way at a time");
        self.is_write_back_due = false;
        if self.active.is_empty() {
            self.journal.iter_mut().for_each(JournalQueue::stored);
            return None;
        }
        self.epoch += 1;
        let frozen = Arc::new(std::mem::take(&mut self.active));
        self.frozen = Some(frozen.clone());
        let position = self.journal.as_mut().map(JournalQueue::freeze);
        Some((frozen, position))
    }

    /// The commit is in the store.
    pub(super) fn committed(&mut self) {
        self.frozen = None;
        self.durable = self.epoch;
        self.journal.iter_mut().for_each(JournalQueue::committed);
    }
}
