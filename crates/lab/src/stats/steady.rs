//! Steady state, as SNIA defines it.
//!
//! Source: SNIA Solid State Storage Performance Test Specification 2.0.2 (2020). Section 2.1.13: the
//! measurement window is five rounds. Section 2.1.24: within it, the largest less the smallest value
//! is at most 20 % of the mean, and the largest less the smallest value of the line of least squares is
//! within 10 % of the mean.
//!
//! A round here is one block of a run.

use serde::{Deserialize, Serialize};

use super::line::{FitPoint, line};

/// Rounds of a measurement window.
pub const ROUNDS: usize = 5;
/// The most that values range over, as a part of their mean.
pub(crate) const RANGE_MAX: f64 = 0.20;
/// The most that their line rises or falls over the window, as a part of their mean.
pub(crate) const DRIFT_MAX: f64 = 0.10;

/// Five rounds looked at together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SteadyWindow {
    /// Of the five.
    pub mean: f64,
    /// Largest less smallest, as a part of the mean.
    pub range: f64,
    /// What their line gains over the window, as a part of the mean; negative when it falls.
    pub drift: f64,
}

impl SteadyWindow {
    /// Looks at the last five of `values`; none of fewer, and none of values around zero.
    #[must_use]
    pub fn last(values: &[f64]) -> Option<Self> {
        let window = values.last_chunk::<ROUNDS>()?;
        let mean = window.iter().sum::<f64>() / ROUNDS as f64;
        let points: Vec<FitPoint> = window
            .iter()
            .zip(0..)
            .map(|(y, x)| FitPoint::new(f64::from(x), *y))
            .collect();
        let slope = line(&points)?.slope;
        if mean <= 0.0 {
            return None;
        }
        let most = window.iter().copied().fold(f64::MIN, f64::max);
        let least = window.iter().copied().fold(f64::MAX, f64::min);
        Some(Self {
            mean,
            range: (most - least) / mean,
            drift: slope * (ROUNDS - 1) as f64 / mean,
        })
    }

    /// Whether both bounds are kept.
    #[must_use]
    pub(crate) fn is_steady(&self) -> bool {
        self.range <= RANGE_MAX && self.drift.abs() <= DRIFT_MAX
    }
}

/// The first round (counted from 0) of the earliest steady window, from which on values may be
/// averaged; none where there is no such window.
#[must_use]
pub(crate) fn steady_from(values: &[f64]) -> Option<usize> {
    (ROUNDS..=values.len())
        .find(|end| SteadyWindow::last(&values[..*end]).is_some_and(|window| window.is_steady()))
        .map(|end| end - ROUNDS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fewer_than_five_rounds_say_nothing() {
        assert_eq!(SteadyWindow::last(&[1.0; 4]), None);
        assert_eq!(steady_from(&[1.0; 4]), None);
    }

    #[test]
    fn a_range_just_within_and_just_beyond_a_fifth_of_the_mean() {
        // The mean is 100 in both; the line is flat by symmetry.
        let within = SteadyWindow::last(&[90.0, 110.0, 100.0, 110.0, 90.0]).unwrap();
        assert!((within.range - 0.20).abs() < 1e-12 && within.drift.abs() < 1e-12);
        assert!(within.is_steady());
        assert!(
            !SteadyWindow::last(&[89.0, 110.0, 102.0, 110.0, 89.0])
                .unwrap()
                .is_steady()
        );
    }

    #[test]
    fn a_slow_fall_is_no_steady_state_though_its_range_is_allowed() {
        let falling = SteadyWindow::last(&[106.0, 103.0, 100.0, 97.0, 94.0]).unwrap();
        assert!(falling.range < RANGE_MAX);
        assert!((falling.drift + 0.12).abs() < 1e-12);
        assert!(!falling.is_steady());
    }

    #[test]
    fn a_fresh_drive_is_steady_once_its_cache_is_full() {
        let rates = [400.0, 390.0, 210.0, 101.0, 99.0, 100.0, 102.0, 98.0, 100.0];
        assert_eq!(steady_from(&rates), Some(3));
        assert!(SteadyWindow::last(&rates).unwrap().is_steady());
    }

    proptest! {
        #[test]
        fn the_unit_and_the_rounds_before_do_not_matter(
            values in prop::collection::vec(1.0f64..1e3, ROUNDS), before in prop::collection::vec(1.0f64..1e3, 0..9),
            unit in 1e-3f64..1e6
        ) {
            let plain = SteadyWindow::last(&values).unwrap();
            let scaled: Vec<f64> = before.iter().chain(&values).map(|value| value * unit).collect();
            let scaled = SteadyWindow::last(&scaled).unwrap();
            prop_assert!((plain.range - scaled.range).abs() < 1e-9);
            prop_assert!((plain.drift - scaled.drift).abs() < 1e-9);
        }

        #[test]
        fn turned_round_a_window_drifts_the_other_way(values in prop::collection::vec(1.0f64..1e3, ROUNDS)) {
            let there = SteadyWindow::last(&values).unwrap();
            let back: Vec<f64> = values.iter().rev().copied().collect();
            let back = SteadyWindow::last(&back).unwrap();
            prop_assert!((there.drift + back.drift).abs() < 1e-9);
            prop_assert!((there.range - back.range).abs() < 1e-9);
        }

        #[test]
        fn a_line_never_gains_more_than_its_values_range(values in prop::collection::vec(1.0f64..1e3, ROUNDS)) {
            let window = SteadyWindow::last(&values).unwrap();
            prop_assert!(window.drift.abs() <= window.range * 1.2 + 1e-9);
        }
    }
}
