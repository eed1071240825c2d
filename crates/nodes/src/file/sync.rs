//! Syncs and durable writes: what makes data durable, and what a failure of it means for ever.
//!
//! # Invariants
//!
//! * A sync runs to its end and is recorded even when its caller was cancelled: the kernel
//!   reports its failure once, and the failure must not be lost.
//! * After the first failure every sync fails, with that failure.
//! * No success is reported while a concurrent sync may still have failed: see [`SyncState`].

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{Errno, IoBufs, IoError, Operation, Range};
use engine::{DiskFile, InFlight};
use tokio::sync::Notify;

use super::state::{SyncFailure, SyncId, SyncState};

/// How a durable request ended.
pub(crate) enum SyncEnd {
    /// The sync was carried out, with this result.
    Synced(io::Result<()>),
    /// The write before the sync failed; nothing older is touched by that.
    WriteFailed(io::Error),
}

/// The syncs of one disk.
#[derive(Debug)]
pub(crate) struct Syncs {
    path: PathBuf,
    state: Mutex<SyncState>,
    failed: AtomicBool,
    ended: Notify,
}

impl Syncs {
    pub(crate) fn new(path: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            path,
            state: Mutex::default(),
            failed: AtomicBool::new(false),
            ended: Notify::new(),
        })
    }

    /// Whether a sync has failed.
    pub(super) fn have_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Makes durable what was written, for `operation`.
    pub(super) async fn sync(
        self: &Arc<Self>,
        disk: &DiskFile,
        in_flight: &InFlight,
        (operation, range): (Operation, Option<Range>),
    ) -> Result<(), IoError> {
        let sync = disk.sync_data(in_flight.ticket());
        let work = async move { SyncEnd::Synced(sync.await) };
        self.run(work, operation, range).await
    }

    /// Writes `data` and makes it durable.
    pub(super) async fn write(
        self: &Arc<Self>,
        disk: &DiskFile,
        in_flight: &InFlight,
        range: Range,
        data: IoBufs,
    ) -> Result<(), IoError> {
        let offset = range.offset;
        let write = disk.write(data.clone(), offset, true, in_flight.ticket());
        let again = disk.write(data, offset, false, in_flight.ticket());
        let work = async move {
            let Err(error) = write.await else {
                return SyncEnd::Synced(Ok(()));
            };
            // One error stands for two steps. Repeated without the sync: if that fails too, it
            // was the write, and no sync has taken place; else it was the sync.
            match again.await {
                Err(again) => SyncEnd::WriteFailed(again),
                Ok(()) => SyncEnd::Synced(Err(error)),
            }
        };
        self.run(work, Operation::Write, Some(range)).await
    }

    /// Runs `work` as a task of its own, so that a dropped future does not lose its end.
    pub(crate) async fn run(
        self: &Arc<Self>,
        work: impl Future<Output = SyncEnd> + Send + 'static,
        operation: Operation,
        range: Option<Range>,
    ) -> Result<(), IoError> {
        let answer = |failure: &SyncFailure| Err(failure.answer(operation, range));
        let id = match self.state().begin() {
            Ok(id) => id,
            Err(failure) => return answer(&failure),
        };
        let syncs = self.clone();
        let task = engine::spawn(async move {
            match work.await {
                SyncEnd::Synced(result) => {
                    syncs.end(id, result);
                    Ok(())
                }
                SyncEnd::WriteFailed(error) => {
                    syncs.end(id, Ok(()));
                    Err(error)
                }
            }
        });
        match task.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(IoError::from_os(error, operation, range)),
            Err(_) => return Err(IoError::new(Errno::ShuttingDown, operation, range)),
        }
        match self.verdict().await {
            Ok(()) => Ok(()),
            Err(failure) => answer(&failure),
        }
    }

    /// Waits for the syncs that are in flight now.
    async fn verdict(&self) -> Result<(), SyncFailure> {
        let horizon = self.state().horizon();
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if let Some(verdict) = self.state().verdict(horizon) {
                return verdict;
            }
            ended.await;
        }
    }

    fn end(&self, id: SyncId, result: io::Result<()>) {
        let first_failure = self.state().end(id, result);
        if let Some(failure) = first_failure {
            self.failed.store(true, Ordering::Relaxed);
            tracing::error!(
                "{}: a sync failed: {failure}; every later flush fails until the disk is opened \
                 again, because written data may be lost",
                self.path.display()
            );
        }
        self.ended.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
