//! Every target compared with the baseline: paired by block, and only where the jobs are equal. What a run
//! says together is compared together, so that its verdicts are right together.

use super::{Overall, Row, TestComparison};
use crate::checks::asymmetry::JobShape;
use crate::checks::{self, Validity};
use crate::plan::Workload;
use crate::stats::{Comparison, compare_family};
use crate::store::{Cell, Outcome, RunRecord};

/// One test on a target and on the baseline.
#[derive(Clone, Copy, PartialEq)]
struct RowPair {
    workload: usize,
    target: usize,
    baseline: usize,
}

/// Every comparison of a run, by test and over all tests.
pub(super) struct RunComparisons {
    pub(super) tests: Vec<TestComparison>,
    pub(super) overall: Vec<Overall>,
}

/// A ratio in each block of those that belong to one family: all single tests with what is over all tests, or
/// the points of one sweep.
struct FamilyMember<'a> {
    sweep: Option<&'a str>,
    ratios: Vec<f64>,
}

/// Every comparison of a run; none without a baseline.
pub(super) fn comparisons(run: &RunRecord, rows: &[Row]) -> RunComparisons {
    let pairs = pairs(run);
    let refused: Vec<Option<String>> = pairs
        .iter()
        .map(|pair| {
            let too_few = || of_pair(run, *pair).is_empty();
            let no_pair = || too_few().then(|| "no block has both measurements".into());
            refused(run, *pair, rows).or_else(no_pair)
        })
        .collect();
    let over_all = over_all(run, &pairs, &refused);
    let tests = pairs.iter().zip(&refused).map(|(pair, refused)| {
        let series = run.plan.workloads[pair.workload].series.as_ref();
        FamilyMember {
            sweep: series.map(|series| series.name.as_str()),
            ratios: match refused {
                Some(_) => Vec::new(),
                None => of_pair(run, *pair),
            },
        }
    });
    // One test over all tests is that test, and no other question.
    let whole = over_all.iter().map(|(tests, means)| FamilyMember {
        sweep: None,
        ratios: if tests.len() > 1 {
            means.clone()
        } else {
            Vec::new()
        },
    });
    let mut compared = by_family(&tests.chain(whole).collect::<Vec<_>>());
    let whole = compared.split_off(pairs.len());
    let of_test = |wanted: &RowPair| {
        let index = pairs.iter().position(|pair| pair == wanted)?;
        compared[index]
    };
    let overall = over_all
        .iter()
        .zip(whole)
        .filter_map(|((tests, _), found)| {
            let first = tests.first()?;
            Some(Overall {
                target: first.target,
                baseline: first.baseline,
                tests: tests.len(),
                comparison: found.or_else(|| of_test(first))?,
            })
        });
    let overall = overall.collect();
    let tests = pairs.iter().zip(refused).zip(&compared);
    let tests = tests.map(|((pair, refused), found)| TestComparison {
        workload: pair.workload,
        target: pair.target,
        baseline: pair.baseline,
        refused,
        comparison: *found,
    });
    RunComparisons {
        tests: tests.collect(),
        overall,
    }
}

/// For each target, the tests in which it may be compared, and the mean of their ratios in each block.
fn over_all(
    run: &RunRecord,
    pairs: &[RowPair],
    refused: &[Option<String>],
) -> Vec<(Vec<RowPair>, Vec<f64>)> {
    let mut targets: Vec<usize> = pairs.iter().map(|pair| pair.target).collect();
    targets.dedup();
    let over_all = targets.into_iter().filter_map(|target| {
        let compared = pairs.iter().zip(refused);
        let compared = compared
            .filter(|(pair, refused)| pair.target == target && refused.is_none())
            .map(|(pair, _)| *pair);
        let compared: Vec<RowPair> = compared.collect();
        let means = means(run, &compared);
        (!means.is_empty()).then_some((compared, means))
    });
    over_all.collect()
}

/// What is compared with what, in the targets' order.
fn pairs(run: &RunRecord) -> Vec<RowPair> {
    let Some(baseline) = run.manifest.baseline else {
        return Vec::new();
    };
    let targets = (0..run.manifest.targets.len()).filter(|target| *target != baseline);
    let pairs = targets.flat_map(|target| {
        (0..run.plan.workloads.len()).map(move |workload| RowPair {
            workload,
            target,
            baseline,
        })
    });
    let is_measured = |pair: &RowPair| {
        let sides = [pair.target, pair.baseline];
        let mut sides = sides.iter();
        sides.all(|target| run.manifest.measures(pair.workload, *target))
    };
    pairs.filter(is_measured).collect()
}

/// Compares the members of each family together; in the order of `members`.
fn by_family(members: &[FamilyMember<'_>]) -> Vec<Option<Comparison>> {
    let mut sweeps: Vec<Option<&str>> = members.iter().map(|member| member.sweep).collect();
    sweeps.sort_unstable();
    sweeps.dedup();
    let mut found = vec![None; members.len()];
    for sweep in sweeps {
        let family = (0..members.len()).filter(|index| members[*index].sweep == sweep);
        let family: Vec<usize> = family.collect();
        let ratios: Vec<&[f64]> = family
            .iter()
            .map(|index| members[*index].ratios.as_slice())
            .collect();
        for (index, comparison) in family.iter().zip(compare_family(&ratios)) {
            found[*index] = comparison;
        }
    }
    found
}

fn of_pair(run: &RunRecord, pair: RowPair) -> Vec<f64> {
    let ratios = of_two(run, pair.workload, pair.target, pair.baseline);
    ratios.into_iter().map(|(_, ratio)| ratio).collect()
}

/// The geometric mean of the ratios of all `tests`, in each block that has all of them.
fn means(run: &RunRecord, tests: &[RowPair]) -> Vec<f64> {
    let ratios = tests
        .iter()
        .map(|pair| of_two(run, pair.workload, pair.target, pair.baseline));
    let ratios: Vec<Vec<(u32, f64)>> = ratios.collect();
    let blocks = ratios.first().into_iter().flatten();
    let means = blocks.filter_map(|(block, _)| {
        let logs = ratios
            .iter()
            .map(|test| Some(test.iter().find(|(same, _)| same == block)?.1.ln()))
            .collect::<Option<Vec<f64>>>()?;
        Some((logs.iter().sum::<f64>() / logs.len() as f64).exp())
    });
    means.collect()
}

/// Two targets in one test: the first over the second in each block that has both, usable.
pub(in crate::report) fn of_two(
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
            (ratio.is_finite() && ratio > 0.0).then_some((first.block, ratio))
        })
        .collect()
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
