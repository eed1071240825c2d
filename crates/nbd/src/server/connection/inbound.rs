//! What is being received: a header, or the payload of a write.

use block::{Range, WriteFlags};
use engine::Buffer;
use nbd_proto::WireError;

use crate::server::budget::Charge;

/// Payload goes to the page cache in pieces that end at multiples of this, so that no piece makes
/// the kernel read the rest of a page from disk; or at multiples of the disk's block if that is
/// larger, which it may be up to 64 KiB.
const PIECE_ALIGN: u64 = 4096;

/// Where in the stream of requests a connection is.
#[derive(Debug)]
pub(super) enum Inbound {
    /// Before a header.
    Header,
    /// In the payload of a write that goes to the page cache as it arrives.
    Streaming(Streaming),
    /// In the payload of a write that is gathered first.
    Filling(Filling),
    /// In the payload of a write that was refused.
    Skipping(Skipping),
}

/// A write of which `done` bytes are in the page cache.
#[derive(Debug)]
pub(super) struct Streaming {
    pub(super) cookie: u64,
    pub(super) range: Range,
    pub(super) done: u64,
}

impl Streaming {
    /// How much of `available` bytes can be written now to a disk of such blocks, and where.
    /// `None`: more must come first.
    pub(super) fn next_piece(&self, available: usize, block_size: u32) -> Option<Range> {
        let align = PIECE_ALIGN.max(u64::from(block_size));
        let offset = self.range.offset + self.done;
        let left = self.range.len - self.done;
        let available = available as u64;
        if available >= left {
            return Some(Range::new(offset, left));
        }
        let end = (offset + available) / align * align;
        let len = end.checked_sub(offset).filter(|&len| len > 0)?;
        Some(Range::new(offset, len))
    }

    /// What is not written yet.
    pub(super) const fn rest(&self) -> Range {
        Range::new(self.range.offset + self.done, self.range.len - self.done)
    }
}

/// A write of which `filled` bytes are in `buffer`.
#[derive(Debug)]
pub(super) struct Filling {
    pub(super) cookie: u64,
    pub(super) range: Range,
    pub(super) flags: WriteFlags,
    pub(super) buffer: Buffer,
    pub(super) filled: usize,
    pub(super) charge: Charge,
}

impl Filling {
    /// Takes what it needs from `bytes` and returns how much that was.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> usize {
        let place = &mut self.buffer[self.filled..];
        let count = place.len().min(bytes.len());
        place[..count].copy_from_slice(&bytes[..count]);
        self.filled += count;
        count
    }

    pub(super) fn is_full(&self) -> bool {
        self.filled == self.buffer.len()
    }
}

/// A refused write of which `left` bytes are still to be skipped.
#[derive(Debug)]
pub(super) struct Skipping {
    pub(super) cookie: u64,
    pub(super) left: u64,
    pub(super) error: WireError,
    pub(super) text: String,
}
