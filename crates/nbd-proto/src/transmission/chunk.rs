//! Headers of chunks and payloads of error chunks: bytes to fields, lengths checked.

use crate::consts::limits;
use crate::flags::ChunkFlags;
use crate::framing::Framing;
use crate::reply::ChunkKind;
use crate::transmission::BrokenReply;
use crate::wire::Fields;

/// Longest payload of an error chunk: number, length, text, offset.
pub(super) const ERROR_PAYLOAD_MAX: usize = 4 + 2 + limits::STRING_MAX + 8;

/// A chunk's header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    pub(super) done: bool,
    pub(super) kind: ChunkKind,
    pub(super) cookie: u64,
    /// The request's offset, which extended headers repeat.
    pub(super) offset: Option<u64>,
    /// Of the payload.
    pub(super) len: u64,
    /// Of this header.
    pub(super) header_len: usize,
}

impl Chunk {
    /// `None` if `bytes` is too short. The magic was looked at already.
    pub(super) fn decode(framing: Framing, bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(bytes);
        fields.u32()?;
        // Unknown flags are to be ignored by clients.
        let flags = ChunkFlags::from_bits_truncate(fields.u16()?);
        let kind = ChunkKind::from(fields.u16()?);
        let cookie = fields.u64()?;
        let (offset, len) = if framing.is_extended() {
            (Some(fields.u64()?), fields.u64()?)
        } else {
            (None, u64::from(fields.u32()?))
        };
        Some(Self {
            done: flags.contains(ChunkFlags::DONE),
            kind,
            cookie,
            offset,
            len,
            header_len: bytes.len() - fields.rest().len(),
        })
    }

    pub(super) const fn wrong_length(self) -> BrokenReply {
        BrokenReply::Length {
            kind: self.kind,
            len: self.len,
        }
    }

    /// What there is of the payload.
    pub(super) fn payload(self, bytes: &[u8]) -> Fields<'_> {
        Fields::new(&bytes[self.header_len..])
    }
}

/// What an error chunk says.
pub(super) struct ErrorPayload<'a> {
    pub(super) number: u32,
    pub(super) text: &'a [u8],
    pub(super) offset: Option<u64>,
}

impl<'a> ErrorPayload<'a> {
    /// `None` if the lengths do not add up. Kinds we do not know may have more behind the text.
    pub(super) fn decode(kind: ChunkKind, payload: &'a [u8]) -> Option<Self> {
        let mut fields = Fields::new(payload);
        let number = fields.u32()?;
        let text_len = usize::from(fields.u16()?);
        let text = fields.take(text_len)?;
        if text_len > limits::STRING_MAX {
            return None;
        }
        let offset = match kind {
            ChunkKind::ErrorOffset => Some(fields.u64()?),
            _ => None,
        };
        let known = matches!(kind, ChunkKind::Error | ChunkKind::ErrorOffset);
        (!known || fields.rest().is_empty()).then_some(Self {
            number,
            text,
            offset,
        })
    }
}
