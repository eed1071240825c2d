//! Going on with a run that did not end: the blocks left, in the order that its seed gives.
//!
//! Invariants: a run goes on only with the plan it was begun with, on the targets, their disks and the
//! machines it was begun on, with the same size, engine and directness; what differs is named. What was
//! kept stays.
//!
//! What it deliberately does not do: it does not go on with a run that ended as its plan says.

use std::fmt::Display;

use super::prepare::Prepared;
use super::request::{RunRequest, TargetSpec};
use super::schedule::RunState;
use crate::LabError;
use crate::checks::identity::Identity;
use crate::fio::Engine;
use crate::host::{Machine, TargetFacts};
use crate::plan::Plan;
use crate::store::{AgentRecord, Cell, Manifest, RunRecord, Status};
use crate::units::{Bytes, Nanos};

/// What is known of a run before it goes on.
#[derive(Debug, Clone, Default)]
pub(super) struct EarlierBlocks {
    /// What was measured.
    pub(super) cells: Vec<Cell>,
    /// How long that took.
    pub(super) elapsed: Nanos,
    /// The size that its test files had.
    pub(super) size: Option<Bytes>,
}

impl RunRequest {
    /// The request that goes on with `run`; the targets given on the command line are found where they
    /// were.
    ///
    /// # Errors
    /// [`LabError::CannotResume`] when it has ended.
    pub fn again(run: &RunRecord, store: std::path::PathBuf) -> Result<Self, LabError> {
        match run.status {
            Status::Cancelled | Status::Failed { .. } | Status::Running => {}
            Status::Imported => return Err(cannot(run, "it was imported".into())),
            Status::Precise | Status::AllBlocks | Status::OutOfTime | Status::OutOfBytes => {
                return Err(cannot(
                    run,
                    format!("it {}, nothing is left to do", run.status),
                ));
            }
        }
        let mut request = Self::new(run.plan.clone(), store);
        request.base.clone_from(&run.manifest.base);
        request.seed = Some(run.seed);
        for (index, target) in run.manifest.targets.iter().enumerate() {
            if is_own(&run.plan, target) {
                continue;
            }
            if run.manifest.baseline == Some(index) {
                request.baseline = Some(request.targets.len());
            }
            let spec = TargetSpec::at(target.place.clone());
            let mut spec = spec.named(&target.name).called(&target.label);
            spec.peer = target.peer;
            request.targets.push(spec);
        }
        Ok(request)
    }
}

impl EarlierBlocks {
    /// What was kept of `run`, if it is one that `request` can go on with.
    pub(super) fn of(run: &RunRecord, request: &RunRequest) -> Result<Self, LabError> {
        // A run that has ended is refused before anything is built.
        RunRequest::again(run, request.store.clone())?;
        if request.plan != run.plan {
            return Err(cannot(run, "the plan has changed since".into()));
        }
        if request.seed.is_some_and(|seed| seed != run.seed) {
            return Err(cannot(run, format!("its seed is {}", run.seed)));
        }
        let last = run
            .cells
            .iter()
            .map(|cell| Nanos(cell.started.0.saturating_add(cell.elapsed.0)))
            .max();
        Ok(Self {
            cells: run.cells.clone(),
            elapsed: run.elapsed.max(last).unwrap_or_default(),
            size: Some(run.manifest.size),
        })
    }
}

/// Refuses a run that was made on something else; names the first difference.
pub(super) fn check(run: &RunRecord, now: &Manifest) -> Result<(), LabError> {
    let was = &run.manifest;
    if let Some(what) = machine(&was.machine, &now.machine) {
        return Err(cannot(
            run,
            format!("it was made on another machine: {what}"),
        ));
    }
    if was.targets.len() != now.targets.len() {
        let counts = format!(
            "it had {} targets, there are {} now",
            was.targets.len(),
            now.targets.len()
        );
        return Err(cannot(run, counts));
    }
    for (was, now) in was.targets.iter().zip(&now.targets) {
        if let Some(what) = target(&run.plan, was, now) {
            return Err(cannot(
                run,
                format!("the target {} differs: {what}", was.label),
            ));
        }
    }
    let engine = |of: &Manifest| shown(of.engine.map(Engine::as_str).as_ref());
    let fio = |of: &Manifest| shown(of.fio.as_ref());
    let what = differs("the test file's size", was.size, now.size)
        .or_else(|| differs("fio", fio(was), fio(now)))
        .or_else(|| differs("the engine", engine(was), engine(now)))
        .or_else(|| differs("direct I/O", was.direct, now.direct));
    what.map_or(Ok(()), |what| Err(cannot(run, what)))
}

fn machine(was: &Machine, now: &Machine) -> Option<String> {
    differs("the name", &was.hostname, &now.hostname)
        .or_else(|| differs("the kernel", &was.kernel, &now.kernel))
        .or_else(|| differs("the processor", &was.processor, &now.processor))
        .or_else(|| differs("cores", was.cores, now.cores))
        .or_else(|| differs("memory", was.memory, now.memory))
}

fn target(plan: &Plan, was: &TargetFacts, now: &TargetFacts) -> Option<String> {
    // A target that is rebuilt has another path, and a disk gets another device when it is attached again.
    let place =
        |facts: &TargetFacts| match is_own(plan, facts) || facts.label != facts.place.to_string() {
            true => String::new(),
            false => facts.place.to_string(),
        };
    let model = |of: &TargetFacts| shown(of.model.as_ref());
    differs("the name", &was.label, &now.label)
        .or_else(|| differs("the place", place(was), place(now)))
        .or_else(|| differs("the filesystem", &was.filesystem, &now.filesystem))
        .or_else(|| differs("the disk", model(was), model(now)))
        .or_else(|| differs("the disk's serial", disk(was), disk(now)))
}

/// What identifies the disk, where it has one: letters move.
fn disk(facts: &TargetFacts) -> String {
    let identity = facts.identity.as_ref();
    shown(identity.and_then(Identity::lasting).as_ref())
}

/// Refuses a run that other machines were watched in; before anything is built.
pub(super) fn check_agents(run: &RunRecord, now: &[AgentRecord]) -> Result<(), LabError> {
    let was = &run.manifest.agents;
    if was.len() != now.len() {
        let named = |all: &[AgentRecord]| match all {
            [] => "none".to_owned(),
            all => {
                let all: Vec<&str> = all.iter().map(|agent| agent.address.as_str()).collect();
                all.join(", ")
            }
        };
        let text = format!(
            "its agents were {} and are {} (--agent names them)",
            named(was),
            named(now)
        );
        return Err(cannot(run, text));
    }
    // The same machine may well be called in another way.
    let mut pairs = was.iter().zip(now);
    let differs = pairs.find_map(|(was, now)| Some((was, machine(&was.machine, &now.machine)?)));
    match differs {
        Some((agent, what)) => Err(cannot(
            run,
            format!("the agent {} is on another machine: {what}", agent.address),
        )),
        None => Ok(()),
    }
}

/// Whether the plan builds it.
fn is_own(plan: &Plan, target: &TargetFacts) -> bool {
    plan.targets.iter().any(|own| own.name == target.name)
}

fn differs<T: PartialEq + Display>(what: &str, was: T, now: T) -> Option<String> {
    (was != now).then(|| format!("{what} was {was} and is {now}"))
}

fn shown(value: Option<&impl ToString>) -> String {
    value.map_or_else(|| "unknown".into(), ToString::to_string)
}

fn cannot(run: &RunRecord, reason: String) -> LabError {
    LabError::CannotResume {
        run: run.id,
        reason,
    }
}

/// The progress of a run that has these measurements.
pub(super) fn standing(cells: &[Cell], pairs: &[(usize, usize)], elapsed: Nanos) -> RunState {
    let of_block = |block: u32| cells.iter().filter(move |cell| cell.block == block);
    let is_whole = |block: u32| {
        pairs
            .iter()
            .all(|pair| of_block(block).any(|cell| (cell.workload, cell.target) == *pair))
    };
    let blocks = (0u32..).take_while(|block| is_whole(*block)).count();
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    let longest = (0..blocks).map(|block| {
        let begun = of_block(block).map(|cell| cell.started.0).min();
        let ended = of_block(block).map(|cell| cell.started.0.saturating_add(cell.elapsed.0));
        ended.max().unwrap_or(0).saturating_sub(begun.unwrap_or(0))
    });
    RunState {
        blocks,
        elapsed,
        longest: Nanos(longest.max().unwrap_or(0)),
        written: Bytes(0),
        most: Bytes(0),
        precise: false,
    }
}

impl Prepared {
    /// Says that the run goes on, and from where.
    pub(super) fn note_resumed(&mut self, before: &EarlierBlocks) {
        use crate::checks::Finding;
        let blocks = before.cells.iter().map(|cell| cell.block + 1).max();
        let text = format!(
            "the run was stopped in block {} and went on later",
            blocks.unwrap_or(1)
        );
        self.findings.push(Finding::of_run(text));
    }
}
