//! Receiving: from the socket into the thread's scratch buffer, or straight into a payload that is
//! being gathered; then on to [`Connection::consume`].
//!
//! # Invariants
//!
//! * What a step does not handle is kept (`leftover`) and stands in front of what the next receives.
//! * Payload lies at the same offset modulo [`ALIGN`] in the buffer as its bytes lie in their pages:
//!   a copy into the page cache from a source that is not aligned to 32 bytes costs a quarter more.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::inbound::Inbound;
use super::outbox::Batch;
use super::{Connection, ConnectionEnd};

/// Alignment that a copy from the buffer is worth, bytes: a line of the processor's cache.
pub(super) const ALIGN: usize = 64;

/// Bytes of a lone request that its client waits for; with more, moving them is what takes time.
const LONE_MAX: usize = 8 << 10;

/// Where in the scratch buffer to receive, so that the payload that comes next is aligned as it will
/// be in its pages. Before a header, that of a write is taken to begin a page.
pub(super) fn position(inbound: &Inbound, header_len: usize) -> usize {
    match inbound {
        // Behind a payload that is gathered elsewhere comes a header.
        Inbound::Header | Inbound::Gathering(_) => ALIGN - header_len,
        Inbound::Streaming(streaming) => {
            let within = streaming.rest().offset % ALIGN as u64;
            usize::try_from(within).expect("less than the alignment")
        }
        Inbound::Skipping(_) => 0,
    }
}

impl Connection {
    /// Receives, and handles what was received, as far as the bounds allow.
    pub(super) fn pump(
        &mut self,
        cx: &mut Context<'_>,
        receive: &mut [u8],
        batch: &mut Batch<'_>,
    ) -> Result<bool, ConnectionEnd> {
        if let Some(wait) = &mut self.budget_wait {
            let Poll::Ready(granted) = Pin::new(wait).poll(cx) else {
                return Ok(false);
            };
            self.granted = Some(granted);
            self.budget_wait = None;
        }
        if self.is_saturated() {
            return Ok(false);
        }
        if self.paused {
            return self.resume(batch);
        }
        let fresh = match self.receive(receive) {
            Ok(fresh) => fresh,
            Err(ConnectionEnd::Io(e)) if e.kind() == io::ErrorKind::WouldBlock => {
                // Ready again since: the next round receives.
                return Ok(self.socket.poll_readable(cx)?.is_ready());
            }
            Err(end) => return Err(end),
        };
        let begun = self.requests;
        let used = self.consume(&receive[fresh.clone()], batch)?;
        let now = engine::clock::now();
        let lone = self.requests - begun <= 1 && fresh.len() <= LONE_MAX;
        self.busy_wait.received(lone, now);
        // An empty `Vec` holds no memory.
        self.leftover = receive[fresh.start + used..fresh.end].to_vec();
        Ok(true)
    }

    /// Handles what was received before the bounds allowed it.
    fn resume(&mut self, batch: &mut Batch<'_>) -> Result<bool, ConnectionEnd> {
        self.paused = false;
        let mut bytes = std::mem::take(&mut self.leftover);
        let used = self.consume(&bytes, batch)?;
        bytes.drain(..used);
        self.leftover = bytes;
        // Another wait for memory is only begun by the next round.
        Ok(used > 0 || !self.paused || self.budget_wait.is_some())
    }

    /// Receives into `into`, behind what was left over, or into the payload that is being gathered
    /// and `into` behind it. Returns which bytes of `into` are to be handled.
    fn receive(&mut self, into: &mut [u8]) -> Result<Range<usize>, ConnectionEnd> {
        let start = position(&self.inbound, self.terms.framing.request_len());
        let kept = self.leftover.len();
        let (received, end) = if let Inbound::Gathering(gathering) = &mut self.inbound {
            assert_eq!(kept, 0, "a payload takes all that was left over");
            let piece = gathering.piece.as_mut().expect("without one it is paused");
            let place = &mut piece.buffer[piece.filled..];
            let wanted = place.len();
            let received = self.socket.receive_into(place, &mut into[start..])?;
            piece.filled += received.min(wanted);
            (received, start + received.saturating_sub(wanted))
        } else {
            into[start..][..kept].copy_from_slice(&self.leftover);
            let eagerly = std::mem::take(&mut self.eager);
            let place = &mut into[start + kept..];
            let received = self.socket.receive(place, eagerly)?;
            (received, start + kept + received)
        };
        if received == 0 {
            return Err(ConnectionEnd::Closed);
        }
        self.received += received as u64;
        Ok(start..end)
    }
}
