//! A boot record as bytes: its four slots, the chain of logical partitions, and when it is a table at
//! all. Pure.
//!
//! ```text
//! 0    code
//! 440  the disk's signature
//! 446  four slots of 16 bytes: flag, type, first block, count of blocks
//! 510  55 aa
//!
//! extended partition   ├ EBR │ gap │ logical 5 ├ EBR │ gap │ logical 6 …
//!                        ├── slot 1: from this EBR ──┘
//!                        └── slot 2: the next EBR, from the extended partition's begin
//! ```
//!
//! What is a table and what is not is decided as Linux does (block/partitions/msdos.c, efi.c).

use std::collections::BTreeSet;

use block::Range;
use gpt_disk_types::{MasterBootRecord, MbrPartitionRecord};

use super::PartitionKind;
use super::TableError;
use super::gpt::Blocks;
use super::remark::ALIGNMENT;
use super::table::{EntryFault, PartitionEntry, PartitionId};

/// Bytes of a boot record.
pub(super) const RECORD: usize = 512;
/// Logical partitions of a disk, at most: as many as Linux has numbers for.
pub(super) const LOGICAL_MAX: usize = 250;
/// The type that says that a GPT follows.
pub(super) const PROTECTIVE: u8 = 0xee;

/// A boot record with its signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BootRecord(pub(super) MasterBootRecord);

/// How a boot record protects a GPT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protection {
    /// It lists nothing else.
    Pure,
    /// It lists partitions, too.
    Hybrid,
}

impl BootRecord {
    /// The boot record at the begin of `bytes`, if there is one.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let raw: MasterBootRecord = bytemuck::pod_read_unaligned(bytes.get(..RECORD)?);
        (raw.signature == [0x55, 0xaa]).then_some(Self(raw))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        bytemuck::bytes_of(&self.0).to_vec()
    }

    pub(super) fn signature(&self) -> u32 {
        u32::from_le_bytes(self.0.unique_mbr_disk_signature)
    }

    /// Whether a GPT follows, as Linux sees it.
    pub(super) fn protects(&self) -> Option<Protection> {
        let slots = &self.0.partitions;
        let protects = |slot: &MbrPartitionRecord| {
            slot.os_indicator == PROTECTIVE && slot.starting_lba.to_u32() == 1
        };
        slots.iter().find(|slot| protects(slot))?;
        let lists = slots
            .iter()
            .any(|slot| !matches!(slot.os_indicator, 0 | PROTECTIVE));
        Some(if lists {
            Protection::Hybrid
        } else {
            Protection::Pure
        })
    }

    /// Whether a GPT is spoken of at all, where it is or elsewhere.
    pub(super) fn speaks_of_gpt(&self) -> bool {
        let mut slots = self.0.partitions.iter();
        slots.any(|slot| slot.os_indicator == PROTECTIVE)
    }

    /// Whether it is a partition table, and not the boot sector of a filesystem.
    pub(super) fn is_table(&self) -> bool {
        let slots = &self.0.partitions;
        let flags_are_sane = slots
            .iter()
            .all(|slot| matches!(slot.boot_indicator, 0 | 0x80));
        let lists = slots.iter().any(|slot| slot.size_in_lba.to_u32() > 0);
        flags_are_sane && (lists || (self.signature() != 0 && !self.is_of_filesystem()))
    }

    /// Whether FAT, exFAT or NTFS begin here.
    fn is_of_filesystem(&self) -> bool {
        let code = &self.0.boot_strap_code;
        let named = |name: &[u8]| code[3..].starts_with(name);
        let (reserved, fats, media) = (&code[14..16], code[16], code[21]);
        let is_fat =
            reserved != [0, 0] && (1..=2).contains(&fats) && (media == 0xf0 || media >= 0xf8);
        named(b"NTFS    ") || named(b"EXFAT   ") || is_fat
    }

    /// The slots that are used, from 1.
    fn slots(&self) -> impl Iterator<Item = (u32, &MbrPartitionRecord)> {
        let numbered = (1..).zip(&self.0.partitions);
        numbered.filter(|(_, slot)| slot.size_in_lba.to_u32() > 0)
    }

    /// The partitions of this record alone.
    pub(super) fn primary(&self, blocks: Blocks) -> Vec<PartitionEntry> {
        let entry = |(number, slot): (u32, &MbrPartitionRecord)| {
            let first = slot.starting_lba.to_u32().into();
            self.entry(number, first, slot, blocks)
        };
        self.slots().map(entry).collect()
    }

    fn entry(
        &self,
        number: u32,
        first: u64,
        slot: &MbrPartitionRecord,
        blocks: Blocks,
    ) -> PartitionEntry {
        let range = blocks.bytes(first, slot.size_in_lba.to_u32().into());
        let fault = range.is_none().then_some(EntryFault::PastEnd {
            size: blocks.count * u64::from(blocks.size),
        });
        PartitionEntry {
            number,
            range: range.unwrap_or(Range::new(0, 0)),
            kind: PartitionKind::Mbr(slot.os_indicator),
            label: String::new(),
            id: PartitionId::Numbered {
                signature: self.signature(),
                number,
            },
            bootable: slot.boot_indicator == 0x80,
            fault,
        }
    }

    /// The size of the blocks that it counts in, and whether it was derived from its partitions alone.
    pub(super) fn block_size(&self, disk_size: u64, disk_block: u32) -> (u32, bool) {
        let own = if disk_block == 4096 { 4096 } else { 512 };
        let ends_on_disk = |block: u64| {
            self.slots().all(|(_, slot)| {
                let blocks =
                    u64::from(slot.starting_lba.to_u32()) + u64::from(slot.size_in_lba.to_u32());
                blocks * block <= disk_size
            })
        };
        let aligned = |block: u64| {
            self.slots().all(|(_, slot)| {
                (u64::from(slot.starting_lba.to_u32()) * block).is_multiple_of(ALIGNMENT)
            })
        };
        let told = match (ends_on_disk(512), ends_on_disk(4096)) {
            (true, false) => 512,
            (false, true) => 4096,
            (true, true) if !aligned(512) && aligned(4096) => 4096,
            _ => own,
        };
        (told, told != own)
    }
}

/// The chain of logical partitions, walked one record at a time.
#[derive(Debug)]
pub(super) struct Chain {
    disk: BootRecord,
    blocks: Blocks,
    /// The extended partition, in blocks.
    first: u64,
    count: u64,
    /// The record to read next, and the room that it is given.
    next: Option<(u64, u64)>,
    seen: BTreeSet<u64>,
    number: u32,
}

impl Chain {
    /// The chain in `extended`; the first logical partition gets `number`.
    pub(super) fn of(
        disk: BootRecord,
        blocks: Blocks,
        extended: &PartitionEntry,
        number: u32,
    ) -> Self {
        let block = u64::from(blocks.size);
        let (first, count) = (extended.range.offset / block, extended.range.len / block);
        Self {
            disk,
            blocks,
            first,
            count,
            next: Some((first, count)),
            seen: BTreeSet::new(),
            number,
        }
    }

    /// Where the next record is, bytes.
    pub(super) fn wanted(&self) -> Option<Range> {
        let (lba, _) = self.next?;
        let range = self.blocks.bytes(lba, 1)?;
        Some(Range::new(range.offset, RECORD as u64))
    }

    /// Number of the next logical partition.
    pub(super) const fn number(&self) -> u32 {
        self.number
    }

    /// Takes the record that was wanted; gives its partitions.
    pub(super) fn take(&mut self, record: &BootRecord) -> Result<Vec<PartitionEntry>, TableError> {
        let Some((here, room)) = self.next.take() else {
            return Ok(Vec::new());
        };
        if !self.seen.insert(here) {
            let at = here.saturating_mul(u64::from(self.blocks.size));
            return Err(TableError::Circle { at });
        }
        if self.seen.len() > LOGICAL_MAX {
            return Err(TableError::TooManyLogical { max: LOGICAL_MAX });
        }
        let mut found = Vec::new();
        for (slot_number, slot) in record.slots() {
            let start = u64::from(slot.starting_lba.to_u32());
            let count = u64::from(slot.size_in_lba.to_u32());
            if PartitionKind::Mbr(slot.os_indicator).is_extended() {
                self.next = self.next.or(Some((self.first + start, count)));
                continue;
            }
            let first = here + start;
            // The last two slots should be empty; some programs left older records in them.
            let inside = start + count <= room
                && first >= self.first
                && first + count <= self.first + self.count;
            if slot_number > 2 && !inside {
                continue;
            }
            found.push(self.disk.entry(self.number, first, slot, self.blocks));
            self.number += 1;
        }
        Ok(found)
    }
}
