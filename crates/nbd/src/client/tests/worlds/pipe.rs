//! [`Pipe`]: one direction of a simulated connection.
//!
//! ```text
//! sender -> on the wire (bytes with a time of arrival) -> arrived -> receiver
//! ```
//!
//! Bytes on the wire are lost when the sender resets the connection; what has arrived stays with the
//! receiver. While the link is severed nothing arrives.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use engine::clock;
use tokio::time::Sleep;

/// How the stream of a pipe ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Closed,
    Reset,
}

/// Bytes that were sent at once.
#[derive(Debug)]
struct Segment {
    arrives: Instant,
    /// The order of sending, among all events of the world.
    stamp: u64,
    /// The sender had given the connection up before it arrived.
    is_stale: bool,
    bytes: VecDeque<u8>,
}

/// Bytes that were taken.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Taken {
    pub(super) count: usize,
    /// The stamp of the last of them.
    pub(super) stamp: u64,
    /// The sender had given the connection up before some of them arrived.
    pub(super) is_stale: bool,
}

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Pipe {
    wire: VecDeque<Segment>,
    arrived: VecDeque<Segment>,
    /// Bytes in both.
    queued: usize,
    capacity: usize,
    /// When the end arrives, behind the bytes on the wire.
    ending: Option<(Instant, Ending)>,
    ended: Option<Ending>,
    severed: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    timer: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Pipe {
    pub(super) const fn new(capacity: usize) -> Self {
        Self {
            wire: VecDeque::new(),
            arrived: VecDeque::new(),
            queued: 0,
            capacity,
            ending: None,
            ended: None,
            severed: false,
            reader: None,
            writer: None,
            timer: None,
        }
    }

    /// Bytes that it takes now.
    pub(super) const fn room(&self) -> usize {
        self.capacity.saturating_sub(self.queued)
    }

    /// Puts bytes on the wire, which arrive after `latency` and behind those before.
    pub(super) fn send(&mut self, bytes: VecDeque<u8>, stamp: u64, latency: Duration) {
        if self.ending.is_some() {
            // The stream is over, whether or not the sender knows it.
            return;
        }
        let arrives = clock::now() + latency;
        let last = self.wire.back().map_or(arrives, |last| last.arrives);
        self.queued += bytes.len();
        self.wire.push_back(Segment {
            arrives: arrives.max(last),
            stamp,
            is_stale: false,
            bytes,
        });
        self.wake_reader();
    }

    /// Moves what is due from the wire to the receiver.
    fn advance(&mut self) {
        if self.severed {
            return;
        }
        let now = clock::now();
        while self.wire.front().is_some_and(|next| next.arrives <= now) {
            self.arrived.extend(self.wire.pop_front());
        }
        if let Some((at, ending)) = self.ending
            && self.wire.is_empty()
            && at <= now
        {
            self.ended.get_or_insert(ending);
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let end = self.ending.map(|(at, _)| at);
        let first = self.wire.front().map(|next| next.arrives);
        first.or(end).filter(|_| !self.severed)
    }

    /// Takes up to `into.len()` bytes that have arrived; `None`: there are none.
    pub(super) fn take(&mut self, into: &mut [u8]) -> Option<Taken> {
        self.advance();
        let mut taken = Taken::default();
        while taken.count < into.len()
            && let Some(first) = self.arrived.front_mut()
        {
            taken.stamp = first.stamp;
            taken.is_stale |= first.is_stale;
            let count = first.bytes.len().min(into.len() - taken.count);
            for (place, byte) in into[taken.count..]
                .iter_mut()
                .zip(first.bytes.drain(..count))
            {
                *place = byte;
            }
            taken.count += count;
            if first.bytes.is_empty() {
                self.arrived.pop_front();
            }
        }
        self.queued -= taken.count;
        if taken.count > 0
            && let Some(writer) = self.writer.take()
        {
            writer.wake();
        }
        (taken.count > 0).then_some(taken)
    }

    /// How the stream ended, once all that arrived was taken.
    pub(super) fn ended(&mut self) -> Option<Ending> {
        self.advance();
        self.ended.filter(|_| self.arrived.is_empty())
    }

    /// Ready when there is something to take, or the stream has ended.
    pub(super) fn poll_arrived(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.advance();
            if !self.arrived.is_empty() || self.ended.is_some() {
                return Poll::Ready(());
            }
            self.reader = Some(cx.waker().clone());
            let Some(due) = self.next_due() else {
                return Poll::Pending;
            };
            if self.timer.as_ref().is_none_or(|(at, _)| *at != due) {
                let at = tokio::time::Instant::from_std(due);
                self.timer = Some((due, Box::pin(tokio::time::sleep_until(at))));
            }
            if let Some((_, timer)) = &mut self.timer
                && timer.as_mut().poll(cx).is_pending()
            {
                return Poll::Pending;
            }
            self.timer = None;
        }
    }

    /// Ready when it takes bytes, or has no receiver any more.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.room() > 0 {
            return Poll::Ready(());
        }
        self.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The sender closes: what is on the wire still arrives.
    pub(super) fn close(&mut self, latency: Duration) {
        self.advance();
        for segment in &mut self.wire {
            segment.is_stale = true;
        }
        let at = clock::now() + latency;
        self.ending.get_or_insert((at, Ending::Closed));
        self.wake_reader();
    }

    /// The sender resets: what is on the wire is lost.
    pub(super) fn reset(&mut self, latency: Duration) {
        self.advance();
        for lost in self.wire.drain(..) {
            self.queued -= lost.bytes.len();
        }
        self.ending = Some((clock::now() + latency, Ending::Reset));
        self.wake_both();
    }

    /// The receiver is gone: nothing is received any more.
    pub(super) fn clear(&mut self) {
        self.wire.clear();
        self.arrived.clear();
        self.queued = 0;
        self.wake_both();
    }

    /// Forgets what had arrived and was not taken.
    pub(super) fn forget_arrived(&mut self) {
        self.advance();
        for lost in self.arrived.drain(..) {
            self.queued -= lost.bytes.len();
        }
    }

    /// From now on nothing arrives, until it is mended.
    pub(super) fn sever(&mut self) {
        self.advance();
        self.severed = true;
    }

    /// What is on the wire is sent once more, and arrives after `latency`.
    pub(super) fn mend(&mut self, latency: Duration) {
        self.severed = false;
        let at = clock::now() + latency;
        for segment in &mut self.wire {
            segment.arrives = segment.arrives.max(at);
        }
        if let Some((ends, _)) = &mut self.ending {
            *ends = (*ends).max(at);
        }
        self.wake_reader();
    }

    fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    fn wake_both(&mut self) {
        self.wake_reader();
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }
}
