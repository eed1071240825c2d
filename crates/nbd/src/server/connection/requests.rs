//! Requests of a connection: taken from the received bytes, judged, begun or refused.

use block::{Range, TryIo};
use nbd_proto::{Framing, Request};

use super::inbound::{Inbound, Skipping};
use super::job::{self, Job, JobContext};
use super::outbox::Batch;
use super::payload::Gathers;
use super::regions::{are_cached, regions};
use super::request_context::RequestContext;
use super::{Connection, ConnectionEnd};
use crate::server::budget::Charge;
use crate::server::plan::{self, Payload, RefusedRequest, RequestAction};
use crate::server::scratch::SEND_LEN;

/// Reads from this size go from the file to the socket without a copy here.
const SEND_FILE_MIN: u32 = 64 << 10;
/// Replies that wait for the socket, bytes of memory: beyond this no further request is begun.
const OUTBOX_BYTES_MAX: usize = 4 << 20;
/// Pieces that wait for the socket.
const OUTBOX_PIECES_MAX: usize = 1024;
/// What a request that waits takes at least: the smallest buffer, or its future and bookkeeping.
const REQUEST_BYTES_MIN: usize = 4096;

const _: () = assert!(SEND_FILE_MIN as usize + Framing::READ_HEAD_MAX <= SEND_LEN);

/// Whether a request was begun.
enum RequestStart {
    Begun,
    /// Its memory is not free: it is tried again later.
    OutOfMemory,
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
            // With what was granted there is enough for the next.
            || (self.budget.is_exhausted() && waiting > 0 && self.granted.is_none())
    }

    /// Handles the requests in `bytes`. Returns how many bytes it took; the rest is the beginning
    /// of something, or must wait (`paused`).
    pub(super) fn consume(
        &mut self,
        bytes: &[u8],
        batch: &mut Batch<'_>,
    ) -> Result<usize, ConnectionEnd> {
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
            let took = match &self.inbound {
                Inbound::Header => self.take_header(rest, batch)?,
                Inbound::Streaming(_) => self.take_streaming(rest, batch)?,
                Inbound::Gathering(_) => match self.take_gathering(rest) {
                    Gathers::Some(took) => Some(took),
                    // The socket fills the remainder.
                    Gathers::All(took) => return Ok(at + took),
                    Gathers::Waits => {
                        self.paused = true;
                        return Ok(at);
                    }
                },
                Inbound::Skipping(_) => match self.take_skipping(rest, batch)? {
                    Some(took) => Some(took),
                    None => return Ok(bytes.len()),
                },
            };
            match took {
                Some(took) => at += took,
                None => return Ok(at),
            }
        }
    }

    /// Begins the request at the front of `bytes`. `None`: it is not complete, or must wait.
    fn take_header(
        &mut self,
        bytes: &[u8],
        batch: &mut Batch<'_>,
    ) -> Result<Option<usize>, ConnectionEnd> {
        let framing = self.terms.framing;
        let Some(request) = Request::decode_as(framing, bytes)
            .map_err(|e| ConnectionEnd::Protocol(e.to_string()))?
        else {
            return Ok(None);
        };
        let mut took = framing.request_len();
        let geometry = self.disk.geometry();
        let judged = match plan::judge(&request, geometry, &self.terms) {
            Ok(RequestAction::Filter(len)) => {
                let Some(payload) = bytes[took..].get(..len) else {
                    return Ok(None);
                };
                took += len;
                plan::judge_filter(&request, payload, geometry, &self.terms)
            }
            Ok(action) if action.changes() => match self.gate.pass() {
                Ok(()) => Ok(action),
                Err(why) => Err(plan::forbidden(&request, &self.terms, why)),
            },
            other => other,
        };
        self.requests += 1;
        let begun = match judged {
            Ok(action) => self.begin(&request, action, batch)?,
            Err(refused) => self.refuse(&request, refused, batch)?,
        };
        match begun {
            RequestStart::Begun => Ok(Some(took)),
            RequestStart::OutOfMemory => {
                self.paused = true;
                Ok(None)
            }
        }
    }

    fn begin(
        &mut self,
        request: &Request,
        action: RequestAction,
        batch: &mut Batch<'_>,
    ) -> Result<RequestStart, ConnectionEnd> {
        let range = action.range().unwrap_or(Range::new(0, 0));
        let context = RequestContext::new(request, range.len);
        let job = match action {
            RequestAction::Read { range, .. } if range.is_empty() => {
                self.end_read(&context, batch)?;
                return Ok(RequestStart::Begun);
            }
            RequestAction::Write(..)
            | RequestAction::Trim { .. }
            | RequestAction::WriteZeroes(..)
            | RequestAction::Cache(_)
                if range.is_empty() =>
            {
                // Does nothing, and succeeds. To some disks no bytes mean all.
                self.succeed(&context, batch)?;
                return Ok(RequestStart::Begun);
            }
            RequestAction::Read { range, whole } => return self.read(context, range, whole, batch),
            RequestAction::Write(range, flags) => {
                self.write(context, range, flags);
                return Ok(RequestStart::Begun);
            }
            RequestAction::Disconnect => {
                self.ending = Some(ConnectionEnd::Disconnected);
                return Ok(RequestStart::Begun);
            }
            RequestAction::Flush => Job::Flush,
            RequestAction::Trim { range, fua } => Job::Trim { range, fua },
            RequestAction::WriteZeroes(range, flags) => Job::WriteZeroes(range, flags),
            RequestAction::Cache(range) => Job::Cache(range),
            RequestAction::Status(status) => Job::Status(status),
            RequestAction::Filter(_) => unreachable!("its payload was judged too"),
        };
        Ok(self.begin_job(context, job))
    }

    fn begin_job(&mut self, mut context: RequestContext, job: Job) -> RequestStart {
        let bytes = job.memory();
        let Some(charge) = self.charge(bytes) else {
            return RequestStart::OutOfMemory;
        };
        context.started = Some(self.meter.begin(context.op));
        self.push_job(context, job, bytes, charge);
        RequestStart::Begun
    }

    pub(super) fn push_job(
        &mut self,
        context: RequestContext,
        job: Job,
        bytes: usize,
        charge: Charge,
    ) {
        self.pending_bytes += bytes;
        self.pending_changes += usize::from(job.changes());
        let job_context = JobContext {
            disk: self.disk.clone(),
            context,
            bytes,
            charge,
            cancel: self.cancel.clone(),
            queries: self.queries.clone(),
        };
        self.pending.push(Box::pin(job::run(job_context, job)));
    }

    /// Takes memory for a request that waits from the process, or remembers to wait for it.
    pub(super) fn charge(&mut self, bytes: usize) -> Option<Charge> {
        let bytes = bytes.max(REQUEST_BYTES_MIN);
        // What was waited for; of another size only if another request came to be first.
        if let Some(granted) = self.granted.take_if(|granted| granted.bytes() == bytes) {
            return Some(granted);
        }
        self.granted = None;
        let charge = self.budget.try_take(bytes);
        if charge.is_none() {
            self.budget_wait = Some(self.budget.wait_for(bytes));
        }
        charge
    }

    /// Answers a read from the page cache, sends it from its file, or leaves it to the disk.
    fn read(
        &mut self,
        context: RequestContext,
        range: Range,
        whole: bool,
        batch: &mut Batch<'_>,
    ) -> Result<RequestStart, ConnectionEnd> {
        let mut sparse = false;
        if range.len < u64::from(SEND_FILE_MIN) {
            let (leaf, at) = block::resolve(&*self.disk, range);
            let head = self.read_head(&context, range);
            let len = range.len_usize();
            if !batch.fits(head.len() + len) {
                self.outbox.send(&self.socket, batch)?;
            }
            if batch.push_with(&head, len, |into| leaf.try_read(at, into) == TryIo::Done) {
                self.meter.answered(context.op, range.len);
                return Ok(RequestStart::Begun);
            }
        } else if let Some(pieces) = regions(&*self.disk, range) {
            if are_cached(&pieces) {
                let head = self.read_head(&context, range);
                self.push(&head, batch)?;
                self.outbox.push_file(batch, &pieces);
                self.meter.answered(context.op, range.len);
                return Ok(RequestStart::Begun);
            }
            let may_be_cut = self.terms.framing.is_chunked() && !whole;
            sparse = may_be_cut && self.hole_heuristic.should_probe();
        }
        Ok(self.begin_job(context, Job::Read { range, sparse }))
    }

    fn refuse(
        &mut self,
        request: &Request,
        refused: RefusedRequest,
        batch: &mut Batch<'_>,
    ) -> Result<RequestStart, ConnectionEnd> {
        tracing::debug!(?request, "refused: {}", refused.text);
        let mut context = RequestContext::new(request, 0);
        match refused.payload {
            Payload::Drop => {
                return Err(ConnectionEnd::Protocol(format!(
                    "{}: too much to skip",
                    refused.text
                )));
            }
            Payload::Skip(0) => {
                self.fail(&context, refused.error, &refused.text, None, batch)?;
            }
            Payload::Skip(left) => {
                context.started = Some(self.meter.begin(context.op));
                self.inbound = Inbound::Skipping(Skipping {
                    context,
                    left,
                    error: refused.error,
                    text: refused.text,
                });
            }
        }
        Ok(RequestStart::Begun)
    }
}
