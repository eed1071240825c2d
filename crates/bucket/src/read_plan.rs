//! [`ReadPlan`]: which bytes of which objects a read needs. Pure.
//!
//! # Invariants
//!
//! * Blocks that lie together in an object and on the disk are one request to the store, of at most [`FETCH_MAX`] bytes.
//! * Every block of a fetch is compared with its checksum, by itself: a read of one block fetches one block. One that was compressed or
//!   sealed is decoded first, and compared as it was written.

use std::ops::Range as OffsetRange;

use bytes::Bytes;

use crate::format::{BLOCK, BLOCK_LEN, DataObject, crc32c};
use crate::run_map::{BlockSource, StoredBlock};

/// Bytes of one request to the store, at most.
const FETCH_MAX: u64 = 4 << 20;
/// The same, decoded.
const DECODED_MAX: u64 = 8 << 20;

/// Blocks that are fetched together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fetch {
    /// The object.
    pub(crate) object: DataObject,
    /// The first block that it is for, as the caller counts them.
    pub(crate) first: u64,
    /// Its blocks, one behind the other; at least one.
    blocks: Vec<StoredBlock>,
}

/// Bytes of an object that are not those that were written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FetchError {
    /// A block with another checksum.
    #[error("a block at offset {0} of the object does not match its checksum")]
    Checksum(u64),
    /// A block with another seal, or of another place.
    #[error(
        "a block at offset {0} of the object is not what was sealed there with the key of the volume"
    )]
    Seal(u64),
    /// A block that is not what a compression made.
    #[error("a block at offset {0} of the object cannot be decompressed")]
    Compression(u64),
    /// A block that is sealed, of a volume that is not encrypted, or the other way round.
    #[error(
        "a block at offset {0} of the object is encrypted and the volume is not, or the other way round"
    )]
    Encryption(u64),
    /// Fewer bytes than were wanted, or more.
    #[error("the store sent {0} bytes instead of {1}")]
    Length(usize, u64),
}

/// Decodes the blocks of an object: from their bytes there to those that were written.
pub(crate) trait DecodeBlock {
    /// Whether blocks of the volume are sealed.
    fn is_sealed(&self) -> bool;

    /// Writes a block that is not plain into `into`, of [`BLOCK_LEN`] bytes.
    ///
    /// # Errors
    /// `stored` is not what was written there.
    fn decode(&self, block: &StoredBlock, stored: &[u8], into: &mut [u8])
    -> Result<(), FetchError>;
}

impl Fetch {
    /// Its blocks.
    pub(crate) const fn block_count(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// The length of its blocks, bytes.
    pub(crate) const fn len(&self) -> u64 {
        self.block_count() * BLOCK
    }

    /// Its bytes in the object.
    pub(crate) fn range(&self) -> OffsetRange<u64> {
        let first = self.blocks.first().map_or(0, |block| block.offset);
        first..self.blocks.last().map_or(first, StoredBlock::end)
    }

    /// The blocks as they were written, of their `bytes` in the object.
    ///
    /// # Errors
    /// [`FetchError`].
    pub(crate) fn decode(
        &self,
        bytes: Bytes,
        decoder: &impl DecodeBlock,
    ) -> Result<Bytes, FetchError> {
        self.check_length(&bytes)?;
        if !decoder.is_sealed() && self.blocks.iter().all(StoredBlock::is_plain) {
            for (block, stored) in self.split(&bytes) {
                verify(block, stored)?;
            }
            return Ok(bytes);
        }
        let mut decoded = vec![0; self.blocks.len() * BLOCK_LEN];
        let blocks = self.split(&bytes);
        for (stored, into) in blocks.zip(decoded.chunks_exact_mut(BLOCK_LEN)) {
            decode_block(stored, decoder, into)?;
        }
        Ok(decoded.into())
    }

    /// The blocks, counted in the fetch, of which `bytes` are not those that were written.
    pub(crate) fn problems(
        &self,
        bytes: &Bytes,
        decoder: &impl DecodeBlock,
    ) -> Vec<(u64, FetchError)> {
        if let Err(error) = self.check_length(bytes) {
            return vec![(0, error)];
        }
        let mut into = [0; BLOCK_LEN];
        let decoded = self
            .split(bytes)
            .map(|stored| decode_block(stored, decoder, &mut into));
        (0..)
            .zip(decoded)
            .filter_map(|(nth, decoded)| Some((nth, decoded.err()?)))
            .collect()
    }

    fn check_length(&self, bytes: &Bytes) -> Result<(), FetchError> {
        let wanted = self.range().end - self.range().start;
        match bytes.len() as u64 == wanted {
            true => Ok(()),
            false => Err(FetchError::Length(bytes.len(), wanted)),
        }
    }

    /// Each block with its bytes of the object.
    fn split<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = (&'a StoredBlock, &'a [u8])> {
        let mut rest = bytes;
        self.blocks.iter().map(move |block| {
            let (stored, behind) = rest.split_at(block.len as usize);
            rest = behind;
            (block, stored)
        })
    }

    fn can_take(&self, block: u64, stored: StoredBlock) -> bool {
        let range = self.range();
        self.object == stored.object
            && range.end == stored.offset
            && self.first + self.block_count() == block
            && range.end - range.start < FETCH_MAX
            && self.len() < DECODED_MAX
    }
}

fn decode_block(
    (block, stored): (&StoredBlock, &[u8]),
    decoder: &impl DecodeBlock,
    into: &mut [u8],
) -> Result<(), FetchError> {
    if decoder.is_sealed() != block.is_sealed {
        return Err(FetchError::Encryption(block.offset));
    }
    match block.is_plain() {
        true => into.copy_from_slice(stored),
        false => decoder.decode(block, stored, into)?,
    }
    verify(block, into)
}

fn verify(block: &StoredBlock, data: &[u8]) -> Result<(), FetchError> {
    match crc32c(&[data]) == block.checksum {
        true => Ok(()),
        false => Err(FetchError::Checksum(block.offset)),
    }
}

/// Which bytes of which objects a read needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ReadPlan {
    /// Requests to the store.
    pub(crate) fetches: Vec<Fetch>,
}

impl ReadPlan {
    /// Adds a block; blocks come in order.
    pub(crate) fn push(&mut self, block: u64, source: &BlockSource) {
        let BlockSource::Stored(stored) = source else {
            return;
        };
        match self.fetches.last_mut() {
            Some(last) if last.can_take(block, *stored) => last.blocks.push(*stored),
            _ => self.fetches.push(Fetch {
                object: stored.object,
                first: block,
                blocks: vec![*stored],
            }),
        }
    }
}
