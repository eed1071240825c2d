//! Statistics: medians with bootstrap intervals, differences paired by block, verdicts; and the models
//! that are fitted to sweeps and curves.
//!
//! | module | answers |
//! |---|---|
//! | here, [`compare()`] | how much, how sure, and is it faster? |
//! | [`steady`] | has it settled? |
//! | [`thermal`] | where does the temperature end, and does it throttle before? |
//! | [`block_size`] | what does a request cost, what a byte? |
//! | [`knee`] | how many in flight are enough? |
//! | [`effects`] | is it the drive or the slot? |
//!
//! Invariants: everything is a pure function of its numbers and a seed, so a report is the same each
//! time it is drawn. A median of few values is not assumed to be normal: intervals come from resampled
//! medians.
//!
//! Source of the method: the percentile bootstrap (Efron, 1979) of the median; pairing by block takes
//! out what drifts over a run and affects both targets equally. That an interval of 95 % holds a repetition's
//! result in 83 % of the cases only: Cumming and Maillardet, Psychological Methods 11 (2006).

pub mod block_size;
mod compare;
pub mod effects;
pub mod knee;
pub mod line;
mod rng;
pub mod steady;
pub mod thermal;

pub use compare::{Comparison, Verdict, compare};
pub(crate) use compare::{SAME_WITHIN, compare_unpaired};
pub use rng::Rng;

use serde::{Deserialize, Serialize};

/// Resamples per interval: the ends of a 95 % interval then rest on 50 values each.
const RESAMPLES: usize = 2000;

/// The fewest values that give a 95 % interval of a median: the range of four misses it in one of eight cases.
pub(crate) const VALUES_MIN: usize = 5;

/// A median with its 95 % interval: of the median itself ([`interval`]), or of a repetition's
/// ([`repeat_interval`]).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The middle value.
    pub median: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Of how many values.
    pub n: usize,
}

impl Interval {
    /// Whether there are enough values for an interval to be printed.
    #[must_use]
    pub(crate) const fn is_known(&self) -> bool {
        self.n >= VALUES_MIN
    }

    /// The larger distance from the median to an end, as a part of the median.
    #[must_use]
    pub(crate) fn relative_half_width(&self) -> f64 {
        if self.median == 0.0 {
            return f64::INFINITY;
        }
        (self.high - self.median).max(self.median - self.low) / self.median.abs()
    }
}

/// The middle value, or the mean of the two in the middle; none of nothing.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(sorted[sorted.len() / 2 - 1], upper))
}

/// The median of `values` and where it lies with 95 % confidence; none of nothing. One value has an
/// interval of no width, so look at `n`.
#[must_use]
pub(crate) fn interval(values: &[f64], seed: u64) -> Option<Interval> {
    let median = median(values)?;
    let (low, high) = ends(resampled(values, &mut Rng::new(seed)));
    Some(Interval {
        median,
        low,
        high,
        n: values.len(),
    })
}

/// The median of `values` and where the median of as many more of their kind lies with 95 %
/// confidence; none of nothing. Wider than [`interval`] by about the root of two: the repetition has
/// its chance too. It takes the distance of two resampled medians, as a ratio where all values are
/// positive and so are their medians.
#[must_use]
pub(crate) fn repeat_interval(values: &[f64], seed: u64) -> Option<Interval> {
    let median = median(values)?;
    let mut rng = Rng::new(seed);
    let pairs = resampled(values, &mut rng)
        .into_iter()
        .zip(resampled(values, &mut rng));
    let elsewhere: Vec<f64> = if values.iter().all(|value| *value > 0.0) {
        pairs.map(|(one, other)| median * (one / other)).collect()
    } else {
        pairs.map(|(one, other)| median + (one - other)).collect()
    };
    let (low, high) = ends(elsewhere);
    Some(Interval {
        median,
        low,
        high,
        n: values.len(),
    })
}

/// Medians of [`RESAMPLES`] samples drawn from `values` with replacement.
fn resampled(values: &[f64], rng: &mut Rng) -> Vec<f64> {
    let mut sample = vec![0.0; values.len()];
    let draw = |_| {
        for slot in &mut sample {
            *slot = values[rng.below(values.len())];
        }
        sample.sort_by(f64::total_cmp);
        median_of_sorted(&sample)
    };
    (0..RESAMPLES).filter_map(draw).collect()
}

/// Between which 95 % of [`RESAMPLES`] values lie.
fn ends(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let cut = RESAMPLES / 40;
    (values[cut], values[RESAMPLES - 1 - cut])
}

#[cfg(test)]
mod tests;
