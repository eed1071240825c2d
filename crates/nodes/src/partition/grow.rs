//! A table on a disk that has grown: the backup GPT goes to the new end, and a partition may take the
//! room. Pure: what is to be written, and in which order.
//!
//! # Invariants
//!
//! * At any moment the disk has a valid copy of the GPT: the primary one is not touched before the
//!   backup at the new end is durable, and a damaged one is restored before the only backup moves.
//! * Partitions begin where they did and never get smaller.

use block::Range;
use gpt_disk_types::{GptPartitionEntry, LbaLe, U32Le};

use super::encode::{TableStep, backup, boot_record, primary, protective};
use super::gpt::{Blocks, ENTRY, Gpt, GptCopy, Header};
use super::mbr::{BootRecord, Protection};
use super::remark::{ALIGNMENT, Remark};
use super::table::{PartitionTable, RawTable, Scheme};

/// What growing does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Growth {
    /// To be carried out first, while the disk has its old size: the copy that restores a damaged
    /// primary GPT is found by where the disk ends.
    pub before: Vec<TableStep>,
    /// To be carried out when the disk has its new size; empty where nothing has to be done.
    pub steps: Vec<TableStep>,
    /// Where the partition lies afterwards that was to take the room.
    pub partition: Option<Range>,
    /// Whether the backup GPT moves.
    pub moves_backup: bool,
}

/// A disk that cannot be grown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrowError {
    /// The table is not understood well enough to write it.
    #[error("its partition table is not written: {0}")]
    Unsound(Remark),
    /// It needs more room than it would have.
    #[error("its GPT counts on {expected} bytes: a disk of {size} is too small for it")]
    TooSmall {
        /// Bytes that it counts on.
        expected: u64,
        /// Bytes that it would have.
        size: u64,
    },
    /// A partition and the table have bytes in common.
    #[error("partition {0} lies where its partition table is written")]
    InTable(u32),
    /// There is no such partition.
    #[error("there is no partition {0} on it")]
    NoSuch(u32),
    /// It holds others, or lies in one that does.
    #[error(
        "partition {0} is an extended or a logical one: those are not grown; use another tool, such as parted"
    )]
    Logical(u32),
    /// Others are in its way.
    #[error("partition {number} cannot grow: partition {next} lies behind it")]
    InTheWay {
        /// Which.
        number: u32,
        /// The next one on the disk.
        next: u32,
    },
    /// It is as large as it can be.
    #[error("partition {0} has no room to grow: it reaches to the end of what the table can use")]
    NoRoom(u32),
}

/// What makes `table` one of a disk of `size` bytes, with partition `number` grown if one is named.
///
/// # Errors
/// [`GrowError`].
pub fn grow(table: &PartitionTable, size: u64, number: Option<u32>) -> Result<Growth, GrowError> {
    if let Some(unsound) = table.remarks().iter().find(|it| forbids(it)) {
        return Err(GrowError::Unsound(unsound.clone()));
    }
    let blocks = Blocks::of(size, table.block_size);
    match &table.raw {
        RawTable::Gpt(gpt) => grow_gpt(table, gpt, blocks, number),
        RawTable::Mbr { record, .. } => grow_mbr(table, record, blocks, number),
    }
}

/// What the administrator has to repair first, since only they know the cause.
const fn forbids(remark: &Remark) -> bool {
    matches!(
        remark,
        Remark::Unprotected
            | Remark::Overlap { .. }
            | Remark::Impossible { .. }
            | Remark::ChainBroken { .. }
    )
}

fn grow_gpt(
    table: &PartitionTable,
    gpt: &Gpt,
    blocks: Blocks,
    number: Option<u32>,
) -> Result<Growth, GrowError> {
    let old = &gpt.used;
    let last_usable = last_usable(&old.header, blocks)?;
    let end = (last_usable + 1) * u64::from(blocks.size);
    let begin = (primary_end(&old.header, blocks) + 1) * u64::from(blocks.size);
    check_places(table, begin, end)?;
    if !gpt.is_primary && !is_usual(&old.header, blocks) {
        let fault = table.remarks().iter().find(|it| it.forbids_writes());
        return Err(GrowError::Unsound(
            fault.cloned().unwrap_or(Remark::Unprotected),
        ));
    }
    let mut new = GptCopy {
        header: Header {
            last_usable,
            ..old.header
        },
        entries: old.entries.clone(),
    };
    let partition = number
        .map(|number| grown(table, number, end).map(|range| (number, range)))
        .transpose()?;
    if let Some((number, range)) = partition {
        stretch(
            &mut new.entries,
            number,
            range.end() / u64::from(blocks.size) - 1,
        );
    }
    let mut steps = Vec::new();
    let is_there = gpt.is_primary
        && old.header.alternate_lba == blocks.last()
        && !table.remarks().iter().any(is_about_backup);
    if !(is_there && new == *old) {
        steps.extend(backup(&new, blocks));
        steps.extend(record_for(gpt, blocks));
        steps.extend(primary(&new, blocks));
    }
    let before = if gpt.is_primary {
        Vec::new()
    } else {
        primary_of(old, blocks)
    };
    Ok(Growth {
        before,
        steps,
        partition: partition.map(|(_, range)| range),
        moves_backup: !is_there,
    })
}

/// The last block before the backup. Neither what is used now nor the primary's own entries may be
/// under that.
fn last_usable(header: &Header, blocks: Blocks) -> Result<u64, GrowError> {
    let block = u64::from(blocks.size);
    let backup = header.entries_blocks(blocks) + 1;
    let least = header.last_usable.max(primary_end(header, blocks));
    let found = blocks.last().checked_sub(backup);
    found.filter(|&last| last >= least).ok_or_else(|| {
        let expected = least.saturating_add(backup + 1).saturating_mul(block);
        let size = blocks.count * block;
        GrowError::TooSmall { expected, size }
    })
}

/// Refuses where a partition lies where a copy of the table is written.
fn check_places(table: &PartitionTable, begin: u64, end: u64) -> Result<(), GrowError> {
    let mut entries = table.partitions.iter();
    let wrong = entries.find(|entry| entry.range.offset < begin || entry.range.end() > end);
    wrong.map_or(Ok(()), |entry| Err(GrowError::InTable(entry.number)))
}

/// The last block of the primary's entries.
fn primary_end(header: &Header, blocks: Blocks) -> u64 {
    let first = if header.my_lba == 1 {
        header.entries_lba
    } else {
        2
    };
    first + header.entries_blocks(blocks) - 1
}

/// Whether the primary's entries were where they usually are: a backup does not record it. Some boards
/// have their boot loader there instead.
fn is_usual(header: &Header, blocks: Blocks) -> bool {
    let behind_entries = 2 + header.entries_blocks(blocks);
    let first_mib = ALIGNMENT / u64::from(blocks.size);
    header.first_usable == behind_entries || header.first_usable == first_mib
}

const fn is_about_backup(remark: &Remark) -> bool {
    matches!(remark, Remark::BackupDamaged(_) | Remark::BackupDiffers)
}

/// The primary of a `backup` that stays where it is.
fn primary_of(backup: &GptCopy, blocks: Blocks) -> Vec<TableStep> {
    let until_backup = Blocks {
        count: backup.header.my_lba + 1,
        ..blocks
    };
    primary(backup, until_backup)
}

/// The protective boot record for the new size. A hybrid one was made by an administrator and stays.
fn record_for(gpt: &Gpt, blocks: Blocks) -> Option<TableStep> {
    let mut record: BootRecord = **gpt.record.as_ref()?;
    if record.protects() != Some(Protection::Pure) {
        return None;
    }
    let whole = protective(blocks).0.partitions[0];
    let slots = &mut record.0.partitions;
    let slot = slots
        .iter_mut()
        .find(|slot| slot.os_indicator == whole.os_indicator)?;
    (slot.size_in_lba, slot.end_chs) = (whole.size_in_lba, whole.end_chs);
    Some(boot_record(0, &record))
}

/// Where partition `number` lies when it reaches to `end`, or to the last whole MiB before.
fn grown(table: &PartitionTable, number: u32, end: u64) -> Result<Range, GrowError> {
    let entry = table.partition(number).ok_or(GrowError::NoSuch(number))?;
    let is_logical = table.scheme == Scheme::Mbr && number > 4;
    if entry.kind.is_extended() || is_logical {
        return Err(GrowError::Logical(number));
    }
    let behind = table
        .partitions
        .iter()
        .filter(|other| other.range.offset >= entry.range.end())
        .min_by_key(|other| other.range.offset);
    if let Some(next) = behind {
        let next = next.number;
        return Err(GrowError::InTheWay { number, next });
    }
    let end = end / ALIGNMENT * ALIGNMENT;
    if end <= entry.range.end() {
        return Err(GrowError::NoRoom(number));
    }
    Ok(Range::new(entry.range.offset, end - entry.range.offset))
}

/// Gives entry `number` another last block.
fn stretch(entries: &mut [u8], number: u32, last: u64) {
    let index = number as usize - 1;
    let Some(bytes) = entries.chunks_exact_mut(ENTRY as usize).nth(index) else {
        return;
    };
    let mut raw: GptPartitionEntry = bytemuck::pod_read_unaligned(bytes);
    raw.ending_lba = LbaLe::from_u64(last);
    bytes.copy_from_slice(bytemuck::bytes_of(&raw));
}

fn grow_mbr(
    table: &PartitionTable,
    record: &BootRecord,
    blocks: Blocks,
    number: Option<u32>,
) -> Result<Growth, GrowError> {
    let mut growth = Growth {
        before: Vec::new(),
        steps: Vec::new(),
        partition: None,
        moves_backup: false,
    };
    let Some(number) = number else {
        return Ok(growth);
    };
    let block = u64::from(blocks.size);
    let end = blocks.count.min(u64::from(u32::MAX)) * block;
    let range = grown(table, number, end)?;
    let mut record = *record;
    let slots = record.0.partitions.iter_mut();
    let slot = slots.zip(1..).find(|(_, at)| *at == number);
    let (slot, _) = slot.ok_or(GrowError::NoSuch(number))?;
    let count = u32::try_from(range.len / block).expect("an MBR's places have 32 bits");
    let whole = super::encode::slot(slot.os_indicator, slot.starting_lba.to_u32(), count);
    (slot.size_in_lba, slot.end_chs) = (U32Le::from_u32(count), whole.end_chs);
    growth.partition = Some(range);
    growth.steps = vec![boot_record(0, &record), TableStep::Flush];
    Ok(growth)
}
