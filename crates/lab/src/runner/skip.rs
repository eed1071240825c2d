//! Which tests are not made on which targets, and why. Pure but for what was found before.

use super::ground::Ground;
use super::prepare::Tools;
use super::request::TargetSpec;
use crate::LabError;
use crate::plan::{Direction, Job, Plan, Workload};
use crate::store::Skipped;

/// Every test that is not made on a target.
///
/// # Errors
/// [`LabError::BadRequest`] when none is left.
pub(super) fn all(
    plan: &Plan,
    specs: &[TargetSpec],
    grounds: &[Ground],
    tools: &Tools,
) -> Result<Vec<Skipped>, LabError> {
    let mut skipped = Vec::new();
    for (workload, test) in plan.workloads.iter().enumerate() {
        for (target, (spec, ground)) in specs.iter().zip(grounds).enumerate() {
            if let Some(reason) = reason(test, spec, ground, tools) {
                skipped.push(Skipped {
                    workload,
                    target,
                    reason,
                });
            }
        }
    }
    if skipped.len() == plan.workloads.len() * specs.len() {
        let why = skipped.iter().find_map(|one| one.reason.clone());
        return Err(LabError::BadRequest(format!(
            "none of the plan's tests can be made here: {}",
            why.unwrap_or_else(|| "each is for a target that is left out".into())
        )));
    }
    Ok(skipped)
}

/// None: it is made. Some none: the plan does not ask for it.
fn reason(
    test: &Workload,
    spec: &TargetSpec,
    ground: &Ground,
    tools: &Tools,
) -> Option<Option<String>> {
    if !test.is_for(&spec.name) {
        return Some(None);
    }
    match &test.job {
        Job::Fio(job) if job.direction == Direction::Write && !ground.writable => Some(Some(
            "it is measured without a filesystem, and writing to it is not allowed".into(),
        )),
        Job::Fio(_) => None,
        Job::Tool(tool) => match tools.others.get(tool.program().name) {
            Some(Err(missing)) => Some(Some(missing.clone())),
            _ if tool.uses_storage() && ground.scratch().is_none() => {
                Some(Some(format!("{} needs a filesystem", tool.program().name)))
            }
            _ => None,
        },
    }
}

/// The tests that are made, as pairs of a workload and a target.
pub(super) fn pairs(plan: &Plan, targets: usize, skipped: &[Skipped]) -> Vec<(usize, usize)> {
    (0..plan.workloads.len())
        .flat_map(|workload| (0..targets).map(move |target| (workload, target)))
        .filter(|pair| {
            !skipped
                .iter()
                .any(|one| (one.workload, one.target) == *pair)
        })
        .collect()
}
