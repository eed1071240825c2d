//! The cache files that are open in this process: their status, and their end.
//!
//! # Invariants
//!
//! * A cache is closed after the last request of its disk. One that is dropped without it only keeps its marks: the
//!   regions that were written last are not used by the next open.
//!
//! # What it does not do
//!
//! It keeps no cache open but while it is closed.

mod boot_profile;
pub(crate) mod report;

use std::collections::HashSet;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use attach::{CacheCounts, DiskSupervisor};
use engine::clock;
use futures_util::future::join_all;
use nodes::{Cache, CacheStatus};

pub(crate) use self::boot_profile::BootProfileUse;
use self::report::CacheReport;
use crate::graph::Disk;

/// How long all of them may take to be synced.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(20);

/// A cache that was opened.
struct OpenCache {
    cache: Weak<Cache>,
    /// Where its boot profile will be written, while that is recorded.
    recording: Option<PathBuf>,
}

static OPEN: Mutex<Vec<OpenCache>> = Mutex::new(Vec::new());

fn with_open<T>(with: impl FnOnce(&mut Vec<OpenCache>) -> T) -> T {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|known| known.cache.strong_count() > 0);
    with(&mut open)
}

/// Adds a cache that was opened, with its boot profile. On the engine.
pub(crate) fn register(cache: &Arc<Cache>, profile: Option<BootProfileUse>) {
    let recording = profile.and_then(|profile| profile.begin(cache));
    let cache = Arc::downgrade(cache);
    with_open(|open| open.push(OpenCache { cache, recording }));
}

fn open() -> Vec<Arc<Cache>> {
    with_open(|open| {
        open.iter()
            .filter_map(|known| known.cache.upgrade())
            .collect()
    })
}

/// Where the boot profile of a cache is to be written: once.
fn take_recording(cache: &Arc<Cache>) -> Option<PathBuf> {
    let is_own = |known: &&mut OpenCache| Weak::as_ptr(&known.cache) == Arc::as_ptr(cache);
    with_open(|open| open.iter_mut().find(is_own)?.recording.take())
}

/// What each of them holds and has done.
pub(crate) fn status() -> Vec<CacheStatus> {
    open().iter().map(|cache| cache.status()).collect()
}

/// The same, for a status.
pub(crate) fn reports() -> Vec<CacheReport> {
    status().into_iter().map(CacheReport::from).collect()
}

/// Why one of them is out of use.
pub(crate) fn problem() -> Option<String> {
    let failed = |status: CacheStatus| {
        let why = status.failure?;
        Some(format!("the cache file {} failed: {why}", status.file))
    };
    status().into_iter().find_map(failed)
}

/// Those that are open, but for those of the disks `kept`.
pub(crate) fn open_without<'a>(kept: impl Iterator<Item = &'a Disk>) -> Vec<Arc<Cache>> {
    let kept: HashSet<String> = kept.flat_map(Disk::cache_files).collect();
    open_where(|file| !kept.contains(file))
}

/// Those that are open of these files.
pub(crate) fn open_at(files: &HashSet<String>) -> Vec<Arc<Cache>> {
    open_where(|file| files.contains(file))
}

fn open_where(is_meant: impl Fn(&str) -> bool) -> Vec<Arc<Cache>> {
    let mut caches = open();
    caches.retain(|cache| is_meant(&cache.status().file));
    caches
}

/// Drops what `caches` hold, of disks that are about to be changed by another way.
///
/// # Errors
/// A cache file that keeps what it holds.
pub(crate) async fn discard(caches: &[Arc<Cache>], why: &str) -> Result<(), String> {
    for cache in caches {
        cache.discard(why).await?;
    }
    Ok(())
}

/// Closes all of them, behind the last request of this process.
pub(crate) async fn close_all() {
    close(&open()).await;
}

/// Closes `caches` at the same time. One that is in use all the same has synced what it holds so far.
pub(crate) async fn close(caches: &[Arc<Cache>]) {
    let closes = join_all(caches.iter().map(|cache| async move {
        boot_profile::end(cache).await;
        cache.close().await;
    }));
    if clock::timeout(CLOSE_TIMEOUT, closes).await.is_err() {
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

    fn caches(&self) -> Vec<CacheCounts> {
        let counts = |status: CacheStatus| CacheCounts {
            file: std::path::absolute(&status.file).unwrap_or_else(|_| status.file.into()),
            hits: status.hits,
            misses: status.misses,
        };
        status().into_iter().map(counts).collect()
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

#[cfg(test)]
mod tests {
    use block::{BlockDevice as _, Range, WriteFlags};
    use nodes::CacheOptions;
    use testkit::{HeldDisk, MemDisk, pattern, single};

    use super::*;

    /// One after the other each would have got what the ones before had left of the timeout.
    #[test]
    fn caches_are_closed_at_the_same_time() {
        let config = engine::Config {
            cores: 1,
            ..engine::Config::default()
        };
        let ran = engine::run(&config, |_| async {
            let (mut disks, mut caches) = (Vec::new(), Vec::new());
            for _ in 0..3 {
                let disk = HeldDisk::new(Arc::new(MemDisk::new(1 << 20)));
                disk.hold(false);
                let store = Arc::new(MemDisk::new(4 << 20));
                let cache = Cache::over(disk.clone(), store, CacheOptions::default()).await;
                let cache = Arc::new(cache.expect("it is made"));
                let range = Range::new(0, 4096);
                let data = single(pattern(1, range));
                let written = cache.write(range, data, WriteFlags::empty()).await;
                written.expect("it is written");
                disk.hold(true);
                disks.push(disk);
                caches.push(cache);
            }
            let release = async {
                for disk in &disks {
                    disk.arrival().await;
                }
                for disk in &disks {
                    disk.hold(false);
                    disk.release_all().await;
                }
            };
            let both = async { tokio::join!(close(&caches), release) };
            clock::timeout(CLOSE_TIMEOUT / 2, both).await.is_ok()
        });
        assert!(ran.expect("the engine starts"), "not all were flushed");
    }
}
