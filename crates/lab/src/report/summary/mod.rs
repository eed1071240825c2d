//! The summary: every figure of a report, computed from the stored run.

mod comparisons;
mod row;
mod run_findings;

pub(super) use comparisons::{of_two, refusal, side};
pub(super) use run_findings::blocks_again;

use serde::Serialize;

use crate::checks::{Finding, Validity};
use crate::fio::{Histogram, Quantile};
use crate::stats::{Comparison, Interval};
use crate::store::RunRecord;
use crate::tools::{Better, Unit};
use crate::units::Nanos;

/// Everything that a report says.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// One for each test on each target that it is made on, in the plan's order.
    pub rows: Vec<Row>,
    /// One for each test and each target that is compared with the baseline, in the targets' order.
    pub comparisons: Vec<TestComparison>,
    /// One for each target that is compared with the baseline and could be compared at all.
    pub overall: Vec<Overall>,
    /// What only the run as a whole shows: tools that failed, sweeps, where the temperature leads.
    pub findings: Vec<Finding>,
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
    /// What its headline is: `throughput`, or a tool's first figure.
    pub figure: String,
    /// Of the headline.
    pub unit: Unit,
    /// Which way of the headline is good.
    pub better: Better,
    /// The headline.
    pub headline: Option<Interval>,
    /// A tool's figures, the headline among them; empty for fio.
    pub figures: Vec<FigureRow>,
    /// The headline again, where it is bytes per second.
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
    /// The part of one core that fio took; zero for a tool.
    pub generator_cpu: f64,
    /// Each measurement, usable or not.
    pub blocks: Vec<BlockPoint>,
    /// What only its measurements together show: whether it is steady, what is left out of it, a layer that
    /// is faster than the one below it.
    pub findings: Vec<Finding>,
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
    /// The headline, in the row's unit.
    pub rate: f64,
    /// Whether it is in the median.
    pub usable: bool,
}

/// One figure of a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureRow {
    /// As the tool calls it.
    pub name: String,
    /// Of `value`.
    pub unit: Unit,
    /// Which way is good.
    pub better: Better,
    /// Over all usable blocks.
    pub value: Interval,
}

/// A target compared with the baseline in one test.
#[derive(Debug, Clone, Serialize)]
pub struct TestComparison {
    /// Index of the test.
    pub workload: usize,
    /// Index of the target.
    pub target: usize,
    /// Index of the target that it is compared with.
    pub baseline: usize,
    /// Target over baseline, above one where it is better; when they may be compared.
    pub comparison: Option<Comparison>,
    /// Why they may not.
    pub refused: Option<String>,
}

/// A target compared with the baseline in all tests.
#[derive(Debug, Clone, Serialize)]
pub struct Overall {
    /// Index of the target.
    pub target: usize,
    /// Index of the target that it is compared with.
    pub baseline: usize,
    /// How many tests could be compared.
    pub tests: usize,
    /// The geometric mean of their ratios.
    pub comparison: Comparison,
}

impl Summary {
    /// Computes all that a report shows of `run`.
    #[must_use]
    pub fn of(run: &RunRecord) -> Self {
        let targets = run.manifest.targets.len();
        let mut rows: Vec<Row> = (0..run.plan.workloads.len())
            .flat_map(|workload| (0..targets).map(move |target| (workload, target)))
            .filter(|(workload, target)| run.manifest.measures(*workload, *target))
            .map(|(workload, target)| row::row(run, workload, target))
            .collect();
        for marked in run_findings::layers(run) {
            let place = (marked.workload, marked.target);
            let mut rows = rows.iter_mut();
            if let Some(row) = rows.find(|row| (row.workload, row.target) == place) {
                row.mark(marked.finding);
            }
        }
        let compared = comparisons::comparisons(run, &rows);
        Self {
            rows,
            comparisons: compared.tests,
            overall: compared.overall,
            findings: run_findings::findings(run),
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

impl Row {
    /// Says more of it.
    fn mark(&mut self, finding: Finding) {
        match &mut self.validity {
            Validity::Remarks { texts } => texts.push(finding.text.clone()),
            Validity::Good => self.validity = Validity::of([&finding]),
            Validity::Invalid { .. } => {}
        }
        self.findings.push(finding);
    }
}
