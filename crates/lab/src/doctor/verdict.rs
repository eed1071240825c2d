//! [`diagnose`]: from an examination to the bottleneck of the I/O path. Pure.
//!
//! First the stages that are ruled out (replaced without effect), then what is not among those whose
//! replacement helped. Of the rest, what is seen by itself counts most, then the least bound that the
//! target is near, then what is left without a bound.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Bound, Evidence, Examination, Stage, Substitution};
use super::{wire, wording};
use crate::units::Rate;

/// A result this many times the target's has moved.
pub(super) const MOVED: f64 = 1.4;
/// A result below this many times the target's has not moved. Between the two there is no verdict.
pub(super) const STILL: f64 = 1.2;
/// A result below this many times the target's has other reasons of its own.
pub(super) const SLOWER: f64 = 0.7;
/// A target that reaches this part of a bound is near it.
pub(super) const NEAR: f64 = 0.7;
/// A target that exceeds a bound by more than this has refuted it.
pub(super) const PASSED: f64 = 1.03;
/// From this part of a busy thread on, encryption is what it is busy with.
const CIPHER_SHARE: f64 = 0.5;

/// What led to the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictBasis {
    /// It was seen by itself.
    Sign,
    /// The target is near what the part carries.
    Bound,
    /// Everything else is ruled out.
    Elimination,
    /// Nothing is near; this is the nearest.
    Nearest,
    /// More than one part is left.
    Undecided,
}

/// What comes next once the limiter is gone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NextBottleneck {
    /// The part, where it is known.
    pub part: Option<Stage>,
    /// Where the limit is.
    pub rate: Rate,
    /// How many times the throughput of now.
    pub times: f64,
}

/// The bottleneck of the I/O path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The stage that it is; several where they cannot be distinguished, the program's end first.
    pub limiter: Vec<Stage>,
    /// What led to it.
    pub ground: VerdictBasis,
    /// The verdict in one sentence.
    pub sentence: String,
    /// What speaks for it, one sentence each.
    pub evidence: Vec<String>,
    /// What comes next.
    pub next: Option<NextBottleneck>,
    /// Measurements that cannot all be right, one sentence each.
    #[serde(default)]
    pub contradictions: Vec<String>,
    /// What could not be measured, one sentence each.
    pub unknown: Vec<String>,
    /// What to do about it.
    pub advice: String,
}

/// Judges an examination.
#[must_use]
pub fn diagnose(examination: &Examination) -> Verdict {
    let judged = Analysis::of(examination);
    let (limiter, ground) = judged.limiter();
    let next = judged.next_bottleneck_of(&limiter);
    let verdict = Verdict {
        sentence: wording::sentence(examination, &limiter, ground),
        evidence: wording::evidence(&judged, &limiter, ground),
        contradictions: wire::contradictions(examination),
        unknown: wording::unknown(examination),
        advice: wording::advice(&judged, &limiter, next.as_ref()),
        limiter,
        ground,
        next,
    };
    assert!(!verdict.limiter.is_empty(), "a way has parts");
    verdict
}

/// An examination, and the stages that remain suspect after it.
pub(super) struct Analysis<'a> {
    pub(super) examination: &'a Examination,
    /// Bounds that the target did not pass.
    pub(super) bounds: Vec<&'a Bound>,
    /// Bounds that it did pass.
    pub(super) passed: Vec<&'a Bound>,
    /// What was replaced and moved nothing.
    pub(super) ruled_out: BTreeSet<Stage>,
    /// Not ruled out, and among what helped when it was replaced.
    pub(super) suspects: BTreeSet<Stage>,
}

impl<'a> Analysis<'a> {
    fn of(examination: &'a Examination) -> Self {
        let rate = examination.rate.0;
        let ends = examination.bounds.iter().filter(|bound| bound.is_an_end());
        let (bounds, passed) = ends.partition(|bound| rate <= bound.rate.0 * PASSED);
        let still =
            |sub: &&Substitution| sub.sure && (rate * SLOWER..rate * STILL).contains(&sub.rate.0);
        let still = examination.substitutions.iter().filter(still);
        let ruled_out: BTreeSet<Stage> = still.flat_map(|sub| sub.replaced.clone()).collect();
        let way = examination.way.iter().copied();
        let suspects = way.filter(|part| !ruled_out.contains(part)).collect();
        Self {
            suspects: find_suspects(examination, suspects),
            examination,
            bounds,
            passed,
            ruled_out,
        }
    }

    fn limiter(&self) -> (Vec<Stage>, VerdictBasis) {
        let signs = &self.examination.signs;
        // A cache that answers hides everything behind it, so nothing else counts.
        if signs.iter().any(|sign| sign.part == Stage::Cache) {
            return (vec![Stage::Cache], VerdictBasis::Sign);
        }
        let seen = signs.iter().find(|sign| self.suspects.contains(&sign.part));
        if let Some(sign) = seen {
            return (vec![sign.part], VerdictBasis::Sign);
        }
        let least = self.least(|bound| self.suspects.contains(&bound.part));
        if let Some(bound) = least.filter(|bound| self.is_near(bound)) {
            return (vec![refined(bound)], VerdictBasis::Bound);
        }
        // A stage with a bound that is not near is not it, nor one that was seen to carry far more.
        let more = self
            .examination
            .bounds
            .iter()
            .filter(|bound| !bound.is_an_end());
        let more = more.filter(|bound| !self.is_near(bound));
        let bounds = self.bounds.iter().copied().chain(more);
        let bounded: BTreeSet<Stage> = bounds.map(|bound| bound.part).collect();
        let left: Vec<Stage> = self.suspects.difference(&bounded).copied().collect();
        match (left.as_slice(), least) {
            ([_], _) => (left, VerdictBasis::Elimination),
            ([], Some(bound)) => (vec![refined(bound)], VerdictBasis::Nearest),
            ([], None) => (self.not_ruled_out(), VerdictBasis::Undecided),
            _ => (left, VerdictBasis::Undecided),
        }
    }

    /// The stages of the path that were not replaced without effect; all of them where each was.
    fn not_ruled_out(&self) -> Vec<Stage> {
        let way = self.examination.way.iter().copied();
        let left: Vec<Stage> = way.filter(|part| !self.ruled_out.contains(part)).collect();
        if left.is_empty() {
            return self.examination.way.clone();
        }
        left
    }

    pub(super) fn is_near(&self, bound: &Bound) -> bool {
        self.examination.rate.0 >= bound.rate.0 * NEAR
    }

    fn least(&self, of: impl Fn(&Bound) -> bool) -> Option<&'a Bound> {
        let bounds = self.bounds.iter().copied().filter(|bound| of(bound));
        bounds.min_by(|a, b| a.rate.0.total_cmp(&b.rate.0))
    }

    /// The bound that a part's name rests on.
    pub(super) fn bound_of(&self, part: Stage) -> Option<&'a Bound> {
        self.least(|bound| bound.part == part || refined(bound) == part)
    }

    /// The least bound of what is not the limiter, or what was reached without the limiter: with more
    /// taken out than the limiter, the path would not be faster with the limiter alone taken out.
    fn next_bottleneck_of(&self, limiter: &[Stage]) -> Option<NextBottleneck> {
        let rate = self.examination.rate.0;
        let other = |bound: &Bound| {
            let parts = [bound.part, refined(bound)];
            bound.rate.0 > rate && !parts.iter().any(|part| limiter.contains(part))
        };
        let wall = self.least(other);
        let wall = wall.map(|bound| (Some(bound.part), bound.rate));
        let without = self.moved().filter(|sub| {
            let out = |part: &Stage| sub.replaced.contains(part);
            limiter.iter().all(out)
        });
        let reached = without.map(|sub| (None, sub.rate));
        let all = wall.into_iter().chain(reached);
        let (part, wall) = all.min_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
        (rate > 0.0).then(|| NextBottleneck {
            part,
            rate: wall,
            times: wall.0 / rate,
        })
    }

    /// Substitutions that helped, those of the fewest parts first.
    pub(super) fn moved(&self) -> impl Iterator<Item = &'a Substitution> {
        moved(self.examination).into_iter()
    }
}

/// Whether it was faster than the target ever was.
pub(super) fn has_moved(examination: &Examination, sub: &Substitution) -> bool {
    sub.rate.0 >= examination.rate.0.max(examination.best.0) * MOVED
}

fn moved(examination: &Examination) -> Vec<&Substitution> {
    let helped = |sub: &&Substitution| has_moved(examination, sub);
    let mut moved: Vec<_> = examination.substitutions.iter().filter(helped).collect();
    moved.sort_by_key(|sub| sub.replaced.len());
    moved
}

/// Of the suspects, those that were out each time that it helped. More at once helps against any wait, so
/// it makes the queue suspect and rules nothing out; and where two different things help, each of the two is
/// part of it.
fn find_suspects(examination: &Examination, mut suspects: BTreeSet<Stage>) -> BTreeSet<Stage> {
    let queue = [Stage::Queue];
    let deeper = |sub: &&Substitution| sub.replaced == queue;
    let all = moved(examination);
    let queue_helps = all.iter().any(deeper);
    let queue_suspected = suspects.contains(&Stage::Queue);
    for sub in all.iter().filter(|sub| !deeper(sub)) {
        let both: BTreeSet<Stage> = suspects
            .iter()
            .filter(|part| sub.replaced.contains(part))
            .copied()
            .collect();
        if !both.is_empty() {
            suspects = both;
        }
    }
    if queue_helps && queue_suspected {
        suspects.insert(Stage::Queue);
    }
    suspects
}

/// The part that a bound speaks of: a thread that is busy encrypting is not short of anything else.
pub(super) fn refined(bound: &Bound) -> Stage {
    match &bound.evidence {
        Evidence::Busy(cpu) if cpu.cipher.is_some_and(|share| share >= CIPHER_SHARE) => {
            Stage::Cipher
        }
        _ => bound.part,
    }
}
