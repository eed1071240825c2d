//! A GPT as bytes: headers and entries, and what makes them valid. Pure.
//!
//! ```text
//! block 0      protective MBR
//! block 1      header: its own place, the other header's, usable blocks, entries' place, CRCs
//! block 2…     entries, 128 bytes each
//!   …          partitions
//! last-n…      the backup's entries
//! last block   the backup's header
//! ```
//!
//! The structures are those of `gpt_disk_types`; what is believed of them is decided here, as Linux
//! does (block/partitions/efi.c) and within limits.

use block::Range;
use gpt_disk_types::{GptHeader, GptPartitionEntry, Guid};

use super::mbr::BootRecord;
use super::table::{EntryFault, PartitionEntry, PartitionId};
use super::{DiskId, PartitionKind};

/// Bytes of a header.
pub(super) const HEADER: usize = size_of::<GptHeader>();
/// Bytes of an entry: what Linux takes.
pub(super) const ENTRY: u32 = 128;
/// Entries of a table, at most: what is read of a disk is at most 512 KiB.
pub(super) const ENTRIES_MAX: u32 = 4096;

/// The blocks of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Blocks {
    /// Bytes of a block.
    pub(super) size: u32,
    /// How many there are.
    pub(super) count: u64,
}

impl Blocks {
    pub(super) fn of(disk_size: u64, block_size: u32) -> Self {
        Self {
            size: block_size,
            count: disk_size / u64::from(block_size),
        }
    }

    pub(super) const fn last(self) -> u64 {
        self.count.saturating_sub(1)
    }

    /// `count` blocks at `lba`, in bytes; `None` if that overflows.
    pub(super) fn bytes(self, lba: u64, count: u64) -> Option<Range> {
        let size = u64::from(self.size);
        let range = Range::new(lba.checked_mul(size)?, count.checked_mul(size)?);
        range.offset.checked_add(range.len)?;
        Some(range)
    }
}

/// What makes a copy of a GPT unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum GptFault {
    /// The disk is too small to hold it.
    #[error("it lies behind the end of the disk")]
    BehindDisk,
    /// No `EFI PART`.
    #[error("there is no header")]
    NoHeader,
    /// A header of an impossible size.
    #[error("its header is {0} bytes long")]
    HeaderSize(u32),
    /// The header's checksum is wrong.
    #[error("the checksum of its header is wrong")]
    HeaderSum,
    /// It belongs elsewhere.
    #[error("its header belongs to block {0}")]
    Elsewhere(u64),
    /// First and last usable block make no sense.
    #[error("its usable blocks are {first} to {last}")]
    Usable {
        /// First.
        first: u64,
        /// Last.
        last: u64,
    },
    /// Entries of another size than Linux takes.
    #[error("its entries have {0} bytes; Linux takes 128")]
    EntrySize(u32),
    /// More entries than are read.
    #[error("it has room for {0} entries; at most {ENTRIES_MAX} are read")]
    EntryCount(u32),
    /// Entries at an impossible place.
    #[error("its entries are at block {0}")]
    EntriesPlace(u64),
    /// The checksum of the entries is wrong.
    #[error("the checksum of its entries is wrong")]
    EntriesSum,
}

/// A header that is whole; its entries are not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) my_lba: u64,
    pub(super) alternate_lba: u64,
    pub(super) first_usable: u64,
    pub(super) last_usable: u64,
    pub(super) disk: Guid,
    pub(super) entries_lba: u64,
    pub(super) entry_count: u32,
    pub(super) entries_sum: u32,
}

/// One copy of a GPT: its header and its entries, as they are on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GptCopy {
    pub(super) header: Header,
    pub(super) entries: Vec<u8>,
}

/// The GPT of a disk: what was believed, and what there is of the other copy.
#[derive(Debug, Clone)]
pub(super) struct Gpt {
    /// The copy that is used.
    pub(super) used: GptCopy,
    /// Whether that is the primary one.
    pub(super) is_primary: bool,
    /// The boot record before it.
    pub(super) record: Option<Box<BootRecord>>,
}

/// Checksum of headers and entries.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    const CRC: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);
    CRC.checksum(bytes)
}

impl Header {
    /// The header in `block`, which was read from `lba`.
    pub(super) fn decode(block: &[u8], lba: u64, blocks: Blocks) -> Result<Self, GptFault> {
        let bytes = block.get(..HEADER).ok_or(GptFault::BehindDisk)?;
        let raw: GptHeader = bytemuck::pod_read_unaligned(bytes);
        if !raw.is_signature_valid() {
            return Err(GptFault::NoHeader);
        }
        let size = raw.header_size.to_u32();
        let summed = usize::try_from(size)
            .ok()
            .filter(|&size| size >= HEADER)
            .and_then(|size| block.get(..size))
            .ok_or(GptFault::HeaderSize(size))?;
        let mut summed = summed.to_vec();
        summed[16..20].fill(0);
        if crc32(&summed) != raw.header_crc32.0.to_u32() {
            return Err(GptFault::HeaderSum);
        }
        let header = Self {
            my_lba: raw.my_lba.to_u64(),
            alternate_lba: raw.alternate_lba.to_u64(),
            first_usable: raw.first_usable_lba.to_u64(),
            last_usable: raw.last_usable_lba.to_u64(),
            disk: raw.disk_guid,
            entries_lba: raw.partition_entry_lba.to_u64(),
            entry_count: raw.number_of_partition_entries.to_u32(),
            entries_sum: raw.partition_entry_array_crc32.0.to_u32(),
        };
        header.check(lba, raw.size_of_partition_entry.to_u32(), blocks)?;
        Ok(header)
    }

    fn check(&self, lba: u64, entry_size: u32, blocks: Blocks) -> Result<(), GptFault> {
        if self.my_lba != lba {
            return Err(GptFault::Elsewhere(self.my_lba));
        }
        if self.last_usable < self.first_usable || self.first_usable > blocks.last() {
            let (first, last) = (self.first_usable, self.last_usable);
            return Err(GptFault::Usable { first, last });
        }
        if entry_size != ENTRY {
            return Err(GptFault::EntrySize(entry_size));
        }
        if self.entry_count == 0 || self.entry_count > ENTRIES_MAX {
            return Err(GptFault::EntryCount(self.entry_count));
        }
        let end = self.entries_lba.checked_add(self.entries_blocks(blocks));
        if self.entries_lba == 0 || end.is_none_or(|end| end > blocks.count) {
            return Err(GptFault::EntriesPlace(self.entries_lba));
        }
        Ok(())
    }

    /// Blocks that the entries fill.
    pub(super) fn entries_blocks(&self, blocks: Blocks) -> u64 {
        let bytes = u64::from(self.entry_count) * u64::from(ENTRY);
        bytes.div_ceil(u64::from(blocks.size))
    }

    /// Where the entries are, bytes, without what fills their last block.
    pub(super) fn entries_range(&self, blocks: Blocks) -> Range {
        let offset = self.entries_lba * u64::from(blocks.size);
        Range::new(offset, u64::from(self.entry_count) * u64::from(ENTRY))
    }

    /// This header and the entries that it speaks of.
    pub(super) fn with_entries(self, entries: Vec<u8>) -> Result<GptCopy, GptFault> {
        if crc32(&entries) != self.entries_sum {
            return Err(GptFault::EntriesSum);
        }
        Ok(GptCopy {
            header: self,
            entries,
        })
    }
}

impl GptCopy {
    /// Whether both say the same of the disk, each from its own place.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        let (a, b) = (&self.header, &other.header);
        a.disk == b.disk
            && a.first_usable == b.first_usable
            && a.last_usable == b.last_usable
            && self.entries == other.entries
    }

    pub(super) const fn id(&self) -> DiskId {
        DiskId::Guid(self.header.disk)
    }

    /// The entries that are used.
    pub(super) fn partitions(&self, blocks: Blocks) -> Vec<PartitionEntry> {
        let entries = self.entries.chunks_exact(ENTRY as usize);
        let numbered = (1..).zip(entries);
        numbered
            .filter_map(|(number, bytes)| partition(number, bytes, blocks))
            .collect()
    }
}

fn partition(number: u32, bytes: &[u8], blocks: Blocks) -> Option<PartitionEntry> {
    let raw: GptPartitionEntry = bytemuck::pod_read_unaligned(bytes);
    if !raw.is_used() {
        return None;
    }
    let (first, last) = (raw.starting_lba.to_u64(), raw.ending_lba.to_u64());
    let count = last.checked_sub(first).map(|count| count.saturating_add(1));
    let range = count.and_then(|count| blocks.bytes(first, count));
    let fault = match (count, range) {
        (None, _) => Some(EntryFault::Backwards),
        (_, None) => Some(EntryFault::PastEnd {
            size: blocks.count * u64::from(blocks.size),
        }),
        _ => None,
    };
    let kind = raw.partition_type_guid;
    Some(PartitionEntry {
        number,
        range: range.unwrap_or(Range::new(0, 0)),
        kind: PartitionKind::Gpt(kind.0),
        label: label(&{ raw.name }.0),
        id: PartitionId::Guid(raw.unique_partition_guid),
        bootable: { raw.attributes }.legacy_bios_bootable(),
        fault,
    })
}

/// A name in UTF-16, up to its first zero; what is no character is replaced, what would move a
/// terminal's cursor is left out.
fn label(name: &[u8; 72]) -> String {
    let units = name
        .chunks_exact(2)
        .map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    let units = units.take_while(|&unit| unit != 0);
    char::decode_utf16(units)
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        .filter(|character| !character.is_control())
        .collect()
}
