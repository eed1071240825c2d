//! What a start that gave no result ends: the run, or its own measurement alone.
//!
//! fio fails when its target does: nothing is left to be measured there, and the run ends. Another tool may
//! fail by itself, and then the run goes on without its figure; but where the target is gone, is full or
//! does not answer, the run ends as it would with fio.

use std::path::Path;

use crate::plan::Workload;
use crate::runner::blocks::StopReason;
use crate::runner::prepare::ReadyTarget;
use crate::tools::{Tool, ToolError};
use crate::units::{Bytes, MIB};

/// With less left than this, a target is full: it had more before the run, or the run had not begun.
const FULL: Bytes = Bytes(8 * MIB);

/// The end of the run, with its test and its target.
pub(super) fn failed(workload: &Workload, target: &ReadyTarget, why: &str) -> StopReason {
    // fio then only says that it may not create the file.
    let is_there = target.ground.file().is_none_or(Path::exists);
    let why = match is_there || workload.fio().is_none() {
        true => why,
        false => "its test file is gone; was it unmounted?",
    };
    StopReason::Failed(format!(
        "{} on {} failed: {why}",
        workload.title.to_lowercase(),
        target.facts.label
    ))
}

/// Why a tool's failure ends the run; none where its target is as it was. What the tool left is gone
/// before its target is looked at.
pub(super) fn of_target(tool: &Tool, error: &ToolError, target: &ReadyTarget) -> Option<String> {
    let scratch = target.ground.scratch().filter(|_| tool.uses_storage())?;
    if !scratch.own().exists() {
        return Some("its directory is gone; was it unmounted?".into());
    }
    if matches!(error, ToolError::TimedOut { .. }) {
        return Some(error.to_string());
    }
    if let Err(left) = scratch.clear_tools() {
        return Some(format!("{error}; {left}"));
    }
    match scratch.free() {
        Ok(free) if free < FULL => Some(format!("{error}; the target has no space left")),
        Ok(_) => None,
        Err(asked) => Some(asked.to_string()),
    }
}
