//! Zeroes: of `write_zeroes` and trim. They cost memory only where something else was.
//!
//! # Invariants
//!
//! * After it every block of the range reads as zeroes: each run with changes in memory, or with data in the index, gets a change to
//!   zeroes; the others are zeroes already. Memory is looked at first: what leaves it meanwhile is in the index then.

use std::sync::Arc;

use block::{IoError, Operation, Range};

use super::VolumeShared;
use super::memory::Admission;
use crate::dirty::RunPart;
use crate::format::{RUN, RUN_BLOCKS};

impl VolumeShared {
    /// Makes `range` zeroes.
    pub(super) async fn zero(
        self: &Arc<Self>,
        range: Range,
        operation: Operation,
    ) -> Result<(), IoError> {
        let (edges, runs) = split(range);
        for part in edges.into_iter().flat_map(RunPart::all) {
            self.zero_part(part, (operation, range)).await?;
        }
        if runs.is_empty() {
            return Ok(());
        }
        let changed = self.memory().changed_runs(runs.clone());
        for run in changed {
            self.zero_part(whole_run(run), (operation, range)).await?;
        }
        let ticket = self.changes.ticket();
        let zero = |shared: Arc<Self>| async move {
            let zeroed = shared.zero_stored(runs, (operation, range)).await;
            drop(ticket);
            zeroed
        };
        self.in_task(zero).await
    }

    async fn zero_stored(
        self: &Arc<Self>,
        runs: std::ops::Range<u64>,
        about: (Operation, Range),
    ) -> Result<(), IoError> {
        let failed = |error| self.scan_error(error, about.0, about.1);
        let scan = self.index.scan(runs).await;
        let mut scan = scan.map_err(|error| failed(error.into()))?;
        while let Some((run, map)) = scan.next().await.map_err(failed)? {
            if map.has_data() {
                self.zero_part(whole_run(run), about).await?;
            }
        }
        Ok(())
    }

    /// Waits for space and makes a part of a run zeroes.
    async fn zero_part(
        self: &Arc<Self>,
        part: RunPart,
        (operation, range): (Operation, Range),
    ) -> Result<(), IoError> {
        self.take(operation, range, |memory| memory.zero(part))
            .await
    }

    /// Waits for space and takes a change.
    pub(super) async fn take(
        self: &Arc<Self>,
        operation: Operation,
        range: Range,
        mut change: impl FnMut(&mut super::memory::VolumeMemory) -> Admission,
    ) -> Result<(), IoError> {
        loop {
            // Registered before the space is looked at, so that the end of a commit is not missed.
            let space = self.space.notified();
            tokio::pin!(space);
            space.as_mut().enable();
            self.refuse_failed(operation, Some(range))?;
            let admission = change(&mut self.memory());
            if self.follow(admission) {
                return Ok(());
            }
            self.begin_write_back();
            space.await;
        }
    }

    /// Starts what a change caused. False if it was not taken.
    pub(super) fn follow(self: &Arc<Self>, admission: Admission) -> bool {
        match admission {
            Admission::Taken => {}
            Admission::TakenFirst { epoch } => self.schedule_write_back(epoch),
            Admission::TakenFull => self.begin_write_back(),
            Admission::Full => return false,
        }
        true
    }
}

/// The parts of a range before and behind its whole runs, and these.
fn split(range: Range) -> ([Range; 2], std::ops::Range<u64>) {
    let begin = range.offset.next_multiple_of(RUN);
    let end = range.end() / RUN * RUN;
    if begin >= end {
        return ([range, Range::new(range.end(), 0)], 0..0);
    }
    let before = Range::new(range.offset, begin - range.offset);
    let behind = Range::new(end, range.end() - end);
    ([before, behind], begin / RUN..end / RUN)
}

const fn whole_run(run: u64) -> RunPart {
    RunPart {
        run,
        first: 0,
        count: RUN_BLOCKS,
    }
}
