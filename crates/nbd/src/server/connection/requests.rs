//! Requests of a connection: taken from the received bytes, begun, answered.

use std::time::Duration;

use block::{IoBufs, IoError, Now, Range, WriteFlags};
use bytes::Bytes;
use engine::{Buffer, page_cache};
use nbd_proto::{
    ChunkFlags, REQUEST_LEN, Request, WireError, error_chunk, offset_data_header, simple_reply,
};
use smallvec::smallvec;

use super::inbound::{Filling, Inbound, Skipping, Streaming};
use super::job::{self, Done, Job};
use super::outbox::Batch;
use super::{Connection, End};
use crate::errno;
use crate::server::budget::Charge;
use crate::server::plan::{self, Action, Payload, Refused};
use crate::server::scratch::SEND_LEN;

/// Reads from this size go from the file to the socket without a copy here.
const SEND_FILE_MIN: u32 = 64 << 10;
/// Replies that wait for the socket, bytes of memory: beyond this no further request is begun.
const OUTBOX_BYTES_MAX: usize = 4 << 20;
/// Pieces that wait for the socket.
const OUTBOX_PIECES_MAX: usize = 1024;
/// What a request that waits takes at least: the smallest buffer, or its future and bookkeeping.
const REQUEST_BYTES_MIN: usize = 4096;
/// A connection logs errors of its disk no more often.
const COMPLAIN_EVERY: Duration = Duration::from_secs(1);
/// The largest header of a read's reply.
const HEAD_MAX: usize = nbd_proto::OFFSET_DATA_LEN;

const _: () = assert!(SEND_FILE_MIN as usize + HEAD_MAX <= SEND_LEN);

/// Whether a request was begun.
enum Begun {
    Yes,
    /// Its memory is not free: it is tried again later.
    NoMemory,
}

impl Connection {
    /// Whether the bounds forbid to begin another request.
    pub(super) fn is_saturated(&self) -> bool {
        let waiting = self.outbox.memory() + self.pending_bytes;
        self.budget_wait.is_some()
            || self.pending.len() >= self.limits.in_flight_requests_max
            || waiting >= self.limits.in_flight_bytes_max
            || self.outbox.memory() >= OUTBOX_BYTES_MAX
            || self.outbox.len() >= OUTBOX_PIECES_MAX
            || (self.budget.is_exhausted() && waiting > 0)
    }

    /// Handles the requests in `bytes`. Returns how many bytes it took; the rest is the beginning
    /// of something, or must wait (`paused`).
    pub(super) fn consume(&mut self, bytes: &[u8], batch: &mut Batch<'_>) -> Result<usize, End> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            if self.ending.is_some() {
                return Ok(bytes.len());
            }
            if self.is_saturated() || self.outbox.is_turn_over() {
                self.paused = true;
                return Ok(at);
            }
            let took = match &mut self.inbound {
                Inbound::Header => self.take_header(rest, batch)?,
                Inbound::Streaming(_) => self.take_streaming(rest, batch)?,
                Inbound::Filling(filling) => {
                    let took = filling.fill(rest);
                    if filling.is_full() {
                        self.write_filled();
                        Some(took)
                    } else {
                        // All of `rest` went into the buffer; the socket fills the remainder.
                        return Ok(at + took);
                    }
                }
                Inbound::Skipping(skipping) => {
                    let took = skipping.left.min(rest.len() as u64);
                    skipping.left -= took;
                    if skipping.left > 0 {
                        return Ok(bytes.len());
                    }
                    self.end_skipping(batch)?;
                    Some(usize::try_from(took).expect("no longer than the bytes at hand"))
                }
            };
            match took {
                Some(took) => at += took,
                None => return Ok(at),
            }
        }
    }

    /// Begins the request at the front of `bytes`. `None`: it is not complete, or must wait.
    fn take_header(&mut self, bytes: &[u8], batch: &mut Batch<'_>) -> Result<Option<usize>, End> {
        let Some(header) = bytes.first_chunk::<REQUEST_LEN>() else {
            return Ok(None);
        };
        let request = Request::decode(header).map_err(|e| End::Protocol(e.to_string()))?;
        self.requests += 1;
        let begun = match plan::judge(&request, self.disk.geometry(), &self.terms) {
            Ok(action) => self.begin(request.cookie, action, batch)?,
            Err(refused) => self.refuse(&request, refused, batch)?,
        };
        match begun {
            Begun::Yes => Ok(Some(REQUEST_LEN)),
            Begun::NoMemory => {
                self.paused = true;
                Ok(None)
            }
        }
    }

    fn begin(&mut self, cookie: u64, action: Action, batch: &mut Batch<'_>) -> Result<Begun, End> {
        if let Some(range) = action.range()
            && range.is_empty()
        {
            // Does nothing, and succeeds. To some disks no bytes mean all.
            let read = matches!(action, Action::Read(_)).then_some(range);
            self.succeed(cookie, read, IoBufs::new(), self.budget.take(0), batch)?;
            return Ok(Begun::Yes);
        }
        let job = match action {
            Action::Read(range) => return self.read(cookie, range, batch),
            Action::Write(range, flags) => return Ok(self.write(cookie, range, flags)),
            Action::Disconnect => {
                self.ending = Some(End::Disconnected);
                return Ok(Begun::Yes);
            }
            Action::Flush => Job::Flush,
            Action::Trim { range, fua } => Job::Trim { range, fua },
            Action::WriteZeroes(range, flags) => Job::WriteZeroes(range, flags),
            Action::Cache(range) => Job::Cache(range),
        };
        let bytes = job.memory();
        let Some(charge) = self.charge(bytes) else {
            return Ok(Begun::NoMemory);
        };
        self.push_job(cookie, job, bytes, charge);
        Ok(Begun::Yes)
    }

    fn push_job(&mut self, cookie: u64, job: Job, bytes: usize, charge: Charge) {
        self.pending_bytes += bytes;
        self.pending_changes += usize::from(job.changes());
        let disk = self.disk.clone();
        self.pending
            .push(Box::pin(job::run(disk, cookie, job, bytes, charge)));
    }

    /// Takes memory for a request that waits from the process, or remembers to wait for it.
    fn charge(&mut self, bytes: usize) -> Option<Charge> {
        let bytes = bytes.max(REQUEST_BYTES_MIN);
        let charge = self.budget.try_take(bytes);
        if charge.is_none() {
            self.budget_wait = Some(Box::pin(self.budget.wait_for(bytes)));
        }
        charge
    }

    /// Answers a read from the page cache, sends it from its file, or leaves it to the disk.
    fn read(&mut self, cookie: u64, range: Range, batch: &mut Batch<'_>) -> Result<Begun, End> {
        let (head, head_len) = self.read_head(cookie, range);
        let head = &head[..head_len];
        let (leaf, at) = block::resolve(&*self.disk, range);
        if range.len < u64::from(SEND_FILE_MIN) {
            let len = range.len_usize();
            if !batch.fits(head.len() + len) {
                self.outbox.send(&self.socket, batch)?;
            }
            if batch.push_with(head, len, |into| leaf.read_now(at, into) == Now::Done) {
                return Ok(Begun::Yes);
            }
        } else if let Some(region) = leaf.file_region(at)
            && page_cache::is_cached(
                std::os::fd::AsFd::as_fd(&region.file),
                region.offset,
                at.len,
            )
        {
            self.push(head, batch)?;
            self.outbox.push_file(batch, region, range.len_usize());
            return Ok(Begun::Yes);
        }
        let bytes = range.len_usize();
        let Some(charge) = self.charge(bytes) else {
            return Ok(Begun::NoMemory);
        };
        self.push_job(cookie, Job::Read(range), bytes, charge);
        Ok(Begun::Yes)
    }

    /// The header of a successful read, and its length.
    fn read_head(&self, cookie: u64, range: Range) -> ([u8; HEAD_MAX], usize) {
        if self.terms.structured && !range.is_empty() {
            let len = u32::try_from(range.len).expect("payloads are capped");
            let head = offset_data_header(cookie, ChunkFlags::DONE, range.offset, len);
            return (head, HEAD_MAX);
        }
        if self.terms.structured {
            let none = nbd_proto::ChunkKind::None;
            let chunk = nbd_proto::chunk_header(cookie, ChunkFlags::DONE, none, 0);
            return padded(&chunk);
        }
        padded(&simple_reply(cookie, None))
    }

    fn write(&mut self, cookie: u64, range: Range, flags: WriteFlags) -> Begun {
        if flags.is_empty() {
            self.inbound = Inbound::Streaming(Streaming {
                cookie,
                range,
                done: 0,
            });
            return Begun::Yes;
        }
        let Some(charge) = self.charge(range.len_usize()) else {
            return Begun::NoMemory;
        };
        self.begin_filling(cookie, range, flags, charge);
        Begun::Yes
    }

    fn begin_filling(&mut self, cookie: u64, range: Range, flags: WriteFlags, charge: Charge) {
        self.inbound = Inbound::Filling(Filling {
            cookie,
            range,
            flags,
            buffer: Buffer::take(range.len_usize()),
            filled: 0,
            charge,
        });
    }

    /// Writes what is there of a payload into the page cache; gathers the rest for the disk where
    /// that would wait.
    fn take_streaming(
        &mut self,
        bytes: &[u8],
        batch: &mut Batch<'_>,
    ) -> Result<Option<usize>, End> {
        let Inbound::Streaming(streaming) = &mut self.inbound else {
            unreachable!("called in this state only")
        };
        let block_size = self.disk.geometry().block_size;
        let Some(piece) = streaming.next_piece(bytes.len(), block_size) else {
            return Ok(None);
        };
        let len = piece.len_usize();
        let (leaf, at) = block::resolve(&*self.disk, piece);
        if leaf.write_now(at, &bytes[..len]) == Now::WouldWait {
            let (cookie, rest) = (streaming.cookie, streaming.rest());
            let Some(charge) = self.charge(rest.len_usize()) else {
                self.paused = true;
                return Ok(None);
            };
            self.begin_filling(cookie, rest, WriteFlags::empty(), charge);
            return Ok(Some(0));
        }
        streaming.done += piece.len;
        if streaming.rest().is_empty() {
            let reply = simple_reply(streaming.cookie, None);
            self.inbound = Inbound::Header;
            self.push(&reply, batch)?;
        }
        Ok(Some(len))
    }

    /// Hands a gathered payload to the disk.
    pub(super) fn write_filled(&mut self) {
        let inbound = std::mem::replace(&mut self.inbound, Inbound::Header);
        let Inbound::Filling(filling) = inbound else {
            unreachable!("called in this state only")
        };
        let bytes = filling.buffer.len();
        let data: IoBufs = smallvec![filling.buffer.freeze()];
        let job = Job::Write(filling.range, data, filling.flags);
        self.push_job(filling.cookie, job, bytes, filling.charge);
    }

    fn refuse(
        &mut self,
        request: &Request,
        refused: Refused,
        batch: &mut Batch<'_>,
    ) -> Result<Begun, End> {
        tracing::debug!(?request, "refused: {}", refused.text);
        match refused.payload {
            Payload::Drop => {
                return Err(End::Protocol(format!("{}: too much to skip", refused.text)));
            }
            Payload::Skip(0) => {
                self.fail(request.cookie, refused.error, &refused.text, batch)?;
            }
            Payload::Skip(left) => {
                self.inbound = Inbound::Skipping(Skipping {
                    cookie: request.cookie,
                    left,
                    error: refused.error,
                    text: refused.text,
                });
            }
        }
        Ok(Begun::Yes)
    }

    fn end_skipping(&mut self, batch: &mut Batch<'_>) -> Result<(), End> {
        let inbound = std::mem::replace(&mut self.inbound, Inbound::Header);
        let Inbound::Skipping(skipped) = inbound else {
            unreachable!("called in this state only")
        };
        self.fail(skipped.cookie, skipped.error, &skipped.text, batch)
    }

    /// Answers with an error; with its text where the client understands that.
    fn fail(
        &mut self,
        cookie: u64,
        error: WireError,
        text: &str,
        batch: &mut Batch<'_>,
    ) -> Result<(), End> {
        if self.terms.structured {
            let chunk = error_chunk(cookie, ChunkFlags::DONE, error, text, None);
            return self.push(&chunk, batch);
        }
        self.push(&simple_reply(cookie, Some(error)), batch)
    }

    /// Appends a whole small reply.
    fn push(&mut self, reply: &[u8], batch: &mut Batch<'_>) -> Result<(), End> {
        if !batch.fits(reply.len()) {
            self.outbox.send(&self.socket, batch)?;
        }
        batch.push(reply);
        Ok(())
    }

    /// Answers a request that the disk has carried out or failed.
    pub(super) fn answer(&mut self, done: Done, batch: &mut Batch<'_>) -> Result<(), End> {
        self.pending_bytes -= done.bytes;
        self.pending_changes -= usize::from(done.changed);
        match done.result {
            Ok(data) => self.succeed(done.cookie, done.read, data, done.charge, batch),
            Err(error) => {
                self.complain(&error);
                let wire = errno::to_wire(error.errno);
                self.fail(done.cookie, wire, &error.to_string(), batch)
            }
        }
    }

    /// Logs a disk's error, unless one was logged just now: a disk that is gone fails thousands a
    /// second.
    fn complain(&mut self, error: &IoError) {
        let now = engine::clock::now();
        if self
            .complained
            .is_none_or(|last| now - last >= COMPLAIN_EVERY)
        {
            tracing::warn!(export = self.name, "{error}");
            self.complained = Some(now);
        }
    }

    fn succeed(
        &mut self,
        cookie: u64,
        read: Option<Range>,
        data: IoBufs,
        charge: Charge,
        batch: &mut Batch<'_>,
    ) -> Result<(), End> {
        let Some(range) = read else {
            return self.push(&simple_reply(cookie, None), batch);
        };
        let sent: usize = data.iter().map(Bytes::len).sum();
        assert_eq!(sent as u64, range.len, "a read is whole or an error");
        let (head, head_len) = self.read_head(cookie, range);
        self.push(&head[..head_len], batch)?;
        self.outbox.push_read(batch, data, charge);
        Ok(())
    }
}

fn padded(bytes: &[u8]) -> ([u8; HEAD_MAX], usize) {
    let mut head = [0; HEAD_MAX];
    head[..bytes.len()].copy_from_slice(bytes);
    (head, bytes.len())
}
