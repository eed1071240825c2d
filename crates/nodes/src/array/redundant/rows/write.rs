//! Changes of arrays with parity, row by row.
//!
//! # Invariants
//!
//! * Members know durably that the array is dirty, and the bits of a row, before any byte of it is written.
//! * A row is acknowledged once data and parity are on all holders that have not failed, and the failures are durable.
//! * A row that a reshape has moved since it was gathered is gathered again: nothing is written to a place of before.

use std::sync::Arc;

use block::{Errno, IoBufs, IoError, Operation, Range, WriteFlags};
use futures_util::future::join_all;
use tokio::sync::oneshot;

use super::super::super::parity::layout::Layout;
use super::super::super::parity::member_reads::{BYTES_AT_ONCE_MAX, FailedRead, SpanSource};
use super::super::super::parity::plan::{Bytes, Gone, run, single};
use super::super::super::parity::ppl_passes::{self, PplSpan, passes};
use super::super::super::parity::stripe_compute::{MemberWrite, join_writes, parity_writes};
use super::super::super::parity::stripe_gather::{BatchNumber, RowBatch, RowPiece};
use super::super::super::parity::stripe_plan::{
    Method, Segment, StripeMembers, StripePlan, plan_stripe,
};
use super::super::RedundantArray;
use super::super::range_locks::{Cancelled, Kind};
use super::super::row_section::RowSection;
use super::super::state::State;
use super::super::write::{Change, Changing};
use super::UnfinishedBatch;
use super::columns::{Columns, held};
use super::ppl_log::Logged;
use super::ppl_mode::LogMode;
use super::row_outcome::{Logging, RowOutcome, RowTicket};
use super::row_send::send_row;
use crate::blocks::slice;

/// What becomes of a part of a write.
type Written = oneshot::Receiver<Result<(), IoError>>;

/// Reads what a plan reads. `None`: members could not be read, which are added to those that failed.
async fn read_all(
    columns: &Columns<'_>,
    plan: &StripePlan,
    failed: &mut Vec<FailedRead>,
) -> Option<Vec<IoBufs>> {
    let reads = plan.reads.iter().map(|read| {
        // All of them before any is waited for.
        let here = columns.try_ask(*read);
        async move {
            match here {
                Some(data) => Ok(data),
                None => columns.ask(*read).await,
            }
        }
    });
    let reads = join_all(reads).await;
    let before = failed.len();
    let mut answers = Vec::with_capacity(reads.len());
    for (bytes, answer) in plan.reads.iter().zip(reads) {
        match answer {
            Ok(data) => answers.push(data),
            Err(error) => failed.push((*bytes, error)),
        }
    }
    (failed.len() == before).then_some(answers)
}

/// What pieces of a row are to parts with data.
pub(super) fn data_writes(layout: &Layout, pieces: &[RowPiece]) -> Vec<MemberWrite> {
    let mut writes = Vec::new();
    for piece in pieces {
        let mut at = piece.range.offset;
        while at < piece.range.end() {
            let len = run(layout, at).min(piece.range.end() - at);
            let start = Range::new(0, at - piece.range.offset).len_usize();
            let range = Range::new(at, len);
            writes.push(MemberWrite {
                bytes: single(layout, range).expect("a run lies on one part"),
                data: slice(&piece.data, start, range.len_usize()),
            });
            at += len;
        }
    }
    join_writes(writes)
}

/// Waits for all parts of a write of `range`.
async fn all_written(range: Range, waiting: Vec<Written>) -> Result<(), IoError> {
    let mut result = Ok(());
    for answer in waiting {
        let answer = answer.await.unwrap_or_else(|_| {
            let error = IoError::new(Errno::Io, Operation::Write, Some(range));
            Err(error.because("the task that wrote it panicked"))
        });
        result = result.and(answer);
    }
    result
}

impl RedundantArray {
    /// Carries out a change of an array with parity.
    pub(in super::super) async fn change_rows(
        &self,
        range: Range,
        what: Change,
        flags: WriteFlags,
    ) -> Result<(), IoError> {
        let place = self.places.acquire().await;
        let _place = place.expect("the semaphore is never closed");
        match what {
            Change::Data(data) => self.write_rows(range, &data, flags).await,
            Change::Zeroes | Change::Trim => self.zero_rows(range, &what, flags).await,
        }
    }

    /// Writes `range`, each row of it with what else arrives for that.
    pub(super) async fn write_rows(
        &self,
        range: Range,
        data: &IoBufs,
        flags: WriteFlags,
    ) -> Result<(), IoError> {
        let waiting = self.submit_all(range, data, flags);
        all_written(range, waiting).await
    }

    /// Adds a write to what is written next, cut where rows begin.
    fn submit_all(&self, range: Range, data: &IoBufs, flags: WriteFlags) -> Vec<Written> {
        let layout = self.layout();
        let mut waiting = Vec::new();
        for (section, part) in layout.sections().split(range) {
            let row_len = section.layout.row_len();
            let mut at = part.offset;
            while at < part.end() {
                let row = at / row_len;
                let end = ((row + 1) * row_len).min(part.end());
                let piece = Range::new(at, end - at);
                let start = Range::new(0, at - range.offset).len_usize();
                let piece = RowPiece {
                    range: piece,
                    data: slice(data, start, piece.len_usize()),
                };
                waiting.push(self.submit((*section, row), piece, flags));
                at = end;
            }
        }
        waiting
    }

    /// Adds a write of one row to what is written of that next.
    fn submit(
        &self,
        (section, row): (RowSection, u64),
        piece: RowPiece,
        flags: WriteFlags,
    ) -> Written {
        let key = section.row_key(row);
        let (waiter, answer) = oneshot::channel();
        let gathered = self.rows.gather().add(key, piece, flags, waiter);
        if let Some(number) = gathered.begins {
            let write = move |array: Arc<Self>| async move {
                array.write_batch((section, row), number).await;
            };
            drop(self.spawn(write));
        } else if gathered.is_full {
            self.rows.progress.notify_waiters();
        }
        answer
    }

    /// Writes what was gathered of a row once it is its turn.
    async fn write_batch(&self, (section, row): (RowSection, u64), number: BatchNumber) {
        let key = section.row_key(row);
        let unfinished = UnfinishedBatch {
            rows: &self.rows,
            number,
        };
        self.rows.gathered(key).await;
        let stripe = self.rows.stripes.acquire().await;
        let stripe = stripe.expect("the semaphore is never closed");
        let columns = section.columns_of(row);
        let begun = self
            .begin_rows(Operation::Write, section.place(columns))
            .await;
        let batch = self.rows.gather().take(key.id);
        let result = match begun {
            Ok(mut changing) => {
                let layout = self.layout();
                let sections = layout.sections();
                let holds = |piece: &RowPiece| section.still_holds(sections, piece.range);
                if !batch.pieces.iter().all(holds) {
                    // A reshape has moved it: nothing was sent.
                    changing.in_flight = None;
                    drop((changing, stripe, unfinished));
                    return self.write_again(batch).await;
                }
                let is_left = |piece: &RowPiece| self.is_left_between(piece.range);
                if sections.is_reshaping() && batch.pieces.iter().any(is_left) {
                    // The array was stopped while rows were moved.
                    changing.in_flight = None;
                    Err(IoError::new(Errno::ShuttingDown, Operation::Write, None))
                } else {
                    let outcome = self.write_row((section, row), &batch).await;
                    self.end_rows(changing, outcome).await
                }
            }
            Err(error) => Err(error),
        };
        batch.answer(&result);
    }

    /// Writes what was gathered of a row that lies elsewhere now.
    async fn write_again(&self, batch: RowBatch) {
        let pieces = batch.pieces.iter();
        let waiting = pieces.map(|piece| {
            let waiting = self.submit_all(piece.range, &piece.data, batch.flags);
            all_written(piece.range, waiting)
        });
        let results = join_all(waiting).await;
        batch.answer(&results.into_iter().collect());
    }

    /// Waits for the turn of some columns, and until members know what they must before these are changed.
    pub(super) async fn begin_rows(
        &self,
        operation: Operation,
        columns: Range,
    ) -> Result<Changing<'_>, IoError> {
        let mut changing = self.turn(operation, columns, Kind::Change).await?;
        // Logs hold nothing old once members are dirty.
        drop(self.admit_row().await?);
        self.record(|state| state.is_ready(columns)).await?;
        changing.in_flight = Some(Cancelled::Data { landed: false });
        Ok(changing)
    }

    /// Makes durable what became of members; what may still land keeps its turn.
    pub(super) async fn end_rows(
        &self,
        mut changing: Changing<'_>,
        outcome: RowOutcome,
    ) -> Result<(), IoError> {
        let RowOutcome { result, is_late } = outcome;
        changing.in_flight = changing.in_flight.filter(|_| result.is_err() && is_late);
        self.record(State::is_recorded).await?;
        result
    }

    /// Writes a row, of which the caller has the turn.
    async fn write_row(&self, (section, row): (RowSection, u64), batch: &RowBatch) -> RowOutcome {
        let new = data_writes(&section.layout, &batch.pieces);
        if let Some(journal) = &self.rows.journal {
            let written = self.write_journaled_row((section, row), new, batch, journal);
            return written.await;
        }
        let Some(logs) = self.rows.logs() else {
            return self.write_pass((section, row), new, batch.flags, &[]).await;
        };
        let new = match self.in_sectors((section, row), new).await {
            Ok(new) => new,
            Err(error) => return RowOutcome::refused(error),
        };
        let (layout, view) = (&section.layout, self.view());
        let known = (&held(&view)[..], logs.parity_max());
        let mut outcome = RowOutcome::done();
        for pass in passes(layout, row, &new, known) {
            let (writes, spans) = (pass.writes, pass.spans);
            let written = self
                .write_pass((section, row), writes, batch.flags, &spans)
                .await;
            outcome.is_late |= written.is_late;
            outcome.result = written.result;
            if outcome.result.is_err() {
                break;
            }
        }
        outcome
    }

    /// Writes some of a row, with the parity of it. `spans`: what the partial parity log gets before.
    pub(super) async fn write_pass(
        &self,
        (section, row): (RowSection, u64),
        new: Vec<MemberWrite>,
        flags: WriteFlags,
        spans: &[PplSpan],
    ) -> RowOutcome {
        let range = section.columns_of(row);
        let written: Vec<Bytes> = new.iter().map(|write| write.bytes).collect();
        let mut failed: Vec<FailedRead> = Vec::new();
        loop {
            let mode = match self.admit_row().await {
                Ok(mode) => mode,
                Err(error) => return RowOutcome::refused(error),
            };
            let mut columns = Columns::of(self, section, range);
            for (bytes, _) in &failed {
                columns.lost.add(bytes.part, bytes.range);
            }
            // Logs hold the parity of what is written.
            if self.rows.journal.is_some() || self.rows.logs().is_some() {
                columns.forget_noted();
            }
            let members = StripeMembers {
                lost: &columns.lost,
                bad: &columns.bad,
                held: &held(&columns.view),
                trust: self.rows.trust,
            };
            let plan = match plan_stripe(columns.layout().row(row), &written, members) {
                Ok(plan) => plan,
                Err(gone) => {
                    return RowOutcome::refused(self.row_is_gone(&columns, &gone, &failed));
                }
            };
            let room = self.room_for(&plan).await;
            let Some(answers) = read_all(&columns, &plan, &mut failed).await else {
                continue;
            };
            let mut writes = parity_writes(&plan, &answers, &new);
            let is_kept = mode.as_deref() == Some(&LogMode::Kept);
            let ticket = match self
                .log_pass(is_kept, &columns, row, (spans, &writes, &new))
                .await
            {
                Logging::Done(ticket) => ticket,
                Logging::PlanAgain => continue,
                Logging::Failed(error) => return RowOutcome::refused(error),
            };
            writes.extend(new);
            let sent = send_row(&columns, writes, flags).await;
            let mut outcome = self.conclude_row(section.place(range), sent).await;
            if outcome.result.is_ok() && columns.lost.is_unsynced(range) {
                self.note_fitting(section, &plan);
            }
            if mode.is_some() && outcome.result.is_ok() {
                // Which members failed is durable before the log forgets what they lack.
                outcome.result = self.record(State::is_recorded).await;
            }
            // A repair takes room of its own.
            drop((ticket, mode, room));
            if outcome.result.is_ok() {
                self.repair_failed(section, failed).await;
            }
            return outcome;
        }
    }

    /// Notes where parity fits from now on although it is not known to be in sync: where it was computed from all data.
    fn note_fitting(&self, section: RowSection, plan: &StripePlan) {
        let is_whole = |segment: &&Segment| match segment.method {
            Method::FullStripe | Method::ReconstructWrite => true,
            Method::ReadModifyWrite | Method::DataAlone => false,
        };
        let state = &mut self.lock().state;
        for segment in plan.segments.iter().filter(is_whole) {
            state.parity_was_written(section.place(segment.columns));
        }
    }

    /// Writes into the log of the member with the parity of a row what is needed to repair that.
    async fn log_pass(
        &self,
        is_kept: bool,
        columns: &Columns<'_>,
        row: u64,
        (spans, parity, new): (&[PplSpan], &[MemberWrite], &[MemberWrite]),
    ) -> Logging {
        if let Some(journal) = &self.rows.journal {
            return self
                .log_in_journal(journal, columns, row, (parity, new))
                .await;
        }
        let Some(logs) = self.rows.logs().filter(|_| is_kept) else {
            return Logging::Done(None);
        };
        let layout = columns.layout();
        let Some(target) = columns.target(layout.row(row).p) else {
            // No parity, no log: that the part is missing must be durable before data are sent.
            return match self.record(State::is_recorded).await {
                Ok(()) => Logging::Done(None),
                Err(error) => Logging::Failed(error),
            };
        };
        let record = ppl_passes::record(layout, row, spans, (parity, new));
        match self.log_record(logs, target.slot, record).await {
            Logged::Durable(ticket) => Logging::Done(Some(RowTicket::PartialParity(ticket))),
            Logged::PlanAgain => Logging::PlanAgain,
            Logged::Failed(error) => Logging::Failed(error),
        }
    }

    /// Room for what a plan reads.
    async fn room_for(&self, plan: &StripePlan) -> Option<tokio::sync::SemaphorePermit<'_>> {
        let bytes: u64 = plan.reads.iter().map(|read| read.range.len).sum();
        if bytes == 0 {
            return None;
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let permit = self.rows.room.acquire_many(bytes.min(BYTES_AT_ONCE_MAX));
        Some(permit.await.expect("the room is never closed"))
    }

    /// Why a row cannot be written.
    pub(super) fn row_is_gone(
        &self,
        columns: &Columns<'_>,
        gone: &Gone,
        failed: &[FailedRead],
    ) -> IoError {
        let of_part = |part: &usize| {
            let mut failed = failed.iter().rev();
            let why = match failed.find(|(bytes, _)| bytes.part == *part) {
                Some((_, error)) => format!(" ({error})"),
                None => columns.why_lost(*part, gone.columns),
            };
            format!("part {part} {}{why}", columns.name(*part))
        };
        let parts: Vec<String> = gone.parts.iter().map(of_part).collect();
        let head = match gone.unsynced {
            true => {
                "parity cannot be trusted here, since the array was not stopped cleanly, and these cannot be read"
            }
            false => "too many members cannot be read here",
        };
        let why = format!("{head}: {}; nothing was written", parts.join(", "));
        IoError::new(Errno::Io, Operation::Write, None).because(why)
    }
}
