//! `stripe`: the bytes of one disk dealt out in chunks to several (RAID 0 without a superblock; the
//! `striped` of device-mapper tables).
//!
//! # Invariants
//!
//! * Those of [`parts`](crate::parts): each member gets one request for all that a request wants of
//!   it, and a request within one chunk is the member's.
//! * All members are used to the same length, a multiple of the chunk.
//!
//! # What it does not do
//!
//! It keeps nothing on the members that would record their order or the chunk: another order
//! or chunk reads other bytes.

mod plan;
#[cfg(test)]
mod tests;

use block::{
    BlockDevice, Extent, Geometry, Identity, IoBufs, IoFuture, Node, Range, TryIo, WriteFlags,
};

use self::plan::Deal;
use crate::parts::{PartError, Parts, Segment};

/// A chunk is made of sectors, as in the kernel.
const SECTOR: u64 = 512;

/// Members that make no striped disk. They are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StripeError {
    /// One of them does not do.
    #[error(transparent)]
    Part(#[from] PartError),
    /// The chunk is not made of sectors.
    #[error("a chunk is a multiple of {SECTOR} bytes from {SECTOR} on, {0} is none")]
    Chunk(u64),
    /// The chunk cuts blocks of a member.
    #[error("a chunk of {chunk} bytes cuts the blocks of {block_size} bytes of a member")]
    ChunkCutsBlock {
        /// Bytes.
        chunk: u64,
        /// Bytes.
        block_size: u32,
    },
    /// Members of different length.
    #[error("member {number} has {len} bytes, member 1 has {first}: members of a stripe are equal")]
    Unequal {
        /// Which.
        number: usize,
        /// Its bytes.
        len: u64,
        /// Bytes of the first.
        first: u64,
    },
    /// Members that end within a chunk.
    #[error("members of {len} bytes are not made of whole chunks of {chunk} bytes")]
    PartialChunk {
        /// Bytes of each member.
        len: u64,
        /// Bytes of a chunk.
        chunk: u64,
    },
}

/// What is not used of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// The member, counted from 1.
    pub number: usize,
    /// Bytes at its end that are not used.
    pub len: u64,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { number, len } = self;
        write!(f, "the last {len} bytes of member {number} are not used")
    }
}

/// Disks with the bytes of one dealt out to them.
#[derive(Debug)]
pub struct Stripe {
    parts: Parts<Deal>,
}

impl Stripe {
    /// Deals one disk out to `segments` of equal length, in chunks of `chunk` bytes: a multiple of
    /// 512, which need be no power of two.
    ///
    /// # Errors
    /// If the segments differ in length, end within a chunk, or do not fit each other otherwise.
    pub fn new(segments: Vec<Segment>, chunk: u64) -> Result<Self, StripeError> {
        if chunk == 0 || !chunk.is_multiple_of(SECTOR) {
            return Err(StripeError::Chunk(chunk));
        }
        let first = segments.first().map_or(0, |segment| segment.range.len);
        for (number, segment) in (1..).zip(&segments) {
            let len = segment.range.len;
            if len != first {
                return Err(StripeError::Unequal { number, len, first });
            }
        }
        if !first.is_multiple_of(chunk) {
            let len = first;
            return Err(StripeError::PartialChunk { len, chunk });
        }
        let members = segments.len() as u64;
        let parts = Parts::new(segments, |_| Deal { chunk, members })?;
        let block_size = parts.geometry().block_size;
        if !chunk.is_multiple_of(block_size.into()) {
            return Err(StripeError::ChunkCutsBlock { chunk, block_size });
        }
        Ok(Self { parts })
    }

    /// The same of segments that may differ: all are used to the length of the shortest, in whole
    /// chunks. Returns what is not used of which.
    ///
    /// # Errors
    /// If that leaves nothing, or they do not fit each other otherwise.
    pub fn trimmed(
        mut segments: Vec<Segment>,
        chunk: u64,
    ) -> Result<(Self, Vec<LeftOut>), StripeError> {
        let lens = segments.iter().map(|segment| segment.range.len);
        let shortest = lens.min().unwrap_or(0);
        let used = shortest - shortest.checked_rem(chunk).unwrap_or(0);
        let mut left_out = Vec::new();
        for (number, segment) in (1..).zip(&mut segments) {
            let len = segment.range.len - used;
            if len > 0 {
                left_out.push(LeftOut { number, len });
            }
            segment.range.len = used;
        }
        Ok((Self::new(segments, chunk)?, left_out))
    }

    /// Bytes of a chunk.
    #[must_use]
    pub const fn chunk(&self) -> u64 {
        self.parts.layout().chunk
    }

    /// The members, in order.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        self.parts.segments()
    }
}

impl BlockDevice for Stripe {
    fn geometry(&self) -> &Geometry {
        self.parts.geometry()
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        self.parts.read(range)
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.parts.write(range, data, flags)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.parts.flush()
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.parts.write_zeroes(range, flags)
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        self.parts.trim(range)
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        self.parts.extents(range)
    }

    fn identity(&self) -> Option<Identity> {
        let segments = self.parts.segments();
        let begins = segments.iter().map(|segment| segment.range.offset);
        let how = format!(
            "{} {:?}",
            self.parts.layout().chunk,
            begins.collect::<Vec<_>>()
        );
        let disks = segments.iter().map(|segment| segment.disk.identity());
        Identity::composed("stripe", &how, disks)
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.parts.settle()
    }

    fn connection_epoch(&self) -> u64 {
        self.parts.connection_epoch()
    }

    fn remap(&self, range: Range) -> Option<(&Node, Range)> {
        self.parts.single(range)
    }

    fn remap_start(&self, range: Range) -> Option<(&Node, Range)> {
        self.parts.start(range)
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        self.parts.try_read(range, into)
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        self.parts.try_write(range, data)
    }
}
