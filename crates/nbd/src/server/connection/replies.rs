//! Replies: what a request is answered with, in the framing that was agreed on.
//!
//! # Invariants
//!
//! * Each request is answered once, and counted where it is.
//! * Under structured and extended replies every error has a text, and a place where the disk knew
//!   one within the request.

use std::time::Duration;

use block::{Extent, ExtentKind, IoBufs, IoError, Range};
use bytes::Bytes;
use nbd_proto::{AllocationFlags, ChunkFlags, ChunkRange, ReplyHead, WireError};
use smallvec::smallvec;

use super::job::{JobOutput, JobResult, Pieces};
use super::outbox::Batch;
use super::request_context::RequestContext;
use super::{Connection, ConnectionEnd};
use crate::errno;
use crate::server::budget::Charge;
use crate::server::plan::Ids;

/// A connection logs errors of its disk no more often.
const COMPLAIN_EVERY: Duration = Duration::from_secs(1);

impl Connection {
    /// The header of a successful read that is sent in one piece.
    pub(super) fn read_head(&self, context: &RequestContext, range: Range) -> ReplyHead {
        let framing = self.terms.framing;
        framing.read_data(context.to, ChunkFlags::DONE, piece_of(range))
    }

    /// Answers a read that has no bytes, or no more.
    pub(super) fn end_read(
        &mut self,
        context: &RequestContext,
        batch: &mut Batch<'_>,
    ) -> Result<(), ConnectionEnd> {
        self.count(context, true);
        self.push(&self.terms.framing.end(context.to), batch)
    }

    /// Answers a request that succeeded and has nothing to say.
    pub(super) fn succeed(
        &mut self,
        context: &RequestContext,
        batch: &mut Batch<'_>,
    ) -> Result<(), ConnectionEnd> {
        self.count(context, true);
        self.push(&self.terms.framing.success(context.to), batch)
    }

    /// Answers with an error; with its text and place where the client understands that.
    pub(super) fn fail(
        &mut self,
        context: &RequestContext,
        error: WireError,
        text: &str,
        at: Option<u64>,
        batch: &mut Batch<'_>,
    ) -> Result<(), ConnectionEnd> {
        self.count(context, false);
        let reply = self.terms.framing.error(context.to, error, text, at);
        self.push(&reply, batch)
    }

    /// Appends a whole small reply, or the head of a longer one.
    pub(super) fn push(
        &mut self,
        reply: &[u8],
        batch: &mut Batch<'_>,
    ) -> Result<(), ConnectionEnd> {
        if !batch.fits(reply.len()) {
            self.outbox.send(&self.socket, batch)?;
        }
        batch.push(reply);
        Ok(())
    }

    fn count(&mut self, context: &RequestContext, succeeded: bool) {
        match (context.started, succeeded) {
            (None, true) => self.meter.answered(context.op, context.len),
            (None, false) => self.meter.refused(context.op),
            (Some(started), true) => self.meter.end(started, context.len),
            (Some(started), false) => self.meter.fail(started),
        }
    }

    /// Answers a request that the disk has carried out or failed, unless other parts of it are under
    /// way.
    pub(super) fn answer(
        &mut self,
        done: JobResult,
        batch: &mut Batch<'_>,
    ) -> Result<(), ConnectionEnd> {
        self.pending_bytes -= done.bytes;
        self.pending_changes -= usize::from(done.changed);
        let context = &done.context;
        let result = match done.split_write {
            None => done.result,
            Some(split_write) => match split_write.done(done.result.map(drop)) {
                None => return Ok(()),
                Some(whole) => whole.map(|()| JobOutput::Nothing),
            },
        };
        match result {
            Ok(JobOutput::Nothing) => self.succeed(context, batch),
            Ok(JobOutput::Read(range, data)) => {
                self.send_read(context, range, data, done.charge, batch)
            }
            Ok(JobOutput::Sparse(pieces)) => self.send_sparse(context, pieces, done.charge, batch),
            Ok(JobOutput::Status(extents, ids)) => {
                self.send_status(context, &extents, &ids, done.charge, batch)
            }
            // The client repeats it where the disk is now; with an answer it had failed.
            Err(error) if self.is_of_standby && error.fenced().is_some() => {
                Err(ConnectionEnd::Fenced)
            }
            Err(error) => {
                self.complain(&error);
                let wire = errno::to_wire(error.errno);
                let whole = Range::new(context.to.offset, context.len);
                // A disk that only moves the bytes of another speaks of places on that one.
                let is_own = |_: &u64| block::resolve(&*self.disk, whole).1 == whole;
                let at = place_of(&error, whole).filter(is_own);
                self.fail(context, wire, &error.to_string(), at, batch)
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

    fn send_read(
        &mut self,
        context: &RequestContext,
        range: Range,
        data: IoBufs,
        charge: Charge,
        batch: &mut Batch<'_>,
    ) -> Result<(), ConnectionEnd> {
        assert_len(range, &data);
        self.count(context, true);
        let head = self.read_head(context, range);
        self.push(&head, batch)?;
        self.outbox.push_read(batch, data, charge);
        Ok(())
    }

    /// Sends the pieces of a read, holes without their zeroes.
    fn send_sparse(
        &mut self,
        context: &RequestContext,
        pieces: Pieces,
        charge: Charge,
        batch: &mut Batch<'_>,
    ) -> Result<(), ConnectionEnd> {
        self.hole_heuristic
            .found(pieces.iter().any(|piece| piece.1.is_none()));
        self.count(context, true);
        let framing = self.terms.framing;
        let mut charge = Some(charge);
        let last = pieces.len() - 1;
        for (nth, (range, data)) in pieces.into_iter().enumerate() {
            let mut flags = ChunkFlags::empty();
            flags.set(ChunkFlags::DONE, nth == last);
            let Some(data) = data else {
                let hole = framing.read_hole(context.to, flags, piece_of(range));
                self.push(&hole, batch)?;
                continue;
            };
            assert_len(range, &data);
            let head = framing.read_data(context.to, flags, piece_of(range));
            self.push(&head, batch)?;
            // The first piece holds what all were charged for.
            let charge = charge.take().unwrap_or_else(|| self.budget.take(0));
            self.outbox.push_read(batch, data, charge);
        }
        Ok(())
    }

    /// Sends the same extents for each context: there is but one kind.
    fn send_status(
        &mut self,
        context: &RequestContext,
        extents: &[Extent],
        ids: &Ids,
        charge: Charge,
        batch: &mut Batch<'_>,
    ) -> Result<(), ConnectionEnd> {
        if ids.is_empty() {
            return self.end_read(context, batch);
        }
        self.count(context, true);
        let reported: Vec<_> = extents.iter().map(wire_extent).collect();
        let mut reply = Vec::new();
        for (nth, &id) in ids.iter().enumerate() {
            let mut flags = ChunkFlags::empty();
            flags.set(ChunkFlags::DONE, nth == ids.len() - 1);
            reply.extend(
                self.terms
                    .framing
                    .block_status(context.to, flags, id, &reported),
            );
        }
        let reply: IoBufs = smallvec![Bytes::from(reply)];
        self.outbox.push_read(batch, reply, charge);
        Ok(())
    }
}

fn piece_of(range: Range) -> ChunkRange {
    ChunkRange {
        offset: range.offset,
        len: u32::try_from(range.len).expect("payloads are capped"),
    }
}

fn assert_len(range: Range, data: &IoBufs) {
    let sent: usize = data.iter().map(Bytes::len).sum();
    assert_eq!(sent as u64, range.len, "a read is whole or an error");
}

fn wire_extent(extent: &Extent) -> nbd_proto::Extent {
    let flags = match extent.kind {
        ExtentKind::Data => AllocationFlags::empty(),
        ExtentKind::Hole => AllocationFlags::HOLE | AllocationFlags::ZERO,
        ExtentKind::Zero => AllocationFlags::ZERO,
    };
    nbd_proto::Extent {
        len: extent.range.len,
        flags: flags.bits().into(),
    }
}

/// Where in `whole` a request failed, if the disk named a part of it.
pub(super) fn place_of(error: &IoError, whole: Range) -> Option<u64> {
    let failed = error.range?;
    let end = failed.offset.checked_add(failed.len)?;
    let is_part = whole.offset <= failed.offset && end <= whole.end();
    (is_part && failed != whole && !failed.is_empty()).then_some(failed.offset)
}
