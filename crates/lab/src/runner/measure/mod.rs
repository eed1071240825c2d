//! One real measurement: drop caches, read counters, run fio or a tool, read counters, check.
//!
//! | part | what |
//! |---|---|
//! | here | the order of it, and the checks |
//! | [`caches`] | what is dropped before, and what is still in memory |
//! | [`fio`] | one start of fio, and what fio itself can do |
//! | [`tool`] | one start of another tool |
//! | [`failure`] | what a start that gave nothing ends |

mod caches;
mod failure;
mod fio;
mod tool;

use std::collections::BTreeMap;
use std::time::Instant;

use super::agents::Agents;
use super::blocks::{CellResult, Executor, StopReason};
use super::counters::Counters;
use super::prepare::{Prepared, ReadyTarget, engine_for};
use super::request::{Cancel, RunRequest};
use super::schedule::CellSlot;
use crate::checks::ceiling::Ceiling;
use crate::checks::{self, Finding, FioMeasurement, Measurement, ToolMeasurement, fio_cpu};
use crate::host::{Process, ceilings};
use crate::plan::{self, Direction, Workload};
use crate::sensors::{Disks, Sample, Sampler};
use crate::store::{Cell, CommandLine, Evidence, Outcome};
use crate::tools;
use crate::units::{Nanos, Rate};

/// The executor that runs fio and the other tools.
pub(super) struct ToolExecutor<'a> {
    request: &'a RunRequest,
    prepared: &'a Prepared,
    cancel: &'a Cancel,
    start: Instant,
    /// How long the run took before it went on.
    before: Nanos,
    sampler: Sampler,
    agents: Agents,
    was_full: bool,
    /// Of each target; raised when a result is above one and a new measurement is too.
    ceilings: Vec<Vec<Ceiling>>,
    /// Operations per second that fio makes on a disk that does nothing, by the test's index.
    generators: BTreeMap<usize, Option<f64>>,
    /// Processes that take part.
    ours: Vec<u32>,
}

/// What fio or a tool gave.
struct ToolOutput {
    outcome: Outcome,
    raw: String,
    lines: Vec<String>,
    findings: Vec<Finding>,
}

impl<'a> ToolExecutor<'a> {
    pub(super) fn new(
        request: &'a RunRequest,
        prepared: &'a Prepared,
        agents: Agents,
        cancel: &'a Cancel,
        start: Instant,
        before: Nanos,
    ) -> Self {
        let facts = || prepared.targets.iter().map(|target| &target.facts);
        let processes = facts().map(|facts| (facts.name.as_str(), facts.processes.as_slice()));
        let disks = facts().filter_map(|facts| facts.device.clone()).collect();
        Self {
            request,
            prepared,
            cancel,
            start,
            before,
            sampler: Sampler::new(followed(processes), Disks::Named(disks)),
            agents,
            was_full: false,
            ceilings: facts().map(|facts| facts.ceilings.clone()).collect(),
            generators: BTreeMap::new(),
            ours: prepared.processes(),
        }
    }

    /// The samples not yet kept.
    pub(super) fn samples(&mut self) -> Vec<Sample> {
        let (mut samples, _) = self.agents.collect(&Evidence::default());
        samples.extend(self.sampler.collect());
        samples
    }

    fn since_start(&self, now: Instant) -> Nanos {
        since(self.start, self.before, now)
    }

    /// Measures the ceilings that a result is above again.
    fn raise_ceilings(&mut self, target: usize, rate: Option<Rate>) {
        for ceiling in &mut self.ceilings[target] {
            if rate.is_some_and(|rate| rate > ceiling.rate) {
                *ceiling = ceilings::again(ceiling);
            }
        }
    }

    fn counters(&self, target: &ReadyTarget) -> Counters {
        Counters::now(self.since_start(engine::clock::now()), target, &self.ours)
    }

    fn make(&mut self, slot: CellSlot, workload: &'a Workload) -> Result<ToolOutput, StopReason> {
        let target = &self.prepared.targets[slot.target];
        match &workload.job {
            plan::Job::Fio(job) => self.fio(slot, workload, job, target),
            plan::Job::Tool(tool) => self.tool(slot, workload, tool, target),
        }
    }

    /// What the checks say of it.
    fn judged(
        &mut self,
        slot: CellSlot,
        made: &ToolOutput,
        evidence: &Evidence,
        samples: &[Sample],
        elapsed: Nanos,
    ) -> Vec<Finding> {
        if made.has_failed() {
            return Vec::new();
        }
        let target = &self.prepared.targets[slot.target];
        let workload = &self.request.plan.workloads[slot.workload];
        let rate = made.rate();
        self.raise_ceilings(slot.target, rate);
        let (generator, load_cpu) = match (&made.outcome, workload.fio()) {
            (Outcome::Fio(result), Some(job)) => (
                self.generator_for(slot.workload, job, result),
                Some(fio_cpu(job, result)),
            ),
            _ => (None, None),
        };
        let measurement = Measurement {
            facts: &target.facts,
            ceilings: &self.ceilings[slot.target],
            evidence,
            samples,
            elapsed,
            rate,
            direction: made.direction(),
            load_cpu,
        };
        match (&made.outcome, &workload.job) {
            (Outcome::Fio(result), plan::Job::Fio(job)) => {
                let engine = self.prepared.engine;
                checks::fio(&FioMeasurement {
                    job,
                    result,
                    engine: engine.map(|engine| engine_for(&target.ground, engine)),
                    generator,
                    measurement,
                })
            }
            (_, plan::Job::Tool(tool)) => checks::tool(&ToolMeasurement {
                title: &workload.title,
                tool,
                measurement,
            }),
            (Outcome::Tool(_), plan::Job::Fio(_)) => Vec::new(),
        }
    }
}

/// The time of the run at `now`, what it took before it went on included.
fn since(start: Instant, before: Nanos, now: Instant) -> Nanos {
    Nanos(
        before
            .0
            .saturating_add(Nanos::from_duration(now.duration_since(start)).0),
    )
}

/// The processes that sensors follow. The first of a role has its plain name, the next ones have that of their
/// target behind it, and a number where a target has more.
fn followed<'a>(targets: impl Iterator<Item = (&'a str, &'a [Process])>) -> Vec<(String, u32)> {
    let mut found: Vec<(String, u32)> = Vec::new();
    for (target, processes) in targets {
        for process in processes {
            let role = process.role.as_str();
            let names = [role.to_owned(), format!("{role}/{target}")];
            let numbered = (2..u32::MAX).map(|number| format!("{role}/{target}/{number}"));
            let mut names = names.into_iter().chain(numbered);
            let is_free = |name: &String| found.iter().all(|(known, _)| known != name);
            let name = names.find(is_free);
            found.extend(name.map(|name| (name, process.pid)));
        }
    }
    found
}

impl Executor for ToolExecutor<'_> {
    fn elapsed(&mut self) -> Nanos {
        self.since_start(engine::clock::now())
    }

    fn measure(&mut self, slot: CellSlot) -> Result<CellResult, StopReason> {
        let prepared = self.prepared;
        let target = &prepared.targets[slot.target];
        let workload = &self.request.plan.workloads[slot.workload];
        let unprepared = self.prepare_tool(slot, workload)?;
        // First the machines behind, so that nothing is read from them into what was dropped here.
        let drops_there = (!self.request.small).then(|| self.agents.drop_caches(&target.facts));
        let dropped_there = drops_there.flatten();
        if self.cancel.is_cancelled() {
            return Err(StopReason::Cancelled);
        }
        let caches = self.drop_caches(workload, target);
        if self.cancel.is_cancelled() {
            return Err(StopReason::Cancelled);
        }
        let agents_before = self.agents.before();
        let before = self.counters(target);
        let made = match unprepared {
            Some(made) => made,
            None => self.make(slot, workload)?,
        };
        let after = self.counters(target);
        let direction = made.direction();
        let agents = self.agents.after(&agents_before, &target.facts);
        let evidence = Evidence {
            dropped_there: dropped_there.filter(|_| caches.dropped.is_some()),
            dropped: caches.dropped,
            resident_before: caches.before,
            resident_after: self.look(workload, target),
            agents,
            ..after.since(&before, direction)
        };
        let mut samples = self.sampler.collect();
        let elapsed = Nanos(after.at.0.saturating_sub(before.at.0));
        let mut findings = self.judged(slot, &made, &evidence, &samples, elapsed);
        findings.splice(0..0, made.findings);
        let (there, remarks) = self.agents.collect(&evidence);
        samples.extend(there);
        findings.extend(remarks);
        let samples_full = self.sampler.is_full()
            && !std::mem::replace(&mut self.was_full, self.sampler.is_full());
        let commands = made.lines.into_iter().map(|line| CommandLine {
            purpose: workload.name.clone(),
            line,
        });
        Ok(CellResult {
            cell: Cell {
                block: slot.block,
                position: slot.position,
                workload: slot.workload,
                target: slot.target,
                started: before.at,
                elapsed,
                outcome: made.outcome,
                evidence,
                findings,
            },
            raw: made.raw,
            commands: commands.collect(),
            samples,
            samples_full,
        })
    }
}

impl ToolOutput {
    /// The direction of the bytes, where there is one.
    const fn direction(&self) -> Option<Direction> {
        match &self.outcome {
            Outcome::Fio(result) => Some(result.direction),
            Outcome::Tool(_) => None,
        }
    }

    /// Whether it gave no figure.
    fn has_failed(&self) -> bool {
        matches!(&self.outcome, Outcome::Tool(result) if result.figures.is_empty())
    }

    /// Bytes per second, where that is what was measured.
    fn rate(&self) -> Option<Rate> {
        match &self.outcome {
            Outcome::Fio(result) => Rate::of(result.bytes, result.runtime),
            Outcome::Tool(result) => result
                .headline()
                .filter(|figure| figure.unit == tools::Unit::BytesPerSecond)
                .map(|figure| Rate(figure.value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Role;

    #[test]
    fn no_two_processes_that_are_followed_have_one_name() {
        let client = |pid| Process {
            role: Role::Client,
            pid,
        };
        let (nbd, sshfs) = ([client(1)], [client(2), client(3), client(4)]);
        let targets = [("nbd", &nbd[..]), ("sshfs", &sshfs[..])];
        let expected = [
            ("client", 1),
            ("client/sshfs", 2),
            ("client/sshfs/2", 3),
            ("client/sshfs/3", 4),
        ];
        assert_eq!(
            followed(targets.into_iter()),
            expected.map(|(name, pid)| (name.to_owned(), pid))
        );
    }
}
