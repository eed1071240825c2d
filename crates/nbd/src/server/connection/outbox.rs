//! [`Outbox`]: replies on their way out.
//!
//! Replies of one step are written one behind the other into the thread's send buffer ([`Batch`])
//! and sent with one call. What the socket does not take, and bytes that come from elsewhere
//! (shared slices, files), wait in a queue.
//!
//! # Invariants
//!
//! * The bytes of a reply stay together; replies may be in any order.
//! * Bytes leave in the order they were added: the queue before the batch.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use block::{FileRegion, IoBufs};
use bytes::{Buf, Bytes};
use smallvec::SmallVec;

use super::regions::FilePiece;
use crate::server::budget::{Budget, Charge};
use crate::server::socket::Socket;

/// Bytes that one connection sends before others of its thread have their turn.
const TURN_BYTES_MAX: u64 = 2 << 20;
/// Pieces sent with one call.
const PIECES_MAX: usize = 64;
/// Reads up to this are copied to the other replies rather than sent as pieces of their own.
const COPY_MAX: usize = 16 << 10;

#[derive(Debug)]
enum Segment {
    Memory { bytes: Bytes, _charge: Arc<Charge> },
    File { region: FileRegion, len: usize },
}

/// What became of an attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// Nothing is left.
    All,
    /// The socket takes no more for now.
    Blocked,
    /// The turn is over.
    Enough,
}

/// The queue of one connection.
#[derive(Debug)]
pub(super) struct Outbox {
    budget: Budget,
    queue: VecDeque<Segment>,
    /// Bytes of memory segments in the queue.
    memory: usize,
    /// Bytes that left, ever: a sign of progress.
    sent: u64,
    /// What `sent` may come to in this turn.
    turn_end: u64,
}

/// The thread's send buffer while one step fills it.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    buffer: &'a mut [u8],
    used: usize,
}

impl<'a> Batch<'a> {
    pub(super) const fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, used: 0 }
    }

    /// Whether `len` more bytes fit.
    pub(super) const fn fits(&self, len: usize) -> bool {
        self.buffer.len() - self.used >= len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Appends `bytes`, which fit.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer[self.used..][..bytes.len()].copy_from_slice(bytes);
        self.used += bytes.len();
    }

    /// Appends `head` and `len` bytes that `fill` writes; nothing if it says no.
    pub(super) fn push_with(
        &mut self,
        head: &[u8],
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> bool,
    ) -> bool {
        let (front, back) = self.buffer[self.used..][..head.len() + len].split_at_mut(head.len());
        if !fill(back) {
            return false;
        }
        front.copy_from_slice(head);
        self.used += head.len() + len;
        true
    }
}

impl Outbox {
    pub(super) const fn new(budget: Budget) -> Self {
        Self {
            budget,
            queue: VecDeque::new(),
            memory: 0,
            sent: 0,
            turn_end: TURN_BYTES_MAX,
        }
    }

    /// Memory of what waits.
    pub(super) const fn memory(&self) -> usize {
        self.memory
    }

    /// Segments that wait.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes that left, ever.
    pub(super) const fn sent(&self) -> u64 {
        self.sent
    }

    /// From here on, so many bytes more may leave.
    pub(super) const fn begin_turn(&mut self) {
        self.turn_end = self.sent.saturating_add(TURN_BYTES_MAX);
    }

    /// Whether it is for others to send.
    pub(super) const fn is_turn_over(&self) -> bool {
        self.sent >= self.turn_end
    }

    /// Queues what a disk read behind what is in `batch`, or copies it there if it is small.
    pub(super) fn push_read(&mut self, batch: &mut Batch<'_>, data: IoBufs, charge: Charge) {
        let len = data.iter().map(Bytes::len).sum();
        if len <= COPY_MAX && batch.fits(len) {
            data.iter().for_each(|piece| batch.push(piece));
            return;
        }
        self.take_batch(batch);
        let charge = Arc::new(charge);
        for piece in data {
            self.push_segment(piece, charge.clone());
        }
    }

    /// Queues pieces of files, which are one read together, behind what is in `batch`.
    pub(super) fn push_file(&mut self, batch: &mut Batch<'_>, pieces: &[FilePiece]) {
        self.take_batch(batch);
        let segments = pieces.iter().map(|(region, len)| Segment::File {
            region: region.clone(),
            len: *len,
        });
        self.queue.extend(segments);
    }

    fn push_segment(&mut self, bytes: Bytes, charge: Arc<Charge>) {
        if !bytes.is_empty() {
            self.memory += bytes.len();
            self.queue.push_back(Segment::Memory {
                bytes,
                _charge: charge,
            });
        }
    }

    fn push_copy(&mut self, bytes: &[u8]) {
        let charge = Arc::new(self.budget.take(bytes.len()));
        self.push_segment(Bytes::copy_from_slice(bytes), charge);
    }

    /// Moves the batch's bytes into the queue.
    pub(super) fn take_batch(&mut self, batch: &mut Batch<'_>) {
        if !batch.is_empty() {
            self.push_copy(&batch.buffer[..batch.used]);
            batch.used = 0;
        }
    }

    /// Sends the queue, then the batch, as far as the socket takes them and the turn goes. The batch
    /// is empty then: what is left of it is in the queue.
    ///
    /// # Errors
    /// The socket's and the files'; `UnexpectedEof` if one of these ended before its reply did.
    pub(super) fn send(&mut self, socket: &Socket, batch: &mut Batch<'_>) -> io::Result<Sent> {
        let flushed = self.send_queue(socket, !batch.is_empty());
        if !matches!(flushed, Ok(Sent::All)) {
            self.take_batch(batch);
            return flushed;
        }
        let mut at = 0;
        while at < batch.used {
            match socket.send(&batch.buffer[at..batch.used], false) {
                Ok(count) => {
                    at += count;
                    self.sent += count as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.push_copy(&batch.buffer[at..batch.used]);
                    batch.used = 0;
                    return Ok(Sent::Blocked);
                }
                Err(e) => return Err(e),
            }
        }
        batch.used = 0;
        Ok(Sent::All)
    }

    fn send_queue(&mut self, socket: &Socket, more: bool) -> io::Result<Sent> {
        while let Some(front) = self.queue.front() {
            let Some(left) = self
                .turn_end
                .checked_sub(self.sent)
                .filter(|&left| left > 0)
            else {
                return Ok(Sent::Enough);
            };
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            let result = match front {
                Segment::File { region, len } => {
                    let file = region.file.as_fd();
                    socket.send_file(file, region.offset, left.min(*len))
                }
                Segment::Memory { .. } => self.send_memory(socket, left, more),
            };
            match result {
                Ok(0) => return Err(file_ended()),
                Ok(count) => self.advance(count),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Sent::Blocked),
                Err(e) => return Err(e),
            }
        }
        Ok(Sent::All)
    }

    /// Sends the memory segments at the front together, up to `left` bytes.
    fn send_memory(&self, socket: &Socket, mut left: usize, more: bool) -> io::Result<usize> {
        let mut pieces: SmallVec<[io::IoSlice<'_>; 16]> = SmallVec::new();
        for segment in self.queue.iter().take(PIECES_MAX) {
            let Segment::Memory { bytes, .. } = segment else {
                break;
            };
            let len = left.min(bytes.len());
            if len == 0 {
                break;
            }
            pieces.push(io::IoSlice::new(&bytes[..len]));
            left -= len;
        }
        let more = more || pieces.len() < self.queue.len();
        match &pieces[..] {
            [one] => socket.send(one, more),
            many => socket.send_pieces(many, more),
        }
    }

    /// Forgets the first `count` bytes of the queue.
    fn advance(&mut self, mut count: usize) {
        self.sent += count as u64;
        while count > 0 {
            let Some(front) = self.queue.front_mut() else {
                return;
            };
            let left = match front {
                Segment::Memory { bytes, .. } => {
                    let gone = count.min(bytes.len());
                    bytes.advance(gone);
                    self.memory -= gone;
                    count -= gone;
                    bytes.len()
                }
                Segment::File { region, len } => {
                    let gone = count.min(*len);
                    region.offset += gone as u64;
                    *len -= gone;
                    count -= gone;
                    *len
                }
            };
            if left == 0 {
                self.queue.pop_front();
            }
        }
    }
}

/// The header of the reply is gone, so no error reply is possible.
fn file_ended() -> io::Error {
    let text = "a reply could not be sent to its end: its file was truncated while in use";
    io::Error::new(io::ErrorKind::UnexpectedEof, text)
}
