//! [`CacheStatus`]: what a cache holds and has done, for status and metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Shared;

/// What a cache holds and has done since it was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CacheStatus {
    /// The cache file.
    pub file: String,
    /// Bytes that it may hold.
    pub capacity: u64,
    /// Bytes of the disk that are in it.
    pub cached: u64,
    /// Reads that were answered from it alone.
    pub hits: u64,
    /// Reads that the disk was read for.
    pub misses: u64,
    /// Bytes that were read of the disk.
    pub bytes_filled: u64,
    /// Bytes that were read ahead by a boot profile.
    pub bytes_prefetched: u64,
    /// Granules of 128 KiB that gave way to others.
    pub evictions: u64,
    /// Blocks that their checksums did not match.
    pub damaged: u64,
    /// Stores that were left out because the cache file was too slow, or full.
    pub skipped: u64,
    /// Regions of 64 MiB that are marked as changed.
    pub regions_marked: u64,
    /// Why it is out of use: all requests go to the disk.
    pub failure: Option<String>,
}

/// Counts of events.
#[derive(Debug, Default)]
pub(super) struct CacheCounters {
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) bytes_filled: AtomicU64,
    pub(super) bytes_prefetched: AtomicU64,
    pub(super) damaged: AtomicU64,
    pub(super) skipped: AtomicU64,
    /// Bytes on their way to the cache file.
    pub(super) storing: AtomicU64,
}

/// Adds to a counter.
pub(super) fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

impl Shared {
    pub(super) fn status(&self) -> CacheStatus {
        let state = self.state();
        let (cached, evictions) = (state.slots.bytes(), state.slots.evictions());
        let regions_marked = state.marks.count();
        drop(state);
        let counters = &self.counters;
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheStatus {
            file: self.name.clone(),
            capacity: self.layout.slots * super::format::GRANULE,
            cached,
            hits: value(&counters.hits),
            misses: value(&counters.misses),
            bytes_filled: value(&counters.bytes_filled),
            bytes_prefetched: value(&counters.bytes_prefetched),
            evictions,
            damaged: value(&counters.damaged),
            skipped: value(&counters.skipped),
            regions_marked,
            failure: self.failure.get().cloned(),
        }
    }
}
