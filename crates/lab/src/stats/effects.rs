//! Two factors that were varied together: how much each of them explains, and whether that is more
//! than chance. Study D's question: is a drive slow, or the slot it is in?
//!
//! Values are taken as logarithms, so effects are ratios. Each factor is judged by what it explains
//! beyond the other one; its p-value is that of a permutation test: what is left after the other factor
//! is shuffled, and how often that gives as large an effect. Source: Freedman and Lane (1983). No
//! distribution is assumed, and no level needs to meet every other one.

use serde::{Deserialize, Serialize};

use super::Rng;
use super::line::{basis, project, squares_outside};

/// An effect that chance gives more often than this is not distinguishable from chance.
pub(crate) const P_MAX: f64 = 0.05;
/// Shuffles for one p-value; its resolution is one over this.
const SHUFFLES: u32 = 1999;
/// The most levels of a factor.
const LEVELS_MAX: usize = 64;

/// One value and where it was seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Level of the first factor (which drive).
    pub first: usize,
    /// Level of the second factor (which slot).
    pub second: usize,
    /// What was measured; above zero.
    pub value: f64,
}

/// What a factor does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Independent differences between levels that could be separated from the other factor.
    pub differences: usize,
    /// The part of all variation that it alone explains.
    pub share: f64,
    /// The largest ratio between levels that stood in the same level of the other factor.
    pub ratio: f64,
    /// How often chance gives as much.
    pub p: f64,
}

impl Effect {
    /// Whether it is more than chance.
    #[must_use]
    pub(crate) fn is_distinguishable(&self) -> bool {
        self.differences > 0 && self.p <= P_MAX
    }
}

/// Both factors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TwoFactors {
    /// Of the first factor.
    pub first: Effect,
    /// Of the second factor.
    pub second: Effect,
    /// Differences that may be either factor's: levels that never met.
    pub confounded: usize,
    /// What is left: the typical ratio of a value to what both factors give for it.
    pub noise: f64,
}

/// Judges two factors. None where a value is no positive number, where there is only one level of
/// each, or where nothing is left to judge by: each difference needs another value.
#[must_use]
pub(crate) fn two_factors(observations: &[Observation], seed: u64) -> Option<TwoFactors> {
    let usable = observations
        .iter()
        .all(|seen| seen.value.is_finite() && seen.value > 0.0);
    let levels = |level: fn(&Observation) -> usize| {
        let mut found: Vec<usize> = observations.iter().map(level).collect();
        found.sort_unstable();
        found.dedup();
        found
    };
    let (firsts, seconds) = (levels(|seen| seen.first), levels(|seen| seen.second));
    if !usable || firsts.len() > LEVELS_MAX || seconds.len() > LEVELS_MAX {
        return None;
    }
    let columns = |levels: &[usize], level: fn(&Observation) -> usize| -> Vec<Vec<f64>> {
        levels
            .iter()
            .map(|one| {
                observations
                    .iter()
                    .map(|seen| f64::from(u8::from(level(seen) == *one)))
                    .collect()
            })
            .collect()
    };
    let a = columns(&firsts, |seen| seen.first);
    let b = columns(&seconds, |seen| seen.second);
    let both = Spaces {
        values: observations.iter().map(|seen| seen.value.ln()).collect(),
        full: basis(a.iter().chain(&b).cloned()),
    };
    let (only_a, only_b) = (basis(a), basis(b));
    let left = both.values.len().checked_sub(both.full.len())?;
    if left == 0 || both.full.len() < 2 {
        return None;
    }
    let outside = squares_outside(&both.values, &both.full);
    Some(TwoFactors {
        first: both.effect(&only_b, seed),
        second: both.effect(&only_a, seed.wrapping_add(1)),
        confounded: (only_a.len() + only_b.len() - 1).saturating_sub(both.full.len()),
        noise: (outside / left as f64).sqrt().exp(),
    })
}

/// The values, and everything that both factors together can explain.
struct Spaces {
    values: Vec<f64>,
    full: Vec<Vec<f64>>,
}

impl Spaces {
    /// What the factor does that is not in `other`.
    fn effect(&self, other: &[Vec<f64>], seed: u64) -> Effect {
        let base = project(&self.values, other);
        let whole = project(&self.values, &self.full);
        let own: Vec<f64> = whole.iter().zip(&base).map(|(a, b)| a - b).collect();
        let mean = self.values.iter().sum::<f64>() / self.values.len() as f64;
        let variation: f64 = self.values.iter().map(|value| (value - mean).powi(2)).sum();
        let squares: f64 = own.iter().map(|value| value * value).sum();
        let most = own.iter().copied().fold(f64::MIN, f64::max);
        let least = own.iter().copied().fold(f64::MAX, f64::min);
        Effect {
            differences: self.full.len() - other.len(),
            share: if variation > 0.0 {
                squares / variation
            } else {
                0.0
            },
            ratio: (most - least).exp(),
            p: self.chance(&base, other, seed),
        }
    }

    /// Explained over left, which is larger the better the factor explains.
    fn statistic(&self, values: &[f64], other: &[Vec<f64>]) -> f64 {
        let left = squares_outside(values, &self.full);
        let explained = squares_outside(values, other) - left;
        explained / left.max(f64::MIN_POSITIVE)
    }

    fn chance(&self, base: &[f64], other: &[Vec<f64>], seed: u64) -> f64 {
        // A shuffle that changes nothing must not lose by its last digit.
        const SAME: f64 = 1.0 - 1e-9;
        let seen = self.statistic(&self.values, other) * SAME;
        let mut rest: Vec<f64> = self.values.iter().zip(base).map(|(a, b)| a - b).collect();
        let mut rng = Rng::new(seed);
        let mut as_large = 1u32;
        for _ in 0..SHUFFLES {
            rng.shuffle(&mut rest);
            let values: Vec<f64> = base.iter().zip(&rest).map(|(a, b)| a + b).collect();
            if self.statistic(&values, other) >= seen {
                as_large += 1;
            }
        }
        f64::from(as_large) / f64::from(SHUFFLES + 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Rng;
    use super::*;

    fn seen(first: usize, second: usize, value: f64) -> Observation {
        Observation {
            first,
            second,
            value,
        }
    }

    /// Four drives in four slots, then in the opposite order.
    fn study_d() -> Vec<Observation> {
        let there = [2.365, 2.387, 1.929, 3.929];
        let back = [3.730, 1.934, 2.386, 2.351];
        let there = there
            .into_iter()
            .enumerate()
            .map(|(slot, rate)| seen(slot, slot, rate));
        let back = back
            .into_iter()
            .enumerate()
            .map(|(slot, rate)| seen(3 - slot, slot, rate));
        there.chain(back).collect()
    }

    #[test]
    fn study_d_has_a_large_effect_of_the_drive_and_none_of_the_slot_that_differs_from_chance() {
        let found = two_factors(&study_d(), 1).unwrap();
        assert!(found.first.is_distinguishable(), "{found:?}");
        assert!(found.first.ratio > 1.5, "{found:?}");
        assert!(!found.second.is_distinguishable(), "{found:?}");
        assert!(found.second.ratio < 1.05, "{found:?}");
        assert!(found.first.share > 100.0 * found.second.share, "{found:?}");
    }

    /// The outer two drives only ever stood in the outer two slots: whether they differ from the inner
    /// two by drive or by slot, this experiment cannot say.
    #[test]
    fn study_d_left_one_difference_that_may_be_either() {
        let found = two_factors(&study_d(), 1).unwrap();
        assert_eq!(
            (
                found.first.differences,
                found.second.differences,
                found.confounded
            ),
            (2, 2, 1)
        );
    }

    #[test]
    fn one_level_or_nothing_left_to_judge_by_says_nothing() {
        assert_eq!(two_factors(&[], 1), None);
        assert_eq!(two_factors(&[seen(0, 0, 1.0), seen(0, 0, 1.1)], 1), None);
        assert_eq!(two_factors(&[seen(0, 0, 1.0), seen(1, 1, 2.0)], 1), None);
        assert_eq!(two_factors(&[seen(0, 0, 0.0); 9], 1), None);
    }

    /// Each of four drives in each of four slots.
    fn square(drives: [f64; 4], slots: [f64; 4], noise: f64, seed: u64) -> Vec<Observation> {
        let mut rng = Rng::new(seed);
        let mut values = Vec::new();
        for (first, drive) in drives.into_iter().enumerate() {
            for (second, slot) in slots.into_iter().enumerate() {
                let error = 1.0 + noise * (rng.below(2001) as f64 / 1000.0 - 1.0);
                values.push(seen(first, second, drive * slot * error));
            }
        }
        values
    }

    #[test]
    fn a_slow_slot_is_distinguished_from_slow_drives() {
        let found = two_factors(
            &square([1.0, 1.5, 2.0, 3.0], [1.0, 1.0, 0.7, 1.0], 0.03, 9),
            1,
        )
        .unwrap();
        assert!(found.first.is_distinguishable() && found.second.is_distinguishable());
        assert!((found.second.ratio - 1.0 / 0.7).abs() < 0.15, "{found:?}");
        assert_eq!(found.confounded, 0);
    }

    /// Of a factor that does nothing, one in twenty seems an effect, and not many more.
    #[test]
    fn a_factor_that_does_nothing_seldom_differs_from_chance() {
        let wrong = (0..60u64)
            .filter(|seed| {
                let values = square([1.0, 1.5, 2.0, 3.0], [1.0; 4], 0.05, *seed);
                two_factors(&values, *seed)
                    .unwrap()
                    .second
                    .is_distinguishable()
            })
            .count();
        assert!(wrong <= 8, "{wrong} of 60");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn the_unit_does_not_matter_and_turned_round_the_factors_change_places(
            seed in any::<u64>(), unit in 1e-3f64..1e6
        ) {
            let values = square([1.0, 1.4, 2.0, 2.2], [1.0, 1.1, 0.9, 1.0], 0.05, seed);
            let plain = two_factors(&values, 5).unwrap();
            let scaled: Vec<Observation> =
                values.iter().map(|one| seen(one.first, one.second, one.value * unit)).collect();
            let scaled = two_factors(&scaled, 5).unwrap();
            prop_assert!((plain.first.share - scaled.first.share).abs() < 1e-9);
            prop_assert!((plain.first.ratio - scaled.first.ratio).abs() < 1e-9);
            let turned: Vec<Observation> =
                values.iter().map(|one| seen(one.second, one.first, one.value)).collect();
            let turned = two_factors(&turned, 5).unwrap();
            prop_assert!((plain.first.share - turned.second.share).abs() < 1e-9);
            prop_assert!((plain.second.ratio - turned.first.ratio).abs() < 1e-9);
        }
    }
}
