//! [`diagnose`]: from an examination to the bottleneck of the I/O path. Pure.
//!
//! First the stages that are ruled out (replaced without effect), then what is not among those whose
//! replacement helped. Of the rest, what is seen by itself counts most, then the least bound that the
//! target is near, then what is left without a bound.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::examination::PASSED;
use super::suspects::{find_suspects, moved};
use super::{Bound, Cause, Evidence, Examination, Stage, Substitution};
use super::{wire, wording};
use crate::units::Rate;

/// A target that reaches this part of a bound is at it.
pub(super) const AT: f64 = 0.9;
/// A target that reaches this part of a bound is near it: that decides where nothing else is possible.
pub(super) const NEAR: f64 = 0.7;
/// A target that reaches this part of a bound is at it beyond doubt.
const FULLY: f64 = 0.97;
/// The time of one request alone is that uncertain.
const ONE_ALONE: f64 = 1.15;
/// Two bounds that are this close are not distinguished.
const TIED: f64 = 1.03;
/// Below this part of its bound, a wire without a queue in front of it is not full.
const CLEAR_BELOW: f64 = 0.93;
/// From this part of a busy thread on, encryption is what it is busy with.
const CIPHER_SHARE: f64 = 0.5;
/// A thread that waits for a core for this part of the time is starved: it has work, and nothing else holds it.
const STARVED: f64 = 0.5;
/// What was reached without the limiter is explained by a bound that is so close to it.
const SAME: f64 = 0.12;

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
    /// The stages of which no end is known: one of them may come before this rate.
    #[serde(default)]
    pub unknown: Vec<Stage>,
}

/// The bottleneck of the I/O path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The stage that it is; several where they cannot be distinguished, the program's end first.
    pub limiter: Vec<Stage>,
    /// What led to it.
    pub ground: VerdictBasis,
    /// Why that part is the limit, where it is known.
    #[serde(default)]
    pub cause: Option<Cause>,
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
    let cause = judged.cause_of(&limiter, ground);
    let next = judged.next_bottleneck_of(&limiter, cause.as_ref());
    let verdict = Verdict {
        sentence: wording::sentence(examination, &limiter, ground, cause.as_ref()),
        evidence: wording::evidence(&judged, &limiter, ground),
        contradictions: wire::contradictions(examination),
        unknown: wording::unknown(examination),
        advice: wording::advice(&judged, &limiter, cause.as_ref(), next.as_ref()),
        cause,
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
        let ends = examination.bounds.iter().filter(|bound| bound.is_an_end());
        let (bounds, passed) = ends.partition(|bound| {
            // One request alone is measured once, and with what opening and connecting leave behind.
            let tolerance = match bound.evidence {
                Evidence::InFlight { .. } => ONE_ALONE,
                _ => 1.0,
            };
            !examination.has_passed(Rate(bound.rate.0 * tolerance))
        });
        let still = examination.substitutions.iter().filter(|sub| {
            let effect = Effect::of(examination, sub);
            sub.sure && effect == Effect::Still
        });
        let ruled_out: BTreeSet<Stage> = still.flat_map(|sub| sub.replaced.clone()).collect();
        let way = examination.way.iter().copied();
        let suspects = way.filter(|part| !ruled_out.contains(part)).collect();
        let mut suspects = find_suspects(examination, suspects);
        if wire::is_clear(examination, CLEAR_BELOW) {
            suspects.remove(&Stage::Wire);
        }
        Self {
            suspects,
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
        if let Some(sign) = seen.filter(|sign| sign.part != Stage::Wire) {
            return (vec![sign.part], VerdictBasis::Sign);
        }
        let is_full = self.suspects.contains(&Stage::Wire) && wire::is_full(self.examination);
        if is_full && !wire::has_room(self.examination) {
            return (vec![Stage::Wire], VerdictBasis::Sign);
        }
        // More requests at once help against any wait.
        if self.waits_for_store() {
            return match self.is_server_busy() {
                true => (vec![Stage::Server, Stage::Disk], VerdictBasis::Undecided),
                false => (vec![Stage::Disk], VerdictBasis::Sign),
            };
        }
        // The advice was tried, and helps.
        if self.is_short_of_requests() {
            return (vec![Stage::Queue], VerdictBasis::Bound);
        }
        if self.suspects.contains(&Stage::Disk) && self.waits_for_member() {
            return match self.is_server_busy() {
                true => (vec![Stage::Server, Stage::Disk], VerdictBasis::Undecided),
                false => (vec![Stage::Disk], VerdictBasis::Sign),
            };
        }
        let least = self.least(|bound| self.suspects.contains(&bound.part));
        let mut left = self.without_bound();
        let Some(bound) = least.filter(|bound| self.is_near(bound)) else {
            return match (left.as_slice(), least) {
                ([_], _) => (left, VerdictBasis::Elimination),
                ([], Some(bound)) => (vec![refined(bound)], VerdictBasis::Nearest),
                ([], None) => (self.not_ruled_out(), VerdictBasis::Undecided),
                _ => (left, VerdictBasis::Undecided),
            };
        };
        left.retain(|part| *part != bound.part);
        self.near(bound, &left)
    }

    /// The target is near `bound`; of the parts in `left` nothing is known.
    fn near(&self, bound: &Bound, left: &[Stage]) -> (Vec<Stage>, VerdictBasis) {
        let is_at = self.is_at(bound);
        // What is busy all the time leaves no time to wait.
        let is_rival = |part: &Stage| !is_at || *part != Stage::Protocol;
        let left: Vec<Stage> = left.iter().copied().filter(is_rival).collect();
        let rivals = match left.as_slice() {
            rivals if self.is_doubtful(bound) => rivals.to_vec(),
            [only] if !self.is_fully_at(bound) && !is_starved(bound) => vec![*only],
            _ if is_at => self.tied_with(bound).into_iter().collect(),
            _ => Vec::new(),
        };
        let named = refined(bound);
        if rivals.iter().all(|rival| *rival == named) {
            return (vec![named], VerdictBasis::Bound);
        }
        let way = self.examination.way.iter().copied();
        let all = way.filter(|part| *part == named || rivals.contains(part));
        (all.collect(), VerdictBasis::Undecided)
    }

    fn is_at(&self, bound: &Bound) -> bool {
        self.examination.rate.0 >= bound.rate.0 * AT
    }

    fn is_fully_at(&self, bound: &Bound) -> bool {
        self.examination.rate.0 >= bound.rate.0 * FULLY
    }

    /// Whether a bound that the target is near may not be what limits it.
    fn is_doubtful(&self, bound: &Bound) -> bool {
        if self.is_fully_at(bound) {
            return false;
        }
        let hints_elsewhere = |sub: &&Substitution| {
            !sub.replaced.contains(&bound.part)
                && !sub.pairs.is_empty()
                && Effect::of(self.examination, sub) == Effect::Unclear
        };
        match bound.evidence {
            // There was always a request for the device: that is no proof that it carries no more.
            Evidence::DeviceBusy { .. } => true,
            // More requests at once were tried, and were no clear help.
            Evidence::InFlight { .. } => true,
            // A full wire has a queue in front of it, unless the queueing is fair.
            _ if bound.part == Stage::Wire && self.examination.connect.is_some() => true,
            _ => self
                .examination
                .substitutions
                .iter()
                .any(|sub| hints_elsewhere(&sub)),
        }
    }

    /// Whether more requests at once were faster, and as many as there are carry no more.
    fn is_short_of_requests(&self) -> bool {
        let bound = self.bound_of(Stage::Queue);
        self.suspects.contains(&Stage::Queue)
            && bound.is_some_and(|bound| self.is_at(bound))
            && moved(self.examination)
                .iter()
                .any(|sub| sub.replaced == [Stage::Queue])
    }

    /// Whether requests queue at one member of the server's array, and nowhere else in it.
    fn waits_for_member(&self) -> bool {
        let direction = self.examination.job.direction;
        let served = self.examination.served.as_ref();
        served.is_some_and(|served| served.full_member(direction).is_some())
    }

    /// Whether most reads wait for an object store.
    fn waits_for_store(&self) -> bool {
        let served = self.examination.served.as_ref();
        let is_there = self.examination.way.contains(&Stage::Disk);
        is_there
            && !self.ruled_out.contains(&Stage::Disk)
            && served.is_some_and(|served| served.awaited_store(&self.examination.job).is_some())
    }

    /// Whether a thread of the server has work for most of the time. Requests queue for it, too, and wait as long as they
    /// would for a member: the server's report does not distinguish them.
    fn is_server_busy(&self) -> bool {
        let bound = self.processor_of(Stage::Server);
        self.suspects.contains(&Stage::Server) && bound.is_some_and(|bound| self.is_near(bound))
    }

    /// Another part with a bound that is as good as the same.
    fn tied_with(&self, bound: &Bound) -> Option<Stage> {
        let is_other = |other: &Bound| {
            self.suspects.contains(&other.part)
                && refined(other) != refined(bound)
                && other.part != bound.part
                && other.rate.0 <= bound.rate.0 * TIED
        };
        self.least(is_other).map(refined)
    }

    /// Suspects of which no end is known, and that were not seen to carry far more. The load of a server's processor
    /// says nothing of how long the server waits by itself.
    fn without_bound(&self) -> Vec<Stage> {
        let all = &self.examination.bounds;
        let more = all.iter().filter(|bound| !bound.is_an_end());
        let more = more.filter(|bound| !self.is_near(bound));
        let ends = self.bounds.iter().copied();
        let waits = |bound: &Bound| {
            let is_other = !self.examination.is_own_server;
            is_other && bound.part == Stage::Server && bound.is_of_processor()
        };
        let ends = ends.filter(|bound| !waits(bound));
        let mut bounded: BTreeSet<Stage> = ends.chain(more).map(|bound| bound.part).collect();
        // Encryption is work of the two ends' processors, and of nothing else.
        if self.has_idle_processor(Stage::Client) && self.has_idle_processor(Stage::Server) {
            bounded.insert(Stage::Cipher);
        }
        self.suspects.difference(&bounded).copied().collect()
    }

    /// Whether the busiest thread of this end is known, and could have done far more.
    fn has_idle_processor(&self, part: Stage) -> bool {
        let bound = self.processor_of(part);
        bound.is_some_and(|bound| !self.is_near(bound))
    }

    /// What the busiest thread of this end carries.
    fn processor_of(&self, part: Stage) -> Option<&'a Bound> {
        self.least(|bound| bound.part == part && bound.is_of_processor())
    }

    /// Why the only part that is named is the limit.
    fn cause_of(&self, limiter: &[Stage], ground: VerdictBasis) -> Option<Cause> {
        let [only] = limiter else {
            return None;
        };
        if *only == Stage::Disk {
            return Cause::of_disk(self.examination);
        }
        if *only == Stage::Flush {
            return Cause::of_store(self.examination);
        }
        match (&self.bound_of(*only)?.evidence, ground) {
            (Evidence::Busy(_), VerdictBasis::Elimination) if *only == Stage::Server => {
                Some(Cause::WaitsByItself)
            }
            (Evidence::Busy(cpu), VerdictBasis::Bound | VerdictBasis::Nearest) => {
                Some(Cause::of_processor(cpu))
            }
            _ => None,
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

    /// The program that had the processor of this part.
    pub(super) fn program_of(&self, part: Stage) -> Option<&'a str> {
        match &self.bound_of(part)?.evidence {
            Evidence::Busy(cpu) => Some(&cpu.who),
            _ => None,
        }
    }

    /// The least bound of what is not the limiter, or what was reached without the limiter: with more
    /// taken out than the limiter, the path would not be faster with the limiter alone taken out.
    fn next_bottleneck_of(
        &self,
        limiter: &[Stage],
        cause: Option<&Cause>,
    ) -> Option<NextBottleneck> {
        let rate = self.examination.rate.0;
        // Requests take less time without other clients.
        let is_shared = matches!(cause, Some(Cause::OtherClients { .. }));
        let other = |bound: &Bound| {
            let parts = [bound.part, refined(bound)];
            let counts = !is_shared || bound.part != Stage::Queue;
            counts && bound.rate.0 > rate && !parts.iter().any(|part| limiter.contains(part))
        };
        // A larger readahead was measured on all of the path, so that no bound holds below its rate.
        let is_measured = limiter == [Stage::Readahead];
        let wall = self.least(|bound| !is_measured && other(bound));
        let wall = wall.map(|bound| (Some(bound.part), bound.rate));
        let subs = self.examination.substitutions.iter();
        let without = subs.filter(|sub| {
            let out = |part: &Stage| sub.replaced.contains(part);
            limiter.iter().all(out) && sub.rate.0 > rate * PASSED
        });
        let without: Vec<&Substitution> = without.collect();
        let reached = without.iter().map(|sub| (self.explain(sub), sub.rate));
        let caused = cause.and_then(|cause| cause.without(self.examination.rate));
        let caused = caused.map(|rate| (Some(Stage::Disk), rate));
        let all = wall.into_iter().chain(reached).chain(caused);
        let (part, wall) = all.min_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
        let unknown = self.unknown_below(wall, limiter, &without);
        (rate > 0.0).then(|| NextBottleneck {
            part: part.filter(|_| unknown.is_empty()),
            rate: wall,
            times: wall.0 / rate,
            unknown,
        })
    }

    /// Stages that could not be measured and may carry less than `wall`: none of the measurements `without` the limiter that
    /// they were part of came up to it.
    fn unknown_below(
        &self,
        wall: Rate,
        limiter: &[Stage],
        without: &[&Substitution],
    ) -> Vec<Stage> {
        let carried = |part: &Stage| {
            let mut with = without.iter().filter(|sub| !sub.replaced.contains(part));
            with.any(|sub| sub.rate.0 >= wall.0)
        };
        let unmeasured = self.examination.unmeasured.iter().map(|one| one.part);
        let mut unknown: Vec<Stage> = unmeasured
            .filter(|part| self.examination.way.contains(part) && !limiter.contains(part))
            .filter(|part| self.bound_of(*part).is_none() && !carried(part))
            .collect();
        unknown.dedup();
        unknown
    }

    /// The part that the target meets when it is as fast as this substitute.
    fn explain(&self, sub: &Substitution) -> Option<Stage> {
        let met = self.least(|bound| {
            let is_there = !sub.replaced.contains(&bound.part);
            is_there && (bound.rate.0 / sub.rate.0 - 1.0).abs() <= SAME
        });
        let met = met.map(|bound| bound.part);
        met.or_else(|| self.is_still_short(sub).then_some(Stage::Queue))
    }

    /// Whether more requests at once, which were tried, carried as many times more: each took no longer than one alone.
    fn is_still_short(&self, sub: &Substitution) -> bool {
        let Some((bound, depth)) = self.bound_of(Stage::Queue).zip(sub.depth) else {
            return false;
        };
        let more = f64::from(depth) / f64::from(self.examination.job.depth);
        sub.rate.0 >= bound.rate.0 * more * AT
    }
}

/// Whether a thread of the part waits for a core most of the time.
fn is_starved(bound: &Bound) -> bool {
    matches!(&bound.evidence, Evidence::Busy(cpu) if cpu.waiting >= STARVED)
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
