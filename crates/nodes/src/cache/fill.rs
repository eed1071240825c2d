//! Fills: whole granules are read from the disk, once for all readers that wait for them, and stored.

use std::sync::Arc;

use block::{IoBufs, IoError, Range};
use bytes::Bytes;
use tokio::sync::watch;

use super::Shared;
use super::format::GRANULE;
use super::slots::StoreJob;
use super::stats::count;
use crate::blocks::slice;

/// What readers of a fill wait on: its data, or `Some(None)` where the disk could not be read.
pub(super) type FillResult = watch::Receiver<Option<Option<Bytes>>>;

impl Shared {
    /// Reads `range` of the disk, and fills the granules that it lies in.
    pub(super) async fn fetch(self: &Arc<Self>, range: Range) -> Result<IoBufs, IoError> {
        let Some((first, result)) = self.join_fill(range) else {
            return self.child.read(range).await;
        };
        let Some(data) = wait(result).await else {
            // Its error is for the caller, about the caller's range.
            return self.child.read(range).await;
        };
        let start = Range::new(0, range.offset - first * GRANULE).len_usize();
        Ok(slice(&IoBufs::from_iter([data]), start, range.len_usize()))
    }

    /// The fill in flight that gives `range`, or one that begins now. `None`: there can be none.
    fn join_fill(self: &Arc<Self>, range: Range) -> Option<(u64, FillResult)> {
        let granules = range.offset / GRANULE..range.end().div_ceil(GRANULE);
        let first = granules.start;
        let (sender, result) = watch::channel(None);
        let mut state = self.state();
        if let Some(known) = state.fills.join(range) {
            return Some(known);
        }
        let must_settle = state.may_land_late(range);
        let id = state.begin_fill(granules.clone(), result.clone())?;
        drop(state);
        let end = (granules.end * GRANULE).min(self.layout.disk_size);
        let whole = Range::new(first * GRANULE, end - first * GRANULE);
        let shared = self.clone();
        let ticket = self.tasks.ticket();
        drop(engine::spawn(async move {
            let data = shared.disk().read(whole).await.ok();
            let data = data.map(whole_bytes);
            let jobs = shared.state().finish_fill(id);
            // Readers that were dropped need no data.
            drop(sender.send(Some(data.clone())));
            match data {
                Some(data) => {
                    count(&shared.counters.bytes_filled, whole.len);
                    shared.store_jobs(jobs, whole, &data);
                }
                None => shared.end_jobs(&jobs),
            }
            drop(ticket);
            if must_settle {
                shared.settle_disk().await;
            }
        }));
        Some((first, result))
    }

    fn end_jobs(&self, jobs: &[StoreJob]) {
        let mut state = self.state();
        jobs.iter().for_each(|job| state.slots.end_store(job));
    }

    /// Waits until nothing that was abandoned can land, so that its blocks are cached again.
    pub(super) async fn settle_disk(&self) {
        let moment = self.state().now();
        if self.child.settle().await.is_ok() {
            self.state().settled(moment);
        }
    }
}

async fn wait(mut result: FillResult) -> Option<Bytes> {
    let data = result.wait_for(Option::is_some).await.ok()?;
    data.clone().flatten()
}

/// All of `data` in one piece.
pub(super) fn whole_bytes(data: IoBufs) -> Bytes {
    match data.as_slice() {
        [only] => only.clone(),
        _ => data.concat().into(),
    }
}
