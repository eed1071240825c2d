//! Before the first block: targets held, test files written, one engine found that works on all of
//! them, ceilings measured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::agents::Agents;
use super::build::Site;
use super::ground::Ground;
use super::progress::Progress;
use super::remarks;
use super::request::{Cancel, RunRequest, TargetSpec};
use super::skip;
use crate::LabError;
use crate::checks::direct::DioAlign;
use crate::checks::{Check, Finding};
use crate::fio::process::{Fio, RunError};
use crate::fio::{Engine, Subject, command, parse};
use crate::host::{Known, Measured, TargetFacts, data, machine, residency, target_facts};
use crate::plan::Plan;
use crate::store::{CommandLine, Manifest, Skipped};
use crate::tools::Installed;
use crate::units::{Bytes, MIB, Nanos};

/// Less than this written in the time for it, and the target is too slow for the plan.
const LAID_OUT_MIN: Bytes = Bytes(4 * MIB);
/// fio's time beyond what it was given, for the flush at the end.
const FLUSH_LIMIT: Duration = Duration::from_secs(60);
/// One read of 4 KiB.
const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// A target ready to be measured.
#[derive(Debug)]
pub(super) struct ReadyTarget {
    pub(super) ground: Ground,
    pub(super) facts: TargetFacts,
    /// Whether its page cache can be looked into.
    pub(super) shows_cache: bool,
}

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

/// The programs that this plan can use.
#[derive(Debug, Default)]
pub(super) struct Tools {
    pub(super) fio: Option<Fio>,
    /// By the name of what is started; none where it is not installed, with what to do.
    pub(super) others: BTreeMap<&'static str, Result<Installed, String>>,
}

impl Tools {
    /// Looks for all that `plan` needs.
    pub(super) fn find(plan: &Plan, fio: &Path) -> Result<Self, LabError> {
        let mut tools = Self::default();
        for workload in &plan.workloads {
            match workload.tool() {
                None if tools.fio.is_none() => tools.fio = Some(Fio::at(fio.to_owned())?),
                None => {}
                Some(tool) => {
                    let program = tool.program();
                    tools.others.entry(program.name).or_insert_with(|| {
                        crate::tools::find(program).map_err(|error| error.to_string())
                    });
                }
            }
        }
        Ok(tools)
    }
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

    /// Removes the test files; what stays is a finding.
    pub(super) fn remove(self) -> Vec<Finding> {
        self.targets
            .into_iter()
            .filter_map(|target| target.ground.release().err())
            .map(|left| Finding::remark(Check::Run, left))
            .collect()
    }
}

/// The tools of this part, together.
struct Preparing<'a> {
    plan: &'a Plan,
    fio: &'a Fio,
    cancel: &'a Cancel,
    work: PathBuf,
    seed: u64,
    commands: Vec<CommandLine>,
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
    progress.phase("measuring what this machine's sockets and memory carry");
    let measured = Measured::now();
    let mut readied = Readied {
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
    let targets = grounds
        .into_iter()
        .zip(&specs)
        .map(|(ground, spec)| ready(ground, spec, readied.size, &measured))
        .collect::<Vec<_>>();
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

/// What fio will be told on every target alike.
pub(super) struct Readied {
    pub(super) size: Bytes,
    pub(super) engine: Option<Engine>,
    pub(super) direct: bool,
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

fn hold(specs: &[TargetSpec], size: Bytes) -> Result<Vec<Ground>, LabError> {
    let grounds = specs
        .iter()
        .map(Ground::hold)
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

fn smallest(grounds: &[Ground], wanted: Bytes) -> Bytes {
    let sizes = grounds.iter().filter_map(|ground| ground.size);
    sizes.fold(wanted, Bytes::min).min(wanted)
}

impl Preparing<'_> {
    /// Writes what has to be written and finds out how to submit.
    fn ready_for_fio(
        &mut self,
        grounds: &[Ground],
        wanted: Bytes,
        progress: &mut dyn Progress,
    ) -> Result<Readied, LabError> {
        let size = self.lay_out_all(grounds, wanted, progress)?;
        progress.phase("finding out how to submit I/O");
        let (engine, direct) = self.choose_engine(grounds)?;
        Ok(Readied {
            size,
            engine: Some(engine),
            direct,
        })
    }

    /// Writes every target's file and cuts all of them to the smallest.
    fn lay_out_all(
        &mut self,
        grounds: &[Ground],
        wanted: Bytes,
        progress: &mut dyn Progress,
    ) -> Result<Bytes, LabError> {
        let mut size = wanted;
        for ground in grounds.iter().filter(|ground| ground.is_laid_out()) {
            let place = ground.place();
            progress.phase(&format!("writing {size} to {place}"));
            let written = self.lay_out(ground, size)?;
            if written < LAID_OUT_MIN {
                return Err(LabError::BadRequest(format!(
                    "{place} took {} s to write {written}: too slow for this plan, give layout_ms more",
                    self.plan.data.layout_ms / 1000
                )));
            }
            size = size.min(Bytes(written.0 / MIB * MIB));
        }
        for scratch in grounds.iter().filter_map(Ground::scratch) {
            let file = scratch.file();
            std::fs::OpenOptions::new()
                .write(true)
                .open(&file)
                .and_then(|open| open.set_len(size.0))
                .map_err(|error| {
                    LabError::system(format!("cut {} to {size}", file.display()), error)
                })?;
        }
        Ok(size)
    }

    fn lay_out(&mut self, ground: &Ground, size: Bytes) -> Result<Bytes, LabError> {
        let limit = Nanos::from_ms(self.plan.data.layout_ms);
        let output = self.work.join("lay-out.json");
        let args = command::lay_out(ground.subject(), size, limit, self.seed, &output);
        self.note("lay-out", &args);
        let cannot = |why: String| {
            LabError::BadRequest(format!(
                "cannot write a test file to {}: {why}",
                ground.place()
            ))
        };
        let text = self
            .fio
            .run(
                &args,
                &output,
                Duration::from_nanos(limit.0) + FLUSH_LIMIT,
                &mut |_| !self.cancel.is_cancelled(),
            )
            .map_err(|error| match error {
                RunError::Cancelled => stopped(),
                other => cannot(other.to_string()),
            })?;
        let result = parse(&text).map_err(|error| cannot(error.to_string()))?;
        Ok(result.bytes)
    }

    /// The first engine that works on all targets, past the page cache where all of them can.
    fn choose_engine(&mut self, grounds: &[Ground]) -> Result<(Engine, bool), LabError> {
        let mut failed = (PathBuf::new(), String::new());
        for direct in [true, false] {
            for engine in Engine::ALL {
                match self.engine_works(grounds, engine, direct) {
                    Ok(()) => return Ok((engine, direct)),
                    Err((_, RunError::Cancelled)) => return Err(stopped()),
                    Err((place, error)) => failed = (place.into(), error.to_string()),
                }
            }
        }
        Err(LabError::NoEngine {
            path: failed.0,
            tried: Engine::ALL.map(Engine::as_str).join(", "),
            reason: failed.1,
        })
    }

    /// Whether it works on each; else on which one it does not.
    fn engine_works(
        &mut self,
        grounds: &[Ground],
        engine: Engine,
        direct: bool,
    ) -> Result<(), (String, RunError)> {
        for ground in grounds {
            let output = self.work.join("probe.json");
            let engine = engine_for(ground, engine);
            let args = command::probe(ground.subject(), engine, direct, &output);
            self.note("probe", &args);
            let text = self.fio.run(&args, &output, PROBE_LIMIT, &mut |_| {
                !self.cancel.is_cancelled()
            });
            let worked = text
                .and_then(|text| parse(&text).map_err(|error| RunError::Failed(error.to_string())));
            worked.map_err(|error| (ground.place().to_string(), error))?;
        }
        Ok(())
    }

    fn note(&mut self, purpose: &str, args: &[std::ffi::OsString]) {
        self.commands.push(CommandLine {
            purpose: purpose.into(),
            line: command::shown("fio", args),
        });
    }
}

/// An export has a way of its own.
pub(super) fn engine_for(ground: &Ground, engine: Engine) -> Engine {
    match ground.subject() {
        Subject::File(_) => engine,
        Subject::Uri(_) => Engine::Nbd,
    }
}

fn stopped() -> LabError {
    LabError::BadRequest("stopped before anything was measured".into())
}

fn ready(ground: Ground, spec: &TargetSpec, size: Bytes, measured: &Measured) -> ReadyTarget {
    let known = Known {
        name: spec.name.clone(),
        label: spec.shown(),
        place: ground.place(),
        processes: spec.processes.clone(),
        peer: spec.peer,
    };
    let mut facts = target_facts(known, measured);
    let mut shows_cache = false;
    if let Some(file) = ground.file() {
        facts.dio_align = dio_align(file);
        // A device that answers at once makes every page look resident; then the question is no use.
        residency::drop_caches(file, size, true);
        facts.data = data::look(file, size);
        residency::drop_caches(file, size, true);
        shows_cache = residency::look(file, size).is_some_and(|found| found.part() < 0.02);
    }
    ReadyTarget {
        ground,
        facts,
        shows_cache,
    }
}

/// The kernel's word on direct I/O for a file, since Linux 6.1.
fn dio_align(file: &Path) -> Option<DioAlign> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let found = statx(CWD, file, AtFlags::empty(), StatxFlags::DIOALIGN).ok()?;
    (found.stx_mask & StatxFlags::DIOALIGN.bits() != 0).then_some(DioAlign {
        memory: found.stx_dio_mem_align,
        offset: found.stx_dio_offset_align,
    })
}

fn draw_seed() -> u64 {
    super::unix_ms() ^ (u64::from(std::process::id()) << 40)
}
