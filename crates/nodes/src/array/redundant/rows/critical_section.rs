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
//! A backup file of mdadm is read, and never made.

use std::sync::Arc;

use block::{IoBufs, IoError, Node, Operation, Range, WriteFlags};
use bytes::Bytes;
use engine::clock;

use super::super::super::ArrayError;
use super::super::super::assembly::Facts;
use super::super::super::external_input::seconds;
use super::super::super::format::Version;
use super::super::super::format::reshape_backup::{
    PLACE_LEN, ReshapeBackup, SavedRange, backup_uuid,
};
use super::super::super::parity;
use super::super::super::parity::layout::Layout;
use super::super::RedundantArray;
use super::super::member_table::{Slot, SlotState};
use super::super::members::{SlotId, Target};
use super::super::range_locks::Kind;
use super::super::reshape::NewForm;
use super::super::row_section::critical_len;
use super::super::state::State;
use super::reshape::RETRY;
use super::sync::RowStop;
use crate::zeroes::zeroes;

/// What is left to do where a backup is not found.
const NEXT: &str = "name all disks of the array; if mdadm made a backup file: outboard array grow MEMBER… --continue --backup-file FILE";

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
    range: Range,
    data: IoBufs,
    /// Where their backup is.
    on: Vec<(SlotId, [Range; 2])>,
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

    /// Restores the rows of an array that was stopped in its critical section; nothing for another one. `file`: a backup file of mdadm.
    ///
    /// # Errors
    /// No backup of them is found, or members cannot be written.
    pub(in crate::array) async fn restore_critical_section(
        &self,
        file: Option<Node>,
    ) -> Result<(), ArrayError> {
        if !self.is_critical() {
            return Ok(());
        }
        self.in_task(|array| async move { array.restore(file.as_ref()).await })
            .await
    }

    async fn restore(&self, file: Option<&Node>) -> Result<(), ArrayError> {
        let saved = self.find_backup(file).await?;
        let name = self.name();
        tracing::warn!(
            "{name}: it was stopped while the first rows of a reshape were moved: {} is restored from its backup",
            saved.range
        );
        let failed = |error: IoError| {
            let what = format!("the first rows of the array cannot be restored: {error}");
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
        Ok(())
    }

    /// Whether it was stopped in its critical section.
    pub(in super::super) fn is_critical(&self) -> bool {
        let layout = self.layout();
        layout
            .parity()
            .is_some_and(|sections| sections.is_critical())
    }

    /// The backup of the rows from the position on: that of the file, or of the first new member with one.
    async fn find_backup(&self, file: Option<&Node>) -> Result<SavedRows, ArrayError> {
        let members = self.new_members();
        let members = members.into_iter().map(|slot| self.target(slot));
        let end = self.member_size();
        let members = members.map(|target| BackupPlace::Member { target, end });
        let files = file.cloned().map(BackupPlace::File).into_iter();
        let mut why_not = Vec::new();
        for place in files.chain(members) {
            match self.read_backup(&place).await {
                Ok(saved) => return Ok(saved),
                Err(why) => why_not.push(format!("{}: {why}", place.name())),
            }
        }
        let position = self.layout().sections().after().range.end();
        let why_not = match why_not.is_empty() {
            true => "no new member is here".to_owned(),
            false => why_not.join("; "),
        };
        Err(ArrayError::refused(
            format!(
                "the array was stopped while the first rows of a reshape were moved, at byte {position}, and no new member has a backup of them: {why_not}"
            ),
            NEXT,
        ))
    }

    /// Members with a part that was not there before the reshape.
    fn new_members(&self) -> Vec<SlotId> {
        let guarded = self.lock();
        let state = &guarded.state;
        let before = state
            .facts
            .reshape
            .map_or(u32::MAX, |reshape| reshape.parts);
        let slots = state.members.slots.iter();
        let is_new = |slot: &&Slot| {
            let is_added = slot.part.is_some_and(|part| u32::from(part) >= before);
            is_added && slot.state == SlotState::InSync
        };
        slots.filter(is_new).map(|slot| slot.target.slot).collect()
    }

    fn backup_uuid(&self) -> [u8; 16] {
        let guarded = self.lock();
        let mut slots = guarded.state.members.slots.iter();
        let holder = slots.find(|slot| slot.holds());
        backup_uuid(&holder.expect("an array has members").superblock)
    }

    /// When superblocks were written last, seconds since 1970.
    fn updated(&self) -> u64 {
        let guarded = self.lock();
        let slots = guarded.state.members.slots.iter();
        let holders = slots.filter(|slot| slot.holds());
        let updated = holders.map(|slot| slot.superblock.updated);
        updated.max().unwrap_or(0)
    }

    /// The backup that is in a place. `Err`: why there is none that counts.
    async fn read_backup(&self, place: &BackupPlace) -> Result<SavedRows, String> {
        let backup = place.header(place.last_header()).await?;
        if backup.array != self.backup_uuid() {
            return Err("it has one of another array".to_owned());
        }
        if !backup.is_of(self.updated()) {
            return Err(format!(
                "it has one of another time, {} s since 1970",
                backup.written
            ));
        }
        let first = backup.first.at.saturating_sub(PLACE_LEN);
        if place.header(first).await? != backup {
            return Err("it has one that was not written whole".to_owned());
        }
        let layout = self.layout();
        let sections = layout.sections();
        let position = sections.after().range.end();
        let row_len = sections.after().layout.row_len();
        let (mut data, mut to) = (IoBufs::new(), position);
        for saved in backup.from(position) {
            data.extend(place.read(saved.at, saved.range.len).await?);
            to = saved.range.end();
        }
        let len = to - position;
        if !len.is_multiple_of(row_len) || !sections.is_clear_at(to) {
            return Err(format!("it has one that ends at byte {to}, too early"));
        }
        Ok(SavedRows {
            range: Range::new(position, len),
            data,
            on: place.to_erase(first),
        })
    }
}

/// Where a backup may be.
#[derive(Debug)]
enum BackupPlace {
    /// mdadm's backup file.
    File(Node),
    /// The end of the bytes that the array uses of a new member.
    Member { target: Arc<Target>, end: u64 },
}

impl BackupPlace {
    fn name(&self) -> &str {
        match self {
            Self::File(_) => "the backup file",
            Self::Member { target, .. } => &target.name,
        }
    }

    /// Where the header is that is looked for first, byte of the disk or file.
    fn last_header(&self) -> u64 {
        match self {
            Self::File(_) => 0,
            Self::Member { target, end } => {
                let last = Range::new(end - PLACE_LEN, PLACE_LEN);
                target.place(last).offset
            }
        }
    }

    /// Reads bytes of the disk or file that can be those of a backup.
    async fn read(&self, at: u64, len: u64) -> Result<IoBufs, String> {
        let (start, size) = match self {
            Self::File(disk) => (0, disk.geometry().size),
            Self::Member { target, end } => (target.place(Range::new(0, 0)).offset, *end),
        };
        let within = at
            .checked_sub(start)
            .filter(|at| *at <= size && len <= size - at);
        let Some(within) = within.map(|at| Range::new(at, len)) else {
            return Err("it has one that lies elsewhere".to_owned());
        };
        let read = match self {
            Self::File(disk) => disk.read(within).await,
            Self::Member { target, .. } => target.read(within).await,
        };
        read.map_err(|error| format!("it cannot be read: {error}"))
    }

    async fn header(&self, at: u64) -> Result<ReshapeBackup, String> {
        decode(&self.read(at, PLACE_LEN).await?.concat())
    }

    /// The headers that become zeroes once a backup is not needed any more; `first`: where the first is. A file stays as it is.
    fn to_erase(&self, first: u64) -> Vec<(SlotId, [Range; 2])> {
        match self {
            Self::File(_) => Vec::new(),
            Self::Member { target, end } => {
                let first = first - target.place(Range::new(0, 0)).offset;
                let headers = [first, end - PLACE_LEN].map(|at| Range::new(at, PLACE_LEN));
                vec![(target.slot, headers)]
            }
        }
    }
}

fn decode(bytes: &[u8]) -> Result<ReshapeBackup, String> {
    match ReshapeBackup::decode(bytes) {
        Ok(Some(backup)) => Ok(backup),
        Ok(None) => Err("it has none".to_owned()),
        Err(problem) => Err(format!("it has one that is damaged: {problem}")),
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
