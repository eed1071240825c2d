//! [`Inbox`]: what the handles of a client send to its session.

use std::task::{Context, Poll};

use tokio::sync::mpsc;

use crate::client::session::abort::Aborted;
use crate::client::session::work::Message;

/// What arrived at once.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    pub(super) abort: Option<Aborted>,
    /// No handle is left to send anything.
    pub(super) is_closed: bool,
}

/// Receives messages while there is room for requests, and the order to abort at any time.
#[derive(Debug)]
pub(in crate::client) struct Inbox {
    messages: mpsc::Receiver<Message>,
    is_closed: bool,
    /// A channel of its own: messages are not received while the session has no room for requests.
    aborts: mpsc::Receiver<Aborted>,
    received: Vec<Message>,
}

impl Inbox {
    pub(in crate::client) const fn new(
        messages: mpsc::Receiver<Message>,
        aborts: mpsc::Receiver<Aborted>,
    ) -> Self {
        Self {
            messages,
            is_closed: false,
            aborts,
            received: Vec::new(),
        }
    }

    /// Receives up to `room` messages; [`Self::take_received`] returns them.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<Arrived> {
        let mut arrived = Arrived::default();
        let mut is_ready = false;
        // A channel of aborts without senders is that of messages without senders.
        if let Poll::Ready(Some(aborted)) = self.aborts.poll_recv(cx) {
            arrived.abort = Some(aborted);
            is_ready = true;
        }
        if room > 0
            && !self.is_closed
            && let Poll::Ready(count) = self.messages.poll_recv_many(cx, &mut self.received, room)
        {
            self.is_closed = count == 0;
            arrived.is_closed = self.is_closed;
            is_ready = true;
        }
        match is_ready {
            true => Poll::Ready(arrived),
            false => Poll::Pending,
        }
    }

    /// The messages that were received.
    pub(super) fn take_received(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.received)
    }

    /// Keeps the memory of messages that were handled.
    pub(super) fn recycle(&mut self, handled: Vec<Message>) {
        self.received = handled;
    }

    /// Handles can send no more.
    pub(super) fn close(&mut self) {
        self.messages.close();
    }
}
