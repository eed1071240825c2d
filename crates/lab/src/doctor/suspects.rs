//! Which stages may limit, by what came of replacing others. Pure.
//!
//! # What it does not do
//!
//! It rules nothing out that was replaced without effect, and weighs no bounds: see [`super::verdict`].

use std::collections::BTreeSet;

use super::effect::Effect;
use super::examination::PASSED;
use super::verdict::AT;
use super::{Bound, Examination, Stage, Substitution, first_bytes};

/// Replacements that helped, those of the fewest parts first.
pub(super) fn moved(examination: &Examination) -> Vec<&Substitution> {
    let helped = |sub: &&Substitution| Effect::of(examination, sub) == Effect::Moved;
    let mut moved: Vec<_> = examination.substitutions.iter().filter(helped).collect();
    moved.sort_by_key(|sub| sub.replaced.len());
    moved
}

/// Of the suspects, those that were out each time that it helped, and processors that had less to do then. More at once helps
/// against any wait, so it makes the queue suspect and rules nothing out; and where two different things help, each of the two
/// is part of it.
pub(super) fn find_suspects(
    examination: &Examination,
    mut suspects: BTreeSet<Stage>,
) -> BTreeSet<Stage> {
    let queue = [Stage::Queue];
    let deeper = |sub: &&Substitution| sub.replaced == queue;
    let all = moved(examination);
    let subs = examination.substitutions.iter();
    let mut deeper_subs = subs.filter(|sub| sub.replaced == queue);
    let queue_helps = deeper_subs.any(|sub| {
        let effect = Effect::of(examination, sub);
        matches!(effect, Effect::Moved | Effect::Unclear)
    });
    let queue_suspected = suspects.contains(&Stage::Queue);
    let is_evidence = |sub: &&Substitution| !deeper(sub) && !is_passing(examination, sub);
    for sub in all.into_iter().filter(is_evidence) {
        let is_out = |part: &Stage| sub.replaced.contains(part) || sub.perhaps.contains(part);
        let relieved = relieved_processors(examination, sub);
        if suspects.iter().any(is_out) {
            suspects.retain(|part| is_out(part) || relieved.contains(part));
        }
    }
    if queue_helps && queue_suspected {
        suspects.insert(Stage::Queue);
    }
    suspects
}

/// Whether the parts are not known to have been out, and it may be a processor alone that carried more.
fn is_passing(examination: &Examination, sub: &Substitution) -> bool {
    !sub.sure && !relieved_processors(examination, sub).is_empty()
}

/// Whether the processor of a part was looked at.
fn has_processor(examination: &Examination, part: Stage) -> bool {
    let mut bounds = examination.bounds.iter();
    bounds.any(|bound| bound.part == part && bound.is_of_processor())
}

/// Parts that stayed in, of which the target used the processor in full, and which carried more than that processor can: what
/// it got, or what a request takes of it, was another then. A server's processor that is not seen may be one of them.
fn relieved_processors(examination: &Examination, sub: &Substitution) -> Vec<Stage> {
    let is_relieved = |bound: &&Bound| {
        bound.is_of_processor()
            && !sub.replaced.contains(&bound.part)
            && examination.rate.0 >= bound.rate.0 * AT
            && sub.rate.0 > bound.rate.0 * PASSED
    };
    let bounds = examination.bounds.iter().filter(is_relieved);
    let is_unseen = examination.peer.is_some()
        && !has_processor(examination, Stage::Server)
        && !sub.replaced.contains(&Stage::Server);
    let server = (is_unseen && first_bytes::may_be_busy(examination)).then_some(Stage::Server);
    bounds.map(|bound| bound.part).chain(server).collect()
}
