//! The summary: every figure of a report, computed from the stored run.

use serde::Serialize;

use crate::checks::asymmetry::{self, JobShape};
use crate::checks::{Check, Finding, Level, Validity, tail};
use crate::fio::{Histogram, Quantile};
use crate::plan::Workload;
use crate::sensors::CoreTimes;
use crate::stats::{Comparison, Interval, compare, interval};
use crate::store::{Cell, Evidence, RunRecord};
use crate::units::{MIB, Nanos};

/// The fewest usable measurements of a result, unless fewer were made.
const USABLE_MIN: usize = 3;

/// Everything that a report says.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// One for each test on each target, in the plan's order.
    pub rows: Vec<Row>,
    /// One for each test, when there are two targets.
    pub comparisons: Vec<TestComparison>,
    /// The geometric mean of all tests that could be compared.
    pub overall: Option<Comparison>,
}

/// One test on one target.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Index of the test.
    pub workload: usize,
    /// Index of the target.
    pub target: usize,
    /// The test's name for people.
    pub title: String,
    /// The target's name.
    pub label: String,
    /// Bytes per second.
    pub rate: Option<Interval>,
    /// Operations per second.
    pub operations: Option<Interval>,
    /// Half of all operations took at most this.
    pub p50: Option<Quantile>,
    /// All but one in a hundred took at most this.
    pub p99: Option<Quantile>,
    /// Every usable operation.
    #[serde(skip)]
    pub latencies: Histogram,
    /// Of the server's processes.
    pub server_cpu: Option<Cpu>,
    /// Of the client's processes.
    pub client_cpu: Option<Cpu>,
    /// How busy each core was, as parts of one.
    pub cores: Vec<(u32, f64)>,
    /// The part of one core that fio took.
    pub generator_cpu: f64,
    /// Each measurement, usable or not.
    pub blocks: Vec<BlockPoint>,
    /// Whether it may be believed.
    pub validity: Validity,
    /// Measurements that were usable.
    pub usable: usize,
}

/// CPU time of a process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cpu {
    /// As a part of one core while it was measured.
    pub of_core: f64,
    /// For each MiB moved.
    pub per_mib: Nanos,
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BlockPoint {
    /// Counted from 0.
    pub block: u32,
    /// Bytes per second.
    pub rate: f64,
    /// Whether it is in the median.
    pub usable: bool,
}

/// Two targets in one test.
#[derive(Debug, Clone, Serialize)]
pub struct TestComparison {
    /// Index of the test.
    pub workload: usize,
    /// First target over second, when they may be compared.
    pub comparison: Option<Comparison>,
    /// Why they may not.
    pub refused: Option<String>,
}

impl Summary {
    /// Computes everything that is said of `run`.
    #[must_use]
    pub fn of(run: &RunRecord) -> Self {
        let targets = run.manifest.targets.len();
        let rows: Vec<Row> = (0..run.plan.workloads.len())
            .flat_map(|workload| (0..targets).map(move |target| (workload, target)))
            .map(|(workload, target)| row(run, workload, target))
            .collect();
        if targets != 2 {
            return Self {
                rows,
                comparisons: Vec::new(),
                overall: None,
            };
        }
        let comparisons: Vec<TestComparison> = (0..run.plan.workloads.len())
            .map(|workload| comparison(run, workload, &rows))
            .collect();
        let overall = overall(run, &comparisons);
        Self {
            rows,
            comparisons,
            overall,
        }
    }

    /// The row of a test on a target.
    #[must_use]
    pub fn row(&self, workload: usize, target: usize) -> Option<&Row> {
        self.rows
            .iter()
            .find(|row| row.workload == workload && row.target == target)
    }
}

fn cells(run: &RunRecord, workload: usize, target: usize) -> Vec<&Cell> {
    run.cells
        .iter()
        .filter(|cell| cell.workload == workload && cell.target == target)
        .collect()
}

fn row(run: &RunRecord, workload: usize, target: usize) -> Row {
    let all = cells(run, workload, target);
    let usable: Vec<&Cell> = all
        .iter()
        .copied()
        .filter(|cell| cell.is_usable())
        .collect();
    let over = |value: fn(&Cell) -> f64| {
        let values: Vec<f64> = usable.iter().map(|cell| value(cell)).collect();
        interval(&values, run.seed)
    };
    let mut latencies = Histogram::default();
    for cell in &usable {
        latencies.merge(&cell.result.latencies);
    }
    // The server and the client are those of the first target; what they do meanwhile is not the
    // other one's cost.
    let process = |spent: fn(&Evidence) -> Option<Nanos>| {
        (target == 0).then(|| cpu(&usable, spent)).flatten()
    };
    Row {
        workload,
        target,
        title: run.plan.workloads[workload].title.clone(),
        label: run.manifest.targets[target].label.clone(),
        rate: over(|cell| cell.rate().0),
        operations: over(Cell::operations_per_second),
        p50: tail::percentile(&latencies, 0.5),
        p99: tail::percentile(&latencies, 0.99),
        latencies,
        server_cpu: process(|seen| seen.server_cpu),
        client_cpu: process(|seen| seen.client_cpu),
        cores: cores(&usable),
        generator_cpu: mean(usable.iter().map(|cell| cell.result.generator_cpu)),
        blocks: all
            .iter()
            .map(|cell| BlockPoint {
                block: cell.block,
                rate: cell.rate().0,
                usable: cell.is_usable(),
            })
            .collect(),
        validity: validity(&all, usable.len()),
        usable: usable.len(),
    }
}

/// What all measurements of one result make of it. Remarks are said once for each check.
fn validity(all: &[&Cell], usable: usize) -> Validity {
    if all.is_empty() {
        return Validity::Invalid {
            reason: "it was not measured".into(),
        };
    }
    let invalid: Vec<&Finding> = all
        .iter()
        .filter_map(|cell| {
            cell.findings
                .iter()
                .find(|finding| finding.level == Level::Invalid)
        })
        .collect();
    if let Some(first) = invalid.first() {
        let enough = usable * 2 > all.len() && usable >= USABLE_MIN.min(all.len());
        if !enough {
            return Validity::Invalid {
                reason: first.text.clone(),
            };
        }
    }
    let mut findings: Vec<Finding> = remarks(all);
    if let Some(first) = invalid.first() {
        findings.push(Finding::remark(
            first.check,
            format!(
                "{} of {} blocks are left out: {}",
                invalid.len(),
                all.len(),
                first.text
            ),
        ));
    }
    Validity::of(&findings)
}

fn remarks(all: &[&Cell]) -> Vec<Finding> {
    let mut first_of: Vec<(Check, Finding, usize)> = Vec::new();
    for finding in all.iter().flat_map(|cell| &cell.findings) {
        if finding.level != Level::Remark {
            continue;
        }
        match first_of
            .iter_mut()
            .find(|(check, _, _)| *check == finding.check)
        {
            Some((_, _, count)) => *count += 1,
            None => first_of.push((finding.check, finding.clone(), 1)),
        }
    }
    first_of
        .into_iter()
        .map(|(_, mut finding, count)| {
            if count < all.len() {
                finding.text = format!("{} ({count} of {} blocks)", finding.text, all.len());
            }
            finding
        })
        .collect()
}

fn cpu(cells: &[&Cell], spent: fn(&Evidence) -> Option<Nanos>) -> Option<Cpu> {
    let mut total = Nanos(0);
    let mut time = 0.0;
    let mut bytes = 0u64;
    for cell in cells {
        total.0 = total.0.saturating_add(spent(&cell.evidence)?.0);
        time += cell.result.runtime.seconds();
        bytes = bytes.saturating_add(cell.result.bytes.0);
    }
    (time > 0.0 && bytes > 0).then(|| Cpu {
        of_core: total.seconds() / time,
        per_mib: Nanos(crate::units::round(
            total.0 as f64 * MIB as f64 / bytes as f64,
        )),
    })
}

/// Each core's busy part over all measurements.
fn cores(cells: &[&Cell]) -> Vec<(u32, f64)> {
    let mut sums: Vec<(u32, CoreTimes)> = Vec::new();
    for (number, times) in cells.iter().flat_map(|cell| &cell.evidence.cores) {
        match sums.iter_mut().find(|(same, _)| same == number) {
            Some((_, sum)) => {
                sum.user += times.busy();
                sum.idle += times.idle;
            }
            None => sums.push((
                *number,
                CoreTimes {
                    user: times.busy(),
                    idle: times.idle,
                    ..CoreTimes::default()
                },
            )),
        }
    }
    sums.into_iter()
        .map(|(number, sum)| (number, sum.busy() as f64 / sum.total().max(1) as f64))
        .collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    if count == 0 {
        0.0
    } else {
        sum / f64::from(count)
    }
}

fn comparison(run: &RunRecord, workload: usize, rows: &[Row]) -> TestComparison {
    let refused = refusal(run, workload, rows);
    let comparison = match refused {
        Some(_) => None,
        None => compare(
            &ratios(run, workload)
                .into_iter()
                .map(|(_, ratio)| ratio)
                .collect::<Vec<_>>(),
            run.seed,
        ),
    };
    TestComparison {
        workload,
        refused: refused.or_else(|| {
            comparison
                .is_none()
                .then(|| "no block has both measurements".into())
        }),
        comparison,
    }
}

fn refusal(run: &RunRecord, workload: usize, rows: &[Row]) -> Option<String> {
    for row in rows.iter().filter(|row| row.workload == workload) {
        if let Validity::Invalid { reason } = &row.validity {
            return Some(format!("{} is invalid: {reason}", row.label));
        }
    }
    let shape = |target| {
        Some(job_shape(
            run,
            &run.plan.workloads[workload],
            cells(run, workload, target).first()?,
        ))
    };
    asymmetry::check(&shape(0)?, &shape(1)?).map(|finding| finding.text)
}

fn job_shape(run: &RunRecord, workload: &Workload, cell: &Cell) -> JobShape {
    JobShape {
        block_size: cell.result.block_size.clone(),
        depth: cell.result.depth,
        jobs: workload.jobs,
        direct: cell.result.direct,
        engine: cell.result.engine.clone(),
        limit: format!("{} or {}", run.manifest.size, workload.runtime()),
    }
}

/// First over second in each block that has both, usable.
fn ratios(run: &RunRecord, workload: usize) -> Vec<(u32, f64)> {
    let usable = |target| {
        cells(run, workload, target)
            .into_iter()
            .filter(|cell| cell.is_usable())
    };
    usable(0)
        .filter_map(|first| {
            let second = usable(1).find(|second| second.block == first.block)?;
            Some((first.block, first.rate().0 / second.rate().0))
        })
        .collect()
}

/// The geometric mean over the tests that were compared, in each block that has all of them.
fn overall(run: &RunRecord, comparisons: &[TestComparison]) -> Option<Comparison> {
    let compared: Vec<Vec<(u32, f64)>> = comparisons
        .iter()
        .filter(|test| test.comparison.is_some())
        .map(|test| ratios(run, test.workload))
        .collect();
    let first = compared.first()?;
    let means: Vec<f64> = first
        .iter()
        .filter_map(|(block, _)| {
            let logs = compared
                .iter()
                .map(|test| Some(test.iter().find(|(same, _)| same == block)?.1.ln()))
                .collect::<Option<Vec<f64>>>()?;
            Some((logs.iter().sum::<f64>() / logs.len() as f64).exp())
        })
        .collect();
    compare(&means, run.seed)
}
