//! The journal of RAID 4, 5 and 6 (md's r5l, `raid5-cache`): where it lies, its meta blocks and their payloads. Pure;
//! little-endian.
//!
//! ```text
//! meta block, 4096 bytes                           payload: data of one page     parity of one column of pages
//!  0  4  magic 0x6433c509                          0  2  0                       0  2  1
//!  4  4  checksum of the block, this being 0       2  2  flags: 0                2  2  flags: 0
//!  8  1  version: 1                                4  4  sectors: 8              4  4  sectors: 8, or 16 with Q
//! 12  4  bytes of it that are used                 8  8  sector of the array     8  8  sector of each member's data
//! 16  8  sequence                                 16  4  checksum of the page   16  4  checksum of P, then that of Q
//! 24  8  sector of the journal where it is
//! 32     payloads                                  payload: columns that are on members: 0 2 2, 2 2 flags, 4 4 bytes of
//! behind it: the pages of the payloads, in order            the list, 8 8 each: sector of each member's data
//! ```
//!
//! The space is a ring of pages. The superblock of the member that keeps it says at which meta block a reader begins
//! (*tail*); the next one is behind the pages of that, with the next sequence. What is not such a block, or has a page with
//! a wrong checksum, is the end. All checksums are CRC-32C of the array's UUID followed by the page, inverted.
//!
//! Source: Linux, `include/uapi/linux/raid/md_p.h`, and what `drivers/md/raid5-cache.c` writes and reads.
//!
//! # Invariants
//!
//! * No input panics, and nothing is allocated beyond what one block of 4096 bytes can hold.
//! * A meta block is returned only if it is whole, belongs where it was read, and all of its payloads are known.
//!
//! # What it does not do
//!
//! It does not judge the places that payloads name: that takes the layout of the array (`parity::journal_columns`).

use block::Range;
use crc::{CRC_32_ISCSI, Crc, Table};
use smallvec::SmallVec;

use super::{SECTOR, Superblock, v1};
use crate::fields::{Fields, put};

const CASTAGNOLI: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// Bytes of a meta block, and of everything that a payload names.
pub const PAGE: u64 = 4096;
/// The same, for buffers.
pub const PAGE_USIZE: usize = 4096;
/// Members of an array with a journal, at most: a meta block has room for a page of each.
pub const MEMBERS_MAX: usize = (PAGE_USIZE - HEAD_LEN) / (PAYLOAD_LEN + 4);
/// Batches that a journal has room for, at least: one is written while the space of others is used again.
pub const BATCHES: u64 = 4;
/// How much more than the last sequence the first one after an open is: blocks behind the end that a cut left do not count.
pub const SEQUENCE_STEP: u64 = 10_000;

const MAGIC: u32 = 0x6433_c509;
const VERSION: u8 = 1;
const HEAD_LEN: usize = 32;
/// Bytes of a payload of data or parity, checksums apart.
const PAYLOAD_LEN: usize = 16;
/// Bytes of a payload of columns, the list apart.
const COLUMNS_LEN: usize = 8;

mod field {
    pub(super) const CHECKSUM: usize = 4;
    pub(super) const VERSION: usize = 8;
    pub(super) const LEN: usize = 12;
    pub(super) const SEQUENCE: usize = 16;
    pub(super) const POSITION: usize = 24;
}

/// Bytes that a column of pages takes with its meta block, at most, in an array of so many members.
#[must_use]
pub const fn column_max(members: usize) -> u64 {
    PAGE * (1 + members as u64)
}

/// Bytes of a journal for an array of so many members, at least.
#[must_use]
pub const fn len_min(members: usize) -> u64 {
    BATCHES * column_max(members)
}

/// Computes the checksums of one array's journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalKey([u8; 16]);

/// Where a member keeps a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalSpace {
    /// Bytes of the disk, whole pages.
    pub place: Range,
}

/// What a meta block names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// A page of data.
    Data {
        /// Byte of the array.
        at: u64,
        /// Of the page.
        checksum: u32,
    },
    /// The parity of one column of pages.
    Parity {
        /// Byte of each member's data.
        at: u64,
        /// That of P, then that of Q.
        checksums: SmallVec<[u32; 2]>,
    },
    /// Columns that are on all members: what was logged of them before does not count any more.
    OnMembers {
        /// Bytes of each member's data.
        columns: Vec<u64>,
    },
}

/// A meta block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaBlock {
    /// Counts blocks.
    pub sequence: u64,
    /// Byte of the journal where it is.
    pub at: u64,
    /// In the order of their pages.
    pub payloads: Vec<Payload>,
}

/// Why there is no meta block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MetaProblem {
    /// It is shorter than a block.
    #[error("it is cut short")]
    Short,
    /// Something else.
    #[error("there is none")]
    Magic,
    /// Of a kind that is not known.
    #[error("its version {0} is not known")]
    Version(u8),
    /// It was written in part, or is damaged, or of another array.
    #[error("its checksum is wrong: {stored:08x} is stored, {computed:08x} would be right")]
    Checksum {
        /// What it says.
        stored: u32,
        /// What its bytes give.
        computed: u32,
    },
    /// It belongs elsewhere.
    #[error("it belongs at sector {0} of the journal")]
    Elsewhere(u64),
    /// A payload that cannot be.
    #[error("its payload at byte {0} is not known")]
    Payload(usize),
}

impl JournalKey {
    /// That of the array with this UUID.
    #[must_use]
    pub const fn of(array: [u8; 16]) -> Self {
        Self(array)
    }

    /// The checksum of a page, which may lie in pieces.
    #[must_use]
    pub fn checksum<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
        let mut digest = CASTAGNOLI.digest();
        digest.update(&self.0);
        for piece in pieces {
            digest.update(piece);
        }
        !digest.finalize()
    }
}

impl JournalSpace {
    /// That of a member that keeps a journal.
    #[must_use]
    pub const fn of(superblock: &Superblock) -> Self {
        let data = superblock.data;
        Self {
            place: Range::new(data.offset, data.len / PAGE * PAGE),
        }
    }

    /// Bytes of it.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.place.len
    }

    /// Whether it has no page at all.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.place.len == 0
    }

    /// Where a reader begins, byte of the journal, by the `superblock` of the member that keeps it.
    #[must_use]
    pub fn tail(&self, superblock: &[u8]) -> u64 {
        self.valid_tail(v1::journal_tail(superblock))
    }

    /// What Linux makes of such a byte.
    const fn valid_tail(&self, tail: u64) -> u64 {
        if tail < self.place.len && tail.is_multiple_of(PAGE) {
            tail
        } else {
            0
        }
    }

    /// Byte of the journal that is `len` bytes behind byte `at`, around the end.
    #[must_use]
    pub const fn advance(&self, at: u64, len: u64) -> u64 {
        (at + len) % self.place.len
    }

    /// Bytes from `from` on up to `to`, around the end.
    #[must_use]
    pub const fn distance(&self, from: u64, to: u64) -> u64 {
        (to + self.place.len - from) % self.place.len
    }

    /// Where `len` bytes from byte `at` of the journal on are on the disk: one piece, or two around the end.
    #[must_use]
    pub fn pieces(&self, at: u64, len: u64) -> SmallVec<[Range; 2]> {
        let first = len.min(self.place.len - at);
        let pieces = [
            Range::new(self.place.offset + at, first),
            Range::new(self.place.offset, len - first),
        ];
        pieces.into_iter().filter(|piece| piece.len > 0).collect()
    }
}

impl Payload {
    /// Bytes that it takes in its block.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Data { .. } => PAYLOAD_LEN + 4,
            Self::Parity { checksums, .. } => PAYLOAD_LEN + 4 * checksums.len(),
            Self::OnMembers { columns } => COLUMNS_LEN + 8 * columns.len(),
        }
    }

    /// Never: it has a head.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// The checksums of its pages, in order.
    #[must_use]
    pub fn checksums(&self) -> &[u32] {
        match self {
            Self::Data { checksum, .. } => std::slice::from_ref(checksum),
            Self::Parity { checksums, .. } => checksums,
            Self::OnMembers { .. } => &[],
        }
    }
}

impl MetaBlock {
    /// One without payloads.
    #[must_use]
    pub const fn empty(sequence: u64, at: u64) -> Self {
        Self {
            sequence,
            at,
            payloads: Vec::new(),
        }
    }

    /// Bytes of it that are used.
    fn used(&self) -> usize {
        HEAD_LEN + self.payloads.iter().map(Payload::len).sum::<usize>()
    }

    /// Whether there is room for some more payloads.
    #[must_use]
    pub fn has_room(&self, more: &[Payload]) -> bool {
        self.used() + more.iter().map(Payload::len).sum::<usize>() <= PAGE_USIZE
    }

    /// The checksums of the pages behind it, in order.
    pub fn checksums(&self) -> impl Iterator<Item = u32> {
        let payloads = self.payloads.iter();
        payloads.flat_map(|payload| payload.checksums().iter().copied())
    }

    /// Bytes that it takes with its pages.
    #[must_use]
    pub fn footprint(&self) -> u64 {
        PAGE * (1 + self.checksums().count() as u64)
    }

    /// Its bytes: [`PAGE`].
    ///
    /// # Panics
    /// If there are more payloads than it has [room](Self::has_room) for.
    #[must_use]
    pub fn encode(&self, key: JournalKey) -> Vec<u8> {
        let used = self.used();
        assert!(used <= PAGE_USIZE, "a meta block has room");
        let mut bytes = vec![0; PAGE_USIZE];
        let b = bytes.as_mut_slice();
        put(b, 0, MAGIC.to_le_bytes());
        b[field::VERSION] = VERSION;
        let used = u32::try_from(used).expect("bounded by a page");
        put(b, field::LEN, used.to_le_bytes());
        put(b, field::SEQUENCE, self.sequence.to_le_bytes());
        put(b, field::POSITION, (self.at / SECTOR).to_le_bytes());
        let mut at = HEAD_LEN;
        for payload in &self.payloads {
            encode_payload(&mut b[at..], payload);
            at += payload.len();
        }
        let sum = key.checksum([&*b]);
        put(b, field::CHECKSUM, sum.to_le_bytes());
        bytes
    }

    /// Reads the block at byte `at` of the journal.
    ///
    /// # Errors
    /// [`MetaProblem`]: there is none.
    pub fn decode(bytes: &[u8], key: JournalKey, at: u64) -> Result<Self, MetaProblem> {
        let bytes = bytes.get(..PAGE_USIZE).ok_or(MetaProblem::Short)?;
        let fields = Fields::of(bytes);
        if fields.u32(0) != MAGIC {
            return Err(MetaProblem::Magic);
        }
        if fields.u8(field::VERSION) != VERSION {
            return Err(MetaProblem::Version(fields.u8(field::VERSION)));
        }
        let stored = fields.u32(field::CHECKSUM);
        let (head, rest) = bytes.split_at(field::CHECKSUM);
        let computed = key.checksum([head, &[0; 4], &rest[4..]]);
        if stored != computed {
            return Err(MetaProblem::Checksum { stored, computed });
        }
        let position = fields.u64(field::POSITION);
        if position.checked_mul(SECTOR) != Some(at) {
            return Err(MetaProblem::Elsewhere(position));
        }
        let end = usize::try_from(fields.u32(field::LEN)).unwrap_or(usize::MAX);
        let used = bytes.get(..end).ok_or(MetaProblem::Payload(0))?;
        let mut block = Self::empty(fields.u64(field::SEQUENCE), at);
        let mut next = HEAD_LEN;
        while next < used.len() {
            let payload = decode_payload(&used[next..]).ok_or(MetaProblem::Payload(next))?;
            next += payload.len();
            block.payloads.push(payload);
        }
        Ok(block)
    }
}

fn encode_payload(b: &mut [u8], payload: &Payload) {
    let sectors = |pages: usize| {
        let sectors = pages as u64 * PAGE / SECTOR;
        u32::try_from(sectors).expect("pages of one payload are few")
    };
    let mut head = |kind: u16, len: u32| {
        put(b, 0, kind.to_le_bytes());
        put(b, 4, len.to_le_bytes());
    };
    match payload {
        Payload::Data { at, checksum } => {
            head(0, sectors(1));
            put(b, 8, (at / SECTOR).to_le_bytes());
            put(b, PAYLOAD_LEN, checksum.to_le_bytes());
        }
        Payload::Parity { at, checksums } => {
            head(1, sectors(checksums.len()));
            put(b, 8, (at / SECTOR).to_le_bytes());
            for (index, checksum) in checksums.iter().enumerate() {
                put(b, PAYLOAD_LEN + 4 * index, checksum.to_le_bytes());
            }
        }
        Payload::OnMembers { columns } => {
            let len = u32::try_from(8 * columns.len()).expect("bounded by a page");
            head(2, len);
            for (index, column) in columns.iter().enumerate() {
                let at = COLUMNS_LEN + 8 * index;
                put(b, at, (column / SECTOR).to_le_bytes());
            }
        }
    }
}

/// The payload that begins `bytes`. `None`: it is none that Linux writes.
fn decode_payload(bytes: &[u8]) -> Option<Payload> {
    let fields = Fields::of(bytes.get(..COLUMNS_LEN)?);
    let (kind, flags, len) = (fields.u16(0), fields.u16(2), fields.u32(4));
    let len = usize::try_from(len).ok().filter(|_| flags == 0)?;
    let place = |at: usize| {
        let field = bytes.get(at..at + 8)?;
        let bytes = Fields::of(field).u64(0).checked_mul(SECTOR)?;
        (bytes % PAGE == 0).then_some(bytes)
    };
    let checksum = |index: usize| {
        let at = PAYLOAD_LEN + 4 * index;
        Some(Fields::of(bytes.get(at..at + 4)?).u32(0))
    };
    match (kind, len) {
        (0, 8) => Some(Payload::Data {
            at: place(8)?,
            checksum: checksum(0)?,
        }),
        (1, 8 | 16) => Some(Payload::Parity {
            at: place(8)?,
            checksums: (0..len / 8).map(checksum).collect::<Option<_>>()?,
        }),
        (2, len) if len % 8 == 0 && COLUMNS_LEN + len <= bytes.len() => {
            let columns = (0..len / 8).map(|index| place(COLUMNS_LEN + 8 * index));
            Some(Payload::OnMembers {
                columns: columns.collect::<Option<_>>()?,
            })
        }
        _ => None,
    }
}
