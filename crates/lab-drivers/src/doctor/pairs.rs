//! [`Retrial`]: a substitute that is measured again, each time right after the target, where one result does not decide
//! whether it is faster.
//!
//! # Invariants
//!
//! * All of the first [`PAIRS_MIN`] rounds are measured or none: what is left of the time is checked before the first one.
//!   The same holds for the rounds up to [`PAIRS_MAX`], which only substitutes have that the first ones left open.
//! * The results that an examination has are not changed; the ratios are added to them.

use std::time::Duration;

use lab::doctor::{Examination, PAIRS_MAX, PAIRS_MIN, Stage, needs_more_pairs, needs_pairs};
use lab::units::Rate;

use super::session::DoctorSession;
use crate::DriverError;

/// Measures something, for a time.
type MeasureAgain<'a> = Box<dyn Fn(Duration) -> Result<Rate, DriverError> + 'a>;

/// A measurement of a pair takes as long as any other, and is shortened to this where the time is short, before any
/// substitute is left out: the shorter, the more the results scatter.
const PAIR_MIN: Duration = Duration::from_millis(600);
/// Beyond the measurement itself: opening, starting a program.
const AROUND: Duration = Duration::from_millis(150);

/// A substitute that can be measured again.
pub(super) struct Retrial<'a> {
    /// Its place among the substitutions.
    pub(super) index: usize,
    pub(super) measure: MeasureAgain<'a>,
}

/// Measures in pairs what one result does not decide, if there is time for it.
pub(super) fn measure_pairs(
    session: &DoctorSession<'_>,
    e: &mut Examination,
    retrials: &[Retrial<'_>],
    target: impl Fn(Duration) -> Result<Rate, DriverError>,
) -> Result<(), DriverError> {
    let is_open = |retrial: &&Retrial<'_>| {
        let sub = e.substitutions.get(retrial.index);
        sub.is_some_and(|sub| needs_pairs(e, sub))
    };
    let mut open: Vec<&Retrial<'_>> = retrials.iter().filter(is_open).collect();
    let longest = session.slice();
    let shortest = longest.min(PAIR_MIN);
    // What replaces the fewest parts decides most.
    open.sort_by_key(|retrial| {
        let sub = &e.substitutions[retrial.index];
        (
            !sub.sure,
            sub.replaced == [Stage::Queue],
            sub.replaced.len(),
        )
    });
    let fits = |count: usize, rounds: usize, time: Duration| {
        let measurements = u32::try_from((count + 1) * rounds).unwrap_or(u32::MAX);
        session.has_left((time + AROUND) * measurements)
    };
    while !open.is_empty() && !fits(open.len(), PAIRS_MIN, shortest) {
        if let Some(left_out) = open.pop() {
            let by = &e.substitutions[left_out.index].by;
            e.remarks.push(format!(
                "{by}: too close to the target for one measurement; more --seconds decides it."
            ));
        }
    }
    if open.is_empty() {
        return Ok(());
    }
    let time = match fits(open.len(), PAIRS_MIN, longest) {
        true => longest,
        false => shortest,
    };
    measure_rounds(session, e, (&open, &target), (PAIRS_MIN, time))?;
    open.retain(|retrial| needs_more_pairs(&e.substitutions[retrial.index]));
    let more = PAIRS_MAX - PAIRS_MIN;
    if open.is_empty() || !fits(open.len(), more, time) {
        return Ok(());
    }
    measure_rounds(session, e, (&open, &target), (more, time))
}

/// Measures the target and then each substitute, in each of `rounds`, for `time` each.
fn measure_rounds(
    session: &DoctorSession<'_>,
    e: &mut Examination,
    (open, target): (
        &[&Retrial<'_>],
        &dyn Fn(Duration) -> Result<Rate, DriverError>,
    ),
    (rounds, time): (usize, Duration),
) -> Result<(), DriverError> {
    for _ in 0..rounds {
        session.go_on()?;
        let alone = target(time)?;
        for retrial in open {
            let then = (retrial.measure)(time)?;
            let ratio = then.0 / alone.0.max(1.0);
            e.substitutions[retrial.index].pairs.push(ratio);
        }
    }
    Ok(())
}
