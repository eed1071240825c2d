//! [`Link`]: TLS over a non-blocking socket, with the calls that a bare socket has.
//!
//! Content is laid out as records in a buffer of the thread, sealed there and sent with one call;
//! what was received is opened where it was received. Nothing is allocated for it but what must be
//! kept from one call to the next: the part of a record that has arrived, and records that the
//! socket did not take.
//!
//! # Invariants
//!
//! * **A call that sends counts bytes only when their records have left.** After a short send the
//!   caller retries with the same bytes, as it must with a plain socket; they are not
//!   sealed again, only the pending records are sent. So no record waits here without a caller that
//!   will retry.
//! * What is kept is bounded: [`WINDOW`] of sealed records, and [`RECEIVE_LEN`] of received ones.
//! * [`Link::has_received`] is true while a receive would give something without the socket; the
//!   socket's own readiness, which is edge-triggered, covers the rest.
//! * A connection that ends without `close_notify` is an error: what was received may not be all.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::BufMut;
use smallvec::SmallVec;

use super::channel::{Channel, ChannelError, KEY_UPDATE_LEN};
use super::record::CONTENT_MAX;
use super::record_format::{OVERHEAD_MAX, WIRE_MAX};
use super::scratch;

/// Records sealed and sent with one call.
const RECORDS_MAX: usize = 8;
/// Most bytes of a full record of ours.
const RECORD_MAX: usize = CONTENT_MAX + OVERHEAD_MAX;
/// Bytes of content sealed and sent with one call.
pub(super) const WINDOW: usize = RECORDS_MAX * CONTENT_MAX;
/// Memory for them.
pub(super) const SEND_LEN: usize = KEY_UPDATE_LEN + RECORDS_MAX * RECORD_MAX;
/// Bytes received with one call, and what was left over before.
pub(super) const RECEIVE_LEN: usize = 256 << 10;

/// The socket below: one non-blocking call each.
pub(crate) trait RawSocket {
    /// Receives what is there; `Ok(0)` is the end. `eagerly` calls the kernel regardless of readiness.
    fn receive(&self, into: &mut [u8], eagerly: bool) -> io::Result<usize>;
    /// Sends what is taken; `more` says that something follows at once.
    fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize>;
}

/// TLS on one socket.
pub(crate) struct Link(Mutex<LinkState>);

struct LinkState {
    channel: Channel,
    /// Received, and not opened.
    sealed: Vec<u8>,
    /// Opened, and not taken.
    opened: Vec<u8>,
    outbound: Outbound,
    failed: Option<LinkFailure>,
}

/// Why nothing more is received.
#[derive(Debug, Clone, Copy)]
enum LinkFailure {
    Channel(ChannelError),
    Truncated,
}

impl From<LinkFailure> for io::Error {
    fn from(failed: LinkFailure) -> Self {
        match failed {
            LinkFailure::Channel(broken) => Self::new(io::ErrorKind::InvalidData, broken),
            LinkFailure::Truncated => {
                let text = "the connection broke off: its end was not announced, as TLS wants it";
                Self::new(io::ErrorKind::ConnectionAborted, text)
            }
        }
    }
}

/// Sealed records that the socket did not take yet.
#[derive(Default)]
struct Outbound {
    bytes: Vec<u8>,
    sent: usize,
    /// Where in `bytes` the records end, and how much content each has.
    ends: SmallVec<[(usize, usize); RECORDS_MAX + 1]>,
}

impl Outbound {
    fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// Content of the records that have left by now and were not reported yet.
    fn take_left(&mut self) -> usize {
        let sent = self.sent;
        let gone = self.ends.iter().take_while(|(end, _)| *end <= sent);
        let (count, content) = gone.fold((0, 0), |(n, sum), (_, len)| (n + 1, sum + len));
        self.ends.drain(..count);
        if self.is_empty() {
            *self = Self::default();
        }
        content
    }
}

impl Link {
    /// Goes on with `channel` behind a handshake that also received `opened` data and `sealed`
    /// records.
    pub(super) fn new(channel: Channel, opened: Vec<u8>, sealed: Vec<u8>) -> Self {
        Self(Mutex::new(LinkState {
            channel,
            sealed,
            opened,
            outbound: Outbound::default(),
            failed: None,
        }))
    }

    /// Whether a receive gives something, or an end, without the socket.
    pub(crate) fn has_received(&self) -> bool {
        self.state().has_received()
    }

    /// Receives content. `Ok(0)` is the other side's goodbye.
    pub(crate) fn receive(
        &self,
        raw: &impl RawSocket,
        into: &mut impl BufMut,
        eagerly: bool,
    ) -> io::Result<usize> {
        let mut state = self.state();
        if !state.opened.is_empty() {
            return Ok(state.take_opened(into));
        }
        if let Some(failed) = state.failed {
            return Err(failed.into());
        }
        if state.channel.is_closed() {
            return Ok(0);
        }
        scratch::received(|buffer| state.fill(raw, buffer, into, eagerly))
    }

    /// Sends the beginning of `pieces`.
    pub(crate) fn send(
        &self,
        raw: &impl RawSocket,
        pieces: &[IoSlice<'_>],
        more: bool,
    ) -> io::Result<usize> {
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let all = total <= WINDOW;
        self.send_with(raw, total, more || !all, |places| {
            Ok(copy_pieces(pieces, places))
        })
    }

    /// Sends the beginning of `len` bytes of `file` at `offset`. `Ok(0)`: the file ends before.
    pub(crate) fn send_file(
        &self,
        raw: &impl RawSocket,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> io::Result<usize> {
        self.send_with(raw, len, len > WINDOW, |places| {
            let mut places: SmallVec<[IoSliceMut<'_>; RECORDS_MAX]> = places
                .iter_mut()
                .map(|place| IoSliceMut::new(place))
                .collect();
            Ok(rustix::io::preadv(file, &mut places, offset)?)
        })
    }

    /// Says goodbye, if the socket takes it now.
    pub(crate) fn close(&self, raw: &impl RawSocket) {
        let mut state = self.state();
        if state.outbound.is_empty() {
            let broken = match state.failed {
                Some(LinkFailure::Channel(broken)) => Some(broken),
                _ => None,
            };
            let record = state.channel.seal_end(broken);
            // The peer may have left already.
            drop(raw.send(&record, false));
        }
    }

    /// Seals up to `wanted` bytes that `fill` writes to the places it is given, and sends them.
    fn send_with(
        &self,
        raw: &impl RawSocket,
        wanted: usize,
        more: bool,
        fill: impl FnOnce(&mut [&mut [u8]]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut state = self.state();
        if !state.outbound.is_empty() {
            let told = state.flush(raw, more)?;
            if told > 0 {
                return Ok(told);
            }
        }
        scratch::sending(|buffer| state.seal_and_send(raw, buffer, wanted, more, fill))
    }

    /// Nothing in here panics half-way with something that matters.
    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl LinkState {
    fn has_received(&self) -> bool {
        let is_whole = |bytes: &[u8]| match self.channel.wire_len(bytes) {
            Ok(Some(len)) => bytes.len() >= len,
            Ok(None) => false,
            Err(_) => true,
        };
        !self.opened.is_empty()
            || self.failed.is_some()
            || self.channel.is_closed()
            || is_whole(&self.sealed)
    }

    /// Gives what was opened before.
    fn take_opened(&mut self, into: &mut impl BufMut) -> usize {
        let count = into.remaining_mut().min(self.opened.len());
        into.put_slice(&self.opened[..count]);
        self.opened.drain(..count);
        if self.opened.is_empty() {
            self.opened = Vec::new();
        }
        count
    }

    /// Receives into `buffer`, behind what was kept, and opens whole records into `into`.
    fn fill(
        &mut self,
        raw: &impl RawSocket,
        buffer: &mut [u8],
        into: &mut impl BufMut,
        eagerly: bool,
    ) -> io::Result<usize> {
        let kept = self.sealed.len();
        let mut held = kept;
        if !self.has_received() {
            // No more than can be taken, but for one record.
            let room = into.remaining_mut().saturating_add(WIRE_MAX);
            let end = kept.saturating_add(room).min(RECEIVE_LEN);
            let count = raw.receive(&mut buffer[kept..end], eagerly)?;
            if count == 0 {
                self.failed = Some(LinkFailure::Truncated);
            }
            held += count;
        }
        buffer[..kept].copy_from_slice(&self.sealed);
        let (used, count) = self.open_all(&mut buffer[..held], into);
        self.sealed = buffer[used..held].to_vec();
        match self.failed {
            _ if count > 0 => Ok(count),
            Some(failed) => Err(failed.into()),
            None if self.channel.is_closed() => Ok(0),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Opens the whole records of `bytes` while `into` has room. How many bytes they were, and how
    /// much content went into `into`.
    fn open_all(&mut self, bytes: &mut [u8], into: &mut impl BufMut) -> (usize, usize) {
        let (mut used, mut count) = (0, 0);
        while into.has_remaining_mut() && !self.channel.is_closed() {
            let rest = &mut bytes[used..];
            let opened = match self.channel.wire_len(rest) {
                Ok(Some(len)) if rest.len() >= len => {
                    used += len;
                    self.channel.open(&mut rest[..len])
                }
                Ok(_) => break,
                Err(bad) => Err(bad.into()),
            };
            match opened {
                Ok(content) => {
                    let room = into.remaining_mut().min(content.len());
                    let (now, later) = content.split_at(room);
                    into.put_slice(now);
                    self.opened.extend_from_slice(later);
                    count += room;
                }
                Err(broken) => {
                    self.failed = Some(LinkFailure::Channel(broken));
                    break;
                }
            }
        }
        (used, count)
    }

    /// Sends pending records and returns the content that has left.
    fn flush(&mut self, raw: &impl RawSocket, more: bool) -> io::Result<usize> {
        let sent = raw.send(&self.outbound.bytes[self.outbound.sent..], more)?;
        self.outbound.sent += sent;
        let is_all = self.outbound.is_empty();
        match self.outbound.take_left() {
            0 if !is_all => Err(io::ErrorKind::WouldBlock.into()),
            told => Ok(told),
        }
    }

    fn seal_and_send(
        &mut self,
        raw: &impl RawSocket,
        buffer: &mut [u8],
        wanted: usize,
        more: bool,
        fill: impl FnOnce(&mut [&mut [u8]]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let format = self.channel.format();
        let (content_at, overhead) = (format.content_at(), format.overhead());
        let filled = {
            let records = buffer[KEY_UPDATE_LEN..].chunks_mut(CONTENT_MAX + overhead);
            let records = records.take(RECORDS_MAX);
            let mut left = wanted;
            let mut places: SmallVec<[&mut [u8]; RECORDS_MAX]> = records
                .map_while(|record| {
                    let len = left.min(CONTENT_MAX);
                    left -= len;
                    (len > 0).then(|| &mut record[content_at..content_at + len])
                })
                .collect();
            fill(&mut places)?
        };
        if filled == 0 {
            return Ok(0);
        }
        // Ends just where the first record begins, so that all lie in one piece.
        let update = self
            .channel
            .prepare(&mut buffer[..KEY_UPDATE_LEN])
            .map_err(LinkFailure::Channel)?;
        let begin = KEY_UPDATE_LEN - update;
        let mut ends = SmallVec::new();
        let mut at = KEY_UPDATE_LEN;
        let mut left = filled;
        while left > 0 {
            let len = left.min(CONTENT_MAX);
            self.channel.seal(&mut buffer[at..at + overhead + len]);
            at += overhead + len;
            left -= len;
            ends.push((at - begin, len));
        }
        self.outbound.ends = ends;
        self.dispatch(raw, &buffer[begin..at], more)
    }

    /// Sends records and keeps what the socket does not take.
    fn dispatch(&mut self, raw: &impl RawSocket, records: &[u8], more: bool) -> io::Result<usize> {
        let sent = match raw.send(records, more) {
            Ok(sent) => sent,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
            Err(e) => return Err(e),
        };
        if sent == records.len() {
            let told = self.outbound.ends.iter().map(|(_, len)| len).sum();
            self.outbound = Outbound::default();
            return Ok(told);
        }
        for (end, _) in &mut self.outbound.ends {
            *end = end.saturating_sub(sent);
        }
        self.outbound.bytes = records[sent..].to_vec();
        match self.outbound.take_left() {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            told => Ok(told),
        }
    }
}

/// Fills `places` with what `pieces` begin with and says how much that was.
fn copy_pieces(pieces: &[IoSlice<'_>], places: &mut [&mut [u8]]) -> usize {
    let mut total = 0;
    let mut pieces = pieces.iter();
    let mut piece: &[u8] = &[];
    for place in places {
        let mut place = &mut **place;
        while !place.is_empty() {
            if piece.is_empty() {
                match pieces.next() {
                    Some(next) => piece = next,
                    None => return total,
                }
            }
            let count = place.len().min(piece.len());
            place.put_slice(&piece[..count]);
            piece = &piece[count..];
            total += count;
        }
    }
    total
}
