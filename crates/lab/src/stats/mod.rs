//! Statistics: medians with intervals, differences paired by block, verdicts; and the models
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
//! Invariants: everything is a pure function of its numbers (and of a seed where it shuffles), so a report
//! is the same each time it is drawn. An interval of few values has the width that few values require.
//!
//! Sources of the method: intervals by Student's t (1908) of logarithms, widened by the correlation of
//! neighbouring blocks, which is corrected for their number (Marriott and Pope 1954); those of a median by its
//! variance, π/2 times that of a mean; two runs by Welch (1947); the verdicts of a run together by Holm (1979).
//! Pairing by block takes out what drifts over a run and affects both targets equally. Why, with the rates that were measured: `docs/adr/0012-intervals-of-figures.md`.

pub mod block_size;
mod compare;
pub mod effects;
pub mod knee;
pub mod line;
mod rng;
mod sample;
pub mod steady;
mod student;
pub mod thermal;

pub use compare::{Comparison, Verdict, compare};
pub(crate) use compare::{SAME_WITHIN, compare_family, compare_unpaired};
pub use rng::Rng;

use serde::{Deserialize, Serialize};

/// How often an interval, or the verdicts of one family together, may be wrong.
const ERROR: f64 = 0.05;

/// The fewest values that an interval is given for: the spread of fewer is hardly known.
pub(crate) const VALUES_MIN: usize = 5;

/// A median with its 95 % interval: of a repetition's median ([`repeat_interval`]), or of a ratio
/// ([`Comparison`]). Of fewer than five values the ends are the least and the greatest.
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

    /// Whether `value` is within it.
    #[must_use]
    pub(crate) fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
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

/// The median of `values`, which are in the order of their blocks, and where the median of as many more
/// of their kind lies with 95 % confidence; none of nothing. One value has an interval of no width, so look
/// at `n`.
#[must_use]
pub(crate) fn repeat_interval(values: &[f64]) -> Option<Interval> {
    Some(sample::BlockSample::of(values)?.repetition(ERROR))
}

#[cfg(test)]
mod tests;
