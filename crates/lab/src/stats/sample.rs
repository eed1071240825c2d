//! What the blocks of a run say of the median that they are samples of. Pure.
//!
//! Invariants: values are in the order of their blocks; positive ones are taken as logarithms, so that
//! an interval of rates or ratios has no end below zero and that of the inverse is the inverse interval.

use std::f64::consts::FRAC_PI_2;

use super::student;
use super::{Interval, VALUES_MIN, median};

/// The greatest correlation of neighbours that an interval is widened for: few blocks estimate it badly.
const CORRELATION_MAX: f64 = 0.8;

/// Values with their spread.
#[derive(Debug, Clone)]
pub(super) struct BlockSample {
    range: ValueRange,
    /// On the scale that is computed on, as is what follows.
    mean: f64,
    middle: f64,
    /// Of the mean, neighbours' correlation included.
    variance: f64,
    /// The same with what so few values show too little of that correlation.
    corrected_variance: f64,
}

/// Where values lie, in their unit, and how many there are.
#[derive(Debug, Clone)]
struct ValueRange {
    /// Whether their logarithms are what is computed on.
    is_log: bool,
    median: f64,
    least: f64,
    greatest: f64,
    n: usize,
}

impl BlockSample {
    /// None of nothing.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let is_log = values.iter().all(|value| *value > 0.0);
        let scaled: Vec<f64> = match is_log {
            true => values.iter().map(|value| value.ln()).collect(),
            false => values.to_vec(),
        };
        let n = values.len();
        let mean = scaled.iter().sum::<f64>() / n as f64;
        let (variance, corrected_variance) = variances_of_mean(&scaled, mean);
        Some(Self {
            range: ValueRange {
                is_log,
                median: median(values)?,
                least: values.iter().copied().fold(f64::INFINITY, f64::min),
                greatest: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                n,
            },
            mean,
            middle: median(&scaled)?,
            variance,
            corrected_variance,
        })
    }

    /// The median, and the mean (of logarithms: the geometric one) with so much error: Student's t. Of
    /// too few values the ends are the least and the greatest, and no confidence interval.
    pub(super) fn center(&self, error: f64) -> Interval {
        let width = || student::two_sided(error, self.range.n - 1) * self.variance.sqrt();
        self.range.around(self.mean, width)
    }

    /// The median, and where that of as many more values lies with so much error: two medians differ, each
    /// of which has π/2 times the variance of a mean.
    pub(super) fn repetition(&self, error: f64) -> Interval {
        let variance = 2.0 * self.median_variance();
        let width = || student::two_sided(error, self.range.n - 1) * variance.sqrt();
        self.range.around(self.middle, width)
    }

    /// The ratio of both medians with so much error (Welch), of positive values.
    pub(super) fn over(&self, other: &Self, error: f64) -> Interval {
        let (one, two) = (self.median_variance(), other.median_variance());
        let variance = one + two;
        let (above, below) = (&self.range, &other.range);
        let ratio = ValueRange {
            is_log: true,
            median: above.median / below.median,
            least: above.least / below.greatest,
            greatest: above.greatest / below.least,
            n: above.n.min(below.n),
        };
        let width = || {
            let of = |part: f64, n: usize| part * part / (n - 1) as f64;
            let parts = of(one, above.n) + of(two, below.n);
            let welch = match parts > 0.0 {
                true => variance * variance / parts,
                false => 1.0,
            };
            let freedom = usize::try_from(crate::units::round(welch.floor())).unwrap_or(1);
            student::two_sided(error, freedom.max(1)) * variance.sqrt()
        };
        ratio.around(self.middle - other.middle, width)
    }

    /// Of values of any shape that is not pointed around its middle, it is at most that of a normal one.
    fn median_variance(&self) -> f64 {
        self.corrected_variance * FRAC_PI_2
    }
}

impl ValueRange {
    /// `width` on both sides of `center`, and as far as the median.
    fn around(&self, center: f64, width: impl Fn() -> f64) -> Interval {
        let back = |value: f64| match self.is_log {
            true => value.exp(),
            false => value,
        };
        let (low, high) = match self.n < VALUES_MIN {
            true => (self.least, self.greatest),
            false => {
                let width = width();
                (back(center - width), back(center + width))
            }
        };
        Interval {
            median: self.median,
            low: low.min(self.median),
            high: high.max(self.median),
            n: self.n,
        }
    }
}

/// The variance of the mean of values each of which is correlated with the one before it: (1 + r) / (1 - r)
/// times that of independent ones. A negative r is taken as none, it is chance more often than not. The second one is corrected:
/// its r is (1 + 3r) / n more, by which so few values show too little of it (Marriott and Pope 1954, Kendall 1954).
fn variances_of_mean(values: &[f64], mean: f64) -> (f64, f64) {
    let n = values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if squares <= 0.0 || values.len() < 2 {
        return (0.0, 0.0);
    }
    let products = values.windows(2);
    let products: f64 = products
        .map(|pair| (pair[0] - mean) * (pair[1] - mean))
        .sum();
    let found = (products / squares).max(0.0);
    let with = |bias: f64| {
        let correlation = (found + bias).min(CORRELATION_MAX);
        squares / (n - 1.0) / n * (1.0 + correlation) / (1.0 - correlation)
    };
    (with(0.0), with((1.0 + 3.0 * found) / n))
}
