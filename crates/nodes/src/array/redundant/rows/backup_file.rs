//! [`OpenBackup`]: the backup file of a reshape that moves rows in place, as mdadm has it: rows are in it, durably, before they are written over.
//!
//! ```text
//! 0        4096                       4096 + half
//! │ header │ rows of one window       │ rows of the next window    │     data ─► flush ─► header ─► flush
//! ```
//!
//! Windows take both halves in turn, so that the header names whole rows at any moment: those of the window that is moved, or that was moved last.
//!
//! # Invariants
//!
//! * What the header names, durably or perhaps, is not written over.
//! * Where a header may name rows that are not moved yet, and is not known to, nothing is written to these: a stale copy would be restored over it.
//! * A file is taken that is new, or a backup of this array.

use std::sync::Arc;

use block::{Errno, IoBufs, IoError, Node, Operation, Range, WriteFlags};
use bytes::Bytes;
use engine::clock;

use super::super::super::external_input::seconds;
use super::super::super::format::reshape_backup::{PLACE_LEN, ReshapeBackup, SavedRange};
use super::super::super::{ArrayError, BackupFile};
use super::super::RedundantArray;
use super::super::row_section::RowSections;
use super::backup_place::BackupPlace;
use super::reshape::RETRY;

/// Bytes of the array that are moved at once, where a row is not larger, as mdadm does.
const HALF_MAX: u64 = 16 << 20;
/// Windows of what is left to be moved, at least: requests wait for one.
const WINDOWS_MIN: u64 = 32;

/// The backup file of a reshape that is going on.
#[derive(Debug)]
pub(in super::super) struct OpenBackup {
    file: Arc<dyn BackupFile>,
    /// `None`: a request failed, and it is opened again: a failed flush of a disk stays failed.
    disk: Option<Node>,
    /// The array's UUID, as backups have it.
    array: [u8; 16],
    /// Bytes of the array that it has room for twice.
    pub(super) half: u64,
    /// What the header names, or may.
    named: Vec<SavedRange>,
}

/// Bytes of a window, at most.
fn half_of(sections: &RowSections) -> u64 {
    let left = sections
        .next_in_place(u64::MAX)
        .map_or(0, |range| range.len);
    let most = sections.next_in_place(HALF_MAX.min(left / WINDOWS_MIN));
    most.map_or(PLACE_LEN, |range| range.len)
}

impl OpenBackup {
    /// A file for an array that is to be reshaped so. Its header names nothing.
    ///
    /// # Errors
    /// It cannot be made, or something else is in it.
    pub(super) async fn create(
        file: Arc<dyn BackupFile>,
        array: [u8; 16],
        sections: &RowSections,
    ) -> Result<Self, ArrayError> {
        let found = file.open().await;
        if let Some(found) = found.map_err(|why| refused(&*file, &why))? {
            let header = BackupPlace::File(found).header(0).await;
            let is_own = header.is_ok_and(|header| header.array == array);
            if !is_own {
                let what = format!("{} exists, and is no backup of this array", file.name());
                let next = "name another one, or remove it";
                return Err(ArrayError::refused(what, next));
            }
        }
        Self::reopen(file, array, sections, Vec::new()).await
    }

    /// A file with room for what is left to be moved. `named`: what its header names, which is not needed any more: it names nothing then.
    pub(super) async fn reopen(
        file: Arc<dyn BackupFile>,
        array: [u8; 16],
        sections: &RowSections,
        named: Vec<SavedRange>,
    ) -> Result<Self, ArrayError> {
        let half = half_of(sections);
        let end = named.iter().map(end_of).max().unwrap_or(0);
        let len = end.max(PLACE_LEN + half) + half;
        let disk = file.create(len).await;
        let disk = disk.map_err(|why| refused(&*file, &why))?;
        let mut backup = Self {
            file,
            disk: Some(disk),
            array,
            half,
            named,
        };
        let forgotten = backup.forget().await;
        forgotten.map_err(|error| refused(&*backup.file, &error.to_string()))?;
        Ok(backup)
    }

    /// Where `len` bytes are written: nowhere in what the header names.
    fn free_place(&self, len: u64) -> u64 {
        let starts = self.named.iter().map(|saved| saved.at);
        match starts.min() {
            Some(start) if start < PLACE_LEN + len => {
                let end = self.named.iter().map(end_of).max().unwrap_or(0);
                end.max(PLACE_LEN + self.half)
            }
            _ => PLACE_LEN,
        }
    }

    /// Writes durably.
    async fn write(&mut self, place: Range, data: IoBufs) -> Result<(), IoError> {
        let disk = match self.disk.take() {
            Some(disk) => disk,
            None => {
                let opened = open_found(&*self.file).await;
                opened.map_err(|why| {
                    IoError::new(Errno::Io, Operation::Write, Some(place)).because(why)
                })?
            }
        };
        disk.write(place, data, WriteFlags::empty()).await?;
        disk.flush().await?;
        self.disk = Some(disk);
        Ok(())
    }

    /// Has rows, durably, and names them alone.
    pub(super) async fn save(&mut self, range: Range, data: &IoBufs) -> Result<(), SaveError> {
        let at = self.free_place(range.len);
        let written = self.write(Range::new(at, range.len), data.clone()).await;
        written.map_err(SaveError::Data)?;
        let named = self.name(Some(SavedRange { range, at })).await;
        named.map_err(SaveError::Header)
    }

    /// Names nothing any more.
    pub(super) async fn forget(&mut self) -> Result<(), IoError> {
        self.name(None).await
    }

    async fn name(&mut self, saved: Option<SavedRange>) -> Result<(), IoError> {
        let mut header = ReshapeBackup::empty(self.array, seconds(), PLACE_LEN);
        match saved {
            Some(saved) if saved.at == PLACE_LEN => header.first = saved,
            second => header.second = second,
        }
        self.named.extend(saved);
        let place = Range::new(0, PLACE_LEN);
        let mut block = header.encode();
        block.resize(place.len_usize(), 0);
        let data = std::iter::once(Bytes::from(block)).collect();
        self.write(place, data).await?;
        self.named = saved.into_iter().collect();
        Ok(())
    }

    /// The reshape has ended.
    async fn remove(self) {
        drop(self.disk);
        if let Err(why) = self.file.remove().await {
            tracing::warn!(
                "{}: it is not needed any more, and stays: {why}",
                self.file.name()
            );
        }
    }
}

/// What could not be written.
#[derive(Debug)]
pub(super) enum SaveError {
    /// Rows: the header names what it did before.
    Data(IoError),
    /// The header: it names one or the other.
    Header(IoError),
}

fn end_of(saved: &SavedRange) -> u64 {
    saved.at + saved.range.len
}

pub(super) fn refused(file: &dyn BackupFile, why: &str) -> ArrayError {
    let what = format!("the backup file {} cannot be used: {why}", file.name());
    ArrayError::refused(
        what,
        "choose a file on a disk that works, and is none of the array's",
    )
}

/// Opens a file that is to be there.
pub(super) async fn open_found(file: &dyn BackupFile) -> Result<Node, String> {
    file.open()
        .await?
        .ok_or_else(|| "it is not there".to_owned())
}

impl RedundantArray {
    /// Keeps a file for the reshape that is about to begin, or goes on.
    pub(super) async fn keep_backup(&self, backup: OpenBackup) {
        *self.rows.backup.lock().await = Some(backup);
    }

    /// Removes the file, of a reshape that has ended or does not begin.
    pub(super) async fn remove_backup(&self) {
        let backup = self.rows.backup.lock().await.take();
        if let Some(backup) = backup {
            backup.remove().await;
        }
    }

    /// Has the header name nothing where it may name rows that are not moved yet, however often that fails: a user must not write to these before.
    /// Where the array is being stopped, and no request waits for them, that is left.
    pub(super) async fn forget_saved(
        &self,
        backup: &mut OpenBackup,
        is_awaited: impl Fn() -> bool,
    ) {
        while let Err(error) = backup.forget().await {
            let is_over = self.takeover().is_some() || self.lock().state.stopped;
            if is_over && !is_awaited() {
                return;
            }
            tracing::error!("{}: {error}", backup.file.name());
            clock::sleep(RETRY).await;
        }
    }
}
