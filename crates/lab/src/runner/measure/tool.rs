//! One start of a tool that is not fio.

use std::path::PathBuf;
use std::time::Instant;

use super::failure::failed;
use super::{Bench, Made, since};
use crate::plan::Workload;
use crate::runner::blocks::Stop;
use crate::runner::prepare::ReadyTarget;
use crate::runner::schedule::Slot;
use crate::runner::scratch::Scratch;
use crate::store::Outcome;
use crate::tools::{self, Tool, ToolError};

impl Bench<'_> {
    /// One start of a tool.
    pub(super) fn tool(
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
            .map(Scratch::tool_directory)
            .collect()
    }

    /// Puts what a tool works on onto its target, before the counters are read.
    pub(super) fn prepare_tool(&mut self, slot: Slot, workload: &Workload) -> Result<(), Stop> {
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
}
