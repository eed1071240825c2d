//! `BLOCK_STATUS`: extents as the server says them, and the payload by which a client chooses contexts.
//!
//! ```text
//! BLOCK_STATUS                     BLOCK_STATUS_EXT                 payload of a request
//! u32 context id                   u32 context id                   u64 len
//!                                  u32 count                        u32 context id   repeated
//! u32 len, u32 flags   repeated    u64 len, u64 flags   repeated
//! ```

use super::{ChunkKind, ReplyTo};
use crate::consts::limits;
use crate::context::MetaContext;
use crate::flags::ChunkFlags;
use crate::framing::Framing;
use crate::wire::{Fields, index, len32};

/// The longest extent of the 32-bit form that ends at a block boundary for every block size.
const NARROW_LEN_MAX: u64 = (u32::MAX - (limits::BLOCK_SIZE_MIN_MAX - 1)) as u64;

/// A run of bytes of one status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Length, bytes; never 0.
    pub len: u64,
    /// Status, as the context defines it; above 32 bits only under extended headers.
    pub flags: u64,
}

impl Framing {
    /// A whole chunk that reports the status of `extents`, one after the other from the request's offset,
    /// in the context `id`. What does not fit the form is left out, so that the client's next request begins
    /// where the chunk ends: extents beyond [`limits::EXTENTS_MAX`], and in the 32-bit form what comes
    /// behind an extent that is 4 GiB long.
    ///
    /// # Panics
    /// If replies do not come in chunks, or there is no extent, or one without length.
    #[must_use]
    pub fn block_status(
        self,
        to: ReplyTo,
        flags: ChunkFlags,
        id: u32,
        extents: &[Extent],
    ) -> Vec<u8> {
        assert!(!extents.is_empty(), "a status has at least one extent");
        let extents = &extents[..extents.len().min(index(limits::EXTENTS_MAX))];
        assert!(extents.iter().all(|extent| extent.len > 0));
        if self.is_extended() {
            self.wide_status(to, flags, id, extents)
        } else {
            self.narrow_status(to, flags, id, extents)
        }
    }

    fn wide_status(self, to: ReplyTo, flags: ChunkFlags, id: u32, extents: &[Extent]) -> Vec<u8> {
        let len = len32(8 + extents.len() * 16);
        let head = self.chunk(to, flags, ChunkKind::BlockStatusExt, len);
        let mut out = Vec::with_capacity(head.len() + index(len));
        out.extend_from_slice(&head);
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&len32(extents.len()).to_be_bytes());
        for extent in extents {
            out.extend_from_slice(&extent.len.to_be_bytes());
            out.extend_from_slice(&extent.flags.to_be_bytes());
        }
        out
    }

    fn narrow_status(self, to: ReplyTo, flags: ChunkFlags, id: u32, extents: &[Extent]) -> Vec<u8> {
        let long = extents
            .iter()
            .position(|extent| extent.len > NARROW_LEN_MAX)
            .map_or(extents.len(), |at| at + 1);
        let extents = &extents[..long];
        let len = len32(4 + extents.len() * 8);
        let head = self.chunk(to, flags, ChunkKind::BlockStatus, len);
        let mut out = Vec::with_capacity(head.len() + index(len));
        out.extend_from_slice(&head);
        out.extend_from_slice(&id.to_be_bytes());
        for extent in extents {
            out.extend_from_slice(&low_half(extent.len.min(NARROW_LEN_MAX)));
            out.extend_from_slice(&low_half(extent.flags));
        }
        out
    }
}

/// The lower 32 bits, big-endian.
fn low_half(number: u64) -> [u8; 4] {
    let [_, _, _, _, low @ ..] = number.to_be_bytes();
    low
}

/// The payload of a `BLOCK_STATUS` request: what it concerns, and in which contexts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusFilter {
    /// Bytes the request concerns; the header's length is that of the payload.
    pub len: u64,
    /// Ids of the contexts, each once.
    pub ids: Vec<u32>,
}

/// Why a payload is none of `BLOCK_STATUS`: answer `Invalid`, once it was taken from the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadFilter {
    /// Not 8 bytes and 4 for each id.
    #[error("a status request with a payload of {0} bytes")]
    Length(usize),
    /// Not agreed on.
    #[error("status of context {0}, which was not negotiated")]
    Unknown(u32),
    /// Already requested.
    #[error("status of context {0} requested twice")]
    Twice(u32),
}

impl StatusFilter {
    /// Reads a payload of at most [`limits::STATUS_FILTER_MAX`] bytes; a longer one is skipped and
    /// refused unread.
    ///
    /// # Errors
    /// [`BadFilter`], which ends the request only.
    pub fn decode(payload: &[u8], contexts: &[MetaContext]) -> Result<Self, BadFilter> {
        let wrong_length = BadFilter::Length(payload.len());
        let mut fields = Fields::new(payload);
        let len = fields.u64().ok_or(wrong_length)?;
        let list = fields.rest();
        let whole = list.len().is_multiple_of(size_of::<u32>());
        if !whole || payload.len() > index(limits::STATUS_FILTER_MAX) {
            return Err(wrong_length);
        }
        let mut ids = Vec::with_capacity(list.len() / size_of::<u32>());
        while let Some(id) = fields.u32() {
            if !contexts.iter().any(|context| context.id == id) {
                return Err(BadFilter::Unknown(id));
            }
            if ids.contains(&id) {
                return Err(BadFilter::Twice(id));
            }
            ids.push(id);
        }
        Ok(Self { len, ids })
    }

    /// Writes the payload.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.len.to_be_bytes().to_vec();
        let ids = self.ids.iter().flat_map(|id| id.to_be_bytes());
        out.extend(ids);
        out
    }
}
