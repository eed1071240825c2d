//! [`Connection`]: one socket in transmission, with the requests in flight on it. Never waits.

use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, BytesMut};
use nbd_proto::{
    BASE_ALLOCATION, BrokenReply, Command, CommandFlags, Expected, Framing, ReplyDecoder,
    ReplyEvent, Request, WireError,
};

use crate::client::ClientConfig;
use crate::client::dial::Dialed;
use crate::client::session::abandoned_connections::is_ended_by_server;
use crate::client::session::deadlines::DeadlineBuckets;
use crate::client::session::fill::ReadBuffer;
#[cfg(test)]
use crate::client::session::mutation::{self, Mutation};
use crate::client::session::outbox::Outbox;
use crate::client::session::work::{Body, Part};
use crate::client::stream::Stream;

/// Bytes received at once where many small replies are expected.
const RECEIVE: usize = 128 << 10;
/// Bytes received at once where large payloads are expected, which then go to their own memory.
const RECEIVE_HEADS: usize = 4 << 10;
/// Reads of this size on average are received where they belong.
const LARGE_READ: u64 = 32 << 10;
/// Bytes received before the other connections have their turn.
const ROUND_MAX: usize = 4 << 20;

/// A request that is over.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) part: Part,
    pub(crate) error: Option<WireError>,
}

/// Why a connection cannot be used any more.
#[derive(Debug)]
pub(crate) enum Loss {
    Io(io::Error),
    Closed,
    Broken(BrokenReply),
}

impl From<io::Error> for Loss {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<BrokenReply> for Loss {
    fn from(broken: BrokenReply) -> Self {
        Self::Broken(broken)
    }
}

/// One socket and what is in flight on it.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    framing: Framing,
    /// Id of `base:allocation`, where that was agreed on.
    allocation: Option<u32>,
    decoder: ReplyDecoder<Part>,
    outbox: Outbox,
    received: BytesMut,
    /// The read whose payload comes next on the stream, and its offset.
    payload: Option<(u64, u64)>,
    /// Payload of everything in flight, bytes, and the reads among it.
    outstanding: u64,
    reads: u64,
    read_bytes: u64,
    /// Requests in flight that may take long.
    long: usize,
    last_progress: Instant,
    /// Since when TCP has been seen to ask the server's machine.
    probed_since: Option<Instant>,
    deadlines: DeadlineBuckets,
    /// The socket failed, and not because the server ended it. The kernel reports that once.
    has_failed_here: bool,
}

/// A connection that is given up.
#[derive(Debug)]
pub(crate) struct LostConnection {
    /// What was in flight.
    pub(crate) parts: Vec<Part>,
    pub(crate) stream: Stream,
    /// The socket failed, and not because the server ended it.
    pub(crate) has_failed_here: bool,
}

impl Connection {
    pub(crate) fn new(dialed: Dialed, config: &ClientConfig, now: Instant) -> Self {
        let (stream, negotiated) = dialed.into_parts();
        let in_flight_max = u32::try_from(config.in_flight_max).unwrap_or(u32::MAX);
        let contexts = &negotiated.contexts;
        let allocation = contexts.iter().find(|one| one.name == BASE_ALLOCATION);
        let framing = negotiated.framing;
        Self {
            stream,
            framing,
            allocation: allocation.map(|context| context.id),
            decoder: ReplyDecoder::new(framing, in_flight_max).with_contexts(contexts),
            outbox: Outbox::default(),
            received: BytesMut::new(),
            payload: None,
            outstanding: 0,
            reads: 0,
            read_bytes: 0,
            long: 0,
            last_progress: now,
            probed_since: None,
            deadlines: DeadlineBuckets::new(config.request_timeout, config.flush_timeout),
            has_failed_here: false,
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        !self.decoder.is_full()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.decoder.in_flight()
    }

    /// Payload in flight, bytes.
    pub(crate) const fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// When bytes last moved, or the first of the requests in flight was taken up.
    pub(crate) const fn last_progress(&self) -> Instant {
        self.last_progress
    }

    /// Whether a request waits for its answer for too long.
    pub(crate) fn overdue(&self, now: Instant) -> bool {
        self.deadlines.overdue(now)
    }

    /// Whether a request is in flight that may take long.
    pub(crate) const fn waits_long(&self) -> bool {
        self.long > 0
    }

    /// For `time` no request's time ran.
    pub(crate) fn extend(&mut self, time: Duration) {
        self.deadlines.extend(time);
    }

    /// How long TCP probes of the server's machine have not been acknowledged, since the first check that found one. A probe
    /// that was sent just now, after a long silence, is not in vain yet.
    pub(crate) fn unheard_for(&mut self, now: Instant) -> Duration {
        let Some(unheard) = self.stream.unheard_for() else {
            self.probed_since = None;
            return Duration::ZERO;
        };
        let asked = *self.probed_since.get_or_insert(now);
        unheard.min(now.duration_since(asked))
    }

    /// Whether the server reports extents on it.
    pub(crate) const fn reports_extents(&self) -> bool {
        self.allocation.is_some()
    }

    /// Whether lengths have 64 bits.
    pub(crate) const fn is_extended(&self) -> bool {
        self.framing.is_extended()
    }

    /// Takes a request up; [`Self::send`] sends it. `elsewhere` is the payload in flight on the other
    /// connections, which have the same wire and the same disk at their ends.
    ///
    /// # Panics
    /// Without room.
    pub(crate) fn push(&mut self, mut part: Part, elsewhere: u64, now: Instant) {
        if self.in_flight() == 0 {
            self.last_progress = now;
        }
        let command = part.command();
        let expected = Expected {
            command,
            flags: part.flags,
            offset: part.range.offset,
            len: part.range.len,
        };
        let payload = match &part.body {
            Body::Write(data) => Some(data.clone()),
            _ => None,
        };
        self.outstanding += part.payload();
        part.age = self.deadlines.begin(now, self.outstanding + elsewhere);
        self.long += usize::from(part.may_take_long());
        if command == Command::Read {
            self.reads += 1;
            self.read_bytes += part.range.len;
        }
        let cookie = self
            .decoder
            .begin(expected, part)
            .expect("a part is pushed where there is room");
        let request = Request {
            cookie,
            command,
            flags: expected.flags,
            offset: expected.offset,
            len: expected.len,
        };
        self.outbox.push(&request, self.framing, payload.as_ref());
    }

    /// Sends what the socket takes.
    pub(crate) fn send(&mut self, now: Instant) -> io::Result<()> {
        match self.outbox.send(&self.stream) {
            Ok(0) => {}
            Ok(_) => self.last_progress = now,
            Err(e) => return Err(self.failed(e)),
        }
        Ok(())
    }

    /// Ready when [`Self::receive`] or [`Self::send`] may get on.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        let readable = self.stream.poll_readable(cx);
        if readable.is_ready() || self.outbox.is_empty() {
            return readable;
        }
        self.stream.poll_writable(cx)
    }

    /// Receives what is there and appends what is over to `finished`.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        finished: &mut Vec<Finished>,
    ) -> Result<(), Loss> {
        let mut total = 0;
        while total < ROUND_MAX {
            match self.receive_once() {
                Ok(0) => return Err(Loss::Closed),
                Ok(count) => total += count,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(self.failed(e).into()),
            }
            self.last_progress = now;
            self.decode(finished)?;
        }
        Ok(())
    }

    fn receive_once(&mut self) -> io::Result<usize> {
        let Some((cookie, offset)) = self.payload else {
            let small = self.read_bytes < self.reads * LARGE_READ || self.reads == 0;
            let free = if small { RECEIVE } else { RECEIVE_HEADS };
            self.received.reserve(free);
            return self
                .stream
                .try_read_buf(&mut (&mut self.received).limit(free));
        };
        let left = self.decoder.payload_left();
        let len = usize::try_from(left).unwrap_or(usize::MAX);
        let count = buffer_of(&mut self.decoder, cookie).receive(&self.stream, offset, len)?;
        self.payload_arrived(cookie, offset, count);
        Ok(count)
    }

    /// Decodes what was received, until a header or a payload is not whole.
    fn decode(&mut self, finished: &mut Vec<Finished>) -> Result<(), BrokenReply> {
        while self.payload.is_none() {
            let decoded = self.decoder.decode(&self.received)?;
            self.received.advance(decoded.consumed);
            let Some(event) = decoded.event else {
                break;
            };
            self.apply(event, finished);
        }
        Ok(())
    }

    fn apply(&mut self, event: ReplyEvent<Part>, finished: &mut Vec<Finished>) {
        match event {
            ReplyEvent::Data {
                cookie,
                offset,
                len,
            } => {
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                let here = len.min(self.received.len());
                buffer_of(&mut self.decoder, cookie).copy(offset, &self.received[..here]);
                self.received.advance(here);
                self.payload_arrived(cookie, offset, here);
            }
            ReplyEvent::Hole {
                cookie,
                offset,
                len,
            } => {
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                buffer_of(&mut self.decoder, cookie).zero(offset, len);
            }
            ReplyEvent::Extent {
                cookie,
                context,
                extent,
                ..
            } => {
                if self.allocation == Some(context)
                    && let Some(part) = self.decoder.token_mut(cookie)
                    && let Body::Extents(allocation) = &mut part.body
                {
                    allocation.add(extent.len, extent.flags);
                }
            }
            ReplyEvent::Error { cookie, text, .. } => {
                if let Some(part) = self.decoder.token_mut(cookie)
                    && !text.is_empty()
                {
                    part.server_text.get_or_insert(text);
                }
            }
            ReplyEvent::Done { token, error, .. } => {
                self.outstanding -= token.payload();
                self.deadlines.end(token.age);
                self.long -= usize::from(token.may_take_long());
                if token.command() == Command::Read {
                    self.reads -= 1;
                    self.read_bytes -= token.range.len;
                }
                finished.push(Finished { part: token, error });
            }
        }
    }

    /// `count` bytes of the payload that belongs at `offset` were taken from the stream.
    fn payload_arrived(&mut self, cookie: u64, offset: u64, count: usize) {
        let taken = u32::try_from(count).expect("no more is taken than was announced");
        self.decoder.payload_taken(taken);
        let whole = self.decoder.payload_left() == 0;
        self.payload = (!whole).then_some((cookie, offset + u64::from(taken)));
    }

    /// Gives the connection up and returns what was in flight. What its socket has not sent yet is
    /// never sent: it may be sent again elsewhere, and must not arrive after that.
    pub(crate) fn abandon(self) -> Vec<Part> {
        let lost = self.take_apart();
        discard(lost.stream);
        lost.parts
    }

    /// The same, with the socket, which [`discard`] gives up.
    pub(crate) fn take_apart(mut self) -> LostConnection {
        LostConnection {
            parts: self.decoder.drain(),
            stream: self.stream,
            has_failed_here: self.has_failed_here,
        }
    }

    /// The socket failed.
    fn failed(&mut self, error: io::Error) -> io::Error {
        self.has_failed_here |= !is_ended_by_server(&error);
        error
    }

    /// Says goodbye, and waits until the server has ended the connection: then it holds nothing for this client any more, and
    /// the next one may write.
    pub(crate) async fn disconnect(mut self) -> io::Result<()> {
        let goodbye = Request {
            cookie: 0,
            command: Command::Disconnect,
            flags: CommandFlags::empty(),
            offset: 0,
            len: 0,
        };
        self.outbox.push(&goodbye, self.framing, None);
        while !self.outbox.is_empty() {
            std::future::poll_fn(|cx| self.stream.poll_writable(cx)).await;
            self.outbox.send(&self.stream)?;
        }
        loop {
            std::future::poll_fn(|cx| self.stream.poll_readable(cx)).await;
            self.received.clear();
            match self.receive_once() {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// Closes a socket of which nothing more must arrive.
pub(crate) fn discard(stream: Stream) {
    #[cfg(test)]
    if mutation::is_on(Mutation::AbandonedBytesAreSent) {
        return;
    }
    stream.reset();
}

/// Where the content of a read in flight goes. The decoder announces content of nothing else.
fn buffer_of(decoder: &mut ReplyDecoder<Part>, cookie: u64) -> &mut ReadBuffer {
    match decoder.token_mut(cookie).map(|part| &mut part.body) {
        Some(Body::Read(buffer)) => buffer,
        _ => panic!("content of request {cookie:#x}, which is no read in flight"),
    }
}
