//! [`PartitionTable`]: what a partition table says, as plain data.

use std::fmt;

use block::Range;
use gpt_disk_types::Guid;

use super::PartitionKind;
use super::gpt::Gpt;
use super::mbr::BootRecord;
use super::remark::Remark;

/// Which kind of table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// GUID partition table (UEFI specification, chapter 5).
    Gpt,
    /// Master boot record, with logical partitions.
    Mbr,
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gpt => "GPT",
            Self::Mbr => "MBR",
        })
    }
}

/// What a table calls its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DiskId {
    /// Of a GPT.
    Guid(Guid),
    /// Of an MBR; 0 where it has none.
    Signature(u32),
}

impl fmt::Display for DiskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guid(guid) => write!(f, "{guid}"),
            Self::Signature(signature) => write!(f, "{signature:08x}"),
        }
    }
}

/// What `/dev/disk/by-partuuid` and `PARTUUID=` call a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartitionId {
    /// Of a GPT.
    Guid(Guid),
    /// Of an MBR: its disk's signature and its number.
    Numbered {
        /// The disk's.
        signature: u32,
        /// The partition's.
        number: u32,
    },
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guid(guid) => write!(f, "{guid}"),
            Self::Numbered { signature, number } => write!(f, "{signature:08x}-{number:02x}"),
        }
    }
}

/// Why a partition is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum EntryFault {
    /// Its end is before its begin.
    #[error("ends before it begins")]
    Backwards,
    /// It ends behind the disk.
    #[error("ends behind the disk (of {size} bytes)")]
    PastEnd {
        /// Size of the disk, bytes.
        size: u64,
    },
    /// It shares blocks with another one.
    #[error("overlaps partition {other}")]
    Overlaps {
        /// The other's number.
        other: u32,
    },
}

/// A partition, as its table says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionEntry {
    /// Its number, as the kernel counts: from 1, logical ones from 5.
    pub number: u32,
    /// Where it lies on the disk, bytes. Whether that can be is in `fault`.
    pub range: Range,
    /// What it is for.
    pub kind: PartitionKind,
    /// Its name in a GPT; empty where it has none.
    pub label: String,
    /// What the system calls it.
    pub id: PartitionId,
    /// Whether a BIOS is to boot from it.
    pub bootable: bool,
    /// Why it is not opened.
    pub fault: Option<EntryFault>,
}

/// A partition table.
#[derive(Debug, Clone)]
pub struct PartitionTable {
    /// Which kind.
    pub scheme: Scheme,
    /// The blocks it counts in, bytes: 512 or 4096.
    pub block_size: u32,
    /// What it calls the disk.
    pub id: DiskId,
    /// Size of the disk when it was read, bytes.
    pub disk_size: u64,
    /// In the order of the table.
    pub partitions: Vec<PartitionEntry>,
    pub(super) remarks: Vec<Remark>,
    /// What only writing it again needs.
    pub(super) raw: RawTable,
}

/// What is kept of the bytes of a table for writing it again.
#[derive(Debug, Clone)]
pub(super) enum RawTable {
    /// The headers that were found and the boot record before them.
    Gpt(Box<Gpt>),
    /// The boot record, and those of the logical partitions with their places in bytes.
    Mbr {
        record: Box<BootRecord>,
        logical: Vec<(u64, BootRecord)>,
    },
}

impl PartitionTable {
    /// The partition with this number.
    #[must_use]
    pub fn partition(&self, number: u32) -> Option<&PartitionEntry> {
        self.partitions.iter().find(|entry| entry.number == number)
    }

    /// What is odd or wrong about it, the worst first.
    #[must_use]
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    /// Whether its partitions are opened read-only, since the table is not to be trusted with more.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.remarks.iter().any(Remark::forbids_writes)
    }

    /// Finds what is wrong with single partitions, and with two of them together.
    pub(super) fn judge(mut self) -> Self {
        let size = self.disk_size;
        for entry in &mut self.partitions {
            if entry.fault.is_none() && entry.range.check(size, 1).is_err() {
                entry.fault = Some(EntryFault::PastEnd { size });
            }
        }
        for (number, other) in overlaps(&self.partitions) {
            for (one, other) in [(number, other), (other, number)] {
                let entry = self.partitions.iter_mut().find(|it| it.number == one);
                if let Some(entry) = entry {
                    entry.fault = entry.fault.or(Some(EntryFault::Overlaps { other }));
                }
            }
        }
        let entries = self.partitions.iter();
        let wrong = entries
            .clone()
            .filter_map(|entry| Remark::of_fault(entry.number, entry.fault?));
        let misaligned = entries
            .filter(|entry| entry.fault.is_none() && !entry.kind.is_extended())
            .filter_map(|entry| Remark::of_place(entry.number, entry.range.offset));
        let found: Vec<Remark> = wrong.chain(misaligned).collect();
        self.remarks.extend(found);
        self.remarks.sort_by_key(Remark::rank);
        self
    }
}

/// Pairs of partitions that share bytes: each one with the first before it that reaches into it.
/// Extended partitions hold others and are left out.
fn overlaps(entries: &[PartitionEntry]) -> Vec<(u32, u32)> {
    let mut by_place: Vec<&PartitionEntry> = entries
        .iter()
        .filter(|entry| entry.fault.is_none() && !entry.kind.is_extended())
        .collect();
    by_place.sort_by_key(|entry| entry.range.offset);
    let mut pairs = Vec::new();
    let mut farthest: Option<&PartitionEntry> = None;
    for entry in by_place {
        if let Some(before) = farthest.filter(|before| before.range.overlaps(&entry.range)) {
            pairs.push((entry.number, before.number));
        }
        if farthest.is_none_or(|before| before.range.end() < entry.range.end()) {
            farthest = Some(entry);
        }
    }
    pairs
}
