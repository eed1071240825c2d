//! Tests of changing groups: one by one, and any sequence of changes.

mod snapshots;

use proptest::prelude::*;

use super::*;
use crate::volume::format::tests::FIXTURES;
use crate::volume::format::text::{Section, TextEntry, TextValue, parse};
use crate::volume::format::{SegmentLayout, VolumeGroup};

mod partial;
mod pvmove;
mod raid;
mod raid_resize;

const MIB: u64 = 1 << 20;
/// What LVM 2.03.16 wrote: every type of segment that it can make without a cache.
const EVERY_TYPE: &str = include_str!("../../../fixtures/lvm/every-type.txt");

fn id(number: u64) -> String {
    format!("{number:06}-0000-0000-0000-0000-0000-000000")
}

fn member(number: u64, extents: u64) -> NewGroupMember {
    NewGroupMember {
        id: id(number),
        device: format!("/dev/disk{number}"),
        size: MIB + extents * 4 * MIB,
    }
}

/// A group of physical volumes with so many extents of 4 MiB.
fn group(extents: &[u64]) -> GroupEdit {
    let members: Vec<NewGroupMember> = (0..).zip(extents).map(|(n, e)| member(n, *e)).collect();
    let new = NewGroup {
        name: "vg0".to_owned(),
        id: id(99),
        extent: 4 * MIB,
    };
    GroupEdit::create_group(&new, &members).unwrap()
}

fn volume(name: &str, extents: u64, stripes: usize) -> NewVolume {
    NewVolume {
        name: name.to_owned(),
        id: id(1000),
        extents,
        stripes,
        stripe_size: 64 << 10,
        on: Vec::new(),
        seconds: 1,
        host: "test".to_owned(),
    }
}

fn stamp() -> EditStamp {
    EditStamp {
        seconds: 2,
        host: "test".to_owned(),
        description: "test".to_owned(),
    }
}

/// Areas of a volume: name and first extent of each stripe, extents of the segment.
fn layout(edit: &GroupEdit, name: &str) -> Vec<(u64, Vec<(String, u64)>)> {
    let volume = edit.group().volume(name).unwrap();
    let areas = |segment: &crate::volume::format::VolumeSegment| {
        let areas = segment.areas().iter();
        areas.map(|area| (area.on.clone(), area.extent)).collect()
    };
    let segments = volume.segments.iter();
    segments
        .map(|segment| (segment.extents, areas(segment)))
        .collect()
}

fn on(member: &str, extent: u64) -> (String, u64) {
    (member.to_owned(), extent)
}

#[test]
fn a_volume_lies_in_one_piece_where_it_can() {
    let mut edit = group(&[4, 10]);
    edit.create_volume(&volume("a", 6, 1)).unwrap();
    assert_eq!(layout(&edit, "a"), [(6, vec![on("pv1", 0)])]);
    edit.create_volume(&volume("b", 6, 1)).unwrap();
    assert_eq!(
        layout(&edit, "b"),
        [(4, vec![on("pv0", 0)]), (2, vec![on("pv1", 6)])]
    );
}

#[test]
fn on_chooses_physical_volumes_in_its_order() {
    let mut edit = group(&[4, 4, 4]);
    let mut new = volume("a", 3, 1);
    new.on = vec!["pv2".to_owned(), "pv1".to_owned()];
    edit.create_volume(&new).unwrap();
    assert_eq!(layout(&edit, "a"), [(3, vec![on("pv2", 0)])]);
    new.name = "b".to_owned();
    new.extents = 6;
    let refused = edit.create_volume(&new).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "no space: 6 extents are needed, but 5 are free (1 on pv2, 4 on pv1)"
    );
    new.on = vec!["pv7".to_owned()];
    assert_eq!(
        edit.create_volume(&new),
        Err(EditError::NoMember("pv7".to_owned()))
    );
}

#[test]
fn stripes_lie_on_physical_volumes_of_their_own() {
    let mut edit = group(&[5, 5, 2]);
    edit.create_volume(&volume("a", 5, 2)).unwrap();
    assert_eq!(layout(&edit, "a"), [(6, vec![on("pv0", 0), on("pv1", 0)])]);
    let segment = &edit.group().volume("a").unwrap().segments[0];
    assert!(matches!(
        segment.layout,
        SegmentLayout::Striped {
            stripe_size: 65_536,
            ..
        }
    ));
    let refused = edit.create_volume(&volume("b", 9, 3)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "no space: 3 extents on each of 3 physical volumes are needed, but 6 are free (2 on pv0, 2 on pv1, 2 on pv2)"
    );
}

#[test]
fn extending_goes_on_where_the_volume_ends() {
    let mut edit = group(&[10, 10]);
    edit.create_volume(&volume("a", 3, 1)).unwrap();
    edit.extend("a", 2, &[]).unwrap();
    assert_eq!(layout(&edit, "a"), [(5, vec![on("pv0", 0)])]);
    edit.create_volume(&volume("b", 4, 2)).unwrap();
    edit.extend("b", 3, &[]).unwrap();
    assert_eq!(layout(&edit, "b"), [(8, vec![on("pv0", 5), on("pv1", 0)])]);
    edit.extend("a", 3, &["pv1".to_owned()]).unwrap();
    assert_eq!(
        layout(&edit, "a"),
        [(5, vec![on("pv0", 0)]), (3, vec![on("pv1", 4)])]
    );
    let group = edit.group().text.sections().next().unwrap().1;
    let a = group
        .section("logical_volumes")
        .unwrap()
        .section("a")
        .unwrap();
    assert_eq!(a.number("segment_count"), Some(2));
}

#[test]
fn reducing_keeps_the_beginning() {
    let mut edit = group(&[4, 10]);
    edit.create_volume(&volume("a", 12, 1)).unwrap();
    edit.reduce("a", 11).unwrap();
    assert_eq!(
        layout(&edit, "a"),
        [(10, vec![on("pv1", 0)]), (1, vec![on("pv0", 0)])]
    );
    edit.reduce("a", 3).unwrap();
    assert_eq!(layout(&edit, "a"), [(3, vec![on("pv1", 0)])]);
    assert!(matches!(edit.reduce("a", 3), Err(EditError::Size(_))));
    assert!(matches!(edit.reduce("a", 0), Err(EditError::Size(_))));
    edit.remove("a").unwrap();
    assert_eq!(edit.group().free(), edit.group().size());
    assert!(matches!(edit.remove("a"), Err(EditError::NoVolume { .. })));
}

#[test]
fn a_physical_volume_leaves_only_when_it_is_empty() {
    let mut edit = group(&[4, 4]);
    edit.create_volume(&volume("a", 3, 1)).unwrap();
    let refused = edit.remove_member("pv0").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "/dev/disk0 is not empty: the volumes a use it"
    );
    edit.remove_member("pv1").unwrap();
    edit.remove("a").unwrap();
    assert!(matches!(
        edit.remove_member("pv0"),
        Err(EditError::LastMember(_))
    ));
    edit.add_member(&member(7, 4)).unwrap();
    assert!(matches!(
        edit.add_member(&member(7, 4)),
        Err(EditError::MemberExists(_))
    ));
    assert!(matches!(
        edit.add_member(&member(8, 0)),
        Err(EditError::Size(_))
    ));
    assert_eq!(
        edit.group().members[1].name,
        "pv1",
        "the name is free again"
    );
}

#[test]
fn names_are_those_that_lvm_takes() {
    let mut edit = group(&[4]);
    edit.create_volume(&volume("a", 1, 1)).unwrap();
    for name in [
        "",
        "-a",
        ".",
        "..",
        "a/b",
        "a b",
        "ä",
        "pvmove0",
        "snapshot1",
        "a_rmeta_0",
        "x_pmspare",
        "pv0",
        "a",
    ] {
        assert!(edit.create_volume(&volume(name, 1, 1)).is_err(), "{name:?}");
    }
    let long = "x".repeat(123);
    assert!(edit.create_volume(&volume(&long, 1, 1)).is_ok());
    assert!(edit.create_volume(&volume(&"y".repeat(124), 1, 1)).is_err());
    assert!(edit.rename_volume("a", &long).is_err());
    assert!(
        edit.rename_group("vg-0").is_err(),
        "{long} would be too long with it"
    );
    edit.rename_volume("a", "b").unwrap();
    edit.rename_group("vg1").unwrap();
    assert_eq!(edit.group().name, "vg1");
    assert!(edit.group().volume("b").is_some());
}

#[test]
fn groups_that_others_may_use_are_not_changed() {
    let text = group(&[4]).finish(&stamp()).unwrap();
    for (from, to, why) in [
        ("\"RESIZEABLE\"", "\"EXPORTED\"", "is exported"),
        ("\"RESIZEABLE\"", "\"CLUSTERED\"", "is shared"),
        ("\"RESIZEABLE\"", "\"NEWEST\"", "unknown status NEWEST"),
        (", \"WRITE\"", "", "read-only"),
        (
            "seqno",
            "system_id = \"nas\"\nseqno",
            "belongs to the system nas",
        ),
        ("seqno", "lock_type = \"dlm\"\nseqno", "lock type dlm"),
        (
            "status = [\"ALLOCATABLE\"]\nflags = []",
            "status = [\"ALLOCATABLE\"]\nflags = [\"MISSING\"]",
            "missing physical volume",
        ),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let refused = GroupEdit::open(VolumeGroup::of(&changed).unwrap()).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
}

#[test]
fn volumes_that_others_are_made_of_are_not_touched() {
    let group = VolumeGroup::of(EVERY_TYPE).unwrap();
    let edit = GroupEdit::open(group).unwrap();
    for name in ["mir", "pool", "t1", "t1s", "snapshot0"] {
        let mut edit = edit.clone();
        assert!(edit.remove(name).is_err(), "{name}");
        assert!(edit.extend(name, 1, &[]).is_err(), "{name}");
        assert!(edit.reduce(name, 1).is_err(), "{name}");
        assert!(edit.rename_volume(name, "new").is_err(), "{name}");
    }
    for name in ["r1", "r5", "r6", "r10", "r0"] {
        let mut edit = edit.clone();
        let extended = edit.extend(name, 1, &[]);
        assert!(
            matches!(extended, Ok(()) | Err(EditError::NoSpace { .. })),
            "{name}: {extended:?}"
        );
        edit.reduce(name, 1).unwrap();
        edit.rename_volume(name, "new").unwrap();
        edit.remove("new").unwrap();
        let mut left = edit.group().volumes.iter();
        assert!(!left.any(|volume| volume.name.starts_with(&format!("{name}_"))));
    }
    for name in ["lin", "snap"] {
        let mut edit = edit.clone();
        let refused = [edit.remove(name), edit.extend(name, 1, &[])];
        assert!(
            refused.iter().all(|refused| matches!(
                refused,
                Err(EditError::SnapshotOf { .. } | EditError::HasSnapshots { .. })
            )),
            "{name}"
        );
    }
    for name in ["mir_mimage_0", "r5_rimage_1", "pool_tdata", "pool_tmeta"] {
        let mut edit = edit.clone();
        assert!(
            matches!(edit.remove(name), Err(EditError::InUse { .. })),
            "{name}"
        );
        assert!(
            matches!(edit.extend(name, 1, &[]), Err(EditError::InUse { .. })),
            "{name}"
        );
    }
    let mut edit = edit.clone();
    assert!(matches!(
        edit.remove("lvol0_pmspare"),
        Err(EditError::Flag { .. })
    ));
    // A snapshot follows its origin.
    edit.rename_volume("lin", "line").unwrap();
    edit.rename_volume("snap", "snapped").unwrap();
    let snapshot = &edit.group().volume("snapshot0").unwrap().segments[0].layout;
    assert!(
        matches!(snapshot, SegmentLayout::Snapshot { origin, store, .. }
        if origin == "line" && store == "snapped")
    );
    edit.extend("str", 3, &[]).unwrap();
    edit.remove("str").unwrap();
}

#[test]
fn a_segment_of_an_unknown_type_leaves_no_extent_free() {
    let mut edit = group(&[8]);
    edit.create_volume(&volume("a", 1, 1)).unwrap();
    let text = edit.finish(&stamp()).unwrap();
    let text = text.replacen("type = \"striped\"", "type = \"folded\"", 1);
    let mut edit = GroupEdit::open(VolumeGroup::of(&text).unwrap()).unwrap();
    let refused = edit.create_volume(&volume("b", 1, 1)).unwrap_err();
    assert!(matches!(refused, EditError::UnknownSegment { kind, .. } if kind == "folded"));
    assert!(edit.remove("a").is_err());
    assert!(edit.remove_member("pv0").is_err());
    edit.rename_group("other").unwrap();
}

#[test]
fn limits_of_the_group_are_kept() {
    let text = group(&[8]).finish(&stamp()).unwrap();
    let text = text
        .replacen("max_lv = 0", "max_lv = 1", 1)
        .replacen("max_pv = 0", "max_pv = 1", 1);
    let mut edit = GroupEdit::open(VolumeGroup::of(&text).unwrap()).unwrap();
    edit.create_volume(&volume("a", 1, 1)).unwrap();
    assert!(edit.create_volume(&volume("b", 1, 1)).is_err());
    assert!(edit.add_member(&member(5, 5)).is_err());
}

#[test]
fn what_is_not_known_is_kept() {
    let text = group(&[8]).finish(&stamp()).unwrap();
    let odd = "odd-thing = [1, \"a \\\" b\\\\\", []]\n\"q \\\" x\" {\ndeep = -4\n}\nseqno";
    let text = text.replacen("seqno", odd, 1);
    let mut edit = GroupEdit::open(VolumeGroup::of(&text).unwrap()).unwrap();
    edit.create_volume(&volume("a", 1, 1)).unwrap();
    let new = edit.finish(&stamp()).unwrap();
    let group = VolumeGroup::of(&new).unwrap();
    let section = group.text.sections().next().unwrap().1;
    assert_eq!(
        section.list("odd-thing").unwrap()[1],
        TextValue::Text("a \" b\\".to_owned())
    );
    let inner = section.section("q \" x").unwrap();
    assert_eq!(
        inner.entry("deep"),
        Some(&TextEntry::Value(TextValue::Integer(-4)))
    );
    assert_eq!(group.sequence, 2);
}

/// A text without remarks, which begin with a `#` that is in no quotes.
fn without_remarks(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let lines = lines.map(|line| line.split("\t#").next().unwrap_or_default().trim_end());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_text_of_lvm_is_printed_as_lvm_printed_it() {
    for start in FIXTURES {
        let text = &start[4096 + 5632..4096 + 5632 + 1882];
        let text = std::str::from_utf8(text).unwrap().trim_end_matches('\0');
        let printed = parse(text).unwrap().print();
        assert_eq!(without_remarks(&printed), without_remarks(text));
    }
    // LVM indents what it prints into files, and has no empty line behind the group there.
    let plain = |text: &str| {
        let lines = without_remarks(text);
        let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let printed = parse(EVERY_TYPE).unwrap().print();
    assert_eq!(plain(&printed), plain(EVERY_TYPE));
    assert_eq!(parse(&printed), parse(EVERY_TYPE));
}

/// A change, chosen by numbers.
fn change(edit: &mut GroupEdit, kind: u8, which: u8, count: u64, stripes: usize) -> bool {
    let names: Vec<String> = edit
        .group()
        .volumes
        .iter()
        .map(|v| v.name.clone())
        .collect();
    let name = names
        .get(usize::from(which) % names.len().max(1))
        .cloned()
        .unwrap_or_default();
    let members: Vec<String> = edit
        .group()
        .members
        .iter()
        .map(|m| m.name.clone())
        .collect();
    let member_name = members[usize::from(which) % members.len()].clone();
    let done = match kind % 8 {
        0 | 1 => edit.create_volume(&volume(&format!("v{count}"), count, stripes)),
        2 => edit.extend(&name, count, &[]),
        3 => edit.extend(&name, count, &[member_name]),
        4 => edit.reduce(&name, count),
        5 => edit.remove(&name),
        6 => edit.add_member(&member(100 + count * 256 + u64::from(which), count)),
        _ => edit.remove_member(&member_name),
    };
    done.is_ok()
}

proptest! {
    #[test]
    fn extents_never_overlap_and_the_free_ones_are_counted(
        sizes in prop::collection::vec(1_u64..20, 1..5),
        changes in prop::collection::vec((any::<u8>(), any::<u8>(), 1_u64..12, 1_usize..4), 1..40),
    ) {
        let mut edit = group(&sizes);
        for (kind, which, count, stripes) in changes {
            let before = edit.clone();
            if !change(&mut edit, kind, which, count, stripes) {
                prop_assert_eq!(&edit, &before, "a change that fails changes nothing");
            }
            let used: u64 = used_runs(edit.group()).unwrap().iter().map(|used| used.run.count).sum();
            let free: u64 = free_runs(edit.group()).unwrap().iter().map(|run| run.count).sum();
            let all: u64 = edit.group().members.iter().map(|member| member.extents).sum();
            prop_assert_eq!(used + free, all);
            prop_assert_eq!(edit.group().free(), free * 4 * MIB);
            let of_volumes: u64 = edit.group().volumes.iter().map(LogicalVolume::extents).sum();
            prop_assert_eq!(of_volumes, used);
            for volume in &edit.group().volumes {
                let mut next = 0;
                for segment in &volume.segments {
                    prop_assert_eq!(segment.start, next);
                    next += segment.extents;
                }
            }
        }
        let text = edit.clone().finish(&stamp()).unwrap();
        let again = VolumeGroup::of(&text).unwrap();
        prop_assert_eq!(&again.volumes, &edit.group().volumes);
        prop_assert_eq!(&again.members, &edit.group().members);
        prop_assert_eq!(again.text.print(), text);
    }

    #[test]
    fn any_text_is_printed_as_it_was_parsed(text in "([a-z]{1,3}( = (-?[0-9]{1,9}|\"[a-z\\\\]{0,2}( |#)?\"|\\[(1|\"b\")?\\])\n| \\{\n|\n?\\}\n)){0,40}") {
        if let Ok(section) = parse(&text) {
            prop_assert_eq!(parse(&section.print()), Ok(section));
        }
    }
}
