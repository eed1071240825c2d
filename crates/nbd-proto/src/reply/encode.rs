//! Encoders of replies in the framing that was agreed on.

use std::ops::Deref;

use super::{
    ChunkKind, OFFSET_DATA_LEN, OFFSET_HOLE_LEN, chunk_header, error_payload, simple_reply,
};
use crate::consts::EXTENDED_CHUNK_MAGIC;
use crate::errno::WireError;
use crate::flags::ChunkFlags;
use crate::framing::Framing;

/// The request that is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyTo {
    /// Its cookie.
    pub cookie: u64,
    /// Its offset, which extended replies repeat.
    pub offset: u64,
}

/// A part of the export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkRange {
    /// First byte on the export.
    pub offset: u64,
    /// Length, bytes.
    pub len: u32,
}

/// The fixed beginning of a reply: the bytes it derefs to.
#[derive(Debug, Clone, Copy)]
pub struct ReplyHead {
    bytes: [u8; Self::MAX],
    len: usize,
}

impl ReplyHead {
    /// The longest: an extended chunk that reports a hole.
    pub const MAX: usize = 32 + 12;

    const fn empty() -> Self {
        Self {
            bytes: [0; Self::MAX],
            len: 0,
        }
    }

    /// Appends `part`. All callers are in this crate and stay within [`Self::MAX`].
    pub(super) fn with(mut self, part: &[u8]) -> Self {
        self.bytes[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
        self
    }
}

impl Deref for ReplyHead {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl AsRef<[u8]> for ReplyHead {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Framing {
    /// The longest that comes before the data of a read: a buffer of this plus the data holds the reply.
    pub const READ_HEAD_MAX: usize = 32 + 8;

    /// The whole reply to what succeeded and has nothing to say: every command but `READ` and
    /// `BLOCK_STATUS`.
    #[must_use]
    pub fn success(self, to: ReplyTo) -> ReplyHead {
        match self {
            Self::Simple | Self::Structured => {
                ReplyHead::empty().with(&simple_reply(to.cookie, None))
            }
            Self::Extended => self.end(to),
        }
    }

    /// What ends a reply of several chunks; also the whole reply to a successful read of no bytes.
    #[must_use]
    pub fn end(self, to: ReplyTo) -> ReplyHead {
        match self {
            Self::Simple => ReplyHead::empty().with(&simple_reply(to.cookie, None)),
            Self::Structured | Self::Extended => {
                self.chunk(to, ChunkFlags::DONE, ChunkKind::None, 0)
            }
        }
    }

    /// What comes before the data of a read. `flags` says whether it is the last chunk; a simple reply
    /// is always whole, and `piece` then all of the request.
    ///
    /// # Panics
    /// If `piece` is within 8 bytes of 4 GiB; payloads are capped far below.
    #[must_use]
    pub fn read_data(self, to: ReplyTo, flags: ChunkFlags, piece: ChunkRange) -> ReplyHead {
        if self == Self::Simple {
            return ReplyHead::empty().with(&simple_reply(to.cookie, None));
        }
        let payload_len = piece
            .len
            .checked_add(8)
            .expect("payloads are capped below 4 GiB");
        self.chunk(to, flags, ChunkKind::OffsetData, payload_len)
            .with(&piece.offset.to_be_bytes())
    }

    /// A whole chunk that says that `piece` of a read is zero.
    ///
    /// # Panics
    /// If replies do not come in chunks ([`Framing::is_chunked`]).
    #[must_use]
    pub fn read_hole(self, to: ReplyTo, flags: ChunkFlags, piece: ChunkRange) -> ReplyHead {
        self.chunk(to, flags, ChunkKind::OffsetHole, 12)
            .with(&piece.offset.to_be_bytes())
            .with(&piece.len.to_be_bytes())
    }

    /// The reply, or its last chunk, that says why a request failed, and with `at` where on the
    /// export. A simple reply has no room for text and place, and cannot follow a chunk.
    #[must_use]
    pub fn error(self, to: ReplyTo, error: WireError, text: &str, at: Option<u64>) -> Vec<u8> {
        self.error_chunk(to, ChunkFlags::DONE, error, text, at)
    }

    /// The same where the reply may go on, as `flags` says.
    #[must_use]
    pub fn error_chunk(
        self,
        to: ReplyTo,
        flags: ChunkFlags,
        error: WireError,
        text: &str,
        at: Option<u64>,
    ) -> Vec<u8> {
        if self == Self::Simple {
            return simple_reply(to.cookie, Some(error)).to_vec();
        }
        let (kind, payload) = error_payload(error, text, at);
        let payload_len = crate::wire::len32(payload.len());
        let mut out = self.chunk(to, flags, kind, payload_len).to_vec();
        out.extend_from_slice(&payload);
        out
    }

    /// The header of a chunk with `payload_len` bytes behind it.
    ///
    /// # Panics
    /// If replies do not come in chunks.
    #[must_use]
    pub fn chunk(
        self,
        to: ReplyTo,
        flags: ChunkFlags,
        kind: ChunkKind,
        payload_len: u32,
    ) -> ReplyHead {
        let head = ReplyHead::empty();
        match self {
            Self::Simple => panic!("a {kind:?} chunk in simple replies"),
            Self::Structured => head.with(&chunk_header(to.cookie, flags, kind, payload_len)),
            Self::Extended => head
                .with(&EXTENDED_CHUNK_MAGIC.to_be_bytes())
                .with(&flags.bits().to_be_bytes())
                .with(&u16::from(kind).to_be_bytes())
                .with(&to.cookie.to_be_bytes())
                .with(&to.offset.to_be_bytes())
                .with(&u64::from(payload_len).to_be_bytes()),
        }
    }
}

const _: () = assert!(OFFSET_HOLE_LEN <= ReplyHead::MAX);
const _: () = assert!(OFFSET_DATA_LEN <= Framing::READ_HEAD_MAX);
