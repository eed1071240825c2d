//! [`ReadPlan`]: which bytes of which objects a read needs. Pure.
//!
//! # Invariants
//!
//! * Blocks that lie together in an object and in the request are one request to the store, of at most [`FETCH_MAX`] bytes.
//! * Every block of a fetch is compared with its checksum, by itself: a read of one block fetches one block.

use std::ops::Range as OffsetRange;

use bytes::Bytes;

use crate::format::{BLOCK, BLOCK_LEN, DataObject, crc32c};
use crate::run_map::{BlockSource, StoredBlock};

/// Bytes of one request to the store, at most.
const FETCH_MAX: u64 = 4 << 20;

/// Blocks that are fetched together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fetch {
    /// The object.
    pub(crate) object: DataObject,
    /// Offset in it, bytes.
    pub(crate) offset: u64,
    /// The first block of the request that it is for.
    pub(crate) first: usize,
    /// CRC-32C of each block.
    checksums: Vec<u32>,
}

/// Bytes of an object that are not those that were written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FetchError {
    /// A block with another checksum.
    #[error("a block at offset {0} of the object does not match its checksum")]
    Checksum(u64),
    /// Fewer bytes than were wanted, or more.
    #[error("the store sent {0} bytes instead of {1}")]
    Length(usize, u64),
}

impl Fetch {
    const fn len(&self) -> u64 {
        self.checksums.len() as u64 * BLOCK
    }

    /// Its bytes in the object.
    pub(crate) const fn range(&self) -> OffsetRange<u64> {
        self.offset..self.offset + self.len()
    }

    /// Whether `bytes` are those that were written.
    ///
    /// # Errors
    /// [`FetchError`].
    pub(crate) fn verify(&self, bytes: &Bytes) -> Result<(), FetchError> {
        if bytes.len() as u64 != self.len() {
            return Err(FetchError::Length(bytes.len(), self.len()));
        }
        let blocks = bytes.chunks_exact(BLOCK_LEN).zip(&self.checksums);
        for ((block, checksum), nth) in blocks.zip(0_u64..) {
            if crc32c(&[block]) != *checksum {
                return Err(FetchError::Checksum(self.offset + nth * BLOCK));
            }
        }
        Ok(())
    }

    fn can_take(&self, block: usize, stored: StoredBlock) -> bool {
        self.object == stored.object
            && self.range().end == stored.offset
            && self.first + self.checksums.len() == block
            && self.len() < FETCH_MAX
    }
}

/// Which bytes of which objects a read needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ReadPlan {
    /// Requests to the store.
    pub(crate) fetches: Vec<Fetch>,
}

impl ReadPlan {
    /// Adds a block of the request; blocks come in order.
    pub(crate) fn push(&mut self, block: usize, source: &BlockSource) {
        let BlockSource::Stored(stored) = source else {
            return;
        };
        match self.fetches.last_mut() {
            Some(last) if last.can_take(block, *stored) => last.checksums.push(stored.checksum),
            _ => self.fetches.push(Fetch {
                object: stored.object,
                offset: stored.offset,
                first: block,
                checksums: vec![stored.checksum],
            }),
        }
    }
}
