//! [`Session`]: the one task behind a client. It owns the connections and every request.
//!
//! `wait` waits for anything to happen and changes nothing but the list of what arrived; `apply`
//! does everything that follows and never waits. `recovery` has what happens around a lost
//! connection, `time_limits` when one counts as lost, `failures` what a failure ends; `jobs`, `journal`, `work` and `identity` decide
//! without knowing of sockets.
//!
//! ```text
//!            connection lost         connections made            same disk
//!   Ready -----------------------> Lost -------------> Verifying -----------> Replaying
//!     ^                            ^ | timeout        | ^  | another disk         |
//!     |                            | +------> Dead <--+-|--+                      |
//!     |                            +--------------------+-- lost again -----------+
//!     +---------------------------------------------------------------------------+
//!                                                     journal written again
//! ```
//!
//! It begins in Verifying, with nothing to compare with: what is read then is the disk. No caller has the client before that
//! is over; if its connections are lost meanwhile, the session ends ([`Opening`]). Only in Ready is a request of a caller sent. What was in flight is sent again, behind
//! the journal and before what is new.

mod abandoned_connections;
mod abort;
pub(super) mod allocation;
mod connect;
mod connection;
pub(super) mod deadlines;
mod dispatch;
mod failures;
pub(super) mod fill;
pub(super) mod flush_order;
mod identity;
pub(super) mod idle_timer;
mod inbox;
mod jobs;
pub(super) mod journal;
mod known_disk;
#[cfg(test)]
pub(super) mod mutation;
mod outbox;
mod pool;
pub(super) mod reconnect;
mod recovery;
mod renewal;
mod replies;
pub(super) mod server_choice;
mod shared_state;
pub(super) mod supersede;
mod time_limits;
pub(super) mod unflushed_writes;
mod verification;
pub(super) mod work;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use block::{Errno, Fenced, IoError, Range};
use engine::clock;
use nbd_proto::{AccessMode, ExportInfo, TransmissionFlags};
use tokio::sync::oneshot;

use crate::client::dial::Dialed;
use crate::client::{ClientConfig, ClientError, Target, limits};
use abandoned_connections::AbandonedConnections;
pub(super) use abort::Aborted;
pub(super) use connect::{connect_all, pause};
use connection::Finished;
use idle_timer::IdleTimer;
use inbox::Arrived;
pub(super) use inbox::Inbox;
use jobs::Jobs;
use journal::Journal;
use known_disk::KnownDisk;
#[cfg(test)]
use mutation::Mutation;
use pool::ConnectionPool;
use reconnect::Reconnect;
use server_choice::ServerChoice;
pub(super) use shared_state::SharedState;
use time_limits::LimitTimer;
use unflushed_writes::UnflushedWrites;
use verification::Verification;
use work::{Message, Part, PartLimits, Renewal, Submission, Work};

/// Time for the goodbye on one connection, until the server has ended it.
const GOODBYE: Duration = Duration::from_secs(1);

/// Where [`Client::connect`](super::Client::connect) waits until the session knows which disk it has.
pub(super) type Opening = oneshot::Sender<Result<(), ClientError>>;

/// Where the session is; see the head of this file.
#[derive(Debug)]
enum Phase {
    Ready,
    /// It is looked whether the connections have the disk.
    Verifying(Box<Verification>),
    Replaying {
        /// The journal's next entry to write again.
        next: u64,
        /// Where the journal ended when the connections were made.
        end: u64,
        /// Entries in flight.
        out: usize,
        /// Why the server refused one.
        failure: Option<Box<ClientError>>,
    },
    Lost,
    Dead(Arc<ClientError>),
}

/// The task behind a client.
pub(super) struct Session {
    /// The server that is used, or was last.
    target: Target,
    servers: ServerChoice,
    /// Of a server that may still write.
    abandoned: AbandonedConnections,
    config: ClientConfig,
    /// The export as it was first seen, and its size as last seen: what callers were promised.
    export: ExportInfo,
    inbox: Inbox,
    jobs: Jobs,
    known: KnownDisk,
    pool: ConnectionPool,
    phase: Phase,
    /// Until the first verification is over.
    opening: Option<Opening>,
    unflushed: UnflushedWrites,
    /// Parts of lost connections, to be sent before anything new.
    resend: VecDeque<Part>,
    reconnect: Reconnect,
    idle_timer: IdleTimer,
    limit_timer: LimitTimer,
    /// The caller that waits for new connections.
    renewal: Option<Renewal>,
    closing: Option<Closing>,
    finished: Vec<Finished>,
    shared: Arc<SharedState>,
}

#[derive(Debug)]
struct Closing {
    since: Instant,
    done: Vec<oneshot::Sender<()>>,
}

/// What happened.
#[derive(Default)]
struct Wake {
    arrived: Arrived,
    timer: bool,
    dialed: Option<Result<Vec<Dialed>, ClientError>>,
}

impl Session {
    /// A session on connections that were just made.
    pub(super) fn new(
        target: &Target,
        config: ClientConfig,
        dialed: Vec<Dialed>,
        inbox: Inbox,
        (shared, opening): (Arc<SharedState>, Opening),
    ) -> Self {
        let mut export = dialed[0].export().clone();
        export.size = shared.geometry().size;
        let mode = config.writer.map(|writer| writer.mode);
        let only_reads = config.read_only || export.flags.contains(TransmissionFlags::READ_ONLY);
        let has_others = mode == Some(AccessMode::Shared);
        let known = KnownDisk::new(&dialed[0], only_reads, has_others);
        let flushes = export.flags.contains(TransmissionFlags::SEND_FLUSH);
        let part_limits = PartLimits::new(export.block_size_min, export.block_size_max, false);
        let now = clock::now();
        let mut session = Self {
            idle_timer: IdleTimer::new(config.request_timeout, config.flush_timeout),
            target: dialed[0].server().clone(),
            servers: ServerChoice::new(target, dialed[0].server()),
            abandoned: AbandonedConnections::default(),
            config,
            export,
            inbox,
            jobs: Jobs::default(),
            known,
            pool: ConnectionPool::new(Vec::new(), None, part_limits, now),
            phase: Phase::Ready,
            opening: Some(opening),
            unflushed: UnflushedWrites::new(Journal::new(flushes, journal_max())),
            resend: VecDeque::new(),
            reconnect: Reconnect::default(),
            limit_timer: LimitTimer::new(now),
            renewal: None,
            closing: None,
            finished: Vec::new(),
            shared,
        };
        let server = dialed[0].disk().clone();
        session.take_connections(dialed, now);
        session.begin_verification(server, session.export.size);
        session.advance(now);
        session
    }

    /// Runs until the client is closed or dropped.
    pub(super) async fn run(mut self) {
        while !self.is_over() {
            let wake = self.wait().await;
            self.apply(wake);
        }
        self.inbox.close();
        let goodbyes = self.pool.take().into_iter();
        let goodbyes = goodbyes.map(|one| renewal::say_goodbye(self.target.clone(), one));
        futures_util::future::join_all(goodbyes).await;
        self.phase = Phase::Lost;
        self.publish();
        let done = self.closing.take().map(|closing| closing.done);
        // Dropping them is the answer.
        drop(done);
    }

    async fn wait(&mut self) -> Wake {
        std::future::poll_fn(|cx| self.poll_wake(cx)).await
    }

    fn poll_wake(&mut self, cx: &mut Context<'_>) -> Poll<Wake> {
        let mut wake = Wake::default();
        let mut ready = false;
        let room = self.jobs_max().saturating_sub(self.jobs.len());
        if let Poll::Ready(arrived) = self.inbox.poll(cx, room) {
            wake.arrived = arrived;
            ready = true;
        }
        ready |= self.pool.poll_ready(cx).is_ready();
        if let Poll::Ready(result) = self.reconnect.poll(cx) {
            wake.dialed = Some(result);
            ready = true;
        }
        if self.limit_timer.poll(cx).is_ready() {
            wake.timer = true;
            ready = true;
        }
        // A doubt may be over with it.
        ready |= self.abandoned.poll(cx).is_ready();
        if ready {
            Poll::Ready(wake)
        } else {
            Poll::Pending
        }
    }

    fn apply(&mut self, wake: Wake) {
        let now = clock::now();
        if let Some(aborted) = wake.arrived.abort {
            self.abort(aborted, now);
            return;
        }
        if let Some(result) = wake.dialed {
            self.dialed(result, now);
        }
        self.receive(now);
        if wake.arrived.is_closed {
            self.close(None, now);
        }
        self.take_arrived(now);
        if wake.timer {
            self.check_time(now);
        }
        self.end_doubt(now);
        self.advance(now);
    }

    /// Sends what can be sent, and publishes what has changed.
    fn advance(&mut self, now: Instant) {
        self.dispatch(now);
        self.send(now);
        self.arm_timer(now);
        self.publish();
        let is_open = matches!(self.phase, Phase::Ready);
        #[cfg(test)]
        let is_open = is_open || mutation::is_on(Mutation::OpenBeforeVerification);
        if is_open && let Some(opening) = self.opening.take() {
            answer_opening(opening, Ok(()));
        }
    }

    /// Whether nothing is left to do.
    fn is_over(&self) -> bool {
        // A connection on which answers are outstanding cannot be left in good order.
        let looks = match &self.phase {
            Phase::Verifying(verification) => verification.is_waiting(),
            _ => false,
        };
        let is_looking = looks && !self.pool.is_empty();
        self.closing.is_some() && self.jobs.is_empty() && !is_looking
    }

    /// Whether requests are sent.
    const fn is_usable(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// Requests taken up at once; the others wait in the inbox.
    fn jobs_max(&self) -> usize {
        self.config.connections * self.config.in_flight_max
    }

    fn take_arrived(&mut self, now: Instant) {
        let mut received = self.inbox.take_received();
        for message in received.drain(..) {
            match message {
                Message::Request(submission) => self.accept(submission, now),
                Message::Settle(done) => self.jobs.settle(done),
                Message::Renew(answer_to) => self.wants_renewal(answer_to, now),
                Message::Close(done) => self.close(Some(done), now),
            }
        }
        self.inbox.recycle(received);
    }

    fn accept(&mut self, submission: Submission, now: Instant) {
        match self.refusal(&submission.work, now) {
            None => self.jobs.accept(submission),
            Some((errno, why)) => {
                if matches!(*why, ClientError::Gone { .. }) {
                    self.fail_if_gone(now);
                    self.timed_out(submission.work.is_change_or_flush(), &why, now);
                }
                let error = failure(errno, &submission.work, submission.range, why);
                // A caller that no longer waits has dropped its end.
                drop(submission.answer.send(Err(error)));
            }
        }
    }

    /// Why a request is not even tried.
    fn refusal(&self, work: &Work, now: Instant) -> Option<(Errno, Arc<ClientError>)> {
        let target = || self.target.clone();
        if self.closing.is_some() {
            let why = ClientError::ShutDown { target: target() };
            return Some((Errno::ShuttingDown, Arc::new(why)));
        }
        if let Phase::Dead(why) = &self.phase {
            return Some((Errno::Io, Arc::clone(why)));
        }
        if matches!(work, Work::Flush) && self.unflushed.has_failed() {
            let why = ClientError::FlushFailed { target: target() };
            return Some((Errno::Io, Arc::new(why)));
        }
        self.gone(now).map(|why| (Errno::Io, why))
    }

    fn close(&mut self, done: Option<oneshot::Sender<()>>, now: Instant) {
        let closing = self.closing.get_or_insert_with(|| Closing {
            since: now,
            done: Vec::new(),
        });
        closing.done.extend(done);
        let target = self.target.clone();
        self.renewal_over(Err(ClientError::ShutDown { target }));
        if !self.is_usable() {
            self.fail_all(Errno::ShuttingDown, |target| ClientError::ShutDown {
                target,
            });
        }
    }

    fn publish(&self) {
        self.shared.publish(|state| {
            let outage = self.reconnect.outage();
            state.health.connected = outage.is_none() && self.is_usable() && !self.is_over();
            state.health.connections = self.pool.len();
            state.health.reconnects = self.reconnect.count();
            state.health.unflushed = self.unflushed.journal().cost();
            state.health.flush_failed = self.unflushed.has_failed();
            state.health.failed = match &self.phase {
                Phase::Dead(why) => Some(why.to_string()),
                _ => None,
            };
            state.outage_since = outage.map(|outage| outage.since);
            state.outages_ended = self.reconnect.outages_ended();
        });
    }
}

/// A caller that no longer waits has dropped its future, and with it the client.
fn answer_opening(opening: Opening, result: Result<(), ClientError>) {
    drop(opening.send(result));
}

/// Bytes that a journal keeps.
fn journal_max() -> u64 {
    #[cfg(test)]
    if let Some(max) = mutation::journal_max() {
        return max;
    }
    limits::JOURNAL_MAX
}

fn failure(errno: Errno, work: &Work, range: Range, why: Arc<ClientError>) -> IoError {
    let range = (!matches!(work, Work::Flush)).then_some(range);
    let error = IoError::new(errno, work.operation(), range);
    match &*why {
        // The nodes above the disk must be able to see it, and do not know this crate.
        ClientError::Fenced { text, .. } => error.because(Fenced(text.clone())),
        _ => error.because(why),
    }
}
