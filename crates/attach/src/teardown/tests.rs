//! Tests of the order of a teardown, against a world of outcomes.

use std::path::PathBuf;

use proptest::prelude::*;

use super::{
    Teardown, TeardownAction, TeardownFacts, TeardownOutcome, TeardownRefusal, TeardownReport,
};

fn dir() -> PathBuf {
    PathBuf::from("/mnt/media")
}

fn mounted() -> TeardownFacts {
    TeardownFacts {
        mounted: Some(dir()),
        device: true,
        created: Some(dir()),
        ..TeardownFacts::default()
    }
}

/// Runs a teardown whose steps have the outcomes of `world`.
fn run(
    facts: TeardownFacts,
    mut world: impl FnMut(&TeardownAction) -> TeardownOutcome,
) -> (Vec<TeardownAction>, Result<TeardownReport, TeardownRefusal>) {
    let mut teardown = match Teardown::new(facts) {
        Ok(teardown) => teardown,
        Err(refusal) => return (Vec::new(), Err(refusal)),
    };
    let mut done = Vec::new();
    while let Some(action) = teardown.next() {
        let outcome = world(&action);
        done.push(action.clone());
        if let Err(refusal) = teardown.apply(action, outcome) {
            return (done, Err(refusal));
        }
    }
    (done, Ok(teardown.finish()))
}

#[test]
fn all_goes_well_in_order_and_nothing_is_lost() {
    let (done, result) = run(mounted(), |_| TeardownOutcome::Done);
    let expected = [
        TeardownAction::Unmount(dir()),
        TeardownAction::Flush,
        TeardownAction::Clear,
        TeardownAction::RemoveDir(dir()),
    ];
    assert_eq!(done, expected);
    assert_eq!(result, Ok(TeardownReport::default()));
}

#[test]
fn a_mount_in_use_is_refused_and_nothing_else_was_done() {
    let (done, result) = run(mounted(), |_| TeardownOutcome::Busy("by bash 7".into()));
    assert_eq!(done, [TeardownAction::Unmount(dir())]);
    assert!(matches!(result, Err(TeardownRefusal::Busy { used_by, .. }) if used_by == "by bash 7"));
}

#[test]
fn a_device_that_programs_have_open_is_refused_and_nothing_was_done() {
    let facts = TeardownFacts {
        mounted: None,
        programs: vec!["dd 7".into(), "qemu 8".into()],
        ..mounted()
    };
    let (done, result) = run(facts, |_| TeardownOutcome::Done);
    assert_eq!(done, []);
    assert!(matches!(result, Err(TeardownRefusal::Open { used_by }) if used_by == "dd 7, qemu 8"));
}

#[test]
fn programs_lose_their_device_by_force_or_with_their_server_and_the_report_names_them() {
    let open = TeardownFacts {
        programs: vec!["dd 7".into()],
        ..mounted()
    };
    let forced = TeardownFacts {
        force: true,
        ..open.clone()
    };
    let gone = TeardownFacts {
        unreachable: Some("connection refused".into()),
        ..open
    };
    for facts in [forced, gone] {
        let (done, result) = run(facts, |_| TeardownOutcome::Done);
        assert!(done.contains(&TeardownAction::Clear));
        let lost = result.unwrap().lost;
        assert!(lost[0].contains("dd 7"), "{lost:?}");
    }
}

#[test]
fn a_forced_mount_in_use_is_synced_before_it_is_taken_away() {
    let facts = TeardownFacts {
        force: true,
        ..mounted()
    };
    let (done, result) = run(facts, |action| match action {
        TeardownAction::Unmount(_) => TeardownOutcome::Busy("by bash 7".into()),
        _ => TeardownOutcome::Done,
    });
    let expected = [
        TeardownAction::Unmount(dir()),
        TeardownAction::Sync(dir()),
        TeardownAction::UnmountLazily(dir()),
        TeardownAction::Flush,
    ];
    assert_eq!(done[..4], expected);
    assert!(result.unwrap().lost[0].contains("bash 7"));
}

#[test]
fn an_unmount_timeout_cuts_the_disk_off_and_reports_possible_data_loss() {
    let facts = TeardownFacts {
        unreachable: Some("connection refused".into()),
        ..mounted()
    };
    let mut tries = 0;
    let (done, result) = run(facts, |action| match action {
        TeardownAction::Unmount(_) => {
            tries += 1;
            [TeardownOutcome::NoEnd, TeardownOutcome::Done][tries - 1].clone()
        }
        _ => TeardownOutcome::Done,
    });
    let expected = [
        TeardownAction::Unmount(dir()),
        TeardownAction::Cut,
        TeardownAction::Unmount(dir()),
        TeardownAction::Clear,
        TeardownAction::RemoveDir(dir()),
    ];
    assert_eq!(done, expected);
    let lost = result.unwrap().lost;
    assert_eq!(lost.len(), 1, "it is reported once: {lost:?}");
    assert!(lost[0].contains("may be lost") && lost[0].contains("connection refused"));
}

#[test]
fn a_busy_mount_whose_server_is_gone_is_cut_off_and_unmounted_lazily() {
    let facts = TeardownFacts {
        unreachable: Some("connection refused".into()),
        ..mounted()
    };
    let (done, result) = run(facts, |action| match action {
        TeardownAction::Unmount(_) => TeardownOutcome::Busy("by bash 7".into()),
        _ => TeardownOutcome::Done,
    });
    let expected = [
        TeardownAction::Unmount(dir()),
        TeardownAction::Cut,
        TeardownAction::UnmountLazily(dir()),
    ];
    assert_eq!(done[..3], expected);
    assert!(!result.unwrap().lost.is_empty());
}

#[test]
fn a_flush_timeout_cuts_the_disk_off_before_the_device_is_cleared() {
    let (done, result) = run(mounted(), |action| match action {
        TeardownAction::Flush => TeardownOutcome::NoEnd,
        _ => TeardownOutcome::Done,
    });
    let position = |wanted: &TeardownAction| done.iter().position(|a| a == wanted).unwrap();
    assert!(position(&TeardownAction::Cut) < position(&TeardownAction::Clear));
    assert_eq!(result.unwrap().lost.len(), 1);
}

#[test]
fn a_dead_process_means_that_data_may_be_lost_unless_none_was_written() {
    let dead = TeardownFacts {
        cut: Some("the process behind it had died".into()),
        ..mounted()
    };
    let (_, result) = run(dead.clone(), |_| TeardownOutcome::Done);
    assert!(result.unwrap().lost[0].contains("died"));
    let read_only = TeardownFacts {
        read_only: true,
        ..dead
    };
    let (done, result) = run(read_only, |_| TeardownOutcome::Done);
    assert_eq!(result, Ok(TeardownReport::default()));
    assert!(!done.contains(&TeardownAction::Flush));
}

#[test]
fn a_device_that_others_use_is_refused_before_the_first_step() {
    let held = TeardownFacts {
        holders: vec!["dm-0".into()],
        force: true,
        ..mounted()
    };
    assert!(
        matches!(run(held, |_| TeardownOutcome::Done), (done, Err(TeardownRefusal::Held { .. })) if done.is_empty())
    );
    let elsewhere = TeardownFacts {
        elsewhere: vec!["/srv".into()],
        ..mounted()
    };
    let (done, result) = run(elsewhere, |_| TeardownOutcome::Done);
    assert!(done.is_empty());
    assert!(matches!(
        result,
        Err(TeardownRefusal::MountedElsewhere { .. })
    ));
}

#[test]
fn what_could_not_be_removed_is_named() {
    let (_, result) = run(mounted(), |action| match action {
        TeardownAction::Clear => TeardownOutcome::Busy("a program has it open".into()),
        TeardownAction::RemoveDir(_) => TeardownOutcome::Failed("not empty".into()),
        _ => TeardownOutcome::Done,
    });
    let left = result.unwrap().left;
    assert_eq!(left.len(), 2);
    assert!(left[1].contains("/mnt/media"));
}

fn outcome() -> impl Strategy<Value = TeardownOutcome> {
    prop_oneof![
        3 => Just(TeardownOutcome::Done),
        1 => Just(TeardownOutcome::Busy("a program".into())),
        1 => Just(TeardownOutcome::NoEnd),
        1 => Just(TeardownOutcome::Failed("why".into())),
    ]
}

fn facts() -> impl Strategy<Value = TeardownFacts> {
    any::<[bool; 9]>().prop_map(|[mount, other, open, device, made, gone, cut, ro, force]| {
        TeardownFacts {
            mounted: (mount && device).then(dir),
            elsewhere: (other && device)
                .then(|| PathBuf::from("/srv"))
                .into_iter()
                .collect(),
            holders: Vec::new(),
            programs: (open && device)
                .then(|| "dd 7".to_owned())
                .into_iter()
                .collect(),
            device,
            created: made.then(dir),
            unreachable: gone.then(|| "gone".to_owned()),
            cut: cut.then(|| "the process behind it had died".into()),
            read_only: ro,
            force,
        }
    })
}

#[test]
fn a_close_timeout_is_cut_off_cleared_again_and_reported() {
    let mut clears = 0;
    let (done, result) = run(mounted(), |action| match action {
        TeardownAction::Clear => {
            clears += 1;
            [TeardownOutcome::NoEnd, TeardownOutcome::Done][clears - 1].clone()
        }
        _ => TeardownOutcome::Done,
    });
    let expected = [
        TeardownAction::Clear,
        TeardownAction::Cut,
        TeardownAction::Clear,
    ];
    assert_eq!(done[2..5], expected);
    let report = result.unwrap();
    assert!(report.lost[0].contains("close of the device"), "{report:?}");
    assert!(report.left.is_empty(), "{report:?}");
}

proptest! {
    #[test]
    fn it_ends_clears_last_and_never_loses_silently(
        facts in facts(),
        outcomes in prop::collection::vec(outcome(), 0..40),
    ) {
        let mut outcomes = outcomes.into_iter();
        let mut bad_end = false;
        let (done, result) = run(facts.clone(), |action| {
            let outcome = outcomes.next().unwrap_or(TeardownOutcome::Done);
            bad_end |= outcome != TeardownOutcome::Done
                && matches!(action, TeardownAction::Unmount(_) | TeardownAction::Flush);
            outcome
        });
        prop_assert!(done.len() <= 14, "{done:?}");
        let clears = done.iter().filter(|a| **a == TeardownAction::Clear).count();
        match result {
            Err(_) => prop_assert_eq!(clears, 0),
            Ok(report) => {
                let clears_max = if facts.device { 2 } else { 0 };
                prop_assert!((usize::from(facts.device)..=clears_max).contains(&clears));
                if let Some(at) = done.iter().rposition(|a| *a == TeardownAction::Clear) {
                    let after = &done[at + 1..];
                    let only_dirs = after.iter().all(|a| matches!(a, TeardownAction::RemoveDir(_)));
                    prop_assert!(only_dirs);
                }
                if bad_end && !facts.read_only && facts.cut.is_none() {
                    let is_reported = !report.lost.is_empty() || done.iter().any(|a| matches!(a, TeardownAction::UnmountLazily(_)));
                    prop_assert!(is_reported);
                }
            }
        }
    }
}
