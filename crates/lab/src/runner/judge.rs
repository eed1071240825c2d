//! Every check on one measurement. Pure: what was asked, what was seen, what may be said.

use super::prepare::ReadyTarget;
use crate::checks::ceiling::Ceiling;
use crate::checks::direct::{After, Residency};
use crate::checks::engine::InFlight;
use crate::checks::generator::Generated;
use crate::checks::thermal::ThermalSeen;
use crate::checks::{
    Finding, cache, ceiling, data, denominators, direct, engine, generator, in_flight, label,
    noise, observer, thermal, units,
};
use crate::fio::{Engine, JobResult};
use crate::plan::{Direction, FioJob};
use crate::sensors::{Sample, read};
use crate::store::Evidence;
use crate::tools::Tool;
use crate::units::{Nanos, Rate, round};

/// What was seen around a measurement.
pub(super) struct Around<'a> {
    pub(super) target: &'a ReadyTarget,
    pub(super) ceilings: &'a [Ceiling],
    pub(super) evidence: &'a Evidence,
    /// Of this measurement.
    pub(super) samples: &'a [Sample],
    /// From the first counters to the last.
    pub(super) elapsed: Nanos,
}

/// What fio was asked for.
pub(super) struct Asked<'a> {
    pub(super) job: &'a FioJob,
    pub(super) engine: Option<Engine>,
    /// Operations per second that it makes on a disk that does nothing, if measured.
    pub(super) generator: Option<f64>,
}

/// The checks on a measurement of fio.
pub(super) fn fio(asked: &Asked<'_>, around: &Around<'_>, result: &JobResult) -> Vec<Finding> {
    let (job, seen, facts) = (asked.job, around.evidence, &around.target.facts);
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(label::check(job.direction, result.direction));
    findings.extend(units::check(
        result.bytes,
        result.runtime,
        result.printed_rate,
    ));
    findings.extend(above(
        Rate::of(result.bytes, result.runtime),
        around.ceilings,
    ));
    if result.direct {
        findings.extend(direct::before(job.block_size, facts.dio_align));
    }
    findings.extend(direct::after(&After {
        asked: result.direct,
        direction: result.direction,
        pattern: job.pattern,
        block_size: job.block_size,
        counted: result.bytes,
        traffic: seen.traffic,
        residency: seen
            .resident_after
            .filter(|found: &Residency| found.sampled > 0),
    }));
    if let Some(dropped) = &seen.dropped {
        let there = seen.dropped_there;
        findings.extend(cache::check(
            dropped,
            seen.resident_before,
            facts.server,
            there,
        ));
    }
    if job.direction == Direction::Read {
        findings.extend(facts.data.as_ref().and_then(data::check));
    }
    findings.extend(in_flight::check(job.in_flight(), result.bytes));
    findings.extend(noise::check(
        result.bytes,
        seen.traffic,
        seen.resident_after,
    ));
    if let Some(carried) = &seen.carried {
        findings.extend(ceiling::crossed(result.bytes, carried));
        findings.extend(noise::shared_wire(result.bytes, carried));
    }
    findings.extend(of_generator(asked, result));
    findings.extend(of_machine(around, Some(fio_cpu(job, result))));
    findings
}

/// The checks on a measurement of another tool; `title` is that of its test.
pub(super) fn tool(
    title: &str,
    tool: &Tool,
    around: &Around<'_>,
    rate: Option<Rate>,
) -> Vec<Finding> {
    let (name, seen) = (title.to_lowercase(), around.evidence);
    let mut findings: Vec<Finding> = above(rate, around.ceilings).collect();
    let dropped = seen.dropped.filter(|_| tool.reads_what_was_there());
    findings.extend(dropped.and_then(|dropped| cache::program(&name, &dropped)));
    let there = u32::try_from(seen.cores.len()).unwrap_or(u32::MAX);
    findings.extend(seen.tool_cpu.and_then(|cpu| {
        let spent = generator::Program {
            cpu,
            elapsed: around.elapsed,
            cores: tool.at_once().map_or(there, |tasks| tasks.min(there)),
            with_server: tool.brings_its_server(),
        };
        generator::program(&name, &spent)
    }));
    findings.extend(of_machine(around, None));
    findings
}

/// What is above a ceiling.
fn above(rate: Option<Rate>, ceilings: &[Ceiling]) -> impl Iterator<Item = Finding> {
    rate.into_iter().flat_map(|rate| {
        ceilings
            .iter()
            .filter_map(move |ceiling| ceiling::check(rate, ceiling))
    })
}

/// The engine, its depth, and whether it was the limit itself.
fn of_generator(asked: &Asked<'_>, result: &JobResult) -> Vec<Finding> {
    let job = asked.job;
    let operations = result.ios as f64 / result.runtime.seconds().max(f64::MIN_POSITIVE);
    let mut findings = Vec::new();
    findings.extend(
        asked
            .engine
            .and_then(|wanted| engine::check(wanted.as_str(), &result.engine)),
    );
    // The time of a write has its flush in it, in which nothing is in flight.
    if job.direction == Direction::Read {
        findings.extend(engine::depth(&InFlight {
            engine: &result.engine,
            depth: job.depth,
            jobs: job.jobs,
            operations,
            latency: result.latencies.mean().unwrap_or_default(),
        }));
    }
    findings.extend(generator::check(&Generated {
        operations,
        cpu: result.generator_cpu,
        ceiling: asked.generator,
    }));
    findings
}

/// CPU time of fio's jobs, in programs and in the kernel.
fn fio_cpu(job: &FioJob, result: &JobResult) -> Nanos {
    let cores = result.generator_cpu * f64::from(job.jobs);
    Nanos(round(cores * result.runtime.0 as f64))
}

/// What the machine itself did meanwhile. `generator` is the CPU time of what made the load, where it
/// is known.
fn of_machine(around: &Around<'_>, generator: Option<Nanos>) -> Vec<Finding> {
    let (seen, elapsed) = (around.evidence, around.elapsed);
    let mut findings = Vec::new();
    if let Some(others) = &seen.others {
        let loud = noise::others(others, elapsed);
        findings.extend(match (loud, generator) {
            (None, Some(generator)) => passing(seen, generator, elapsed),
            (loud, _) => loud,
        });
    }
    findings.extend(noise::stolen(&seen.cores));
    findings.extend(denominators::check(&seen.cores));
    findings.extend(thermal::check(&ThermalSeen::of(around.samples)));
    findings.extend(seen.lab_cpu.and_then(|lab| observer::check(lab, elapsed)));
    findings
}

/// Programs that came and went.
fn passing(seen: &Evidence, generator: Nanos, elapsed: Nanos) -> Option<Finding> {
    let user: u64 = seen.cores.iter().map(|(_, core)| core.user).sum();
    let known = [
        Some(generator),
        seen.server_cpu,
        seen.client_cpu,
        seen.lab_cpu,
        seen.others.as_ref().map(|others| others.cpu),
    ];
    let known = known.into_iter().flatten().map(|cpu| cpu.0).sum();
    noise::unaccounted(read::ticks_to_time(user), Nanos(known), elapsed)
}
