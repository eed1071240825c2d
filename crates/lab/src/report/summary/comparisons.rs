//! Every target compared with the baseline: paired by block, and only where the jobs are equal.

use super::{Overall, Row, TestComparison};
use crate::checks::asymmetry::JobShape;
use crate::checks::{self, Validity};
use crate::plan::Workload;
use crate::stats::{Comparison, compare};
use crate::store::{Cell, Outcome, RunRecord};

/// One test on a target and on the baseline.
#[derive(Clone, Copy)]
struct RowPair {
    workload: usize,
    target: usize,
    baseline: usize,
}

/// Every comparison of a run; none without a baseline.
pub(super) fn comparisons(run: &RunRecord, rows: &[Row]) -> Vec<TestComparison> {
    let Some(baseline) = run.manifest.baseline else {
        return Vec::new();
    };
    let targets = (0..run.manifest.targets.len()).filter(|target| *target != baseline);
    targets
        .flat_map(|target| {
            (0..run.plan.workloads.len()).map(move |workload| RowPair {
                workload,
                target,
                baseline,
            })
        })
        .filter(|pair| {
            [pair.target, pair.baseline]
                .iter()
                .all(|target| run.manifest.measures(pair.workload, *target))
        })
        .map(|pair| comparison(run, pair, rows))
        .collect()
}

fn comparison(run: &RunRecord, pair: RowPair, rows: &[Row]) -> TestComparison {
    let refused = refused(run, pair, rows);
    let found = match refused {
        Some(_) => None,
        None => compared(run, pair.workload, pair.target, pair.baseline),
    };
    TestComparison {
        workload: pair.workload,
        target: pair.target,
        baseline: pair.baseline,
        refused: refused.or_else(|| {
            found
                .is_none()
                .then(|| "no block has both measurements".into())
        }),
        comparison: found,
    }
}

/// Two targets in one test: the first over the second in each block that has both, usable.
pub(super) fn of_two(
    run: &RunRecord,
    workload: usize,
    target: usize,
    baseline: usize,
) -> Vec<(u32, f64)> {
    let usable = |target| {
        let all = run.cells_of(workload, target);
        all.filter(|cell| cell.is_usable())
    };
    usable(target)
        .filter_map(|first| {
            let second = usable(baseline).find(|second| second.block == first.block)?;
            let ratio = first.headline()?.over(&second.headline()?);
            Some((first.block, ratio))
        })
        .collect()
}

/// `target` over `baseline` in one test, in each block that has both.
pub(in crate::report) fn compared(
    run: &RunRecord,
    workload: usize,
    target: usize,
    baseline: usize,
) -> Option<Comparison> {
    let ratios = of_two(run, workload, target, baseline).into_iter();
    let ratios: Vec<f64> = ratios.map(|(_, ratio)| ratio).collect();
    compare(&ratios, run.seed)
}

fn refused(run: &RunRecord, pair: RowPair, rows: &[Row]) -> Option<String> {
    let sides = [pair.target, pair.baseline];
    let is_of = |row: &&Row| row.workload == pair.workload && sides.contains(&row.target);
    for row in rows.iter().filter(is_of) {
        if let Validity::Invalid { reason } = &row.validity {
            return Some(format!("{} is invalid: {reason}", row.label));
        }
    }
    let side = |target| side(run, pair.workload, target);
    refusal(side(pair.target)?, side(pair.baseline)?)
}

/// A measurement with its run and its test.
pub(in crate::report) type Side<'a> = (&'a RunRecord, &'a Workload, &'a Cell);

/// The first measurement of a test on a target that did not fail: one that failed is no answer.
pub(in crate::report) fn side(run: &RunRecord, workload: usize, target: usize) -> Option<Side<'_>> {
    let cell = run
        .cells_of(workload, target)
        .find(|cell| !cell.has_failed())?;
    Some((run, &run.plan.workloads[workload], cell))
}

/// Why two measurements may not be compared: their jobs or their tools differ.
pub(in crate::report) fn refusal(a: Side<'_>, b: Side<'_>) -> Option<String> {
    match (&a.2.outcome, &b.2.outcome) {
        (Outcome::Fio(_), Outcome::Fio(_)) => {
            let found = checks::jobs(&job_shape(a)?, &job_shape(b)?);
            found.into_iter().next().map(|finding| finding.text)
        }
        (Outcome::Tool(x), Outcome::Tool(y)) => {
            let versions = (x.version.as_str(), y.version.as_str());
            let differs = [
                (x.tool.as_str(), y.tool.as_str()),
                // Stores of older versions hold, for scenarios, the version of a program that does not matter.
                match versions.0.is_empty() || versions.1.is_empty() {
                    true => ("", ""),
                    false => versions,
                },
                (
                    x.subject.as_deref().unwrap_or_default(),
                    y.subject.as_deref().unwrap_or_default(),
                ),
            ];
            let (one, other) = differs.into_iter().find(|(one, other)| one != other)?;
            Some(format!("the tools differ: {one} against {other}"))
        }
        _ => Some("one was measured by fio and the other was not".into()),
    }
}

fn job_shape((run, workload, cell): Side<'_>) -> Option<JobShape> {
    let (result, job) = (cell.fio()?, workload.fio()?);
    Some(JobShape {
        block_size: result.block_size.clone(),
        depth: result.depth,
        jobs: job.jobs,
        direct: result.direct,
        engine: result.engine.clone(),
        limit: format!("{} or {}", job.moved_max(run.manifest.size), job.runtime()),
    })
}

/// For each target, the geometric mean over the tests that were compared, in each block that has all
/// of them.
pub(super) fn overall(run: &RunRecord, comparisons: &[TestComparison]) -> Vec<Overall> {
    let mut targets: Vec<usize> = comparisons.iter().map(|test| test.target).collect();
    targets.dedup();
    targets
        .into_iter()
        .filter_map(|target| overall_of(run, target, comparisons))
        .collect()
}

fn overall_of(run: &RunRecord, target: usize, all: &[TestComparison]) -> Option<Overall> {
    let compared: Vec<&TestComparison> = all
        .iter()
        .filter(|test| test.target == target && test.comparison.is_some())
        .collect();
    let baseline = compared.first()?.baseline;
    let ratios: Vec<Vec<(u32, f64)>> = compared
        .iter()
        .map(|test| of_two(run, test.workload, target, baseline))
        .collect();
    let means: Vec<f64> = ratios
        .first()?
        .iter()
        .filter_map(|(block, _)| {
            let logs = ratios
                .iter()
                .map(|test| Some(test.iter().find(|(same, _)| same == block)?.1.ln()))
                .collect::<Option<Vec<f64>>>()?;
            Some((logs.iter().sum::<f64>() / logs.len() as f64).exp())
        })
        .collect();
    Some(Overall {
        target,
        baseline,
        tests: compared.len(),
        comparison: compare(&means, run.seed)?,
    })
}
