//! What work in the background needs of a redundant array: windows that are locked against changes, single copies, and the steps of
//! members that are rebuilt.
//!
//! # Invariants
//!
//! * The holder of a window is alone on its bytes with reads: changes that were there before have ended, later ones
//!   wait.
//! * Writing to one member fails it where that fails, durably, as a write of a user does.
//! * A member that was given a part gets every change from then on, and is read only below what was rebuilt of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use block::{IoBufs, IoError, Operation, Range, WriteFlags};

use super::super::format::{Superblock, bitmap};
use super::super::member::Member;
use super::RedundantArray;
use super::layout::Piece;
use super::member_table::{Slot, SlotState};
use super::members::{SlotId, Target};
use super::range_locks::{Cancelled, Kind};
use super::read::Which;
use super::state::State;
use super::view::{Holder, View};
use super::write::Changing;

/// Bytes of the array that no other task changes, as long as it is there.
#[derive(Debug)]
pub(in crate::array) struct Window<'a>(Changing<'a>);

impl Window<'_> {
    /// Copies are written here: if this is dropped in flight, they are resynced before they may be changed again.
    pub(in crate::array) const fn begin(&mut self) {
        self.0.in_flight = Some(Cancelled::Data { landed: false });
    }

    /// They were: nothing is under way.
    pub(in crate::array) const fn end(&mut self) {
        self.0.in_flight = None;
    }
}

impl RedundantArray {
    /// Waits for changes of `range`, and holds new ones until the window is dropped.
    ///
    /// # Errors
    /// What was cancelled there cannot be repaired, or the array is being stopped.
    pub(in crate::array) async fn lock_range(&self, range: Range) -> Result<Window<'_>, IoError> {
        let changing = self.turn(Operation::Write, range, Kind::Window).await?;
        Ok(Window(changing))
    }

    /// Where copies of `range` are, piece by piece; each can be read whole of a member, or not at all.
    pub(in crate::array) fn pieces(&self, range: Range) -> Vec<Piece> {
        self.view().pieces(range)
    }

    /// What windows count for byte `at` of the data of the member of `part`, as far as that lies together.
    pub(in crate::array) fn array_range(&self, part: usize, at: u64) -> Option<Range> {
        self.layout().held(part, at)
    }

    /// The holders of the parts now.
    pub(in crate::array) fn view(&self) -> Arc<View> {
        self.lock().state.members.view.clone()
    }

    /// Reads the first copy of a piece that is in sync, or the next one that can be read; with its member.
    ///
    /// # Errors
    /// There is none that can be read.
    pub(in crate::array) async fn read_source(
        &self,
        piece: &Piece,
    ) -> Result<(IoBufs, SlotId), IoError> {
        let found = self.read_any(piece, Which::First, None).await?;
        Ok((found.data, found.from))
    }

    /// Reads one copy. Nothing is repaired.
    ///
    /// # Errors
    /// What the member answers.
    pub(in crate::array) async fn read_copy(
        &self,
        target: &Target,
        within: Range,
    ) -> Result<IoBufs, IoError> {
        target.read(within).await
    }

    /// Writes one copy. Where that fails the member has failed, durably, or it is an error.
    ///
    /// # Errors
    /// The member cannot be failed, or that cannot be made durable.
    pub(in crate::array) async fn write_copy(
        &self,
        target: &Target,
        within: Range,
        data: IoBufs,
    ) -> Result<(), IoError> {
        let Err(error) = target.write(within, data, WriteFlags::empty()).await else {
            self.lock().state.made_good(target.slot, within);
            return Ok(());
        };
        self.fail_or_log(target, within, &error).await
    }

    /// Writes again what a member notes as bad, and reads it back. Whether it notes none of it any more: its log says so from the next commit
    /// on, behind a flush. What cannot be written stays noted.
    ///
    /// # Errors
    /// The member did not answer, and cannot be failed, or that cannot be made durable.
    pub(in crate::array) async fn rewrite_noted(
        &self,
        target: &Target,
        within: Range,
        data: IoBufs,
    ) -> Result<bool, IoError> {
        let mut answer = target.write(within, data, WriteFlags::empty()).await;
        if answer.is_ok() {
            answer = target.read(within).await.map(drop);
        }
        if let Err(error) = answer {
            self.fail_or_log(target, within, &error).await?;
            return Ok(false);
        }
        let state = &mut self.lock().state;
        state.made_good(target.slot, within);
        let noted = &state.members.slots[target.slot.0].bad;
        Ok(!noted.iter().any(|bad| bad.overlaps(&within)))
    }

    /// Resolves once members have durably that what was rewritten can be read.
    ///
    /// # Errors
    /// Members cannot be written.
    pub(in crate::array) async fn record_rewritten(&self) -> Result<(), IoError> {
        self.record(State::is_recorded).await
    }

    /// The next bytes at or behind `from` with copies that may differ since a crash. Changes do not resync them.
    pub(in crate::array) fn needed(&self, from: u64) -> Option<Range> {
        self.lock().state.next_needed(from)
    }

    /// Copies of `range` are identical now; whole chunks of the bitmap count. Not durable before the next commit.
    pub(in crate::array) fn synced(&self, range: Range) {
        self.lock().state.resynced(range);
    }

    /// The next bytes at or behind `from` that the bitmap has as changed; all of them where there is no bitmap.
    pub(in crate::array) fn changed(&self, from: u64) -> Option<Range> {
        let guarded = self.lock();
        let size = guarded.state.members.layout.sync_size();
        let found = match &guarded.state.bits {
            Some(bits) => bits.next_set(from)?,
            None => Range::new(from, size.checked_sub(from)?),
        };
        let (start, end) = (found.offset.max(from), found.end().min(size));
        (start < end).then(|| Range::new(start, end - start))
    }

    /// Takes a member in, as a spare. Its superblock must be one of this array, and be on its disk unless it `is_new`. It keeps its number, unless that was
    /// given to another one while it was away.
    pub(in crate::array) fn adopt(&self, member: Member, is_new: bool) -> SlotId {
        let mut guarded = self.lock();
        let state = &mut guarded.state;
        let id = state.members.next_id();
        let guard = member.remote.then(|| match is_new {
            true => member.new_guard(&self.fence),
            false => member.guard(&self.fence),
        });
        let (timeout, fence) = (self.member_timeout, self.fence.clone());
        let target = Arc::new(Target::new(id, &member, timeout, fence, guard));
        let mut slot = Slot::new(target, member, None, SlotState::Spare);
        if state.members.has_number(slot.number) {
            slot.number = state.free_number();
        }
        state.members.slots.push(slot);
        state.change(false);
        id
    }

    /// Whether a member that failed since the array was opened is as it was then, by the `bytes` of its `superblock` as they were
    /// found. An old copy lacks more than the bitmap records.
    ///
    /// # Errors
    /// It is not: why. Where another host took it over, the array ends.
    pub(in crate::array) fn check_returned(
        &self,
        superblock: &Superblock,
        bytes: &[u8],
    ) -> Result<(), String> {
        let guard = {
            let guarded = self.lock();
            let is_it = |slot: &&Slot| {
                let own = (slot.superblock.device, slot.number);
                let failed = matches!(slot.state, SlotState::Failed(_));
                failed && own == (superblock.device, superblock.number)
            };
            let mut slots = guarded.state.members.slots.iter().rev();
            slots.find(is_it).and_then(|slot| slot.target.guard.clone())
        };
        guard.map_or(Ok(()), |guard| guard.check_returned(bytes))
    }

    /// A number for a member that comes: the lowest that is free, of those that have no part.
    pub(in crate::array) fn free_number(&self) -> u32 {
        self.lock().state.free_number()
    }

    /// A member holds `part` from now on, rebuilt up to 0: it gets every change. `by_bitmap`: it lacks only what the
    /// bitmap has as changed. Durable when it resolves.
    ///
    /// # Errors
    /// Members cannot be written.
    ///
    /// # Panics
    /// If the part has a holder, or the member is no spare.
    pub(in crate::array) async fn give_part(
        &self,
        slot: SlotId,
        part: u16,
        by_bitmap: bool,
    ) -> Result<(), IoError> {
        let give = || {
            let state = &mut self.lock().state;
            let is_vacant = state.members.parts[usize::from(part)].is_none();
            let can_give = is_vacant && state.members.is_spare(slot);
            if can_give {
                state.give_part(slot, part, by_bitmap);
            }
            can_give
        };
        self.give_part_with_log(slot, give).await
    }

    /// Bits that a member's own bitmap has are set from the next commit on. Nothing for an array without a bitmap.
    pub(in crate::array) fn note_bits(&self, own: &bitmap::Bits) {
        if let Some(bits) = &mut self.lock().state.bits {
            bits.note(own);
        }
    }

    /// The member of `part` is rebuilt up to byte `to` of its data. Not durable before [`checkpoint`](Self::checkpoint).
    pub(in crate::array) fn rebuilt(&self, part: u16, to: u64) {
        self.lock().state.members.set_rebuilt(part, to);
    }

    /// Flushes members and writes down how far they are rebuilt.
    ///
    /// # Errors
    /// Members cannot be written.
    pub(in crate::array) async fn checkpoint(&self) -> Result<(), IoError> {
        self.lock().state.change_flushed(false);
        self.record_pending().await
    }

    /// The member of `part` holds all of it. Durable when it resolves, behind a flush.
    ///
    /// # Errors
    /// Members cannot be written.
    pub(in crate::array) async fn in_sync(&self, part: u16) -> Result<(), IoError> {
        let Some(name) = self.lock().state.in_sync(part) else {
            return Ok(());
        };
        self.record(State::is_recorded).await?;
        self.send_event(super::ArrayEvent::SpareActive { member: name });
        Ok(())
    }

    /// The array has so many parts from now on; the new ones have no holder. Durable when it resolves.
    ///
    /// # Errors
    /// Members cannot be written.
    pub(in crate::array) async fn set_parts(&self, parts: u32) -> Result<(), IoError> {
        self.lock().state.set_parts(parts);
        self.record(State::is_recorded).await
    }

    /// Marks the array clean, if nothing was changed since and it is not clean already. Whether it
    /// is now.
    ///
    /// # Errors
    /// Members cannot be written.
    pub(in crate::array) async fn mark_clean(&self) -> Result<bool, IoError> {
        if self.lock().state.locks.cancelled_count() > 0 {
            self.settle_all().await?;
        }
        self.reclaim_journal().await?;
        if !self.lock().state.let_go() {
            return Ok(self.is_clean());
        }
        self.record_pending().await?;
        Ok(self.is_clean())
    }

    /// `daemon_sleep` has passed: bits that no write needed since are cleared. Whether a later sweep can clear more.
    ///
    /// # Errors
    /// Members cannot be written.
    pub(in crate::array) async fn sweep(&self) -> Result<bool, IoError> {
        let (more, must) = self.lock().state.sweep_once();
        if must {
            self.record_pending().await?;
        }
        Ok(more)
    }

    /// Requests that users made so far, of all kinds.
    pub(in crate::array) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Bytes of users' requests that are under way, or wait for their turns.
    pub(in crate::array) fn under_way(&self) -> u64 {
        let changes = self.lock().state.locks.under_way();
        changes.saturating_add(self.reading.load(Ordering::Relaxed))
    }

    /// Changes that users made so far.
    pub(in crate::array) fn changes(&self) -> u64 {
        self.lock().state.locks.begun()
    }

    /// Resolves when there may be something to do: a member failed or came, a commit ended, something was cancelled.
    pub(in crate::array) fn work(&self) -> Arc<tokio::sync::Notify> {
        self.work.clone()
    }

    /// Parts that have no holder, and spares that could take them.
    pub(in crate::array) fn vacancies(&self) -> (Vec<u16>, Vec<SlotId>) {
        let guarded = self.lock();
        let state = &guarded.state;
        let (vacant, mut spares) = state.members.vacancies();
        spares.retain(|spare| state.can_be_reshaped(*spare));
        (vacant, spares)
    }

    /// Parts that are being rebuilt: how far, and whether by the bitmap.
    pub(in crate::array) fn rebuilding(&self) -> Vec<(u16, u64, bool)> {
        self.lock().state.members.rebuilding()
    }

    /// The holder of `part`, in sync or being rebuilt.
    pub(in crate::array) fn holder(&self, part: u16) -> Option<Holder> {
        self.view().holder(part.into()).cloned()
    }
}
