//! Cache files in Prometheus' text format. Pure.

use nodes::CacheStatus;

use super::text::{Metric, Text, escaped};

const METRICS: [Metric<CacheStatus>; 10] = [
    (
        "outboard_cache_hits_total",
        "counter",
        "Reads that were answered from the cache file alone.",
        |one| one.hits,
    ),
    (
        "outboard_cache_misses_total",
        "counter",
        "Reads that the disk was read for.",
        |one| one.misses,
    ),
    (
        "outboard_cache_filled_bytes_total",
        "counter",
        "Bytes that were read of the disk.",
        |one| one.bytes_filled,
    ),
    (
        "outboard_cache_prefetched_bytes_total",
        "counter",
        "Bytes that were read ahead by a boot profile.",
        |one| one.bytes_prefetched,
    ),
    (
        "outboard_cache_evictions_total",
        "counter",
        "Granules of 128 KiB that gave way to others.",
        |one| one.evictions,
    ),
    (
        "outboard_cache_damaged_blocks_total",
        "counter",
        "Blocks of 4 KiB that their checksums did not match.",
        |one| one.damaged,
    ),
    (
        "outboard_cache_skipped_stores_total",
        "counter",
        "Stores that were left out because the cache file was too slow, or full.",
        |one| one.skipped,
    ),
    (
        "outboard_cache_cached_bytes",
        "gauge",
        "Bytes of the disk that are in the cache file.",
        |one| one.cached,
    ),
    (
        "outboard_cache_capacity_bytes",
        "gauge",
        "Bytes of the disk that the cache file can hold.",
        |one| one.capacity,
    ),
    (
        "outboard_cache_failed",
        "gauge",
        "Whether the cache file is out of use after an error.",
        |one| u64::from(one.failure.is_some()),
    ),
];

/// Writes the metrics of cache files.
pub(super) fn write(text: &mut Text, caches: &[CacheStatus]) {
    if caches.is_empty() {
        return;
    }
    let label = |one: &CacheStatus| format!("file=\"{}\"", escaped(&one.file));
    let rows: Vec<_> = caches.iter().map(|one| (label(one), one)).collect();
    text.families(&METRICS, &rows);
}
