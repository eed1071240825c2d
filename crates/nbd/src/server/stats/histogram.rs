//! [`Histogram`]: latencies in buckets with limits that double, from 1 us to 69 s.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets; the last one has no limit.
pub const BUCKETS: usize = 28;
/// The first bucket ends at two to this many nanoseconds.
const FIRST_BITS: usize = 10;

/// The longest latency of bucket `index`; `None` for the last one.
///
/// # Panics
/// If there is no such bucket.
#[must_use]
pub fn bucket_limit(index: usize) -> Option<Duration> {
    assert!(index < BUCKETS, "a bucket of the histogram");
    (index < BUCKETS - 1).then(|| Duration::from_nanos(1 << (FIRST_BITS + index)))
}

/// The bucket that `latency` falls into.
pub(super) fn bucket_of(latency: Duration) -> usize {
    let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
    let bits = u64::BITS - nanos.saturating_sub(1).leading_zeros();
    (bits as usize).saturating_sub(FIRST_BITS).min(BUCKETS - 1)
}

/// Counts by bucket, and the sum of all latencies.
#[derive(Debug)]
pub(super) struct Histogram {
    pub(super) buckets: [Count; BUCKETS],
    pub(super) nanos: Count,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self {
            buckets: std::array::from_fn(|_| Count::default()),
            nanos: Count::default(),
        }
    }

    /// Counts `times` requests that took `latency` each.
    pub(super) fn record(&self, latency: Duration, times: u64) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(latency)].add(times);
        self.nanos.add(nanos.saturating_mul(times));
    }
}

/// A number that one thread at a time changes and any may read: no bus lock is taken.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, by: u64) {
        self.0
            .store(self.value().wrapping_add(by), Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, by: u64) {
        self.0
            .store(self.value().wrapping_sub(by), Ordering::Relaxed);
    }

    pub(super) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
