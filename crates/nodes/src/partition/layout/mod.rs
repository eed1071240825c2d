//! A new table: where its partitions go. Pure.
//!
//! # Invariants
//!
//! * Partitions begin at multiples of 1 MiB, in the order of the request, and do not
//!   overlap.
//! * One of them, at any place in the order, may take the rest.

mod gpt;
mod mbr;

use block::Range;
use gpt_disk_types::Guid;

use super::PartitionKind;
use super::encode::protective;
use super::gpt::{Blocks, Gpt};
use super::remark::ALIGNMENT;
use super::table::{DiskId, PartitionTable, RawTable, Scheme};

/// Entries of a new GPT.
const ENTRIES: u32 = 128;
/// Partitions of a new MBR, at most.
const MBR_PARTITIONS_MAX: usize = 60;
/// Code units of a name in a GPT, at most.
const LABEL_MAX: usize = 36;

/// A partition that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPartition {
    /// Its size, bytes; `None` for what the others leave.
    pub size: Option<u64>,
    /// What it is for.
    pub kind: PartitionKind,
    /// Its name, or nothing.
    pub label: String,
    /// What it is called in a GPT; an MBR has no place for it.
    pub id: Guid,
}

/// A table that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTable {
    /// What the disk is called, which also says the kind of table.
    pub id: DiskId,
    /// The blocks to count in, bytes: 512 or 4096.
    pub block_size: u32,
    /// In this order.
    pub partitions: Vec<NewPartition>,
}

/// Partitions that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Blocks of another size.
    #[error("a partition table counts in blocks of 512 or 4096 bytes, not of {0}")]
    BlockSize(u32),
    /// No room for the table itself.
    #[error("a disk of {size} bytes is too small for a partition table: it takes at least {least}")]
    DiskTooSmall {
        /// Size of the disk, bytes.
        size: u64,
        /// Size of the smallest, bytes.
        least: u64,
    },
    /// No room for the partitions.
    #[error("the partitions take {wanted} bytes, the disk has room for {room}")]
    NoRoom {
        /// All of them, with what aligns them, bytes.
        wanted: u64,
        /// What there is, bytes.
        room: u64,
    },
    /// Two want the rest.
    #[error("partitions {0} and {1} both want the rest of the disk")]
    TwoRests(usize, usize),
    /// One has no bytes.
    #[error("partition {0} has no bytes")]
    Empty(usize),
    /// One is not made of blocks.
    #[error("partition {number}: its size is no multiple of {block_size} bytes")]
    Unaligned {
        /// Which, from 1.
        number: usize,
        /// Bytes of a block.
        block_size: u32,
    },
    /// Too many of them.
    #[error("{count} partitions are too many: at most {max}")]
    TooMany {
        /// How many.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// An MBR has no names.
    #[error("partition {0} has a name, and an MBR has no place for names")]
    NoLabels(usize),
    /// A name that does not fit.
    #[error(
        "partition {number}: its name is longer than {LABEL_MAX} characters, or has some that a GPT cannot keep"
    )]
    Label {
        /// Which, from 1.
        number: usize,
    },
    /// A type of the other kind of table.
    #[error("partition {0} has a type of another kind of table")]
    Kind(usize),
}

/// Lays `new` out on a disk of `size` bytes.
///
/// # Errors
/// [`LayoutError`].
pub fn lay_out(size: u64, new: &NewTable) -> Result<PartitionTable, LayoutError> {
    if ![512, 4096].contains(&new.block_size) {
        return Err(LayoutError::BlockSize(new.block_size));
    }
    let blocks = Blocks::of(size, new.block_size);
    check(new)?;
    let (scheme, partitions, raw) = match new.id {
        DiskId::Guid(disk) => {
            let copy = gpt::lay_out(blocks, disk, new)?;
            let record = Some(Box::new(protective(blocks)));
            let partitions = copy.partitions(blocks);
            let gpt = Gpt {
                used: copy,
                is_primary: true,
                record,
            };
            (Scheme::Gpt, partitions, RawTable::Gpt(Box::new(gpt)))
        }
        DiskId::Signature(signature) => {
            let (partitions, raw) = mbr::lay_out(blocks, signature, new)?;
            (Scheme::Mbr, partitions, raw)
        }
    };
    let table = PartitionTable {
        scheme,
        block_size: new.block_size,
        id: new.id,
        disk_size: size,
        partitions,
        remarks: Vec::new(),
        raw,
    };
    Ok(table.judge())
}

fn check(new: &NewTable) -> Result<(), LayoutError> {
    let is_gpt = matches!(new.id, DiskId::Guid(_));
    let count = new.partitions.len();
    let max = if is_gpt {
        ENTRIES as usize
    } else {
        MBR_PARTITIONS_MAX
    };
    if count > max {
        return Err(LayoutError::TooMany { count, max });
    }
    let mut rest = None;
    for (number, partition) in (1..).zip(&new.partitions) {
        match (partition.size, rest) {
            (None, Some(other)) => return Err(LayoutError::TwoRests(other, number)),
            (None, None) => rest = Some(number),
            (Some(0), _) => return Err(LayoutError::Empty(number)),
            (Some(size), _) if !size.is_multiple_of(new.block_size.into()) => {
                let block_size = new.block_size;
                return Err(LayoutError::Unaligned { number, block_size });
            }
            (Some(_), _) => {}
        }
        if is_gpt != matches!(partition.kind, PartitionKind::Gpt(_)) {
            return Err(LayoutError::Kind(number));
        }
        if !is_gpt && !partition.label.is_empty() {
            return Err(LayoutError::NoLabels(number));
        }
    }
    Ok(())
}

/// Places in `room`, each behind a gap of `gaps[n]` bytes. Room and gaps are aligned.
fn place(room: Range, gaps: &[u64], sizes: &[Option<u64>]) -> Result<Vec<Range>, LayoutError> {
    let taken = |size: u64| size.checked_next_multiple_of(ALIGNMENT);
    // The rest is at least one step of the alignment.
    let wanted = sizes
        .iter()
        .map(|size| taken(size.unwrap_or(ALIGNMENT)))
        .chain(gaps.iter().map(|&gap| Some(gap)))
        .try_fold(0_u64, |sum, size| sum.checked_add(size?));
    let wanted = wanted.unwrap_or(u64::MAX);
    if wanted > room.len {
        let room = room.len;
        return Err(LayoutError::NoRoom { wanted, room });
    }
    let rest = room.len - wanted + ALIGNMENT;
    let mut at = room.offset;
    let places = gaps.iter().zip(sizes).map(|(gap, size)| {
        let place = Range::new(at + gap, size.unwrap_or(rest));
        at = place.end().next_multiple_of(ALIGNMENT);
        place
    });
    Ok(places.collect())
}

/// What partitions may fill between `first` and `end`, bytes.
fn room(first: u64, end: u64, size: u64) -> Result<Range, LayoutError> {
    let first = first.next_multiple_of(ALIGNMENT);
    let end = end / ALIGNMENT * ALIGNMENT;
    if end <= first {
        let least = first + 2 * ALIGNMENT;
        return Err(LayoutError::DiskTooSmall { size, least });
    }
    Ok(Range::new(first, end - first))
}

fn sizes(new: &NewTable) -> Vec<Option<u64>> {
    new.partitions.iter().map(|new| new.size).collect()
}
