//! Tests of the events of snapshots.

use super::report::{SnapshotHealth, SnapshotReport};
use super::watch::{ReportedLevels, SnapshotEvent, events, hook_event};

fn report(name: &str, state: SnapshotHealth, per_mille: u64) -> SnapshotReport {
    SnapshotReport {
        group: "vg0".to_owned(),
        origin: "media".to_owned(),
        name: name.to_owned(),
        state,
        why: (state == SnapshotHealth::Invalid).then(|| "its store is full".to_owned()),
        size: 8 << 20,
        store_size: 4 << 20,
        used: 0,
        per_mille: Some(per_mille),
        chunk: 4096,
    }
}

#[test]
fn a_store_that_becomes_full_is_reported_once_at_each_level() {
    use SnapshotHealth::{Invalid, Merging, Valid};
    let mut levels = ReportedLevels::new();
    let mut seen = |state, per_mille| {
        let reports = vec![report("a", state, per_mille), report("b", Valid, 10)];
        let found = events(&mut levels, reports).into_iter();
        found
            .map(|(event, report)| (event, report.name))
            .collect::<Vec<_>>()
    };
    let nearly = (SnapshotEvent::NearlyFull, "a".to_owned());
    let invalid = (SnapshotEvent::Invalid, "a".to_owned());
    assert_eq!(seen(Valid, 799), []);
    assert_eq!(seen(Valid, 800), std::slice::from_ref(&nearly));
    assert_eq!(seen(Valid, 990), []);
    // The store was extended, and fills again.
    assert_eq!(seen(Valid, 500), []);
    assert_eq!(seen(Valid, 900), [nearly]);
    assert_eq!(seen(Invalid, 1000), [invalid]);
    assert_eq!(seen(Invalid, 1000), []);
    assert_eq!(seen(Merging, 900), [], "a merge makes room");
}

#[test]
fn the_program_gets_the_names_of_snapshot_and_origin() {
    let event = hook_event(
        SnapshotEvent::Invalid,
        &report("before", SnapshotHealth::Invalid, 1000),
    );
    assert_eq!(
        (event.event, &*event.array),
        ("SnapshotInvalid", "vg0/before")
    );
    let more: Vec<(&str, &str)> = event
        .more
        .iter()
        .map(|(name, value)| (*name, &**value))
        .collect();
    assert_eq!(
        more,
        [
            ("OUTBOARD_ORIGIN", "vg0/media"),
            (
                "OUTBOARD_TEXT",
                "it is invalid: its store is full; media goes on"
            ),
        ]
    );
}
