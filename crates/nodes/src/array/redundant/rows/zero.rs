//! Zeroes and trims of arrays with parity.
//!
//! # Invariants
//!
//! * Whole rows are zeroed on all members, parity too, which fits then; of other rows trims do nothing.
//! * With partial parity logs, and while a reshape goes on, zeroes are written like data, and trims do nothing at all. What decides that is how the
//!   array is when it is their turn: it may get logs, or begin a reshape, while they wait.

use block::{IoError, Operation, Range, WriteFlags};

use super::super::super::parity::plan::footprint;
use super::super::RedundantArray;
use super::super::row_section::RowSection;
use super::super::write::{Change, send_to};
use super::row_answers::RowAnswer;
use crate::join::join_all;
use crate::zeroes::zeroes;

impl RedundantArray {
    /// Zeroes `range`: whole rows on all members, parity too. A trim does nothing else.
    pub(super) async fn zero_rows(
        &self,
        range: Range,
        what: &Change,
        flags: WriteFlags,
    ) -> Result<(), IoError> {
        let layout = self.layout();
        if self.rows.logs().is_some() || self.rows.journal.is_some() || layout.is_reshaping() {
            return self.zero_as_data(range, what, flags).await;
        }
        let section = *layout.sections().after();
        let row_len = section.layout.row_len();
        let first = range.offset.div_ceil(row_len);
        let behind = (range.end() / row_len).max(first);
        let is_trim = matches!(what, Change::Trim);
        let (start, end) = (first * row_len, behind * row_len);
        let parts = match start < end {
            true => vec![
                Range::new(range.offset, start - range.offset),
                Range::new(end, range.end() - end),
            ],
            false => vec![range],
        };
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            self.zero_as_data(part, what, flags).await?;
        }
        if start == end {
            return Ok(());
        }
        let operation = what.operation();
        let row_flags = if is_trim { WriteFlags::empty() } else { flags };
        let rows = Range::new(start, end - start);
        let is_zeroed = self
            .in_task(move |array| async move {
                array
                    .zero_columns(operation, (section, rows), row_flags)
                    .await
            })
            .await?;
        match is_zeroed {
            true => Ok(()),
            // A reshape has begun, or members keep logs.
            false => self.zero_as_data(rows, what, flags).await,
        }
    }

    /// Writes zeroes like other data. Nothing is trimmed so.
    async fn zero_as_data(
        &self,
        range: Range,
        what: &Change,
        flags: WriteFlags,
    ) -> Result<(), IoError> {
        let data = zeroes(range.len_usize());
        match what {
            Change::Trim => Ok(()),
            _ => self.write_rows(range, &data, flags & WriteFlags::FUA).await,
        }
    }

    /// Zeroes whole rows on all members. False, and nothing is written: they lie elsewhere now, or no log would name them.
    async fn zero_columns(
        &self,
        operation: Operation,
        (section, rows): (RowSection, Range),
        flags: WriteFlags,
    ) -> Result<bool, IoError> {
        let range = section.place(footprint(&section.layout, rows));
        let mut changing = self.begin_rows(operation, range).await?;
        let still_holds = section.still_holds(self.layout().sections(), rows);
        if !still_holds || self.rows.logs().is_some() {
            changing.in_flight = None;
            return Ok(false);
        }
        let view = self.view();
        let holders = view.written().map(|holder| holder.target.clone());
        let sends = holders.map(async |target| {
            let result = send_to(&target, range, Change::Zeroes, flags).await;
            RowAnswer {
                target,
                within: range,
                data: None,
                flags,
                result,
            }
        });
        let answers = join_all(sends).await;
        let outcome = self.conclude_row(range, answers).await;
        if outcome.result.is_ok() {
            self.lock().state.parity_was_written(range);
        }
        self.end_rows(changing, outcome).await?;
        Ok(true)
    }
}
