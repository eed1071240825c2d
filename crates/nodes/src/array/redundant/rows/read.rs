//! Reads of arrays with parity, and repair of what could not be read.
//!
//! # Invariants
//!
//! * What members have is read without a lock. What must be computed is read under the lock of its columns: parity and
//!   data of a row are one state of it.
//! * What a member failed to read is computed, rewritten and read again; a member on which that fails, or is done too often, has
//!   failed. Read-only arrays are left as they are.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use block::{IoBufs, IoError, Operation, Range, WriteFlags};
use futures_util::future::join_all;

use super::super::super::parity::member_reads::{FailedRead, SpanReader, SpanSource};
use super::super::super::parity::plan::{Bytes, footprint, plan};
use super::super::super::parity::rebuild::assemble;
use super::super::RedundantArray;
use super::super::members::is_over;
use super::super::row_section::RowSection;
use super::columns::Columns;

impl RedundantArray {
    /// Reads `range` of an array with parity.
    pub(in super::super) async fn read_rows(&self, range: Range) -> Result<IoBufs, IoError> {
        self.fence.check(Operation::Read, Some(range))?;
        if let Some(data) = self.read_directly(range).await {
            return Ok(data);
        }
        self.in_task(move |array| async move {
            let mut data = IoBufs::new();
            let mut rest = range;
            while !rest.is_empty() {
                let (read, bufs) = array.compute_read(rest).await?;
                data.extend(bufs);
                rest = Range::new(read.end(), rest.end() - read.end());
            }
            Ok(data)
        })
        .await
    }

    /// Reads `range` where members have all of it; nothing is computed, and no reshape is going on or begins meanwhile.
    async fn read_directly(&self, range: Range) -> Option<IoBufs> {
        let _in_place = self.rows.in_place().await;
        let layout = self.layout();
        if layout.is_reshaping() {
            return None;
        }
        let section = layout.sections().after();
        let footprint = footprint(&section.layout, range);
        let columns = Columns::of(self, *section, footprint);
        let plan = plan(columns.layout(), &columns.lost, range, footprint).ok()?;
        if !plan.rebuilds.is_empty() {
            return None;
        }
        let answers = join_all(plan.reads.iter().map(|read| columns.ask(*read))).await;
        let answers: Vec<IoBufs> = answers.into_iter().collect::<Result<_, _>>().ok()?;
        let found = assemble(&plan, &answers, &mut 0);
        Some(found.into_iter().flat_map(|(_, data)| data).collect())
    }

    /// Reads the first bytes of `range` that lie in one section, while nothing changes them; which these are.
    async fn compute_read(&self, range: Range) -> Result<(Range, IoBufs), IoError> {
        loop {
            let layout = self.layout();
            let mut split = layout.sections().split(range);
            let (section, range) = split.next().expect("what is read is not empty");
            let footprint = footprint(&section.layout, range);
            let turn = self.turn_to_read(section.place(footprint)).await?;
            if !section.still_holds(self.layout().sections(), range) {
                // A reshape has moved it.
                continue;
            }
            let columns = Columns::of(self, *section, footprint);
            let is_complete = !columns.lost.touches_any(footprint);
            let data = match SpanReader(&columns).read(range, is_complete).await {
                // A member may have it that was being rebuilt when this began.
                Err(_) if !Arc::ptr_eq(&columns.view, &self.view()) => continue,
                data => data?,
            };
            if turn.is_some() && !self.lock().state.stopped {
                self.repair_reads(&columns).await;
            }
            return Ok((range, data));
        }
    }

    /// Rewrites what members could not read, of columns that the caller has locked.
    pub(super) async fn repair_reads(&self, columns: &Columns<'_>) {
        self.repair_failed(columns.section, columns.take_failed())
            .await;
    }

    /// The same, of one section.
    pub(super) async fn repair_failed(&self, section: RowSection, failed: Vec<FailedRead>) {
        for (bytes, error) in failed {
            self.repair_read(section, bytes, error).await;
        }
    }

    async fn repair_read(&self, section: RowSection, bytes: Bytes, error: IoError) {
        let columns = Columns::of(self, section, bytes.range);
        let Some(target) = columns.target(bytes.part).cloned() else {
            return;
        };
        if self.has_worn_out(&target, &error).await {
            return;
        }
        let repaired = if target.fail_fast || is_over(&error) {
            Err((columns.place(bytes.range), error))
        } else {
            tracing::info!(
                "{}: {error}: it is computed from other members and rewritten",
                target.name
            );
            self.rewrite_computed(bytes, columns).await
        };
        if let Err((within, error)) = repaired {
            // Where it cannot be failed it goes on: what was read was computed from other members.
            if let Err(error) = self.fail_or_log(&target, within, &error).await {
                tracing::error!("{}: {error}", target.name);
            }
        }
    }

    /// Rewrites what a member could not read, row by row, and reads it again.
    async fn rewrite_computed(
        &self,
        bytes: Bytes,
        mut columns: Columns<'_>,
    ) -> Result<(), (Range, IoError)> {
        let Some(target) = columns.target(bytes.part).cloned() else {
            return Ok(());
        };
        columns.lost.add(bytes.part, bytes.range);
        for (row, range) in columns.rows(bytes.range) {
            // What cannot be computed is left as it is.
            let Ok(data) = columns.compute(row, range, bytes.part).await else {
                return Ok(());
            };
            let place = columns.place(range);
            let rewritten = async {
                target.write(place, data, WriteFlags::empty()).await?;
                target.read(place).await.map(drop)
            };
            rewritten.await.map_err(|error| (place, error))?;
        }
        target.corrected.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
