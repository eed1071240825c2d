//! The local journal of a volume: its header, [`JournalHeader`], and its records. Bytes and structs, pure.
//!
//! ```text
//! block 0   header: magic, version, state, volume, journal, generation, blocks of the ring, CRC-32C
//! block 1…  ring of records: header and list of changes, in whole blocks, then the data of the changes
//! ```
//!
//! # Invariants
//!
//! * A record has the journal's id, the generation of its writer and its place in the ring, so that what an earlier opening left in the ring
//!   is no record of this one.
//! * The header of a record is known to be whole by its first block alone. A second checksum covers its list of changes and their data.
//! * A change of the header changes one sector, so that a power cut leaves the old one or the new one.

use bytes::Bytes;
use rustix::rand::{GetRandomFlags, getrandom};

use super::{BLOCK, BLOCK_LEN, RUN_BLOCKS, VolumeId, crc32c};
use crate::dirty::{DirtyBlock, DirtyMap, DirtyRun, RunPart};

const HEADER_MAGIC: &[u8; 8] = b"outbdjnl";
const RECORD_MAGIC: &[u8; 8] = b"outbdrec";
const VERSION: u32 = 1;
const STATE_CLOSED: u32 = 0;
const STATE_OPEN: u32 = 1;
/// Bytes of the header that its checksum covers.
const HEADER_CHECKED: usize = 64;
/// Bytes of the header of a record that its checksum covers, and where its changes begin.
const RECORD_CHECKED: usize = 56;
const CHANGES_AT: usize = 64;
/// Bytes of a change in the list of a record.
const CHANGE_LEN: usize = 16;
/// Blocks of a run.
const ALL_BLOCKS: u32 = 32;
const _: () = assert!(ALL_BLOCKS as usize == RUN_BLOCKS);
const KIND_DATA: u32 = 1;
const KIND_ZERO: u32 = 2;

/// Blocks of the smallest ring: a record of a whole run fits several times.
pub(crate) const RING_MIN: u64 = 255;

/// What distinguishes a journal from every other one: 128 random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalId(pub(crate) [u8; 16]);

impl JournalId {
    /// Another one each time.
    pub(crate) fn random() -> Self {
        let mut id = [0; 16];
        let filled = getrandom(&mut id, GetRandomFlags::empty());
        assert_eq!(filled, Ok(id.len()), "the kernel has random bytes");
        Self(id)
    }
}

impl std::fmt::Display for JournalId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// Where a record is, or will be. Both numbers only increase while a journal is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JournalPosition {
    /// Counts the records, from 1 on.
    pub(crate) sequence: u64,
    /// Counts the blocks of all records before it; modulo the ring this is its place.
    pub(crate) block: u64,
}

impl JournalPosition {
    /// That of the first record of an opening.
    pub(crate) const START: Self = Self {
        sequence: 1,
        block: 0,
    };
}

/// Which opening of which journal a record is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalOpening {
    /// The journal.
    pub(crate) id: JournalId,
    /// The generation of the writer of the volume.
    pub(crate) generation: u32,
}

/// The header of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalHeader {
    /// The volume.
    pub(crate) volume: VolumeId,
    /// Its last opening.
    pub(crate) opening: JournalOpening,
    /// It may have records that are not in the store.
    pub(crate) is_open: bool,
    /// Blocks of its ring.
    pub(crate) blocks: u64,
}

/// A header that is not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JournalFormatError {
    /// Something else.
    #[error("it is no journal of a volume, and not empty")]
    Magic,
    /// Of another version.
    #[error("it is a journal of version {0}, and this program has version {VERSION}")]
    Version(u32),
    /// Bytes that were not written so.
    #[error("the checksum of its header does not match")]
    Checksum,
    /// A state or a size that no journal has.
    #[error("its header has values that no journal has")]
    Values,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes[at..].first_chunk().expect("a block is longer");
    u32::from_le_bytes(*bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes[at..].first_chunk().expect("a block is longer");
    u64::from_le_bytes(*bytes)
}

fn id_at(bytes: &[u8], at: usize) -> [u8; 16] {
    *bytes[at..].first_chunk().expect("a block is longer")
}

impl JournalHeader {
    /// As the bytes of a block.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let state = match self.is_open {
            true => STATE_OPEN,
            false => STATE_CLOSED,
        };
        let mut bytes = HEADER_MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&state.to_le_bytes());
        bytes.extend_from_slice(&self.volume.0);
        bytes.extend_from_slice(&self.opening.id.0);
        bytes.extend_from_slice(&self.opening.generation.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.blocks.to_le_bytes());
        let checksum = crc32c(&[&bytes]);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes.resize(BLOCK_LEN, 0);
        bytes
    }

    /// The header with the bytes of this block.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, JournalFormatError> {
        assert_eq!(bytes.len(), BLOCK_LEN, "a header is a block");
        if !bytes.starts_with(HEADER_MAGIC) {
            return Err(JournalFormatError::Magic);
        }
        match u32_at(bytes, 8) {
            VERSION => {}
            other => return Err(JournalFormatError::Version(other)),
        }
        if crc32c(&[&bytes[..HEADER_CHECKED]]) != u32_at(bytes, HEADER_CHECKED) {
            return Err(JournalFormatError::Checksum);
        }
        let is_open = match u32_at(bytes, 12) {
            STATE_CLOSED => false,
            STATE_OPEN => true,
            _ => return Err(JournalFormatError::Values),
        };
        let blocks = u64_at(bytes, 56);
        if blocks < RING_MIN {
            return Err(JournalFormatError::Values);
        }
        Ok(Self {
            volume: VolumeId(id_at(bytes, 16)),
            opening: JournalOpening {
                id: JournalId(id_at(bytes, 32)),
                generation: u32_at(bytes, 48),
            },
            is_open,
            blocks,
        })
    }
}

/// A change in the list of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ListedChange {
    first: u64,
    count: u32,
    is_data: bool,
}

/// A record of changes, to be written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RecordPlan {
    list: Vec<ListedChange>,
    data: Vec<Bytes>,
}

impl RecordPlan {
    /// That of all of `changes`, in the order of the disk.
    pub(crate) fn of(changes: &DirtyMap) -> Self {
        let mut plan = Self::default();
        for (run, changed) in changes.runs() {
            let first = run * RUN_BLOCKS as u64;
            match changed {
                DirtyRun::Zero => plan.push(first, ALL_BLOCKS, false),
                DirtyRun::Blocks(blocks) => {
                    for (block, changed) in (first..).zip(blocks.iter()) {
                        if let Some(changed) = changed {
                            plan.push_block(block, changed);
                        }
                    }
                }
            }
        }
        plan
    }

    fn push_block(&mut self, block: u64, changed: &DirtyBlock) {
        if let DirtyBlock::Data(data) = changed {
            self.data.push(data.clone());
        }
        self.push(block, 1, matches!(changed, DirtyBlock::Data(_)));
    }

    fn push(&mut self, first: u64, count: u32, is_data: bool) {
        match self.list.last_mut() {
            Some(last)
                if last.is_data == is_data && last.first + u64::from(last.count) == first =>
            {
                last.count += count;
            }
            _ => self.list.push(ListedChange {
                first,
                count,
                is_data,
            }),
        }
    }

    /// Blocks that it takes in the ring.
    pub(crate) fn blocks(&self) -> u64 {
        list_blocks(self.list.len()) + self.data.len() as u64
    }

    /// As bytes, for this position of this opening.
    pub(crate) fn encode(&self, opening: JournalOpening, at: JournalPosition) -> Vec<u8> {
        let len = usize::try_from(self.blocks())
            .expect("a record is at most the memory of changes")
            * BLOCK_LEN;
        let count = |count: usize| {
            let count = u32::try_from(count).expect("a record is at most the memory of changes");
            count.to_le_bytes()
        };
        let mut bytes = Vec::with_capacity(len);
        bytes.resize(CHANGES_AT, 0);
        for change in &self.list {
            let kind = if change.is_data { KIND_DATA } else { KIND_ZERO };
            bytes.extend_from_slice(&change.first.to_le_bytes());
            bytes.extend_from_slice(&change.count.to_le_bytes());
            bytes.extend_from_slice(&kind.to_le_bytes());
        }
        bytes.resize(bytes.len().next_multiple_of(BLOCK_LEN), 0);
        for block in &self.data {
            bytes.extend_from_slice(block);
        }
        let content = crc32c(&[&bytes[CHANGES_AT..]]);
        let mut head = RECORD_MAGIC.to_vec();
        head.extend_from_slice(&opening.id.0);
        head.extend_from_slice(&opening.generation.to_le_bytes());
        head.extend_from_slice(&count(self.list.len()));
        head.extend_from_slice(&at.sequence.to_le_bytes());
        head.extend_from_slice(&at.block.to_le_bytes());
        head.extend_from_slice(&count(self.data.len()));
        head.extend_from_slice(&content.to_le_bytes());
        let checksum = crc32c(&[&head]);
        head.extend_from_slice(&checksum.to_le_bytes());
        bytes[..head.len()].copy_from_slice(&head);
        bytes
    }
}

/// Blocks of the header of a record and its list.
fn list_blocks(changes: usize) -> u64 {
    (CHANGES_AT + changes * CHANGE_LEN).div_ceil(BLOCK_LEN) as u64
}

/// The header of a record that was found in a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    /// Where it states to be.
    pub(crate) at: JournalPosition,
    changes: u32,
    data: u32,
    content: u32,
}

impl RecordHeader {
    /// That in this block, if it is the first one of a record of this opening.
    pub(crate) fn decode(block: &[u8], opening: JournalOpening) -> Option<Self> {
        let is_whole = block.starts_with(RECORD_MAGIC)
            && crc32c(&[&block[..RECORD_CHECKED]]) == u32_at(block, RECORD_CHECKED);
        let is_own =
            is_whole && id_at(block, 8) == opening.id.0 && u32_at(block, 24) == opening.generation;
        is_own.then(|| Self {
            at: JournalPosition {
                sequence: u64_at(block, 32),
                block: u64_at(block, 40),
            },
            changes: u32_at(block, 28),
            data: u32_at(block, 48),
            content: u32_at(block, 52),
        })
    }

    /// Blocks of its record.
    pub(crate) fn blocks(&self) -> u64 {
        list_blocks(self.changes as usize) + u64::from(self.data)
    }

    /// The position behind its record.
    pub(crate) fn next(&self) -> JournalPosition {
        JournalPosition {
            sequence: self.at.sequence + 1,
            block: self.at.block + self.blocks(),
        }
    }

    /// Applies the changes of the record with these bytes to `changes`, of a volume of `size` bytes. False if it is not whole.
    #[must_use]
    pub(crate) fn replay(&self, bytes: &Bytes, size: u64, changes: &mut DirtyMap) -> bool {
        if bytes.len() as u64 != self.blocks() * BLOCK
            || crc32c(&[&bytes[CHANGES_AT..]]) != self.content
        {
            return false;
        }
        let mut at = usize::try_from(list_blocks(self.changes as usize))
            .expect("the record is in memory")
            * BLOCK_LEN;
        let list = bytes[CHANGES_AT..at].chunks_exact(CHANGE_LEN);
        let mut replayed = DirtyMap::default();
        for change in list.take(self.changes as usize) {
            let (first, count) = (u64_at(change, 0), u64::from(u32_at(change, 8)));
            let is_there = first
                .checked_add(count)
                .is_some_and(|end| end <= size / BLOCK);
            if !is_there || count == 0 {
                return false;
            }
            let range = block::Range::new(first * BLOCK, count * BLOCK);
            match u32_at(change, 12) {
                KIND_ZERO => RunPart::all(range).for_each(|part| replayed.zero(part)),
                KIND_DATA if range.len_usize() <= bytes.len() - at => {
                    let end = at + range.len_usize();
                    let blocks = (at..end).step_by(BLOCK_LEN);
                    // In memory of their own: one that stays must not keep the others.
                    let blocks =
                        blocks.map(|at| Bytes::copy_from_slice(&bytes[at..at + BLOCK_LEN]));
                    replayed.write(range, blocks.collect());
                    at = end;
                }
                _ => return false,
            }
        }
        changes.apply(&replayed);
        true
    }
}
