//! Reading a table from a disk: which blocks, which copy, which kind. The bytes are judged elsewhere.

use block::{Node, Range};

use super::error::TableError;
use super::gpt::{Blocks, Gpt, GptCopy, GptFault, Header};
use super::mbr::{BootRecord, Chain, Protection, RECORD};
use super::remark::Remark;
use super::table::{DiskId, PartitionEntry, PartitionTable, RawTable, Scheme};
use crate::read::read_within;
use crate::zeroes::is_zero;

/// Block sizes that tables count in, bytes.
const BLOCK_SIZES: [u32; 2] = [512, 4096];
/// Read at once at the begin: the headers of both block sizes, bytes.
const HEAD: u64 = 8192;

/// What was found where a GPT of one block size would be.
#[derive(Debug)]
struct Look {
    blocks: Blocks,
    primary: Result<GptCopy, GptFault>,
    backup: Result<GptCopy, GptFault>,
}

impl PartitionTable {
    /// Reads the partition table of `disk`; `None` if it has none.
    ///
    /// # Errors
    /// [`TableError`]: the disk cannot be read, or what is there makes no sense.
    pub async fn read(disk: &Node) -> Result<Option<Self>, TableError> {
        let head = read_within(disk, Range::new(0, HEAD)).await?;
        let record = BootRecord::decode(&head);
        let protection = record.as_ref().and_then(BootRecord::protects);
        let foreign = record.filter(|record| !record.speaks_of_gpt() && record.is_table());
        let look = look(disk, &head).await?;
        if let Some(record) = foreign {
            let has_gpt = look.primary.is_ok();
            return read_mbr(disk, record, has_gpt).await.map(Some);
        }
        // A backup without anything before it may be all that is left, or long forgotten.
        let is_wiped = is_zero(&head);
        let speaks = record.is_some_and(|record| record.speaks_of_gpt());
        match (look.primary, look.backup) {
            (Ok(used), backup) => {
                let table = with_primary(disk, look.blocks, used, &backup, record);
                Ok(Some(finish(table, protection)))
            }
            (Err(fault), Ok(used)) if speaks || is_wiped => {
                let table = with_backup(disk, look.blocks, used, fault, record);
                Ok(Some(finish(table, protection)))
            }
            (Err(primary), Err(backup)) if speaks => Err(TableError::Gpt { primary, backup }),
            (Err(_), _) => Ok(None),
        }
    }
}

/// Looks for a GPT in blocks of both sizes; gives the better find.
async fn look(disk: &Node, head: &[u8]) -> Result<Look, TableError> {
    let [small, large] = BLOCK_SIZES;
    let small = look_with(disk, head, small).await?;
    let large = look_with(disk, head, large).await?;
    let worth = |look: &Look| match (&look.primary, &look.backup) {
        (Ok(_), Ok(_)) => 5,
        (Ok(_), Err(_)) => 4,
        (Err(_), Ok(_)) => 3,
        (Err(fault), _) if *fault != GptFault::NoHeader => 2,
        (_, Err(fault)) if *fault != GptFault::NoHeader => 1,
        _ => 0,
    };
    let own = disk.geometry().block_size;
    Ok(match worth(&small).cmp(&worth(&large)) {
        std::cmp::Ordering::Less => large,
        std::cmp::Ordering::Equal if own == 4096 => large,
        _ => small,
    })
}

async fn look_with(disk: &Node, head: &[u8], block_size: u32) -> Result<Look, TableError> {
    let blocks = Blocks::of(disk.geometry().size, block_size);
    let block = usize::try_from(block_size).unwrap_or(RECORD);
    let bytes = head.get(block..2 * block).unwrap_or_default();
    let header = Header::decode(bytes, 1, blocks);
    let backup_lba = header
        .as_ref()
        .map_or(blocks.last(), |header| header.alternate_lba);
    let primary = entries_of(disk, header, blocks).await?;
    let mut backup = copy_at(disk, backup_lba, blocks).await?;
    if primary.is_err() && backup.is_err() && backup_lba != blocks.last() {
        backup = copy_at(disk, blocks.last(), blocks).await?;
    }
    Ok(Look {
        blocks,
        primary,
        backup,
    })
}

/// The copy with its header at `lba`.
async fn copy_at(
    disk: &Node,
    lba: u64,
    blocks: Blocks,
) -> Result<Result<GptCopy, GptFault>, TableError> {
    let place = blocks.bytes(lba, 1).filter(|_| lba < blocks.count);
    let Some(place) = place else {
        return Ok(Err(GptFault::BehindDisk));
    };
    let bytes = read_within(disk, place).await?;
    entries_of(disk, Header::decode(&bytes, lba, blocks), blocks).await
}

async fn entries_of(
    disk: &Node,
    header: Result<Header, GptFault>,
    blocks: Blocks,
) -> Result<Result<GptCopy, GptFault>, TableError> {
    let header = match header {
        Ok(header) => header,
        Err(fault) => return Ok(Err(fault)),
    };
    let bytes = read_within(disk, header.entries_range(blocks)).await?;
    Ok(header.with_entries(bytes))
}

fn with_primary(
    disk: &Node,
    blocks: Blocks,
    used: GptCopy,
    backup: &Result<GptCopy, GptFault>,
    record: Option<BootRecord>,
) -> PartitionTable {
    let behind = blocks.last().saturating_sub(used.header.alternate_lba);
    let truncated = truncated(&used, blocks);
    let mut remarks = Vec::new();
    match backup {
        // Truncated with the rest of the disk: reported before.
        _ if truncated.is_some() => {}
        Err(fault) => remarks.push(Remark::BackupDamaged(*fault)),
        Ok(backup) if !used.agrees(backup) => remarks.push(Remark::BackupDiffers),
        Ok(_) => {}
    }
    if behind > 0 {
        let behind = behind.saturating_mul(u64::from(blocks.size));
        remarks.push(Remark::BackupNotAtEnd { behind });
    }
    remarks.extend(truncated);
    let gpt = Gpt {
        used,
        is_primary: true,
        record: record.map(Box::new),
    };
    gpt_table(disk, blocks, gpt, remarks)
}

fn with_backup(
    disk: &Node,
    blocks: Blocks,
    used: GptCopy,
    fault: GptFault,
    record: Option<BootRecord>,
) -> PartitionTable {
    let mut remarks = vec![Remark::PrimaryDamaged(fault)];
    remarks.extend(truncated(&used, blocks));
    let gpt = Gpt {
        used,
        is_primary: false,
        record: record.map(Box::new),
    };
    gpt_table(disk, blocks, gpt, remarks)
}

/// Says so where the disk ends before its GPT does.
fn truncated(used: &GptCopy, blocks: Blocks) -> Option<Remark> {
    let header = &used.header;
    let last = header.last_usable.max(header.alternate_lba);
    (last > blocks.last()).then(|| Remark::Truncated {
        expected: last.saturating_add(1).saturating_mul(blocks.size.into()),
        size: blocks.count * u64::from(blocks.size),
    })
}

fn gpt_table(disk: &Node, blocks: Blocks, gpt: Gpt, remarks: Vec<Remark>) -> PartitionTable {
    PartitionTable {
        scheme: Scheme::Gpt,
        block_size: blocks.size,
        id: gpt.used.id(),
        disk_size: disk.geometry().size,
        partitions: gpt.used.partitions(blocks),
        remarks,
        raw: RawTable::Gpt(Box::new(gpt)),
    }
}

fn finish(mut table: PartitionTable, protection: Option<Protection>) -> PartitionTable {
    match protection {
        Some(Protection::Pure) => {}
        Some(Protection::Hybrid) => table.remarks.push(Remark::Hybrid),
        None => table.remarks.push(Remark::Unprotected),
    }
    table.judge()
}

async fn read_mbr(
    disk: &Node,
    record: BootRecord,
    has_gpt: bool,
) -> Result<PartitionTable, TableError> {
    let geometry = disk.geometry();
    let (block_size, guessed) = record.block_size(geometry.size, geometry.block_size);
    let blocks = Blocks::of(geometry.size, block_size);
    let mut partitions = record.primary(blocks);
    let mut remarks = Vec::new();
    if guessed {
        remarks.push(Remark::BlocksGuessed { block_size });
    }
    if has_gpt {
        remarks.push(Remark::GptIgnored);
    }
    let is_extended = |entry: &&PartitionEntry| entry.kind.is_extended() && entry.fault.is_none();
    let extended: Vec<PartitionEntry> = partitions.iter().filter(is_extended).cloned().collect();
    let mut logical = Vec::new();
    let mut number = 5;
    for extended in &extended {
        let mut chain = Chain::of(record, blocks, extended, number);
        while let Some(place) = chain.wanted() {
            let bytes = read_within(disk, place).await?;
            let Some(next) = BootRecord::decode(&bytes) else {
                remarks.push(Remark::ChainBroken { at: place.offset });
                break;
            };
            partitions.extend(chain.take(&next)?);
            logical.push((place.offset, next));
        }
        number = chain.number();
    }
    let table = PartitionTable {
        scheme: Scheme::Mbr,
        block_size,
        id: DiskId::Signature(record.signature()),
        disk_size: geometry.size,
        partitions,
        remarks,
        raw: RawTable::Mbr {
            record: Box::new(record),
            logical,
        },
    };
    Ok(table.judge())
}
