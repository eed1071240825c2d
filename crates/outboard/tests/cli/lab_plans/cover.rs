//! A plan cut down to what covers it: every target has a test, and every test has a target.
//!
//! All tests on all targets take minutes for some plans, nearly all of it the programs' own time on one target after
//! the other. A target that cannot be built and a test that cannot be run show on one of them; `cargo xtask soak plans`
//! runs all of them on all. Pure.

use ::lab::plan::{Plan, Workload};

/// Limits each test to the targets that no test before it has, else to one target. The points of a curve stay
/// together. Targets in `may_lack` are the only target of no test that has another one.
pub(super) fn cover(plan: &mut Plan, may_lack: &[&str]) {
    let targets: Vec<String> = plan.targets.iter().map(|one| one.name.clone()).collect();
    let mut uncovered = targets.clone();
    let mut curve: Option<(String, Vec<String>)> = None;
    for workload in &mut plan.workloads {
        let name = curve_name(workload);
        if let Some((_, on)) = curve.as_ref().filter(|(known, _)| *known == name) {
            workload.on.clone_from(on);
            continue;
        }
        let on = covering(&targets_of(workload, &targets), &mut uncovered, may_lack);
        workload.on.clone_from(&on);
        curve = Some((name, on));
    }
}

/// The targets of `all` that are not covered yet, and one that is there if none of these is.
fn covering(all: &[String], uncovered: &mut Vec<String>, may_lack: &[&str]) -> Vec<String> {
    let is_there = |name: &&String| !may_lack.contains(&name.as_str());
    let mut on: Vec<String> = all
        .iter()
        .filter(|name| uncovered.contains(name))
        .cloned()
        .collect();
    uncovered.retain(|name| !on.contains(name));
    if !on.iter().any(|name| is_there(&name)) {
        on.extend(all.iter().find(is_there).cloned());
    }
    on
}

fn targets_of(workload: &Workload, all: &[String]) -> Vec<String> {
    match workload.on.is_empty() {
        true => all.to_vec(),
        false => workload.on.clone(),
    }
}

fn curve_name(workload: &Workload) -> String {
    match &workload.series {
        Some(series) => series.name.clone(),
        None => workload.name.clone(),
    }
}

#[test]
fn a_plan_that_was_cut_down_has_every_test_and_every_target() {
    for whole in ::lab::plan::list().expect("the plans that come with the program") {
        let may_lack = super::may_lack(&whole.name);
        let mut plan = whole.clone();
        cover(&mut plan, may_lack);
        plan.check().expect("it is valid");
        assert_eq!(plan.workloads.len(), whole.workloads.len());
        for (workload, of_whole) in plan.workloads.iter().zip(&whole.workloads) {
            let names: Vec<String> = whole.targets.iter().map(|one| one.name.clone()).collect();
            let before = targets_of(of_whole, &names);
            let mut on = workload.on.iter();
            assert!(on.clone().all(|name| before.contains(name)));
            let is_certain = on.any(|name| !may_lack.contains(&name.as_str()));
            assert!(is_certain || names.is_empty(), "{}", workload.name);
        }
        for target in &plan.targets {
            let mut workloads = plan.workloads.iter();
            assert!(
                workloads.any(|one| one.on.contains(&target.name)),
                "{} has no test in {}",
                target.name,
                plan.name
            );
        }
    }
}
