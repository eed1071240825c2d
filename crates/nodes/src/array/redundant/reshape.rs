//! Reshape: an array with parity gets another form (parts, chunk, layout) while it is used: what members must know of it.
//!
//! ```text
//! begin ─► rows are moved, from the beginning to the end ─► pass to a position: durable ─► … ─► the last position ends it
//! ```
//!
//! Data begin nearer to the beginning of each member afterwards, so that new rows are written where nothing is: md does so where
//! superblocks leave room in front of the data, and needs no backup then. Without that room the first rows of an array that gets members are
//! written over old ones, which the new members have a backup of (`rows::critical_section`), and all rows of one that gets another chunk or layout
//! alone, with a backup file (`rows::in_place`).
//!
//! # Invariants
//!
//! * New rows are written only to places that hold nothing, as far as members know durably how far the reshape has come.
//! * A byte is read and written where members know, durably, that it is. A position is passed behind a flush of what was moved there.
//! * No bit of a bitmap is cleared while a reshape goes on: after an unclean end all parity is computed again.
//! * No member is rebuilt while rows are moved; one is where the reshape waits, and counts as blank until it is whole. A member that cannot be written has failed; what cannot be read is moved as bad blocks.
//! * Logs of bad blocks count from the beginning of a disk: they say the same before a reshape, in the midst of it and afterwards.
//!
//! # What it does not do
//!
//! It takes no disk away, does not change the level, and needs a backup file where there is no room in front of the data, and a row has no more data afterwards. It moves no rows ([`rows`](super::rows)), and
//! keeps no partial parity logs: they are dropped when it begins, which superblocks record (`sync::policy` gives new ones once it has ended).

use std::sync::Arc;

use block::Range;

use super::super::ArrayError;
use super::super::assembly::{Facts, ReshapeFacts};
use super::super::format::{self, Form, PLACE_LEN, Reshape, Superblock, Version};
use super::bits::Bits;
use super::layout::Layout;
use super::member_table::{MemberTable, Slot, SlotState};
use super::members::SlotId;
use super::placement::Places;
use super::rows::CriticalSection;
use super::state::State;
use super::{RedundantArray, row_section};

/// Data are moved by no more than this, bytes, where a chunk is not larger: rows in flight fit in it.
const MOVED_MAX: u64 = 16 << 20;

/// The form that an array is to get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) struct NewForm {
    pub(in crate::array) parts: u32,
    pub(in crate::array) layout: u32,
    pub(in crate::array) chunk: u64,
}

impl Slot {
    /// Its data begin nearer to the beginning once a reshape has ended, and places count from there.
    pub(super) fn move_data(&mut self, by: u64) {
        self.data_moved = by;
        self.target.move_data(by);
        self.place_bad();
    }

    /// What its superblock says of how data lie.
    pub(super) fn form(&self, facts: &Facts, drops_ppl: bool) -> Form {
        let member_size = facts.member_size;
        let data = self.superblock.data;
        let Some(reshape) = &facts.reshape else {
            let start = data.offset - self.data_moved;
            let len = data.end() - start;
            return Form {
                level: facts.level,
                layout: facts.layout,
                chunk: facts.chunk,
                // Where the disk was enlarged there is more of it.
                data: Range::new(start, len.max(if self.holds() { member_size } else { 0 })),
                member_size,
                drops_ppl,
                reshape: None,
            };
        };
        let added = facts.parts.cast_signed() - reshape.parts.cast_signed();
        Form {
            level: facts.level,
            layout: reshape.layout,
            chunk: reshape.chunk,
            data,
            member_size,
            drops_ppl,
            reshape: Some(Reshape {
                position: reshape.position,
                members_added: added,
                level: facts.level,
                layout: facts.layout,
                chunk: facts.chunk,
                data_moved: -self.data_moved.cast_signed(),
                backwards: false,
            }),
        }
    }

    /// Its superblock, as it was written last.
    pub(super) fn written(&self) -> Option<Superblock> {
        let version = self.superblock.version;
        format::decode(version, self.at, &self.bytes).ok()?
    }

    /// Whether a power cut left its disk without the form that it is known to have.
    pub(super) fn is_left_behind(&self) -> bool {
        let form = |of: &Superblock| (of.data, of.member_size, of.layout, of.chunk);
        if !matches!(self.superblock.version, Version::V1_1 | Version::V1_2) {
            return false;
        }
        let written = self.written();
        written.is_some_and(|written| form(&written) != form(&self.superblock))
    }

    /// Its superblock is what was written last.
    fn read_again(&mut self) {
        if let Some(written) = self.written() {
            self.superblock = written;
        }
    }

    /// Bytes in front of its data that nothing is in. `bitmap`: bytes of its bitmap.
    fn room_in_front(&self, bitmap: u64) -> u64 {
        let of = &self.superblock;
        let data = of.data.offset;
        let places = [
            Some(Range::new(self.at, PLACE_LEN)),
            of.bitmap_at.map(|at| Range::new(at, bitmap)),
            of.bad_blocks,
        ];
        let ends = places.into_iter().flatten().map(|place| place.end());
        let end = ends.filter(|end| *end <= data).max().unwrap_or(data);
        data - end
    }
}

impl MemberTable {
    /// Superblocks are what was written last.
    pub(super) fn read_again(&mut self) {
        self.slots.iter_mut().for_each(Slot::read_again);
    }

    /// Spares hold the new parts from now on, and places count from where data begin afterwards.
    fn begin_reshape(&mut self, layout: Arc<Layout>, spares: &[SlotId], moved: u64) {
        for id in spares {
            let part = u16::try_from(self.parts.len()).expect("parts are few");
            let slot = &mut self.slots[id.0];
            assert_eq!(slot.state, SlotState::Spare, "only a spare is given a part");
            slot.part = Some(part);
            slot.state = SlotState::InSync;
            self.parts.push(Some(*id));
        }
        let holders = self.slots.iter_mut().filter(|slot| slot.holds());
        holders.for_each(|slot| slot.move_data(moved));
        self.set_layout(layout);
    }

    fn set_layout(&mut self, layout: Arc<Layout>) {
        self.layout = layout;
        self.rebuild_view();
    }
}

impl State {
    /// The array at the beginning of a reshape.
    fn facts_of(&self, form: NewForm, moved: u64) -> Facts {
        let before = &self.facts;
        Facts {
            layout: form.layout,
            chunk: form.chunk,
            parts: form.parts,
            reshape: Some(ReshapeFacts {
                position: 0,
                layout: before.layout,
                chunk: before.chunk,
                parts: before.parts,
                moved,
            }),
            ..before.clone()
        }
    }

    /// The array begins to get another form. Nothing may be under way.
    pub(super) fn begin_reshape(
        &mut self,
        form: NewForm,
        spares: &[SlotId],
        moved: u64,
    ) -> Result<(), ArrayError> {
        let is_spare = |id: &SlotId| self.members.slots[id.0].state == SlotState::Spare;
        if self.is_degraded() || self.is_unsynced() || !spares.iter().all(is_spare) {
            return Err(ArrayError::refused(
                "the reshape does not begin: a member or a spare has failed meanwhile",
                "see the members with: outboard array status",
            ));
        }
        let facts = self.facts_of(form, moved);
        let layout = Arc::new(Layout::of(&facts)?);
        self.facts = facts;
        self.members.begin_reshape(layout, spares, moved);
        if let Some(bits) = &mut self.bits {
            bits.want_all();
            bits.write_all();
        }
        self.awaits_ppl |= self.members.keeps_ppl();
        self.writes_policy |= self.awaits_ppl;
        self.writes_form = true;
        self.drops_ppl = true;
        self.change_flushed(true);
        Ok(())
    }

    /// Members are to know that the reshape has come to `position`. Requests go on as before until they do.
    pub(super) fn pass(&mut self, position: u64) {
        let layout = &self.members.layout;
        let sections = layout.sections();
        let size = row_section::size_of(&sections.after().layout, self.facts.member_size);
        if let Some(reshape) = &mut self.facts.reshape {
            reshape.position = position;
        }
        if position == size {
            self.facts.reshape = None;
            self.facts.size = size;
        }
        self.change_flushed(true);
    }

    /// They know. Whether the reshape has ended.
    fn passed(&mut self) -> bool {
        let layout = Layout::of(&self.facts).expect("the form was checked when the reshape began");
        self.members.set_layout(Arc::new(layout));
        let has_ended = self.facts.reshape.is_none();
        self.members.read_again();
        if has_ended {
            let slots = self.members.slots.iter_mut();
            slots.for_each(|slot| slot.data_moved = 0);
        }
        has_ended
    }

    /// Whether a spare has room for what a reshape that is going on moves.
    pub(super) fn can_be_reshaped(&self, spare: SlotId) -> bool {
        let bitmap = self.bits.as_ref().map_or(0, Bits::len_on_disk);
        let slot = &self.members.slots[spare.0];
        let reshape = self.facts.reshape.as_ref();
        reshape.is_none_or(|reshape| slot.room_in_front(bitmap) >= reshape.moved)
    }

    /// By how much data of all members are moved to the beginning, at least by `least`.
    fn distance(&self, spares: &[SlotId], least: u64) -> Result<u64, ArrayError> {
        let bitmap = self.bits.as_ref().map_or(0, Bits::len_on_disk);
        let slots = self.members.slots.iter();
        let slots = slots.filter(|slot| slot.holds() || spares.contains(&slot.target.slot));
        let rooms = slots.map(|slot| (slot.room_in_front(bitmap), slot));
        let Some((room, slot)) = rooms.min_by_key(|(room, _)| *room) else {
            return Ok(0);
        };
        if room < least {
            return Err(ArrayError::refused(
                format!(
                    "{} has {room} bytes of room in front of its data, and a reshape needs {least}, or a backup file",
                    slot.target.name
                ),
                "name a file on another disk: array grow … --backup-file FILE",
            ));
        }
        // Half of it is left to the next one.
        let moved = (room / 2).min(MOVED_MAX) / least * least;
        Ok(moved.max(least))
    }
}

impl RedundantArray {
    /// Whether a reshape is going on, as members know durably.
    pub(in crate::array) fn is_reshaping(&self) -> bool {
        self.layout().is_reshaping()
    }

    /// How far a reshape has come, and of how much, bytes of the array.
    pub(in crate::array) fn reshaped_to(&self) -> Option<(u64, u64)> {
        let guarded = self.lock();
        let state = &guarded.state;
        let sections = state.members.layout.parity()?;
        sections.before()?;
        let after = sections.after();
        let size = row_section::size_of(&after.layout, state.facts.member_size);
        Some((after.range.end(), size))
    }

    /// The layout that the array has at the beginning of a reshape in place; `None`: it is no such reshape.
    pub(super) fn in_place_layout(
        &self,
        form: NewForm,
        moved: u64,
    ) -> Result<Option<Layout>, ArrayError> {
        let guarded = self.lock();
        let layout = Layout::of(&guarded.state.facts_of(form, moved))?;
        Ok(layout.sections().is_in_place().then_some(layout))
    }

    /// By how much data are moved for a form, so that what belongs to the superblocks stays where it is. 0: there is no room for that, and rows are
    /// moved to where others lie. `has_backup`: a backup file is there.
    ///
    /// # Errors
    /// A member has not enough room in front of its data, and rows do not get more data and there is no backup file, or members are too small.
    pub(in crate::array) fn distance_for(
        &self,
        form: NewForm,
        spares: &[SlotId],
        has_backup: bool,
    ) -> Result<u64, ArrayError> {
        let guarded = self.lock();
        let state = &guarded.state;
        let least = form.chunk.max(state.facts.chunk);
        let moved = match (
            state.distance(spares, least),
            CriticalSection::of(form, &state.facts),
        ) {
            (Err(_), Some(critical)) => {
                critical.check(&state.members.slots, spares)?;
                0
            }
            (Err(_), None) if has_backup => 0,
            (moved, _) => moved?,
        };
        let bitmap = state.bits.as_ref().map_or(0, Bits::len_on_disk);
        for slot in &state.members.slots {
            if !slot.holds() && !spares.contains(&slot.target.slot) {
                continue;
            }
            let mut superblock = slot.superblock.clone();
            superblock.data.offset -= moved;
            superblock.ppl = None;
            let places = Places {
                superblock: &superblock,
                at: slot.at,
                used: state.facts.member_size,
                bitmap,
                disk: slot.target.disk.geometry().size,
                block: slot.target.disk.geometry().block_size,
            };
            places.check("the array is not reshaped", &slot.target.name, "")?;
        }
        Ok(moved)
    }

    /// Sorts slots by the numbers of their members. In superblocks 0.90 a member with a part has its number: one that is to get a part, and does not know
    /// it yet, has not the number of another that does.
    pub(in crate::array) fn sort_by_number(&self, slots: &mut [SlotId]) {
        let guarded = self.lock();
        slots.sort_by_key(|slot| guarded.state.members.slots[slot.0].number);
    }

    /// Members that are one commit behind the others are not from the next commit on.
    pub(super) fn level_members(&self) {
        let state = &mut self.lock().state;
        if !state.members.behind.is_empty() {
            state.change(true);
        }
    }

    /// Whether `range` lies before a position that members may know of, and behind the one that is used: it is not written any more.
    /// The window that was moved has these rows locked until both are the same, unless the array was stopped meanwhile.
    pub(super) fn is_left_between(&self, range: Range) -> bool {
        let guarded = self.lock();
        let state = &guarded.state;
        let sections = state.members.layout.sections();
        let used = sections.after().range.end();
        let known = match state.facts.reshape {
            Some(reshape) => reshape.position,
            None => u64::MAX,
        };
        sections.is_reshaping() && range.end() > used && range.offset < known
    }

    /// They know: requests go where it was moved to. At the end the array has its new size.
    pub(super) fn passed(&self) {
        let (has_ended, size) = {
            let state = &mut self.lock().state;
            (state.passed(), state.facts.size)
        };
        if has_ended {
            self.geometry.grow(size);
        }
    }

    /// Names of members with bad blocks.
    pub(in crate::array) fn with_bad_blocks(&self) -> Vec<String> {
        let guarded = self.lock();
        let slots = guarded.state.members.slots.iter();
        let bad = slots.filter(|slot| slot.holds() && !slot.bad.is_empty());
        bad.map(|slot| slot.target.name.clone()).collect()
    }
}
