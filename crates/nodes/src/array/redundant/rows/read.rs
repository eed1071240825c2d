//! Reads of arrays with parity, and repair of what could not be read.
//!
//! # Invariants
//!
//! * What members have is read without a lock. What must be computed is read under the lock of its columns: parity and
//!   data of a row are one state of it.
//! * What a member failed to read is computed, rewritten and read again; a member on which that fails, or is done too often, has
//!   failed. Read-only arrays are left as they are.

use std::sync::atomic::Ordering;

use block::{IoBufs, IoError, Operation, Range, WriteFlags};
use futures_util::future::join_all;

use super::super::super::member_guard::is_not_ours;
use super::super::super::parity::member_reads::{FailedRead, SpanReader, SpanSource};
use super::super::super::parity::plan::{Bytes, plan};
use super::super::super::parity::rebuild::assemble;
use super::super::RedundantArray;
use super::super::members::is_timeout;
use super::super::range_locks::Kind;
use super::columns::Columns;

impl RedundantArray {
    /// Reads `range` of an array with parity.
    pub(in super::super) async fn read_rows(&self, range: Range) -> Result<IoBufs, IoError> {
        self.fence.check(Operation::Read, Some(range))?;
        let footprint = self.layout().sync_range(range);
        if let Some(data) = self.read_directly(range, footprint).await {
            return Ok(data);
        }
        self.in_task(move |array| async move { array.compute_read(range, footprint).await })
            .await
    }

    /// Reads `range` where members have all of it; nothing is computed.
    async fn read_directly(&self, range: Range, footprint: Range) -> Option<IoBufs> {
        let columns = Columns::of(self, footprint);
        let plan = plan(columns.layout(), &columns.lost, range, footprint).ok()?;
        if !plan.rebuilds.is_empty() {
            return None;
        }
        let answers = join_all(plan.reads.iter().map(|read| columns.ask(*read))).await;
        let answers: Vec<IoBufs> = answers.into_iter().collect::<Result<_, _>>().ok()?;
        let found = assemble(&plan, &answers, &mut 0);
        Some(found.into_iter().flat_map(|(_, data)| data).collect())
    }

    /// Reads `range` while nothing changes it.
    async fn compute_read(&self, range: Range, footprint: Range) -> Result<IoBufs, IoError> {
        // Nothing changes any more.
        let is_still = self.read_only() || self.lock().state.stopped;
        let turn = match is_still {
            true => None,
            false => Some(self.turn(Operation::Read, footprint, Kind::Window).await?),
        };
        let columns = Columns::of(self, footprint);
        let is_complete = !columns.lost.touches_any(footprint);
        let data = SpanReader(&columns).read(range, is_complete).await?;
        if turn.is_some() {
            self.repair_reads(columns.take_failed()).await;
        }
        Ok(data)
    }

    /// Rewrites what members could not read, of columns that the caller has locked.
    pub(super) async fn repair_reads(&self, failed: Vec<FailedRead>) {
        for (bytes, error) in failed {
            self.repair_read(bytes, error).await;
        }
    }

    async fn repair_read(&self, bytes: Bytes, error: IoError) {
        let columns = Columns::of(self, bytes.range);
        let Some(target) = columns.target(bytes.part).cloned() else {
            return;
        };
        if self.has_worn_out(&target, &error).await {
            return;
        }
        let repaired = if target.fail_fast || is_timeout(&error) || is_not_ours(&error) {
            Err((bytes.range, error))
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
            let rewritten = async {
                target.write(range, data, WriteFlags::empty()).await?;
                target.read(range).await.map(drop)
            };
            rewritten.await.map_err(|error| (range, error))?;
        }
        target.corrected.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
