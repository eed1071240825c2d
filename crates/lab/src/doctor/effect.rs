//! [`Effect`]: whether replacing a part changed the result. Pure.
//!
//! # Invariants
//!
//! * A difference of a few percent counts only if it was measured in pairs: the target and its substitute one after
//!   the other, [`PAIRS_MIN`] times or more. What lies within their scatter is [`Effect::Unclear`]; [`PAIRS_MAX`] pairs may
//!   still decide it, with a wider interval, since they are a second look.
//! * Pairs that contradict the measurements before them, which took longer, decide only a gain of [`CONTRADICTED_MAX`] or
//!   more: one measurement in a disturbance takes back no gain that all pairs show.
//! * Without pairs only a result that is far from the target's counts.
//!
//! # What it does not do
//!
//! It draws no conclusion about parts: see [`super::verdict`].

use super::verdict::NEAR;
use super::{Examination, Stage, Substitution};

/// Pairs below this say nothing of their scatter.
pub const PAIRS_MIN: usize = 3;
/// Where [`PAIRS_MIN`] leave it open, so many are measured in all.
pub const PAIRS_MAX: usize = 5;
/// Without pairs: this many times the target's best is another result.
const MOVED_ALONE: f64 = 1.4;
/// Without pairs: the same for a target that is [`STEADY`].
const MOVED_STEADY: f64 = 1.2;
/// Of a steady target, the best result is at most so many times the middle one.
const STEADY: f64 = 1.06;
/// Without pairs: below this many times the target's middle is the same result.
const STILL_ALONE: f64 = 1.03;
/// A result from here on may be faster, as the target was by chance.
const CLOSE: f64 = 0.98;
/// Below this many times the target's, the substitute has a limit of its own.
const SLOWER: f64 = 0.85;
/// With pairs: a gain of more than this is a gain.
const GAIN_MIN: f64 = 1.02;
/// With pairs: a gain of less than this is none. The closest two limits that are distinguished are 5 % apart.
const GAIN_NONE: f64 = 1.035;
/// A gain in pairs from here on is one, also where the longer measurements are the other way round.
const CONTRADICTED_MAX: f64 = 1.1;
/// One-sided 95 % of Student's t with two degrees of freedom, over the root of three: in units of the scatter.
const INTERVAL: f64 = 1.69;
/// One-sided 97.5 % of Student's t with four degrees of freedom, over the root of five.
const INTERVAL_OF_MORE: f64 = 1.24;

/// Three results may agree by chance; no throughput is measured more precisely than this.
const SCATTER_MIN: f64 = 0.012;

/// What a substitution did to the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It is faster: what limits the target was replaced.
    Moved,
    /// It is as fast: what limits the target was not replaced.
    Still,
    /// It is slower, for reasons of its own.
    Slower,
    /// The measurements do not decide it.
    Unclear,
}

impl Effect {
    pub(super) fn of(examination: &Examination, sub: &Substitution) -> Self {
        if sub.pairs.len() < PAIRS_MIN {
            return Self::of_one(examination, sub);
        }
        match Self::of_pairs(&sub.pairs) {
            Self::Moved if is_contradicted(examination, sub) => Self::Unclear,
            effect => effect,
        }
    }

    fn of_one(examination: &Examination, sub: &Substitution) -> Self {
        let (rate, best) = (examination.rate.0, examination.best.0);
        let moved = match best {
            best if best > 0.0 && best <= rate * STEADY => MOVED_STEADY,
            _ => MOVED_ALONE,
        };
        match sub.rate.0 {
            then if then >= rate.max(best) * moved => Self::Moved,
            then if then < rate * SLOWER => Self::Slower,
            then if then < rate * STILL_ALONE => Self::Still,
            _ => Self::Unclear,
        }
    }

    fn of_pairs(ratios: &[f64]) -> Self {
        let count = ratios.len() as f64;
        let mean = mean_log(ratios);
        let logs = ratios.iter().map(|ratio| ratio.max(1e-9).ln());
        let squares: f64 = logs.map(|log| (log - mean).powi(2)).sum();
        let scatter = (squares / (count - 1.0)).sqrt().max(SCATTER_MIN);
        let interval = match ratios.len() < PAIRS_MAX {
            true => INTERVAL,
            false => INTERVAL_OF_MORE,
        };
        let (low, high) = (mean - scatter * interval, mean + scatter * interval);
        match () {
            () if low > GAIN_MIN.ln() => Self::Moved,
            () if high < SLOWER.ln() => Self::Slower,
            () if high < GAIN_NONE.ln() => Self::Still,
            () => Self::Unclear,
        }
    }
}

/// Whether the measurements before the pairs, which took longer, show the opposite of a gain that is small.
fn is_contradicted(examination: &Examination, sub: &Substitution) -> bool {
    let gain = mean_log(&sub.pairs).exp();
    sub.rate.0 < examination.rate.0 && gain < CONTRADICTED_MAX
}

fn mean_log(ratios: &[f64]) -> f64 {
    let logs = ratios.iter().map(|ratio| ratio.max(1e-9).ln());
    logs.sum::<f64>() / ratios.len() as f64
}

/// Whether pairs would decide what one result does not.
#[must_use]
pub fn needs_pairs(examination: &Examination, sub: &Substitution) -> bool {
    let least = match sub.sure {
        true => CLOSE,
        // Only a gain says something.
        false => STILL_ALONE,
    };
    let is_close = sub.rate.0 >= examination.rate.0 * least;
    let effect = Effect::of_one(examination, sub);
    let is_open = sub.pairs.is_empty() && is_close && effect != Effect::Moved;
    is_open && (sub.replaced != [Stage::Queue] || queue_may_limit(examination))
}

/// Whether [`PAIRS_MAX`] pairs may decide what the first ones did not.
#[must_use]
pub fn needs_more_pairs(sub: &Substitution) -> bool {
    let is_between = (PAIRS_MIN..PAIRS_MAX).contains(&sub.pairs.len());
    is_between && Effect::of_pairs(&sub.pairs) == Effect::Unclear
}

/// Whether as many requests as there are may carry no more than the target, or nothing is known of that: only then do more
/// of them say something.
#[must_use]
pub fn queue_may_limit(examination: &Examination) -> bool {
    let bounds = examination.bounds.iter();
    let mut bounds = bounds.filter(|bound| bound.part == Stage::Queue);
    bounds.all(|bound| examination.rate.0 >= bound.rate.0 * NEAR)
}
