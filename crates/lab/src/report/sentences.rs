//! What a run says, in sentences: one for each test, one over all, and the verdict in three.

use super::contents::{noise, sureness, too_few};
use super::io_path::IoPath;
use super::summary::{Overall, Summary, TestComparison};
use super::{RatioText, range, short};
use crate::stats::{Comparison, Interval, VALUES_MIN, Verdict};
use crate::store::RunRecord;
use crate::tools::Unit;

/// The longest name in a sentence.
const NAME_MAX: usize = 40;

/// Targets that the verdict names.
const RANKED_MAX: usize = 6;

/// More blocks than this are no advice.
const BLOCKS_WORTH: u32 = 100;

/// One sentence for each comparison; for each test on each target where nothing is compared.
#[must_use]
pub fn sentences(run: &RunRecord, summary: &Summary) -> Vec<String> {
    if summary.comparisons.is_empty() {
        return alone(summary);
    }
    summary
        .comparisons
        .iter()
        .map(|test| {
            let title = &run.plan.workloads[test.workload].title;
            let (a, b) = (name(run, test.target), name(run, test.baseline));
            format!("{title}: {}", compared(test, &a, &b))
        })
        .collect()
}

/// One sentence over all tests for each target that is compared with the baseline; none when nothing
/// could be compared.
#[must_use]
pub(crate) fn overall(run: &RunRecord, summary: &Summary) -> Vec<String> {
    let found = summary.overall.iter();
    found.map(|found| overall_of(run, found)).collect()
}

fn overall_of(run: &RunRecord, found: &Overall) -> String {
    let over = match found.tests {
        1 => "in one test".to_owned(),
        count => format!("over {count} tests"),
    };
    let (a, b) = (name(run, found.target), name(run, found.baseline));
    let said = worded(&found.comparison, &a, &b);
    format!("Overall, {over}, {said}")
}

/// A sentence and the class of its verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestSentence {
    pub(super) class: &'static str,
    pub(super) text: String,
    /// Whether it is of a point of a curve.
    pub(super) is_point: bool,
}

/// One sentence for each test, with what kind of verdict it is.
pub(super) fn said(run: &RunRecord, summary: &Summary) -> Vec<TestSentence> {
    let texts = sentences(run, summary).into_iter();
    let workload = |index: usize| match summary.comparisons.as_slice() {
        [] => summary.rows.get(index).map(|row| row.workload),
        tests => tests.get(index).map(|test| test.workload),
    };
    let classed = texts.enumerate().map(|(index, text)| TestSentence {
        class: summary.comparisons.get(index).map_or("level", class),
        text,
        is_point: workload(index).is_some_and(|test| run.plan.workloads[test].series.is_some()),
    });
    classed.collect()
}

const fn class(test: &TestComparison) -> &'static str {
    match &test.comparison {
        None => "refused",
        Some(found) => match found.verdict {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "level",
            Verdict::CannotTell { .. } => "unsure",
        },
    }
}

/// To be read at a glance; by how much and how sure is in the verdict below it.
pub(super) fn headline(run: &RunRecord, summary: &Summary) -> String {
    let Some(found) = summary.overall.first() else {
        return match run.manifest.targets.as_slice() {
            [target] if too_few(run, summary).is_some() => {
                let label = short(&target.label, NAME_MAX);
                format!("Too few repeats to say what {label} does")
            }
            [target] => format!("What {} does", short(&target.label, NAME_MAX)),
            targets if summary.comparisons.is_empty() => {
                format!("What {} targets do", targets.len())
            }
            _ => "They could not be compared".into(),
        };
    };
    let b = name(run, found.baseline);
    let is_known = |one: &Overall| one.comparison.ratio.is_known();
    if too_few(run, summary).is_some() || !summary.overall.iter().all(is_known) {
        return match summary.overall.len() {
            1 => format!(
                "Too few repeats to compare {} with {b}",
                name(run, found.target)
            ),
            count => format!("Too few repeats to compare {count} targets with {b}"),
        };
    }
    if summary.overall.len() > 1 {
        return headline_of_many(run, summary, &b);
    }
    let a = name(run, found.target);
    match found.comparison.verdict {
        Verdict::Faster => format!("{a} is faster than {b}"),
        Verdict::Slower => format!("{a} is slower than {b}"),
        Verdict::Same => format!("{a} and {b} are the same within 3 %"),
        Verdict::CannotTell { .. } => format!("No significant difference between {a} and {b}"),
    }
}

/// Several targets against `b`: the fastest and the slowest where their intervals are apart from those of all
/// others and from the baseline, else how many differ.
fn headline_of_many(run: &RunRecord, summary: &Summary, b: &str) -> String {
    let ranked = ranked(summary);
    let ratio = |found: &&Overall| found.comparison.ratio;
    let is_above = |low: f64, others: &[&Overall]| others.iter().all(|one| low > ratio(one).high);
    let is_below = |high: f64, others: &[&Overall]| others.iter().all(|one| high < ratio(one).low);
    let count = |verdict: Verdict| {
        let found = ranked.iter();
        found
            .filter(|one| one.comparison.verdict == verdict)
            .count()
    };
    let (faster, slower) = (count(Verdict::Faster), count(Verdict::Slower));
    let best = ranked.split_first().filter(|(best, others)| {
        best.comparison.verdict == Verdict::Faster && is_above(ratio(best).low, others)
    });
    let worst = ranked.split_last().filter(|(worst, others)| {
        worst.comparison.verdict == Verdict::Slower && is_below(ratio(worst).high, others)
    });
    let best = best.map(|(one, _)| format!("{} is the fastest", name(run, one.target)));
    let worst = worst.map(|(one, _)| format!("{} is the slowest", name(run, one.target)));
    let extremes: Vec<String> = best.into_iter().chain(worst).collect();
    let said = match extremes.is_empty() {
        false => extremes.join(", "),
        true if faster + slower == 0 => "no significant difference".to_owned(),
        true => format!("{faster} faster, {slower} slower"),
    };
    format!("{} targets against {b}: {said}", ranked.len())
}

/// Those that were compared, the fastest first.
fn ranked(summary: &Summary) -> Vec<&Overall> {
    let mut all: Vec<&Overall> = summary.overall.iter().collect();
    let ratio = |found: &Overall| found.comparison.ratio.median;
    all.sort_by(|a, b| ratio(b).total_cmp(&ratio(a)));
    all
}

/// Several targets over all their tests in one sentence.
fn all_overall(run: &RunRecord, summary: &Summary) -> Option<String> {
    let ranked = ranked(summary);
    let each: Vec<String> = ranked
        .iter()
        .take(RANKED_MAX)
        .map(|found| {
            let ratio = found.comparison.ratio;
            let text = RatioText::of(&ratio);
            let interval = match ratio.is_known() {
                true => text.range(),
                false => blocks(ratio.n),
            };
            format!("{} {}× ({interval})", name(run, found.target), text.times)
        })
        .collect();
    let more = match ranked.len().saturating_sub(RANKED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let interval = match ranked.iter().any(|found| found.comparison.ratio.is_known()) {
        true => " (95 % interval)",
        false => "",
    };
    Some(format!(
        "Over all tests, as a multiple of {}{interval}: {}{more}.",
        name(run, ranked.first()?.baseline),
        each.join(", ")
    ))
}

/// The verdict: how fast, what holds it back, and whether to believe it.
pub(super) fn verdict(run: &RunRecord, summary: &Summary, way: Option<&IoPath>) -> Vec<String> {
    let fast = match summary.overall.len() {
        0 | 1 => overall(run, summary).into_iter().next(),
        _ => all_overall(run, summary),
    };
    let fast = fast.or_else(|| best(summary));
    let limiter = way.map(IoPath::verdict);
    let mut verdict: Vec<String> = fast.into_iter().chain(limiter).collect();
    let first = match too_few(run, summary) {
        Some(_) => 0,
        None => verdict.len(),
    };
    verdict.insert(first, sureness(run, summary));
    verdict.extend(noise(run, summary));
    verdict
}

/// The fastest valid result.
fn best(summary: &Summary) -> Option<String> {
    let best = alone(summary)
        .into_iter()
        .zip(&summary.rows)
        .filter(|(_, row)| row.validity.is_usable() && row.rate.is_some())
        .max_by(|(_, a), (_, b)| {
            let rate = |row: &super::Row| row.rate.map_or(0.0, |rate| rate.median);
            rate(a).total_cmp(&rate(b))
        });
    best.map(|(sentence, _)| sentence)
}

fn name(run: &RunRecord, target: usize) -> String {
    run.manifest
        .targets
        .get(target)
        .map_or_else(String::new, |target| short(&target.label, NAME_MAX))
}

fn alone(summary: &Summary) -> Vec<String> {
    summary
        .rows
        .iter()
        .map(|row| match row.headline {
            Some(found) if row.validity.is_usable() => format!(
                "{}: {} does {} ({}{}).",
                row.title,
                short(&row.label, NAME_MAX),
                row.unit.shown(found.median),
                match found.is_known() {
                    true => format!("95 % interval {}, ", ends(row.unit, &found)),
                    false => String::new(),
                },
                blocks(found.n)
            ),
            _ => format!(
                "{}: {} is {}.",
                row.title,
                short(&row.label, NAME_MAX),
                row.validity
            ),
        })
        .collect()
}

/// Two ends of an interval with their unit.
fn ends(unit: Unit, found: &Interval) -> String {
    match unit {
        Unit::BytesPerSecond => format!("{} MB/s", range(found.low / 1e6, found.high / 1e6)),
        other => format!("{} to {}", other.shown(found.low), other.shown(found.high)),
    }
}

fn compared(test: &TestComparison, a: &str, b: &str) -> String {
    match (&test.comparison, &test.refused) {
        (Some(found), _) => worded(found, a, b),
        (None, Some(reason)) => format!("not compared, because {reason}."),
        (None, None) => "not compared.".into(),
    }
}

/// `a` against `b`, with the interval.
pub(super) fn worded(found: &Comparison, a: &str, b: &str) -> String {
    let ratio = found.ratio;
    let text = RatioText::of(&ratio);
    let times = &text.times;
    if !ratio.is_known() {
        return format!(
            "too few repeats to compare {a} with {b} ({times} times, {}); {} more are needed.",
            blocks(ratio.n),
            blocks(VALUES_MIN - ratio.n)
        );
    }
    let interval = format!("95 % interval {}, {}", text.range(), blocks(ratio.n));
    match found.verdict {
        Verdict::Faster => format!("{a} is faster than {b}: {times} times its rate ({interval})."),
        Verdict::Slower => format!("{a} is slower than {b}: {times} times its rate ({interval})."),
        Verdict::Same => {
            format!("{a} and {b} are the same within 3 % ({times} times, {interval}).")
        }
        Verdict::CannotTell { blocks_more } if blocks_more <= BLOCKS_WORTH => format!(
            "no significant difference between {a} and {b} ({times} times, {interval}); about {} more may show one.",
            blocks(blocks_more as usize)
        ),
        Verdict::CannotTell { .. } => format!(
            "no significant difference between {a} and {b} ({times} times, {interval}); more blocks would not show one, a calmer \
             machine might."
        ),
    }
}

fn blocks(count: usize) -> String {
    if count == 1 {
        "1 block".into()
    } else {
        format!("{count} blocks")
    }
}
