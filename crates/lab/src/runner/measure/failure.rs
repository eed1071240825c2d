//! What a start that gave no result ends.

use std::path::Path;

use crate::plan::Workload;
use crate::runner::blocks::Stop;
use crate::runner::prepare::ReadyTarget;

/// The end of the run, said by its test and its target.
pub(super) fn failed(workload: &Workload, target: &ReadyTarget, why: &str) -> Stop {
    // fio then only says that it may not make the file anew.
    let is_there = target.ground.file().is_none_or(Path::exists);
    let why = match is_there || workload.fio().is_none() {
        true => why,
        false => "its test file is gone; was it unmounted?",
    };
    Stop::Failed(format!(
        "{} on {} failed: {why}",
        workload.title.to_lowercase(),
        target.facts.label
    ))
}
