//! [`ReadPlan`]: which bytes of which objects a read needs. Pure.
//!
//! # Invariants
//!
//! * Blocks that lie together in an object and on the disk are one request to the store, of at most [`FETCH_MAX`] bytes.
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
    /// The first block that it is for, as the caller counts them.
    pub(crate) first: u64,
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
    /// Its blocks.
    pub(crate) const fn block_count(&self) -> u64 {
        self.checksums.len() as u64
    }

    /// Its length, bytes.
    pub(crate) const fn len(&self) -> u64 {
        self.block_count() * BLOCK
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
        match self.problems(bytes).into_iter().next() {
            None => Ok(()),
            Some((_, error)) => Err(error),
        }
    }

    /// The blocks, counted in the fetch, of which `bytes` are not those that were written.
    pub(crate) fn problems(&self, bytes: &Bytes) -> Vec<(u64, FetchError)> {
        if bytes.len() as u64 != self.len() {
            return vec![(0, FetchError::Length(bytes.len(), self.len()))];
        }
        let blocks = bytes.chunks_exact(BLOCK_LEN).zip(&self.checksums).zip(0..);
        let changed = blocks.filter(|((block, checksum), _)| crc32c(&[block]) != **checksum);
        let problem = |(_, nth)| (nth, FetchError::Checksum(self.offset + nth * BLOCK));
        changed.map(problem).collect()
    }

    fn can_take(&self, block: u64, stored: StoredBlock) -> bool {
        self.object == stored.object
            && self.range().end == stored.offset
            && self.first + self.block_count() == block
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
    /// Adds a block; blocks come in order.
    pub(crate) fn push(&mut self, block: u64, source: &BlockSource) {
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
