//! Test files of one size and one way to submit I/O, identical on all targets.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::stopped;
use crate::LabError;
use crate::fio::process::{Fio, RunError};
use crate::fio::{Engine, Subject, command, parse};
use crate::plan::Plan;
use crate::runner::progress::Progress;
use crate::runner::request::Cancel;
use crate::runner::work_area::WorkArea;
use crate::store::CommandLine;
use crate::units::{Bytes, MIB, Nanos};

/// The purpose of the command that writes a test file.
pub(crate) const LAY_OUT: &str = "lay-out";
/// Less than this written in the time for it, and the target is too slow for the plan.
const LAID_OUT_MIN: Bytes = Bytes(4 * MIB);
/// fio's time beyond what it was given, for the flush at the end.
const FLUSH_LIMIT: Duration = Duration::from_secs(60);
/// One read of 4 KiB.
const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// The options of fio that are the same on every target.
pub(in crate::runner) struct PreparedFile {
    pub(in crate::runner) size: Bytes,
    pub(in crate::runner) engine: Option<Engine>,
    pub(in crate::runner) direct: bool,
}

/// The tools of this part, together.
pub(super) struct Preparing<'a> {
    pub(super) plan: &'a Plan,
    pub(super) fio: &'a Fio,
    pub(super) cancel: &'a Cancel,
    pub(super) work: PathBuf,
    pub(super) seed: u64,
    pub(super) commands: Vec<CommandLine>,
}

impl Preparing<'_> {
    /// Writes what has to be written and finds out how to submit.
    pub(super) fn ready_for_fio(
        &mut self,
        grounds: &[WorkArea],
        wanted: Bytes,
        progress: &mut dyn Progress,
    ) -> Result<PreparedFile, LabError> {
        let size = self.lay_out_all(grounds, wanted, progress)?;
        progress.phase("finding out how to submit I/O");
        let (engine, direct) = self.choose_engine(grounds)?;
        Ok(PreparedFile {
            size,
            engine: Some(engine),
            direct,
        })
    }

    /// Writes every target's file and cuts all of them to the smallest.
    fn lay_out_all(
        &mut self,
        grounds: &[WorkArea],
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
        for scratch in grounds.iter().filter_map(WorkArea::scratch) {
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

    fn lay_out(&mut self, ground: &WorkArea, size: Bytes) -> Result<Bytes, LabError> {
        let limit = Nanos::from_ms(self.plan.data.layout_ms);
        let output = self.work.join("lay-out.json");
        let args = command::lay_out(ground.subject(), size, limit, self.seed, &output);
        self.note(LAY_OUT, &args);
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
    fn choose_engine(&mut self, grounds: &[WorkArea]) -> Result<(Engine, bool), LabError> {
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
        grounds: &[WorkArea],
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

    fn note(&mut self, purpose: &str, args: &[OsString]) {
        self.commands.push(CommandLine {
            purpose: purpose.into(),
            line: command::shown("fio", args),
        });
    }
}

/// An export has a way of its own.
pub(in crate::runner) fn engine_for(ground: &WorkArea, engine: Engine) -> Engine {
    match ground.subject() {
        Subject::File(_) => engine,
        Subject::Uri(_) => Engine::Nbd,
    }
}
