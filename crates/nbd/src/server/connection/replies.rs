//! Replies: what a request is answered with, in the form that was negotiated.

use std::time::Duration;

use block::{IoBufs, IoError, Range};
use bytes::Bytes;
use nbd_proto::{ChunkFlags, WireError, error_chunk, offset_data_header, simple_reply};

use super::job::Done;
use super::outbox::Batch;
use super::{Connection, End};
use crate::errno;
use crate::server::budget::Charge;

/// A connection logs errors of its disk no more often.
const COMPLAIN_EVERY: Duration = Duration::from_secs(1);
/// The largest header of a read's reply.
pub(super) const HEAD_MAX: usize = nbd_proto::OFFSET_DATA_LEN;

impl Connection {
    /// The header of a successful read, and its length.
    pub(super) fn read_head(&self, cookie: u64, range: Range) -> ([u8; HEAD_MAX], usize) {
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

    /// Answers with an error; with its text where the client understands that.
    pub(super) fn fail(
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
    pub(super) fn push(&mut self, reply: &[u8], batch: &mut Batch<'_>) -> Result<(), End> {
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

    pub(super) fn succeed(
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
