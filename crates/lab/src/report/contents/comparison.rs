//! The comparison on the cover: the ratio of each test with its interval.

use super::{Figure, Table};
use crate::report::chart::{self, Label};
use crate::report::short;
use crate::report::summary::Summary;
use crate::stats::Comparison;
use crate::store::RunRecord;

/// Every test of the first target against the second; none where there are not two.
pub(in crate::report) fn comparison(run: &RunRecord, summary: &Summary) -> Option<Figure> {
    let [a, b] = run.manifest.targets.as_slice() else {
        return None;
    };
    let tests = summary.comparisons.iter().map(|test| {
        let title = run.plan.workloads[test.workload].title.clone();
        (title, test.comparison)
    });
    let mut rows: Vec<(String, Option<Comparison>)> = tests.collect();
    rows.push(("Overall".into(), summary.overall));
    let (a, b) = (short(&a.label, 40), short(&b.label, 40));
    let caption = format!(
        "Rate of {a} divided by that of {b}: median of the blocks' ratios and its 95 % interval, n = {} blocks. \
         The band is the same within 3 %.",
        summary.overall.map_or(0, |found| found.ratio.n)
    );
    let label = Label {
        title: &format!("{a} against {b}: ratio of rates by test"),
        desc: &caption,
    };
    let drawing = chart::ratio(&rows, &label);
    Some(Figure {
        title: format!("{a} against {b}"),
        drawing,
        key: Vec::new(),
        caption,
        table: Table::new(&["test", "ratio", "low", "high", "blocks"]).with(rows.iter().map(cells)),
        file: "comparison",
    })
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
