//! Store jobs: data that goes into slots of the cache file.
//!
//! # Invariants
//!
//! * A job runs to its end, whether or not the request that it comes from is still there.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use block::{Errno, IoError, Range, TryIo, WriteFlags};
use bytes::Bytes;

use super::format::{BLOCK, BLOCK_LEN, BLOCKS, GRANULE, block_crc};
use super::slots::StoreJob;
use super::stats::count;
use super::{STORE_BYTES_MAX, Shared};

/// Adjacent blocks of a job.
struct BlockRun {
    at: Range,
    data: Bytes,
}

impl BlockRun {
    fn copied(self) -> Self {
        Self {
            data: Bytes::copy_from_slice(&self.data),
            ..self
        }
    }
}

impl Shared {
    /// Stores what the jobs have of `data`, which lies at `range` of the disk.
    pub(super) fn store_jobs(self: &Arc<Self>, jobs: Vec<StoreJob>, range: Range, data: &Bytes) {
        if jobs.is_empty() {
            return;
        }
        for job in jobs {
            self.store_job(job, range, data);
        }
        self.write_table();
    }

    fn store_job(self: &Arc<Self>, job: StoreJob, range: Range, data: &Bytes) {
        let mut crcs = [0; BLOCKS as usize];
        let runs = self.runs(&job, range, data, &mut crcs);
        let written = |run: &BlockRun| self.store.try_write(run.at, &run.data) == TryIo::Done;
        if runs.iter().all(written) {
            self.state().slots.finish_store(&job, &crcs);
            self.schedule_checkpoint();
            return;
        }
        let bytes = u64::from(job.blocks.count_ones()) * BLOCK;
        let storing = &self.counters.storing;
        if storing.fetch_add(bytes, Ordering::Relaxed) + bytes > STORE_BYTES_MAX {
            storing.fetch_sub(bytes, Ordering::Relaxed);
            count(&self.counters.skipped, 1);
            self.state().slots.end_store(&job);
            return;
        }
        // Few blocks of much data are copied: they do not keep all of it in memory.
        let pins_more = bytes < data.len() as u64 / 2;
        let runs = runs.into_iter().map(|run| match pins_more {
            true => run.copied(),
            false => run,
        });
        let runs: Vec<BlockRun> = runs.collect();
        let shared = self.clone();
        let ticket = self.tasks.ticket();
        drop(engine::spawn(async move {
            let stored = shared.write_runs(runs).await;
            shared.counters.storing.fetch_sub(bytes, Ordering::Relaxed);
            match stored {
                Ok(()) => {
                    shared.state().slots.finish_store(&job, &crcs);
                    shared.schedule_checkpoint();
                }
                Err(error) => {
                    shared.state().slots.end_store(&job);
                    shared.store_failed(&error);
                }
            }
            shared.write_table();
            drop(ticket);
        }));
    }

    async fn write_runs(&self, runs: Vec<BlockRun>) -> Result<(), IoError> {
        for BlockRun { at, data } in runs {
            let data = std::iter::once(data).collect();
            self.store.write(at, data, WriteFlags::empty()).await?;
        }
        Ok(())
    }

    /// The blocks of a job in runs, and their checksums.
    fn runs(
        &self,
        job: &StoreJob,
        range: Range,
        data: &Bytes,
        crcs: &mut [u32; BLOCKS as usize],
    ) -> Vec<BlockRun> {
        let mut runs: Vec<BlockRun> = Vec::new();
        let mut last = None;
        for (block, crc) in (0..BLOCKS).zip(crcs) {
            if job.blocks & (1 << block) == 0 {
                continue;
            }
            let at = job.granule * GRANULE + u64::from(block) * BLOCK;
            let start = Range::new(0, at - range.offset).len_usize();
            let bytes = data.slice(start..start + BLOCK_LEN);
            *crc = block_crc(&self.id, job.granule, block, &bytes);
            let follows = block > 0 && last == Some(block - 1);
            last = Some(block);
            if let Some(run) = runs.last_mut().filter(|_| follows) {
                run.at.len += BLOCK;
                let begin = start + BLOCK_LEN - run.at.len_usize();
                run.data = data.slice(begin..start + BLOCK_LEN);
                continue;
            }
            let at = self.store_range(job.slot, Range::new(at, BLOCK));
            runs.push(BlockRun { at, data: bytes });
        }
        runs
    }

    /// A write of data failed: a full filesystem only means that nothing more is stored.
    fn store_failed(self: &Arc<Self>, error: &IoError) {
        if error.errno != Errno::NoSpace {
            return self.fail(error);
        }
        if self.counters.skipped.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(
                "{}: {error}: the cache holds no more than it does now",
                self.name
            );
        }
    }
}
