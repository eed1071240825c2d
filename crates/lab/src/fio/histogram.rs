//! Latency histograms as fio keeps them, added bucket by bucket.
//!
//! fio's buckets are a fixed lattice: below 128 ns one each, above that 64 to every power of two. A
//! bucket is named by its midpoint. Two histograms of the lattice add without loss, which is why
//! percentiles are never averaged here. The width of a bucket (up to 1.6 % of its value) bounds how
//! well a percentile can be known.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// Below this every nanosecond has its own bucket.
const EXACT_BELOW: u64 = 128;
/// Buckets to a power of two, as a power of two.
const BUCKET_BITS: u32 = 6;

/// How many operations took how long.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Histogram(BTreeMap<u64, u64>);

/// A point of a distribution, known as well as the bucket is narrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantile {
    /// The middle of the bucket.
    pub value: Nanos,
    /// How wide the bucket is.
    pub width: Nanos,
}

impl Histogram {
    /// Counts `count` more operations in the bucket around `mid`.
    pub fn add(&mut self, mid: Nanos, count: u64) {
        if count > 0 {
            let slot = self.0.entry(mid.0).or_default();
            *slot = slot.saturating_add(count);
        }
    }

    /// Adds every operation of `other`.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (mid, count) in &other.0 {
            self.add(Nanos(*mid), *count);
        }
    }

    /// Operations counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0
            .values()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The mean, as well as buckets are narrow; none of nothing.
    #[must_use]
    pub fn mean(&self) -> Option<Nanos> {
        let count = self.count();
        let sum: f64 = self
            .0
            .iter()
            .map(|(mid, count)| *mid as f64 * *count as f64)
            .sum();
        (count > 0).then(|| Nanos(crate::units::round(sum / count as f64)))
    }

    /// The midpoints and counts, fastest first.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        self.0.iter().map(|(mid, count)| (Nanos(*mid), *count))
    }

    /// The first bucket at which at least `part` (0 to 1) of all operations are counted; none when
    /// empty. Says nothing about whether enough operations are slower: see [`crate::checks::tail`].
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<Quantile> {
        let wanted = part * self.count() as f64;
        let mut seen = 0u64;
        for (mid, count) in &self.0 {
            seen = seen.saturating_add(*count);
            if seen as f64 >= wanted {
                return Some(Quantile {
                    value: Nanos(*mid),
                    width: bucket_width(Nanos(*mid)),
                });
            }
        }
        None
    }
}

/// The width of the bucket with this midpoint.
#[must_use]
pub(crate) const fn bucket_width(mid: Nanos) -> Nanos {
    if mid.0 < EXACT_BELOW {
        return Nanos(1);
    }
    Nanos(1 << (mid.0.ilog2() - BUCKET_BITS))
}
