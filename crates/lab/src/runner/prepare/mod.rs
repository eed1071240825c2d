//! Before the first block: targets held, test files written, one engine found that works on all of
//! them, ceilings measured.
//!
//! | part | what |
//! |---|---|
//! | here | the order of it, and what comes of it |
//! | [`programs`] | what is installed of what the plan needs |
//! | [`for_fio`] | test files and the engine |
//! | [`target`] | what is known of a target once it is ready |

mod for_fio;
mod programs;
mod target;

pub(crate) use for_fio::LAY_OUT;
pub(super) use for_fio::{PreparedFile, engine_for};
pub(super) use programs::Tools;
pub(super) use target::ReadyTarget;

use super::agents::Agents;
use super::build::Site;
use super::dry_run;
use super::progress::Progress;
use super::remarks;
use super::request::{Cancel, RunRequest, TargetSpec};
use super::skip;
use super::work_area::WorkArea;
use crate::LabError;
use crate::checks::Finding;
use crate::fio::Engine;
use crate::host::{MeasuredCeilings, machine};
use crate::store::{CommandLine, Manifest, Skipped};
use crate::units::Bytes;

use for_fio::Preparing;
use target::ready;

/// Everything ready.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) targets: Vec<ReadyTarget>,
    /// Of `targets`.
    pub(super) baseline: Option<usize>,
    pub(super) skipped: Vec<Skipped>,
    pub(super) tools: Tools,
    pub(super) size: Bytes,
    /// None when fio does nothing in this plan.
    pub(super) engine: Option<Engine>,
    pub(super) direct: bool,
    pub(super) seed: u64,
    pub(super) commands: Vec<CommandLine>,
    pub(super) findings: Vec<Finding>,
    /// For fio's output; gone when dropped.
    pub(super) work: tempfile::TempDir,
}

impl Prepared {
    pub(super) fn manifest(&self, request: &RunRequest, site: &Site, agents: &Agents) -> Manifest {
        Manifest {
            machine: machine(),
            agents: agents.records(),
            outboard: env!("CARGO_PKG_VERSION").into(),
            fio: self.tools.fio.as_ref().map(|fio| fio.version.clone()),
            engine: self.engine,
            direct: self.direct,
            size: self.size,
            base: request.base.clone(),
            targets: self
                .targets
                .iter()
                .map(|target| target.facts.clone())
                .collect(),
            baseline: self.baseline,
            left_out: site.left_out.clone(),
            skipped: self.skipped.clone(),
        }
    }

    /// The processes of this machine that take part.
    pub(super) fn processes(&self) -> Vec<u32> {
        let targets = self.targets.iter();
        let processes = targets.flat_map(|target| &target.facts.processes);
        processes.map(|process| process.pid).collect()
    }

    /// Bytes of the test files that were written.
    pub(super) fn laid_out(&self) -> Bytes {
        let written = self.targets.iter();
        let written = written.filter(|target| target.ground.is_laid_out());
        match self.engine {
            Some(_) => Bytes(self.size.0.saturating_mul(written.count() as u64)),
            None => Bytes(0),
        }
    }

    /// Remarks that the plan was made smaller than it was `given`, for its targets.
    pub(super) fn note_fitted(&mut self, given: Bytes, fitted: Bytes) {
        if fitted < given {
            let count = self.targets.len();
            self.findings.push(Finding::of_run(format!(
                "test files have {fitted} instead of {given}, and write tests write less: more is beyond the plan's \
                 bound on {count} targets"
            )));
        }
    }

    /// Removes the test files; what stays is a finding.
    pub(super) fn remove(self) -> Vec<Finding> {
        self.targets
            .into_iter()
            .filter_map(|target| target.ground.release().err())
            .map(Finding::of_run)
            .collect()
    }
}

/// Makes everything ready, with test files of `wanted` at most; on an error nothing is left behind.
pub(super) fn prepare(
    request: &RunRequest,
    site: &Site,
    tools: Tools,
    wanted: Bytes,
    progress: &mut dyn Progress,
    cancel: &Cancel,
) -> Result<Prepared, LabError> {
    let specs = specs(request, site)?;
    let grounds = hold(&specs, wanted)?;
    let skipped = skip::all(&request.plan, &specs, &grounds, &tools)?;
    let work = tempfile::tempdir()
        .map_err(|error| LabError::system("make a temporary directory", error))?;
    let seed = request.seed.unwrap_or_else(draw_seed);
    if let Some(wear) = dry_run::wear(request) {
        progress.remark(&wear);
    }
    progress.phase("measuring what this machine's sockets and memory carry");
    let measured = MeasuredCeilings::now();
    let mut readied = PreparedFile {
        size: smallest(&grounds, wanted),
        engine: None,
        direct: false,
    };
    let mut commands = Vec::new();
    if let Some(fio) = &tools.fio {
        let mut preparing = Preparing {
            plan: &request.plan,
            fio,
            cancel,
            work: work.path().to_owned(),
            seed,
            commands,
        };
        readied = preparing.ready_for_fio(&grounds, readied.size, progress)?;
        commands = preparing.commands;
    }
    let skipped = skip::beyond(&request.plan, specs.len(), skipped, readied.size)?;
    let targets = grounds
        .into_iter()
        .zip(&specs)
        .map(|(ground, spec)| ready(ground, spec, readied.size, &measured, request.small, cancel))
        .collect::<Vec<_>>();
    if cancel.is_cancelled() {
        return Err(stopped());
    }
    let findings = remarks::of(&targets, &readied, request.plan.data.size);
    Ok(Prepared {
        baseline: baseline(request, &specs),
        targets,
        skipped,
        tools,
        size: readied.size,
        engine: readied.engine,
        direct: readied.direct,
        seed,
        commands,
        findings,
        work,
    })
}

/// What the command line gives, then what was built.
fn specs(request: &RunRequest, site: &Site) -> Result<Vec<TargetSpec>, LabError> {
    let built = site.built().map(|built| built.spec.clone());
    let specs: Vec<TargetSpec> = request.targets.iter().cloned().chain(built).collect();
    match (specs.is_empty(), site.left_out.first()) {
        (true, Some(first)) => Err(LabError::BadRequest(format!(
            "none of the plan's targets can be had here; {}: {}",
            first.title, first.reason
        ))),
        (true, None) => Err(stopped()),
        _ => Ok(specs),
    }
}

/// Its index among those that are there.
fn baseline(request: &RunRequest, specs: &[TargetSpec]) -> Option<usize> {
    let named = request.plan.baseline.as_ref();
    named
        .and_then(|name| specs.iter().position(|spec| spec.name == *name))
        .or(request.baseline)
}

fn hold(specs: &[TargetSpec], size: Bytes) -> Result<Vec<WorkArea>, LabError> {
    let grounds = specs
        .iter()
        .map(WorkArea::hold)
        .collect::<Result<Vec<_>, _>>()?;
    for ground in &grounds {
        let Some(scratch) = ground.scratch() else {
            continue;
        };
        let on_this = grounds
            .iter()
            .filter(|other| other.scratch().is_some() && other.shares(ground))
            .count();
        scratch.check_space(size, on_this as u64)?;
    }
    Ok(grounds)
}

fn smallest(grounds: &[WorkArea], wanted: Bytes) -> Bytes {
    let sizes = grounds.iter().filter_map(|ground| ground.size);
    sizes.fold(wanted, Bytes::min).min(wanted)
}

fn stopped() -> LabError {
    LabError::BadRequest("stopped before anything was measured".into())
}

fn draw_seed() -> u64 {
    super::unix_ms() ^ (u64::from(std::process::id()) << 40)
}
