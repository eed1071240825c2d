//! Two targets compared: the ratio of each block's pair, its interval, and the verdict.

use serde::{Deserialize, Serialize};

use super::{Interval, VALUES_MIN, interval};

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
    /// First over second, paired by block.
    pub ratio: Interval,
    /// The verdict.
    pub verdict: Verdict,
}

/// Compares by the ratios first/second of each block in which both were measured. None without a
/// pair; ratios that are not positive numbers are left out.
#[must_use]
pub fn compare(ratios: &[f64], seed: u64) -> Option<Comparison> {
    let ratios: Vec<f64> = ratios
        .iter()
        .copied()
        .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
        .collect();
    let ratio = interval(&ratios, seed)?;
    Some(Comparison {
        ratio,
        verdict: verdict(&ratio),
    })
}

/// Compares two sets of figures that have no pairs, of two runs: the ratio of their medians, with the
/// interval that resampling each of them gives (percentile bootstrap of two samples). `n` is the smaller
/// number of the two. None without figures; those that are not positive numbers are left out.
#[must_use]
pub(crate) fn compare_unpaired(first: &[f64], second: &[f64], seed: u64) -> Option<Comparison> {
    let usable = |values: &[f64]| -> Vec<f64> {
        let all = values.iter().copied();
        all.filter(|value| value.is_finite() && *value > 0.0)
            .collect()
    };
    let (first, second) = (usable(first), usable(second));
    let median = super::median(&first)? / super::median(&second)?;
    let mut rng = super::Rng::new(seed);
    let mut ratios: Vec<f64> = (0..super::RESAMPLES)
        .filter_map(|_| Some(resampled(&first, &mut rng)? / resampled(&second, &mut rng)?))
        .collect();
    ratios.sort_by(f64::total_cmp);
    let cut = super::RESAMPLES / 40;
    let ratio = Interval {
        median,
        low: *ratios.get(cut)?,
        high: *ratios.get(ratios.len().checked_sub(1 + cut)?)?,
        n: first.len().min(second.len()),
    };
    Some(Comparison {
        ratio,
        verdict: verdict(&ratio),
    })
}

/// The median of as many values drawn from `values`.
fn resampled(values: &[f64], rng: &mut super::Rng) -> Option<f64> {
    let drawn: Vec<f64> = values
        .iter()
        .map(|_| values[rng.below(values.len())])
        .collect();
    super::median(&drawn)
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
