//! [`Connection`]: the transmission phase with one client.
//!
//! One task owns it and does everything for it on one thread: it receives what the socket holds,
//! handles every complete request in it ([`Connection::consume`] in `requests.rs`), answers at once
//! what does not have to wait, keeps the rest as futures, and sends the replies of a step together.
//!
//! # Invariants
//!
//! * A step never waits; between steps the connection holds no thread memory.
//! * A request is begun only when its memory is within the connection's and the process's bounds.
//! * A connection that ends waits for its writes, and its successors wait for it: none lands later.
//! * A client's queries about the whole disk take a bounded share of the threads for long work, and end when it leaves
//!   ([`query_share`]).
//! * A step that leaves something undone is followed by another: every `false` of
//!   [`Connection::round`] has an event, a completion or a timer to come.

mod busy_wait;
mod inbound;
mod job;
mod long;
mod outbox;
mod payload;
mod query_share;
mod receive;
mod regions;
mod replies;
mod request_context;
mod requests;
mod sparse;
mod split_write;
mod stall;
mod status;
#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use block::Node;
use engine::{InFlight, Ticket};
use futures_util::stream::{FuturesUnordered, StreamExt};

use self::busy_wait::BusyWait;
use self::inbound::Inbound;
use self::job::JobResult;
use self::long::CancelFlag;
use self::outbox::{Batch, Outbox, Sent};
#[cfg(test)]
pub(super) use self::query_share::QUERIES_MAX;
use self::query_share::QueryShare;
use self::sparse::HoleHeuristic;
use self::stall::Stall;
use super::budget::{Budget, BudgetWait, Charge};
use super::limits::Limits;
use super::plan::ConnectionTerms;
use super::scratch::{self, Scratch};
use super::socket::Socket;
use super::stats::Meter;
use super::writers::WriteGate;

/// Rounds of one step before other connections of the thread have their turn.
const ROUNDS_MAX: usize = 8;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionEnd {
    /// The client sent `DISC`.
    #[error("the client disconnected")]
    Disconnected,
    /// The client closed its side without a word.
    #[error("the client closed the connection")]
    Closed,
    /// The server stops.
    #[error("the server stops")]
    Stopped,
    /// Too little progress for too long.
    #[error("the client sent or took too little for {0:?}")]
    Stalled(Duration),
    /// Another server has the disk.
    #[error("another server has taken the disk over")]
    Fenced,
    /// The client broke the protocol.
    #[error("{0}")]
    Protocol(String),
    /// The socket failed, or a file behind a reply.
    #[error("{0}")]
    Io(#[from] io::Error),
}

type PendingJob = Pin<Box<dyn Future<Output = JobResult> + Send>>;

/// One client in transmission.
pub(super) struct Connection {
    /// The export's, for the log.
    name: String,
    /// Its disk may be lost to another server.
    is_of_standby: bool,
    socket: Socket,
    disk: Node,
    terms: ConnectionTerms,
    limits: Arc<Limits>,
    budget: Budget,
    inbound: Inbound,
    /// Bytes received and not handled.
    leftover: Vec<u8>,
    /// `leftover` could be handled at once but for the bounds.
    paused: bool,
    /// Requests that wait for the disk, their memory, and how many of them change it.
    pending: FuturesUnordered<PendingJob>,
    pending_bytes: usize,
    pending_changes: usize,
    outbox: Outbox,
    /// Waits for memory of the process…
    budget_wait: Option<BudgetWait>,
    /// …and what was granted of it.
    granted: Option<Charge>,
    hole_heuristic: HoleHeuristic,
    /// Set when long requests are cancelled.
    cancel: CancelFlag,
    /// Bounds its queries at work.
    queries: QueryShare,
    /// The export's, and the ticket there of a connection that is over but for its disk.
    leaving: (InFlight, Option<Ticket>),
    /// Nothing more is received; the end comes when all is answered.
    ending: Option<ConnectionEnd>,
    /// When an error of the disk was last logged.
    complained: Option<Instant>,
    /// Bytes received, ever: a sign of progress.
    received: u64,
    /// Requests begun, ever.
    requests: u64,
    /// Counts what is done, for others to read.
    meter: Meter,
    busy_wait: BusyWait,
    /// Whether it may write.
    gate: WriteGate,
    /// The next receive reads the socket regardless of its readiness.
    eager: bool,
}

/// What a connection begins with.
pub(super) struct ConnectionSetup {
    /// The export's.
    pub(super) name: String,
    /// Its disk may be lost to another server: it ends then.
    pub(super) is_of_standby: bool,
    /// The export's count of connections that wait for their disk only.
    pub(super) leaving: InFlight,
    pub(super) socket: Socket,
    pub(super) disk: Node,
    pub(super) terms: ConnectionTerms,
    pub(super) limits: Arc<Limits>,
    pub(super) budget: Budget,
    /// Counts what it does.
    pub(super) meter: Meter,
    /// Whether it may write.
    pub(super) gate: WriteGate,
    /// Bytes behind the handshake.
    pub(super) received: Vec<u8>,
}

impl Connection {
    pub(super) fn new(start: ConnectionSetup) -> Self {
        let busy_wait = BusyWait::new(start.limits.busy_wait_max);
        Self {
            name: start.name,
            is_of_standby: start.is_of_standby,
            leaving: (start.leaving, None),
            complained: None,
            socket: start.socket,
            disk: start.disk,
            terms: start.terms,
            limits: start.limits,
            outbox: Outbox::new(start.budget.clone()),
            budget: start.budget,
            inbound: Inbound::Header,
            meter: start.meter,
            gate: start.gate,
            paused: !start.received.is_empty(),
            leftover: start.received,
            pending: FuturesUnordered::new(),
            pending_bytes: 0,
            pending_changes: 0,
            budget_wait: None,
            granted: None,
            hole_heuristic: HoleHeuristic::default(),
            cancel: CancelFlag::default(),
            queries: QueryShare::default(),
            ending: None,
            received: 0,
            requests: 0,
            busy_wait,
            eager: false,
        }
    }

    /// Serves the client until it goes or `stop` resolves; then answers what was begun. The socket is still open: the client
    /// sees it end when nothing is held for it any more.
    pub(super) async fn run(mut self, stop: impl Future<Output = ()>) -> (ConnectionEnd, Socket) {
        let end = {
            tokio::pin!(stop);
            let mut stall = Stall::new(self.limits.stall_timeout);
            let mut stopped = false;
            std::future::poll_fn(|cx| {
                if let Poll::Ready(end) = self.step(cx) {
                    return Poll::Ready(end);
                }
                if !stopped && stop.as_mut().poll(cx).is_ready() {
                    stopped = true;
                    self.ending.get_or_insert(ConnectionEnd::Stopped);
                    if let Poll::Ready(end) = self.step(cx) {
                        return Poll::Ready(end);
                    }
                }
                if self.waits_busily() {
                    // The client may need this very processor to send.
                    rustix::thread::sched_yield();
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                stall.poll(
                    cx,
                    self.is_clients_turn(),
                    self.received + self.outbox.sent(),
                    || self.budget.is_contended(),
                )
            })
            .await
        };
        self.cancel.set();
        self.inbound = Inbound::Header;
        self.leave();
        // Writes that were begun end before the connection does, though no client gets their replies.
        while self.pending_changes > 0
            && let Some(done) = self.pending.next().await
        {
            self.pending_changes -= usize::from(done.changed);
        }
        (end, self.socket)
    }

    /// Lets the next connection wait for what this one has begun.
    fn leave(&mut self) {
        let (leaving, ticket) = &mut self.leaving;
        if self.pending_changes > 0 {
            ticket.get_or_insert_with(|| leaving.ticket());
        }
    }

    /// Whether the client owes bytes that would be received, or has replies to take.
    fn is_clients_turn(&self) -> bool {
        let is_midway = !matches!(self.inbound, Inbound::Header) || !self.leftover.is_empty();
        let is_receiving = self.ending.is_none() && !self.paused && !self.is_saturated();
        !self.outbox.is_empty() || (is_midway && is_receiving)
    }

    /// Whether the next request is so near that the task should look again at once.
    fn waits_busily(&mut self) -> bool {
        self.eager = self.busy_wait.is_likely()
            && self.pending.is_empty()
            && self.ending.is_none()
            && !self.is_clients_turn()
            && self.busy_wait.goes_on(engine::clock::now());
        self.eager
    }

    /// Does what can be done without waiting, as far as one turn goes.
    fn step(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionEnd> {
        self.outbox.begin_turn();
        self.meter.begin_step(engine::clock::now());
        let step = scratch::with(|Scratch { receive, send }| {
            let mut batch = Batch::new(send);
            for _ in 0..ROUNDS_MAX {
                match self.round(cx, receive, &mut batch) {
                    Ok(_) if self.outbox.is_turn_over() => return None,
                    Ok(true) => {}
                    Ok(false) => return Some(Poll::Pending),
                    Err(end) => return Some(Poll::Ready(end)),
                }
            }
            None
        });
        if self.meter.is_due() {
            self.meter.end_step(engine::clock::now());
        }
        step.unwrap_or_else(|| {
            yields(cx);
            Poll::Pending
        })
    }

    /// One round of completing, receiving and sending. `false`: nothing more to do for now.
    fn round(
        &mut self,
        cx: &mut Context<'_>,
        receive: &mut [u8],
        batch: &mut Batch<'_>,
    ) -> Result<bool, ConnectionEnd> {
        let mut moved = self.complete(cx, batch)?;
        if self.ending.is_none() {
            match self.pump(cx, receive, batch) {
                Ok(received) => moved |= received,
                Err(end) if matches!(end, ConnectionEnd::Io(_)) => return Err(end),
                // What was begun before is still looked at, and answered.
                Err(end) => {
                    self.ending = Some(end);
                    moved = true;
                }
            }
        }
        if let Some(end) = &self.ending {
            // A client that disconnects gets its pending replies; one that is gone, or is dismissed, does not.
            if !matches!(end, ConnectionEnd::Disconnected) {
                self.cancel.set();
            }
            self.budget_wait = None;
            self.granted = None;
            self.leave();
        }
        let was_saturated = self.is_saturated();
        if !batch.is_empty() || !self.outbox.is_empty() {
            match self.outbox.send(&self.socket, batch)? {
                Sent::All => {}
                Sent::Enough => return Ok(true),
                Sent::Blocked => {
                    // Ready again since, or news that need not wait for the socket: once more.
                    let is_writable = self.socket.poll_writable(cx)?.is_ready();
                    return Ok(is_writable || moved);
                }
            }
        }
        if self.pending.is_empty() && self.ending.is_some() {
            return Err(self.ending.take().unwrap_or(ConnectionEnd::Closed));
        }
        // What was sent may have made room: requests wait in the socket, and no event announces them.
        Ok(moved || (was_saturated && !self.is_saturated()))
    }

    /// Sends the replies of finished jobs.
    fn complete(
        &mut self,
        cx: &mut Context<'_>,
        batch: &mut Batch<'_>,
    ) -> Result<bool, ConnectionEnd> {
        let mut moved = false;
        while let Poll::Ready(Some(done)) = self.pending.poll_next_unpin(cx) {
            self.answer(done, batch)?;
            moved = true;
        }
        Ok(moved)
    }
}

/// Wakes the task when others of its thread have had their turn and the thread has looked for
/// events. A task that merely wakes itself is run again many times before that.
fn yields(cx: &mut Context<'_>) {
    let others = std::pin::pin!(tokio::task::yield_now());
    if others.poll(cx).is_ready() {
        cx.waker().wake_by_ref();
    }
}
