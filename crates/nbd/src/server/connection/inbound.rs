//! What is being received: a header, or a payload.

use std::sync::Arc;

use block::{Range, WriteFlags};
use engine::Buffer;
use nbd_proto::WireError;

use super::request_context::RequestContext;
use super::split_write::SplitWrite;
use crate::server::budget::Charge;

/// Payload goes to the page cache in pieces that end at multiples of this, so that no piece makes
/// the kernel read the rest of a page from disk; or at multiples of the disk's block if that is
/// larger, which it may be up to 64 KiB.
const PIECE_ALIGN: u64 = 4096;

/// What is gathered at once of a payload, bytes: what a client that does not send the rest holds.
/// The largest buffer that is kept for the next one (see [`Buffer`]).
pub(super) const GATHERED_MAX: u64 = 1 << 20;

/// Where in the stream of requests a connection is.
#[derive(Debug)]
pub(super) enum Inbound {
    /// Before a header.
    Header,
    /// In the payload of a write that goes to the page cache as it arrives.
    Streaming(Streaming),
    /// In the payload of a write that is gathered first.
    Gathering(Gathering),
    /// In the payload of a request that was refused.
    Skipping(Skipping),
}

/// A write of which `done` bytes are in the page cache.
#[derive(Debug)]
pub(super) struct Streaming {
    pub(super) context: RequestContext,
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

/// A write with a payload that goes to the disk in pieces of [`GATHERED_MAX`], the next while those before
/// are under way. So no payload, however long, holds more than one piece before it arrives.
#[derive(Debug)]
pub(super) struct Gathering {
    pub(super) context: RequestContext,
    /// What was not handed to the disk yet.
    pub(super) rest: Range,
    pub(super) flags: WriteFlags,
    /// The piece that is being gathered; none while there is no memory for it.
    pub(super) piece: Option<Gathered>,
    /// What became of the pieces; none where there is but one.
    pub(super) split_write: Option<Arc<SplitWrite>>,
}

/// A piece of a payload, of which `filled` bytes are there.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) buffer: Buffer,
    pub(super) filled: usize,
    pub(super) charge: Charge,
}

impl Gathering {
    /// The first piece of `rest`. All but the last end at a multiple of [`GATHERED_MAX`].
    pub(super) fn next_piece(rest: Range) -> Range {
        if rest.len <= GATHERED_MAX {
            return rest;
        }
        let end = (rest.offset / GATHERED_MAX + 1) * GATHERED_MAX;
        Range::new(rest.offset, end - rest.offset)
    }

    /// How many pieces `rest` is cut into.
    pub(super) fn count(rest: Range) -> u64 {
        if rest.len <= GATHERED_MAX {
            return 1;
        }
        let first = Self::next_piece(rest).len;
        1 + (rest.len - first).div_ceil(GATHERED_MAX)
    }
}

impl Gathered {
    pub(super) fn new(len: usize, charge: Charge) -> Self {
        Self {
            buffer: Buffer::take(len),
            filled: 0,
            charge,
        }
    }

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

/// A refused request with `left` bytes of payload still to be skipped.
#[derive(Debug)]
pub(super) struct Skipping {
    pub(super) context: RequestContext,
    pub(super) left: u64,
    pub(super) error: WireError,
    pub(super) text: String,
}
