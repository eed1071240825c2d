//! Another consistency policy of an array that is used: partial parity logs, a bitmap, or neither.
//!
//! ```text
//! nothing of a row is under way ─► members flushed; superblocks without either: durable ─► logs are empty on members
//!     ─► superblocks with the new one (a bitmap before them): durable ─► requests go on, by the new policy
//! ```
//!
//! # Invariants
//!
//! * Nothing is written to members by a policy before all of them know it durably, and nothing by the one before once any of them may
//!   not know it any more.
//! * The place of one is written only while no superblock names another one there.
//! * Members that a power cut left with different policies have none: nothing was being written then, and all parity is resynced
//!   where the array was dirty.
//! * Members that a reshape has left without logs know, durably, that they get them again, until their superblocks name these.
//! * A member that had failed before there was a bitmap is never rebuilt by that.
//! * A spare that was absent when the policy changed has the one of the others before it takes a part; one without room for it takes none.
//!
//! # What it does not do
//!
//! It gives an array no journal, and takes none away; superblocks 0.90 keep what they have.

use block::{IoError, Operation, Range};

use super::super::ArrayError;
use super::super::ConsistencyPolicy;
use super::super::assembly::Assembly;
use super::super::create::{PPL_LEN, bitmap_for};
use super::super::format::bitmap::Bitmap;
use super::super::format::ppl::{HEADER_LEN, PplSpace};
use super::super::format::{
    PLACE_LEN, PolicyPlace, SECTOR, Superblock, Version, awaits_ppl, features,
};
use super::RedundantArray;
use super::bits::{Bits, PAGE};
use super::member_table::{Slot, SlotState};
use super::range_locks::Kind;
use super::rows::LogMode;
use super::state::State;

/// The least that a partial parity log is kept in, bytes: a header, and what it wants for small chunks.
const PPL_LEN_MIN: u64 = HEADER_LEN + (128 << 10);
/// How far from its superblock a partial parity log can begin, bytes: its field has 16 bits of sectors, with a sign.
const PPL_FAR: u64 = 32_767 * SECTOR;
/// Logs and bitmaps begin at multiples of this, and are written in these.
const UNIT: u64 = 4096;

/// Where there is room on a member for what belongs to its superblock.
#[derive(Debug, Clone, Copy)]
struct Room {
    wanted: u64,
    least: u64,
    /// From its superblock.
    far: u64,
}

impl Room {
    /// For a bitmap of `len` bytes.
    fn of_bitmap(len: u64) -> Self {
        Self {
            wanted: len,
            least: len,
            far: u64::from(u32::MAX),
        }
    }
}

impl Superblock {
    /// A place for a log or a bitmap of a member with its superblock at byte `at`: between that and the data.
    fn free_place(&self, at: u64, room: Room) -> Option<Range> {
        let bounds = match self.version {
            Version::V1_0 => (self.data.end(), at),
            _ => (at + PLACE_LEN, self.data.offset),
        };
        let (mut from, end) = (bounds.0.next_multiple_of(UNIT), bounds.1);
        let mut gaps = Vec::new();
        if let Some(log) = self.bad_blocks.filter(|log| log.offset < end) {
            gaps.push(from..log.offset);
            from = from.max(log.end().next_multiple_of(UNIT));
        }
        gaps.push(from..end);
        let places = gaps.into_iter().filter_map(|gap| {
            let len = gap.end.checked_sub(gap.start)?.min(room.wanted) / UNIT * UNIT;
            let fits = len >= room.least && gap.start.abs_diff(at) <= room.far;
            fits.then(|| Range::new(gap.start, len))
        });
        // The first of those that are as long as any.
        places.reduce(|best, place| if place.len > best.len { place } else { best })
    }

    /// It names neither logs nor a bitmap.
    fn drop_policy(&mut self) {
        self.features &= !(features::BITMAP | features::PPL | features::MULTIPLE_PPLS);
        (self.bitmap_at, self.ppl) = (None, None);
    }

    fn place_log(&mut self, place: Range) {
        self.features |= features::PPL;
        self.ppl = Some(place);
    }

    fn place_bitmap(&mut self, place: Range) {
        self.features |= features::BITMAP;
        self.bitmap_at = Some(place.offset);
    }
}

impl Slot {
    /// Whether it is to know of the policy.
    fn keeps_policy(&self) -> bool {
        self.holds() || self.state == SlotState::Spare
    }

    /// What its superblock names. `drops_ppl`: no log any more; `awaits_ppl`: for now.
    pub(super) fn policy_place(&self, drops_ppl: bool, awaits_ppl: bool) -> PolicyPlace {
        match (self.superblock.bitmap_at, self.superblock.ppl) {
            (Some(at), _) => PolicyPlace::Bitmap(at),
            (None, Some(log)) if !drops_ppl => PolicyPlace::Ppl(log),
            (None, _) if awaits_ppl => PolicyPlace::AwaitsPpl,
            (None, _) => PolicyPlace::None,
        }
    }

    /// Whether it holds a part, and knows that a reshape has dropped partial parity logs.
    pub(super) fn awaits_ppl(&self) -> bool {
        self.holds() && awaits_ppl(self.superblock.version, &self.bytes)
    }

    /// A spare has the policy of the others, as these have it. `bitmap`: bytes of a bitmap.
    ///
    /// # Errors
    /// There is no room for it.
    fn take_policy(&mut self, of_others: PolicyPlace, bitmap: u64) -> Result<(), ArrayError> {
        let is_it = match (self.policy_place(false, false), of_others) {
            (PolicyPlace::None, PolicyPlace::None)
            | (PolicyPlace::Bitmap(_), PolicyPlace::Bitmap(_)) => true,
            (PolicyPlace::Ppl(own), PolicyPlace::Ppl(other)) => own.len >= other.len,
            _ => false,
        };
        if is_it {
            return Ok(());
        }
        self.superblock.drop_policy();
        self.writes_policy = true;
        match of_others {
            PolicyPlace::None | PolicyPlace::AwaitsPpl => {}
            PolicyPlace::Bitmap(_) => {
                let place = self.room("a bitmap", Room::of_bitmap(bitmap))?;
                self.superblock.place_bitmap(place);
            }
            PolicyPlace::Ppl(log) => {
                let room = Room {
                    wanted: log.len,
                    least: log.len,
                    far: PPL_FAR,
                };
                let place = self.room("a partial parity log", room)?;
                self.superblock.place_log(place);
            }
        }
        Ok(())
    }

    fn room(&self, what: &str, room: Room) -> Result<Range, ArrayError> {
        let block = u64::from(self.target.disk.geometry().block_size);
        if block > UNIT {
            let name = &self.target.name;
            let why = format!("{name} has blocks of {block} bytes: {what} is written in {UNIT}");
            return Err(ArrayError::refused(why, "the policy stays as it is"));
        }
        let place = self.superblock.free_place(self.at, room);
        place.ok_or_else(|| {
            let (name, least) = (&self.target.name, room.least);
            ArrayError::refused(
                format!("{name} has no room for {what}: {least} bytes next to its superblock"),
                "the policy stays as it is",
            )
        })
    }
}

/// Members in sync that a power cut left with different policies have none. Whether there were any.
///
/// # Errors
/// The array is dirty and lacks a member: nothing says where parity fits.
pub(super) fn unify(assembly: &mut Assembly) -> Result<bool, ArrayError> {
    if assembly.facts.reshape.is_some() {
        // A reshape has dropped what there was.
        return Ok(false);
    }
    let parts = assembly.parts.iter();
    let holders = parts.filter_map(|part| part.member.as_ref());
    let holders: Vec<&Superblock> = holders.map(|member| &member.superblock).collect();
    let policy = |of: &&&Superblock| (of.keeps_ppl(), of.bitmap_at.is_some());
    let newest = holders.iter().max_by_key(|of| of.events);
    let Some(newest) = newest else {
        return Ok(false);
    };
    // As new as it where a cut came when the members had been unified, and some had recorded that.
    let is_near = |of: &&Superblock| of.events + 1 >= newest.events;
    let mut others = holders.iter().filter(|of| policy(of) != policy(&newest));
    if !others.any(is_near) || !newest.version.is_v1() {
        return Ok(false);
    }
    let is_degraded = holders.len() < assembly.parts.len();
    if is_degraded && assembly.synced_to.is_some() {
        return Err(ArrayError::refused(
            format!(
                "array {} was getting another consistency policy when it stopped, and members are missing",
                assembly.facts.name
            ),
            "name all members, or add force-dirty-degraded=true to read it all the same",
        ));
    }
    for member in assembly.members_mut() {
        member.superblock.drop_policy();
    }
    assembly.bitmap = None;
    Ok(true)
}

impl State {
    /// Neither logs nor a bitmap are kept. Nothing may be under way.
    fn drop_policy(&mut self) {
        self.bits = None;
        let slots = self.members.slots.iter_mut();
        slots.for_each(|slot| slot.superblock.drop_policy());
        self.writes_policy = true;
        self.change_flushed(true);
    }

    /// Spares that were absent when the array got its policy have it from now on, as the next commit writes.
    pub(super) fn give_spares_policy(&mut self) {
        let mut slots = self.members.slots.iter();
        let Some(holder) = slots.find(|slot| slot.holds()) else {
            return;
        };
        if !self.facts.version.is_v1() || self.members.has_journal() {
            return;
        }
        let policy = holder.policy_place(self.drops_ppl, false);
        // Of members with blocks that are smaller than a page, too.
        let bitmap = self.bits.as_ref().map_or(0, Bits::len_on_disk);
        let bitmap = bitmap.next_multiple_of(UNIT);
        let slots = self.members.slots.iter_mut();
        for spare in slots.filter(|slot| slot.state == SlotState::Spare) {
            if let Err(error) = spare.take_policy(policy, bitmap) {
                let (array, name) = (&self.facts.name, &spare.target.name);
                tracing::warn!(
                    "array {array}: {name} is no spare: {error}; outboard array remove takes it out of the array"
                );
                spare.state = SlotState::Failed(error.to_string());
            }
        }
    }

    /// Whether another policy may be given now.
    fn refuse_unfit(&self) -> Result<(), ArrayError> {
        if !self.is_degraded() && !self.is_unsynced() && self.facts.reshape.is_none() {
            return Ok(());
        }
        Err(ArrayError::refused(
            "the consistency policy stays as it is: a member has failed meanwhile, or parity is to be resynced",
            "see the members with: outboard array status",
        ))
    }

    /// Where each member is to keep its log.
    fn log_places(&self) -> Result<Vec<(usize, Range)>, ArrayError> {
        let room = Room {
            wanted: PPL_LEN,
            least: PPL_LEN_MIN,
            far: PPL_FAR,
        };
        self.places("a partial parity log", room)
    }

    fn places(&self, what: &str, room: Room) -> Result<Vec<(usize, Range)>, ArrayError> {
        let slots = self.members.slots.iter().enumerate();
        let slots = slots.filter(|(_, slot)| slot.keeps_policy());
        slots
            .map(|(index, slot)| Ok((index, slot.room(what, room)?)))
            .collect()
    }

    /// Where members are to keep their logs: no superblock names these before [`name_logs`](Self::name_logs), also if one is written
    /// meanwhile. Bytes of partial parity that each of them has room for.
    fn place_logs(&mut self, places: &[(usize, Range)]) -> u64 {
        let mut parity_max = u64::MAX;
        for slot in &mut self.members.slots {
            // A spare that got the policy of the others when the array was opened has that on its disk by now.
            slot.writes_policy = false;
        }
        for (index, place) in places {
            let superblock = &mut self.members.slots[*index].superblock;
            superblock.place_log(*place);
            let space = PplSpace::of(superblock).expect("it has room for partial parity");
            parity_max = parity_max.min(space.parity_max());
        }
        self.writes_policy = false;
        parity_max
    }

    /// Logs are empty on all members: superblocks name them from the next commit on.
    fn name_logs(&mut self) {
        (self.drops_ppl, self.awaits_ppl) = (false, false);
        self.writes_policy = true;
    }

    /// The bitmap that the array would have, and where.
    fn new_bitmap(&self) -> Result<(Bitmap, Vec<(usize, Range)>), ArrayError> {
        let mut slots = self.members.slots.iter().filter(|slot| slot.holds());
        let of = &slots.next().expect("a member is in sync").superblock;
        let header = bitmap_for(of).ok_or_else(|| {
            ArrayError::refused(format!("{} has no bitmap", self.facts.level), None)
        })?;
        let len = Bits::image_len(&header, PAGE) as u64;
        let places = self.places("a bitmap", Room::of_bitmap(len))?;
        Ok((header, places))
    }

    /// Members keep a bitmap from the next commit on. Changes that wait are in it.
    fn place_bitmap(
        &mut self,
        header: &Bitmap,
        places: &[(usize, Range)],
    ) -> Result<(), ArrayError> {
        let mut bits = Bits::blank(header)?;
        for range in self.locks.changes() {
            bits.begin(range);
        }
        self.bits = Some(bits);
        for (index, place) in places {
            let superblock = &mut self.members.slots[*index].superblock;
            superblock.place_bitmap(*place);
        }
        // A member that failed before has seen fewer events.
        self.ledger.set_events_cleared(self.ledger.events() + 1);
        Ok(())
    }
}

impl RedundantArray {
    /// What keeps the array consistent over a power cut.
    pub(in crate::array) fn policy(&self) -> ConsistencyPolicy {
        let guarded = self.lock();
        let members = &guarded.state.members;
        if members.has_journal() {
            ConsistencyPolicy::Journal
        } else if guarded.state.bits.is_some() {
            ConsistencyPolicy::Bitmap
        } else if members.keeps_ppl() {
            ConsistencyPolicy::Ppl
        } else {
            ConsistencyPolicy::Resync
        }
    }

    /// Whether members are to get partial parity logs again that a reshape has dropped, and can now.
    pub(in crate::array) fn awaits_logs(&self) -> bool {
        let state = &self.lock().state;
        state.awaits_ppl && state.refuse_unfit().is_ok()
    }

    /// Whether each member has room for a partial parity log.
    ///
    /// # Errors
    /// One has not: which.
    pub(in crate::array) fn has_room_for_logs(&self) -> Result<(), ArrayError> {
        self.lock().state.log_places().map(drop)
    }

    /// Members are not to get partial parity logs any more that a reshape has dropped. Durable when it resolves.
    ///
    /// # Errors
    /// Members cannot be written.
    pub(in crate::array) async fn forgo_logs(&self) -> Result<(), IoError> {
        {
            let state = &mut self.lock().state;
            state.awaits_ppl = false;
            state.writes_policy = true;
            state.change(true);
        }
        self.record(State::is_recorded).await
    }

    /// The array gets another consistency policy, which is not a journal. Durable when it resolves.
    ///
    /// # Errors
    /// A member has no room for it, has failed meanwhile, or cannot be written: the array has the old policy then, or none.
    pub(in crate::array) async fn change_policy(
        &self,
        to: ConsistencyPolicy,
    ) -> Result<(), ArrayError> {
        let failed = |error: IoError| {
            let what = format!("the consistency policy cannot be changed: {error}");
            ArrayError::refused(what, "see what it is with: outboard array status")
        };
        self.in_task(move |array| async move {
            let whole = Range::new(0, array.layout().sync_size());
            let turn = array.turn(Operation::Write, whole, Kind::Window).await;
            let _turn = turn.map_err(failed)?;
            array.catch_members_up().await.map_err(failed)?;
            array.can_have(to)?;
            array.rows.drop_logs();
            {
                let state = &mut array.lock().state;
                // Where a cut leaves it without logs the next open gives it these, as a reshape has promised.
                state.awaits_ppl &= to == ConsistencyPolicy::Ppl;
                state.drop_policy();
            }
            array.record_at_last().await.map_err(failed)?;
            match to {
                ConsistencyPolicy::Ppl => array.keep_logs().await?,
                ConsistencyPolicy::Bitmap => array.keep_bitmap()?,
                _ => return Ok(()),
            }
            array.lock().state.change_flushed(true);
            array.record_at_last().await.map_err(failed)?;
            if to == ConsistencyPolicy::Ppl {
                array.rows.keep_logs();
            }
            Ok(())
        })
        .await
    }

    /// Refuses a policy that there is no room for, as if the array had none.
    fn can_have(&self, to: ConsistencyPolicy) -> Result<(), ArrayError> {
        let guarded = self.lock();
        let state = &guarded.state;
        state.refuse_unfit()?;
        match to {
            ConsistencyPolicy::Ppl => state.log_places().map(drop),
            ConsistencyPolicy::Bitmap => state.new_bitmap().map(drop),
            _ => Ok(()),
        }
    }

    /// Logs of all members are empty, durably; superblocks do not name them yet.
    async fn keep_logs(&self) -> Result<(), ArrayError> {
        let logs = self.rows.dropped_logs();
        let mut mode = logs.mode.write().await;
        {
            let state = &mut self.lock().state;
            let places = state.log_places()?;
            let parity_max = state.place_logs(&places);
            logs.restart(parity_max);
        }
        let reset = self.reset_logs(logs, LogMode::Kept).await;
        reset.map_err(|error| {
            self.lock().state.drop_policy();
            let what = format!("partial parity logs cannot be written: {error}");
            ArrayError::refused(what, "the array has none, and no bitmap")
        })?;
        self.lock().state.name_logs();
        *mode = LogMode::Kept;
        Ok(())
    }

    fn keep_bitmap(&self) -> Result<(), ArrayError> {
        let state = &mut self.lock().state;
        let (header, places) = state.new_bitmap()?;
        state.place_bitmap(&header, &places)
    }
}
