//! One real measurement: drop caches, look, run fio or a tool, look again, check.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::agents::Agents;
use super::blocks::{Executor, Measured, Stop};
use super::counters::Counters;
use super::judge::{self, Around, Asked};
use super::prepare::{Prepared, ReadyTarget, engine_for};
use super::request::{Cancel, RunRequest};
use super::schedule::Slot;
use crate::checks::cache::Dropped;
use crate::checks::ceiling::Ceiling;
use crate::checks::direct::Residency;
use crate::checks::{Finding, cache};
use crate::fio::process::{Fio, RunError};
use crate::fio::{Job, JobResult, command, parse};
use crate::host::{ceilings, residency};
use crate::plan::{self, Direction, FioJob, Workload};
use crate::sensors::{Disks, Sample, Sampler};
use crate::store::{Cell, CommandLine, Evidence, Outcome};
use crate::tools::{self, Tool, ToolError};
use crate::units::{Nanos, Rate};

/// fio's time beyond what it was given: starting, and flushing what was written.
const OVERTIME: Duration = Duration::from_secs(45);
/// From this part of a core on, whether fio itself is the limit is looked into.
const GENERATOR_BUSY: f64 = 0.70;

/// What is to be kept of one measurement.
#[derive(Debug)]
pub(super) struct Kept<'a> {
    pub(super) cell: &'a Cell,
    pub(super) raw: &'a str,
    pub(super) commands: &'a [CommandLine],
    pub(super) samples: &'a [Sample],
    pub(super) samples_full: bool,
}

impl<'a> Kept<'a> {
    pub(super) fn of(measured: &'a Measured) -> Self {
        Self {
            cell: &measured.cell,
            raw: &measured.raw,
            commands: &measured.commands,
            samples: &measured.samples,
            samples_full: measured.samples_full,
        }
    }
}

/// The executor that runs fio and the other tools.
pub(super) struct Bench<'a> {
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
struct Made {
    outcome: Outcome,
    raw: String,
    lines: Vec<String>,
    findings: Vec<Finding>,
}

/// What was seen of the caches around it.
struct Caches {
    dropped: Option<Dropped>,
    before: Option<Residency>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        request: &'a RunRequest,
        prepared: &'a Prepared,
        agents: Agents,
        cancel: &'a Cancel,
        start: Instant,
        before: Nanos,
    ) -> Self {
        let facts = || prepared.targets.iter().map(|target| &target.facts);
        let disks = facts().filter_map(|facts| facts.device.clone()).collect();
        Self {
            request,
            prepared,
            cancel,
            start,
            before,
            sampler: Sampler::new(followed(prepared), Disks::Named(disks)),
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

    /// What fio makes of the same job on a disk that does nothing, in operations per second. Measured
    /// once for each test, and only when fio was busy enough for it to matter.
    fn generator_for(&mut self, workload: usize, job: &FioJob, result: &JobResult) -> Option<f64> {
        if let Some(known) = self.generators.get(&workload) {
            return *known;
        }
        if result.generator_cpu < GENERATOR_BUSY {
            return None;
        }
        let fio = self.prepared.tools.fio.as_ref()?;
        let output = self.prepared.work.path().join("generator.json");
        let args = command::generator(job, &output);
        let made = self
            .run_fio(fio, &args, &output, OVERTIME)
            .ok()
            .and_then(|text| parse(&text).ok());
        let operations = made.map(|made| made.ios as f64 / made.runtime.seconds());
        self.generators.insert(workload, operations);
        operations
    }

    fn counters(&self, target: &ReadyTarget) -> Counters {
        Counters::now(self.since_start(engine::clock::now()), target, &self.ours)
    }

    /// Both before a read and before a write: dirty pages of the one before would be flushed at the
    /// cost of this one.
    fn drop_caches(&self, workload: &Workload, target: &ReadyTarget) -> Caches {
        let reads = workload.direction() != Some(Direction::Write);
        let everywhere = target.facts.server == cache::Server::Here;
        let none = Caches {
            dropped: None,
            before: None,
        };
        let Some(file) = target.ground.file() else {
            return none;
        };
        let dropped = residency::drop_caches(file, self.prepared.size, everywhere);
        if !reads {
            return none;
        }
        Caches {
            dropped: Some(dropped),
            before: self.look(workload, target),
        }
    }

    /// What is in memory of the test file, where that can be seen and is of any use.
    fn look(&self, workload: &Workload, target: &ReadyTarget) -> Option<Residency> {
        let looks = target.shows_cache && workload.fio().is_some();
        let file = target.ground.file().filter(|_| looks)?;
        residency::look(file, self.prepared.size)
    }

    fn make(&mut self, slot: Slot, workload: &'a Workload) -> Result<Made, Stop> {
        let target = &self.prepared.targets[slot.target];
        match &workload.job {
            plan::Job::Fio(job) => self.fio(slot, workload, job, target),
            plan::Job::Tool(tool) => self.tool(slot, workload, tool, target),
        }
    }

    fn fio(
        &mut self,
        slot: Slot,
        workload: &Workload,
        asked: &FioJob,
        target: &ReadyTarget,
    ) -> Result<Made, Stop> {
        let prepared = self.prepared;
        let (Some(fio), Some(engine)) = (&prepared.tools.fio, prepared.engine) else {
            return Err(Stop::Failed("fio was not made ready".into()));
        };
        let job = Job {
            name: &workload.name,
            job: asked,
            subject: target.ground.subject(),
            size: prepared.size,
            engine: engine_for(&target.ground, engine),
            direct: prepared.direct,
            // Every target gets the same requests in a block, other blocks others.
            seed: prepared.seed.wrapping_add(u64::from(slot.block)) & 0x7fff_ffff,
        };
        let output = prepared.work.path().join("measure.json");
        let args = command::measure(&job, &output);
        let limit = Duration::from_nanos(asked.runtime().0) + OVERTIME;
        let text = self
            .run_fio(fio, &args, &output, limit)
            .map_err(|error| match error {
                RunError::Cancelled => Stop::Cancelled,
                other => failed(workload, target, &other.to_string()),
            })?;
        let result = parse(&text).map_err(|error| failed(workload, target, &error.to_string()))?;
        Ok(Made {
            outcome: Outcome::Fio(result),
            raw: text,
            lines: vec![command::shown("fio", &args)],
            findings: Vec::new(),
        })
    }

    fn run_fio(
        &mut self,
        fio: &Fio,
        args: &[std::ffi::OsString],
        output: &std::path::Path,
        limit: Duration,
    ) -> Result<String, RunError> {
        let (start, before) = (self.start, self.before);
        let (cancel, sampler) = (self.cancel, &mut self.sampler);
        fio.run(args, output, limit, &mut |now| {
            sampler.tick(since(start, before, now));
            !cancel.is_cancelled()
        })
    }

    fn tool(
        &mut self,
        slot: Slot,
        workload: &Workload,
        tool: &Tool,
        target: &ReadyTarget,
    ) -> Result<Made, Stop> {
        let prepared = self.prepared;
        let Some(Ok(installed)) = prepared.tools.others.get(tool.program().name) else {
            return Err(failed(workload, target, "it is not installed"));
        };
        let work = prepared.work.path();
        let directory = match target.ground.scratch() {
            Some(scratch) => scratch.tool_directory(),
            None => work.to_owned(),
        };
        let failed = |why: &str| failed(workload, target, why);
        std::fs::create_dir_all(&directory).map_err(|error| failed(&error.to_string()))?;
        let beside = self.beside(slot, workload);
        let place = tools::Place {
            directory: &directory,
            beside: &beside,
            work,
            seed: prepared.seed.wrapping_add(u64::from(slot.block)) & 0x7fff_ffff,
        };
        let (start, before) = (self.start, self.before);
        let (cancel, sampler) = (self.cancel, &mut self.sampler);
        let mut tick = |now: Instant| {
            sampler.tick(since(start, before, now));
            !cancel.is_cancelled()
        };
        let ran = tools::run(tool, installed, &place, &mut tick).map_err(|error| match error {
            ToolError::Cancelled => Stop::Cancelled,
            other => failed(&other.to_string()),
        })?;
        Ok(Made {
            outcome: Outcome::Tool(ran.result),
            raw: ran.output,
            lines: ran.commands,
            findings: ran.findings,
        })
    }

    /// Where a tool works on the other targets that have this test.
    fn beside(&self, slot: Slot, workload: &Workload) -> Vec<PathBuf> {
        let targets = self.prepared.targets.iter().enumerate();
        let others = targets
            .filter(|(index, other)| *index != slot.target && workload.is_for(&other.facts.name));
        others
            .filter_map(|(_, other)| other.ground.scratch())
            .map(super::scratch::Scratch::tool_directory)
            .collect()
    }

    /// Puts what a tool works on onto its target, before the counters are read.
    fn prepare_tool(&mut self, slot: Slot, workload: &Workload) -> Result<(), Stop> {
        let target = &self.prepared.targets[slot.target];
        let (Some(tool), Some(scratch)) = (workload.tool(), target.ground.scratch()) else {
            return Ok(());
        };
        let directory = scratch.tool_directory();
        std::fs::create_dir_all(&directory)
            .map_err(|error| failed(workload, target, &error.to_string()))?;
        let beside = self.beside(slot, workload);
        let place = tools::Place {
            directory: &directory,
            beside: &beside,
            work: self.prepared.work.path(),
            seed: self.prepared.seed & 0x7fff_ffff,
        };
        let cancel = self.cancel;
        match tools::prepare(tool, &place, &mut |_| !cancel.is_cancelled()) {
            Ok(_) => Ok(()),
            Err(ToolError::Cancelled) => Err(Stop::Cancelled),
            Err(error) => Err(failed(workload, target, &error.to_string())),
        }
    }

    /// What the checks say of it.
    fn judged(
        &mut self,
        slot: Slot,
        made: &Made,
        evidence: &Evidence,
        samples: &[Sample],
        elapsed: Nanos,
    ) -> Vec<Finding> {
        let target = &self.prepared.targets[slot.target];
        let workload = &self.request.plan.workloads[slot.workload];
        let rate = made.rate();
        self.raise_ceilings(slot.target, rate);
        let generator = match (&made.outcome, workload.fio()) {
            (Outcome::Fio(result), Some(job)) => self.generator_for(slot.workload, job, result),
            _ => None,
        };
        let around = Around {
            target,
            ceilings: &self.ceilings[slot.target],
            evidence,
            samples,
            elapsed,
        };
        match (&made.outcome, workload.fio()) {
            (Outcome::Fio(result), Some(job)) => {
                let engine = self.prepared.engine;
                let asked = Asked {
                    job,
                    engine: engine.map(|engine| engine_for(&target.ground, engine)),
                    generator,
                };
                judge::fio(&asked, &around, result)
            }
            _ => judge::tool(&workload.title, &around, rate),
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

/// The processes that sensors follow; the first of a role has its plain name.
fn followed(prepared: &Prepared) -> Vec<(String, u32)> {
    let mut found: Vec<(String, u32)> = Vec::new();
    for target in &prepared.targets {
        for process in &target.facts.processes {
            let role = process.role.as_str();
            let item = match found.iter().any(|(known, _)| known == role) {
                true => format!("{role}/{}", target.facts.name),
                false => role.to_owned(),
            };
            found.push((item, process.pid));
        }
    }
    found
}

impl Executor for Bench<'_> {
    fn elapsed(&mut self) -> Nanos {
        self.since_start(engine::clock::now())
    }

    fn measure(&mut self, slot: Slot) -> Result<Measured, Stop> {
        let prepared = self.prepared;
        let target = &prepared.targets[slot.target];
        let workload = &self.request.plan.workloads[slot.workload];
        self.prepare_tool(slot, workload)?;
        // First the machines behind, so that nothing is read from them into what was dropped here.
        let dropped_there = self.agents.drop_caches(&target.facts);
        let caches = self.drop_caches(workload, target);
        let agents_before = self.agents.before();
        let before = self.counters(target);
        let made = self.make(slot, workload)?;
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
        Ok(Measured {
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

impl Made {
    /// The way the bytes went, where there is one.
    const fn direction(&self) -> Option<Direction> {
        match &self.outcome {
            Outcome::Fio(result) => Some(result.direction),
            Outcome::Tool(_) => None,
        }
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

fn failed(workload: &Workload, target: &ReadyTarget, why: &str) -> Stop {
    // fio then only says that it may not make the file anew.
    let is_there = target.ground.file().is_none_or(std::path::Path::exists);
    let why = match is_there || workload.fio().is_none() {
        true => why,
        false => "its test file is gone; was it unmounted?",
    };
    Stop::Failed(format!(
        "{} on {} failed: {why}",
        workload.title.to_lowercase(),
        target.facts.label
    ))
}
