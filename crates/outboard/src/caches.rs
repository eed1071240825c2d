//! The cache files that are open in this process: their status, and their end.
//!
//! # Invariants
//!
//! * A cache is closed after the last request of its disk. One that is dropped without it only keeps its marks: the
//!   regions that were written last are not used by the next open.
//!
//! # What it does not do
//!
//! It keeps no cache open.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use attach::DiskSupervisor;
use engine::clock;
use nodes::{Cache, CacheStatus};

/// How long all of them may take to be synced.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(20);

static OPEN: Mutex<Vec<Weak<Cache>>> = Mutex::new(Vec::new());

/// Adds a cache that was opened.
pub(crate) fn register(cache: &Arc<Cache>) {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|known| known.strong_count() > 0);
    open.push(Arc::downgrade(cache));
}

fn open() -> Vec<Arc<Cache>> {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.iter().filter_map(Weak::upgrade).collect()
}

/// What each of them holds and has done.
pub(crate) fn status() -> Vec<CacheStatus> {
    open().iter().map(|cache| cache.status()).collect()
}

/// Why one of them is out of use.
pub(crate) fn problem() -> Option<String> {
    let failed = |status: CacheStatus| {
        let why = status.failure?;
        Some(format!("the cache file {} failed: {why}", status.file))
    };
    status().into_iter().find_map(failed)
}

/// Closes all of them, behind the last request of this process.
pub(crate) async fn close_all() {
    let closed = clock::timeout(CLOSE_TIMEOUT, async {
        for cache in open() {
            cache.close().await;
        }
    });
    if closed.await.is_err() {
        tracing::warn!(
            "cache files were not closed within {} s: what was written last is not used at the next start",
            CLOSE_TIMEOUT.as_secs()
        );
    }
}

/// Closes the caches of an attached disk when it is detached.
pub(crate) struct AttachedCaches {
    /// That of what else is below the disk.
    inner: Option<Box<dyn DiskSupervisor>>,
}

impl AttachedCaches {
    /// The supervisor of a disk with this one, and with caches if any are open.
    pub(crate) fn over(inner: Option<Box<dyn DiskSupervisor>>) -> Option<Box<dyn DiskSupervisor>> {
        match open().is_empty() {
            true => inner,
            false => Some(Box::new(Self { inner })),
        }
    }
}

impl DiskSupervisor for AttachedCaches {
    fn problem(&self) -> Option<String> {
        let inner = self.inner.as_ref().and_then(|inner| inner.problem());
        inner.or_else(problem)
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(async {
            // Before the arrays below them stop, and once more behind those that they are members of.
            close_all().await;
            let Some(inner) = &self.inner else {
                return Ok(());
            };
            let closed = inner.close().await;
            close_all().await;
            closed
        })
    }
}
