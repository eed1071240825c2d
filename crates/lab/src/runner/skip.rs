//! Which tests are not made on which targets, and why. Pure but for what was found before.

use super::prepare::Tools;
use super::request::TargetSpec;
use super::work_area::WorkArea;
use crate::LabError;
use crate::plan::{Direction, Job, Plan, Workload};
use crate::store::Skipped;
use crate::units::Bytes;

/// Every test that is not made on a target.
///
/// # Errors
/// [`LabError::BadRequest`] when none is left.
pub(super) fn all(
    plan: &Plan,
    specs: &[TargetSpec],
    grounds: &[WorkArea],
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
    any_left(plan, specs.len(), skipped)
}

/// The same with the tests that have no room in the `size` that there is: a target may be smaller than the plan
/// requests, or too slow to be filled.
///
/// # Errors
/// [`LabError::BadRequest`] when none is left.
pub(super) fn beyond(
    plan: &Plan,
    targets: usize,
    mut skipped: Vec<Skipped>,
    size: Bytes,
) -> Result<Vec<Skipped>, LabError> {
    for (workload, test) in plan.workloads.iter().enumerate() {
        let Some(job) = test.fio() else { continue };
        if job.room(size).0 / u64::from(job.jobs) >= job.block_size.0 {
            continue;
        }
        let reason = format!(
            "it begins at {}, and only {size} are there to be measured",
            job.begin(size)
        );
        let known: Vec<usize> = skipped
            .iter()
            .filter(|one| one.workload == workload)
            .map(|one| one.target)
            .collect();
        let others = (0..targets).filter(|target| !known.contains(target));
        skipped.extend(others.map(|target| Skipped {
            workload,
            target,
            reason: Some(reason.clone()),
        }));
    }
    any_left(plan, targets, skipped)
}

fn any_left(plan: &Plan, targets: usize, skipped: Vec<Skipped>) -> Result<Vec<Skipped>, LabError> {
    if skipped.len() < plan.workloads.len() * targets {
        return Ok(skipped);
    }
    let why = skipped.iter().find_map(|one| one.reason.clone());
    Err(LabError::BadRequest(format!(
        "none of the plan's tests can be made here: {}",
        why.unwrap_or_else(|| "each is for a target that is left out".into())
    )))
}

/// None: it is made. Some none: the plan does not ask for it.
fn reason(
    test: &Workload,
    spec: &TargetSpec,
    ground: &WorkArea,
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
        Job::Tool(tool) => match tools.others.get(tool.kind().program().name) {
            Some(Err(missing)) => Some(Some(missing.clone())),
            _ if tool.uses_storage() && ground.scratch().is_none() => Some(Some(format!(
                "{} needs a filesystem",
                tool.kind().program().name
            ))),
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
