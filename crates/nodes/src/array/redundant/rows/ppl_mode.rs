//! [`LogMode`]: whether partial parity logs are kept, and what members have there when that changes.
//!
//! ```text
//! kept      an empty header, behind it zeroes            parity fits everywhere: a log closes the write hole
//! paused    zeroes in place of the first header          parity is being resynced: no log can say where it fits
//! ```
//!
//! Linux takes a member without a header for one that has to be resynced, and resyncs all of a complete array. Here a
//! dirty array that lacks a member is refused then: its logs do not record what was being written.
//!
//! # Invariants
//!
//! * It changes while no row is being written, and after a flush of all members: what was written before is on them.
//! * No row is written before all holders have what the mode says, durably; also a member that is given a part.
//! * No log is reset before superblocks say, durably, which members are missing: one that comes back is no member in sync then, of which rows were
//!   being written that no log names any more.
//! * A member with rows in its log that are not durable on all others leaves the array only by failing: a replacement, of which the log is
//!   empty, takes its place while no row is being written, behind a flush.
//! * Old headers are never found behind one that is newer, or none: what they say is not true any more.
//! * A space that has a header, or once had, begins with zeroes only where the log is paused.

use block::{Errno, IoBufs, IoError, Operation, Range, WriteFlags};
use bytes::Bytes;
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};

use super::super::super::format::ppl::{HEADER_LEN, HEADER_LEN_USIZE, PplHeader, PplSpace};
use super::super::RedundantArray;
use super::super::member_table::Failing;
use super::super::members::{SlotId, Target};
use super::super::state::State;
use super::ppl_log::PartialParityLogs;
use crate::join::join_all;
use crate::zeroes::{zero_pieces, zeroes};

/// Whether logs are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array::redundant) enum LogMode {
    /// Nothing was written since the array was opened: members have what they had.
    Unprepared,
    /// They are.
    Kept,
    /// They are not.
    Paused,
}

/// What is no header, and no pause: a cut leaves it where a header was being written.
pub(super) fn invalid_header() -> IoBufs {
    std::iter::once(Bytes::from(vec![0xff; HEADER_LEN_USIZE])).collect()
}

impl RedundantArray {
    /// Resolves once a row may be written; no one changes the mode until what it gives is dropped. `None`: the array has no
    /// logs.
    ///
    /// # Errors
    /// Members that cannot be failed cannot be written.
    pub(super) async fn admit_row(&self) -> Result<Option<RwLockReadGuard<'_, LogMode>>, IoError> {
        if let Some(journal) = &self.rows.journal {
            return self.admit_journaled_row(journal).await.map(Some);
        }
        let Some(logs) = self.rows.logs() else {
            return Ok(None);
        };
        loop {
            let mode = logs.mode.read().await;
            if *mode == self.wanted_mode() {
                return Ok(Some(mode));
            }
            drop(mode);
            let mut mode = logs.mode.write().await;
            let wanted = self.wanted_mode();
            if *mode != wanted {
                self.reset_logs(logs, wanted).await?;
                *mode = wanted;
            }
        }
    }

    fn wanted_mode(&self) -> LogMode {
        match self.lock().state.is_unsynced() {
            true => LogMode::Paused,
            false => LogMode::Kept,
        }
    }

    /// Resets the logs of all holders, and of their replacements.
    pub(in crate::array::redundant) async fn reset_logs(
        &self,
        logs: &PartialParityLogs,
        mode: LogMode,
    ) -> Result<(), IoError> {
        self.on_all(|target| Box::pin(target.flush())).await?;
        self.record_missing().await?;
        let view = self.view();
        let targets = view.written().map(|holder| &*holder.target);
        let begun = targets
            .map(|target| async move { (target.slot, self.reset_log(logs, target, mode).await) });
        for (slot, begun) in join_all(begun).await {
            if let Err(error) = begun
                && self.fail_slot(slot, &error.to_string()) == Failing::Last
            {
                return Err(error);
            }
        }
        self.record(State::is_recorded).await
    }

    /// Resets the log of a member: durable when it resolves.
    async fn reset_log(
        &self,
        logs: &PartialParityLogs,
        target: &Target,
        mode: LogMode,
    ) -> Result<(), IoError> {
        let slot = target.slot;
        let space = self.log_space(slot);
        let space = space.filter(|space| space.parity_max() >= logs.parity_max());
        let space = space.ok_or_else(|| {
            let error = IoError::new(Errno::Io, Operation::Write, None);
            error.because("it has no room for a partial parity log as the others have it")
        })?;
        let first = Range::new(space.place.offset, HEADER_LEN);
        if mode == LogMode::Paused {
            let none = zeroes(HEADER_LEN_USIZE);
            target.write_at(first, none, WriteFlags::FUA).await?;
            logs.begin(slot, space);
            return Ok(());
        }
        // What is left of old headers would be replayed as long as there is one before them.
        let none = invalid_header();
        target.write_at(first, none, WriteFlags::FUA).await?;
        let rest = space.place.end().saturating_sub(first.end());
        for (place, data) in zero_pieces(Range::new(first.end(), rest)) {
            target.write_at(place, data, WriteFlags::empty()).await?;
        }
        target.flush().await?;
        let header = PplHeader::empty(logs.signature).encode();
        let header = std::iter::once(Bytes::from(header)).collect();
        target.write_at(first, header, WriteFlags::FUA).await?;
        logs.begin(slot, space);
        Ok(())
    }

    /// Resolves once no row is being written that a partial parity log has; none begins until what it gives is dropped. `None`: the array has
    /// no logs.
    pub(in crate::array::redundant) async fn without_logged_rows(
        &self,
    ) -> Option<RwLockWriteGuard<'_, LogMode>> {
        Some(self.rows.logs()?.mode.write().await)
    }

    /// Where a member keeps its log.
    pub(super) fn log_space(&self, slot: SlotId) -> Option<PplSpace> {
        let guarded = self.lock();
        PplSpace::of(&guarded.state.members.slots[slot.0].superblock)
    }

    /// Gives a member a part, with a log that is empty. `give` says whether members were still as they must be for that.
    ///
    /// # Errors
    /// They were not, or cannot be written.
    pub(in crate::array::redundant) async fn give_part_with_log(
        &self,
        slot: SlotId,
        give: impl FnOnce() -> bool,
    ) -> Result<(), IoError> {
        if let Some(journal) = &self.rows.journal {
            return self.give_part_without_log(journal, give).await;
        }
        let Some(logs) = self.rows.logs() else {
            let given = given(give());
            self.record(State::is_recorded).await?;
            return given;
        };
        let mode = logs.mode.write().await;
        // As it is found by one that opens the array before anything is written to it.
        let begins = match *mode {
            LogMode::Unprepared => LogMode::Kept,
            mode => mode,
        };
        let target = self.target(slot);
        if let Err(error) = self.reset_log(logs, &target, begins).await {
            self.fail_slot(slot, &error.to_string());
            return Err(error);
        }
        let given = given(give());
        let recorded = self.record(State::is_recorded).await;
        drop(mode);
        recorded.and(given)
    }
}

/// What became of a part that was to be given.
pub(super) fn given(is_given: bool) -> Result<(), IoError> {
    if is_given {
        return Ok(());
    }
    let error = IoError::new(Errno::Io, Operation::Write, None);
    Err(error.because("a member failed meanwhile: it gets no part"))
}
