//! Changes of rows that a journal gets before members.
//!
//! # Invariants
//!
//! * Whole pages are written: what a change leaves of a page is read before, under the lock of the row.
//! * A row is written in pieces that fit the journal, one after the other.
//! * Where a parity has no holder that is durable on the others before anything is logged: the journal has zeroes for it then,
//!   which no replay may write to the member that held it.

use block::{IoBufs, IoError, Range};

use super::super::super::format::SECTOR;
use super::super::super::format::r5l::{PAGE, column_max};
use super::super::super::parity::journal_columns::{cut, gaps, logged, whole_pages};
use super::super::super::parity::plan::Bytes;
use super::super::super::parity::stripe_compute::{MemberWrite, join_writes};
use super::super::super::parity::stripe_gather::RowBatch;
use super::super::RedundantArray;
use super::super::row_section::RowSection;
use super::super::state::State;
use super::columns::{Columns, held};
use super::journal::Journal;
use super::row_outcome::{Logging, RowOutcome, RowTicket};
use crate::join::join_all;

/// Columns that are written together, at most.
const COLUMNS_MAX: u64 = 1024;

impl RedundantArray {
    /// Writes a row, of which the caller has the turn, journal first.
    pub(super) async fn write_journaled_row(
        &self,
        (section, row): (RowSection, u64),
        new: Vec<MemberWrite>,
        batch: &RowBatch,
        journal: &Journal,
    ) -> RowOutcome {
        let range = section.columns_of(row);
        let new = match self.in_whole_pages((section, row), new).await {
            Ok(new) => new,
            Err(error) => return RowOutcome::refused(error),
        };
        let parts = self.view().parts.len();
        let columns = journal.batch_max() / column_max(parts);
        let len = columns.clamp(1, COLUMNS_MAX) * PAGE;
        let mut outcome = RowOutcome::done();
        let mut at = range.offset;
        while at < range.end() && outcome.result.is_ok() {
            let piece = Range::new(at, len.min(range.end() - at));
            at = piece.end();
            let writes = cut(&new, piece);
            if writes.is_empty() {
                continue;
            }
            let written = self.write_pass((section, row), writes, batch.flags, &[]);
            let written = written.await;
            outcome.is_late |= written.is_late;
            outcome.result = written.result;
        }
        outcome
    }

    /// The same where some of them are no whole sectors, which an array that got its logs while it was used may be written in.
    pub(super) async fn in_sectors(
        &self,
        at: (RowSection, u64),
        new: Vec<MemberWrite>,
    ) -> Result<Vec<MemberWrite>, IoError> {
        let is_whole = |write: &MemberWrite| {
            let Range { offset, len } = write.bytes.range;
            offset.is_multiple_of(SECTOR) && len.is_multiple_of(SECTOR)
        };
        match new.iter().all(is_whole) {
            true => Ok(new),
            false => self.in_whole_pages(at, new).await,
        }
    }

    /// Writes of a row, and what is around them in their pages.
    async fn in_whole_pages(
        &self,
        (section, row): (RowSection, u64),
        new: Vec<MemberWrite>,
    ) -> Result<Vec<MemberWrite>, IoError> {
        let gaps = gaps(&whole_pages(&new), &new);
        if gaps.is_empty() {
            return Ok(new);
        }
        let columns = Columns::of(self, section, section.columns_of(row));
        let reads = gaps.iter().map(|gap| self.read_gap(&columns, row, *gap));
        let mut all = new;
        for (bytes, data) in gaps.iter().zip(join_all(reads).await) {
            all.push(MemberWrite {
                bytes: *bytes,
                data: data?,
            });
        }
        Ok(join_writes(all))
    }

    async fn read_gap(
        &self,
        columns: &Columns<'_>,
        row: u64,
        gap: Bytes,
    ) -> Result<IoBufs, IoError> {
        columns.compute(row, gap.range, gap.part).await
    }

    /// Writes into the journal what is written of a row.
    pub(super) async fn log_in_journal(
        &self,
        journal: &Journal,
        columns: &Columns<'_>,
        row: u64,
        (parity, new): (&[MemberWrite], &[MemberWrite]),
    ) -> Logging {
        let layout = columns.layout();
        let of = layout.row(row);
        let held = held(&columns.view);
        let lacks_parity = !held[of.p] || of.q.is_some_and(|q| !held[q]);
        if lacks_parity && let Err(error) = self.record(State::is_recorded).await {
            return Logging::Failed(error);
        }
        let logged = logged(layout, row, (new, parity));
        match self.log_columns(journal, logged).await {
            Ok(ticket) => Logging::Done(Some(RowTicket::Journal(ticket))),
            Err(error) => Logging::Failed(error),
        }
    }
}
