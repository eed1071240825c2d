//! Reads: which copy, and what happens where it cannot be read.
//!
//! # Invariants
//!
//! * Where copies may differ, and were not resynced yet, the first one that is in sync is read, each time: reads
//!   agree with each other, and with what the others are made of.
//! * What some member has is read, also where each of them has bad sectors, in other places.
//! * What cannot be read is rewritten from another copy, and read again; a member on which that fails has failed.
//!   Read-only arrays are left as they are.
//! * A member on which that is done too often ([`super::read_errors`]) has failed, where others have what it holds.
//! * What the first member that is requested can read is read without an allocation of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use block::{BlockDevice, Errno, FileRegion, IoBufs, IoError, Operation, Range, TryIo, WriteFlags};
use engine::clock;
use futures_util::future::try_join_all;
use smallvec::SmallVec;

use super::RedundantArray;
use super::halves::Halves;
use super::layout::{Copy, Piece};
use super::member_table::Failing;
use super::members::{SlotId, Target, is_over, is_timeout, is_unreadable};
use super::range_locks::{Cancelled, Kind};
use super::read_balance::{ReadRank, choose};
use super::read_errors::READ_ERRORS_MAX;
use super::state::State;
use super::view::{Holder, View};

/// The least that is read alone, bytes, where no member has more of it.
const BLOCK_MIN: u64 = 4096;

/// Members that could not be read, and why.
type Tried = SmallVec<[(SlotId, IoError); 2]>;

/// Which copies may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Any that is as it should be.
    Any,
    /// The first one that is in sync: what the others are made of where copies may differ.
    First,
}

/// What was read.
pub(super) struct Found {
    pub(super) data: IoBufs,
    /// The member that it was read of.
    pub(super) from: SlotId,
    /// Members that could not be read.
    tried: Tried,
}

/// What a read works with.
pub(super) struct Reading {
    pub(super) view: Arc<View>,
    /// Copies may differ.
    pub(super) unsynced: bool,
}

impl Reading {
    #[inline]
    fn of(state: &State, range: Range) -> Self {
        Self {
            view: state.members.view.clone(),
            unsynced: state.is_needed_at(range),
        }
    }

    /// The copy to read, of those that `may` be.
    #[inline]
    pub(super) fn pick(
        &self,
        piece: &Piece,
        may: impl Fn(SlotId) -> bool,
    ) -> Option<(&Holder, Range)> {
        let good = |copy: &Copy| {
            let holder = self.view.holder(copy.part)?;
            let within = piece.within(*copy);
            let may = holder.can_read(within)
                && (!self.unsynced || holder.rebuilt_to.is_none())
                && may(holder.target.slot);
            may.then_some((holder, within))
        };
        choose(
            piece.copies.iter().filter_map(good),
            |(holder, _)| ReadRank {
                write_mostly: holder.target.write_mostly,
                remote: holder.target.remote,
            },
            |(holder, _)| holder.target.load.in_flight(),
            // Where copies may differ all reads are of the same one.
            (!self.unsynced).then_some(piece.range.offset),
        )
    }
}

impl RedundantArray {
    fn reading(&self, range: Range) -> Reading {
        Reading::of(&self.lock().state, range)
    }

    /// Reads `range`.
    pub(super) async fn read_all(&self, range: Range) -> Result<IoBufs, IoError> {
        if self.layout().parity().is_some() {
            return self.read_rows(range).await;
        }
        let view = self.view();
        if let Some(only) = view.only_piece(range) {
            return self.read_piece(&only).await;
        }
        let pieces = view.pieces(range);
        let reads = pieces.iter().map(|piece| self.read_piece(piece));
        Ok(try_join_all(reads).await?.into_iter().flatten().collect())
    }

    /// Reads what lies together on each member that has it. Where none has all of it each may lack another part: it is read in
    /// halves then, down to blocks.
    async fn read_piece(&self, piece: &Piece) -> Result<IoBufs, IoError> {
        match self.read_and_repair(piece).await {
            Err(error) if is_unreadable(&error) => Box::pin(self.read_halves(piece, error)).await,
            answer => answer,
        }
    }

    /// Reads a piece of which no member has all, as `error` says, in parts.
    async fn read_halves(&self, piece: &Piece, error: IoError) -> Result<IoBufs, IoError> {
        let unit = BLOCK_MIN.max(self.geometry().block_size.into());
        let mut data = IoBufs::new();
        let mut halves = Halves::new(piece.range, unit);
        // The whole was read.
        let mut known = Some(error);
        while let Some(range) = halves.next() {
            let read = match known.take() {
                Some(error) => Err(error),
                None => self.read_and_repair(&piece.part(range)).await,
            };
            match read {
                Ok(found) => data.extend(found),
                Err(error) if is_unreadable(&error) && halves.halve(range) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(data)
    }

    /// Reads a copy that can be read, and repairs those that could not be.
    async fn read_and_repair(&self, piece: &Piece) -> Result<IoBufs, IoError> {
        let found = self.read_any(piece, Which::Any, None).await?;
        for (slot, error) in found.tried {
            self.repair_read_error(piece, slot, error).await;
        }
        Ok(found.data)
    }

    /// Reads a copy that can be read, but not of `without`; with the members that could not be read on the way.
    pub(super) async fn read_any(
        &self,
        piece: &Piece,
        which: Which,
        without: Option<SlotId>,
    ) -> Result<Found, IoError> {
        let mut tried = Tried::new();
        loop {
            self.fence.check(Operation::Read, Some(piece.range))?;
            let mut reading = self.reading(piece.range);
            reading.unsynced |= which == Which::First;
            let may = |slot| Some(slot) != without && tried.iter().all(|(known, _)| *known != slot);
            let Some((holder, within)) = reading.pick(piece, may) else {
                let error = tried.into_iter().next().map(|(_, error)| error);
                return Err(error.unwrap_or_else(|| {
                    IoError::new(Errno::Io, Operation::Read, Some(piece.range))
                        .because("no member has these bytes")
                }));
            };
            match holder.target.read(within).await {
                Ok(data) => {
                    let from = holder.target.slot;
                    return Ok(Found { data, from, tried });
                }
                Err(error) => tried.push((holder.target.slot, error)),
            }
        }
    }

    /// A member could not be read where another could.
    async fn repair_read_error(&self, piece: &Piece, slot: SlotId, error: IoError) {
        if self.read_only() {
            return;
        }
        let target = self.target(slot);
        if self.has_worn_out(&target, &error).await {
            return;
        }
        let written = if target.fail_fast || is_over(&error) {
            Err((piece.range, error))
        } else {
            tracing::info!(
                "{}: {error}: it is rewritten from another member",
                target.name
            );
            self.rewrite_copy(piece, &target).await
        };
        if let Err((within, error)) = written {
            // Where it cannot be failed it goes on: what was read came from another member.
            if let Err(error) = self.fail_or_log(&target, within, &error).await {
                tracing::error!("{}: {error}", target.name);
            }
        }
    }

    /// Counts a read error of a member. Whether it had too many, and has failed for that; durable when it resolves.
    pub(super) async fn has_worn_out(&self, target: &Target, error: &IoError) -> bool {
        let now = clock::now().saturating_duration_since(self.since);
        let errors =
            |state: &mut State| state.members.slots[target.slot.0].read_errors.one_more(now);
        if !errors(&mut self.lock().state) {
            return false;
        }
        let why = format!(
            "more than {READ_ERRORS_MAX} read errors, halved each hour, were put right: {error}"
        );
        if self.fail_slot(target.slot, &why) != Failing::Failed {
            return false;
        }
        if let Err(error) = self.record(State::is_recorded).await {
            tracing::error!("{}: {error}", target.name);
        }
        true
    }

    /// A member that cannot be read or written at `within`, of what others have, keeps that in its log, or has failed;
    /// durable when it resolves.
    ///
    /// # Errors
    /// It cannot be failed, or that cannot be made durable.
    pub(super) async fn fail_or_log(
        &self,
        target: &Target,
        within: Range,
        error: &IoError,
    ) -> Result<(), IoError> {
        let logged = target.may_log(error) && self.lock().state.log_bad(target.slot, &[within]);
        if !logged && self.fail_slot(target.slot, &error.to_string()) == Failing::Last {
            return Err(error.clone());
        }
        self.record(State::is_recorded).await
    }

    /// Rewrites what cannot be read of a member, from another one, and reads it again.
    async fn rewrite_copy(&self, piece: &Piece, target: &Target) -> Result<(), (Range, IoError)> {
        let turn = self.turn(Operation::Read, piece.range, Kind::Window).await;
        // The array is being stopped, or what was cancelled there cannot be repaired: it is left as it is.
        let Ok(mut turn) = turn else {
            return Ok(());
        };
        let view = self.view();
        let holds = |copy: &&Copy| {
            let holder = view.holder(copy.part);
            holder.is_some_and(|holder| holder.target.slot == target.slot)
        };
        let Some(copy) = piece.copies.iter().find(holds) else {
            return Ok(());
        };
        let within = piece.within(*copy);
        let Ok(found) = self.read_any(piece, Which::Any, Some(target.slot)).await else {
            return Ok(());
        };
        turn.in_flight = Some(Cancelled::Data { landed: false });
        let written = target.write(within, found.data, WriteFlags::empty()).await;
        let late = written.as_ref().is_err_and(is_timeout);
        turn.in_flight = turn.in_flight.filter(|_| late);
        written.map_err(|error| (within, error))?;
        target.read(within).await.map_err(|error| (within, error))?;
        target.corrected.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Reads on the fast path, if the copy to read can be.
    pub(super) fn try_read_copies(&self, range: Range, into: &mut [u8]) -> TryIo {
        let Some(_in_place) = self.rows.try_in_place() else {
            return TryIo::WouldBlock;
        };
        let reading = self.reading(range);
        if reading.view.layout.is_reshaping() {
            return TryIo::WouldBlock;
        }
        for piece in reading.view.layout.pieces(range) {
            let start = Range::new(0, piece.range.offset - range.offset).len_usize();
            let into = &mut into[start..start + piece.range.len_usize()];
            let Some((holder, within)) = reading.pick(&piece, |_| true) else {
                return TryIo::WouldBlock;
            };
            let target = &holder.target;
            let may = target.may_try_read();
            if !may || target.disk.try_read(target.place(within), into) == TryIo::WouldBlock {
                return TryIo::WouldBlock;
            }
        }
        TryIo::Done
    }

    /// Where the first bytes of `range` are in a file, and how many lie together there.
    pub(super) fn region_start(&self, range: Range) -> Option<(FileRegion, u64)> {
        let _in_place = self.rows.try_in_place()?;
        let reading = self.reading(range);
        let has_parity = reading.view.layout.parity().is_some();
        if has_parity && (reading.view.layout.is_reshaping() || !self.rows.may_lend()) {
            return None;
        }
        let piece = reading.view.layout.piece(range);
        let (holder, within) = reading.pick(&piece, |_| true)?;
        if !holder.target.may_try_read() {
            return None;
        }
        let below = holder.target.place(within);
        let (leaf, at) = block::resolve_start(&*holder.target.disk, below);
        let (region, len) = leaf.file_region_start(at)?;
        if reading.view.layout.is_dealt() {
            return Some((region, len));
        }
        // A reshape waits for its end, and so does another level, which a reshape may follow.
        Some((holder.target.lent.lend(region)?, len))
    }
}
