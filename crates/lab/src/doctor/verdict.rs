//! [`diagnose`]: from an examination to the part that holds the way back. Pure.
//!
//! First the innocent go (what was replaced and moved nothing), then what is not among those whose
//! replacement helped. Of the rest, what is seen by itself counts most, then the least bound that the
//! target is near, then what is left without a bound.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Bound, Evidence, Examination, Part, Substitution};
use super::{wire, words};
use crate::units::Rate;

/// A result this many times the target's has moved.
pub(super) const MOVED: f64 = 1.4;
/// A result below this many times the target's has not moved. Between the two nothing is said.
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
pub enum Ground {
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
pub struct NextWall {
    /// The part, where it is known.
    pub part: Option<Part>,
    /// Where the wall is.
    pub rate: Rate,
    /// How many times the throughput of now.
    pub times: f64,
}

/// What holds the way back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The part that it is; several where they cannot be told apart, the program's end first.
    pub limiter: Vec<Part>,
    /// What led to it.
    pub ground: Ground,
    /// The verdict in one sentence.
    pub sentence: String,
    /// What speaks for it, one sentence each.
    pub evidence: Vec<String>,
    /// What comes next.
    pub next: Option<NextWall>,
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
    let judged = Judged::of(examination);
    let (limiter, ground) = judged.limiter();
    let next = judged.next_wall(&limiter);
    let verdict = Verdict {
        sentence: words::sentence(examination, &limiter, ground),
        evidence: words::evidence(&judged, &limiter, ground),
        contradictions: wire::contradictions(examination),
        unknown: words::unknown(examination),
        advice: words::advice(&judged, &limiter, next.as_ref()),
        limiter,
        ground,
        next,
    };
    assert!(!verdict.limiter.is_empty(), "a way has parts");
    verdict
}

/// An examination, and who is under suspicion after it.
pub(super) struct Judged<'a> {
    pub(super) examination: &'a Examination,
    /// Bounds that the target did not pass.
    pub(super) bounds: Vec<&'a Bound>,
    /// Bounds that it did pass.
    pub(super) passed: Vec<&'a Bound>,
    /// What was replaced and moved nothing.
    pub(super) innocent: BTreeSet<Part>,
    /// Neither innocent nor outside of what helped when it was replaced.
    pub(super) suspects: BTreeSet<Part>,
}

impl<'a> Judged<'a> {
    fn of(examination: &'a Examination) -> Self {
        let rate = examination.rate.0;
        let ends = examination.bounds.iter().filter(|bound| bound.is_an_end());
        let (bounds, passed) = ends.partition(|bound| rate <= bound.rate.0 * PASSED);
        let still =
            |sub: &&Substitution| sub.sure && (rate * SLOWER..rate * STILL).contains(&sub.rate.0);
        let still = examination.substitutions.iter().filter(still);
        let innocent: BTreeSet<Part> = still.flat_map(|sub| sub.replaced.clone()).collect();
        let way = examination.way.iter().copied();
        let suspects = way.filter(|part| !innocent.contains(part)).collect();
        Self {
            suspects: accused(examination, suspects),
            examination,
            bounds,
            passed,
            innocent,
        }
    }

    fn limiter(&self) -> (Vec<Part>, Ground) {
        let signs = &self.examination.signs;
        // A cache that answers hides everything behind it, so nothing else counts.
        if signs.iter().any(|sign| sign.part == Part::Cache) {
            return (vec![Part::Cache], Ground::Sign);
        }
        let seen = signs.iter().find(|sign| self.suspects.contains(&sign.part));
        if let Some(sign) = seen {
            return (vec![sign.part], Ground::Sign);
        }
        let least = self.least(|bound| self.suspects.contains(&bound.part));
        if let Some(bound) = least.filter(|bound| self.is_near(bound)) {
            return (vec![refined(bound)], Ground::Bound);
        }
        // Whoever has a bound that is not near is not it, and whoever was seen to carry far more.
        let more = self
            .examination
            .bounds
            .iter()
            .filter(|bound| !bound.is_an_end());
        let more = more.filter(|bound| !self.is_near(bound));
        let bounds = self.bounds.iter().copied().chain(more);
        let bounded: BTreeSet<Part> = bounds.map(|bound| bound.part).collect();
        let left: Vec<Part> = self.suspects.difference(&bounded).copied().collect();
        match (left.as_slice(), least) {
            ([_], _) => (left, Ground::Elimination),
            ([], Some(bound)) => (vec![refined(bound)], Ground::Nearest),
            ([], None) => (self.not_acquitted(), Ground::Undecided),
            _ => (left, Ground::Undecided),
        }
    }

    /// The parts of the way that were not replaced in vain; all of them where each was.
    fn not_acquitted(&self) -> Vec<Part> {
        let way = self.examination.way.iter().copied();
        let left: Vec<Part> = way.filter(|part| !self.innocent.contains(part)).collect();
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
    pub(super) fn bound_of(&self, part: Part) -> Option<&'a Bound> {
        self.least(|bound| bound.part == part || refined(bound) == part)
    }

    /// The least bound of what is not the limiter, or what was reached without the limiter: with more
    /// taken out than the limiter, the way would not be faster with the limiter alone taken out.
    fn next_wall(&self, limiter: &[Part]) -> Option<NextWall> {
        let rate = self.examination.rate.0;
        let other = |bound: &Bound| {
            let parts = [bound.part, refined(bound)];
            bound.rate.0 > rate && !parts.iter().any(|part| limiter.contains(part))
        };
        let wall = self.least(other);
        let wall = wall.map(|bound| (Some(bound.part), bound.rate));
        let without = self.moved().filter(|sub| {
            let out = |part: &Part| sub.replaced.contains(part);
            limiter.iter().all(out)
        });
        let reached = without.map(|sub| (None, sub.rate));
        let all = wall.into_iter().chain(reached);
        let (part, wall) = all.min_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
        (rate > 0.0).then(|| NextWall {
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
/// it accuses the queue and acquits nobody; and where two different things help, each of the two is
/// part of it.
fn accused(examination: &Examination, mut suspects: BTreeSet<Part>) -> BTreeSet<Part> {
    let queue = [Part::Queue];
    let deeper = |sub: &&Substitution| sub.replaced == queue;
    let all = moved(examination);
    let queue_helps = all.iter().any(deeper);
    let queue_suspected = suspects.contains(&Part::Queue);
    for sub in all.iter().filter(|sub| !deeper(sub)) {
        let both: BTreeSet<Part> = suspects
            .iter()
            .filter(|part| sub.replaced.contains(part))
            .copied()
            .collect();
        if !both.is_empty() {
            suspects = both;
        }
    }
    if queue_helps && queue_suspected {
        suspects.insert(Part::Queue);
    }
    suspects
}

/// The part that a bound speaks of: a thread that is busy encrypting is not short of anything else.
pub(super) fn refined(bound: &Bound) -> Part {
    match &bound.evidence {
        Evidence::Busy(cpu) if cpu.cipher.is_some_and(|share| share >= CIPHER_SHARE) => {
            Part::Cipher
        }
        _ => bound.part,
    }
}
