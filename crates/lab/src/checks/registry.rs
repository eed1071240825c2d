//! The registry of checks: for each its name and the phases in which it runs.
//!
//! A new check is a file in this folder (with its `mod` line) and one line in `registry!`. The rest of the
//! lab knows no check by name: it calls the function of a phase, below, with the subject of that phase.
//!
//! Invariants: findings come in the order of the lines here. A check that runs in several phases has one line.
//!
//! What it deliberately does not do: it measures nothing; each check gets the values that the phase has.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::asymmetry::JobShape;
use super::cache::DroppedCaches;
use super::identity::Identity;
use super::noise::Others;
use super::order::LayerComparison;
use super::phase::{
    FioMeasurement, MachineWatch, Measurement, Phase, TargetCheck, ToolMeasurement,
};
use super::sweep::Sweep;
use super::{
    Finding, alignment, asymmetry, cache, ceiling, data, denominators, direct, emulation, engine,
    generator, identity, in_flight, label, noise, observer, order, steady, sweep, tail, thermal,
    units,
};
use crate::fio::{Histogram, JobResult, Quantile};
use crate::host::Machine;
use crate::plan::FioJob;
use crate::store::RunRecord;
use crate::units::Nanos;

/// Makes the [`Check`] enum and the table of phases from the same lines.
macro_rules! registry {
    ($($(#[doc = $doc:literal])+ $check:ident $name:literal => [$($phase:ident($function:path)),* $(,)?],)+) => {
        /// The name of a check.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Check {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $check,)+
        }

        impl Check {
            /// The name as it is stored and printed.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$check => $name,)+ }
            }
        }

        /// Every check with the phases in which it runs.
        const CHECKS: &[(Check, &[Phase])] = &[
            $((Check::$check, &[$(Phase::$phase($function)),*]),)+
        ];
    };
}

registry! {
    /// The direction counted is the direction requested.
    Label "label" => [Job(label::of_job)],
    /// The printed rate is bytes over time.
    Units "units" => [Job(units::of_job)],
    /// No result is above what the wire, the bus or the memory can carry.
    Ceiling "ceiling" => [Measurement(ceiling::of_measurement), Fio(ceiling::of_fio)],
    /// O_DIRECT was used where it was requested.
    Direct "direct" => [Fio(direct::of_fio), Sweep(sweep::of_sweep)],
    /// Nothing that is read was in a cache.
    Cache "cache" => [Dropped(cache::of_caches), Tool(cache::of_tool)],
    /// The data read was written before, and neither that nor the data written compresses.
    Data "data" => [Job(data::of_job), Fio(data::of_fio)],
    /// What is in flight is little of what is moved.
    InFlight "in-flight" => [Job(in_flight::of_job)],
    /// Nothing else used the device, the processor or the wire.
    Noise "noise" => [Idle(noise::others), Fio(noise::of_fio), Measurement(noise::of_measurement)],
    /// The engine and the depth requested were used.
    Engine "engine" => [Fio(engine::of_fio)],
    /// The measured limit is not that of the load generator.
    Generator "generator" => [Fio(generator::of_fio), Tool(generator::of_tool)],
    /// A percentage of CPU states its denominator.
    Denominators "denominators" => [Measurement(denominators::of_measurement)],
    /// The machine was not throttled.
    Thermal "thermal" => [Machine(thermal::of_machine), Run(thermal::of_run)],
    /// The lab's own cost is small.
    Observer "observer" => [Machine(observer::of_machine)],
    /// A percentile rests on enough slower operations.
    Tail "tail" => [Percentile(tail::is_supported)],
    /// The state that was measured lasts.
    Steady "steady" => [Blocks(steady::check)],
    /// A layer is no faster than the one below it.
    Order "order" => [Layer(order::check)],
    /// Only equal jobs are compared.
    Asymmetry "asymmetry" => [Jobs(asymmetry::check)],
    /// Partitions and segments begin at physical blocks.
    Alignment "alignment" => [Target(alignment::of_target)],
    /// A disk is identified by more than its letter.
    Identity "identity" => [Target(identity::of_target), Disks(identity::compare)],
    /// The machine is a real one.
    Emulation "emulation" => [Host(emulation::of_host)],
    /// Other findings about how the run was made.
    Run "run" => [],
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// All phases of all checks, in the order of the registry.
fn phases() -> impl Iterator<Item = Phase> {
    CHECKS.iter().flat_map(|(_, phases)| phases.iter().copied())
}

/// What the checks of one phase have to say.
fn findings<F: IntoIterator<Item = Finding>>(run: impl FnMut(Phase) -> F) -> Vec<Finding> {
    phases().flat_map(run).collect()
}

/// Before the first block, until the machine is idle: the load of other programs over `elapsed`.
pub(crate) fn idle(others: &Others, elapsed: Nanos) -> Vec<Finding> {
    findings(|phase| match phase {
        Phase::Idle(check) => check(others, elapsed),
        _ => None,
    })
}

/// Before the first block: this machine.
pub(crate) fn host(machine: &Machine) -> Vec<Finding> {
    findings(|phase| match phase {
        Phase::Host(check) => check(machine),
        _ => None,
    })
}

/// Before the first block: one target. Each text begins with the target's label.
pub(crate) fn target(seen: &TargetCheck<'_>) -> Vec<Finding> {
    findings(|phase| match phase {
        Phase::Target(check) => check(seen)
            .into_iter()
            .map(|finding| finding.at(&seen.facts.label))
            .collect(),
        _ => Vec::new(),
    })
}

/// A result of fio that was imported: its own numbers are all that is known.
pub(crate) fn imported(job: &FioJob, result: &JobResult) -> Vec<Finding> {
    findings(|phase| match phase {
        Phase::Job(check) => check(job, result),
        _ => None,
    })
}

/// One measurement of fio.
pub(crate) fn fio(seen: &FioMeasurement<'_>) -> Vec<Finding> {
    let dropped = seen.dropped_caches();
    let found = phases().flat_map(|phase| match (phase, &dropped) {
        (Phase::Job(check), _) => check(seen.job, seen.result).into_iter().collect(),
        (Phase::Dropped(check), Some(dropped)) => check(dropped),
        (Phase::Fio(check), _) => check(seen),
        (phase, _) => around(phase, &seen.measurement),
    });
    found.collect()
}

/// One measurement of another tool.
pub(crate) fn tool(seen: &ToolMeasurement<'_>) -> Vec<Finding> {
    findings(|phase| match phase {
        Phase::Tool(check) => check(seen).into_iter().collect(),
        phase => around(phase, &seen.measurement),
    })
}

/// What runs in each measurement, whichever program made the load.
fn around(phase: Phase, seen: &Measurement<'_>) -> Vec<Finding> {
    match phase {
        Phase::Measurement(check) => check(seen),
        Phase::Machine(check) => check(&seen.machine()),
        _ => Vec::new(),
    }
}

/// During a measurement: the machine of an agent.
pub(crate) fn machine(watch: &MachineWatch<'_>) -> Vec<Finding> {
    findings(|phase| match phase {
        Phase::Machine(check) => check(watch),
        _ => Vec::new(),
    })
}

/// After caches were dropped: what is left in them.
pub(crate) fn dropped(caches: &DroppedCaches<'_>) -> Vec<Finding> {
    findings(|phase| match phase {
        Phase::Dropped(check) => check(caches),
        _ => Vec::new(),
    })
}

/// The usable headline figures of one test on one target, in the order of their blocks.
pub(crate) fn blocks(figures: &[f64]) -> Vec<Finding> {
    findings(|phase| match phase {
        Phase::Blocks(check) => check(figures),
        _ => None,
    })
}

/// A target compared with the one below it.
pub(crate) fn layer(layer: &LayerComparison<'_>) -> Vec<Finding> {
    findings(|phase| match phase {
        Phase::Layer(check) => check(layer),
        _ => None,
    })
}

/// A sweep over block sizes on one target.
pub(crate) fn block_sizes(seen: &Sweep<'_>) -> Vec<Finding> {
    findings(|phase| match phase {
        Phase::Sweep(check) => check(seen),
        _ => None,
    })
}

/// A whole run, when it is reported.
pub(crate) fn run(run: &RunRecord) -> Vec<Finding> {
    findings(|phase| match phase {
        Phase::Run(check) => check(run),
        _ => None,
    })
}

/// Two jobs with results to be compared.
pub(crate) fn jobs(a: &JobShape, b: &JobShape) -> Vec<Finding> {
    findings(|phase| match phase {
        Phase::Jobs(check) => check(a, b),
        _ => None,
    })
}

/// The disks of two runs that are compared, the earlier one first.
pub(crate) fn disks(before: &Identity, now: &Identity) -> Vec<Finding> {
    findings(|phase| match phase {
        Phase::Disks(check) => check(before, now),
        _ => None,
    })
}

/// The percentile `part` (0.99 for p99), unless a check refuses it.
pub(crate) fn percentile(histogram: &Histogram, part: f64) -> Option<Quantile> {
    let mut all = phases();
    let is_refused = all.any(|phase| match phase {
        Phase::Percentile(check) => !check(histogram, part),
        _ => false,
    });
    match is_refused {
        true => None,
        false => histogram.quantile(part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_but_that_of_the_run_itself_runs_in_a_phase() {
        for (check, phases) in CHECKS {
            assert_eq!(phases.is_empty(), *check == Check::Run, "{check}");
        }
    }

    #[test]
    fn a_check_is_stored_under_the_name_that_is_printed() {
        for (check, _) in CHECKS {
            let stored = serde_json::to_value(check).expect("a name");
            assert_eq!(stored, check.as_str());
            let read: Check = serde_json::from_value(stored).expect("the same name");
            assert_eq!(read, *check);
        }
    }
}
