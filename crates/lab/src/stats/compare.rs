//! Two targets compared: the ratio of each block's pair, its interval, and the verdict.

use serde::{Deserialize, Serialize};

use super::sample::BlockSample;
use super::{ERROR, Interval, VALUES_MIN};

/// Two results are called the same when the whole interval of their ratio is within this of one.
pub(crate) const SAME_WITHIN: f64 = 0.03;

/// A verdict on a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval is above one.
    Faster,
    /// The whole interval is below one.
    Slower,
    /// The whole interval is within [`SAME_WITHIN`] of one.
    Same,
    /// None of these; about so many blocks more would decide.
    CannotTell {
        /// An estimate from how intervals narrow with the root of their number.
        blocks_more: u32,
    },
}

/// A ratio and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// First over second: the median, and an interval that is the wider the more was compared together.
    pub ratio: Interval,
    /// The verdict.
    pub verdict: Verdict,
}

/// Compares by the ratios first/second of each block in which both were measured, in their order. None
/// without a pair; ratios that are not positive numbers are left out.
#[must_use]
pub fn compare(ratios: &[f64]) -> Option<Comparison> {
    compare_family(std::slice::from_ref(&ratios)).pop()?
}

/// Compares several by their ratios, as [`compare()`] does. All verdicts together call a ratio of one faster or
/// slower in at most 5 % of all families.
#[must_use]
pub(crate) fn compare_family<T: AsRef<[f64]>>(ratios: &[T]) -> Vec<Option<Comparison>> {
    let samples = ratios.iter().map(|ratios| usable(ratios.as_ref()));
    let samples: Vec<Option<BlockSample>> = samples.collect();
    step_down(samples.len(), &|index, error| {
        Some(samples.get(index)?.as_ref()?.center(error))
    })
}

/// Compares pairs of sets of figures that are not paired by block, of two runs: the ratio of their medians. `n`
/// is the smaller number of the two. None without figures; those that are not positive numbers are left out.
/// The verdicts together are a family, as in [`compare_family`].
#[must_use]
pub(crate) fn compare_unpaired(pairs: &[(Vec<f64>, Vec<f64>)]) -> Vec<Option<Comparison>> {
    let samples = pairs
        .iter()
        .map(|(first, second)| Some((usable(first)?, usable(second)?)));
    let samples: Vec<Option<(BlockSample, BlockSample)>> = samples.collect();
    step_down(samples.len(), &|index, error| {
        let (first, second) = samples.get(index)?.as_ref()?;
        Some(first.over(second, error))
    })
}

fn usable(values: &[f64]) -> Option<BlockSample> {
    let values = values.iter().copied();
    let values: Vec<f64> = values
        .filter(|value| value.is_finite() && *value > 0.0)
        .collect();
    BlockSample::of(&values)
}

/// Holm's procedure with intervals: each has the error of all over the number that is still open. What excludes
/// one is decided, and leaves more error for the rest. What has too few values for an interval is decided by
/// none, and takes no error from the others.
fn step_down(count: usize, at: &dyn Fn(usize, f64) -> Option<Interval>) -> Vec<Option<Comparison>> {
    let mut found: Vec<Option<Interval>> = (0..count).map(|index| at(index, ERROR)).collect();
    let mut open: Vec<usize> = (0..count)
        .filter(|index| found[*index].is_some_and(|ratio| ratio.is_known()))
        .collect();
    loop {
        let before = open.len();
        let error = ERROR / before.max(1) as f64;
        for index in &open {
            found[*index] = at(*index, error);
        }
        open.retain(|index| found[*index].is_some_and(|ratio| ratio.contains(1.0)));
        if open.is_empty() || open.len() == before {
            break;
        }
    }
    let compared = found.into_iter().map(|ratio| {
        let ratio = ratio?;
        Some(Comparison {
            ratio,
            verdict: verdict(&ratio),
        })
    });
    compared.collect()
}

fn verdict(ratio: &Interval) -> Verdict {
    if !ratio.is_known() {
        let missing = VALUES_MIN - ratio.n;
        return Verdict::CannotTell {
            blocks_more: u32::try_from(missing).unwrap_or(u32::MAX),
        };
    }
    if ratio.low >= 1.0 - SAME_WITHIN && ratio.high <= 1.0 + SAME_WITHIN {
        Verdict::Same
    } else if ratio.low > 1.0 {
        Verdict::Faster
    } else if ratio.high < 1.0 {
        Verdict::Slower
    } else {
        Verdict::CannotTell {
            blocks_more: blocks_more(ratio),
        }
    }
}

/// Widths fall with the root of n: how many more until the interval leaves one, or fits around it.
fn blocks_more(ratio: &Interval) -> u32 {
    let wanted = (ratio.median - 1.0).abs().max(SAME_WITHIN);
    let width = (ratio.high - ratio.median).max(ratio.median - ratio.low);
    let needed = ratio.n as f64 * (width / wanted).powi(2);
    let more = crate::units::round((needed - ratio.n as f64).ceil()).max(1);
    u32::try_from(more).unwrap_or(u32::MAX)
}
