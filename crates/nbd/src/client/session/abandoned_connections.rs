//! [`AbandonedConnections`]: connections that were given up to a server that may still carry out what it received. Nothing is sent on
//! them; they are kept to learn that the server has ended them.
//!
//! # Invariants
//!
//! * They are reset before anything of them is sent again, and before a request of them is reported as failed: what the
//!   sockets had not sent is then never sent. The caller calls [`AbandonedConnections::reset`]; a drop does the same.
//! * A connection that this side has reset says nothing any more: [`AbandonedConnections::have_ended`] stays false, also when later
//!   connections to the address have ended, unless those led to the same process. It is the same one if it reports the same incarnation
//!   of the disk, and it has then ended what it received on the earlier ones before it admitted the client again.

use std::io;
use std::task::{Context, Poll};

use crate::client::session::connection::discard;
use crate::client::stream::Stream;

/// Bytes received and dropped at once.
const RECEIVE: usize = 16 << 10;

/// Connections that the server is to end.
#[derive(Debug, Default)]
pub(crate) struct AbandonedConnections {
    streams: Vec<Stream>,
    /// What the server of all of them reported.
    incarnation: Option<u64>,
    /// The end of one was not seen.
    is_unknown: bool,
    /// Nor that of an earlier one, which may have led to another process.
    is_unknown_before: bool,
}

impl AbandonedConnections {
    /// Keeps these in place of the ones before. `incarnation`: what their server reported; `is_unknown`: the end of one of them was not
    /// the server's.
    pub(crate) fn replace(
        &mut self,
        streams: Vec<Stream>,
        incarnation: Option<u64>,
        is_unknown: bool,
    ) {
        self.reset();
        let is_same = incarnation.is_some() && incarnation == self.incarnation;
        self.is_unknown_before |= self.is_unknown && !is_same;
        self.streams = streams;
        self.incarnation = incarnation;
        self.is_unknown = is_unknown;
    }

    /// Forgets the earlier ones: nothing was left to do on them.
    pub(crate) fn forget(&mut self) {
        self.reset();
        self.is_unknown = false;
        self.is_unknown_before = false;
    }

    /// Whether the server has ended all of them.
    pub(crate) const fn have_ended(&self) -> bool {
        self.streams.is_empty() && !self.is_unknown && !self.is_unknown_before
    }

    /// Ready when the server has ended the last one.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.streams.is_empty() {
            return Poll::Pending;
        }
        let mut at = 0;
        while at < self.streams.len() {
            match poll_end(&self.streams[at], cx) {
                Poll::Pending => at += 1,
                Poll::Ready(is_by_server) => {
                    self.is_unknown |= !is_by_server;
                    discard(self.streams.swap_remove(at));
                }
            }
        }
        match self.streams.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Gives them up for good.
    pub(crate) fn reset(&mut self) {
        self.is_unknown |= !self.streams.is_empty();
        self.streams.drain(..).for_each(discard);
    }
}

impl Drop for AbandonedConnections {
    fn drop(&mut self) {
        self.reset();
    }
}

/// Ready when the connection is over, with whether the server ended it. What it still sends is dropped.
fn poll_end(stream: &Stream, cx: &mut Context<'_>) -> Poll<bool> {
    let mut bytes = [0; RECEIVE];
    loop {
        if stream.poll_readable(cx).is_pending() {
            return Poll::Pending;
        }
        match stream.try_read(&mut bytes) {
            Ok(0) => return Poll::Ready(true),
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Poll::Ready(is_ended_by_server(&e)),
        }
    }
}

/// Whether the server's machine ended the connection. One that was silent for too long may live.
pub(crate) fn is_ended_by_server(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof
    )
}
