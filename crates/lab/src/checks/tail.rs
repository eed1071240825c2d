//! *tail*: a percentile needs ten slower operations to be printed.
//!
//! Caught in: study D, which gave the slowest 0.01 % of 26 operations to five digits. They were the
//! midpoints of buckets 4 ms wide.

use crate::fio::Histogram;

/// Operations that must be slower than a percentile.
pub(crate) const SLOWER_MIN: u64 = 10;

/// Operations needed before `part` (0.99 for p99) may be printed.
fn operations_needed(part: f64) -> u64 {
    crate::units::round(SLOWER_MIN as f64 / (1.0 - part).max(f64::EPSILON))
}

/// Whether enough operations were slower than the percentile `part`.
pub(super) fn is_supported(histogram: &Histogram, part: f64) -> bool {
    histogram.count() >= operations_needed(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::percentile;
    use crate::units::Nanos;

    fn operations(count: u64) -> Histogram {
        let mut histogram = Histogram::default();
        // The bucket that study D printed as 442,50 ms.
        histogram.add(Nanos(442_499_072), count);
        histogram
    }

    #[test]
    fn p99_99_needs_a_hundred_thousand_operations_and_p99_a_thousand() {
        assert_eq!(operations_needed(0.9999), 100_000);
        assert_eq!(operations_needed(0.99), 1000);
        assert_eq!(operations_needed(0.5), 20);
    }

    #[test]
    fn too_few_operations_give_no_percentile() {
        assert_eq!(percentile(&operations(99_999), 0.9999), None);
        assert!(percentile(&operations(100_000), 0.9999).is_some());
        assert_eq!(percentile(&operations(26), 0.99), None);
    }

    #[test]
    fn study_d_printed_five_digits_of_a_bucket_four_milliseconds_wide() {
        let found = percentile(&operations(262_144), 0.9999).unwrap();
        assert_eq!(found.width, Nanos(1 << 22));
        assert_eq!(found.value.to_string(), "442 ms");
    }
}
