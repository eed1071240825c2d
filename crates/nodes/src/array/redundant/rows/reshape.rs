//! Rows are moved into the form that a reshape gives to an array, window by window.
//!
//! ```text
//! read what lies as before ─► whole new rows, with parity ─► flush, position: durable ─► requests go there
//! └───────────────────── both places are locked meanwhile ─────────────────────────┘
//! ```
//!
//! # Invariants
//!
//! * A window is moved in a task of the array: a worker that is dropped leaves nothing half known.
//! * While members may know of a position that is not used yet, what lies before it is locked.
//! * What cannot be read is moved as bad blocks ([`reshape_losses`](super::reshape_losses)): it does not end a reshape.
//! * What lies behind the old end of the array is zero, and its parity fits.
//! * Where nothing is free before the data, and rows do not get more data, they are moved in place, with a backup file ([`in_place`](super::in_place)).
//! * Where nothing is free before the data, and they do, the first rows are moved when the reshape begins, with a backup
//!   ([`critical_section`](super::critical_section)): what is moved then is never written over what it is read from.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use block::{IoBufs, IoError, Operation, Range};
use engine::clock;
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::super::super::parity::plan::{Bytes, footprint};
use super::super::super::parity::stripe_compute::parity_writes;
use super::super::super::parity::stripe_gather::RowPiece;
use super::super::super::parity::stripe_plan::{ParityTrust, StripeMembers, plan_stripe};
use super::super::super::{ArrayError, BackupFile};
use super::super::RedundantArray;
use super::super::member_table::Failing;
use super::super::members::SlotId;
use super::super::range_locks::Kind;
use super::super::reshape::NewForm;
use super::super::row_section::RowSection;
use super::super::state::State;
use super::columns::{Columns, held};
use super::reshape_losses::OldRows;
use super::row_send::send_in_background;
use super::sync::RowStop;
use super::write::data_writes;
use crate::blocks::slice;
use crate::lent_files::wait_for_returns;
use crate::zeroes::zeroes;

/// New rows that are written at once.
const ROWS_AT_ONCE: usize = 8;
/// How long after a failure members are written again.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// The places of new rows and of old ones, and what is between them.
pub(super) fn hull(after: &RowSection, range: Range, before: &RowSection, old: Range) -> Range {
    let new = after.place(footprint(&after.layout, range));
    if old.is_empty() {
        return new;
    }
    let end = before.place(footprint(&before.layout, old)).end();
    Range::new(new.offset, end - new.offset)
}

impl RedundantArray {
    /// The array begins to get another form: `spares` hold the new parts, and data are moved by so many bytes to the beginning. Where these are
    /// 0 the first rows are moved at once, while nothing else is read or written, and spares have a backup of them until they are.
    /// Where rows do not get more data either, they are moved in place, with a backup file. Durable when it resolves.
    ///
    /// # Errors
    /// The form cannot be, there is no backup file where one is needed, members cannot be written, or a reader does not end.
    pub(in crate::array) async fn begin_reshape(
        &self,
        form: NewForm,
        spares: Vec<SlotId>,
        moved: u64,
        backup: Option<Arc<dyn BackupFile>>,
    ) -> Result<(), ArrayError> {
        self.in_task(move |array| async move {
            array.rows.lends_nothing.store(true, Ordering::Release);
            let begun = array.begin(form, &spares, (moved, backup)).await;
            array.rows.lends_nothing.store(false, Ordering::Release);
            begun
        })
        .await
    }

    async fn begin(
        &self,
        form: NewForm,
        spares: &[SlotId],
        (moved, backup): (u64, Option<Arc<dyn BackupFile>>),
    ) -> Result<(), ArrayError> {
        let failed = |error: IoError| {
            ArrayError::refused(format!("the reshape cannot begin: {error}"), None)
        };
        // A read that has just looked whether it may has a region by now.
        drop(self.rows.in_place.write().await);
        self.returned().await?;
        let whole = Range::new(0, self.layout().sync_size());
        let turn = self.turn(Operation::Write, whole, Kind::Window).await;
        let _turn = turn.map_err(failed)?;
        let _in_place = self.rows.in_place.write().await;
        self.catch_members_up().await.map_err(failed)?;
        let in_place = self.in_place_layout(form, moved)?;
        let saved = match (moved, &in_place) {
            (0, None) => Some(self.save_critical_section(form, spares).await?),
            _ => None,
        };
        if let Some(layout) = in_place {
            self.create_backup(backup, &layout).await?;
        }
        let begun = self.lock().state.begin_reshape(form, spares, moved);
        if begun.is_err() {
            self.remove_backup().await;
            return begun;
        }
        if self.rows.logs().is_some() {
            let name = self.name();
            tracing::warn!(
                "{name}: members keep no partial parity logs until the reshape has ended: they know one form alone"
            );
        }
        self.rows.drop_logs();
        self.record_at_last().await.map_err(failed)?;
        self.passed();
        if let Some(saved) = saved {
            self.move_critical_section(&saved).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Waits for readers of regions of files: what they read will be written over.
    async fn returned(&self) -> Result<(), ArrayError> {
        let next = "disconnect it, or begin the reshape later";
        wait_for_returns(|| self.are_returned())
            .await
            .map_err(|why| ArrayError::refused(why, next))
    }

    /// Whether no region of a file of a member is handed out.
    pub(in crate::array) fn are_returned(&self) -> bool {
        let view = self.view();
        let mut holders = view.holders();
        holders.all(|holder| holder.target.lent.are_returned())
    }

    /// Makes durable what members must know, however often that fails: some may know it already, and nothing else may be written
    /// to them.
    pub(in super::super) async fn record_at_last(&self) -> Result<(), IoError> {
        loop {
            let Err(error) = self.record(State::is_recorded).await else {
                return Ok(());
            };
            if self.takeover().is_some() || self.lock().state.stopped {
                return Err(error);
            }
            tracing::error!("{}: {error}", self.name());
            clock::sleep(RETRY).await;
        }
    }

    /// Members that a power cut left one commit behind know what the others do, durably: the next commit may change the form.
    pub(in super::super) async fn catch_members_up(&self) -> Result<(), IoError> {
        self.level_members();
        self.record_at_last().await
    }

    /// [`move_window`](Self::move_window), and nothing of it stays locked.
    #[cfg(test)]
    pub(in crate::array) async fn move_rows(&self, wanted: u64) -> Result<Option<Range>, RowStop> {
        let moved = self.move_window(wanted).await;
        self.release_window(false).await;
        moved
    }

    /// Moves the next rows, about `wanted` bytes of the array. `None`: all are moved. Where rows are moved in place they stay locked until the next ones are moved, or [`release_window`](Self::release_window).
    ///
    /// # Errors
    /// What is moved cannot be read, and may be later, or members cannot be written, or cannot note what is lost.
    pub(in crate::array) async fn move_window(
        &self,
        wanted: u64,
    ) -> Result<Option<Range>, RowStop> {
        self.in_task(move |array| async move {
            loop {
                let layout = array.layout();
                let sections = layout.sections();
                if sections.is_in_place() {
                    return array.move_in_place(wanted).await;
                }
                let (Some(range), Some(before)) = (sections.next_move(wanted), sections.before())
                else {
                    return Ok(None);
                };
                let after = *sections.after();
                let old = before.range;
                let old = Range::new(old.offset, range.end().min(old.end()) - old.offset);
                let place = hull(&after, range, before, old);
                let turn = array.turn(Operation::Write, place, Kind::Window).await;
                let _turn = turn.map_err(RowStop::Failed)?;
                if array.layout().sections() != sections {
                    // Another window came first.
                    continue;
                }
                // A power cut may have left members that know of an earlier position: what they would read is written over next.
                array.catch_members_up().await.map_err(RowStop::Failed)?;
                let OldRows { mut data, lost } = array.read_old_rows(*before, old).await?;
                data.extend(zeroes(Range::new(0, range.len - old.len).len_usize()));
                array.write_new_rows(after, range, &data).await?;
                array.note_lost(after, &lost).await?;
                array.lock().state.pass(range.end());
                array.record_at_last().await.map_err(RowStop::Failed)?;
                array.passed();
                return Ok(Some(range));
            }
        })
        .await
    }

    /// Writes whole rows to places that hold nothing, or nothing that is used.
    pub(super) async fn write_new_rows(
        &self,
        section: RowSection,
        range: Range,
        data: &IoBufs,
    ) -> Result<(), RowStop> {
        let row_len = section.layout.row_len();
        let rows = range.offset / row_len..range.end() / row_len;
        let writes = rows.map(|row| {
            let at = Range::new(0, row * row_len - range.offset).len_usize();
            let data = slice(data, at, Range::new(0, row_len).len_usize());
            self.write_new_row(section, row, data)
        });
        let writes = stream::iter(writes).buffer_unordered(ROWS_AT_ONCE);
        writes.try_collect().await
    }

    async fn write_new_row(
        &self,
        section: RowSection,
        row: u64,
        data: IoBufs,
    ) -> Result<(), RowStop> {
        let layout = &section.layout;
        let range = Range::new(row * layout.row_len(), layout.row_len());
        let mut writes = data_writes(layout, &[RowPiece { range, data }]);
        let columns = Columns::of(self, section, section.columns_of(row));
        let members = StripeMembers {
            lost: &columns.lost,
            bad: &columns.bad,
            held: &held(&columns.view),
            trust: ParityTrust::Unsynced,
        };
        let written: Vec<Bytes> = writes.iter().map(|write| write.bytes).collect();
        let plan = plan_stripe(layout.row(row), &written, members);
        let plan = plan.map_err(|gone| RowStop::Failed(self.row_is_gone(&columns, &gone, &[])))?;
        assert!(plan.reads.is_empty(), "whole rows are written");
        let parity = parity_writes(&plan, &[], &writes);
        writes.extend(parity);
        for answer in send_in_background(&columns, writes).await {
            let Err(error) = answer.result else {
                // A bad block that held something else before.
                let state = &mut self.lock().state;
                state.made_good(answer.target.slot, answer.within);
                continue;
            };
            if self.fail_slot(answer.target.slot, &error.to_string()) == Failing::Last {
                return Err(RowStop::Failed(error));
            }
        }
        Ok(())
    }
}
