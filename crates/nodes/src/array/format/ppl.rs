//! The partial parity log (PPL) of RAID 5: where a member keeps it, its headers and their entries. Pure; little-endian.
//!
//! ```text
//! header, 4096 bytes                               entry, 24 bytes
//!    0  512  all ones                               0  8  first sector of the array that is written
//!  512    4  signature: CRC-32C of the array's UUID 8  4  bytes of partial parity
//!  520    8  generation                            12  4  bytes of data, of all members together
//!  528    4  entries                               16  4  the part with the parity
//!  532    4  CRC-32C of the header, this being 0   20  4  CRC-32C of the partial parity
//!  536       entries, 148 at most
//! behind it: the partial parity of the entries, in their order
//! ```
//!
//! Partial parity is the sum of the data of a stripe that a write leaves as they are; together with the data that it
//! writes it is the parity. Entries that write all data of their stripe have none.
//!
//! A space of at least twice 132 KiB of an array that says so ([`MULTIPLE_PPLS`](super::features::MULTIPLE_PPLS)) has one
//! header behind the other, around the end; else the only one is where the space begins. The header with the greatest
//! generation counts, and it alone.
//!
//! Source: Linux, `include/uapi/linux/raid/md_p.h`, `Documentation/driver-api/md/raid5-ppl.rst`, and what
//! `drivers/md/raid5-ppl.c` writes and reads.
//!
//! # Invariants
//!
//! * No input panics, and nothing is allocated beyond [`ENTRIES_MAX`] entries.
//! * A header is returned only if its checksum and its signature are right.
//!
//! # What it does not do
//!
//! It does not judge entries: that takes the layout of the array (`parity::ppl_strips`).

use block::Range;
use crc::{CRC_32_ISCSI, Crc, Table};

use super::{SECTOR, Superblock, features};
use crate::fields::{Fields, put};

const CASTAGNOLI: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// Bytes of a header.
pub const HEADER_LEN: u64 = 4096;
/// The same, for buffers.
pub const HEADER_LEN_USIZE: usize = 4096;
/// Members of an array with such logs, at most: Linux has a bit for each in one word.
pub const MEMBERS_MAX: usize = 64;
/// Entries that a header has room for.
pub const ENTRIES_MAX: usize = (HEADER_LEN_USIZE - field::ENTRIES) / ENTRY_LEN;
/// Partial parity of one header, at most, where there are several; bytes.
const RING_SPACE: u64 = 128 << 10;
/// Partial parity is kept in multiples of this, bytes.
const UNIT: u64 = 4096;
const ENTRY_LEN: usize = 24;

mod field {
    pub(super) const SIGNATURE: usize = 512;
    pub(super) const GENERATION: usize = 520;
    pub(super) const COUNT: usize = 528;
    pub(super) const CHECKSUM: usize = 532;
    pub(super) const ENTRIES: usize = 536;
}

/// Where a member keeps its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PplSpace {
    /// Bytes of the disk: a header, and a multiple of 4 KiB behind it.
    pub place: Range,
    /// Headers follow each other around the end.
    pub is_ring: bool,
}

/// A write that was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PplEntry {
    /// First sector of the array that it writes.
    pub data_sector: u64,
    /// Bytes of its partial parity.
    pub parity_len: u32,
    /// Bytes of data that it writes, of all members together.
    pub data_len: u32,
    /// The part with the parity.
    pub parity_part: u32,
    /// [`checksum`] of its partial parity.
    pub checksum: u32,
}

/// What a header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PplHeader {
    /// Which array it is of: [`signature`].
    pub signature: u32,
    /// Counts headers.
    pub generation: u64,
    /// Writes that were begun.
    pub entries: Vec<PplEntry>,
}

/// Why there is no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PplProblem {
    /// There are nothing but zeroes: no log is kept.
    #[error("there is none")]
    Blank,
    /// It is shorter than a header.
    #[error("it is cut short")]
    Short,
    /// It was written in part, or is damaged.
    #[error("its checksum is wrong: {stored:08x} is stored, {computed:08x} would be right")]
    Checksum {
        /// What it says.
        stored: u32,
        /// What its bytes give.
        computed: u32,
    },
    /// It is of another array.
    #[error("it is of another array: its signature is {0:08x}")]
    Signature(u32),
    /// More than it has room for.
    #[error("it cannot have {0} entries")]
    Count(u32),
}

/// What marks the headers of an array.
#[must_use]
pub fn signature(array: &[u8; 16]) -> u32 {
    CASTAGNOLI.checksum(array)
}

/// The checksum of partial parity, which may lie in pieces.
#[must_use]
pub fn checksum<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut digest = CASTAGNOLI.digest();
    for piece in pieces {
        digest.update(piece);
    }
    digest.finalize()
}

impl PplSpace {
    /// That of a member. `None`: it has none, or one without room for partial parity.
    #[must_use]
    pub fn of(superblock: &Superblock) -> Option<Self> {
        let said = superblock.ppl?;
        let room = said.len.checked_sub(HEADER_LEN)? / UNIT * UNIT;
        let place = Range::new(said.offset, HEADER_LEN + room);
        let is_multiple = superblock.features & features::MULTIPLE_PPLS != 0;
        (room > 0).then_some(Self {
            place,
            is_ring: is_multiple && place.len >= 2 * (HEADER_LEN + RING_SPACE),
        })
    }

    /// Bytes of partial parity that one header can have.
    #[must_use]
    pub const fn parity_max(&self) -> u64 {
        if self.is_ring {
            RING_SPACE
        } else {
            self.place.len - HEADER_LEN
        }
    }

    /// Where the header behind the one at byte `at` of the space would be. `None`: behind the end, or there is one header
    /// alone.
    #[must_use]
    pub fn next(&self, at: u64, header: &PplHeader) -> Option<u64> {
        let behind = at.saturating_add(header.footprint());
        (self.is_ring && behind < self.place.len - HEADER_LEN).then_some(behind)
    }

    /// Where a header that takes `len` bytes with its partial parity goes, byte of the space, if `next` is where the one
    /// before ended.
    #[must_use]
    pub const fn place_for(&self, next: u64, len: u64) -> u64 {
        if self.is_ring && next.saturating_add(len) <= self.place.len {
            next
        } else {
            0
        }
    }
}

impl PplHeader {
    /// One without entries, older than all others.
    #[must_use]
    pub const fn empty(signature: u32) -> Self {
        Self {
            signature,
            generation: 0,
            entries: Vec::new(),
        }
    }

    /// Bytes that it takes with its partial parity.
    #[must_use]
    pub fn footprint(&self) -> u64 {
        let parity = self.entries.iter();
        let parity = parity.map(|entry| u64::from(entry.parity_len) / SECTOR * SECTOR);
        HEADER_LEN + parity.sum::<u64>()
    }

    /// Its bytes: [`HEADER_LEN`].
    ///
    /// # Panics
    /// If there are more than [`ENTRIES_MAX`] entries.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.entries.len() <= ENTRIES_MAX, "a header has room");
        let mut bytes = vec![0; HEADER_LEN_USIZE];
        bytes[..field::SIGNATURE].fill(0xff);
        let b = bytes.as_mut_slice();
        put(b, field::SIGNATURE, self.signature.to_le_bytes());
        put(b, field::GENERATION, self.generation.to_le_bytes());
        let count = u32::try_from(self.entries.len()).expect("bounded");
        put(b, field::COUNT, count.to_le_bytes());
        for (index, entry) in self.entries.iter().enumerate() {
            let at = field::ENTRIES + index * ENTRY_LEN;
            put(b, at, entry.data_sector.to_le_bytes());
            put(b, at + 8, entry.parity_len.to_le_bytes());
            put(b, at + 12, entry.data_len.to_le_bytes());
            put(b, at + 16, entry.parity_part.to_le_bytes());
            put(b, at + 20, entry.checksum.to_le_bytes());
        }
        let sum = checksum([&*b]);
        put(b, field::CHECKSUM, sum.to_le_bytes());
        bytes
    }

    /// Reads the header of the array with that signature.
    ///
    /// # Errors
    /// [`PplProblem`]: there is none.
    pub fn decode(bytes: &[u8], signature: u32) -> Result<Self, PplProblem> {
        let bytes = bytes.get(..HEADER_LEN_USIZE).ok_or(PplProblem::Short)?;
        if crate::zeroes::is_zero(bytes) {
            return Err(PplProblem::Blank);
        }
        let fields = Fields::of(bytes);
        let stored = fields.u32(field::CHECKSUM);
        let (head, rest) = bytes.split_at(field::CHECKSUM);
        let computed = checksum([head, &[0; 4], &rest[4..]]);
        if stored != computed {
            return Err(PplProblem::Checksum { stored, computed });
        }
        let found = fields.u32(field::SIGNATURE);
        if found != signature {
            return Err(PplProblem::Signature(found));
        }
        let count = fields.u32(field::COUNT);
        let entries = usize::try_from(count).ok();
        let entries = entries.filter(|count| *count <= ENTRIES_MAX);
        let entries = 0..entries.ok_or(PplProblem::Count(count))?;
        let entry = |index: usize| {
            let at = field::ENTRIES + index * ENTRY_LEN;
            PplEntry {
                data_sector: fields.u64(at),
                parity_len: fields.u32(at + 8),
                data_len: fields.u32(at + 12),
                parity_part: fields.u32(at + 16),
                checksum: fields.u32(at + 20),
            }
        };
        Ok(Self {
            signature,
            generation: fields.u64(field::GENERATION),
            entries: entries.map(entry).collect(),
        })
    }
}
