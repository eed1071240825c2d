//! The critical section of a reshape: the first rows of an array that gets members and has nothing free before its data. They are written over
//! old rows that they are computed from. The new members have a backup of these, where mdadm has it and in its form
//! ([`reshape_backup`](crate::array::format::reshape_backup)).
//!
//! ```text
//! read the first rows ─► backup on new members: durable ─► superblocks: position 0 ─► new rows ─► position behind them ─► backup erased
//! └────────────────────────────── all of the array is locked ────────────────────────────────────┘
//!
//! open, in the critical section: read the backup ─► new rows from the position on ─► position behind them ─► backup erased
//! ```
//!
//! # Invariants
//!
//! * No superblock has the reshape before all new members have the backup, durably.
//! * Nothing is written by a user to rows that a backup has, until the position is behind them: a backup is never older than its rows.
//! * An array in its critical section is not used before its backup was restored: neither read, nor is parity made to fit.
//!
//! # What it does not do
//!
//! A backup file is read, and not made where new members have the rows. Where rows get as much data as before, all of them are moved in place, with a file
//! ([`in_place`](super::in_place)): what was being moved is restored here, too.

use std::sync::Arc;

use block::{IoBufs, IoError, Operation, Range, WriteFlags};
use bytes::Bytes;
use engine::clock;

use super::super::super::assembly::Facts;
use super::super::super::external_input::seconds;
use super::super::super::format::Version;
use super::super::super::format::reshape_backup::{PLACE_LEN, ReshapeBackup, SavedRange};
use super::super::super::parity;
use super::super::super::parity::layout::Layout;
use super::super::super::{ArrayError, BackupFile};
use super::super::RedundantArray;
use super::super::member_table::Slot;
use super::super::members::{SlotId, Target};
use super::super::range_locks::Kind;
use super::super::reshape::NewForm;
use super::super::row_section::critical_len;
use super::super::state::State;
use super::backup_file::{OpenBackup, open_found, refused as file_refused};
use super::backup_place::FoundBackup;
use super::reshape::RETRY;
use super::sync::RowStop;
use crate::zeroes::zeroes;

/// How much of an array is moved at once when a reshape begins, and where the backup of that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct CriticalSection {
    /// Bytes of the array, from its beginning.
    len: u64,
    /// Bytes of each member that the new rows with them take.
    columns: u64,
    /// Bytes of each member that are used.
    member_size: u64,
}

/// Rows of a critical section as they were read.
#[derive(Debug)]
pub(super) struct SavedRows {
    pub(super) range: Range,
    pub(super) data: IoBufs,
    /// Where their backup is, of members.
    pub(super) on: Vec<(SlotId, [Range; 2])>,
}

impl SavedRows {
    /// Rows that a file has.
    pub(super) const fn of_file(range: Range, data: IoBufs) -> Self {
        let on = Vec::new();
        Self { range, data, on }
    }
}

impl CriticalSection {
    /// That of a form which an array is to get; `None`: its rows do not get more data, or its members are images of LVM.
    pub(in super::super) fn of(form: NewForm, facts: &Facts) -> Option<Self> {
        let before = parity::layout_of(facts).ok()?;
        let after = Layout::new(facts.level, form.layout, form.parts, form.chunk).ok()?;
        let len = critical_len(&before, &after).filter(|_| facts.version != Version::DmRaid)?;
        Some(Self {
            len,
            columns: len / after.row_len() * after.chunk,
            member_size: facts.member_size,
        })
    }

    /// Bytes of a member from the beginning of the backup to the end.
    const fn taken(&self) -> u64 {
        self.len + 2 * PLACE_LEN
    }

    /// Where on a new member the headers are, and the data between them.
    const fn places(&self) -> ([Range; 2], Range) {
        let end = self.member_size;
        let headers = [
            Range::new(end - self.taken(), PLACE_LEN),
            Range::new(end - PLACE_LEN, PLACE_LEN),
        ];
        (headers, Range::new(end - PLACE_LEN - self.len, self.len))
    }

    /// Refuses members that are too small for a backup, or have blocks that are too large.
    pub(in super::super) fn check(
        &self,
        slots: &[Slot],
        spares: &[SlotId],
    ) -> Result<(), ArrayError> {
        let next = "let mdadm do it, with a backup file: mdadm --grow --backup-file";
        if self.columns.saturating_add(self.taken()) > self.member_size {
            return Err(ArrayError::refused(
                format!(
                    "members have nothing free before their data, and are too small for a backup of {} bytes",
                    self.len
                ),
                next,
            ));
        }
        let has_large = |id: &&SlotId| {
            let block = slots[id.0].target.disk.geometry().block_size;
            u64::from(block) > PLACE_LEN
        };
        match spares.iter().find(has_large) {
            None => Ok(()),
            Some(id) => Err(ArrayError::refused(
                format!(
                    "{} has blocks of more than {PLACE_LEN} bytes, which no backup is made on",
                    slots[id.0].target.name
                ),
                next,
            )),
        }
    }
}

impl RedundantArray {
    /// Has `spares`, which are to be new members, keep what the first rows hold, durably. The whole array is locked.
    pub(super) async fn save_critical_section(
        &self,
        form: NewForm,
        spares: &[SlotId],
    ) -> Result<SavedRows, ArrayError> {
        let facts = self.facts();
        let critical = CriticalSection::of(form, &facts).expect("it was computed for the form");
        let range = Range::new(0, critical.len);
        let section = *self.layout().sections().after();
        let refused = |why: String| {
            let what = format!("the reshape does not begin: {why}");
            ArrayError::refused(what, "see the members with: outboard array status")
        };
        let old = self.read_old_rows(section, range).await;
        let old = old.map_err(|(RowStop::Failed(error) | RowStop::Lost(error))| {
            refused(format!("its first rows cannot be saved: {error}"))
        })?;
        if let Some(lost) = old.lost.first() {
            return Err(refused(format!(
                "its first rows cannot be saved: no member has {lost}"
            )));
        }
        let mut on = Vec::new();
        let (headers, place) = critical.places();
        for spare in spares {
            let target = self.target(*spare);
            let header = ReshapeBackup {
                array: self.backup_uuid(),
                written: seconds(),
                first: SavedRange {
                    range,
                    at: target.place(place).offset,
                },
                second: None,
                is_ours: true,
            };
            let written = save(&target, &header, (headers, place), old.data.clone()).await;
            written.map_err(|error| {
                refused(format!(
                    "{} does not take the backup of its first rows: {error}",
                    target.name
                ))
            })?;
            on.push((*spare, headers));
        }
        Ok(SavedRows {
            range,
            data: old.data,
            on,
        })
    }

    /// Moves the rows of the critical section, however often that fails: some may be written over by then. The whole array is locked.
    pub(super) async fn move_critical_section(&self, saved: &SavedRows) -> Result<(), IoError> {
        loop {
            let Err(error) = self.write_critical_section(saved).await else {
                break;
            };
            if self.takeover().is_some() || self.lock().state.stopped {
                return Err(error);
            }
            tracing::error!("{}: {error}", self.name());
            clock::sleep(RETRY).await;
        }
        self.lock().state.pass(saved.range.end());
        self.record_at_last().await?;
        self.passed();
        self.erase_backup(saved).await;
        Ok(())
    }

    async fn write_critical_section(&self, saved: &SavedRows) -> Result<(), IoError> {
        let after = *self.layout().sections().after();
        let written = self.write_new_rows(after, saved.range, &saved.data).await;
        written.map_err(|(RowStop::Failed(error) | RowStop::Lost(error))| error)
    }

    /// A backup that is not needed any more is not left to be found later. It is not looked for behind the critical section: that it stays harms
    /// nothing.
    async fn erase_backup(&self, saved: &SavedRows) {
        for (slot, headers) in &saved.on {
            let target = self.target(*slot);
            for place in headers {
                let blank = zeroes(place.len_usize());
                if let Err(error) = target.write(*place, blank, WriteFlags::empty()).await {
                    tracing::warn!("{}: a backup is not erased: {error}", target.name);
                }
            }
        }
    }

    /// Restores the rows of an array that was stopped in its critical section; nothing for another one. `file`: their backup file, if there is one. It
    /// is used on where all rows are moved in place.
    ///
    /// # Errors
    /// No backup of them is found, or members cannot be written.
    pub(in crate::array) async fn restore_critical_section(
        &self,
        file: Option<Arc<dyn BackupFile>>,
    ) -> Result<(), ArrayError> {
        if !self.is_critical() {
            return Ok(());
        }
        self.in_task(|array| async move { array.restore(file).await })
            .await
    }

    async fn restore(&self, file: Option<Arc<dyn BackupFile>>) -> Result<(), ArrayError> {
        let opened = match &file {
            Some(file) => {
                let opened = open_found(&**file).await;
                Some(opened.map_err(|why| file_refused(&**file, &why))?)
            }
            None => None,
        };
        let is_in_place = self.layout().sections().is_in_place();
        let FoundBackup { saved, named } = self.find_backup(opened).await?;
        let name = self.name();
        if !saved.range.is_empty() {
            tracing::warn!(
                "{name}: it was stopped while rows were moved to where others lie: {} is restored from its backup",
                saved.range
            );
        }
        let failed = |error: IoError| {
            let what = format!("rows of the array cannot be restored: {error}");
            ArrayError::refused(what, "open it again: the backup is still there")
        };
        let whole = Range::new(0, self.layout().sync_size());
        let turn = self.turn(Operation::Write, whole, Kind::Window).await;
        let _turn = turn.map_err(failed)?;
        self.level_members();
        self.record(State::is_recorded).await.map_err(failed)?;
        let written = self.write_critical_section(&saved).await;
        written.map_err(failed)?;
        self.lock().state.pass(saved.range.end());
        self.record(State::is_recorded).await.map_err(failed)?;
        self.passed();
        self.erase_backup(&saved).await;
        let Some(file) = file.filter(|_| is_in_place) else {
            return Ok(());
        };
        let layout = self.layout();
        let array = self.backup_uuid();
        let backup = OpenBackup::reopen(file, array, layout.sections(), named).await?;
        self.keep_backup(backup).await;
        if !layout.is_reshaping() {
            self.remove_backup().await;
        }
        Ok(())
    }

    /// Whether it was stopped in its critical section.
    pub(in super::super) fn is_critical(&self) -> bool {
        let layout = self.layout();
        layout
            .parity()
            .is_some_and(|sections| sections.is_critical())
    }
}

/// Writes a backup: the data, durably, then the headers that announce it.
async fn save(
    target: &Target,
    header: &ReshapeBackup,
    (headers, place): ([Range; 2], Range),
    data: IoBufs,
) -> Result<(), IoError> {
    target.write(place, data, WriteFlags::empty()).await?;
    target.flush().await?;
    let mut block = header.encode();
    block.resize(headers[0].len_usize(), 0);
    let block = Bytes::from(block);
    for place in headers {
        let data = std::iter::once(block.clone()).collect();
        target.write(place, data, WriteFlags::empty()).await?;
    }
    target.flush().await
}
