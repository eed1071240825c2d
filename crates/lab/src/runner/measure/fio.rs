//! One start of fio on a target, and what fio itself can do.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::failure::failed;
use super::{ToolExecutor, ToolOutput, since};
use crate::fio::process::{Fio, RunError};
use crate::fio::{FioCommand, JobResult, command, parse};
use crate::plan::{FioJob, Workload};
use crate::runner::blocks::StopReason;
use crate::runner::prepare::{ReadyTarget, engine_for};
use crate::runner::schedule::CellSlot;
use crate::store::Outcome;

/// fio's time beyond what it was given: starting, and flushing what was written.
const OVERTIME: Duration = Duration::from_secs(45);
/// From this part of a core on, whether fio itself is the limit is looked into.
const GENERATOR_BUSY: f64 = 0.70;

impl ToolExecutor<'_> {
    /// What fio makes of the same job on a disk that does nothing, in operations per second. Measured
    /// once for each test, and only when fio was busy enough for it to matter.
    pub(super) fn generator_for(
        &mut self,
        workload: usize,
        job: &FioJob,
        result: &JobResult,
    ) -> Option<f64> {
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

    /// One start of fio.
    pub(super) fn fio(
        &mut self,
        slot: CellSlot,
        workload: &Workload,
        asked: &FioJob,
        target: &ReadyTarget,
    ) -> Result<ToolOutput, StopReason> {
        let prepared = self.prepared;
        let (Some(fio), Some(engine)) = (&prepared.tools.fio, prepared.engine) else {
            return Err(StopReason::Failed("fio was not made ready".into()));
        };
        let job = FioCommand {
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
                RunError::Cancelled => StopReason::Cancelled,
                other => failed(workload, target, &other.to_string()),
            })?;
        let result = parse(&text).map_err(|error| failed(workload, target, &error.to_string()))?;
        Ok(ToolOutput {
            outcome: Outcome::Fio(result),
            raw: text,
            lines: vec![command::shown("fio", &args)],
            findings: Vec::new(),
        })
    }

    fn run_fio(
        &mut self,
        fio: &Fio,
        args: &[OsString],
        output: &Path,
        limit: Duration,
    ) -> Result<String, RunError> {
        let (start, before) = (self.start, self.before);
        let (cancel, sampler) = (self.cancel, &mut self.sampler);
        fio.run(args, output, limit, &mut |now| {
            sampler.tick(since(start, before, now));
            !cancel.is_cancelled()
        })
    }
}
