//! Before the first block: targets locked, test files written, one engine found that works on all of
//! them, ceilings measured.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::progress::Progress;
use super::request::{Cancel, RunRequest};
use super::scratch::Scratch;
use crate::LabError;
use crate::checks::direct::DioAlign;
use crate::checks::{Check, Finding};
use crate::fio::process::{Fio, RunError};
use crate::fio::{Engine, command, parse};
use crate::host::{Measured, ServerHint, TargetFacts, machine, residency, target_facts};
use crate::store::{CommandLine, Manifest};
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
    pub(super) scratch: Scratch,
    pub(super) facts: TargetFacts,
    /// Whether its page cache can be looked into.
    pub(super) shows_cache: bool,
}

/// Everything ready.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) targets: Vec<ReadyTarget>,
    pub(super) size: Bytes,
    pub(super) engine: Engine,
    pub(super) direct: bool,
    pub(super) seed: u64,
    pub(super) commands: Vec<CommandLine>,
    pub(super) findings: Vec<Finding>,
    /// For fio's output; gone when dropped.
    pub(super) work: tempfile::TempDir,
}

impl Prepared {
    pub(super) fn manifest(&self, request: &RunRequest, fio: &Fio) -> Manifest {
        Manifest {
            machine: machine(),
            outboard: env!("CARGO_PKG_VERSION").into(),
            fio: fio.version.clone(),
            engine: self.engine,
            direct: self.direct,
            size: self.size,
            server_pid: request.server_pid,
            client_pid: request.client_pid,
            targets: self
                .targets
                .iter()
                .map(|target| target.facts.clone())
                .collect(),
        }
    }

    /// Removes the test files; what stays is a finding.
    pub(super) fn remove(self) -> Vec<Finding> {
        self.targets
            .into_iter()
            .filter_map(|target| target.scratch.remove().err())
            .map(|left| Finding::remark(Check::Run, left))
            .collect()
    }
}

/// The tools of this part, together.
struct Preparing<'a> {
    request: &'a RunRequest,
    fio: &'a Fio,
    cancel: &'a Cancel,
    work: PathBuf,
    seed: u64,
    commands: Vec<CommandLine>,
}

/// Makes everything ready; on an error nothing is left behind.
pub(super) fn prepare(
    request: &RunRequest,
    fio: &Fio,
    progress: &mut dyn Progress,
    cancel: &Cancel,
    start: Instant,
) -> Result<Prepared, LabError> {
    let scratches = lock_targets(request)?;
    let work = tempfile::tempdir()
        .map_err(|error| LabError::system("make a temporary directory", error))?;
    let mut preparing = Preparing {
        request,
        fio,
        cancel,
        work: work.path().to_owned(),
        seed: request.seed.unwrap_or_else(draw_seed),
        commands: Vec::new(),
    };
    progress.phase("measuring what this machine's sockets and memory carry");
    let measured = Measured::now();
    let size = preparing.lay_out_all(&scratches, progress)?;
    progress.phase("finding out how to submit I/O");
    let (engine, direct) = preparing.choose_engine(&scratches)?;
    let mut findings = Vec::new();
    let targets = scratches
        .into_iter()
        .zip(request.targets())
        .zip(0..)
        .map(|((scratch, spec), index)| {
            ready(request, scratch, spec.shown(), index, size, &measured)
        })
        .collect::<Vec<_>>();
    remarks(
        &targets,
        size,
        request.plan.data.size,
        direct,
        &mut findings,
    );
    tracing::debug!(elapsed = ?engine::clock::now().duration_since(start), %size, "prepared");
    Ok(Prepared {
        targets,
        size,
        engine,
        direct,
        seed: preparing.seed,
        commands: preparing.commands,
        findings,
        work,
    })
}

fn lock_targets(request: &RunRequest) -> Result<Vec<Scratch>, LabError> {
    let mut scratches: Vec<Scratch> = Vec::new();
    for spec in request.targets() {
        scratches.push(Scratch::make(&spec.path)?);
    }
    for scratch in &scratches {
        let on_this = scratches
            .iter()
            .filter(|other| other.identity.0 == scratch.identity.0)
            .count();
        scratch.check_space(request.plan.data.size, on_this as u64)?;
    }
    Ok(scratches)
}

impl Preparing<'_> {
    /// Writes every target's file and cuts all of them to the smallest.
    fn lay_out_all(
        &mut self,
        scratches: &[Scratch],
        progress: &mut dyn Progress,
    ) -> Result<Bytes, LabError> {
        let wanted = self.request.plan.data.size;
        let mut size = wanted;
        for scratch in scratches {
            progress.phase(&format!(
                "writing {size} to {}",
                scratch.directory.display()
            ));
            let written = self.lay_out(scratch, size)?;
            if written < LAID_OUT_MIN {
                return Err(LabError::BadRequest(format!(
                    "{} took {} s to write {written}: too slow for this plan, give layout_ms more",
                    scratch.directory.display(),
                    self.request.plan.data.layout_ms / 1000
                )));
            }
            size = size.min(Bytes(written.0 / MIB * MIB));
        }
        for scratch in scratches {
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

    fn lay_out(&mut self, scratch: &Scratch, size: Bytes) -> Result<Bytes, LabError> {
        let limit = Nanos::from_ms(self.request.plan.data.layout_ms);
        let output = self.work.join("lay-out.json");
        let args = command::lay_out(&scratch.file(), size, limit, self.seed, &output);
        let text = self.fio(
            scratch,
            "lay-out",
            &args,
            &output,
            Duration::from_nanos(limit.0) + FLUSH_LIMIT,
        )?;
        let result = parse(&text).map_err(|error| {
            LabError::BadRequest(format!(
                "cannot write a test file to {}: {error}",
                scratch.directory.display()
            ))
        })?;
        Ok(result.bytes)
    }

    /// The first engine that works on all targets, past the page cache where all of them can.
    fn choose_engine(&mut self, scratches: &[Scratch]) -> Result<(Engine, bool), LabError> {
        let mut reason = String::new();
        for direct in [true, false] {
            for engine in Engine::ALL {
                match self.engine_works(scratches, engine, direct) {
                    Ok(()) => return Ok((engine, direct)),
                    Err(RunError::Cancelled) => return Err(stopped()),
                    Err(error) => reason = error.to_string(),
                }
            }
        }
        Err(LabError::NoEngine {
            path: self.request.target.path.clone(),
            tried: Engine::ALL.map(Engine::as_str).join(", "),
            reason,
        })
    }

    fn engine_works(
        &mut self,
        scratches: &[Scratch],
        engine: Engine,
        direct: bool,
    ) -> Result<(), RunError> {
        for scratch in scratches {
            let output = self.work.join("probe.json");
            let args = command::probe(&scratch.file(), engine, direct, &output);
            self.note("probe", &args);
            let text = self.fio.run(&args, &output, PROBE_LIMIT, &mut |_| {
                !self.cancel.is_cancelled()
            })?;
            parse(&text).map_err(|error| RunError::Failed(error.to_string()))?;
        }
        Ok(())
    }

    fn fio(
        &mut self,
        scratch: &Scratch,
        purpose: &str,
        args: &[std::ffi::OsString],
        output: &Path,
        limit: Duration,
    ) -> Result<String, LabError> {
        self.note(purpose, args);
        self.fio
            .run(args, output, limit, &mut |_| !self.cancel.is_cancelled())
            .map_err(|error| match error {
                RunError::Cancelled => stopped(),
                other => LabError::BadRequest(format!(
                    "cannot write a test file to {}: {other}",
                    scratch.directory.display()
                )),
            })
    }

    fn note(&mut self, purpose: &str, args: &[std::ffi::OsString]) {
        self.commands.push(CommandLine {
            purpose: purpose.into(),
            line: command::shown("fio", args),
        });
    }
}

fn stopped() -> LabError {
    LabError::BadRequest("stopped before anything was measured".into())
}

fn ready(
    request: &RunRequest,
    scratch: Scratch,
    label: String,
    index: usize,
    size: Bytes,
    measured: &Measured,
) -> ReadyTarget {
    // What the user told of a server is about what is measured, not about what it is held against.
    let hint = if index == 0 {
        ServerHint {
            runs_here: request.server_pid.is_some(),
            peer: request.peer,
        }
    } else {
        ServerHint::default()
    };
    let file = scratch.file();
    let mut facts = target_facts(label, scratch.directory.clone(), hint, measured);
    facts.dio_align = dio_align(&file);
    // A device that answers at once makes every page look resident; then the question is no use.
    residency::drop_caches(&file, size, true);
    let shows_cache = residency::look(&file, size).is_some_and(|found| found.part() < 0.02);
    ReadyTarget {
        scratch,
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

fn remarks(
    targets: &[ReadyTarget],
    size: Bytes,
    wanted: Bytes,
    direct: bool,
    findings: &mut Vec<Finding>,
) {
    let mut say = |text: String| findings.push(Finding::remark(Check::Run, text));
    if size < wanted {
        say(format!(
            "the test file has {size} instead of {wanted}: more could not be written in time"
        ));
    }
    if !direct {
        say(
            "a target has no direct I/O, so all of them were measured through the page cache"
                .into(),
        );
    }
    for target in targets {
        if !target.scratch.locked {
            say(format!(
                "{} cannot be locked: another run may have measured it at the same time",
                target.facts.label
            ));
        }
        if ["tmpfs", "ramfs"].contains(&target.facts.filesystem.as_str()) {
            say(format!("{} is memory, not storage", target.facts.label));
        }
    }
    if let [a, b] = targets
        && a.scratch.identity.0 == b.scratch.identity.0
    {
        say(format!(
            "{} and {} are on the same filesystem",
            a.facts.label, b.facts.label
        ));
    }
}

fn draw_seed() -> u64 {
    super::unix_ms() ^ (u64::from(std::process::id()) << 40)
}
