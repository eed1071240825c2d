//! [`ReplyDecoder`]: a client's view of what the server sends in the transmission phase.
//!
//! It names requests (cookies), knows which are outstanding, and checks every reply against them:
//! a reply to nothing, a simple reply where one in chunks is due, data outside its request or
//! twice, success with bytes missing, counts and lengths that do not add up, extents of contexts that
//! were not requested. Each of these is a [`BrokenReply`], after which the connection must be closed: the stream cannot be trusted.
//!
//! It keeps no bytes. Headers are decoded from the caller's buffer once they are whole, at most
//! [`ReplyDecoder::HEAD_MAX`] bytes; payloads are only announced ([`ReplyEvent::Data`]), so that
//! the caller can receive them where they belong, and extents are reported one by one.
//!
//! Memory: one slot for each request in flight, and at most [`limits::PIECES_MAX`] pieces of one read.

mod broken;
mod chunk;
mod chunks;
mod coverage;
mod event;
mod slots;
mod status;

pub use broken::BrokenReply;
pub use event::{Decoded, Expected, ReplyEvent, TooManyInFlight};

use crate::consts::{CHUNK_MAGIC, EXTENDED_CHUNK_MAGIC, SIMPLE_REPLY_MAGIC, limits};
use crate::context::MetaContext;
use crate::errno::WireError;
use crate::framing::Framing;
use crate::reply::SIMPLE_REPLY_LEN;
use crate::request::Command;
use crate::wire::Fields;
use chunk::ERROR_PAYLOAD_MAX;
use slots::{PendingRequest, Slots};
use status::StatusChunk;

/// Decodes replies to the requests that were inserted.
#[derive(Debug)]
pub struct ReplyDecoder<T> {
    framing: Framing,
    /// Ids of the contexts that were agreed on, at most [`limits::CONTEXTS_MAX`].
    contexts: Vec<u32>,
    slots: Slots<T>,
    payload_left: u32,
    /// The chunk of extents in the middle of which the stream is.
    status: Option<StatusChunk>,
    /// Cookie of a request after its last chunk; `Done` comes once its payload was taken.
    finishing: Option<u64>,
}

impl<T> ReplyDecoder<T> {
    /// Bytes that are enough for any header: an error chunk with the longest text.
    pub const HEAD_MAX: usize = 32 + ERROR_PAYLOAD_MAX;

    /// A decoder for a connection with this framing, of at most `in_flight_max` requests.
    #[must_use]
    pub fn new(framing: Framing, in_flight_max: u32) -> Self {
        Self {
            framing,
            contexts: Vec::new(),
            slots: Slots::new(in_flight_max),
            payload_left: 0,
            status: None,
            finishing: None,
        }
    }

    /// The same where these contexts were agreed on ([`crate::Negotiated::contexts`]).
    ///
    /// # Panics
    /// If there are more than [`limits::CONTEXTS_MAX`].
    #[must_use]
    pub fn with_contexts(mut self, contexts: &[MetaContext]) -> Self {
        assert!(
            contexts.len() <= limits::CONTEXTS_MAX,
            "the handshake agrees on few contexts"
        );
        self.contexts = contexts.iter().map(|context| context.id).collect();
        self
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
        let contexts_due = match expected.command {
            Command::BlockStatus => self.bits(|_| true),
            _ => 0,
        };
        self.insert(expected, contexts_due, token)
    }

    /// The same for a `BLOCK_STATUS` with a payload ([`crate::StatusFilter`]): in these contexts only.
    ///
    /// # Errors
    /// [`TooManyInFlight`]; `token` is dropped, so ask [`Self::is_full`] first.
    pub fn begin_filtered(
        &mut self,
        expected: Expected,
        ids: &[u32],
        token: T,
    ) -> Result<u64, TooManyInFlight> {
        let contexts_due = self.bits(|id| ids.contains(&id));
        self.insert(expected, contexts_due, token)
    }

    fn insert(
        &mut self,
        expected: Expected,
        contexts_due: u64,
        token: T,
    ) -> Result<u64, TooManyInFlight> {
        let cookie = self.slots.insert(expected, token)?;
        if let Some(pending) = self.slots.find(cookie) {
            pending.contexts_due = contexts_due;
        }
        Ok(cookie)
    }

    /// A bit for the place of each context that is `wanted`.
    fn bits(&self, wanted: impl Fn(u32) -> bool) -> u64 {
        let places = self.contexts.iter().enumerate();
        places
            .filter(|(_, id)| wanted(**id))
            .fold(0, |bits, (at, _)| bits | 1 << at)
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
        self.status = None;
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
        if let Some(status) = self.status {
            return self.extent(status, 0, bytes);
        }
        if let Some(cookie) = self.finishing.take() {
            return self.finish(cookie, 0);
        }
        let Some(magic) = Fields::new(bytes).u32() else {
            return Ok(more());
        };
        match (magic, self.framing) {
            (SIMPLE_REPLY_MAGIC, Framing::Simple | Framing::Structured) => self.simple(bytes),
            (CHUNK_MAGIC, Framing::Structured) => self.chunk(bytes),
            (EXTENDED_CHUNK_MAGIC, Framing::Extended) => self.chunk(bytes),
            (SIMPLE_REPLY_MAGIC | CHUNK_MAGIC | EXTENDED_CHUNK_MAGIC, _) => {
                Err(BrokenReply::NotNegotiated)
            }
            (other, _) => Err(BrokenReply::Magic(other)),
        }
    }

    fn simple(&mut self, bytes: &[u8]) -> Result<Decoded<T>, BrokenReply> {
        let mut fields = Fields::new(bytes);
        let (Some(_), Some(error), Some(cookie)) = (fields.u32(), fields.u32(), fields.u64())
        else {
            return Ok(more());
        };
        let chunked = self.framing.is_chunked();
        let pending = self.pending(cookie)?;
        pending.error = WireError::from_number(error);
        let expected = pending.expected;
        if expected.command != Command::Read {
            return self.finish(cookie, SIMPLE_REPLY_LEN);
        }
        if chunked {
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
        if pending.error.is_none() && pending.contexts_due != 0 {
            let at = usize::try_from(pending.contexts_due.trailing_zeros()).unwrap_or(0);
            return Err(BrokenReply::ContextMissing(self.contexts[at]));
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

    fn pending(&mut self, cookie: u64) -> Result<&mut PendingRequest<T>, BrokenReply> {
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
