//! A table as bytes, and the order in which they are written.
//!
//! # Invariants
//!
//! * The backup is written and flushed before the primary: a cut at any point leaves one of them.
//! * Nothing but the table's own blocks is written.

use block::{IoError, Node, Range, WriteFlags};
use bytes::Bytes;
use gpt_disk_types::{
    Chs, Crc32, DiskGeometry, GptHeader, Lba, LbaLe, MasterBootRecord, MbrPartitionRecord, U32Le,
};
use smallvec::smallvec;

use super::gpt::{Blocks, GptCopy, Header, crc32};
use super::mbr::{BootRecord, PROTECTIVE};
use super::table::{PartitionTable, RawTable};

/// What is done to a disk to put a table on it, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableStep {
    /// Bytes are written: whole sectors of 512.
    Write {
        /// Where, bytes.
        offset: u64,
        /// What.
        data: Bytes,
    },
    /// What was written is made durable.
    Flush,
}

/// What writes a new `table`.
///
/// What was in its place is not looked at: that is the caller's to do.
#[must_use]
pub fn steps(table: &PartitionTable) -> Vec<TableStep> {
    let blocks = Blocks::of(table.disk_size, table.block_size);
    match &table.raw {
        RawTable::Gpt(gpt) => {
            let record = gpt.record.as_deref().copied();
            let record = record.unwrap_or_else(|| protective(blocks));
            let mut steps = backup(&gpt.used, blocks);
            steps.extend([boot_record(0, &record)]);
            steps.extend(primary(&gpt.used, blocks));
            steps
        }
        RawTable::Mbr { record, logical } => {
            let logical = logical.iter();
            let records = logical.map(|(offset, record)| boot_record(*offset, record));
            let mut steps: Vec<TableStep> = records.collect();
            steps.extend([TableStep::Flush, boot_record(0, record), TableStep::Flush]);
            steps
        }
    }
}

/// Carries out `steps` on `disk`.
///
/// # Errors
/// At the first that fails; the table that was valid before still is, or its other copy.
pub async fn carry_out(disk: &Node, steps: &[TableStep]) -> Result<(), IoError> {
    for step in steps {
        match step {
            TableStep::Write { offset, data } => {
                let range = Range::new(*offset, data.len() as u64);
                let data = smallvec![data.clone()];
                disk.write(range, data, WriteFlags::empty()).await?;
            }
            TableStep::Flush => disk.flush().await?,
        }
    }
    Ok(())
}

/// The backup of `copy` at the end of the disk, flushed.
pub(super) fn backup(copy: &GptCopy, blocks: Blocks) -> Vec<TableStep> {
    let header = Header {
        my_lba: blocks.last(),
        alternate_lba: 1,
        entries_lba: blocks.last() - copy.header.entries_blocks(blocks),
        ..copy.header
    };
    whole(header, &copy.entries, blocks)
}

/// `copy` as the primary one, flushed. Its entries stay where they were.
pub(super) fn primary(copy: &GptCopy, blocks: Blocks) -> Vec<TableStep> {
    let header = Header {
        my_lba: 1,
        alternate_lba: blocks.last(),
        entries_lba: if copy.header.my_lba == 1 {
            copy.header.entries_lba
        } else {
            2
        },
        ..copy.header
    };
    whole(header, &copy.entries, blocks)
}

/// Entries first: a header never speaks of what is not there yet.
fn whole(header: Header, entries: &[u8], blocks: Blocks) -> Vec<TableStep> {
    let header = Header {
        entries_sum: crc32(entries),
        ..header
    };
    let block = u64::from(blocks.size);
    let write = |lba: u64, bytes: &[u8]| {
        let mut data = bytes.to_vec();
        data.resize(bytes.len().next_multiple_of(blocks.size as usize), 0);
        TableStep::Write {
            offset: lba * block,
            data: data.into(),
        }
    };
    vec![
        write(header.entries_lba, entries),
        write(header.my_lba, &header_bytes(&header)),
        TableStep::Flush,
    ]
}

fn header_bytes(header: &Header) -> Vec<u8> {
    let mut raw = GptHeader {
        my_lba: LbaLe::from_u64(header.my_lba),
        alternate_lba: LbaLe::from_u64(header.alternate_lba),
        first_usable_lba: LbaLe::from_u64(header.first_usable),
        last_usable_lba: LbaLe::from_u64(header.last_usable),
        disk_guid: header.disk,
        partition_entry_lba: LbaLe::from_u64(header.entries_lba),
        number_of_partition_entries: U32Le::from_u32(header.entry_count),
        partition_entry_array_crc32: Crc32(U32Le::from_u32(header.entries_sum)),
        ..GptHeader::default()
    };
    raw.update_header_crc32();
    bytemuck::bytes_of(&raw).to_vec()
}

pub(super) fn boot_record(offset: u64, record: &BootRecord) -> TableStep {
    TableStep::Write {
        offset,
        data: record.encode().into(),
    }
}

/// A boot record with nothing in it.
pub(super) fn empty_record(signature: u32) -> BootRecord {
    BootRecord(MasterBootRecord {
        unique_mbr_disk_signature: signature.to_le_bytes(),
        unknown: [0; 2],
        signature: [0x55, 0xaa],
        ..MasterBootRecord::default()
    })
}

/// The boot record before a GPT: one slot over the whole disk.
pub(super) fn protective(blocks: Blocks) -> BootRecord {
    let mut record = empty_record(0);
    let count = u32::try_from(blocks.last()).unwrap_or(u32::MAX);
    record.0.partitions[0] = slot(PROTECTIVE, 1, count);
    record
}

/// A slot of a boot record.
pub(super) fn slot(kind: u8, first: u32, count: u32) -> MbrPartitionRecord {
    let last = u64::from(first) + u64::from(count) - 1;
    MbrPartitionRecord {
        boot_indicator: 0,
        start_chs: chs(first.into()),
        os_indicator: kind,
        end_chs: chs(last),
        starting_lba: U32Le::from_u32(first),
        size_in_lba: U32Le::from_u32(count),
    }
}

/// A place in cylinders, or what says that it is too far for them.
fn chs(lba: u64) -> Chs {
    Chs::from_lba(Lba(lba), DiskGeometry::UNKNOWN).unwrap_or(Chs([0xfe, 0xff, 0xff]))
}
