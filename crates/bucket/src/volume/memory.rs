//! [`VolumeMemory`]: what an open volume has in memory: changes, the commit that is under way, and whether it failed. Pure.
//!
//! # Invariants
//!
//! * Changes are in the active map, then in a frozen one while they are committed; a lookup finds the last one. They leave when they are
//!   in the store, in the order in which they were frozen.
//! * Together they cost at most [`COST_MAX`], and one change more: a change that would exceed it waits.
//! * What has failed stays failed.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{ExtentKind, Range};
use bytes::Bytes;

use crate::dirty::{DirtyBlock, DirtyMap, RunPart};
use crate::error::VolumeFailure;
use crate::flush_plan::INLINE_MAX;
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

/// The changes of a commit, which end the epoch before this one.
#[derive(Debug)]
struct FrozenMap {
    changes: Arc<DirtyMap>,
    epoch: u64,
}

/// What an open volume has in memory.
#[derive(Debug, Default)]
pub(super) struct VolumeMemory {
    active: DirtyMap,
    /// Counts the active maps.
    epoch: u64,
    /// Those of commits that are under way, the oldest first.
    frozen: VecDeque<FrozenMap>,
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
            + self
                .frozen
                .iter()
                .map(|one| one.changes.cost())
                .sum::<u64>()
            + self.journal.as_ref().map_or(0, JournalQueue::cost)
    }

    /// Whether a write of `range` is taken now.
    pub(super) fn is_ready(&self, range: Range) -> bool {
        self.failure.is_none() && self.has_space(DirtyMap::cost_of(range))
    }

    fn has_space(&self, cost: u64) -> bool {
        self.cost() + cost <= COST_MAX || self.is_stored()
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
        for frozen in &self.frozen {
            changed.extend(frozen.changes.runs_within(runs.clone()));
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
        let mut newest_first = self.frozen.iter().rev();
        active.or_else(|| newest_first.find_map(|one| one.changes.get(run, block)))
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
        let is_durable = self.durable >= target || self.is_stored();
        is_durable.then_some(Ok(()))
    }

    /// Whether this epoch is still the active one, and has changes.
    pub(super) fn is_active(&self, epoch: u64) -> bool {
        self.epoch == epoch && !self.active.is_empty()
    }

    /// Whether all changes are in the store.
    pub(super) fn is_stored(&self) -> bool {
        self.active.is_empty() && self.frozen.is_empty()
    }

    /// Whether a commit of the changes that are in no commit yet writes objects.
    pub(super) fn has_objects_to_write(&self) -> bool {
        self.active.data_len() > INLINE_MAX
    }

    /// Begins a commit: the changes that it writes, and the first record of the journal that it does not cover. With a journal one commit
    /// is under way at a time.
    pub(super) fn freeze(&mut self) -> Option<(Arc<DirtyMap>, Option<JournalPosition>)> {
        assert!(
            self.frozen.is_empty() || self.journal.is_none(),
            "with a journal one commit is under way at a time"
        );
        self.is_write_back_due = false;
        if self.active.is_empty() {
            self.journal.iter_mut().for_each(JournalQueue::stored);
            return None;
        }
        self.epoch += 1;
        let changes = Arc::new(std::mem::take(&mut self.active));
        self.frozen.push_back(FrozenMap {
            changes: changes.clone(),
            epoch: self.epoch,
        });
        let position = self.journal.as_mut().map(JournalQueue::freeze);
        Some((changes, position))
    }

    /// The oldest commit that is under way is in the store.
    pub(super) fn committed(&mut self) {
        let committed = self.frozen.pop_front().expect("a commit is under way");
        self.durable = committed.epoch;
        self.journal.iter_mut().for_each(JournalQueue::committed);
    }
}
