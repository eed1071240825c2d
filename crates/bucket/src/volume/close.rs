//! The volumes that are open in this process: their figures, and their end, at which changes are committed and the index is closed.
//!
//! # Invariants
//!
//! * A volume whose last handle is dropped commits what it has, without its caller. [`close_all`] waits for that, too.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use engine::clock;
use futures_util::future::join_all;

use super::index::IndexHandle;
use super::{BucketVolume, VolumeShared};
use crate::error::{BucketError, VolumeFailure};
use crate::figures::VolumeFigures;
use crate::journal_ring::JournalQueue;
use crate::prices::Decimal;

/// How long all volumes of a process may take to be closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);

/// A volume that is open, or being closed.
struct OpenVolume {
    shared: Weak<VolumeShared>,
    /// Gone when it is being closed.
    guard: Weak<CloseGuard>,
}

/// The volumes of this process that are open, or being closed.
static OPEN: Mutex<Vec<OpenVolume>> = Mutex::new(Vec::new());

fn open_volumes() -> MutexGuard<'static, Vec<OpenVolume>> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|volume| volume.shared.strong_count() > 0);
    open
}

/// Closes the volume when its last handle is dropped.
#[derive(Debug)]
pub(super) struct CloseGuard(Arc<VolumeShared>);

impl CloseGuard {
    /// That of a volume, which is listed as open from now on.
    pub(super) fn register(shared: &Arc<VolumeShared>) -> Arc<Self> {
        let guard = Arc::new(Self(shared.clone()));
        open_volumes().push(OpenVolume {
            shared: Arc::downgrade(shared),
            guard: Arc::downgrade(&guard),
        });
        guard
    }
}

impl Drop for CloseGuard {
    fn drop(&mut self) {
        let shared = self.0.clone();
        drop(self.0.runtime.spawn(async move {
            // A failure is in the log.
            drop(shared.end().await);
        }));
    }
}

/// Closes every volume of this process. After the last request.
pub async fn close_all() {
    let open = {
        let open = open_volumes();
        let open = open.iter().filter_map(|volume| volume.shared.upgrade());
        open.collect::<Vec<_>>()
    };
    let closes = join_all(open.iter().map(|shared| shared.close()));
    if clock::timeout(CLOSE_TIMEOUT, closes).await.is_err() {
        tracing::error!(
            "volumes were not closed within {} s: changes that no flush acknowledged may be lost",
            CLOSE_TIMEOUT.as_secs()
        );
    }
}

/// Refuses to open a volume for writing that this process writes already, which would take it from itself; waits for one that is
/// being closed.
///
/// # Errors
/// It is open.
pub(super) async fn refuse_own(uri: &str) -> Result<(), BucketError> {
    let own: Vec<(Arc<VolumeShared>, bool)> = open_volumes()
        .iter()
        .filter_map(|one| Some((one.shared.upgrade()?, one.guard.strong_count() > 0)))
        .filter(|(shared, _)| shared.is_writer() && shared.access.uri == uri)
        .collect();
    for (shared, is_open) in own {
        let has_failed = shared.memory().failure().is_some();
        if is_open && !has_failed {
            let uri = uri.to_owned();
            return Err(BucketError::Own { uri });
        }
        // Its failure is in the log.
        drop(shared.close().await);
    }
    Ok(())
}

/// The volumes of this process that are open, and what they have requested of their stores.
#[must_use]
pub fn volume_figures() -> Vec<VolumeFigures> {
    let open: Vec<Arc<VolumeShared>> = {
        let all = open_volumes();
        let open = all.iter().filter(|one| one.guard.strong_count() > 0);
        open.filter_map(|one| one.shared.upgrade()).collect()
    };
    open.iter().map(|shared| shared.figures()).collect()
}

impl BucketVolume {
    /// Commits all changes and closes the volume: no later request is answered. After the last request.
    ///
    /// # Errors
    /// Changes that did not reach the store.
    pub async fn close(&self) -> Result<(), BucketError> {
        let closed = self.shared.close().await;
        closed.map_err(|source| BucketError::Failed {
            uri: self.uri().to_owned(),
            source,
        })
    }

    /// What it has requested of its store since it was opened.
    #[must_use]
    pub fn figures(&self) -> VolumeFigures {
        self.shared.figures()
    }

    /// Where it is.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.shared.access.uri
    }

    /// Why it is out of use, if it is.
    #[must_use]
    pub fn failure(&self) -> Option<VolumeFailure> {
        self.shared.memory().failure().cloned()
    }
}

impl VolumeShared {
    fn is_writer(&self) -> bool {
        matches!(self.index, IndexHandle::Writer(_))
    }

    fn figures(&self) -> VolumeFigures {
        let (failure, unwritten, journal) = {
            let memory = self.memory();
            let failure = memory.failure().map(ToString::to_string);
            let journal = memory.journal().map(JournalQueue::figures);
            (failure, memory.cost(), journal)
        };
        let (received, sent) = self.access.requests.bytes();
        let operations = self.access.requests.figures();
        let requests = operations.iter().map(|one| one.requests).sum();
        let open_ms = self.access.requests.open_ms();
        VolumeFigures {
            uri: self.access.uri.clone(),
            is_writer: self.is_writer(),
            failure,
            unwritten,
            journal,
            received,
            sent,
            open_ms,
            requests_per_second: Decimal::per_second(requests, open_ms),
            cost: None,
            operations,
        }
    }

    async fn close(self: &Arc<Self>) -> Result<(), VolumeFailure> {
        self.in_task(|shared| async move { shared.end().await })
            .await
    }

    /// Commits and closes, once.
    async fn end(self: &Arc<Self>) -> Result<(), VolumeFailure> {
        let flushed = match self.memory().failure() {
            Some(VolumeFailure::Closed) => return Ok(()),
            _ => self.flush_here(),
        };
        let flushed = flushed.await;
        self.fail(VolumeFailure::Closed);
        if flushed.is_ok() {
            self.close_journal().await;
        }
        self.index.close(&self.access.uri).await;
        flushed
    }
}
