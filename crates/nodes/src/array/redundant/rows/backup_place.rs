//! The backup of rows that a reshape was moving when its array was stopped: in a file, or on new members. It is looked for, and read.
//!
//! # Invariants
//!
//! * What counts was written whole, is of this array and of the time of its superblocks, and has all rows that may have been written over.
//! * Where rows are moved in place, only a file of ours counts.

use std::sync::Arc;

use block::{IoBufs, Node, Range};

use super::super::super::ArrayError;
use super::super::super::format::reshape_backup::{
    PLACE_LEN, ReshapeBackup, SavedRange, backup_uuid,
};
use super::super::RedundantArray;
use super::super::member_table::{Slot, SlotState};
use super::super::members::{SlotId, Target};
use super::critical_section::SavedRows;

/// What is left to do where a backup is not found.
const NEXT: &str = "name all disks of the array; if there is a backup file, of mdadm or of outboard: outboard array grow MEMBER… --continue --backup-file FILE";

/// The same where rows are moved in place.
pub(in super::super) const NEXT_IN_PLACE: &str = "name its backup file, and all its disks: outboard array grow MEMBER… --continue --backup-file FILE";

/// A backup that counts.
#[derive(Debug)]
pub(super) struct FoundBackup {
    /// The rows from the position on; none, if all that it has were moved.
    pub(super) saved: SavedRows,
    /// What its header names.
    pub(super) named: Vec<SavedRange>,
}

impl RedundantArray {
    /// The backup of the rows from the position on: that of the file, or of the first new member with one.
    pub(super) async fn find_backup(&self, file: Option<Node>) -> Result<FoundBackup, ArrayError> {
        let members = self.new_members();
        let members = members.into_iter().map(|slot| self.target(slot));
        let end = self.member_size();
        let members = members.map(|target| BackupPlace::Member { target, end });
        let files = file.map(BackupPlace::File).into_iter();
        let mut why_not = Vec::new();
        for place in files.chain(members) {
            match self.read_backup(&place).await {
                Ok(saved) => return Ok(saved),
                Err(why) => why_not.push(format!("{}: {why}", place.name())),
            }
        }
        let layout = self.layout();
        let position = layout.sections().after().range.end();
        if layout.sections().is_in_place() {
            let why_not = match why_not.is_empty() {
                true => "none is named".to_owned(),
                false => why_not.join("; "),
            };
            return Err(ArrayError::refused(
                format!(
                    "a reshape was moving the array's rows to where they are, at byte {position}, and goes on with its backup file alone: {why_not}"
                ),
                NEXT_IN_PLACE,
            ));
        }
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

    /// The array's UUID, as backups have it.
    pub(super) fn backup_uuid(&self) -> [u8; 16] {
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
    async fn read_backup(&self, place: &BackupPlace) -> Result<FoundBackup, String> {
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
        if sections.is_in_place() && !backup.is_ours {
            // In the guest its file had rows as they were behind the move, with superblocks from before it.
            return Err("mdadm wrote it, and knows alone how far its kernel came: end the reshape with mdadm --grow --continue --backup-file".to_owned());
        }
        let (mut data, mut to) = (IoBufs::new(), position);
        for saved in backup.from(position) {
            data.extend(place.read(saved.at, saved.range.len).await?);
            to = saved.range.end();
        }
        let len = to - position;
        // In place no row behind those that it has was written over.
        let is_enough = match sections.is_in_place() {
            true => len > 0 || backup.ranges().all(|saved| saved.range.end() == position),
            false => sections.is_clear_at(to),
        };
        if !len.is_multiple_of(row_len) || !is_enough {
            return Err(format!("it has one that ends at byte {to}, too early"));
        }
        Ok(FoundBackup {
            saved: SavedRows {
                range: Range::new(position, len),
                data,
                on: place.to_erase(first),
            },
            named: backup.ranges().collect(),
        })
    }
}

/// Where a backup may be.
#[derive(Debug)]
pub(super) enum BackupPlace {
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

    pub(super) async fn header(&self, at: u64) -> Result<ReshapeBackup, String> {
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
