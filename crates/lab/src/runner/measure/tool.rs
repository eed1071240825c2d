//! One start of a tool that is not fio.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::failure::{failed, of_target};
use super::{ToolExecutor, ToolOutput, since};
use crate::checks::{Check, Finding};
use crate::plan::Workload;
use crate::runner::blocks::StopReason;
use crate::runner::prepare::{Prepared, ReadyTarget};
use crate::runner::schedule::CellSlot;
use crate::runner::scratch::Scratch;
use crate::store::Outcome;
use crate::tools::{self, Installed, Tool, ToolDirs, ToolError, ToolResult};
use crate::units::Nanos;

impl ToolExecutor<'_> {
    /// One start of a tool.
    pub(super) fn tool(
        &mut self,
        slot: CellSlot,
        workload: &Workload,
        tool: &Tool,
        target: &ReadyTarget,
    ) -> Result<ToolOutput, StopReason> {
        let prepared = self.prepared;
        let installed = installed(prepared, workload, tool, target)?;
        let directory = self.tool_directory(workload, target)?;
        let beside = self.beside(slot, workload);
        let seed = prepared.seed.wrapping_add(u64::from(slot.block));
        let place = place(prepared, &directory, &beside, seed);
        let (start, before) = (self.start, self.before);
        let (cancel, sampler) = (self.cancel, &mut self.sampler);
        let mut tick = |now: Instant| {
            sampler.tick(since(start, before, now));
            !cancel.is_cancelled()
        };
        let begun = engine::clock::now();
        match tools::run(tool, installed, &place, &mut tick) {
            Ok(ran) => Ok(ToolOutput {
                outcome: Outcome::Tool(ran.result),
                raw: ran.output,
                lines: ran.commands,
                findings: ran.findings,
            }),
            Err(error) => {
                let elapsed = engine::clock::now().duration_since(begun);
                let elapsed = Nanos::from_duration(elapsed);
                self.no_figure(workload, tool, target, (error, elapsed))
            }
        }
    }

    /// Where a tool works on the other targets that have this test.
    fn beside(&self, slot: CellSlot, workload: &Workload) -> Vec<PathBuf> {
        let targets = self.prepared.targets.iter().enumerate();
        let others = targets
            .filter(|(index, other)| *index != slot.target && workload.is_for(&other.facts.name));
        others
            .filter_map(|(_, other)| other.ground.scratch())
            .map(Scratch::tool_directory)
            .collect()
    }

    /// Puts what a tool works on onto its target, before the counters are read. What is made where that
    /// cannot be done.
    pub(super) fn prepare_tool(
        &self,
        slot: CellSlot,
        workload: &Workload,
    ) -> Result<Option<ToolOutput>, StopReason> {
        let target = &self.prepared.targets[slot.target];
        let (Some(tool), Some(_)) = (workload.tool(), target.ground.scratch()) else {
            return Ok(None);
        };
        let directory = self.tool_directory(workload, target)?;
        let beside = self.beside(slot, workload);
        // What is put there once is the same in each block.
        let place = place(self.prepared, &directory, &beside, self.prepared.seed);
        let cancel = self.cancel;
        match tool.kind().prepare(&place, &mut |_| !cancel.is_cancelled()) {
            Ok(_) => Ok(None),
            Err(error) => self
                .no_figure(workload, tool, target, (error, Nanos(0)))
                .map(Some),
        }
    }

    /// A measurement without a figure, in the tool's own words; the end of the run where it is the target
    /// that failed.
    fn no_figure(
        &self,
        workload: &Workload,
        tool: &Tool,
        target: &ReadyTarget,
        (error, elapsed): (ToolError, Nanos),
    ) -> Result<ToolOutput, StopReason> {
        if matches!(error, ToolError::Cancelled) {
            return Err(StopReason::Cancelled);
        }
        if let Some(why) = of_target(tool, &error, target) {
            return Err(failed(workload, target, &why));
        }
        let installed = installed(self.prepared, workload, tool, target)?;
        let said = error.to_string();
        Ok(ToolOutput {
            outcome: Outcome::Tool(ToolResult::failed(
                tool.kind().name(),
                tool.version(installed),
                elapsed,
            )),
            raw: said.clone(),
            lines: Vec::new(),
            findings: vec![Finding::invalid(Check::Run, said)],
        })
    }

    /// Where it works: on the target, where that is a directory.
    fn tool_directory(
        &self,
        workload: &Workload,
        target: &ReadyTarget,
    ) -> Result<PathBuf, StopReason> {
        let directory = match target.ground.scratch() {
            Some(scratch) => scratch.tool_directory(),
            None => self.prepared.work.path().to_owned(),
        };
        match std::fs::create_dir(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                let gone = target
                    .ground
                    .scratch()
                    .is_some_and(|own| !own.own().exists());
                let said = error.to_string();
                let why = match gone {
                    true => "its directory is gone; was it unmounted?",
                    false => &said,
                };
                Err(failed(workload, target, why))
            }
            _ => Ok(directory),
        }
    }
}

/// Where a tool works, and what it draws its numbers from.
fn place<'a>(
    prepared: &'a Prepared,
    directory: &'a Path,
    beside: &'a [PathBuf],
    seed: u64,
) -> ToolDirs<'a> {
    ToolDirs {
        directory,
        beside,
        work: prepared.work.path(),
        seed: seed & 0x7fff_ffff,
    }
}

fn installed<'a>(
    prepared: &'a Prepared,
    workload: &Workload,
    tool: &Tool,
    target: &ReadyTarget,
) -> Result<&'a Installed, StopReason> {
    match prepared.tools.others.get(tool.kind().program().name) {
        Some(Ok(installed)) => Ok(installed),
        _ => Err(failed(workload, target, "it is not installed")),
    }
}
