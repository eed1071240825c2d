//! The steps of a merge: the last exceptions go back into the origin, and then out of their table.
//!
//! ```text
//! copy     the chunks of the last exceptions, from the store into the origin; changes of them wait
//!          flush of the origin
//! clear    their table without them, durably; from here on they are read from the origin
//! ```
//!
//! # Invariants
//!
//! * An exception is cleared only when its chunk is durable in the origin: until then store and origin together read
//!   the same, and a merge that ended anywhere is resumed with what the tables list.
//! * Steps go from the last exception to the first, as the kernel's do. A clear that was torn leaves fewer exceptions,
//!   and all that are missing were merged.
//! * A clear that was dropped may have landed: its chunks are not changed before it was repeated. The next change of one
//!   of them, or the next step, does that.

use block::{BlockDevice, IoError, Range, WriteFlags};
use futures_util::stream::{self, TryStreamExt};

use super::plan::{MergeStep, last_table};
use super::{MergeDisk, MergeList};
use crate::guard::flush;
use crate::overlay::map::ChunkRun;
use crate::volume::snapshot::SnapshotError;

/// Runs of chunks that are copied at once.
const RUNS_IN_FLIGHT: usize = 16;

/// A step that copies. Its chunks stay in the store when it is dropped before its end.
struct StepCopy<'a> {
    disk: &'a MergeDisk,
    is_done: bool,
}

impl Drop for StepCopy<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.disk.state().cancel_step();
            self.disk.changed.notify_waiters();
        }
    }
}

/// Wakes the changes that wait for a step when it has ended, however that was.
pub(super) struct WakeWaiters<'a>(pub(super) &'a MergeDisk);

impl Drop for WakeWaiters<'_> {
    fn drop(&mut self) {
        self.0.changed.notify_waiters();
    }
}

impl MergeDisk {
    /// Merges the last chunks, and returns how many are left.
    pub(in crate::volume::snapshot) async fn step(&self) -> Result<u64, SnapshotError> {
        // Dropped after the list is unlocked.
        let _wake = WakeWaiters(self);
        let mut list = self.list.lock().await;
        if list.clear.is_none() {
            self.copy_step(&mut list).await?;
        }
        let cleared = self.clear_step(&mut list).await;
        cleared.map_err(|source| self.store_failed(source))?;
        Ok(self.left())
    }

    async fn copy_step(&self, list: &mut MergeList) -> Result<(), SnapshotError> {
        if list.committed == 0 {
            return Ok(());
        }
        if list.must_settle {
            self.settle_both().await.map_err(SnapshotError::Origin)?;
            list.must_settle = false;
        }
        let step = self.next_step(list.committed).await?;
        let chunks = step.exceptions.iter().map(|exception| exception.old());
        self.state().begin_step(chunks);
        let mut copying = StepCopy {
            disk: self,
            is_done: false,
        };
        self.wait_for_writes().await;
        list.must_settle = true;
        stream::iter(step.runs().into_iter().map(Ok))
            .try_for_each_concurrent(RUNS_IN_FLIGHT, |run| self.copy_run(run))
            .await?;
        let origin = self.origin.flush().await;
        origin.map_err(SnapshotError::Origin)?;
        list.must_settle = false;
        list.clear = Some(step);
        copying.is_done = true;
        Ok(())
    }

    async fn next_step(&self, committed: u64) -> Result<MergeStep, SnapshotError> {
        let at = self.table_range(last_table(self.layout, committed));
        let read = self.store.read(at).await;
        let bytes = read.map_err(|source| self.store_failed(source))?.concat();
        MergeStep::new(self.layout, committed, bytes).ok_or_else(|| {
            let error = IoError::new(block::Errno::Io, block::Operation::Read, Some(at));
            self.store_failed(error.because("the last table of the store was changed meanwhile"))
        })
    }

    async fn wait_for_writes(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.state().may_copy() {
                return;
            }
            changed.await;
        }
    }

    async fn copy_run(&self, run: ChunkRun) -> Result<(), SnapshotError> {
        let piece = run.piece(self.layout.chunk(), Range::new(0, self.geometry.size));
        let Some(at) = piece.store else {
            return Ok(());
        };
        let data = self.store.read(Range::new(at, piece.at.len)).await;
        let data = data.map_err(|source| self.store_failed(source))?;
        let written = self.origin.write(piece.at, data, WriteFlags::empty()).await;
        written.map_err(SnapshotError::Origin)
    }

    /// Takes what was copied out of its table.
    pub(super) async fn clear_step(&self, list: &mut MergeList) -> Result<(), IoError> {
        if list.clear.is_none() {
            return Ok(());
        }
        if list.is_clear_in_doubt {
            self.store.settle().await?;
        }
        list.is_clear_in_doubt = true;
        let Some(step) = &list.clear else {
            return Ok(());
        };
        let data = std::iter::once(step.bytes.clone().into()).collect();
        let range = self.table_range(step.table);
        self.store.write(range, data, WriteFlags::empty()).await?;
        flush(&self.store).await?;
        list.is_clear_in_doubt = false;
        list.committed -= step.exceptions.len() as u64;
        list.clear = None;
        self.state().finish_step();
        Ok(())
    }
}
