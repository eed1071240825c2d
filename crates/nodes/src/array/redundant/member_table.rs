//! [`MemberTable`]: all members that an array has, or had since it was opened, and which of them holds which part. Pure.
//!
//! It decides which member may fail, is read and takes a part; writing that to members is the commit's
//! ([`ledger`](super::ledger)), and the bitmap is the caller's.
//!
//! # Invariants
//!
//! * The last member in sync that holds a byte is never failed ([`Layout::survives`]).
//! * A part has one holder at most, which is in sync or being rebuilt, and one replacement at most, which nothing is read of.
//! * The view is what the table says, after each change: requests that began with an earlier one go on with that.
//! * An id is never used again; a number only where no member here has it.

use std::sync::Arc;

use block::Range;
use smallvec::SmallVec;

use super::super::format::bad_blocks::{BadBlocks, from_data, of_data};
use super::super::format::{Role, Superblock, features};
use super::super::member::Member;
use super::layout::Layout;
use super::members::{SlotId, Target};
use super::read_errors::ReadErrors;
use super::view::{Holder, View};

/// How a member stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::array) enum SlotState {
    /// It holds its part.
    InSync,
    /// It gets all writes, and holds its part up to this byte of its data.
    Rebuilding(u64),
    /// It gets all writes of a part that another member holds, is a copy of that up to this byte of its data, and takes its
    /// place then.
    Replacing(u64),
    /// It holds no part.
    Spare,
    /// It keeps the journal.
    Journal,
    /// The array goes on without it, and why.
    Failed(String),
    /// The array went on without it before it was opened.
    Stale,
    /// It was forgotten.
    Removed,
}

/// One member, or one that was.
#[derive(Debug)]
pub(in crate::array) struct Slot {
    pub(in crate::array) target: Arc<Target>,
    /// Its number in tables of roles.
    pub(super) number: u32,
    /// The part that it holds, or held last.
    pub(in crate::array) part: Option<u16>,
    pub(in crate::array) state: SlotState,
    /// Only what the bitmap says is copied to it.
    pub(super) by_bitmap: bool,
    /// How far it was rebuilt when it was flushed last.
    pub(super) rebuilt_durably: u64,
    /// As a replacement: a whole copy, which its superblock records. With partial parity logs no row is being written meanwhile.
    pub(super) is_whole: bool,
    /// Its superblock as it was when the array was opened, or it came: where things are.
    pub(super) superblock: Superblock,
    /// Where that is, byte of the disk.
    pub(super) at: u64,
    /// Its bytes, as they were written last.
    pub(super) bytes: Vec<u8>,
    /// What cannot be read of it, bytes of its data; in order.
    pub(super) bad: Arc<[Range]>,
    /// The log of that, where it has one.
    pub(super) log: Option<BadBlocks>,
    /// The next commit writes it.
    pub(super) log_changed: bool,
    /// Read errors that were repaired lately.
    pub(super) read_errors: ReadErrors,
    /// How much nearer to the beginning its data begin after the reshape that is going on.
    pub(super) data_moved: u64,
    /// Commits write where its bitmap or partial parity log is, also where those of others stay.
    pub(super) writes_policy: bool,
}

/// What became of a request to fail a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) enum Failing {
    /// It has failed; others must know durably before anything is acknowledged.
    Failed,
    /// It had failed already, or holds nothing.
    Already,
    /// No other member holds what it does: it goes on.
    Last,
}

/// What became of a member's log of bad blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogChange {
    /// It says so now, and must be written.
    Changed,
    /// It had that entry already.
    Unchanged,
    /// There is none, or no room in it.
    Impossible,
}

/// The members of an array.
#[derive(Debug)]
pub(super) struct MemberTable {
    pub(super) layout: Arc<Layout>,
    /// All members by their ids, those that failed or were removed, too.
    pub(super) slots: Vec<Slot>,
    /// The holder of each part: in sync, or being rebuilt.
    pub(super) parts: Vec<Option<SlotId>>,
    pub(super) view: Arc<View>,
    /// Roles by number, of members that are not known here.
    pub(super) roles: Vec<Role>,
    /// Members with superblocks one commit behind those of the others.
    pub(super) behind: Vec<SlotId>,
}

impl Slot {
    /// A member, as it was read.
    pub(super) fn new(
        target: Arc<Target>,
        member: Member,
        part: Option<u16>,
        state: SlotState,
    ) -> Self {
        let rebuilt_durably = match state {
            SlotState::Rebuilding(to) | SlotState::Replacing(to) => to,
            _ => 0,
        };
        let log = member.superblock.bad_blocks.and_then(|place| {
            let mut log = BadBlocks::none(place.len, member.superblock.bad_blocks_shift).ok()?;
            let data_at = member.superblock.first_data_at();
            let bad = member.bad.iter();
            bad.for_each(|run| log.add(from_data(data_at, *run)));
            Some(log)
        });
        let by_bitmap = member.superblock.features & features::RECOVERY_BITMAP != 0;
        Self {
            target,
            number: member.superblock.number,
            part,
            state,
            by_bitmap,
            rebuilt_durably,
            is_whole: false,
            superblock: member.superblock,
            at: member.at,
            bytes: member.bytes,
            log,
            log_changed: false,
            read_errors: ReadErrors::default(),
            data_moved: 0,
            writes_policy: false,
            bad: member.bad.into(),
        }
    }

    /// Whether it holds a part, or some of one.
    pub(super) const fn holds(&self) -> bool {
        matches!(
            self.state,
            SlotState::InSync | SlotState::Rebuilding(_) | SlotState::Replacing(_)
        )
    }

    /// Where places of its data are counted from, byte of the disk: where data begin that are nearest to its beginning.
    fn data_at(&self) -> u64 {
        self.superblock.data.offset - self.data_moved
    }

    /// Places of its log are counted from where data begin now.
    pub(super) fn place_bad(&mut self) {
        let data_at = self.data_at();
        if let Some(log) = &self.log {
            let runs = log.runs().iter();
            self.bad = runs.filter_map(|run| of_data(data_at, *run)).collect();
        }
    }

    /// Whether it is to take the place of a member.
    pub(super) const fn is_replacement(&self) -> bool {
        matches!(self.state, SlotState::Replacing(_))
    }

    /// Whether it holds some of one.
    pub(super) const fn is_rebuilding(&self) -> bool {
        matches!(self.state, SlotState::Rebuilding(_))
    }
}

impl MemberTable {
    /// Members that count fewer than `events` were left one commit behind by a power cut.
    pub(super) fn new(
        layout: Arc<Layout>,
        slots: Vec<Slot>,
        parts: Vec<Option<SlotId>>,
        roles: Vec<Role>,
        events: u64,
    ) -> Self {
        let is_used = |slot: &Slot| slot.holds() || slot.state == SlotState::Journal;
        let is_behind = |slot: &&Slot| is_used(slot) && slot.superblock.events < events;
        let behind = slots.iter().filter(is_behind);
        let behind = behind.map(|slot| slot.target.slot).collect();
        let view = Arc::new(View::new(layout.clone(), SmallVec::new(), SmallVec::new()));
        let mut table = Self {
            layout,
            slots,
            parts,
            view,
            roles,
            behind,
        };
        table.rebuild_view();
        table
    }

    /// Computes the view after members changed.
    pub(super) fn rebuild_view(&mut self) {
        let holder = |slot: &Option<SlotId>| {
            let slot = &self.slots[(*slot)?.0];
            let rebuilt_to = match slot.state {
                SlotState::Rebuilding(to) => Some(to),
                _ => None,
            };
            Some(Holder {
                target: slot.target.clone(),
                rebuilt_to,
                bad: slot.bad.clone(),
            })
        };
        let parts: SmallVec<_> = self.parts.iter().map(holder).collect();
        let replacements = self.replacements();
        self.view = Arc::new(View::new(self.layout.clone(), parts, replacements));
        for slot in self.parts.iter().flatten() {
            let alone = self.is_in_sync(*slot) && !self.survives(*slot);
            self.slots[slot.0].target.set_alone(alone);
        }
    }

    /// Whether others in sync hold all that `slot` does.
    fn survives(&self, slot: SlotId) -> bool {
        self.layout
            .survives(|part| self.parts[part] != Some(slot) && self.part_is_in_sync(part))
    }

    /// Whether `slot` waits for a part.
    pub(super) fn is_spare(&self, slot: SlotId) -> bool {
        self.slots[slot.0].state == SlotState::Spare
    }

    /// Whether `slot` holds a part, all of it.
    fn is_in_sync(&self, slot: SlotId) -> bool {
        self.slots[slot.0].state == SlotState::InSync
    }

    /// Whether a part has a member in sync.
    pub(super) fn part_is_in_sync(&self, part: usize) -> bool {
        self.parts[part].is_some_and(|slot| self.is_in_sync(slot))
    }

    /// Parts that have one.
    pub(super) fn working(&self) -> usize {
        let parts = 0..self.parts.len();
        parts.filter(|part| self.part_is_in_sync(*part)).count()
    }

    /// Whether a part has none.
    pub(super) fn is_degraded(&self) -> bool {
        self.working() < self.parts.len()
    }

    /// A member failed.
    pub(super) fn fail(&mut self, slot: SlotId, why: &str) -> Failing {
        let id = slot;
        match self.slots[id.0].state {
            SlotState::InSync => {
                if !self.survives(id) {
                    return Failing::Last;
                }
            }
            SlotState::Rebuilding(_)
            | SlotState::Replacing(_)
            | SlotState::Spare
            | SlotState::Journal => {}
            SlotState::Failed(_) | SlotState::Stale | SlotState::Removed => {
                return Failing::Already;
            }
        }
        self.slots[id.0].state = SlotState::Failed(why.to_owned());
        for part in 0..self.parts.len() {
            if self.parts[part] == Some(id) {
                self.parts[part] = self.promote_replacement(part);
            }
        }
        self.rebuild_view();
        Failing::Failed
    }

    /// A member cannot write some places: they are not read of it any more.
    pub(super) fn log_bad(&mut self, slot: SlotId, bad: &[Range]) -> LogChange {
        let member = &mut self.slots[slot.0];
        let Some(mut log) = member.log.clone().filter(|_| member.holds()) else {
            return LogChange::Impossible;
        };
        let data_at = member.data_at();
        let places = bad.iter();
        places.for_each(|run| log.add(from_data(data_at, *run)));
        if log.encode().is_none() {
            return LogChange::Impossible;
        }
        if member.log.as_ref() == Some(&log) {
            return LogChange::Unchanged;
        }
        tracing::warn!(
            "{}: {} places are noted as bad, and not read of it",
            member.target.name,
            bad.len()
        );
        self.put_log(slot, log);
        LogChange::Changed
    }

    /// A member was written where it could not be read: it can be again.
    pub(super) fn clear_bad(&mut self, slot: SlotId, within: Range) -> LogChange {
        let member = &self.slots[slot.0];
        let Some(log) = &member.log else {
            return LogChange::Impossible;
        };
        let place = from_data(member.data_at(), within);
        if log.first_in(place).is_none() {
            return LogChange::Unchanged;
        }
        let mut log = log.clone();
        log.remove(place);
        self.put_log(slot, log);
        LogChange::Changed
    }

    fn put_log(&mut self, slot: SlotId, log: BadBlocks) {
        let member = &mut self.slots[slot.0];
        member.log = Some(log);
        member.log_changed = true;
        member.place_bad();
        self.rebuild_view();
    }

    /// An id for a member that is pushed next.
    pub(super) const fn next_id(&self) -> SlotId {
        SlotId(self.slots.len())
    }

    /// The member of `part` is rebuilt up to byte `to` of its data, at least.
    pub(super) fn set_rebuilt(&mut self, part: u16, to: u64) {
        let Some(slot) = self.parts[usize::from(part)] else {
            return;
        };
        if let SlotState::Rebuilding(known) = &mut self.slots[slot.0].state {
            *known = (*known).max(to);
            self.rebuild_view();
        }
    }

    /// Whether members keep partial parity logs.
    pub(super) fn keeps_ppl(&self) -> bool {
        let mut holders = self.slots.iter().filter(|slot| slot.holds());
        holders.any(|slot| slot.superblock.keeps_ppl())
    }

    /// The member that keeps the journal, while that works.
    pub(super) fn journal(&self) -> Option<&Slot> {
        let mut slots = self.slots.iter();
        slots.find(|slot| slot.state == SlotState::Journal)
    }

    /// Whether members say that there is a journal.
    pub(super) fn has_journal(&self) -> bool {
        let mut holders = self.slots.iter().filter(|slot| slot.holds());
        holders.any(|slot| slot.superblock.features & features::JOURNAL != 0)
    }

    /// A member that is being rebuilt holds nothing after all.
    pub(super) fn restart_rebuild(&mut self, slot: SlotId) {
        let member = &mut self.slots[slot.0];
        if member.is_rebuilding() {
            member.state = SlotState::Rebuilding(0);
            member.rebuilt_durably = 0;
            member.by_bitmap = false;
            self.rebuild_view();
        }
    }

    /// Parts that have no holder, and spares that could take them.
    pub(super) fn vacancies(&self) -> (Vec<u16>, Vec<SlotId>) {
        let vacant = self.parts.iter().zip(0..);
        let vacant = vacant.filter(|(slot, _)| slot.is_none());
        let spares = self.slots.iter();
        let spares = spares.filter(|slot| slot.state == SlotState::Spare);
        (
            vacant.map(|(_, part)| part).collect(),
            spares.map(|slot| slot.target.slot).collect(),
        )
    }

    /// Parts that are being rebuilt: how far, and whether by the bitmap.
    pub(super) fn rebuilding(&self) -> Vec<(u16, u64, bool)> {
        let rebuilding = self
            .slots
            .iter()
            .filter_map(|slot| match (&slot.state, slot.part) {
                (SlotState::Rebuilding(to), Some(part)) => Some((part, *to, slot.by_bitmap)),
                _ => None,
            });
        rebuilding.collect()
    }

    /// A member holds `part` from now on, rebuilt up to 0.
    pub(super) fn give_part(&mut self, slot: SlotId, part: u16, by_bitmap: bool) {
        let member = &mut self.slots[slot.0];
        assert_eq!(
            member.state,
            SlotState::Spare,
            "only a spare is given a part"
        );
        member.part = Some(part);
        member.by_bitmap = by_bitmap;
        member.rebuilt_durably = 0;
        member.state = SlotState::Rebuilding(0);
        let holder = &mut self.parts[usize::from(part)];
        assert_eq!(*holder, None, "a part has one holder");
        *holder = Some(slot);
        self.rebuild_view();
    }

    /// The member of `part` holds all of it; its name, if it did not before.
    pub(super) fn in_sync(&mut self, part: u16) -> Option<String> {
        let slot = self.parts[usize::from(part)]?;
        let member = &mut self.slots[slot.0];
        if !member.is_rebuilding() {
            return None;
        }
        member.state = SlotState::InSync;
        member.by_bitmap = false;
        let name = member.target.name.clone();
        self.rebuild_view();
        Some(name)
    }

    /// The array has so many parts from now on.
    pub(super) fn set_parts(&mut self, parts: u32) {
        let count = usize::try_from(parts).expect("parts are few");
        let mut gone = self.parts.iter().skip(count);
        assert!(gone.all(Option::is_none), "a slot with a member stays");
        self.layout = Arc::new(self.layout.with_parts(count));
        self.parts.resize(count, None);
        self.rebuild_view();
    }

    /// Whether a member has that number that was not forgotten.
    pub(super) fn has_number(&self, number: u32) -> bool {
        let mut slots = self.slots.iter();
        slots.any(|slot| slot.number == number && slot.state != SlotState::Removed)
    }

    /// The lowest number that no member has, of those that have no part. `reuses`: those of lost members, too.
    pub(super) fn free_number(&self, reuses: bool) -> u32 {
        // One that was lost may come back, and must not find its number in use. 0.90 numbers members again each time.
        let was_used = |number: u32| {
            let role = usize::try_from(number)
                .ok()
                .and_then(|at| self.roles.get(at));
            role.is_some_and(|role| !reuses && *role != Role::Spare)
        };
        let is_free = |number: &u32| {
            let mut slots = self.slots.iter();
            slots.all(|slot| slot.number != *number) && !was_used(*number)
        };
        (0..u32::MAX).find(is_free).expect("members are few")
    }
}
