//! Comparisons: each target against the baseline, the ratio of each test with its interval.

use super::{Figure, ReportBlock, Section, Table};
use crate::report::chart::{self, Label};
use crate::report::short;
use crate::report::summary::Summary;
use crate::stats::{Comparison, VALUES_MIN};
use crate::store::RunRecord;

/// A name and its sentence.
type Named = (String, Option<Comparison>);

/// What the cover shows: the one target in each test, or all targets over all tests.
pub(in crate::report) fn overview(run: &RunRecord, summary: &Summary) -> Option<Figure> {
    match pairs(summary).as_slice() {
        [] => None,
        [(target, baseline)] => Some(comparison(run, summary, *target, *baseline)),
        pairs => Some(over_all(run, summary, pairs)),
    }
}

/// What the intervals of ratios of one run are.
const TOGETHER: &str = "Intervals are as wide as all comparisons of the run together make them (Holm): by chance one or more is wrong in at most \
                        5 % of all runs.";

/// Each target by itself, where the cover has them all together.
pub(super) fn section(run: &RunRecord, summary: &Summary) -> Option<Section> {
    let pairs = pairs(summary);
    if pairs.len() < 2 {
        return None;
    }
    let figures = pairs.iter().map(|(target, baseline)| {
        ReportBlock::Figure(comparison(run, summary, *target, *baseline))
    });
    let lead = "Each target against the one that the run compares with, paired by block: an arrow the way it goes, a square for the same, \
                a diamond for no significant difference.";
    Some(Section {
        id: "comparisons",
        title: "Comparisons",
        parts: std::iter::once(ReportBlock::Text(lead.into()))
            .chain(figures)
            .collect(),
    })
}

/// The targets that are compared, each with its baseline.
fn pairs(summary: &Summary) -> Vec<(usize, usize)> {
    let tests = summary.comparisons.iter();
    let mut pairs: Vec<(usize, usize)> = tests.map(|test| (test.target, test.baseline)).collect();
    pairs.dedup();
    pairs
}

fn overall(summary: &Summary, target: usize) -> Option<Comparison> {
    let found = summary
        .overall
        .iter()
        .find(|found| found.target == target)?;
    Some(found.comparison)
}

fn over_all(run: &RunRecord, summary: &Summary, pairs: &[(usize, usize)]) -> Figure {
    let label = |target: usize| short(&run.manifest.targets[target].label, 40);
    let rows: Vec<Named> = pairs
        .iter()
        .map(|(target, _)| (label(*target), overall(summary, *target)))
        .collect();
    let baseline = pairs
        .first()
        .map_or_else(String::new, |(_, baseline)| label(*baseline));
    let blocks = rows
        .iter()
        .filter_map(|(_, found)| Some(found.as_ref()?.ratio.n));
    let n = blocks.max().unwrap_or(0);
    let caption = caption(
        &format!("Each target over {baseline}: the geometric mean of all tests' ratios"),
        n,
    );
    figure(
        format!("All targets against {baseline}"),
        &rows,
        caption,
        "target",
    )
}

fn comparison(run: &RunRecord, summary: &Summary, target: usize, baseline: usize) -> Figure {
    let (a, b) = (
        &run.manifest.targets[target],
        &run.manifest.targets[baseline],
    );
    let tests = summary
        .comparisons
        .iter()
        .filter(|test| test.target == target);
    let is_single = |test: usize| run.plan.workloads[test].series.is_none();
    let has_single = summary
        .comparisons
        .iter()
        .any(|test| is_single(test.workload));
    let mut rows: Vec<Named> = tests
        // The points of a curve are in its section.
        .filter(|test| !has_single || is_single(test.workload))
        .map(|test| {
            let title = run.plan.workloads[test.workload].title.clone();
            (title, test.comparison)
        })
        .collect();
    let overall = overall(summary, target);
    rows.push(("Overall".into(), overall));
    let (a, b) = (short(&a.label, 40), short(&b.label, 40));
    let n = overall.map_or(0, |found| found.ratio.n);
    let caption = caption(
        &format!("{a} over {b}, above one where it is better: median of the blocks' ratios"),
        n,
    );
    figure(format!("{a} against {b}"), &rows, caption, "test")
}

/// What is drawn of `n` blocks: no interval of too few.
fn caption(what: &str, n: usize) -> String {
    let interval = match n >= VALUES_MIN {
        true => format!(" and its 95 % interval, n = {n} blocks. {TOGETHER}"),
        false => format!(", n = {n} blocks."),
    };
    format!("{what}{interval} The band is the same within 3 %.")
}

fn figure(title: String, rows: &[Named], caption: String, of: &str) -> Figure {
    let label = Label {
        title: &format!("{title}: ratios by {of}"),
        desc: &caption,
    };
    Figure {
        drawing: chart::ratio(rows, &label),
        title,
        key: Vec::new(),
        table: Table::new(&[of, "ratio", "low", "high", "blocks"]).with(rows.iter().map(cells)),
        caption,
        file: "comparison",
    }
}

fn cells((name, found): &Named) -> Vec<String> {
    let Some(Comparison { ratio, .. }) = found else {
        return vec![
            name.clone(),
            String::new(),
            String::new(),
            String::new(),
            "0".into(),
        ];
    };
    let text = |value: f64| match value < 0.1 {
        true => format!("{value:.6}"),
        false => format!("{value:.4}"),
    };
    let ends = [ratio.low, ratio.high].map(|end| match ratio.is_known() {
        true => text(end),
        false => String::new(),
    });
    [name.clone(), text(ratio.median)]
        .into_iter()
        .chain(ends)
        .chain([ratio.n.to_string()])
        .collect()
}
