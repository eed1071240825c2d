//! Rows that are moved to where they are: an array without free space before its data gets another chunk or layout. Each window is in the backup
//! file ([`backup_file`](super::backup_file)) before it is written over.
//!
//! ```text
//! read old rows ─► backup file: durable ─► new rows ─► flush, position: durable ─► the next window, read and in the file ─► requests go there
//! └──────────────────────────────────── the window is locked ──────────────────────────────────────────────────┘
//! ```
//!
//! # Invariants
//!
//! * Rows that the header of the file names are locked: what it has is never older than they are. `mdadm --assemble` restores all that it names, also rows
//!   before the position, and refuses an array of which it names none: so the last window is named, and locked, until the next one is in
//!   the file. Where a request waits for it meanwhile, the header names nothing first.
//! * What cannot be read is not moved: the reshape pauses, and is not continued before that was written or its member was replaced.
//!
//! # What it does not do
//!
//! An array that was stopped is not opened without its file, however it was stopped: superblocks do not say whether a window was being moved.

use std::sync::{Arc, MutexGuard, PoisonError};

use block::{Errno, IoError, Operation, Range};

use super::super::super::{ArrayError, BackupFile};
use super::super::RedundantArray;
use super::super::layout::Layout;
use super::super::range_locks::{Kind, Turn};
use super::backup_file::{OpenBackup, SaveError};
use super::critical_section::SavedRows;
use super::reshape::hull;
use super::reshape_losses::OldRows;
use super::sync::RowStop;
use crate::zeroes::zeroes;

/// A window that is named by the file, and locked.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamedWindow {
    pub(super) turn: Turn,
    pub(super) place: Range,
}

impl RedundantArray {
    /// Makes the backup file of a reshape that is to begin. `layout`: that of the array then.
    pub(super) async fn create_backup(
        &self,
        file: Option<Arc<dyn BackupFile>>,
        layout: &Layout,
    ) -> Result<(), ArrayError> {
        let Some(file) = file else {
            return Err(ArrayError::refused(
                "rows are moved to where they are, and no backup file is there",
                "name one on another disk: --backup-file FILE",
            ));
        };
        let backup = OpenBackup::create(file, self.backup_uuid(), layout.sections()).await?;
        self.keep_backup(backup).await;
        Ok(())
    }

    /// Moves the next window, of about `wanted` bytes. It stays locked ([`release_window`](Self::release_window)).
    pub(super) async fn move_in_place(&self, wanted: u64) -> Result<Option<Range>, RowStop> {
        // Windows are moved one after the other.
        let mut kept = self.rows.backup.lock().await;
        let layout = self.layout();
        let sections = layout.sections();
        let Some(before) = sections.before() else {
            return Ok(None);
        };
        let Some(backup) = kept.as_mut() else {
            let error = IoError::new(Errno::Io, Operation::Write, None);
            let why = "its backup file is not open: stop the array, then: outboard array grow MEMBER… --continue --backup-file FILE";
            return Err(RowStop::Failed(error.because(why)));
        };
        let Some(range) = sections.next_in_place(wanted.min(backup.half)) else {
            return Ok(None);
        };
        let (before, after) = (*before, *sections.after());
        let old = before.range;
        let old = Range::new(old.offset, range.end().min(old.end()) - old.offset);
        let place = hull(&after, range, &before, old);
        let turn = self.take_turn(Operation::Write, place, Kind::Window);
        let turn = turn.map_err(RowStop::Failed)?;
        // A request that came before may wait for the last window, and this one for the request.
        self.release_awaited(backup).await;
        self.wait_for(turn.turn).await.map_err(RowStop::Failed)?;
        self.catch_members_up().await.map_err(RowStop::Failed)?;
        let OldRows { mut data, lost } = self.read_old_rows(before, old).await?;
        if let Some(lost) = lost.first() {
            let error = IoError::new(Errno::Io, Operation::Read, Some(*lost));
            return Err(RowStop::Lost(
                error.because("no member has it: write it, or restore it, first"),
            ));
        }
        data.extend(zeroes(Range::new(0, range.len - old.len).len_usize()));
        match backup.save(range, &data).await {
            Ok(()) => {}
            Err(SaveError::Data(error)) => return Err(RowStop::Failed(error)),
            Err(SaveError::Header(error)) => {
                let named = NamedWindow {
                    turn: turn.turn,
                    place,
                };
                self.forget_saved(backup, || self.is_awaited(named)).await;
                return Err(RowStop::Failed(error));
            }
        }
        self.unlock_window();
        let saved = SavedRows::of_file(range, data);
        self.move_critical_section(&saved)
            .await
            .map_err(RowStop::Failed)?;
        if self.layout().is_reshaping() {
            let (turn, place) = turn.keep();
            *self.named_window() = Some(NamedWindow { turn, place });
            return Ok(Some(range));
        }
        drop(kept);
        self.remove_backup().await;
        Ok(Some(range))
    }

    fn named_window(&self) -> MutexGuard<'_, Option<NamedWindow>> {
        let named = &self.rows.named_window;
        named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a request waits for a window.
    fn is_awaited(&self, window: NamedWindow) -> bool {
        self.lock().state.locks.is_awaited(window.turn)
    }

    /// The window that was moved last is not locked any more.
    fn unlock_window(&self) {
        let Some(window) = self.named_window().take() else {
            return;
        };
        let wakers = {
            let state = &mut self.lock().state;
            state.end(window.turn, window.place, Kind::Window)
        };
        wakers.into_iter().for_each(std::task::Waker::wake);
    }

    /// Unlocks the window that was moved last where a request waits for it.
    async fn release_awaited(&self, backup: &mut OpenBackup) {
        let window = *self.named_window();
        if window.is_some_and(|window| self.is_awaited(window)) {
            self.forget_window(backup).await;
        }
    }

    /// The file names it no more, then it is unlocked.
    async fn forget_window(&self, backup: &mut OpenBackup) {
        if self.takeover().is_none()
            && let Err(error) = backup.forget().await
        {
            // What it names was moved: only mdadm would restore it.
            tracing::error!("{}: {error}", self.name());
        }
        self.unlock_window();
    }

    /// Unlocks the window that was moved last, if one is locked; `only_awaited`: if a request waits for it.
    pub(in crate::array) async fn release_window(&self, only_awaited: bool) {
        if self.named_window().is_none() {
            return;
        }
        let mut kept = self.rows.backup.lock().await;
        match kept.as_mut() {
            Some(backup) if only_awaited => self.release_awaited(backup).await,
            Some(backup) => self.forget_window(backup).await,
            None => self.unlock_window(),
        }
    }

    /// No change begins any more: the window that was moved last is unlocked, and stays named unless a request waits for it.
    pub(in super::super) async fn end_window(&self) {
        self.release_window(true).await;
        self.unlock_window();
    }
}
