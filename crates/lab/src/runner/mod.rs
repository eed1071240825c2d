//! The runner: makes a plan's measurements in interleaved blocks and keeps each as it is made.
//!
//! Invariants: what is decided is pure ([`schedule`]) and tested with an executor that is no fio
//! ([`blocks`]); what is done is in [`measure`]. Test files live in one directory of our own below
//! each target ([`scratch`]) and are removed on every way out. All targets get equal jobs: same size,
//! engine and directness, the lower of both. A plan's own targets are built before and
//! taken down after ([`build`]).
//!
//! What it deliberately does not do: it writes to no raw device unless its target says so, and judges
//! nothing; see [`crate::checks`].

mod agents;
mod blocks;
mod build;
mod claims;
mod counters;
mod dry_run;
mod idle;
mod measure;
mod prepare;
mod progress;
mod remarks;
mod remote_load;
mod request;
mod resume;
mod schedule;
mod scratch;
mod skip;
mod work_area;

pub use agents::AgentSpec;
pub use build::{BuildContext, Builder, Built, Directories, LeftOut, TakeDown};
pub use dry_run::{DryRun, dry_run};
pub(crate) use prepare::LAY_OUT;
pub use progress::{CellProgress, Progress, Silent};
pub(crate) use remarks::SAME_FILESYSTEM;
pub use request::{Cancel, DiskFacts, RunRequest, TargetSpec, ThrottleBounds};

#[cfg(test)]
pub(crate) use schedule::block_order;

use crate::LabError;
use crate::checks::Finding;
use crate::plan::Plan;
use crate::store::{CommandLine, NewRun, RunId, RunRecord, Status, Store};

use agents::Agents;
use blocks::{BlockPlan, CellResult, Ended, Executor, run_blocks};
use build::Site;
use measure::ToolExecutor;
use prepare::{Prepared, Tools};
use remote_load::RemoteLoad;
use resume::EarlierBlocks;

/// How our folders on a target begin.
pub(crate) const FOLDER_PREFIX: &str = scratch::PREFIX;

/// Makes a run and keeps it in the request's store. `builder` builds the plan's own targets.
///
/// # Errors
/// Anything that makes a run impossible; [`LabError::Cancelled`] and [`LabError::Stopped`] when something
/// was measured before, which is kept under the run they name.
pub fn run(
    request: &RunRequest,
    builder: &mut dyn Builder,
    progress: &mut dyn Progress,
    cancel: &Cancel,
) -> Result<RunId, LabError> {
    made(request, None, builder, progress, cancel)
}

/// Goes on with a run that was stopped, with the blocks left; `request` is that of
/// [`RunRequest::again`], or the same plan on the same targets.
///
/// # Errors
/// [`LabError::CannotResume`] when it has ended or when plan, targets or machine differ, and those of
/// [`run`].
pub fn resume(
    request: &RunRequest,
    run: RunId,
    builder: &mut dyn Builder,
    progress: &mut dyn Progress,
    cancel: &Cancel,
) -> Result<RunId, LabError> {
    let record = Store::open(&request.store)?.load(run)?;
    let mut request = request.clone();
    request.seed = request.seed.or(Some(record.seed));
    made(&request, Some(&record), builder, progress, cancel)
}

/// Makes a run, or goes on with one.
fn made(
    request: &RunRequest,
    record: Option<&RunRecord>,
    builder: &mut dyn Builder,
    progress: &mut dyn Progress,
    cancel: &Cancel,
) -> Result<RunId, LabError> {
    request.check()?;
    let given = request.plan.data.size;
    let request = &request.cancelled_by(cancel).fitted();
    let before = record.map(|record| EarlierBlocks::of(record, request));
    let before = before.transpose()?.unwrap_or_default();
    let mut tools = Tools::find(&request.plan, &request.fio)?;
    let mut store = Store::open(&request.store)?;
    let start = engine::clock::now();
    let agents = connected(request, record, start, before.elapsed)?;
    // Until the end of the run: what it made there goes with it.
    let there = RemoteLoad::connect(request, &mut tools)?;
    let request = &there
        .as_ref()
        .map_or_else(|| request.clone(), |there| there.placed(request));
    let site = Site::build(request, builder, cancel, &mut |what| progress.phase(what))?;
    let wanted = before.size.unwrap_or(request.plan.data.size);
    let mut prepared = prepare::prepare(request, &site, tools, wanted, progress, cancel)?;
    if !request.small {
        prepared.findings.extend(idle::wait(&prepared.processes()));
    }
    if let Some(there) = &there {
        there.notify(request, &mut prepared);
    }
    if record.is_some() {
        prepared.note_resumed(&before);
    }
    prepared.note_fitted(given, request.plan.data.size);
    let run = begin(&store, request, record, &site, &prepared, &agents)?;
    let labels = labels(&prepared);
    let pairs = skip::pairs(&request.plan, prepared.targets.len(), &prepared.skipped);
    let layers = layers(&request.plan, &prepared);
    let course = BlockPlan {
        plan: &request.plan,
        labels: &labels,
        pairs: &pairs,
        baseline: prepared.baseline,
        layers: &layers,
        seed: prepared.seed,
        laid_out: prepared.laid_out(),
        made: &before.cells,
    };
    let mut bench = ToolExecutor::new(request, &prepared, agents, cancel, start, before.elapsed);
    let mut keep = |kept: &CellResult| store_kept(&mut store, run, kept);
    let ended = run_blocks(&course, &mut bench, progress, &mut keep);
    let elapsed = bench.elapsed();
    let samples = bench.samples();
    drop(bench);
    // All of it goes before the last word, so that a report is only ever made of a tidy machine.
    let mut left_behind = prepared.remove();
    let stays = site.take_down().into_iter();
    left_behind.extend(stays.map(Finding::of_run));
    let mut written = store.add_samples(run, &samples);
    for finding in left_behind {
        written = written.and_then(|()| store.add_finding(run, &finding));
    }
    // Also without the rest: how it ended takes no space.
    let finished = store.finish(run, &ended.status, elapsed);
    outcome(run, ended, written.and(finished))
}

/// The targets that stand on others, as indices: the upper one first.
fn layers(plan: &Plan, prepared: &Prepared) -> Vec<(usize, usize)> {
    let targets = prepared.targets.iter();
    let index = |name: &str| targets.clone().position(|target| target.facts.name == name);
    let own = plan.targets.iter();
    own.filter_map(|target| Some((index(&target.name)?, index(target.on()?)?)))
        .collect()
}

fn labels(prepared: &Prepared) -> Vec<String> {
    let targets = prepared.targets.iter();
    targets.map(|target| target.facts.label.clone()).collect()
}

/// The agents; a run that goes on has those that it had.
fn connected(
    request: &RunRequest,
    record: Option<&RunRecord>,
    start: std::time::Instant,
    before: crate::units::Nanos,
) -> Result<Agents, LabError> {
    let agents = Agents::connect(&request.agents, start, before)?;
    if let Some(record) = record {
        resume::check_agents(record, &agents.records())?;
    }
    Ok(agents)
}

fn begin(
    store: &Store,
    request: &RunRequest,
    record: Option<&RunRecord>,
    site: &Site,
    prepared: &Prepared,
    agents: &Agents,
) -> Result<RunId, LabError> {
    let manifest = prepared.manifest(request, site, agents);
    if let Some(record) = record {
        resume::check(record, &manifest)?;
        store.reopen(record.id)?;
        // Its test files are written again.
        for command in &prepared.commands {
            if command.purpose == LAY_OUT {
                store.add_command(record.id, command)?;
            }
        }
        for finding in &prepared.findings {
            if !record.findings.contains(finding) {
                store.add_finding(record.id, finding)?;
            }
        }
        return Ok(record.id);
    }
    let run = store.begin(&NewRun {
        plan: request.plan.clone(),
        seed: prepared.seed,
        started_unix_ms: unix_ms(),
        manifest,
    })?;
    for built in site.built() {
        for line in &built.commands {
            let command = CommandLine {
                purpose: format!("build {}", built.spec.name),
                line: line.clone(),
            };
            store.add_command(run, &command)?;
        }
    }
    for command in &prepared.commands {
        store.add_command(run, command)?;
    }
    for target in &site.left_out {
        let text = format!("{} is left out: {}", target.title, target.reason);
        store.add_finding(run, &Finding::of_run(text))?;
    }
    let skipped = skipped(request, prepared);
    let findings = skipped.iter().chain(&prepared.findings);
    for finding in findings.chain(&agents.remarks()) {
        store.add_finding(run, finding)?;
    }
    Ok(run)
}

/// One remark for each reason, however many tests it is about.
fn skipped(request: &RunRequest, prepared: &Prepared) -> Vec<Finding> {
    let mut said: Vec<Finding> = Vec::new();
    for one in &prepared.skipped {
        let Some(reason) = &one.reason else { continue };
        let text = format!(
            "{} is not made on {}: {reason}",
            request.plan.workloads[one.workload].title, prepared.targets[one.target].facts.label
        );
        said.push(Finding::of_run(text));
    }
    said
}

fn store_kept(store: &mut Store, run: RunId, kept: &CellResult) -> Result<(), LabError> {
    for command in &kept.commands {
        store.add_command(run, command)?;
    }
    store.add_cell(run, &kept.cell, &kept.raw, &kept.samples)?;
    if kept.samples_full {
        store.add_finding(
            run,
            &Finding::of_run("there were more samples than are kept; the last ones are missing"),
        )?;
    }
    Ok(())
}

/// The result of a run: how it ended, or that its end could not be `written`.
fn outcome(run: RunId, ended: Ended, written: Result<(), LabError>) -> Result<RunId, LabError> {
    let blocks = ended.blocks;
    match (ended.status, written) {
        (Status::Failed { reason }, _) => Err(LabError::Stopped {
            run,
            blocks,
            reason,
        }),
        (_, Err(error)) => Err(LabError::Stopped {
            run,
            blocks,
            reason: error.to_string(),
        }),
        (Status::Cancelled, Ok(())) => Err(LabError::Cancelled { run, blocks }),
        (_, Ok(())) => Ok(run),
    }
}

fn unix_ms() -> u64 {
    engine::clock::wall()
        .duration_since(std::time::UNIX_EPOCH)
        .ok()
        .and_then(|since| u64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests;
