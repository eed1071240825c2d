//! [`ContextMap`]: the status of all of an export in one metadata context, and [`read_context`], which reads it.
//!
//! For contexts other than `base:allocation`: dirty bitmaps, the depth of a chain of images. It is read once, on a
//! connection of its own, with one request in flight.
//!
//! # Invariants
//!
//! * The extents of a map begin at byte 0, follow each other without a gap, and end at or before the export's end;
//!   neighbours have different statuses.
//! * At most [`limits::CONTEXT_EXTENTS_MAX`] extents are taken from a server, however short they are. Of the rest nothing
//!   is known: [`ContextMap::reported`] is less than the size then.
//! * Each request is answered within the timeout, or the function fails.
//!
//! # What it does not do
//!
//! It does not reconnect, and keeps no connection: what the server changes later is not in the map.

use std::sync::Arc;
use std::time::Duration;

use block::Range;
use bytes::{Buf, BytesMut};
use engine::clock;
use nbd_proto::{
    AccessMode, ClientHandshakeConfig, Command, CommandFlags, Expected, Framing, QEMU_DIRTY,
    ReplyDecoder, ReplyEvent, Request, WriterAccess,
};

use crate::client::dial::dial_as;
use crate::client::session::work::PartLimits;
use crate::client::stream::Stream;
use crate::client::{ClientError, Target, limits, random_token};

/// Bytes received at once.
const RECEIVE: usize = 64 << 10;

/// A range of one status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextExtent {
    /// Where.
    pub range: Range,
    /// What it means is defined by the context.
    pub status: u64,
}

/// The status of an export in one metadata context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextMap {
    /// Size of the export in whole blocks, bytes.
    pub size: u64,
    /// From byte 0 on, in order, without gaps.
    pub extents: Vec<ContextExtent>,
}

impl ContextMap {
    const fn new(size: u64) -> Self {
        Self {
            size,
            extents: Vec::new(),
        }
    }

    /// Bytes from the beginning on of which the status is known.
    #[must_use]
    pub fn reported(&self) -> u64 {
        self.extents.last().map_or(0, |last| last.range.end())
    }

    /// The ranges that are dirty, if this is a dirty bitmap of QEMU's, in order. What was not reported counts as dirty.
    #[must_use]
    pub fn dirty(&self) -> Vec<Range> {
        let dirty = |extent: &&ContextExtent| extent.status & QEMU_DIRTY != 0;
        let ranges = self.extents.iter().filter(dirty);
        let mut ranges: Vec<Range> = ranges.map(|extent| extent.range).collect();
        let reported = self.reported();
        if reported < self.size {
            ranges.push(Range::new(reported, self.size - reported));
        }
        ranges
    }

    /// The next `len` bytes have this status. What lies behind the export's end is ignored.
    fn push(&mut self, len: u64, status: u64) {
        let offset = self.reported();
        let len = len.min(self.size - offset);
        match self.extents.last_mut() {
            Some(last) if last.status == status => last.range.len += len,
            _ if len == 0 => {}
            _ => self.extents.push(ContextExtent {
                range: Range::new(offset, len),
                status,
            }),
        }
    }
}

/// Reads the status of the export of `target` in the metadata context `context`, at most
/// [`nbd_proto::limits::STRING_MAX`] bytes. `timeout` limits the handshake and each request. Only inside [`engine::run`].
///
/// # Errors
/// [`ClientError`], which names the target: [`ClientError::NoContext`] where the export does not have the context.
pub async fn read_context(
    target: &Target,
    context: &str,
    timeout: Duration,
) -> Result<ContextMap, ClientError> {
    let config = ClientHandshakeConfig {
        framing: Framing::Extended,
        contexts: vec![context.to_owned()],
        writer: Some(WriterAccess {
            token: random_token(),
            mode: AccessMode::Read,
        }),
        ..ClientHandshakeConfig::new(target.export.clone())
    };
    let dialed = dial_as(target, config, timeout).await?;
    let export = dialed.export();
    let (block_size, payload_max) = (export.block_size_min, export.block_size_max);
    let mut map = ContextMap::new(block::whole_blocks(export.size, block_size));
    let extended = dialed.extended();
    let (stream, negotiated) = dialed.into_parts();
    if negotiated.contexts.is_empty() {
        return Err(ClientError::NoContext {
            target: target.clone(),
            context: context.to_owned(),
        });
    }
    let framing = negotiated.framing;
    let mut reader = StatusReader {
        target,
        context,
        stream,
        framing,
        decoder: ReplyDecoder::new(framing, 1).with_contexts(&negotiated.contexts),
        received: BytesMut::new(),
        taken: 0,
    };
    let reach = PartLimits::new(block_size, payload_max, extended).reach;
    while map.reported() < map.size && reader.taken < limits::CONTEXT_EXTENTS_MAX {
        let offset = map.reported();
        let range = Range::new(offset, reach.min(map.size - offset));
        let read = clock::timeout(timeout, reader.read(range, &mut map)).await;
        read.map_err(|clock::Elapsed| ClientError::Unanswered {
            target: target.clone(),
            after: timeout,
        })??;
    }
    reader.disconnect(timeout).await;
    Ok(map)
}

/// A connection on which the status of one context is read.
struct StatusReader<'a> {
    target: &'a Target,
    context: &'a str,
    stream: Stream,
    framing: Framing,
    decoder: ReplyDecoder<()>,
    received: BytesMut,
    /// Extents that the server sent.
    taken: usize,
}

impl StatusReader<'_> {
    /// Requests the status of `range`, which begins at the end of `map`, and appends what the server reports of it: at
    /// least one byte, and perhaps less or more than the range.
    async fn read(&mut self, range: Range, map: &mut ContextMap) -> Result<(), ClientError> {
        let expected = Expected {
            command: Command::BlockStatus,
            flags: CommandFlags::empty(),
            offset: range.offset,
            len: range.len,
        };
        let cookie = self
            .decoder
            .begin(expected, ())
            .expect("one request is in flight at a time");
        self.send(Command::BlockStatus, cookie, range)
            .await
            .map_err(|error| self.lost(error))?;
        let mut reason = String::new();
        loop {
            let decoded = self.decoder.decode(&self.received);
            let decoded = decoded.map_err(|broken| ClientError::Broken {
                target: self.target.clone(),
                broken,
            })?;
            self.received.advance(decoded.consumed);
            match decoded.event {
                None => self.receive().await?,
                Some(ReplyEvent::Extent { extent, .. }) => {
                    self.taken += 1;
                    if self.taken <= limits::CONTEXT_EXTENTS_MAX {
                        map.push(extent.len, extent.flags);
                    }
                }
                Some(ReplyEvent::Error { text, .. }) => reason = text,
                Some(ReplyEvent::Done { error: None, .. }) => return Ok(()),
                Some(ReplyEvent::Done {
                    error: Some(error), ..
                }) => {
                    return Err(ClientError::BlockStatus {
                        target: self.target.clone(),
                        context: self.context.to_owned(),
                        why: match reason.is_empty() {
                            true => error.to_string(),
                            false => format!("{error}: {reason}"),
                        },
                    });
                }
                Some(ReplyEvent::Data { .. } | ReplyEvent::Hole { .. }) => {
                    panic!("content of a request that is no read")
                }
            }
        }
    }

    async fn send(&self, command: Command, cookie: u64, range: Range) -> std::io::Result<()> {
        let request = Request {
            cookie,
            command,
            flags: CommandFlags::empty(),
            offset: range.offset,
            len: range.len,
        };
        let mut bytes = Vec::new();
        request.encode_to(self.framing, &mut bytes);
        self.stream.send_all(&bytes).await
    }

    async fn receive(&mut self) -> Result<(), ClientError> {
        let mut buffer = vec![0; RECEIVE];
        let count = self.stream.receive(&mut buffer).await;
        let count = count.map_err(|error| self.lost(error))?;
        if count == 0 {
            return Err(ClientError::Closed {
                target: self.target.clone(),
            });
        }
        self.received.extend_from_slice(&buffer[..count]);
        Ok(())
    }

    /// Says that the connection ends. A server that does not take it loses the connection all the same.
    async fn disconnect(self, timeout: Duration) {
        let goodbye = self.send(Command::Disconnect, 0, Range::new(0, 0));
        if let Ok(Err(error)) = clock::timeout(timeout, goodbye).await {
            tracing::debug!("{}: disconnect: {error}", self.target);
        }
    }

    fn lost(&self, source: std::io::Error) -> ClientError {
        ClientError::Lost {
            target: self.target.clone(),
            source: Arc::new(source),
        }
    }
}
