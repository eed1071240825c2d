//! [`Checker`]: holds everything that callers are answered, and everything that servers receive,
//! against the [`Invariant`]s.
//!
//! # The exception
//!
//! A server that has received a request over a connection that the client then gave up may carry it
//! out at any later time: no client can prevent it. The server of a world says so
//! ([`Checker::executed_late`]), and the sector may hold that, too, from then on. Requests that were
//! *sent* after their failure was reported are no exception.

use std::sync::{Arc, Mutex};

use block::{IoError, Operation, Range};
use nbd_proto::{Command, TransmissionFlags};
use testkit::SECTOR;

use super::disk::{Sector, ServerDisk, index, sectors_of};
use super::pipe::Taken;
use super::record::{Invariant, Record, lock};
use super::sectors::{Content, SectorHistory};
use super::server::Received;
use super::shape::{Severity, Shape};
use crate::client::ClientError;

/// A request of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Op {
    Read(Range),
    /// What each sector is to hold, and whether at once durably.
    Change {
        range: Range,
        content: Vec<Sector>,
        fua: bool,
        is_trim: bool,
    },
    Flush,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    InFlight,
    Acknowledged(u64),
    Failed(u64),
    /// The caller dropped it.
    Dropped,
}

#[derive(Debug)]
struct Request {
    op: Op,
    number: u64,
    progress: Progress,
    /// Of a read: the state of each sector when it began; of a flush: what it covers.
    before: Vec<(bool, u64)>,
}

#[derive(Debug)]
struct State {
    disk: Arc<ServerDisk>,
    sectors: Vec<SectorHistory>,
    requests: Vec<Request>,
    /// When a failure was reported after which nothing of before may be sent.
    past_dropped: Option<u64>,
    /// What was acknowledged and not flushed is promised.
    is_promised: bool,
    /// When the last flush began that succeeded.
    flushed: u64,
    /// Failures need no reason.
    may_fail: bool,
    /// Another client has the disk.
    is_taken_over: bool,
    /// The host that got the last change.
    writer: Option<usize>,
    failures: u64,
    flushes: u64,
    late: u64,
    waits_for_host: u64,
}

/// Checks one world.
#[derive(Debug)]
pub(super) struct Checker {
    record: Arc<Record>,
    /// A durable write is one request, not a write and a flush.
    native_fua: bool,
    state: Mutex<State>,
}

/// How much happened in a world: a world in which nothing happens proves nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) failures: u64,
    pub(super) flushes: u64,
    pub(super) late: u64,
    /// The client waited for a host without a server, because one that ended there unseen might still write.
    pub(super) waits_for_host: u64,
}

impl Checker {
    /// For a client that is to use `disk`.
    pub(super) fn new(record: Arc<Record>, disk: Arc<ServerDisk>, shape: &Shape) -> Arc<Self> {
        let may_fail = shape.severity != Severity::Gentle;
        let fua = TransmissionFlags::SEND_FUA;
        let sectors = disk.live().into_iter().map(SectorHistory::new).collect();
        Arc::new(Self {
            record,
            native_fua: shape.offer.flags.contains(fua),
            state: Mutex::new(State {
                disk,
                sectors,
                requests: Vec::new(),
                past_dropped: None,
                is_promised: true,
                flushed: 0,
                may_fail,
                is_taken_over: false,
                writer: None,
                failures: 0,
                flushes: 0,
                late: 0,
                waits_for_host: 0,
            }),
        })
    }

    /// The client waits for a host without a server.
    pub(super) fn waited_for_host(&self) {
        lock(&self.state).waits_for_host += 1;
    }

    pub(super) fn record(&self) -> Arc<Record> {
        Arc::clone(&self.record)
    }

    pub(super) fn tally(&self) -> Tally {
        let state = lock(&self.state);
        Tally {
            failures: state.failures,
            flushes: state.flushes,
            late: state.late,
            waits_for_host: state.waits_for_host,
        }
    }

    /// Another client has the disk from now on, and writes to it.
    pub(super) fn taken_over(&self) {
        lock(&self.state).is_taken_over = true;
    }

    /// A caller submits this; returns the request's number. `content` of a write is made of it.
    pub(super) fn begin(&self, ask: impl FnOnce(u64) -> Op) -> u64 {
        let number = self.record.stamp();
        let op = ask(number);
        let mut state = lock(&self.state);
        let mut before = Vec::new();
        match &op {
            Op::Read(range) => {
                before.extend(state.touched(*range).iter().map(SectorHistory::state));
            }
            Op::Flush => {
                let covered = state.sectors.iter().map(SectorHistory::covered);
                before.extend(covered.map(|order| (true, order)));
            }
            Op::Change {
                range,
                content,
                is_trim,
                ..
            } => {
                for (sector, bytes) in state.touched(*range).iter_mut().zip(content) {
                    let content = match is_trim {
                        true => Content::Anything,
                        false => Content::Bytes(bytes.clone()),
                    };
                    sector.begin(number, content);
                }
            }
        }
        state.requests.push(Request {
            op,
            number,
            progress: Progress::InFlight,
            before,
        });
        number
    }

    /// The caller was answered.
    pub(super) fn ended(&self, number: u64, result: Result<Vec<u8>, IoError>) {
        let now = self.record.stamp();
        let mut state = lock(&self.state);
        let Some(at) = state.in_flight(number) else {
            return;
        };
        match result {
            Err(error) => {
                state.requests[at].progress = Progress::Failed(now);
                self.failed(&mut state, at, &error, now);
            }
            Ok(bytes) => {
                state.requests[at].progress = Progress::Acknowledged(now);
                self.succeeded(&mut state, at, &bytes);
            }
        }
    }

    fn failed(&self, state: &mut State, at: usize, error: &IoError, now: u64) {
        let op = state.requests[at].op.clone();
        let number = state.requests[at].number;
        self.record.log(format_args!("{number} failed: {error}"));
        state.failures += 1;
        if let Op::Change { range, .. } = op {
            let promised = state.is_promised;
            for sector in state.touched(range) {
                sector.end(false, promised);
            }
        }
        if !state.may_fail {
            let detail = format!("{number}: {error}");
            self.record.violate(Invariant::FailuresHaveAReason, detail);
        }
        let ends_the_past = match op {
            Op::Read(_) => false,
            Op::Flush => true,
            Op::Change { fua: true, .. } if self.native_fua => true,
            Op::Change { .. } => error.operation == Operation::Flush || !is_answer(error),
        };
        if ends_the_past && state.past_dropped.is_none() {
            self.record.log("the past is dropped");
            state.past_dropped = Some(now);
        }
        if ends_the_past || !is_answer(error) && state.has_unflushed() {
            state.drop_promise();
        }
    }

    fn succeeded(&self, state: &mut State, at: usize, bytes: &[u8]) {
        let Request {
            op, number, before, ..
        } = &state.requests[at];
        let (op, number, before) = (op.clone(), *number, before.clone());
        self.record.log(format_args!("{number} is acknowledged"));
        match op {
            Op::Read(range) => self.check_read(state, (number, range), &before, bytes),
            Op::Change { range, fua, .. } => {
                let promised = state.is_promised;
                for sector in state.touched(range) {
                    sector.end(true, promised);
                    if fua {
                        let covered = sector.covered();
                        sector.make_durable(covered);
                    }
                }
                if fua {
                    self.check_medium(state, &format!("durable write {number}"));
                }
            }
            Op::Flush => {
                state.flushes += 1;
                state.flushed = state.flushed.max(number);
                if state.past_dropped.is_some() {
                    let detail = format!("flush {number}");
                    self.record
                        .violate(Invariant::NoFlushSucceedsAfterAFailure, detail);
                }
                for (sector, (_, covered)) in state.sectors.iter_mut().zip(&before) {
                    sector.make_durable(*covered);
                }
                self.check_medium(state, &format!("flush {number}"));
            }
        }
    }

    fn check_read(
        &self,
        state: &mut State,
        (number, range): (u64, Range),
        before: &[(bool, u64)],
        bytes: &[u8],
    ) {
        let found = bytes
            .chunks_exact(index(SECTOR))
            .map(Sector::copy_from_slice);
        for ((at, found), before) in sectors_of(range).zip(found).zip(before) {
            let sector = &state.sectors[index(at)];
            let is_quiet = before.0 && sector.state() == *before;
            let fits = match is_quiet {
                true => sector.may_be_read(&found),
                false => sector.was_ever(&found),
            };
            if !fits && !state.is_taken_over {
                let writer = super::disk::writer_of(&found, at);
                let detail = format!("read {number}, sector {at}: found that of {writer:?}");
                self.record
                    .violate(Invariant::AcknowledgedWritesAreReadBack, detail);
                return;
            }
        }
    }

    /// What the medium holds for certain.
    fn check_medium(&self, state: &State, when: &str) {
        self.check_image(state, &state.disk.durable(), when);
    }

    fn check_image(&self, state: &State, image: &[Sector], when: &str) {
        if state.is_taken_over {
            return;
        }
        for (at, (sector, found)) in state.sectors.iter().zip(image).enumerate() {
            if !sector.may_be_durable(found) {
                let writer = super::disk::writer_of(found, at as u64);
                let detail =
                    format!("after {when}, sector {at}: the medium has that of {writer:?}");
                self.record.violate(Invariant::FlushedDataSurvive, detail);
                return;
            }
        }
    }

    /// The disk lost power, and the cache with it.
    pub(super) fn power_lost(&self, disk: &ServerDisk) {
        let state = lock(&self.state);
        if disk.number == state.disk.number {
            self.check_image(&state, &disk.durable(), "a loss of power");
        }
    }

    /// A caller dropped its request.
    pub(super) fn dropped(&self, number: u64) {
        let mut state = lock(&self.state);
        if let Some(at) = state.in_flight(number) {
            self.record.log(format_args!("{number} is dropped"));
            state.requests[at].progress = Progress::Dropped;
        }
    }

    /// Requests that were dropped are over.
    pub(super) fn settled(&self, numbers: &[u64]) {
        let mut state = lock(&self.state);
        let promised = state.is_promised;
        for number in numbers {
            let found = state.requests.iter().find(|one| one.number == *number);
            let Some(Request {
                progress: Progress::Dropped,
                op,
                ..
            }) = found
            else {
                continue;
            };
            if let Op::Change { range, .. } = op.clone() {
                for sector in state.touched(range) {
                    sector.end(false, promised);
                }
            }
        }
    }

    /// A server on the host numbered `place` received this.
    pub(super) fn received(&self, (place, disk): (usize, u32), received: &Received, sent: Taken) {
        let command = received.request.command;
        if !matches!(
            command,
            Command::Write | Command::WriteZeroes | Command::Trim
        ) {
            return;
        }
        let mut state = lock(&self.state);
        let range = received.range();
        let what = format!("{command:?} of {range:?}");
        if disk != state.disk.number || state.is_taken_over {
            let detail = format!("disk {disk} got {what}");
            self.record
                .violate(Invariant::OnlyTheAttachedDiskIsWritten, detail);
            return;
        }
        state.writer = Some(place);
        let mut same = state
            .requests
            .iter()
            .filter(|one| one.is_on_the_wire_as(received))
            .peekable();
        if same.peek().is_none() {
            let invariant = Invariant::OnlyRequestsOfCallersAreSent;
            self.record.violate(invariant, what);
        } else if sent.is_stale || !same.any(|one| state.may_be_sent(one, sent.stamp)) {
            self.record
                .violate(Invariant::FailedRequestsAreNotSent, what);
        }
    }

    /// The number of the host that got the last change.
    pub(super) fn last_writer(&self) -> Option<usize> {
        lock(&self.state).writer
    }

    /// A server on the host numbered `place` carries a change out.
    pub(super) fn executed(&self, place: usize, disk: u32) {
        let state = lock(&self.state);
        let is_other = state.writer.is_some_and(|writer| writer != place);
        if is_other && disk == state.disk.number {
            let detail = format!("host {place}, of {:?}", state.writer);
            self.record.violate(Invariant::OneServerAtATime, detail);
        }
    }

    /// A server carries out what it had received over a connection that was given up.
    pub(super) fn executed_late(&self, disk: u32, range: Range, content: &[Sector]) {
        let order = self.record.stamp();
        let mut state = lock(&self.state);
        if disk != state.disk.number {
            return;
        }
        state.late += 1;
        for (sector, content) in state.touched(range).iter_mut().zip(content) {
            sector.executed_late(order, content.clone());
        }
    }
}

impl State {
    /// Whether the client may have a write to repeat.
    fn has_unflushed(&self) -> bool {
        self.requests.iter().any(|request| {
            let is_kept = matches!(request.op, Op::Change { is_trim: false, .. });
            let acknowledged =
                matches!(request.progress, Progress::Acknowledged(at) if at > self.flushed);
            is_kept && (acknowledged || request.progress == Progress::Dropped)
        })
    }

    /// No more than what is durable is promised any more.
    fn drop_promise(&mut self) {
        self.is_promised = false;
        self.sectors
            .iter_mut()
            .for_each(SectorHistory::drop_promise);
    }

    fn touched(&mut self, range: Range) -> &mut [SectorHistory] {
        let sectors = sectors_of(range);
        let end = index(sectors.end).min(self.sectors.len());
        &mut self.sectors[index(sectors.start).min(end)..end]
    }

    fn in_flight(&self, number: u64) -> Option<usize> {
        let at = self.requests.iter().rposition(|one| one.number == number)?;
        (self.requests[at].progress == Progress::InFlight).then_some(at)
    }

    /// Whether a byte of it may be sent at `stamp`.
    fn may_be_sent(&self, request: &Request, stamp: u64) -> bool {
        match request.progress {
            Progress::InFlight | Progress::Dropped => true,
            Progress::Failed(at) => stamp < at,
            Progress::Acknowledged(at) => {
                let dropped = self.past_dropped.filter(|dropped| *dropped > at);
                dropped.is_none_or(|dropped| stamp < dropped)
            }
        }
    }
}

impl Request {
    /// Whether the request that a server received is this one or a part of it.
    fn is_on_the_wire_as(&self, received: &Received) -> bool {
        let Op::Change {
            range,
            content,
            is_trim,
            ..
        } = &self.op
        else {
            return false;
        };
        let trims = received.request.command == Command::Trim;
        let part = received.range();
        if *is_trim != trims || part.offset < range.offset || part.end() > range.end() {
            return false;
        }
        let first = index((part.offset - range.offset) / SECTOR);
        content[first..].starts_with(&received.content)
    }
}

/// Whether the server sent this error: the client's own failures come with a [`ClientError`].
fn is_answer(error: &IoError) -> bool {
    let Some(source) = &error.source else {
        return false;
    };
    !(source.is::<ClientError>() || source.is::<Arc<ClientError>>())
}
