//! [`Entry`]: what the index has of a run or a block.
//!
//! # Invariants
//!
//! * An entry with a later [`Sequence`] replaces those before it, also where the one is of the whole run and the other of a block
//!   (`run_map.rs`): a change reads nothing of what was there.

use bytes::Bytes;

use super::{BLOCK, BLOCK_LEN, IndexKey, SEAL_LEN, WHOLE, crc32c};

/// The version that is written, and the only one that is read.
const VERSION: u8 = 1;
const KIND_ZERO: u8 = 0;
const KIND_INLINE: u8 = 1;
const KIND_STORED: u8 = 2;
/// Bits of a codec: blocks have lengths, since some are compressed; blocks are sealed. Others are refused.
const CODEC_LENGTHS: u8 = 1;
const CODEC_SEALED: u8 = 2;

/// Version, kind, generation and number; the checksum at the end.
const HEAD_LEN: usize = 2 + 4 + 8;
const CHECKSUM_LEN: usize = 4;

/// When an entry was written: the writer, and its commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Sequence {
    /// Each writer of the volume has its own, larger than those before it.
    pub(crate) generation: u32,
    /// Counts its commits.
    pub(crate) commit: u64,
}

/// Where the bytes of an entry are, in an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunPointer {
    /// The writer of the object.
    pub(crate) generation: u32,
    /// Counts its objects.
    pub(crate) object: u64,
    /// Where they begin, bytes.
    pub(crate) offset: u32,
    /// Each block is sealed with the key of the volume.
    pub(crate) is_sealed: bool,
    /// CRC-32C of each block, as it was written.
    pub(crate) checksums: Vec<u32>,
    /// Bytes of each block, without its seal: 4096 where it is not compressed. Empty: none is.
    pub(crate) lengths: Vec<u16>,
}

/// What the blocks of an entry hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryContent {
    /// Zeroes, without storage.
    Zero,
    /// One block, in the entry itself.
    Inline(Bytes),
    /// Bytes of an object.
    Stored(RunPointer),
}

/// What the index has of a run or a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// When it was written.
    pub(crate) sequence: Sequence,
    /// What the blocks hold.
    pub(crate) content: EntryContent,
}

/// An entry that is not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EntryFormatError {
    /// Fewer bytes than an entry has, or more.
    #[error("the entry has {0} bytes, which is no length of its kind")]
    Length(usize),
    /// Of another version.
    #[error("the entry has version {0}, and this program reads version {VERSION}")]
    Version(u8),
    /// Bytes that were not written so, or under another key.
    #[error("the checksum of the entry does not match")]
    Checksum,
    /// Of a kind that this program does not have.
    #[error("the entry has the unknown kind {0}")]
    Kind(u8),
    /// Compressed or encrypted in a way that this program does not have.
    #[error("the entry has the unknown codec {0}")]
    Codec(u8),
    /// A key that is none of a run or a block.
    #[error("the key of the entry is unknown")]
    Key,
}

impl Entry {
    /// As bytes for `key`.
    pub(crate) fn encode(&self, key: IndexKey) -> Vec<u8> {
        let kind = match &self.content {
            EntryContent::Zero => KIND_ZERO,
            EntryContent::Inline(_) => KIND_INLINE,
            EntryContent::Stored(_) => KIND_STORED,
        };
        let mut bytes = vec![VERSION, kind];
        bytes.extend_from_slice(&self.sequence.generation.to_le_bytes());
        bytes.extend_from_slice(&self.sequence.commit.to_le_bytes());
        match &self.content {
            EntryContent::Zero => {}
            EntryContent::Inline(data) => bytes.extend_from_slice(data),
            EntryContent::Stored(pointer) => pointer.encode_to(&mut bytes),
        }
        let checksum = crc32c(&[&key.encode(), &bytes]);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The entry of `key` with these bytes.
    pub(crate) fn decode(key: IndexKey, bytes: &Bytes) -> Result<Self, EntryFormatError> {
        let wrong_length = EntryFormatError::Length(bytes.len());
        // Known before the checksum is compared: another version may have it elsewhere.
        match bytes.first() {
            Some(&VERSION) => {}
            Some(&other) => return Err(EntryFormatError::Version(other)),
            None => return Err(wrong_length),
        }
        let end = bytes.len().checked_sub(CHECKSUM_LEN).ok_or(wrong_length)?;
        if end < HEAD_LEN {
            return Err(wrong_length);
        }
        let checksum = crc32c(&[&key.encode(), &bytes[..end]]);
        if bytes[end..] != checksum.to_le_bytes() {
            return Err(EntryFormatError::Checksum);
        }
        let mut fields = Fields(&bytes[2..HEAD_LEN]);
        let sequence = Sequence {
            generation: fields.u32().ok_or(wrong_length)?,
            commit: fields.u64().ok_or(wrong_length)?,
        };
        let payload = bytes.slice(HEAD_LEN..end);
        let content = match bytes[1] {
            KIND_ZERO if payload.is_empty() => EntryContent::Zero,
            KIND_INLINE if payload.len() == BLOCK_LEN && key.block_count() == 1 => {
                EntryContent::Inline(payload)
            }
            KIND_STORED => EntryContent::Stored(RunPointer::decode(key, &payload, wrong_length)?),
            KIND_ZERO | KIND_INLINE => return Err(wrong_length),
            other => return Err(EntryFormatError::Kind(other)),
        };
        Ok(Self { sequence, content })
    }
}

impl RunPointer {
    /// Where a block is, counted in the entry, and its bytes with its seal.
    pub(crate) fn piece(&self, nth: usize) -> (u64, u32) {
        let seal = if self.is_sealed { SEAL_LEN } else { 0 };
        let len = |len: &u16| u32::from(*len) + seal;
        let before = match self.lengths.get(..nth) {
            Some(before) => before.iter().map(|one| u64::from(len(one))).sum(),
            None => nth as u64 * (BLOCK + u64::from(seal)),
        };
        let len = len(self.lengths.get(nth).unwrap_or(&WHOLE));
        (u64::from(self.offset) + before, len)
    }

    fn encode_to(&self, bytes: &mut Vec<u8>) {
        let lengths = if self.lengths.is_empty() {
            0
        } else {
            CODEC_LENGTHS
        };
        let sealed = if self.is_sealed { CODEC_SEALED } else { 0 };
        bytes.push(lengths | sealed);
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&self.object.to_le_bytes());
        bytes.extend_from_slice(&self.offset.to_le_bytes());
        for checksum in &self.checksums {
            bytes.extend_from_slice(&checksum.to_le_bytes());
        }
        for len in &self.lengths {
            bytes.extend_from_slice(&len.to_le_bytes());
        }
    }

    fn decode(
        key: IndexKey,
        payload: &[u8],
        wrong_length: EntryFormatError,
    ) -> Result<Self, EntryFormatError> {
        let (&codec, rest) = payload.split_first().ok_or(wrong_length)?;
        if codec & !(CODEC_LENGTHS | CODEC_SEALED) != 0 {
            return Err(EntryFormatError::Codec(codec));
        }
        let mut fields = Fields(rest);
        let generation = fields.u32().ok_or(wrong_length)?;
        let object = fields.u64().ok_or(wrong_length)?;
        let offset = fields.u32().ok_or(wrong_length)?;
        let checksums = (0..key.block_count()).map(|_| fields.u32());
        let checksums = checksums.collect::<Option<_>>().ok_or(wrong_length)?;
        let count = match codec & CODEC_LENGTHS {
            0 => 0,
            _ => key.block_count(),
        };
        let lengths = (0..count).map(|_| fields.u16());
        let lengths: Vec<u16> = lengths.collect::<Option<_>>().ok_or(wrong_length)?;
        if !fields.0.is_empty() || lengths.iter().any(|len| !(1..=WHOLE).contains(len)) {
            return Err(wrong_length);
        }
        Ok(Self {
            generation,
            object,
            offset,
            is_sealed: codec & CODEC_SEALED != 0,
            checksums,
            lengths,
        })
    }
}

/// Little-endian numbers, one behind the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u16(&mut self) -> Option<u16> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_le_bytes(*bytes))
    }

    fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }
}
