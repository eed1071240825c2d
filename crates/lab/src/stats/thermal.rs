//! How a machine warms up: `T(t) = T_end - (T_end - T_0) e^(-t / tau)`, Newton's law of cooling.
//!
//! For a given time constant the curve is a line in `e^(-t / tau)`, so that only the time constant is
//! searched for: over four decades, then by golden sections. That needs no starting guess and cannot
//! run away.
//!
//! What it does not do: a die warms within seconds and its heat sink within minutes. The first is taken
//! into `T_0`, which is therefore the temperature from which the slow part begins.

use serde::{Deserialize, Serialize};

use super::line::{FitPoint, FittedLine, line};

/// Fewer readings than this are not fitted.
pub(crate) const READINGS_MIN: usize = 8;
/// Readings that range over less than this, in degrees, did not change.
const FLAT: f64 = 1.0;
/// At least this part of the rise must have been seen for its end to be trusted.
const SEEN_MIN: f64 = 0.6;
/// Steps of the coarse search.
const STEPS: u32 = 200;
/// Golden sections; each narrows by 0.618.
const SECTIONS: u32 = 60;

/// A temperature at a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TemperatureReading {
    /// Seconds since the load began.
    pub seconds: f64,
    /// Degrees Celsius.
    pub celsius: f64,
}

/// A curve through readings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ThermalFit {
    /// At time 0, degrees Celsius.
    pub start: f64,
    /// In the end, degrees Celsius.
    pub end: f64,
    /// Seconds in which 63 % of what is left is covered; 0 where nothing changed.
    pub time_constant: f64,
    /// The root of the mean square of what is left, in degrees.
    pub error: f64,
    /// The part of the rise from the first reading to the end that was covered by the last one.
    pub seen: f64,
}

/// Whether and when a temperature is reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reach", rename_all = "kebab-case")]
pub enum Reach {
    /// It is never: the curve ends below.
    Never {
        /// By so many degrees.
        margin: f64,
    },
    /// So many seconds after the load began.
    After {
        /// Seconds.
        seconds: f64,
    },
    /// Too little of the curve was seen to say how it ends.
    CannotTell,
}

impl ThermalFit {
    /// Fits `readings`; none of too few, or of all at one time.
    #[must_use]
    pub fn of(readings: &[TemperatureReading]) -> Option<Self> {
        if readings.len() < READINGS_MIN {
            return None;
        }
        let of = |value: fn(&TemperatureReading) -> f64, pick: fn(f64, f64) -> f64, first| {
            readings.iter().map(value).fold(first, pick)
        };
        let most = of(|reading| reading.celsius, f64::max, f64::MIN);
        let least = of(|reading| reading.celsius, f64::min, f64::MAX);
        let first = of(|reading| reading.seconds, f64::min, f64::MAX);
        let last = of(|reading| reading.seconds, f64::max, f64::MIN);
        let span = last - first;
        if !(span > 0.0 && span.is_finite() && (most - least).is_finite()) {
            return None;
        }
        if most - least < FLAT {
            return Some(flat(readings, most - least));
        }
        let time_constant = search(readings, span)?;
        let curve = given(readings, time_constant)?;
        Some(Self {
            start: curve.intercept + curve.slope,
            end: curve.intercept,
            time_constant,
            error: (curve.residual / readings.len() as f64).sqrt(),
            seen: 1.0 - (-span / time_constant).exp(),
        })
    }

    /// The temperature after so many seconds.
    #[must_use]
    pub fn at(&self, seconds: f64) -> f64 {
        if self.time_constant <= 0.0 {
            return self.end;
        }
        self.end - (self.end - self.start) * (-seconds / self.time_constant).exp()
    }

    /// Whether enough was seen for the end to be more than a guess.
    #[must_use]
    pub(crate) fn is_levelling(&self) -> bool {
        self.seen >= SEEN_MIN
    }

    /// When `celsius` is reached from below.
    #[must_use]
    pub fn reaches(&self, celsius: f64) -> Reach {
        if self.start >= celsius {
            return Reach::After { seconds: 0.0 };
        }
        if !self.is_levelling() {
            return Reach::CannotTell;
        }
        if self.end <= celsius {
            return Reach::Never {
                margin: celsius - self.end,
            };
        }
        let left = (self.end - celsius) / (self.end - self.start);
        Reach::After {
            seconds: -self.time_constant * left.ln(),
        }
    }
}

fn flat(readings: &[TemperatureReading], range: f64) -> ThermalFit {
    let mean = readings.iter().map(|reading| reading.celsius).sum::<f64>() / readings.len() as f64;
    ThermalFit {
        start: mean,
        end: mean,
        time_constant: 0.0,
        error: range / 2.0,
        seen: 1.0,
    }
}

/// The best curve of one time constant.
fn given(readings: &[TemperatureReading], time_constant: f64) -> Option<FittedLine> {
    let points: Vec<FitPoint> = readings
        .iter()
        .map(|reading| FitPoint::new((-reading.seconds / time_constant).exp(), reading.celsius))
        .collect();
    line(&points)
}

/// The time constant with the least squares, from a hundredth of the span to a hundred times it.
fn search(readings: &[TemperatureReading], span: f64) -> Option<f64> {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    let (low, high) = ((span / 100.0).ln(), (span * 100.0).ln());
    let squares = |log: f64| given(readings, log.exp()).map_or(f64::INFINITY, |fit| fit.residual);
    let step = (high - low) / f64::from(STEPS);
    let best = (0..=STEPS)
        .map(|index| low + step * f64::from(index))
        .min_by(|a, b| squares(*a).total_cmp(&squares(*b)))?;
    let (mut a, mut b) = (best - step, best + step);
    for _ in 0..SECTIONS {
        let (left, right) = (b - GOLDEN * (b - a), a + GOLDEN * (b - a));
        if squares(left) <= squares(right) {
            b = right;
        } else {
            a = left;
        }
    }
    Some(f64::midpoint(a, b).exp())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Rng;
    use super::*;

    /// Half an hour at one reading in five seconds, rounded as the board's sensor rounds (0.487 degrees).
    fn half_an_hour(start: f64, end: f64, time_constant: f64) -> Vec<TemperatureReading> {
        let truth = ThermalFit {
            start,
            end,
            time_constant,
            error: 0.0,
            seen: 1.0,
        };
        (0..360)
            .map(|step| f64::from(step) * 5.0)
            .map(|seconds| TemperatureReading {
                seconds,
                celsius: (truth.at(seconds) / 0.487).round() * 0.487,
            })
            .collect()
    }

    /// Study C saw "no plateau" in 30 minutes. Its curve, read off its chart, ends at 65.8 degrees with
    /// a time constant of 660 s, and the board throttles at 80.
    #[test]
    fn study_c_had_levelled_off_and_would_never_have_throttled() {
        let fit = ThermalFit::of(&half_an_hour(42.0, 65.8, 660.0)).unwrap();
        assert!((fit.end - 65.8).abs() < 0.2, "{fit:?}");
        assert!((fit.time_constant - 660.0).abs() < 20.0, "{fit:?}");
        assert!(fit.is_levelling() && fit.seen > 0.9);
        let Reach::Never { margin } = fit.reaches(80.0) else {
            panic!("{fit:?}");
        };
        assert!((margin - 14.2).abs() < 0.2);
    }

    #[test]
    fn without_its_heat_sink_the_minute_of_throttling_is_predicted() {
        let fit = ThermalFit::of(&half_an_hour(45.0, 95.0, 300.0)).unwrap();
        let Reach::After { seconds } = fit.reaches(80.0) else {
            panic!("{fit:?}");
        };
        // ln(50 / 15) time constants.
        assert!((seconds - 361.2).abs() < 5.0, "{seconds}");
    }

    #[test]
    fn a_minute_of_a_slow_curve_does_not_predict_its_end() {
        let mut readings = half_an_hour(42.0, 65.8, 660.0);
        readings.truncate(24);
        let fit = ThermalFit::of(&readings).unwrap();
        assert!(!fit.is_levelling(), "{fit:?}");
        assert_eq!(fit.reaches(80.0), Reach::CannotTell);
    }

    #[test]
    fn a_temperature_that_stays_is_its_own_end() {
        let fit = ThermalFit::of(&half_an_hour(50.0, 50.0, 660.0)).unwrap();
        assert!((fit.end - 50.0).abs() < 0.5 && fit.time_constant == 0.0);
        assert!(matches!(fit.reaches(80.0), Reach::Never { .. }));
        assert_eq!(fit.reaches(40.0), Reach::After { seconds: 0.0 });
    }

    #[test]
    fn too_few_readings_or_all_at_once_give_no_curve() {
        assert_eq!(
            ThermalFit::of(&half_an_hour(42.0, 65.8, 660.0)[..READINGS_MIN - 1]),
            None
        );
        let at_once = [TemperatureReading {
            seconds: 1.0,
            celsius: 50.0,
        }; 20];
        assert_eq!(ThermalFit::of(&at_once), None);
    }

    proptest! {
        #[test]
        fn a_curve_with_noise_is_found_again(
            start in 20.0f64..50.0, rise in 8.0f64..50.0, time_constant in 60.0f64..900.0, seed in any::<u64>()
        ) {
            let mut rng = Rng::new(seed);
            let mut readings = half_an_hour(start, start + rise, time_constant);
            for reading in &mut readings {
                reading.celsius += rng.below(101) as f64 / 100.0 - 0.5;
            }
            let fit = ThermalFit::of(&readings).unwrap();
            prop_assert!((fit.end - start - rise).abs() < 1.0, "{:?}", fit);
            prop_assert!((fit.time_constant / time_constant - 1.0).abs() < 0.2, "{:?}", fit);
        }

        #[test]
        fn a_temperature_is_reached_when_it_is_said(
            start in 20.0f64..50.0, rise in 8.0f64..50.0, time_constant in 60.0f64..900.0, part in 0.05f64..0.95
        ) {
            let fit = ThermalFit { start, end: start + rise, time_constant, error: 0.0, seen: 1.0 };
            let wanted = start + rise * part;
            let Reach::After { seconds } = fit.reaches(wanted) else { panic!() };
            prop_assert!((fit.at(seconds) - wanted).abs() < 1e-6);
        }
    }
}
