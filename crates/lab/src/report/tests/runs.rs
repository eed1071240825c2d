//! Two runs compared, and a test over many.

use super::invalidate;
use crate::checks::identity::Identity;
use crate::plan::Direction;
use crate::report::{compare_runs, history, history_text};
use crate::stats::Verdict;
use crate::store::{RunId, RunRecord};
use crate::synthetic;

/// The same run once more, so many times as fast.
fn again(id: i64, times: f64) -> RunRecord {
    of_blocks(6, id, times)
}

fn of_blocks(blocks: u32, id: i64, times: f64) -> RunRecord {
    let mut run = synthetic::run(blocks);
    run.id = RunId(id);
    run.started_unix_ms += u64::try_from(id).unwrap() * 1000;
    for cell in &mut run.cells {
        let result = cell.fio_mut().unwrap();
        result.runtime.0 = crate::units::round(result.runtime.0 as f64 / times);
    }
    run
}

#[test]
fn a_run_of_twice_the_speed_is_faster_in_every_test_on_every_target() {
    let found = compare_runs(&again(2, 2.0), &again(1, 1.0));
    assert_eq!(found.tests.len(), 8);
    for test in &found.tests {
        let comparison = test.comparison.unwrap();
        assert_eq!(comparison.verdict, Verdict::Faster, "{test:?}");
        assert!((comparison.ratio.median - 2.0).abs() < 0.1, "{test:?}");
        assert_eq!(test.label_a, test.label_b);
    }
    assert!(found.unpaired.is_empty());
    let text = found.text();
    assert!(text.contains("run 2 is faster than run 1"), "{text}");
    assert!(text.contains("95 % interval"), "{text}");
}

#[test]
fn a_run_compared_with_itself_is_the_same() {
    let run = again(1, 1.0);
    let found = compare_runs(&run, &run);
    assert!(
        found
            .tests
            .iter()
            .all(|test| { test.comparison.unwrap().ratio.median == 1.0 })
    );
}

#[test]
fn unlike_jobs_are_refused_with_what_differs_and_others_are_compared() {
    let a = again(2, 1.0);
    let mut b = again(1, 1.0);
    for cell in b.cells.iter_mut().filter(|cell| cell.workload == 1) {
        cell.fio_mut().unwrap().depth = 3;
    }
    invalidate(&mut b, 0, 0, "it is above the wire");
    let found = compare_runs(&a, &b);
    let refused: Vec<&str> = found
        .tests
        .iter()
        .filter_map(|t| t.refused.as_deref())
        .collect();
    assert_eq!(refused.len(), 3);
    assert!(refused[0].contains("in run 1 it is invalid"), "{refused:?}");
    assert!(refused[1].contains("depth 8 against 3"), "{refused:?}");
    assert!(
        found
            .text()
            .contains("not compared, because the jobs differ")
    );
}

/// Study C's table held reads by one job against writes by four.
#[test]
fn study_c_which_read_with_one_job_and_wrote_with_four_is_refused() {
    let (mut a, mut b) = (again(2, 1.0), again(1, 1.0));
    for (run, jobs) in [(&mut a, 1), (&mut b, 4)] {
        for workload in &mut run.plan.workloads {
            workload.fio_mut().unwrap().jobs = jobs;
        }
    }
    let found = compare_runs(&a, &b);
    assert!(found.tests.iter().all(|test| test.comparison.is_none()));
    assert!(found.text().contains("jobs 1 against 4"));
}

#[test]
fn a_test_that_only_one_run_has_and_a_machine_that_differs_are_named() {
    let (a, mut b) = (again(2, 1.0), again(1, 1.0));
    b.manifest.machine.kernel = "Linux 5.0".into();
    b.cells.retain(|cell| cell.workload != 3);
    b.plan.workloads.truncate(3);
    let found = compare_runs(&a, &b);
    assert_eq!((found.tests.len(), found.unpaired.len()), (6, 2));
    let text = found.text();
    assert!(
        text.contains("Only in run 2: Random write on /home/me."),
        "{text}"
    );
    assert!(
        text.contains("the kernel differs: Linux 6.1 against Linux 5.0"),
        "{text}"
    );
}

#[test]
fn a_history_has_every_run_of_the_same_plan_and_target_and_compares_each_with_the_last() {
    let mut other = again(3, 1.0);
    other.plan.workloads[0].fio_mut().unwrap().depth = 1;
    let mut wrong = again(4, 1.0);
    invalidate(&mut wrong, 0, 0, "it is above the wire");
    let runs = [again(5, 2.0), wrong, again(1, 1.0), other];
    let found = history(&runs);
    // Four tests on two targets of two plans.
    assert_eq!(found.len(), 16);
    let first = &found[0];
    let ids: Vec<i64> = first.points.iter().map(|point| point.run.0).collect();
    assert_eq!(ids, [1, 4, 5]);
    assert!(first.points[0].over_last.is_none() && first.points[1].figure.is_none());
    let last = first.points[2].over_last.unwrap();
    assert_eq!(last.verdict, Verdict::Faster);
    let text = history_text(&found);
    assert!(
        text.contains("invalid: it is above the wire") && text.contains("faster"),
        "{text}"
    );
    assert!(
        runs[0]
            .plan
            .workloads
            .iter()
            .any(|w| w.direction() == Some(Direction::Write))
    );
}

/// A run with a drive below each of its targets, in these slots; its first target has half the speed of the
/// second.
fn on_drives(id: i64, serials: [&str; 2], slots: [&str; 2]) -> RunRecord {
    let mut run = of_blocks(16, id, 1.0);
    for (index, facts) in run.manifest.targets.iter_mut().enumerate() {
        facts.identity = Some(Identity {
            name: ["sda", "sdb"][index].into(),
            serial: Some(serials[index].into()),
            place: Some(slots[index].into()),
            ..Identity::default()
        });
    }
    run
}

#[test]
fn disks_are_compared_by_their_serials_and_not_by_their_letters() {
    let first = on_drives(1, ["SLOW-1", "FAST-2"], ["hub-1", "hub-2"]);
    // Letters and mount points moved; each drive is as fast as it was.
    let mut second = on_drives(2, ["SLOW-1", "FAST-2"], ["hub-1", "hub-2"]);
    second.manifest.targets.swap(0, 1);
    for cell in &mut second.cells {
        cell.target = 1 - cell.target;
    }
    for (facts, name) in second
        .manifest
        .targets
        .iter_mut()
        .zip(["target", "against"])
    {
        facts.name = name.into();
    }
    let labels = second
        .manifest
        .targets
        .iter()
        .map(|facts| facts.label.clone());
    let labels: Vec<String> = labels.collect();
    for (facts, label) in second.manifest.targets.iter_mut().zip(labels.iter().rev()) {
        facts.label.clone_from(label);
        let identity = facts.identity.as_mut().unwrap();
        identity.name = if identity.name == "sda" { "sdb" } else { "sda" }.into();
    }
    let found = compare_runs(&second, &first);
    assert_eq!(found.tests.len(), 8);
    for test in &found.tests {
        let comparison = test.comparison.unwrap();
        assert_eq!(comparison.verdict, Verdict::Same, "{test:?}");
        assert_ne!(
            test.label_a, test.label_b,
            "by the serial and not by the name"
        );
    }
    let text = found.text();
    assert!(
        text.contains("the disk SLOW-1 was sda and is sdb now: the letter moved"),
        "{text}"
    );
    assert_eq!(
        text.matches("FAST-2 was sdb").count(),
        1,
        "said once: {text}"
    );
}

#[test]
fn another_disk_under_the_same_letter_is_said() {
    let first = on_drives(1, ["SLOW-1", "FAST-2"], ["hub-1", "hub-2"]);
    let second = on_drives(2, ["NEW-3", "FAST-2"], ["hub-1", "hub-2"]);
    let text = compare_runs(&second, &first).text();
    assert!(
        text.contains("sda was the disk SLOW-1 and is now NEW-3: letters moved"),
        "{text}"
    );
}
