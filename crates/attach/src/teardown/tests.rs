//! Tests of the order of a teardown, against a world of outcomes.

use std::path::PathBuf;

use proptest::prelude::*;

use super::{Action, Facts, Outcome, Refusal, Report, Teardown};

fn dir() -> PathBuf {
    PathBuf::from("/mnt/media")
}

fn mounted() -> Facts {
    Facts {
        mounted: Some(dir()),
        device: true,
        created: Some(dir()),
        ..Facts::default()
    }
}

/// Runs a teardown whose steps come to what `world` says.
fn run(
    facts: Facts,
    mut world: impl FnMut(&Action) -> Outcome,
) -> (Vec<Action>, Result<Report, Refusal>) {
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
    let (done, result) = run(mounted(), |_| Outcome::Done);
    let expected = [
        Action::Unmount(dir()),
        Action::Flush,
        Action::Clear,
        Action::RemoveDir(dir()),
    ];
    assert_eq!(done, expected);
    assert_eq!(result, Ok(Report::default()));
}

#[test]
fn a_mount_in_use_is_refused_and_nothing_else_was_done() {
    let (done, result) = run(mounted(), |_| Outcome::Busy("by bash 7".into()));
    assert_eq!(done, [Action::Unmount(dir())]);
    assert!(matches!(result, Err(Refusal::Busy { who, .. }) if who == "by bash 7"));
}

#[test]
fn a_device_that_programs_have_open_is_refused_and_nothing_was_done() {
    let facts = Facts {
        mounted: None,
        programs: vec!["dd 7".into(), "qemu 8".into()],
        ..mounted()
    };
    let (done, result) = run(facts, |_| Outcome::Done);
    assert_eq!(done, []);
    assert!(matches!(result, Err(Refusal::Open { who }) if who == "dd 7, qemu 8"));
}

#[test]
fn programs_lose_their_device_by_force_or_with_their_server_and_it_is_said() {
    let open = Facts {
        programs: vec!["dd 7".into()],
        ..mounted()
    };
    let forced = Facts {
        force: true,
        ..open.clone()
    };
    let gone = Facts {
        unreachable: Some("connection refused".into()),
        ..open
    };
    for facts in [forced, gone] {
        let (done, result) = run(facts, |_| Outcome::Done);
        assert!(done.contains(&Action::Clear));
        let lost = result.unwrap().lost;
        assert!(lost[0].contains("dd 7"), "{lost:?}");
    }
}

#[test]
fn a_forced_mount_in_use_is_synced_before_it_is_taken_away() {
    let facts = Facts {
        force: true,
        ..mounted()
    };
    let (done, result) = run(facts, |action| match action {
        Action::Unmount(_) => Outcome::Busy("by bash 7".into()),
        _ => Outcome::Done,
    });
    let expected = [
        Action::Unmount(dir()),
        Action::Sync(dir()),
        Action::UnmountLazily(dir()),
        Action::Flush,
    ];
    assert_eq!(done[..4], expected);
    assert!(result.unwrap().lost[0].contains("bash 7"));
}

#[test]
fn an_unmount_without_end_cuts_the_disk_off_and_says_that_data_may_be_lost() {
    let facts = Facts {
        unreachable: Some("connection refused".into()),
        ..mounted()
    };
    let mut tries = 0;
    let (done, result) = run(facts, |action| match action {
        Action::Unmount(_) => {
            tries += 1;
            [Outcome::NoEnd, Outcome::Done][tries - 1].clone()
        }
        _ => Outcome::Done,
    });
    let expected = [
        Action::Unmount(dir()),
        Action::Cut,
        Action::Unmount(dir()),
        Action::Clear,
        Action::RemoveDir(dir()),
    ];
    assert_eq!(done, expected);
    let lost = result.unwrap().lost;
    assert_eq!(lost.len(), 1, "it is said once: {lost:?}");
    assert!(lost[0].contains("may be lost") && lost[0].contains("connection refused"));
}

#[test]
fn a_busy_mount_whose_server_is_gone_is_cut_off_and_unmounted_lazily() {
    let facts = Facts {
        unreachable: Some("connection refused".into()),
        ..mounted()
    };
    let (done, result) = run(facts, |action| match action {
        Action::Unmount(_) => Outcome::Busy("by bash 7".into()),
        _ => Outcome::Done,
    });
    let expected = [
        Action::Unmount(dir()),
        Action::Cut,
        Action::UnmountLazily(dir()),
    ];
    assert_eq!(done[..3], expected);
    assert!(!result.unwrap().lost.is_empty());
}

#[test]
fn a_flush_without_end_is_cut_off_before_the_device_is_cleared() {
    let (done, result) = run(mounted(), |action| match action {
        Action::Flush => Outcome::NoEnd,
        _ => Outcome::Done,
    });
    let position = |wanted: &Action| done.iter().position(|a| a == wanted).unwrap();
    assert!(position(&Action::Cut) < position(&Action::Clear));
    assert_eq!(result.unwrap().lost.len(), 1);
}

#[test]
fn a_dead_process_means_that_data_may_be_lost_unless_none_was_written() {
    let dead = Facts {
        cut: true,
        ..mounted()
    };
    let (_, result) = run(dead.clone(), |_| Outcome::Done);
    assert!(result.unwrap().lost[0].contains("died"));
    let read_only = Facts {
        read_only: true,
        ..dead
    };
    let (done, result) = run(read_only, |_| Outcome::Done);
    assert_eq!(result, Ok(Report::default()));
    assert!(!done.contains(&Action::Flush));
}

#[test]
fn a_device_that_others_use_is_refused_before_the_first_step() {
    let held = Facts {
        holders: vec!["dm-0".into()],
        force: true,
        ..mounted()
    };
    assert!(
        matches!(run(held, |_| Outcome::Done), (done, Err(Refusal::Held { .. })) if done.is_empty())
    );
    let elsewhere = Facts {
        elsewhere: vec!["/srv".into()],
        ..mounted()
    };
    let (done, result) = run(elsewhere, |_| Outcome::Done);
    assert!(done.is_empty());
    assert!(matches!(result, Err(Refusal::MountedElsewhere { .. })));
}

#[test]
fn what_could_not_be_removed_is_named() {
    let (_, result) = run(mounted(), |action| match action {
        Action::Clear => Outcome::Busy("a program has it open".into()),
        Action::RemoveDir(_) => Outcome::Failed("not empty".into()),
        _ => Outcome::Done,
    });
    let left = result.unwrap().left;
    assert_eq!(left.len(), 2);
    assert!(left[1].contains("/mnt/media"));
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        3 => Just(Outcome::Done),
        1 => Just(Outcome::Busy("somebody".into())),
        1 => Just(Outcome::NoEnd),
        1 => Just(Outcome::Failed("why".into())),
    ]
}

fn facts() -> impl Strategy<Value = Facts> {
    any::<[bool; 9]>().prop_map(
        |[mount, other, open, device, made, gone, cut, ro, force]| Facts {
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
            cut,
            read_only: ro,
            force,
        },
    )
}

#[test]
fn a_close_without_end_is_cut_off_cleared_again_and_reported() {
    let mut clears = 0;
    let (done, result) = run(mounted(), |action| match action {
        Action::Clear => {
            clears += 1;
            [Outcome::NoEnd, Outcome::Done][clears - 1].clone()
        }
        _ => Outcome::Done,
    });
    let expected = [Action::Clear, Action::Cut, Action::Clear];
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
            let outcome = outcomes.next().unwrap_or(Outcome::Done);
            bad_end |= outcome != Outcome::Done
                && matches!(action, Action::Unmount(_) | Action::Flush);
            outcome
        });
        prop_assert!(done.len() <= 14, "{done:?}");
        let clears = done.iter().filter(|a| **a == Action::Clear).count();
        match result {
            Err(_) => prop_assert_eq!(clears, 0),
            Ok(report) => {
                let clears_max = if facts.device { 2 } else { 0 };
                prop_assert!((usize::from(facts.device)..=clears_max).contains(&clears));
                if let Some(at) = done.iter().rposition(|a| *a == Action::Clear) {
                    let after = &done[at + 1..];
                    let only_dirs = after.iter().all(|a| matches!(a, Action::RemoveDir(_)));
                    prop_assert!(only_dirs);
                }
                if bad_end && !facts.read_only && !facts.cut {
                    let told = !report.lost.is_empty() || done.iter().any(|a| matches!(a, Action::UnmountLazily(_)));
                    prop_assert!(told);
                }
            }
        }
    }
}
