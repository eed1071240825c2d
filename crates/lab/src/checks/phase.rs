//! [`Phase`]: when a check runs, and the subject that it gets then. The registry of checks names them.
//!
//! Invariants: subjects are plain data; no check reads a file, a clock or a counter.

use super::Finding;
use super::alignment::DiskSegment;
use super::asymmetry::JobShape;
use super::cache::DroppedCaches;
use super::ceiling::Ceiling;
use super::identity::Identity;
use super::noise::Others;
use super::order::LayerComparison;
use super::sweep::Sweep;
use crate::fio::{Engine, Histogram, JobResult};
use crate::host::{Machine, TargetFacts};
use crate::plan::{Direction, FioJob};
use crate::sensors::Sample;
use crate::store::{Evidence, RunRecord};
use crate::tools::Tool;
use crate::units::{Nanos, Rate, round};

/// When a check runs, with the function that is called then.
#[derive(Clone, Copy)]
pub(super) enum Phase {
    /// Before the first block, until the machine is idle.
    Idle(fn(&Others, Nanos) -> Option<Finding>),
    /// Before the first block, once for this machine.
    Host(fn(&Machine) -> Option<Finding>),
    /// Before the first block, for each target.
    Target(fn(&TargetCheck<'_>) -> Vec<Finding>),
    /// Each result of fio, measured or imported.
    Job(fn(&FioJob, &JobResult) -> Option<Finding>),
    /// Each time that caches were dropped.
    Dropped(fn(&DroppedCaches<'_>) -> Vec<Finding>),
    /// Each measurement of fio.
    Fio(fn(&FioMeasurement<'_>) -> Vec<Finding>),
    /// Each measurement of another tool.
    Tool(fn(&ToolMeasurement<'_>) -> Option<Finding>),
    /// Each measurement.
    Measurement(fn(&Measurement<'_>) -> Vec<Finding>),
    /// Each measurement, for each machine that is watched: this one and those of agents.
    Machine(fn(&MachineWatch<'_>) -> Vec<Finding>),
    /// The report: all blocks of one test on one target.
    Blocks(fn(&[f64]) -> Option<Finding>),
    /// The report: each percentile, before it is printed.
    Percentile(fn(&Histogram, f64) -> bool),
    /// The report: each target compared with the one below it.
    Layer(fn(&LayerComparison<'_>) -> Option<Finding>),
    /// The report: each sweep over block sizes.
    Sweep(fn(&Sweep<'_>) -> Option<Finding>),
    /// The report: once for the run.
    Run(fn(&RunRecord) -> Option<Finding>),
    /// A comparison: the two jobs.
    Jobs(fn(&JobShape, &JobShape) -> Option<Finding>),
    /// A comparison of two runs: the two disks, the earlier one first.
    Disks(fn(&Identity, &Identity) -> Option<Finding>),
}

/// A target that is ready to be measured.
pub(crate) struct TargetCheck<'a> {
    pub(crate) facts: &'a TargetFacts,
    /// The partitions and segments that it lies on.
    pub(crate) segments: &'a [DiskSegment],
}

/// What was recorded around one measurement.
pub(crate) struct Measurement<'a> {
    pub(crate) facts: &'a TargetFacts,
    pub(crate) ceilings: &'a [Ceiling],
    pub(crate) evidence: &'a Evidence,
    /// Samples of this machine during the measurement.
    pub(crate) samples: &'a [Sample],
    /// From the first counters to the last.
    pub(crate) elapsed: Nanos,
    /// The headline, where it is a rate.
    pub(crate) rate: Option<Rate>,
    /// Which way the bytes went, where all went one way.
    pub(crate) direction: Option<Direction>,
    /// CPU time of the load generator, where it is known.
    pub(crate) load_cpu: Option<Nanos>,
}

impl Measurement<'_> {
    /// This machine.
    pub(super) fn machine(&self) -> MachineWatch<'_> {
        MachineWatch {
            samples: self.samples,
            lab: self.evidence.lab_cpu.map(|cpu| (cpu, self.elapsed)),
        }
    }
}

/// A machine that was watched during a measurement.
pub(crate) struct MachineWatch<'a> {
    pub(crate) samples: &'a [Sample],
    /// CPU time of the lab or its agent there, and over what time.
    pub(crate) lab: Option<(Nanos, Nanos)>,
}

/// A measurement of fio.
pub(crate) struct FioMeasurement<'a> {
    pub(crate) job: &'a FioJob,
    pub(crate) result: &'a JobResult,
    /// The engine that was requested.
    pub(crate) engine: Option<Engine>,
    /// Operations per second of the same job on a null disk, if measured.
    pub(crate) generator: Option<f64>,
    pub(crate) measurement: Measurement<'a>,
}

impl FioMeasurement<'_> {
    /// Operations per second.
    pub(super) fn operations(&self) -> f64 {
        self.result.ios as f64 / self.result.runtime.seconds().max(f64::MIN_POSITIVE)
    }

    /// The caches that were dropped before it; none where they were left alone.
    pub(super) fn dropped_caches(&self) -> Option<DroppedCaches<'_>> {
        let evidence = self.measurement.evidence;
        Some(DroppedCaches {
            dropped: evidence.dropped?,
            residency: evidence.resident_before,
            server: self.measurement.facts.server,
            there: evidence.dropped_there,
            program: None,
        })
    }
}

/// A measurement of another tool.
pub(crate) struct ToolMeasurement<'a> {
    /// Title of its test.
    pub(crate) title: &'a str,
    pub(crate) tool: &'a Tool,
    pub(crate) measurement: Measurement<'a>,
}

impl ToolMeasurement<'_> {
    /// The name of the test within a sentence.
    pub(super) fn name(&self) -> String {
        self.title.to_lowercase()
    }
}

/// CPU time of fio's jobs, in user space and in the kernel.
pub(crate) fn fio_cpu(job: &FioJob, result: &JobResult) -> Nanos {
    let cores = result.generator_cpu * f64::from(job.jobs);
    Nanos(round(cores * result.runtime.0 as f64))
}
