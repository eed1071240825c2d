//! [`ReplyDecoder`]: a client's view of what the server sends in the transmission phase.
//!
//! It names requests (cookies), knows which are outstanding, and checks every reply against them:
//! a reply to nothing, a simple reply where a structured one is due, data outside its request or
//! twice, success with bytes missing, counts and lengths that do not add up. Each of these is a
//! [`BrokenReply`], after which the connection must be closed: the stream cannot be trusted.
//!
//! It keeps no bytes. Headers are decoded from the caller's buffer once they are whole, at most
//! [`ReplyDecoder::HEAD_MAX`] bytes; payloads are only announced ([`ReplyEvent::Data`]), so that
//! the caller can receive them where they belong.
//!
//! Memory: one slot for each request in flight, and at most [`limits::PIECES_MAX`] pieces of one read.

mod broken;
mod chunk;
mod coverage;
mod event;
mod slots;

pub use broken::BrokenReply;
pub use event::{Decoded, Expected, ReplyEvent, TooManyInFlight};

use crate::consts::{CHUNK_MAGIC, SIMPLE_REPLY_MAGIC, limits};
use crate::errno::WireError;
use crate::flags::CommandFlags;
use crate::reply::{CHUNK_LEN, ChunkKind, OFFSET_DATA_LEN, OFFSET_HOLE_LEN, SIMPLE_REPLY_LEN};
use crate::request::Command;
use crate::wire::{Fields, index, printable};
use chunk::{Chunk, ERROR_PAYLOAD_MAX, ErrorPayload};
use slots::{Pending, Slots};

/// Decodes replies to the requests it was told of.
#[derive(Debug)]
pub struct ReplyDecoder<T> {
    structured: bool,
    slots: Slots<T>,
    payload_left: u32,
    /// Cookie of a request whose last chunk was seen; `Done` comes once its payload was taken.
    finishing: Option<u64>,
}

impl<T> ReplyDecoder<T> {
    /// Bytes that are enough for any header: an error chunk with the longest text.
    pub const HEAD_MAX: usize = CHUNK_LEN + ERROR_PAYLOAD_MAX;

    /// A decoder for a connection with or without structured replies, of at most `in_flight_max`
    /// requests.
    #[must_use]
    pub fn new(structured: bool, in_flight_max: u32) -> Self {
        Self {
            structured,
            slots: Slots::new(in_flight_max),
            payload_left: 0,
            finishing: None,
        }
    }

    /// Notes a request that is about to be sent and returns the cookie to send it with.
    ///
    /// # Errors
    /// [`TooManyInFlight`]; `token` is dropped, so ask [`Self::is_full`] first.
    ///
    /// # Panics
    /// If a read is longer than [`limits::PAYLOAD_MAX`].
    pub fn begin(&mut self, expected: Expected, token: T) -> Result<u64, TooManyInFlight> {
        let too_long =
            expected.command == Command::Read && expected.len > u64::from(limits::PAYLOAD_MAX);
        assert!(!too_long, "reads are split before they are sent");
        self.slots.insert(expected, token)
    }

    /// Whether [`Self::begin`] would fail.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.slots.is_full()
    }

    /// Requests without a final reply.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.slots.len()
    }

    /// What was attached to a request in flight.
    pub fn token_mut(&mut self, cookie: u64) -> Option<&mut T> {
        self.slots.find(cookie).map(|pending| &mut pending.token)
    }

    /// Ends every request in flight and returns what was attached to them.
    pub fn drain(&mut self) -> Vec<T> {
        self.payload_left = 0;
        self.finishing = None;
        self.slots.drain()
    }

    /// Bytes of the last [`ReplyEvent::Data`] that were not yet taken.
    #[must_use]
    pub const fn payload_left(&self) -> u32 {
        self.payload_left
    }

    /// Says that `len` bytes of payload were taken from the stream.
    ///
    /// # Panics
    /// If there were fewer.
    pub fn payload_taken(&mut self, len: u32) {
        self.payload_left = self
            .payload_left
            .checked_sub(len)
            .expect("no more is taken than was announced");
    }

    /// Decodes one step from the front of the stream. Until a header is whole, nothing is consumed.
    ///
    /// # Errors
    /// [`BrokenReply`]: close the connection.
    ///
    /// # Panics
    /// If the payload of the last [`ReplyEvent::Data`] was not taken.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Decoded<T>, BrokenReply> {
        assert_eq!(
            self.payload_left, 0,
            "a payload is taken before the next step"
        );
        if let Some(cookie) = self.finishing.take() {
            return self.finish(cookie, 0);
        }
        let Some(magic) = Fields::new(bytes).u32() else {
            return Ok(more());
        };
        match magic {
            SIMPLE_REPLY_MAGIC => self.simple(bytes),
            CHUNK_MAGIC if self.structured => self.chunk(bytes),
            CHUNK_MAGIC => Err(BrokenReply::NotNegotiated),
            other => Err(BrokenReply::Magic(other)),
        }
    }

    fn simple(&mut self, bytes: &[u8]) -> Result<Decoded<T>, BrokenReply> {
        let mut fields = Fields::new(bytes);
        let (Some(_), Some(error), Some(cookie)) = (fields.u32(), fields.u32(), fields.u64())
        else {
            return Ok(more());
        };
        let structured = self.structured;
        let pending = self.pending(cookie)?;
        pending.error = WireError::from_number(error);
        let expected = pending.expected;
        if expected.command != Command::Read {
            return self.finish(cookie, SIMPLE_REPLY_LEN);
        }
        if structured {
            return Err(BrokenReply::SimpleReadReply);
        }
        if pending.error.is_some() || expected.len == 0 {
            return self.finish(cookie, SIMPLE_REPLY_LEN);
        }
        pending.coverage.add_all(expected.len);
        self.finishing = Some(cookie);
        let offset = expected.offset;
        let len = u32::try_from(expected.len).map_err(|_| BrokenReply::Outside { cookie })?;
        Ok(self.data(SIMPLE_REPLY_LEN, cookie, offset, len))
    }

    fn chunk(&mut self, bytes: &[u8]) -> Result<Decoded<T>, BrokenReply> {
        let Some(chunk) = Chunk::decode(bytes) else {
            return Ok(more());
        };
        self.pending(chunk.cookie)?;
        match chunk.kind {
            ChunkKind::None => self.none_chunk(chunk),
            ChunkKind::OffsetData => self.data_chunk(chunk, bytes),
            ChunkKind::OffsetHole => self.hole_chunk(chunk, bytes),
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
        self.finish(chunk.cookie, CHUNK_LEN)
    }

    fn data_chunk(&mut self, chunk: Chunk, bytes: &[u8]) -> Result<Decoded<T>, BrokenReply> {
        let len = match chunk.len.checked_sub(8) {
            Some(len) if len > 0 => len,
            _ => return Err(chunk.wrong_length()),
        };
        let Some(offset) = Fields::new(&bytes[CHUNK_LEN..]).u64() else {
            return Ok(more());
        };
        self.content(chunk, offset, len)?;
        Ok(self.data(OFFSET_DATA_LEN, chunk.cookie, offset, len))
    }

    fn hole_chunk(&mut self, chunk: Chunk, bytes: &[u8]) -> Result<Decoded<T>, BrokenReply> {
        if chunk.len != 12 {
            return Err(chunk.wrong_length());
        }
        let mut fields = Fields::new(&bytes[CHUNK_LEN..]);
        let (Some(offset), Some(len)) = (fields.u64(), fields.u32()) else {
            return Ok(more());
        };
        self.content(chunk, offset, len)?;
        Ok(Decoded {
            consumed: OFFSET_HOLE_LEN,
            event: Some(ReplyEvent::Hole {
                cookie: chunk.cookie,
                offset,
                len,
            }),
        })
    }

    fn error_chunk(&mut self, chunk: Chunk, bytes: &[u8]) -> Result<Decoded<T>, BrokenReply> {
        let len = index(chunk.len);
        if len > ERROR_PAYLOAD_MAX {
            return Err(chunk.wrong_length());
        }
        let Some(payload) = bytes.get(CHUNK_LEN..CHUNK_LEN + len) else {
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
            consumed: CHUNK_LEN + len,
            event: Some(ReplyEvent::Error {
                cookie,
                error,
                text: printable(said.text),
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

    fn data(&mut self, consumed: usize, cookie: u64, offset: u64, len: u32) -> Decoded<T> {
        self.payload_left = len;
        Decoded {
            consumed,
            event: Some(ReplyEvent::Data {
                cookie,
                offset,
                len,
            }),
        }
    }

    /// Ends a request. One that is broken stays in flight, for [`Self::drain`].
    fn finish(&mut self, cookie: u64, consumed: usize) -> Result<Decoded<T>, BrokenReply> {
        let pending = self.pending(cookie)?;
        let expected = pending.expected;
        let missing = expected.len.saturating_sub(pending.coverage.covered());
        if expected.command == Command::Read && pending.error.is_none() && missing > 0 {
            return Err(BrokenReply::Missing { missing });
        }
        let pending = self
            .slots
            .remove(cookie)
            .ok_or(BrokenReply::UnknownCookie(cookie))?;
        Ok(Decoded {
            consumed,
            event: Some(ReplyEvent::Done {
                cookie,
                token: pending.token,
                error: pending.error,
            }),
        })
    }

    fn pending(&mut self, cookie: u64) -> Result<&mut Pending<T>, BrokenReply> {
        self.slots
            .find(cookie)
            .ok_or(BrokenReply::UnknownCookie(cookie))
    }
}

/// More bytes are needed.
const fn more<T>() -> Decoded<T> {
    Decoded {
        consumed: 0,
        event: None,
    }
}
