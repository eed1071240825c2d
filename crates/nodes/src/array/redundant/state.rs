//! [`State`]: what a redundant array knows of its members and of the changes that are under way. Pure: everything is decided
//! here, under one lock that is not held across an await, and carried out elsewhere.
//!
//! # Invariants
//!
//! * A change is sent to members only while all of them know durably that the array is dirty, and which bits are
//!   set.
//! * Nothing is acknowledged that a failed member lacks, before all others know durably that it failed.
//! * While a part has no member in sync no bit is cleared, and `events_cleared` stays.

use std::sync::Arc;

use block::Range;

use super::super::assembly::Facts;
use super::super::format::Version;
use super::super::member_guard::ArrayFence;
use super::bits::Bits;
use super::fitting_columns::FittingColumns;
use super::ledger::CommitLedger;
use super::member_table::{Failing, LogChange, MemberTable};
use super::members::SlotId;
use super::range_locks::RangeLocks;

/// What a redundant array knows.
#[derive(Debug)]
pub(in crate::array) struct State {
    /// Whether the array may still be used.
    pub(super) fence: Arc<ArrayFence>,
    pub(super) facts: Facts,
    pub(super) members: MemberTable,
    /// What members know, and what is still to be written to them.
    pub(super) ledger: CommitLedger,
    pub(super) bits: Option<Bits>,
    /// Without a bitmap: copies may differ from here on. With one its bits say where.
    pub(super) synced_to: Option<u64>,
    /// Where parity fits all the same: what was written since the open.
    pub(super) fitting: FittingColumns,
    /// Where a reader of the journal is to begin, byte of it; `None`: as its superblock has it.
    pub(super) journal_tail: Option<u64>,
    pub(super) locks: RangeLocks,
    /// Nothing is changed any more.
    pub(super) stopped: bool,
    /// How often copies were found to differ since it was opened.
    pub(super) needs: u64,
    /// Commits write how data lie, too: a reshape changed that, or does so.
    pub(super) writes_form: bool,
    /// Partial parity logs were dropped.
    pub(super) drops_ppl: bool,
    /// By a reshape: members get them again once it has ended, and know that.
    pub(super) awaits_ppl: bool,
    /// Commits write where bitmaps and partial parity logs are, too: that has changed.
    pub(super) writes_policy: bool,
    /// The next commit is written to members with a part before it is to others: the level changes.
    pub(super) holders_first: bool,
}

impl State {
    /// Whether a part has none in sync.
    pub(super) fn is_degraded(&self) -> bool {
        self.members.is_degraded()
    }

    /// Whether a reshape is going on.
    pub(super) fn is_reshaping(&self) -> bool {
        self.members.layout.is_reshaping()
    }

    /// Whether no bit may be cleared: they record what members lack, or places that they do not know.
    pub(super) fn keeps_bits(&self) -> bool {
        self.is_degraded() || self.is_reshaping() || self.facts.reshape.is_some()
    }

    /// A change of what superblocks say. `urgent`: nothing is acknowledged before all members have it.
    pub(super) fn change(&mut self, urgent: bool) {
        self.ledger.change(urgent);
    }

    /// Superblocks are to say that members are missing that were so when the array was opened, before anything else is acknowledged.
    pub(super) fn note_missing(&mut self) {
        if self.ledger.leads() {
            self.change(true);
        }
    }

    /// A member failed.
    pub(super) fn fail(&mut self, slot: SlotId, why: &str) -> Failing {
        if self.fence.is_closed() {
            // No member is written any more.
            return Failing::Last;
        }
        let failing = self.members.fail(slot, why);
        if failing == Failing::Failed {
            if let Some(bits) = &mut self.bits {
                bits.keep_all();
            }
            self.change(true);
        }
        failing
    }

    /// A member cannot write some places: they are not read of it any more. False: it cannot keep that in its log.
    pub(super) fn log_bad(&mut self, slot: SlotId, bad: &[Range]) -> bool {
        let logged = self.members.log_bad(slot, bad);
        if logged == LogChange::Changed {
            self.change(true);
        }
        logged != LogChange::Impossible
    }

    /// A member was written where it could not be read: it can be again. Its log says so behind a flush of what was written, and before
    /// a flush of the array ends: where other members lack the same place, no one else has what was written.
    pub(super) fn made_good(&mut self, slot: SlotId, within: Range) {
        if self.members.clear_bad(slot, within) == LogChange::Changed {
            self.change_flushed(true);
        }
    }

    /// Copies of `range` may differ: reads are from the first one that is in sync until they are resynced.
    pub(super) fn need(&mut self, range: Range) {
        self.needs += 1;
        // Bits do not know two forms.
        let range = match self.is_reshaping() {
            true => Range::new(0, self.members.layout.sync_size()),
            false => range,
        };
        self.doubt_replacements(range);
        self.fitting.remove(range);
        match &mut self.bits {
            Some(bits) => bits.need(range),
            None => {
                let from = self.synced_to.unwrap_or(u64::MAX).min(range.offset);
                self.synced_to = Some(from);
            }
        }
    }

    /// Whether copies may differ, or parity may not fit, where `range` of the array is.
    #[inline]
    pub(super) fn is_needed_at(&self, range: Range) -> bool {
        self.is_needed(self.members.layout.sync_range(range))
    }

    /// Whether copies may differ in `range`.
    #[inline]
    pub(in crate::array) fn is_needed(&self, range: Range) -> bool {
        if self.is_reshaping() {
            return self.is_unsynced();
        }
        match &self.bits {
            Some(bits) => bits.is_needed(range),
            None => self.synced_to.is_some_and(|to| range.end() > to),
        }
    }

    /// The next bytes at or behind `from` where copies may differ.
    pub(super) fn next_needed(&self, from: u64) -> Option<Range> {
        let size = self.members.layout.sync_size();
        if self.is_reshaping() {
            let is_there = self.is_unsynced() && from < size;
            return is_there.then(|| Range::new(from, size - from));
        }
        let range = match &self.bits {
            Some(bits) => bits.next_needed(from)?,
            None => {
                let start = self.synced_to?.max(from);
                Range::new(start, size.checked_sub(start)?)
            }
        };
        let end = range.end().min(size);
        let start = range.offset.max(from);
        (start < end).then(|| Range::new(start, end - start))
    }

    /// Where parity may not fit in `range` of members' data, in order. No reshape may be going on: what was written since the open is
    /// known of one form alone.
    pub(super) fn unfit(&self, range: Range) -> Vec<Range> {
        let mut unfit = Vec::new();
        let mut from = range.offset;
        while let Some(needed) = self.next_needed(from).filter(|r| r.offset < range.end()) {
            from = needed.end().min(range.end());
            let needed = Range::new(needed.offset, from - needed.offset);
            unfit.extend(self.fitting.outside(needed));
        }
        unfit
    }

    /// All parity of `range` of members' data was computed from all data, and written.
    pub(super) fn parity_was_written(&mut self, range: Range) {
        if !self.is_reshaping() && self.is_needed(range) {
            self.fitting.add(range);
        }
    }

    /// From where on copies may differ; `None`: nowhere.
    pub(super) fn synced_to(&self) -> Option<u64> {
        self.next_needed(0).map(|range| range.offset)
    }

    /// Whether copies may differ anywhere.
    pub(super) fn is_unsynced(&self) -> bool {
        match &self.bits {
            Some(bits) => bits.needed() > 0,
            None => self.synced_to.is_some(),
        }
    }

    /// Copies of `range` are resynced. Without a bitmap that counts where all before it are.
    pub(super) fn resynced(&mut self, range: Range) {
        let before = self.is_unsynced();
        let size = self.members.layout.sync_size();
        if self.is_reshaping() && range != Range::new(0, size) {
            return;
        }
        match &mut self.bits {
            Some(bits) => bits.resynced(range),
            None => {
                if let Some(to) = self.synced_to
                    && range.offset <= to
                {
                    let to = to.max(range.end());
                    self.synced_to = (to < size).then_some(to);
                }
            }
        }
        if !self.is_unsynced() {
            self.fitting.clear();
        } else if !self.is_needed(range) {
            self.fitting.remove(range);
        }
        // The next host that opens it must not do it all again, even if nothing is written until then.
        if before && !self.is_unsynced() {
            self.change_flushed(false);
        }
    }

    /// Nothing was changed for a while: whether a commit can mark the array clean.
    pub(super) fn let_go(&mut self) -> bool {
        if self.locks.has_changes() {
            return false;
        }
        self.ledger.release_dirty(!self.is_unsynced())
    }

    /// Time has passed ([`Bits::sweep`]). Whether there are bits that a later sweep can clear.
    pub(super) fn sweep(&mut self) -> bool {
        let may_clear = !self.keeps_bits();
        let awake = self.ledger.is_awake();
        self.bits
            .as_mut()
            .is_some_and(|bits| awake && bits.sweep(may_clear) && may_clear)
    }

    /// The same, and whether there is anything to commit.
    pub(super) fn sweep_once(&mut self) -> (bool, bool) {
        let more = self.sweep();
        (more, self.ledger.is_awake() && self.must_commit())
    }

    /// A member holds `part` from now on, rebuilt up to 0.
    pub(super) fn give_part(&mut self, slot: SlotId, part: u16, by_bitmap: bool) {
        if let Some(reshape) = &self.facts.reshape {
            self.members.slots[slot.0].move_data(reshape.moved);
        }
        self.members.give_part(slot, part, by_bitmap);
        if let Some(bits) = &mut self.bits {
            bits.write_all();
        }
        self.change(true);
    }

    /// The member of `part` holds all of it; its name, if it did not before.
    pub(super) fn in_sync(&mut self, part: u16) -> Option<String> {
        let name = self.members.in_sync(part)?;
        self.change_flushed(true);
        Some(name)
    }

    /// The array has so many parts from now on.
    pub(super) fn set_parts(&mut self, parts: u32) {
        self.members.set_parts(parts);
        self.facts.parts = parts;
        self.change(true);
    }

    /// A change of what superblocks say of data: members are flushed before it is written.
    pub(super) fn change_flushed(&mut self, urgent: bool) {
        self.ledger.change_flushed(urgent);
    }

    /// A number for a member that comes.
    pub(super) fn free_number(&self) -> u32 {
        // 0.90 numbers members again each time.
        let reuses = matches!(self.facts.version, Version::V0_90 { .. });
        self.members.free_number(reuses)
    }

    /// Whether there is anything that members do not know yet.
    pub(super) fn must_commit(&self) -> bool {
        let bits = self.bits.as_ref();
        self.ledger.is_pending() || self.ledger.is_awake() && bits.is_some_and(Bits::has_changes)
    }
}
