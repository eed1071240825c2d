//! [`State`]: what a mirror knows of its members and of the changes that are under way. Pure: everything is decided
//! here, under one lock that nobody holds while waiting, and carried out elsewhere.
//!
//! # Invariants
//!
//! * A change is sent to members only while all of them know durably that the array is dirty, and which bits are
//!   set.
//! * The last member in sync that holds a byte is never failed.
//! * Nothing is acknowledged that a failed member lacks, before all others know durably that it failed.
//! * While a part has nobody in sync no bit is cleared, and `events_cleared` stays.

use std::sync::Arc;

use block::Range;
use smallvec::SmallVec;

use super::super::assembly::Facts;
use super::super::format::bad_blocks::BadBlocks;
use super::super::format::{Role, Superblock, features};
use super::super::member::Member;
use super::super::member_guard::ArrayFence;
use super::bits::Bits;
use super::layout::Layout;
use super::ledger::CommitLedger;
use super::locks::Table;
use super::members::{Holder, SlotId, Target, View};
use super::read_errors::ReadErrors;

/// How a member stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::array) enum Standing {
    /// It holds its part.
    InSync,
    /// It gets all writes, and holds its part up to this byte of its data.
    Rebuilding(u64),
    /// It holds no part.
    Spare,
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
    pub(in crate::array) standing: Standing,
    /// Only what the bitmap says is copied to it.
    pub(super) by_bitmap: bool,
    /// How far it was rebuilt when it was flushed last.
    pub(super) rebuilt_durably: u64,
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
    /// Read errors that were put right lately.
    pub(super) read_errors: ReadErrors,
}

/// What became of a wish to fail a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) enum Failing {
    /// It has failed; others must be told before anything is acknowledged.
    Failed,
    /// It had failed already, or holds nothing.
    Already,
    /// Nobody else holds what it does: it goes on.
    Last,
}

/// What a mirror knows.
#[derive(Debug)]
pub(in crate::array) struct State {
    /// Whether the array may still be used.
    pub(super) fence: Arc<ArrayFence>,
    pub(super) facts: Facts,
    pub(super) layout: Arc<Layout>,
    pub(super) slots: Vec<Slot>,
    /// Who holds each part: in sync, or being rebuilt.
    pub(super) parts: Vec<Option<SlotId>>,
    pub(super) view: Arc<View>,
    /// Roles by number, of members that nobody here knows.
    pub(super) roles: Vec<Role>,
    /// What members know, and what they are still to be told.
    pub(super) ledger: CommitLedger,
    pub(super) bits: Option<Bits>,
    /// Without a bitmap: copies may differ from here on, byte of the array. With one its bits tell.
    pub(super) synced_to: Option<u64>,
    /// Members whose superblocks are one commit behind those of the others.
    pub(super) behind: Vec<SlotId>,
    pub(super) locks: Table,
    /// Changes under way, waiting, or given up.
    pub(super) writes: u64,
    /// Changes that began, ever.
    pub(super) begun: u64,
    /// Nothing is changed any more.
    pub(super) stopped: bool,
    /// How often copies were found to differ since it was opened.
    pub(super) needs: u64,
}

impl Slot {
    /// A member, as it was read.
    pub(super) fn new(
        target: Arc<Target>,
        member: Member,
        part: Option<u16>,
        standing: Standing,
    ) -> Self {
        let rebuilt_durably = match standing {
            Standing::Rebuilding(to) => to,
            _ => 0,
        };
        let log = member.superblock.bad_blocks.and_then(|place| {
            let mut log = BadBlocks::none(place.len, member.superblock.bad_blocks_shift).ok()?;
            member.bad.iter().for_each(|run| log.add(*run));
            Some(log)
        });
        let by_bitmap = member.superblock.features & features::RECOVERY_BITMAP != 0;
        Self {
            target,
            number: member.superblock.number,
            part,
            standing,
            by_bitmap,
            rebuilt_durably,
            superblock: member.superblock,
            at: member.at,
            bytes: member.bytes,
            log,
            log_changed: false,
            read_errors: ReadErrors::default(),
            bad: member.bad.into(),
        }
    }

    /// Whether it holds a part, or some of one.
    pub(super) const fn holds(&self) -> bool {
        matches!(self.standing, Standing::InSync | Standing::Rebuilding(_))
    }

    /// Whether it holds some of one.
    pub(super) const fn is_rebuilding(&self) -> bool {
        matches!(self.standing, Standing::Rebuilding(_))
    }
}

impl State {
    /// Puts the view right after members changed.
    pub(super) fn look_again(&mut self) {
        let holder = |slot: &Option<SlotId>| {
            let slot = &self.slots[(*slot)?.0];
            let rebuilt_to = match slot.standing {
                Standing::Rebuilding(to) => Some(to),
                _ => None,
            };
            Some(Holder {
                target: slot.target.clone(),
                rebuilt_to,
                bad: slot.bad.clone(),
            })
        };
        let parts: SmallVec<_> = self.parts.iter().map(holder).collect();
        self.view = Arc::new(View::new(self.layout.clone(), parts));
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

    /// Whether `slot` holds a part, all of it.
    fn is_in_sync(&self, slot: SlotId) -> bool {
        self.slots[slot.0].standing == Standing::InSync
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

    /// A change of what superblocks say. `urgent`: nothing is acknowledged before all members have it.
    pub(super) fn change(&mut self, urgent: bool) {
        self.ledger.change(urgent);
    }

    /// A member failed.
    pub(super) fn fail(&mut self, slot: SlotId, why: &str) -> Failing {
        let id = slot;
        if self.fence.is_closed() {
            // Nobody is told anything any more.
            return Failing::Last;
        }
        match self.slots[id.0].standing {
            Standing::InSync => {
                if !self.survives(id) {
                    return Failing::Last;
                }
            }
            Standing::Rebuilding(_) | Standing::Spare => {}
            Standing::Failed(_) | Standing::Stale | Standing::Removed => return Failing::Already,
        }
        self.slots[id.0].standing = Standing::Failed(why.to_owned());
        for part in &mut self.parts {
            part.take_if(|holder| *holder == id);
        }
        if let Some(bits) = &mut self.bits {
            bits.keep_all();
        }
        self.change(true);
        self.look_again();
        Failing::Failed
    }

    /// A member cannot write some places: they are not read of it any more. False: it cannot keep that in its log.
    pub(super) fn log_bad(&mut self, slot: SlotId, bad: &[Range]) -> bool {
        let member = &mut self.slots[slot.0];
        let holds = member.standing == Standing::InSync || member.is_rebuilding();
        let Some(mut log) = member.log.clone().filter(|_| holds) else {
            return false;
        };
        bad.iter().for_each(|run| log.add(*run));
        if log.encode().is_none() {
            return false;
        }
        if log.runs() != &*member.bad {
            tracing::warn!(
                "{}: {} places cannot be written: others hold them",
                member.target.name,
                bad.len()
            );
            self.put_log(slot, log, true);
        }
        true
    }

    /// A member was written where it could not be read: it can be again.
    pub(super) fn made_good(&mut self, slot: SlotId, within: Range) {
        let member = &self.slots[slot.0];
        let Some(log) = &member.log else { return };
        if log.first_in(within).is_some() {
            let mut log = log.clone();
            log.remove(within);
            self.put_log(slot, log, false);
        }
    }

    fn put_log(&mut self, slot: SlotId, log: BadBlocks, urgent: bool) {
        let member = &mut self.slots[slot.0];
        member.bad = log.runs().into();
        member.log = Some(log);
        member.log_changed = true;
        self.change(urgent);
        self.look_again();
    }

    /// Copies of `range` may differ: reads are from the first one that is in sync until somebody makes them alike.
    pub(super) fn need(&mut self, range: Range) {
        self.needs += 1;
        match &mut self.bits {
            Some(bits) => bits.need(range),
            None => {
                let from = self.synced_to.unwrap_or(u64::MAX).min(range.offset);
                self.synced_to = Some(from);
            }
        }
    }

    /// Whether copies may differ in `range`.
    #[inline]
    pub(super) fn is_needed(&self, range: Range) -> bool {
        match &self.bits {
            Some(bits) => bits.is_needed(range),
            None => self.synced_to.is_some_and(|to| range.end() > to),
        }
    }

    /// The next bytes at or behind `from` where copies may differ.
    pub(super) fn next_needed(&self, from: u64) -> Option<Range> {
        let size = self.layout.size();
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

    /// Copies of `range` are alike. Without a bitmap that counts where all before it are.
    pub(super) fn made_alike(&mut self, range: Range) {
        let before = self.is_unsynced();
        let size = self.layout.size();
        match &mut self.bits {
            Some(bits) => bits.made_alike(range),
            None => {
                if let Some(to) = self.synced_to
                    && range.offset <= to
                {
                    let to = to.max(range.end());
                    self.synced_to = (to < size).then_some(to);
                }
            }
        }
        // Who opens it next must not do it all again, even if nothing is written until then.
        if before && !self.is_unsynced() {
            self.change_flushed(false);
        }
    }

    /// Nothing was changed for a while: whether a commit can tell members that the array is clean.
    pub(super) fn let_go(&mut self) -> bool {
        if self.writes > 0 {
            return false;
        }
        self.ledger.release_dirty(!self.is_unsynced())
    }

    /// Time has passed ([`Bits::sweep`]). Whether there are bits that a later sweep can clear.
    pub(super) fn sweep(&mut self) -> bool {
        let may_clear = !self.is_degraded();
        let awake = self.ledger.is_awake();
        self.bits
            .as_mut()
            .is_some_and(|bits| awake && bits.sweep(may_clear) && may_clear)
    }

    /// The same, and whether there is anything that members must be told.
    pub(super) fn sweep_once(&mut self) -> (bool, bool) {
        let more = self.sweep();
        (more, self.ledger.is_awake() && self.must_commit())
    }

    /// A member holds `part` from now on, rebuilt up to 0.
    pub(super) fn give_part(&mut self, slot: SlotId, part: u16, by_bitmap: bool) {
        let member = &mut self.slots[slot.0];
        assert_eq!(
            member.standing,
            Standing::Spare,
            "only a spare is given a part"
        );
        member.part = Some(part);
        member.by_bitmap = by_bitmap;
        member.rebuilt_durably = 0;
        member.standing = Standing::Rebuilding(0);
        let holder = &mut self.parts[usize::from(part)];
        assert_eq!(*holder, None, "a part has one holder");
        *holder = Some(slot);
        if let Some(bits) = &mut self.bits {
            bits.write_all();
        }
        self.change(true);
        self.look_again();
    }

    /// The member of `part` holds all of it; its name, if it did not before.
    pub(super) fn in_sync(&mut self, part: u16) -> Option<String> {
        let slot = self.parts[usize::from(part)]?;
        let member = &mut self.slots[slot.0];
        if !member.is_rebuilding() {
            return None;
        }
        member.standing = Standing::InSync;
        member.by_bitmap = false;
        let name = member.target.name.clone();
        self.change_flushed(true);
        self.look_again();
        Some(name)
    }

    /// The array has so many parts from now on.
    pub(super) fn set_parts(&mut self, parts: u32) {
        let count = usize::try_from(parts).expect("parts are few");
        let mut gone = self.parts.iter().skip(count);
        assert!(
            gone.all(Option::is_none),
            "a part that somebody holds stays"
        );
        self.facts.parts = parts;
        self.layout = Arc::new(self.layout.with_parts(count));
        self.parts.resize(count, None);
        self.change(true);
        self.look_again();
    }

    /// A change of what superblocks say of data: members are flushed before it is told.
    pub(super) fn change_flushed(&mut self, urgent: bool) {
        self.ledger.change_flushed(urgent);
    }

    /// Whether there is anything that members do not know yet.
    pub(super) fn must_commit(&self) -> bool {
        let bits = self.bits.as_ref();
        self.ledger.is_pending() || self.ledger.is_awake() && bits.is_some_and(Bits::has_changes)
    }
}
