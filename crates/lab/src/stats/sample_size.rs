//! How many blocks are enough.
//!
//! The width of an interval falls with the root of the number of values. And a median has no interval
//! of 95 % before there are enough values: the true one lies between the least and the largest of `n`
//! with a chance of `1 - 2^(1-n)`, which is 94 % of five and 97 % of six.

use super::Interval;
use crate::units::round;

/// The fewest values with which anything is said.
pub const VALUES_MIN: usize = 5;

/// How sure the widest interval of `n` values is: the chance that the true median is between the least
/// and the largest of them.
#[must_use]
pub fn confidence_max(n: usize) -> f64 {
    let exponent = i32::try_from(n).unwrap_or(i32::MAX);
    (1.0 - 2.0 * 0.5f64.powi(exponent)).max(0.0)
}

/// Values in all that would bring the interval within `precision` of its median (0.03 = 3 %), at
/// least [`VALUES_MIN`]. An estimate: it is itself only as good as the values so far.
#[must_use]
pub fn values_needed(seen: &Interval, precision: f64) -> u64 {
    let width = seen.relative_half_width();
    if !(precision > 0.0 && width.is_finite()) {
        return VALUES_MIN as u64;
    }
    let needed = round((seen.n as f64 * (width / precision).powi(2)).ceil());
    needed.max(VALUES_MIN as u64)
}

/// Values beyond those there are.
#[must_use]
pub fn values_more(seen: &Interval, precision: f64) -> u64 {
    values_needed(seen, precision).saturating_sub(seen.n as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wide(n: usize, part: f64) -> Interval {
        Interval {
            median: 100.0,
            low: 100.0 * (1.0 - part),
            high: 100.0 * (1.0 + part),
            n,
        }
    }

    #[test]
    fn five_values_are_nearly_and_six_are_surely_enough_for_95_percent() {
        assert!((confidence_max(5) - 0.9375).abs() < 1e-12);
        assert!(confidence_max(6) > 0.95);
        assert_eq!((confidence_max(0), confidence_max(1)), (0.0, 0.0));
    }

    #[test]
    fn half_the_width_needs_four_times_the_values() {
        assert_eq!(values_needed(&wide(10, 0.06), 0.03), 40);
        assert_eq!(values_more(&wide(10, 0.06), 0.03), 30);
        assert_eq!(values_more(&wide(10, 0.02), 0.03), 0);
    }

    #[test]
    fn fewer_than_five_are_never_enough() {
        assert_eq!(values_more(&wide(3, 0.0), 0.03), 2);
    }

    proptest! {
        #[test]
        fn a_finer_wish_never_needs_fewer(n in 1usize..100, width in 0.0f64..0.5, coarse in 0.01f64..0.2) {
            let seen = wide(n, width);
            prop_assert!(values_needed(&seen, coarse / 2.0) >= values_needed(&seen, coarse));
        }
    }
}
