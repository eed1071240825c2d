//! Chunks of a reply, by kind: checked against their request and turned into events.

use super::chunk::{Chunk, ERROR_PAYLOAD_MAX, ErrorPayload};
use super::{BrokenReply, Decoded, ReplyDecoder, ReplyEvent, more};
use crate::errno::WireError;
use crate::flags::CommandFlags;
use crate::reply::ChunkKind;
use crate::request::Command;

impl<T> ReplyDecoder<T> {
    pub(super) fn chunk(&mut self, bytes: &[u8]) -> Result<Decoded<T>, BrokenReply> {
        let Some(chunk) = Chunk::decode(self.framing, bytes) else {
            return Ok(more());
        };
        let cookie = chunk.cookie;
        let asked_at = self.pending(cookie)?.expected.offset;
        if chunk.offset.is_some_and(|offset| offset != asked_at) {
            return Err(BrokenReply::Offset { cookie });
        }
        match chunk.kind {
            ChunkKind::None => self.none_chunk(chunk),
            ChunkKind::OffsetData => self.data_chunk(chunk, bytes),
            ChunkKind::OffsetHole => self.hole_chunk(chunk, bytes),
            ChunkKind::BlockStatus if !self.framing.is_extended() => {
                self.status_chunk(chunk, bytes)
            }
            ChunkKind::BlockStatusExt if self.framing.is_extended() => {
                self.status_chunk(chunk, bytes)
            }
            kind if kind.is_error() => self.error_chunk(chunk, bytes),
            kind => Err(BrokenReply::Kind(kind)),
        }
    }

    fn none_chunk(&mut self, chunk: Chunk) -> Result<Decoded<T>, BrokenReply> {
        if chunk.len != 0 {
            return Err(chunk.wrong_length());
        }
        if !chunk.done {
            return Err(BrokenReply::NoneWithoutDone);
        }
        self.finish(chunk.cookie, chunk.header_len)
    }

    fn data_chunk(&mut self, chunk: Chunk, bytes: &[u8]) -> Result<Decoded<T>, BrokenReply> {
        let len = match chunk.len.checked_sub(8).map(u32::try_from) {
            Some(Ok(len)) if len > 0 => len,
            _ => return Err(chunk.wrong_length()),
        };
        let Some(offset) = chunk.payload(bytes).u64() else {
            return Ok(more());
        };
        self.content(chunk, offset, len)?;
        Ok(self.data(chunk.header_len + 8, chunk.cookie, offset, len))
    }

    fn hole_chunk(&mut self, chunk: Chunk, bytes: &[u8]) -> Result<Decoded<T>, BrokenReply> {
        if chunk.len != 12 {
            return Err(chunk.wrong_length());
        }
        let mut fields = chunk.payload(bytes);
        let (Some(offset), Some(len)) = (fields.u64(), fields.u32()) else {
            return Ok(more());
        };
        self.content(chunk, offset, len)?;
        Ok(Decoded {
            consumed: chunk.header_len + 12,
            event: Some(ReplyEvent::Hole {
                cookie: chunk.cookie,
                offset,
                len,
            }),
        })
    }

    fn error_chunk(&mut self, chunk: Chunk, bytes: &[u8]) -> Result<Decoded<T>, BrokenReply> {
        let len = match usize::try_from(chunk.len) {
            Ok(len) if len <= ERROR_PAYLOAD_MAX => len,
            _ => return Err(chunk.wrong_length()),
        };
        let Some(payload) = chunk.payload(bytes).take(len) else {
            return Ok(more());
        };
        let said = ErrorPayload::decode(chunk.kind, payload).ok_or(chunk.wrong_length())?;
        let error = WireError::from_number(said.number).ok_or(BrokenReply::ErrorWithoutError)?;
        let cookie = chunk.cookie;
        let pending = self.pending(cookie)?;
        if said.offset.is_some_and(|at| !pending.contains(at, 1)) {
            return Err(BrokenReply::Outside { cookie });
        }
        pending.error.get_or_insert(error);
        self.finishing = chunk.done.then_some(cookie);
        Ok(Decoded {
            consumed: chunk.header_len + len,
            event: Some(ReplyEvent::Error {
                cookie,
                error,
                text: crate::wire::printable(said.text),
                offset: said.offset,
            }),
        })
    }

    /// Checks a piece of content against its request and notes it.
    fn content(&mut self, chunk: Chunk, offset: u64, len: u32) -> Result<(), BrokenReply> {
        let cookie = chunk.cookie;
        let pending = self.pending(cookie)?;
        if pending.expected.command != Command::Read {
            return Err(BrokenReply::Kind(chunk.kind));
        }
        if len == 0 || !pending.contains(offset, u64::from(len)) {
            return Err(BrokenReply::Outside { cookie });
        }
        let unfragmented = pending.expected.flags.contains(CommandFlags::DF);
        if unfragmented && !pending.coverage.is_empty() {
            return Err(BrokenReply::Fragmented);
        }
        pending.coverage.add(pending.expected.len, offset, len)?;
        self.finishing = chunk.done.then_some(cookie);
        Ok(())
    }
}
