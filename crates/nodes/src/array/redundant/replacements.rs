//! Replacements: members that become copies of other ones, which work meanwhile, and take their places.
//!
//! # Invariants
//!
//! * A replacement gets every write that the member gets of which it takes the place, and is never read before that.
//! * It is a copy only of what is in sync: nothing is resynced below the byte up to which it is one. That byte goes back where
//!   what the member holds is not known to be what was written: after a write that was cancelled or not answered, and after
//!   an unclean end.
//! * A member of which the place was taken does not come back by the bitmap: its superblock counts fewer events than the bitmap covers.
//! * Where the member fails, its replacement holds the part from then on, as far as it was copied.

use block::{IoError, Range};
use smallvec::SmallVec;

use super::super::format::Level;
use super::super::{ArrayError, ArrayEvent};
use super::RedundantArray;
use super::member_table::{MemberTable, Slot, SlotState};
use super::members::SlotId;
use super::state::State;
use super::view::{Holder, Replacement};

impl MemberTable {
    /// All replacements, for the view.
    pub(super) fn replacements(&self) -> SmallVec<[Replacement; 1]> {
        let replacements = self.slots_replacing().map(|(slot, part, to)| Replacement {
            part: part.into(),
            holder: Holder {
                target: slot.target.clone(),
                rebuilt_to: Some(to),
                bad: slot.bad.clone(),
            },
        });
        replacements.collect()
    }

    /// Replacements, the parts that they get, and how far they are copies.
    fn slots_replacing(&self) -> impl Iterator<Item = (&Slot, u16, u64)> {
        let slots = self.slots.iter();
        slots.filter_map(|slot| match slot.state {
            SlotState::Replacing(to) => Some((slot, slot.part?, to)),
            _ => None,
        })
    }

    /// The replacement of a part that lost its holder holds it from now on.
    pub(super) fn promote_replacement(&mut self, part: usize) -> Option<SlotId> {
        let id = self.replacement_of(part)?;
        let slot = &mut self.slots[id.0];
        if let SlotState::Replacing(to) = slot.state {
            slot.state = SlotState::Rebuilding(to);
        }
        Some(id)
    }

    fn replacement_of(&self, part: usize) -> Option<SlotId> {
        let mut replacing = self.slots_replacing();
        let found = replacing.find(|(_, of, _)| usize::from(*of) == part);
        found.map(|(slot, ..)| slot.target.slot)
    }

    /// Parts that get another member, and how far that is a copy.
    fn replacing(&self) -> Vec<(u16, u64)> {
        let replacing = self.slots_replacing();
        replacing.map(|(_, part, to)| (part, to)).collect()
    }

    /// A spare becomes the replacement of the member of `part`.
    fn replace(&mut self, slot: SlotId, part: u16) {
        assert_eq!(self.replacement_of(part.into()), None, "one at a time");
        let spare = &mut self.slots[slot.0];
        assert_eq!(spare.state, SlotState::Spare, "only a spare replaces");
        spare.part = Some(part);
        spare.by_bitmap = false;
        spare.rebuilt_durably = 0;
        spare.state = SlotState::Replacing(0);
        self.rebuild_view();
    }

    /// Replacements are copies up to byte `to` of their data at most.
    fn replaced_at_most(&mut self, to: u64) {
        let mut is_changed = false;
        for slot in &mut self.slots {
            if let SlotState::Replacing(known) = &mut slot.state {
                is_changed |= *known > to;
                *known = (*known).min(to);
                slot.rebuilt_durably = slot.rebuilt_durably.min(to);
            }
        }
        if is_changed {
            self.rebuild_view();
        }
    }

    /// The replacement of `part` takes the place of its member: the names of both, the replacement's first.
    fn take_place(&mut self, part: u16) -> Option<(String, String)> {
        let id = self.replacement_of(part.into())?;
        let old = self.parts[usize::from(part)]?;
        self.parts[usize::from(part)] = Some(id);
        let name = self.slots[id.0].target.name.clone();
        self.slots[id.0].state = SlotState::InSync;
        self.slots[old.0].state = SlotState::Failed(format!("{name} took its place"));
        let replaced = self.slots[old.0].target.name.clone();
        self.rebuild_view();
        Some((name, replaced))
    }
}

impl State {
    /// A spare becomes the replacement of the member of `part`.
    pub(super) fn replace(&mut self, slot: SlotId, part: u16) {
        self.members.replace(slot, part);
        if let Some(bits) = &mut self.bits {
            bits.write_all();
        }
        self.change(true);
    }

    /// What members hold at `range`, what windows count, may not be what was written: replacements are copies up to there.
    pub(super) fn doubt_replacements(&mut self, range: Range) {
        // Windows count bytes of members but in level 10, where a place of the array may be anywhere on them.
        let to = match self.facts.level {
            Level::Raid10 => 0,
            _ => range.offset,
        };
        self.members.replaced_at_most(to);
    }

    /// The replacement of `part` is a copy up to byte `to`, unless members were doubted since `needs` was read.
    pub(super) fn set_replaced(&mut self, part: u16, to: u64, needs: u64) {
        if self.needs != needs {
            return;
        }
        let slots = self.members.slots.iter_mut();
        for slot in slots.filter(|slot| slot.part == Some(part)) {
            if let SlotState::Replacing(known) = &mut slot.state {
                *known = (*known).max(to);
            }
        }
        self.members.rebuild_view();
    }

    /// Whether superblocks record the replacement of `part` as a whole copy, where it is one.
    fn set_whole(&mut self, part: u16, is_whole: bool) {
        let slots = self.members.slots.iter_mut();
        for slot in slots.filter(|slot| slot.part == Some(part)) {
            slot.is_whole = is_whole;
        }
    }

    /// The replacement of `part` is a copy of its member and takes its place, unless members were doubted since `needs` was
    /// read: the names of both, the replacement's first. No commit may be under way.
    pub(super) fn take_place(&mut self, part: u16, needs: u64) -> Option<(String, String)> {
        if self.needs != needs {
            return None;
        }
        let names = self.members.take_place(part)?;
        self.ledger.lead();
        self.change_flushed(true);
        Some(names)
    }
}

/// While superblocks record the replacement of a part as whole: until it has taken the place, or does not. Where that was not to be, or
/// ends early, nothing is written before they record something else.
struct WholeReplacement<'a> {
    array: &'a RedundantArray,
    part: u16,
}

impl<'a> WholeReplacement<'a> {
    fn begin(array: &'a RedundantArray, part: u16) -> Self {
        array.lock().state.set_whole(part, true);
        Self { array, part }
    }
}

impl Drop for WholeReplacement<'_> {
    fn drop(&mut self) {
        let state = &mut self.array.lock().state;
        state.set_whole(self.part, false);
        if state.members.replacement_of(self.part.into()).is_some() {
            state.change(true);
        }
    }
}

impl RedundantArray {
    /// A spare becomes the replacement of the member of `part`: it gets every change from now on. Durable when it resolves.
    ///
    /// # Errors
    /// Members cannot be written.
    ///
    /// # Panics
    /// If the part has a replacement, or the member is no spare.
    pub(in crate::array) async fn replace(&self, slot: SlotId, part: u16) -> Result<(), IoError> {
        let replace = || {
            let state = &mut self.lock().state;
            // The member may have failed meanwhile: there is nothing to copy then.
            let can_replace = state.members.is_spare(slot)
                && state.members.parts[usize::from(part)].is_some()
                && state.members.replacement_of(part.into()).is_none();
            if can_replace {
                state.replace(slot, part);
            }
            can_replace
        };
        self.give_part_with_log(slot, replace).await
    }

    /// The part that a member holds.
    pub(in crate::array) fn held_part(&self, slot: SlotId) -> Option<u16> {
        let guarded = self.lock();
        let mut parts = (0..).zip(&guarded.state.members.parts);
        let found = parts.find(|(_, holder)| **holder == Some(slot));
        found.map(|(part, _)| part)
    }

    /// Refuses to use a spare for anything else while a part has no holder.
    ///
    /// # Errors
    /// One has none.
    pub(in crate::array) fn refuse_vacancies(&self) -> Result<(), ArrayError> {
        match self.vacancies().0.first() {
            None => Ok(()),
            Some(part) => Err(ArrayError::refused(
                format!("part {part} has no member, and spares are rebuilt for that first"),
                "wait until no part is missing, then replace",
            )),
        }
    }

    /// Parts that get another member, and how far that is a copy.
    pub(in crate::array) fn replacing(&self) -> Vec<(u16, u64)> {
        self.lock().state.members.replacing()
    }

    /// The replacement of `part` is a copy up to byte `to`, unless members were doubted since `needs` was read. Not durable
    /// before the next checkpoint.
    pub(in crate::array) fn replaced(&self, part: u16, to: u64, needs: u64) {
        self.lock().state.set_replaced(part, to, needs);
    }

    /// The replacement of `part`, a copy up to byte `end`, which is all of it, takes the place of its member: durable when it
    /// resolves, behind a flush. False: members were doubted since `needs` was read, and it must be copied on.
    ///
    /// Its superblock records it as whole before: a cut may leave others that count on it. With partial parity logs that
    /// needs no log of the member that leaves, because no row is being written.
    ///
    /// # Errors
    /// Members cannot be written.
    pub(in crate::array) async fn take_place(
        &self,
        part: u16,
        (end, needs): (u64, u64),
    ) -> Result<bool, IoError> {
        // The log of the member that leaves has the rows that are being written: a cut behind it finds none.
        let no_rows = self.without_logged_rows().await;
        self.lock().state.set_replaced(part, end, needs);
        let whole = WholeReplacement::begin(self, part);
        self.checkpoint().await?;
        let taken = loop {
            let commit = {
                let mut guarded = self.lock();
                match &guarded.commit {
                    Some(commit) => commit.wait(),
                    None => break guarded.state.take_place(part, needs),
                }
            };
            commit.await?;
        };
        let Some((member, replaced)) = taken else {
            drop(whole);
            self.checkpoint().await?;
            return Ok(false);
        };
        self.record(State::is_recorded).await?;
        drop(no_rows);
        let name = self.name();
        tracing::info!("{name}: {member} took the place of {replaced}, which is used no more");
        self.send_event(ArrayEvent::SpareActive { member });
        Ok(true)
    }

    /// The member of `part`, and its replacement.
    pub(in crate::array) fn pair(&self, part: u16) -> Option<(Holder, Holder)> {
        let view = self.view();
        let part = usize::from(part);
        Some((view.holder(part)?.clone(), view.replacement(part)?.clone()))
    }

    /// What members hold at `range` may differ, as after a write that was not answered.
    #[cfg(test)]
    pub(in crate::array) fn doubt(&self, range: Range) {
        self.lock().state.need(range);
    }
}
