//! The cost of a request: `t = t0 + size / B`. What each request costs at any size, and how
//! fast bytes go beyond that.
//!
//! `t` is the time between two completions, one over the operations per second, so that requests in
//! flight are counted in. Errors grow with what is measured, so each point weighs by one over its
//! square: a small request counts as much as a large one.

use serde::{Deserialize, Serialize};

use super::line::{FitPoint, line};
use crate::units::{Bytes, Nanos, Rate, round};

/// The model holds where no rate is further from it than this part.
pub(crate) const FITS_WITHIN: f64 = 0.15;
/// The part of the full rate that is called enough.
const ENOUGH: f64 = 0.95;
/// A line goes through any two points; the third one tests it.
const POINTS_MIN: usize = 3;

/// A block size and what it gave.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SizePoint {
    /// Bytes of a request.
    pub size: Bytes,
    /// Bytes per second.
    pub rate: Rate,
}

/// The model of a sweep over block sizes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RequestCost {
    /// What each request costs.
    pub fixed: Nanos,
    /// How fast bytes go in requests without end; none where the sweep does not show it, since its
    /// largest requests still cost no more than its smallest.
    pub bandwidth: Option<Rate>,
    /// The largest distance of a measured rate from the model, as a part of the model.
    pub error: f64,
    /// The largest size that was measured.
    pub largest: Bytes,
}

impl RequestCost {
    /// Fits `points`; none of fewer than three sizes.
    #[must_use]
    pub fn of(points: &[SizePoint]) -> Option<Self> {
        let usable: Vec<SizePoint> = points
            .iter()
            .copied()
            .filter(|point| point.rate.0.is_finite() && point.rate.0 > 0.0 && point.size.0 > 0)
            .collect();
        let mut sizes: Vec<Bytes> = usable.iter().map(|point| point.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.len() < POINTS_MIN {
            return None;
        }
        let times: Vec<FitPoint> = usable
            .iter()
            .map(|point| {
                let size = point.size.0 as f64;
                let time = size / point.rate.0;
                FitPoint {
                    x: size,
                    y: time,
                    weight: time.powi(-2),
                }
            })
            .collect();
        let (fixed, per_byte) = costs(&times)?;
        let mut found = Self {
            fixed: Nanos(round(fixed * 1e9)),
            bandwidth: (per_byte > 0.0).then(|| Rate(1.0 / per_byte)),
            error: 0.0,
            largest: sizes.last().copied().unwrap_or_default(),
        };
        found.error = usable
            .iter()
            .filter_map(|point| Some((point.rate.0 / found.rate(point.size)?.0 - 1.0).abs()))
            .fold(0.0, f64::max);
        Some(found)
    }

    /// What the model gives for a size; none where nothing costs anything.
    #[must_use]
    pub fn rate(&self, size: Bytes) -> Option<Rate> {
        let per_byte = self.bandwidth.map_or(0.0, |rate| 1.0 / rate.0);
        let time = self.fixed.seconds() + size.0 as f64 * per_byte;
        (time > 0.0).then(|| Rate(size.0 as f64 / time))
    }

    /// The size from which on 95 % of the bandwidth is had.
    #[must_use]
    pub fn enough(&self) -> Option<Bytes> {
        let bandwidth = self.bandwidth?;
        let size = ENOUGH / (1.0 - ENOUGH) * self.fixed.seconds() * bandwidth.0;
        Some(Bytes(round(size)))
    }

    /// Whether every measured rate is near the model.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.error <= FITS_WITHIN
    }

    /// Whether the bandwidth was seen and is not only where the model leads to.
    #[must_use]
    pub(crate) fn is_seen(&self) -> bool {
        self.enough().is_some_and(|enough| enough <= self.largest)
    }
}

/// Seconds of a request and of a byte, neither of them negative: where the best line would have one
/// below zero, the best line through the bound is taken.
fn costs(times: &[FitPoint]) -> Option<(f64, f64)> {
    let best = line(times)?;
    let sum = |value: &dyn Fn(&FitPoint) -> f64| times.iter().map(value).sum::<f64>();
    if best.intercept < 0.0 {
        let per_byte = sum(&|p| p.weight * p.x * p.y) / sum(&|p| p.weight * p.x * p.x);
        return per_byte.is_finite().then_some((0.0, per_byte));
    }
    if best.slope < 0.0 {
        let fixed = sum(&|p| p.weight * p.y) / sum(&|p| p.weight);
        return fixed.is_finite().then_some((fixed, 0.0));
    }
    Some((best.intercept, best.slope))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Rng;
    use super::*;

    fn sweep(fixed: Nanos, bandwidth: Rate, exponents: std::ops::Range<u32>) -> Vec<SizePoint> {
        let model = RequestCost {
            fixed,
            bandwidth: Some(bandwidth),
            error: 0.0,
            largest: Bytes(0),
        };
        exponents
            .map(|exponent| Bytes(1 << exponent))
            .map(|size| SizePoint {
                size,
                rate: model.rate(size).unwrap(),
            })
            .collect()
    }

    #[test]
    fn a_disk_of_100_us_and_100_mb_per_second_has_95_percent_at_186_kib() {
        let points = sweep(Nanos(100_000), Rate(100e6), 9..24);
        let found = RequestCost::of(&points).unwrap();
        assert_eq!(found.fixed, Nanos(100_000));
        assert!((found.bandwidth.unwrap().0 / 100e6 - 1.0).abs() < 1e-6);
        assert_eq!(found.enough().unwrap(), Bytes(190_000));
        assert!(found.fits() && found.is_seen());
    }

    #[test]
    fn a_sweep_that_ends_early_says_that_its_bandwidth_was_not_seen() {
        let points = sweep(Nanos(100_000), Rate(100e6), 9..16);
        assert!(!RequestCost::of(&points).unwrap().is_seen());
    }

    /// Requests of powers of two were direct, the others went through readahead: no one model fits.
    #[test]
    fn two_ways_to_the_disk_in_one_sweep_do_not_fit() {
        let mut points = sweep(Nanos(100_000), Rate(100e6), 12..22);
        for point in points.iter_mut().step_by(2) {
            point.rate = Rate(point.rate.0 * 1.5);
        }
        assert!(!RequestCost::of(&points).unwrap().fits());
    }

    #[test]
    fn a_rate_that_no_size_changes_has_no_cost_of_a_request() {
        let points = sweep(Nanos(0), Rate(50e6), 12..20);
        let found = RequestCost::of(&points).unwrap();
        assert_eq!(found.fixed, Nanos(0));
        assert_eq!(found.enough(), Some(Bytes(0)));
    }

    #[test]
    fn requests_that_cost_the_same_whatever_their_size_show_no_bandwidth() {
        let points: Vec<SizePoint> = (9..14)
            .map(|exponent| SizePoint {
                size: Bytes(1 << exponent),
                rate: Rate(1000.0 * f64::from(1 << exponent) * (1.0 + 0.01 * f64::from(exponent))),
            })
            .collect();
        let found = RequestCost::of(&points).unwrap();
        assert_eq!((found.bandwidth, found.enough()), (None, None));
        assert!(!found.is_seen());
    }

    #[test]
    fn two_sizes_or_no_rate_give_no_model() {
        assert_eq!(RequestCost::of(&sweep(Nanos(1000), Rate(1e6), 9..11)), None);
        let dead = SizePoint {
            size: Bytes(4096),
            rate: Rate(0.0),
        };
        assert_eq!(RequestCost::of(&[dead; 5]), None);
    }

    proptest! {
        #[test]
        fn a_sweep_with_noise_is_found_again(
            fixed in 5_000u64..5_000_000, bandwidth in 1e7f64..5e9, seed in any::<u64>()
        ) {
            let mut rng = Rng::new(seed);
            let mut points = sweep(Nanos(fixed), Rate(bandwidth), 9..27);
            for point in &mut points {
                point.rate = Rate(point.rate.0 * (0.98 + rng.below(41) as f64 / 1000.0));
            }
            let found = RequestCost::of(&points).unwrap();
            prop_assert!(found.fits());
            prop_assert!((found.fixed.0 as f64 / fixed as f64 - 1.0).abs() < 0.08, "{:?}", found);
            if found.is_seen() {
                prop_assert!((found.bandwidth.unwrap().0 / bandwidth - 1.0).abs() < 0.08, "{:?}", found);
            }
        }

        #[test]
        fn enough_is_where_the_model_has_95_percent(fixed in 1_000u64..10_000_000, bandwidth in 1e7f64..5e9) {
            let cost = RequestCost { fixed: Nanos(fixed), bandwidth: Some(Rate(bandwidth)), error: 0.0, largest: Bytes(0) };
            let rate = cost.rate(cost.enough().unwrap()).unwrap();
            prop_assert!((rate.0 / bandwidth - 0.95).abs() < 0.001);
        }
    }
}
