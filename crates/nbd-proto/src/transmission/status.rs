//! Chunks of extents: replies to `BLOCK_STATUS`, reported extent by extent, so that a chunk of 16 MiB
//! needs no memory here.

use super::chunk::Chunk;
use super::{BrokenReply, Decoded, Expected, ReplyDecoder, ReplyEvent, more};
use crate::consts::limits;
use crate::flags::CommandFlags;
use crate::framing::Framing;
use crate::reply::Extent;
use crate::request::Command;
use crate::wire::Fields;

/// Where in a chunk of extents the stream is.
#[derive(Debug, Clone, Copy)]
pub(super) struct StatusChunk {
    cookie: u64,
    context: u32,
    /// Extents that are still to come, this one included.
    left: u64,
    /// Bytes that the extents before this one cover.
    told: u64,
    /// Whether the chunk is its reply's last.
    done: bool,
}

/// Id and count, and how many bytes they take.
struct StatusHead {
    context: u32,
    count: u64,
    len: usize,
}

impl StatusHead {
    /// `None` if the payload's beginning is not there yet.
    fn decode(framing: Framing, chunk: Chunk, bytes: &[u8]) -> Option<Result<Self, BrokenReply>> {
        let (fixed, each) = if framing.is_extended() {
            (8, 16)
        } else {
            (4, 8)
        };
        let count = match chunk.len.checked_sub(fixed) {
            Some(list) if list > 0 && list % each == 0 => list / each,
            _ => return Some(Err(chunk.wrong_length())),
        };
        if count > u64::from(limits::EXTENTS_MAX) {
            return Some(Err(BrokenReply::TooManyExtents(count)));
        }
        let mut fields = chunk.payload(bytes);
        let context = fields.u32()?;
        if framing.is_extended() && u64::from(fields.u32()?) != count {
            return Some(Err(chunk.wrong_length()));
        }
        Some(Ok(Self {
            context,
            count,
            len: bytes.len() - fields.rest().len(),
        }))
    }
}

impl<T> ReplyDecoder<T> {
    /// A chunk's head and its first extent.
    pub(super) fn status_chunk(
        &mut self,
        chunk: Chunk,
        bytes: &[u8],
    ) -> Result<Decoded<T>, BrokenReply> {
        let expected = self.pending(chunk.cookie)?.expected;
        if expected.command != Command::BlockStatus {
            return Err(BrokenReply::Kind(chunk.kind));
        }
        let Some(head) = StatusHead::decode(self.framing, chunk, bytes) else {
            return Ok(more());
        };
        let head = head?;
        if expected.flags.contains(CommandFlags::REQ_ONE) && head.count > 1 {
            return Err(BrokenReply::TooManyExtents(head.count));
        }
        let due = self.due(chunk.cookie, head.context)?;
        let status = StatusChunk {
            cookie: chunk.cookie,
            context: head.context,
            left: head.count,
            told: 0,
            done: chunk.done,
        };
        let decoded = self.extent(status, head.len, &bytes[head.len..])?;
        if decoded.event.is_some() {
            // Not before the first extent is there: until then nothing is consumed.
            self.pending(chunk.cookie)?.contexts_due &= !due;
        }
        Ok(decoded)
    }

    /// The bit of a context with a status that is due.
    fn due(&mut self, cookie: u64, context: u32) -> Result<u64, BrokenReply> {
        let bit = self.bits(|id| id == context);
        let pending = self.pending(cookie)?;
        if bit == 0 {
            return Err(BrokenReply::UnknownContext(context));
        }
        if pending.contexts_due & bit == 0 {
            return Err(BrokenReply::ContextTwice(context));
        }
        Ok(bit)
    }

    /// The next extent of a chunk, at the front of `bytes`, of which `before` were passed over.
    pub(super) fn extent(
        &mut self,
        mut status: StatusChunk,
        before: usize,
        bytes: &[u8],
    ) -> Result<Decoded<T>, BrokenReply> {
        let mut fields = Fields::new(bytes);
        let Some(extent) = extent(self.framing, &mut fields) else {
            return Ok(more());
        };
        let expected = self.pending(status.cookie)?.expected;
        let offset = check(expected, status, extent)?;
        status.told += extent.len;
        status.left -= 1;
        if status.left == 0 {
            self.finishing = status.done.then_some(status.cookie);
        }
        self.status = (status.left > 0).then_some(status);
        Ok(Decoded {
            consumed: before + bytes.len() - fields.rest().len(),
            event: Some(ReplyEvent::Extent {
                cookie: status.cookie,
                context: status.context,
                offset,
                extent,
            }),
        })
    }
}

/// `None` if it is not whole.
fn extent(framing: Framing, fields: &mut Fields<'_>) -> Option<Extent> {
    let (len, flags) = if framing.is_extended() {
        (fields.u64()?, fields.u64()?)
    } else {
        (u64::from(fields.u32()?), u64::from(fields.u32()?))
    };
    Some(Extent { len, flags })
}

/// Where the extent begins, if it may: only the last one may end behind the request, and if one extent was
/// requested not even that (proto.md, `BLOCK_STATUS`).
fn check(expected: Expected, status: StatusChunk, extent: Extent) -> Result<u64, BrokenReply> {
    let cookie = status.cookie;
    if extent.len == 0 {
        return Err(BrokenReply::EmptyExtent);
    }
    let offset = expected.offset.checked_add(status.told);
    let end = offset.and_then(|offset| offset.checked_add(extent.len));
    let (Some(offset), Some(_)) = (offset, end) else {
        return Err(BrokenReply::ExtentBeyond { cookie });
    };
    let begins_behind = status.told > 0 && status.told >= expected.len;
    let ends_behind = extent.len > expected.len;
    if begins_behind || (expected.flags.contains(CommandFlags::REQ_ONE) && ends_behind) {
        return Err(BrokenReply::ExtentBeyond { cookie });
    }
    Ok(offset)
}
