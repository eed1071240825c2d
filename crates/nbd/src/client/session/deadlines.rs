//! [`DeadlineBuckets`]: whether a request in flight has waited for too long, while others may have been
//! answered. Pure.
//!
//! Requests are counted in buckets by the time they were taken up; a request that is answered in time costs
//! one count up and one down. A bucket is overdue when the last of its limits has passed, so a
//! request is found at most one bucket's width late. Limits are extended while they are suspended, by so
//! much in all.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Buckets that one limit is divided into.
const DIVISIONS: u32 = 16;
/// Buckets at once; more requests go to the last one.
const BUCKETS_MAX: usize = 1024;
/// Payload ahead of a request adds to its limit: a server is not away that moves this many bytes in
/// a second, as one behind a wire of 1 Mb/s does.
pub(crate) const RATE_MIN: u64 = 120_000;
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

#[derive(Debug)]
struct Bucket {
    from: Instant,
    due: Instant,
    /// What it may be put off to.
    due_max: Instant,
    in_flight: usize,
}

/// The ages of the requests in flight on one connection.
#[derive(Debug)]
pub(crate) struct DeadlineBuckets {
    limit: Duration,
    extension_max: Duration,
    buckets: VecDeque<Bucket>,
    /// Number of the first bucket.
    first: u64,
}

impl DeadlineBuckets {
    /// For requests that are to be answered within `limit`, put off by `extension_max` at most.
    pub(crate) const fn new(limit: Duration, extension_max: Duration) -> Self {
        Self {
            limit,
            extension_max,
            buckets: VecDeque::new(),
            first: 0,
        }
    }

    /// A request is taken up behind `ahead` bytes of payload, its own included. Returns its bucket.
    pub(crate) fn begin(&mut self, now: Instant, ahead: u64) -> u64 {
        let allowed = self
            .limit
            .saturating_add(Duration::from_secs(ahead / RATE_MIN));
        // A limit beyond the end of time is none: the next look is in a year.
        let due = now.checked_add(allowed).unwrap_or(now + YEAR);
        let due_max = due.checked_add(self.extension_max).unwrap_or(due + YEAR);
        let width = self.limit / DIVISIONS;
        let stale = |last: &Bucket| now.duration_since(last.from) >= width;
        let full = self.buckets.len() >= BUCKETS_MAX;
        if self.buckets.back().is_none_or(stale) && !full {
            self.buckets.push_back(Bucket {
                from: now,
                due,
                due_max,
                in_flight: 0,
            });
        }
        if let Some(last) = self.buckets.back_mut() {
            last.in_flight += 1;
            last.due = last.due.max(due);
            last.due_max = last.due_max.max(due_max);
        }
        self.first + self.buckets.len() as u64 - 1
    }

    /// A request of `bucket` is over.
    pub(crate) fn end(&mut self, bucket: u64) {
        let at = usize::try_from(bucket - self.first).unwrap_or(usize::MAX);
        self.buckets[at].in_flight -= 1;
        while self.buckets.front().is_some_and(|b| b.in_flight == 0) {
            self.buckets.pop_front();
            self.first += 1;
        }
    }

    /// For `time` no request's time ran.
    pub(crate) fn extend(&mut self, time: Duration) {
        for bucket in &mut self.buckets {
            let due = bucket.due.checked_add(time);
            bucket.due = due.map_or(bucket.due_max, |due| due.min(bucket.due_max));
        }
    }

    /// Whether a request has waited for longer than it may.
    pub(crate) fn overdue(&self, now: Instant) -> bool {
        let mut waiting = self.buckets.iter().filter(|b| b.in_flight > 0);
        waiting.any(|bucket| bucket.due <= now)
    }
}
