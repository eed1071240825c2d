//! The knee of a sweep over queue depth or connections, by Little's law.
//!
//! A system that answers one request in `R` and at most `X` requests a second is full with
//! `N* = R X` of them in flight. Below, more in flight give more; above, they only wait. Source:
//! Little (1961); the bounds are those of operational analysis (Denning and Buzen, 1978).

use serde::{Deserialize, Serialize};

use crate::units::{Nanos, round};

/// The part of the highest throughput that is called saturated.
const SATURATED: f64 = 0.95;

/// One point of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    /// Requests in flight, or connections.
    pub in_flight: f64,
    /// Operations per second.
    pub throughput: f64,
}

/// Where more in flight stops to help.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// N*, where the two bounds meet.
    pub in_flight: f64,
    /// The latency of a request that waits for no other one.
    pub unloaded: Nanos,
    /// The highest throughput that was seen, operations per second.
    pub throughput: f64,
    /// The least number in flight that was swept and gives 95 % of that.
    pub saturated: f64,
    /// Whether the sweep went beyond the knee. If not, the highest throughput is that of the sweep's
    /// end and not of the system.
    pub is_seen: bool,
}

impl Knee {
    /// Finds the knee of a sweep; none without two different numbers in flight.
    ///
    /// The unloaded latency is taken from the least number in flight, which is best one.
    #[must_use]
    pub fn of(points: &[LoadPoint]) -> Option<Self> {
        let mut sorted: Vec<LoadPoint> = points
            .iter()
            .copied()
            .filter(|point| {
                point.in_flight > 0.0 && point.throughput.is_finite() && point.throughput > 0.0
            })
            .collect();
        sorted.sort_by(|a, b| a.in_flight.total_cmp(&b.in_flight));
        let (first, last) = (sorted.first()?, sorted.last()?);
        if first.in_flight >= last.in_flight {
            return None;
        }
        let throughput = sorted
            .iter()
            .map(|point| point.throughput)
            .fold(0.0, f64::max);
        let unloaded = first.in_flight / first.throughput;
        let in_flight = unloaded * throughput;
        let saturated = sorted
            .iter()
            .find(|point| point.throughput >= throughput * SATURATED)?
            .in_flight;
        Some(Self {
            in_flight,
            unloaded: Nanos(round(unloaded * 1e9)),
            throughput,
            saturated,
            is_seen: saturated < last.in_flight,
        })
    }

    /// The most that so many in flight can give, operations per second.
    #[must_use]
    pub fn bound(&self, in_flight: f64) -> f64 {
        (in_flight / self.unloaded.seconds().max(f64::MIN_POSITIVE)).min(self.throughput)
    }
}

/// Requests that really were in flight, by Little's law: throughput times mean latency.
#[must_use]
pub fn in_flight(throughput: f64, mean_latency: Nanos) -> f64 {
    throughput * mean_latency.seconds()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A system with one queue: each request takes `latency`, and `rate` of them a second are done.
    fn sweep(latency: f64, rate: f64, depths: u32) -> Vec<LoadPoint> {
        (0..depths)
            .map(|power| f64::from(1u32 << power))
            .map(|in_flight| LoadPoint {
                in_flight,
                throughput: (in_flight / latency).min(rate),
            })
            .collect()
    }

    #[test]
    fn a_disk_of_100_us_and_80_000_operations_a_second_is_full_with_eight() {
        let knee = Knee::of(&sweep(100e-6, 80_000.0, 8)).unwrap();
        assert!((knee.in_flight - 8.0).abs() < 1e-9);
        assert_eq!(
            (knee.saturated, knee.is_seen, knee.unloaded),
            (8.0, true, Nanos(100_000))
        );
        assert!((knee.bound(4.0) - 40_000.0).abs() < 1e-6);
        assert!((knee.bound(64.0) - 80_000.0).abs() < 1e-6);
    }

    #[test]
    fn a_sweep_that_still_rises_has_not_seen_its_knee() {
        assert!(!Knee::of(&sweep(100e-6, 80_000.0, 3)).unwrap().is_seen);
        assert_eq!(Knee::of(&sweep(100e-6, 80_000.0, 1)), None);
    }

    #[test]
    fn a_depth_that_was_asked_for_and_not_kept_shows() {
        // 10,000 operations a second of 100 us each are one at a time, at any requested depth.
        assert!((in_flight(10_000.0, Nanos(100_000)) - 1.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn no_point_of_a_sweep_is_above_its_bound(latency in 1e-6f64..1e-2, rate in 1e2f64..1e6) {
            let points = sweep(latency, rate, 10);
            let knee = Knee::of(&points).unwrap();
            for point in points {
                // The latency is kept in whole nanoseconds.
                prop_assert!(point.throughput <= knee.bound(point.in_flight) * 1.001);
            }
        }

        #[test]
        fn the_knee_is_the_product_of_latency_and_rate(latency in 1e-5f64..1e-2, knee in 1.0f64..100.0) {
            let found = Knee::of(&sweep(latency, knee / latency, 9)).unwrap();
            prop_assert!((found.in_flight / knee - 1.0).abs() < 1e-3);
        }
    }
}
