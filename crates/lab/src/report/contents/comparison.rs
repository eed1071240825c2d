//! The comparison on the cover: the ratio of each test with its interval.

use super::{Figure, Table};
use crate::report::chart::{self, Label};
use crate::report::short;
use crate::report::summary::Summary;
use crate::stats::Comparison;
use crate::store::RunRecord;

/// Every target that is held against the baseline, each in every test.
pub(in crate::report) fn comparisons(run: &RunRecord, summary: &Summary) -> Vec<Figure> {
    let mut targets: Vec<(usize, usize)> = summary
        .comparisons
        .iter()
        .map(|test| (test.target, test.baseline))
        .collect();
    targets.dedup();
    targets
        .into_iter()
        .map(|(target, baseline)| comparison(run, summary, target, baseline))
        .collect()
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
    let tests = tests.map(|test| {
        let title = run.plan.workloads[test.workload].title.clone();
        (title, test.comparison)
    });
    let mut rows: Vec<(String, Option<Comparison>)> = tests.collect();
    let overall = summary.overall.iter().find(|found| found.target == target);
    let overall = overall.map(|found| found.comparison);
    rows.push(("Overall".into(), overall));
    let (a, b) = (short(&a.label, 40), short(&b.label, 40));
    let caption = format!(
        "Rate of {a} divided by that of {b}: median of the blocks' ratios and its 95 % interval, n = {} blocks. \
         The band is the same within 3 %.",
        overall.map_or(0, |found| found.ratio.n)
    );
    let label = Label {
        title: &format!("{a} against {b}: ratio of rates by test"),
        desc: &caption,
    };
    let drawing = chart::ratio(&rows, &label);
    Figure {
        title: format!("{a} against {b}"),
        drawing,
        key: Vec::new(),
        caption,
        table: Table::new(&["test", "ratio", "low", "high", "blocks"]).with(rows.iter().map(cells)),
        file: "comparison",
    }
}

fn cells((name, found): &(String, Option<Comparison>)) -> Vec<String> {
    let Some(Comparison { ratio, .. }) = found else {
        return vec![
            name.clone(),
            String::new(),
            String::new(),
            String::new(),
            "0".into(),
        ];
    };
    let figures = [ratio.median, ratio.low, ratio.high].map(|value| format!("{value:.4}"));
    std::iter::once(name.clone())
        .chain(figures)
        .chain([ratio.n.to_string()])
        .collect()
}
