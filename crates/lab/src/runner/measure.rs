//! One real measurement: drop caches, look, run fio, look again, check.

use std::time::{Duration, Instant};

use super::blocks::{Executor, Measured, Stop};
use super::prepare::{Prepared, ReadyTarget};
use super::request::{Cancel, RunRequest};
use super::schedule::Slot;
use crate::checks::ceiling::Ceiling;
use crate::checks::direct::{After, Residency};
use crate::checks::{Finding, cache, ceiling, direct, in_flight, label, noise, units};
use crate::fio::process::{Fio, RunError};
use crate::fio::{Job, JobResult, command, parse};
use crate::host::{ceilings, residency};
use crate::plan::{Direction, Workload};
use crate::sensors::{CoreTimes, DiskCounters, Disks, ProcessCpu, Sample, Sampler, read};
use crate::store::{Cell, CommandLine, Evidence};
use crate::units::{Nanos, Rate};

/// fio's time beyond what it was given: starting, and flushing what was written.
const OVERTIME: Duration = Duration::from_secs(45);

/// What is to be kept of one measurement.
#[derive(Debug)]
pub(super) struct Kept<'a> {
    pub(super) cell: &'a Cell,
    pub(super) fio_json: String,
    pub(super) command: CommandLine,
    pub(super) samples: Vec<Sample>,
    pub(super) samples_full: bool,
}

impl<'a> Kept<'a> {
    pub(super) fn of(measured: &'a Measured) -> Self {
        Self {
            cell: &measured.cell,
            fio_json: measured.fio_json.clone(),
            command: measured.command.clone(),
            samples: measured.samples.clone(),
            samples_full: measured.samples_full,
        }
    }
}

/// The executor that runs fio.
pub(super) struct Bench<'a> {
    request: &'a RunRequest,
    fio: &'a Fio,
    prepared: &'a Prepared,
    cancel: &'a Cancel,
    start: Instant,
    sampler: Sampler,
    was_full: bool,
    /// Of each target; raised when a result is above one and a new measurement is too.
    ceilings: Vec<Vec<Ceiling>>,
}

/// Counters before and after a measurement.
struct Counters {
    at: Nanos,
    cores: Vec<(u32, CoreTimes)>,
    device: Option<DiskCounters>,
    server: Option<ProcessCpu>,
    client: Option<ProcessCpu>,
    lab: Option<ProcessCpu>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        request: &'a RunRequest,
        fio: &'a Fio,
        prepared: &'a Prepared,
        cancel: &'a Cancel,
        start: Instant,
    ) -> Self {
        let roles = [
            ("server", request.server_pid),
            ("client", request.client_pid),
        ];
        let processes = roles
            .into_iter()
            .filter_map(|(role, pid)| Some((role.to_owned(), pid?)))
            .collect();
        let disks = prepared
            .targets
            .iter()
            .filter_map(|target| target.facts.device.clone())
            .collect();
        Self {
            request,
            fio,
            prepared,
            cancel,
            start,
            sampler: Sampler::new(processes, Disks::Named(disks)),
            was_full: false,
            ceilings: prepared
                .targets
                .iter()
                .map(|target| target.facts.ceilings.clone())
                .collect(),
        }
    }

    /// The samples not yet kept.
    pub(super) fn samples(&mut self) -> Vec<Sample> {
        self.sampler.collect()
    }

    fn since_start(&self, now: Instant) -> Nanos {
        Nanos::from_duration(now.duration_since(self.start))
    }

    /// The ceilings to hold a result against, those it is above measured again.
    fn ceilings_for(&mut self, target: usize, result: &JobResult) -> &[Ceiling] {
        let rate = Rate::of(result.bytes, result.runtime);
        for ceiling in &mut self.ceilings[target] {
            if rate.is_some_and(|rate| rate > ceiling.rate) {
                *ceiling = ceilings::again(ceiling);
            }
        }
        &self.ceilings[target]
    }

    fn counters(&self, target: &ReadyTarget) -> Counters {
        let process = |pid: Option<u32>| pid.and_then(read::process_tree);
        Counters {
            at: self.since_start(engine::clock::now()),
            cores: read::cores(),
            device: target.facts.device.as_deref().and_then(read::device),
            server: process(self.request.server_pid),
            client: process(self.request.client_pid),
            // Without its children: fio is measured by itself.
            lab: read::one_process(std::process::id()).map(|cpu| ProcessCpu {
                ticks: cpu.own,
                ..cpu
            }),
        }
    }

    fn job<'b>(&self, workload: &'b Workload, file: &'b std::path::Path, slot: Slot) -> Job<'b> {
        Job {
            workload,
            file,
            size: self.prepared.size,
            engine: self.prepared.engine,
            direct: self.prepared.direct,
            // Both targets get the same requests in a block, other blocks others.
            seed: self.prepared.seed.wrapping_add(u64::from(slot.block)) & 0x7fff_ffff,
        }
    }
}

impl Executor for Bench<'_> {
    fn elapsed(&mut self) -> Nanos {
        self.since_start(engine::clock::now())
    }

    fn measure(&mut self, slot: Slot) -> Result<Measured, Stop> {
        let prepared = self.prepared;
        let target = &prepared.targets[slot.target];
        let workload = &self.request.plan.workloads[slot.workload];
        let file = target.scratch.file();
        let output = prepared.work.path().join("measure.json");
        let args = command::measure(&self.job(workload, &file, slot), &output);
        let look = || {
            target
                .shows_cache
                .then(|| residency::look(&file, prepared.size))
                .flatten()
        };

        // Also before a write: dirty pages of the one before would be flushed at its cost.
        let everywhere = target.facts.server == cache::Server::Here;
        let dropped = residency::drop_caches(&file, prepared.size, everywhere);
        let resident_before = (workload.direction == Direction::Read).then(look).flatten();
        let before = self.counters(target);
        let limit = Duration::from_nanos(workload.runtime().0) + OVERTIME;
        let fio = self.fio;
        let text = fio
            .run(&args, &output, limit, &mut |now| {
                self.sampler.tick(self.since_start(now));
                !self.cancel.is_cancelled()
            })
            .map_err(|error| stop(&error, workload, target))?;
        let after = self.counters(target);
        let resident_after = look();
        let result = parse(&text).map_err(|error| failed(workload, target, &error.to_string()))?;
        let evidence = Evidence {
            dropped: (workload.direction == Direction::Read).then_some(dropped),
            resident_before,
            resident_after,
            ..difference(&before, &after, result.direction)
        };
        let ceilings = self.ceilings_for(slot.target, &result);
        let findings = judge(workload, target, ceilings, &result, &evidence);
        let samples_full = self.sampler.is_full()
            && !std::mem::replace(&mut self.was_full, self.sampler.is_full());
        Ok(Measured {
            cell: Cell {
                block: slot.block,
                position: slot.position,
                workload: slot.workload,
                target: slot.target,
                started: before.at,
                elapsed: Nanos(after.at.0.saturating_sub(before.at.0)),
                result,
                evidence,
                findings,
            },
            fio_json: text,
            command: CommandLine {
                purpose: workload.name.clone(),
                line: command::shown("fio", &args),
            },
            samples: self.sampler.collect(),
            samples_full,
        })
    }
}

fn stop(error: &RunError, workload: &Workload, target: &ReadyTarget) -> Stop {
    match error {
        RunError::Cancelled => Stop::Cancelled,
        other => failed(workload, target, &other.to_string()),
    }
}

fn failed(workload: &Workload, target: &ReadyTarget, why: &str) -> Stop {
    // fio then only says that it may not make the file anew.
    let why = if target.scratch.file().exists() {
        why
    } else {
        "its test file is gone; was it unmounted?"
    };
    Stop::Failed(format!(
        "{} on {} failed: {why}",
        workload.title.to_lowercase(),
        target.facts.label
    ))
}

fn difference(before: &Counters, after: &Counters, direction: Direction) -> Evidence {
    let spent = |earlier: Option<ProcessCpu>, later: Option<ProcessCpu>| {
        let (earlier, later) = (earlier?, later?);
        // Another process under the same id has done none of this work.
        (earlier.started == later.started)
            .then(|| read::ticks_to_time(later.ticks.saturating_sub(earlier.ticks)))
    };
    let cores = after.cores.iter().filter_map(|(number, times)| {
        let (_, earlier) = before.cores.iter().find(|(same, _)| same == number)?;
        Some((*number, times.since(earlier)))
    });
    Evidence {
        server_cpu: spent(before.server, after.server),
        client_cpu: spent(before.client, after.client),
        lab_cpu: spent(before.lab, after.lab),
        cores: cores.collect(),
        traffic: before
            .device
            .as_ref()
            .zip(after.device.as_ref())
            .map(|(earlier, later)| later.since(earlier, direction)),
        ..Evidence::default()
    }
}

/// Every check on one measurement.
fn judge(
    workload: &Workload,
    target: &ReadyTarget,
    ceilings: &[Ceiling],
    result: &JobResult,
    seen: &Evidence,
) -> Vec<Finding> {
    let facts = &target.facts;
    let rate = Rate::of(result.bytes, result.runtime);
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(label::check(workload.direction, result.direction));
    findings.extend(units::check(
        result.bytes,
        result.runtime,
        result.printed_rate,
    ));
    findings.extend(rate.into_iter().flat_map(|rate| {
        ceilings
            .iter()
            .filter_map(move |ceiling| ceiling::check(rate, ceiling))
    }));
    if result.direct {
        findings.extend(direct::before(workload.block_size, facts.dio_align));
    }
    findings.extend(direct::after(&After {
        asked: result.direct,
        direction: result.direction,
        pattern: workload.pattern,
        block_size: workload.block_size,
        counted: result.bytes,
        traffic: seen.traffic,
        residency: seen
            .resident_after
            .filter(|found: &Residency| found.sampled > 0),
    }));
    if let Some(dropped) = &seen.dropped {
        findings.extend(cache::check(dropped, seen.resident_before, facts.server));
    }
    findings.extend(in_flight::check(workload.in_flight(), result.bytes));
    findings.extend(noise::check(
        result.bytes,
        seen.traffic,
        seen.resident_after,
    ));
    findings
}
