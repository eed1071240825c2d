//! What a run says, in sentences: one for each test, one over all, and the verdict in three.

use super::contents::sureness;
use super::summary::{Summary, TestComparison};
use super::way::Way;
use super::{range, short};
use crate::stats::{Comparison, Verdict};
use crate::store::RunRecord;
use crate::units::{Rate, significant};

/// The longest name in a sentence.
const NAME_MAX: usize = 40;

/// More blocks than this are no advice.
const BLOCKS_WORTH: u32 = 100;

/// One sentence for each test.
#[must_use]
pub fn sentences(run: &RunRecord, summary: &Summary) -> Vec<String> {
    if summary.comparisons.is_empty() {
        return alone(summary);
    }
    let (a, b) = names(run);
    summary
        .comparisons
        .iter()
        .map(|test| {
            let title = &run.plan.workloads[test.workload].title;
            format!("{title}: {}", compared(test, &a, &b))
        })
        .collect()
}

/// One sentence over all tests; none with a single target or when nothing could be compared.
#[must_use]
pub fn overall(run: &RunRecord, summary: &Summary) -> Option<String> {
    let found = summary.overall.as_ref()?;
    let (a, b) = names(run);
    let tests = summary
        .comparisons
        .iter()
        .filter(|test| test.comparison.is_some())
        .count();
    let over = match tests {
        1 => "in one test".to_owned(),
        count => format!("over {count} tests"),
    };
    let said = worded(found, &a, &b);
    let subject = if said.starts_with("cannot") {
        "we "
    } else {
        ""
    };
    Some(format!("Overall, {over}, {subject}{said}"))
}

/// A sentence and the class of its verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) class: &'static str,
    pub(super) text: String,
}

/// One sentence for each test, with what kind of verdict it is.
pub(super) fn said(run: &RunRecord, summary: &Summary) -> Vec<Said> {
    let texts = sentences(run, summary).into_iter();
    let classed = texts.enumerate().map(|(index, text)| Said {
        class: summary.comparisons.get(index).map_or("level", class),
        text,
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
    let (a, b) = names(run);
    let Some(found) = &summary.overall else {
        return match run.manifest.targets.as_slice() {
            [target] => format!("What {} does", short(&target.label, NAME_MAX)),
            _ => "The two could not be compared".into(),
        };
    };
    match found.verdict {
        Verdict::Faster => format!("{a} is faster than {b}"),
        Verdict::Slower => format!("{a} is slower than {b}"),
        Verdict::Same => format!("{a} and {b} are equally fast"),
        Verdict::CannotTell { .. } => format!("It cannot be told whether {a} or {b} is faster"),
    }
}

/// The verdict: how fast, what holds it back, and whether to believe it.
pub(super) fn verdict(run: &RunRecord, summary: &Summary, way: Option<&Way>) -> Vec<String> {
    let fast = overall(run, summary).or_else(|| best(summary));
    let limiter = way.map(Way::verdict);
    fast.into_iter()
        .chain(limiter)
        .chain([sureness(run, summary)])
        .collect()
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

fn names(run: &RunRecord) -> (String, String) {
    let name = |index: usize| {
        run.manifest
            .targets
            .get(index)
            .map_or_else(String::new, |target| short(&target.label, NAME_MAX))
    };
    (name(0), name(1))
}

fn alone(summary: &Summary) -> Vec<String> {
    summary
        .rows
        .iter()
        .map(|row| match row.rate {
            Some(rate) if row.validity.is_usable() => format!(
                "{}: {} does {} (95 % interval {} MB/s, {}).",
                row.title,
                short(&row.label, NAME_MAX),
                Rate(rate.median),
                range(rate.low / 1e6, rate.high / 1e6),
                blocks(rate.n)
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

fn compared(test: &TestComparison, a: &str, b: &str) -> String {
    match (&test.comparison, &test.refused) {
        (Some(found), _) => worded(found, a, b),
        (None, Some(reason)) => format!("not compared, because {reason}."),
        (None, None) => "not compared.".into(),
    }
}

/// `a` against `b`, with the interval.
fn worded(found: &Comparison, a: &str, b: &str) -> String {
    let ratio = found.ratio;
    let times = significant(ratio.median);
    let interval = format!(
        "95 % interval {}, {}",
        range(ratio.low, ratio.high),
        blocks(ratio.n)
    );
    match found.verdict {
        Verdict::Faster => format!("{a} is faster than {b}: {times} times its rate ({interval})."),
        Verdict::Slower => format!("{a} is slower than {b}: {times} times its rate ({interval})."),
        Verdict::Same => {
            format!("{a} and {b} are the same within 3 % ({times} times, {interval}).")
        }
        Verdict::CannotTell { blocks_more } if blocks_more <= BLOCKS_WORTH => format!(
            "cannot tell {a} from {b} ({times} times, {interval}); about {} more would.",
            blocks(blocks_more as usize)
        ),
        Verdict::CannotTell { .. } => format!(
            "cannot tell {a} from {b} ({times} times, {interval}); more blocks would not help, a calmer machine might."
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
