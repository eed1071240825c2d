//! What a run says, in sentences: one for each test and one over all.

use super::summary::{Summary, TestComparison};
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
    let said = said(found, &a, &b);
    let subject = if said.starts_with("cannot") {
        "we "
    } else {
        ""
    };
    Some(format!("Overall, {over}, {subject}{said}"))
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
        (Some(found), _) => said(found, a, b),
        (None, Some(reason)) => format!("not compared, because {reason}."),
        (None, None) => "not compared.".into(),
    }
}

/// `a` against `b`, with the interval.
fn said(found: &Comparison, a: &str, b: &str) -> String {
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
