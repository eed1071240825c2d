//! Tests of snapshots: what the text says, what is refused, and any sequence of changes.

use super::*;

const KIB: u64 = 1 << 10;

fn snapshot(name: &str, origin: &str, extents: u64) -> NewSnapshot {
    NewSnapshot {
        name: name.to_owned(),
        origin: origin.to_owned(),
        id: id(2000),
        description_id: id(2001),
        extents,
        chunk: 4 * KIB,
        on: Vec::new(),
        seconds: 1,
        host: "test".to_owned(),
    }
}

/// A group with the volume `media` of 10 extents, of 40.
fn with_media() -> GroupEdit {
    let mut edit = group(&[20, 20]);
    edit.create_volume(&volume("media", 10, 1)).unwrap();
    edit
}

fn finished(edit: &GroupEdit) -> VolumeGroup {
    VolumeGroup::of(&edit.clone().finish(&stamp()).unwrap()).unwrap()
}

/// The snapshots as the text that is written has them: store, origin, chunk, merging.
fn relations(edit: &GroupEdit) -> Vec<(String, String, u64, bool)> {
    let group = finished(edit);
    let relations = group.snapshots().map(|one| {
        let (store, origin) = (one.store.to_owned(), one.origin.to_owned());
        (store, origin, one.chunk_size, one.merging)
    });
    relations.collect()
}

#[test]
fn a_snapshot_has_the_fields_that_lvm_writes() {
    let mut edit = with_media();
    edit.create_snapshot(&snapshot("before", "media", 3))
        .unwrap();
    let theirs = parse(EVERY_TYPE).unwrap();
    let fields = |root: &Section, group: &str, name: &str| {
        let volumes = root.section(group).unwrap().section("logical_volumes");
        let volume = volumes.unwrap().section(name).unwrap();
        let segment = volume.section("segment1").unwrap();
        let names = |section: &Section| -> Vec<String> {
            section.entries().map(|(name, _)| name.to_owned()).collect()
        };
        (names(volume), volume.texts("status"), names(segment))
    };
    let ours = finished(&edit).text;
    let (group, _) = theirs.sections().next().unwrap();
    assert_eq!(
        fields(&ours, "vg0", "snapshot0"),
        fields(&theirs, group, "snapshot0")
    );
    assert_eq!(
        fields(&ours, "vg0", "before"),
        fields(&theirs, group, "snap")
    );
    let expected = ("before".to_owned(), "media".to_owned(), 4 * KIB, false);
    assert_eq!(relations(&edit), [expected]);
    let description = finished(&edit);
    let description = description.volume("snapshot0").unwrap();
    assert_eq!(description.extents(), 10, "as many as the origin has");
}

#[test]
fn a_store_is_never_larger_than_it_has_to_be() {
    let mut edit = with_media();
    // 10240 chunks of data, 41 tables (the last one ends them) and a header.
    assert_eq!(edit.store_extents_max("media", 4 * KIB), Ok(11));
    edit.create_snapshot(&snapshot("before", "media", 30))
        .unwrap();
    assert_eq!(edit.group().volume("before").unwrap().extents(), 11);
    let refused = edit.extend_snapshot("before", 1, &[]);
    assert!(matches!(refused, Err(EditError::Size(_))), "{refused:?}");
    edit.create_snapshot(&snapshot("small", "media", 2))
        .unwrap();
    edit.extend_snapshot("small", 1, &[]).unwrap();
    assert_eq!(edit.group().volume("small").unwrap().extents(), 3);
    edit.extend_snapshot("small", 100, &[]).unwrap();
    assert_eq!(edit.group().volume("small").unwrap().extents(), 11);
}

#[test]
fn a_merge_goes_from_text_to_text() {
    let mut edit = with_media();
    edit.create_snapshot(&snapshot("a", "media", 2)).unwrap();
    edit.create_snapshot(&snapshot("b", "media", 2)).unwrap();
    assert!(matches!(
        edit.finish_merge("a"),
        Err(EditError::NoSnapshot(_))
    ));
    assert_eq!(edit.begin_merge("a"), Ok(true));
    assert_eq!(edit.begin_merge("a"), Ok(false), "it has begun already");
    let states = |edit: &GroupEdit| -> Vec<(String, bool)> {
        let relations = relations(edit).into_iter();
        relations
            .map(|(store, _, _, merging)| (store, merging))
            .collect()
    };
    assert_eq!(
        states(&edit),
        [("a".to_owned(), true), ("b".to_owned(), false)]
    );
    let after = finished(&edit);
    let description = after.volume("snapshot0").unwrap();
    assert!(!description.is_visible(), "as with LVM");
    let merging = Err(EditError::Merging {
        name: "a".to_owned(),
        origin: "media".to_owned(),
    });
    assert_eq!(edit.remove_snapshot("a"), merging);
    assert_eq!(edit.extend_snapshot("a", 1, &[]), merging);
    assert_eq!(edit.begin_merge("b").map(|_| ()), merging, "one at a time");
    assert_eq!(edit.create_snapshot(&snapshot("c", "media", 2)), merging);
    edit.finish_merge("a").unwrap();
    assert_eq!(states(&edit), [("b".to_owned(), false)]);
    edit.remove_snapshot("b").unwrap();
    let names: Vec<String> = finished(&edit)
        .volumes
        .iter()
        .map(|volume| volume.name.clone())
        .collect();
    assert_eq!(names, ["media"]);
    let free: u64 = free_runs(edit.group())
        .unwrap()
        .iter()
        .map(|r| r.count)
        .sum();
    assert_eq!(free, 30);
}

#[test]
fn what_can_have_no_snapshot_is_refused_and_nothing_is_changed() {
    let mut edit = with_media();
    edit.create_snapshot(&snapshot("before", "media", 3))
        .unwrap();
    let untouched = edit.clone();
    let mut refuse = |new: NewSnapshot, word: &str| {
        let error = edit.create_snapshot(&new).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
        assert!(edit == untouched, "{error}: it was changed");
    };
    refuse(snapshot("x", "before", 2), "is a snapshot of media");
    refuse(snapshot("x", "snapshot0", 2), "is snapshot");
    refuse(snapshot("x", "nothing", 2), "no volume nothing");
    refuse(snapshot("media", "media", 2), "already");
    refuse(snapshot("snapshot7", "media", 2), "LVM reserves");
    refuse(snapshot("x", "media", 0), "at least one extent");
    let mut odd = snapshot("x", "media", 2);
    odd.chunk = 6000;
    refuse(odd.clone(), "power of two");
    odd.chunk = MIB;
    refuse(odd, "power of two");
    let mut full = snapshot("x", "media", 11);
    full.on = vec!["pv0".to_owned()];
    refuse(full, "7 are free (7 on pv0)");
    assert_eq!(
        edit.extend("media", 1, &[]),
        Err(EditError::HasSnapshots {
            name: "media".to_owned(),
            snapshots: vec!["before".to_owned()],
        })
    );
    assert!(matches!(
        edit.remove("before"),
        Err(EditError::SnapshotOf { .. })
    ));
    assert!(matches!(
        edit.remove_snapshot("media"),
        Err(EditError::NoSnapshot(_))
    ));
}

#[test]
fn of_lvms_types_linear_striped_and_raid_can_have_snapshots() {
    let edit = GroupEdit::open(VolumeGroup::of(EVERY_TYPE).unwrap()).unwrap();
    let mut kinds: Vec<(String, bool)> = Vec::new();
    for volume in &edit.group().volumes.clone() {
        if !volume.is_visible() || volume.kind() == "snapshot" {
            continue;
        }
        let mut edit = edit.clone();
        let result = edit.create_snapshot(&snapshot("x", &volume.name, 1));
        let is_kind = matches!(result, Err(EditError::OriginKind { .. }));
        assert!(
            is_kind || result.is_ok() || matches!(result, Err(EditError::NoSpace { .. })),
            "{}: {result:?}",
            volume.name
        );
        kinds.push((volume.kind().to_owned(), !is_kind));
    }
    for (kind, can_have) in kinds {
        let expected = kind == "linear" || kind == "striped" || kind.starts_with("raid");
        assert_eq!(can_have, expected, "{kind}");
    }
}

proptest! {
    /// After any changes in any order the text is understood and no extent is used twice.
    #[test]
    fn any_changes_of_snapshots_leave_a_group_that_makes_sense(
        steps in prop::collection::vec((0_u8..5, 0_usize..3, 1_u64..9), 0..24),
    ) {
        let mut edit = with_media();
        let names = ["a", "b", "c"];
        for (step, which, count) in steps {
            let (name, before) = (names[which], edit.clone());
            let changed = match step {
                0 => edit.create_snapshot(&snapshot(name, "media", count)),
                1 => edit.extend_snapshot(name, count, &[]),
                2 => edit.begin_merge(name).map(|_| ()),
                3 => edit.finish_merge(name),
                _ => edit.remove_snapshot(name),
            };
            if changed.is_err() {
                prop_assert!(edit == before, "a change that failed changed something");
            }
            let group = finished(&edit);
            prop_assert!(used_runs(&group).is_ok());
            prop_assert!(group.snapshots().filter(|one| one.merging).count() <= 1);
            let stores: Vec<_> = group.snapshots().map(|one| one.store.to_owned()).collect();
            prop_assert_eq!(group.volumes.len(), 1 + 2 * stores.len());
        }
    }
}
