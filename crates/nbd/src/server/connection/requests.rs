//! Requests of a connection: taken from the received bytes, judged, begun or refused.

use block::{IoBufs, Now, Range};
use engine::page_cache;
use nbd_proto::{REQUEST_LEN, Request};

use super::inbound::{Inbound, Skipping};
use super::job::{self, Job};
use super::outbox::Batch;
use super::replies::HEAD_MAX;
use super::{Connection, End};
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

const _: () = assert!(SEND_FILE_MIN as usize + HEAD_MAX <= SEND_LEN);

/// Whether a request was begun.
pub(super) enum Begun {
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

    pub(super) fn push_job(&mut self, cookie: u64, job: Job, bytes: usize, charge: Charge) {
        self.pending_bytes += bytes;
        self.pending_changes += usize::from(job.changes());
        let disk = self.disk.clone();
        self.pending
            .push(Box::pin(job::run(disk, cookie, job, bytes, charge)));
    }

    /// Takes memory for a request that waits from the process, or remembers to wait for it.
    pub(super) fn charge(&mut self, bytes: usize) -> Option<Charge> {
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
}
