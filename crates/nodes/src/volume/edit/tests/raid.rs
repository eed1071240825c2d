//! Tests of volumes of RAID: their text is LVM's, and their images survive each other.

use std::cell::Cell;

use super::*;
use crate::volume::edit::{NewRaidLevel, NewRaidVolume};

const MIRRORED: NewRaidLevel = NewRaidLevel::Raid1;

pub(super) fn raid(name: &str, level: NewRaidLevel, extents: u64) -> NewRaidVolume {
    NewRaidVolume {
        volume: volume(name, extents, level.stripes_min().max(2)),
        level,
        copies: match level {
            NewRaidLevel::Raid1 | NewRaidLevel::Raid10 => 2,
            _ => 1,
        },
        region_size: 2 * MIB,
        assume_synced: false,
    }
}

pub(super) fn create(edit: &mut GroupEdit, new: &NewRaidVolume) -> Result<(), EditError> {
    let last = Cell::new(2000);
    edit.create_raid(new, || id(last.replace(last.get() + 1)))
}

/// The text of a volume's section, without ids, times and places.
fn shape(root: &Section, name: &str) -> String {
    let (_, group) = root.sections().next().unwrap();
    let volumes = group.section("logical_volumes").unwrap();
    let mut section = volumes.section(name).unwrap().clone();
    for changed in ["id", "creation_time", "creation_host"] {
        assert!(section.remove(changed), "{name} has no {changed}");
    }
    for (_, segment) in section.sections_mut() {
        segment.remove("stripes");
    }
    section.print()
}

#[test]
fn volumes_are_described_as_lvm_describes_its_own() {
    let theirs = parse(EVERY_TYPE).unwrap();
    let mut edit = group(&[30, 30, 30, 30, 30]);
    let all = [
        ("r1", MIRRORED, 2, 4),
        ("r10", NewRaidLevel::Raid10, 4, 4),
        ("r0", NewRaidLevel::Raid0, 2, 4),
        ("r5", NewRaidLevel::Raid5, 3, 4),
        ("r6", NewRaidLevel::Raid6, 5, 6),
    ];
    for (name, level, images, extents) in all {
        create(&mut edit, &raid(name, level, extents)).unwrap();
        let ours = parse(&edit.clone().finish(&stamp()).unwrap()).unwrap();
        let parts = ["rimage", "rmeta"].map(|kind| format!("{name}_{kind}_{}", images - 1));
        let has_metadata = level != NewRaidLevel::Raid0;
        let parts = parts.into_iter().take(1 + usize::from(has_metadata));
        for name in parts.chain([name.to_owned()]) {
            assert_eq!(shape(&ours, &name), shape(&theirs, &name), "{name}");
        }
    }
}

#[test]
fn each_image_lies_behind_its_metadata_on_a_physical_volume_of_its_own() {
    let mut edit = group(&[8, 3, 8]);
    // A hole that is too small for an image.
    edit.create_volume(&volume("a", 2, 1)).unwrap();
    edit.create_volume(&volume("b", 1, 1)).unwrap();
    edit.remove("a").unwrap();
    create(&mut edit, &raid("m", MIRRORED, 4)).unwrap();
    assert_eq!(layout(&edit, "m_rmeta_0"), [(1, vec![on("pv0", 3)])]);
    assert_eq!(layout(&edit, "m_rimage_0"), [(4, vec![on("pv0", 4)])]);
    assert_eq!(layout(&edit, "m_rmeta_1"), [(1, vec![on("pv2", 0)])]);
    assert_eq!(layout(&edit, "m_rimage_1"), [(4, vec![on("pv2", 1)])]);
    // An image in two pieces stays on its physical volume.
    let mut edit = group(&[4, 8]);
    edit.create_volume(&volume("a", 1, 1)).unwrap();
    edit.create_volume(&volume("b", 1, 1)).unwrap();
    edit.remove("a").unwrap();
    create(&mut edit, &raid("m", MIRRORED, 2)).unwrap();
    assert_eq!(layout(&edit, "m_rmeta_0"), [(1, vec![on("pv0", 2)])]);
    assert_eq!(
        layout(&edit, "m_rimage_0"),
        [(1, vec![on("pv0", 3)]), (1, vec![on("pv0", 0)])]
    );
}

#[test]
fn images_without_physical_volumes_of_their_own_are_refused() {
    let mut edit = group(&[8, 3, 8]);
    let before = edit.clone();
    let refused = create(&mut edit, &raid("m", NewRaidLevel::Raid10, 4)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "no space: 3 extents on each of 4 physical volumes are needed, but 19 are free (8 on pv0, 3 on pv1, 8 on pv2)"
    );
    let mut wrong = raid("m", MIRRORED, 4);
    wrong.copies = 11;
    assert!(matches!(create(&mut edit, &wrong), Err(EditError::Size(_))));
    wrong = raid("m", NewRaidLevel::Raid10, 4);
    wrong.copies = 3;
    assert!(matches!(create(&mut edit, &wrong), Err(EditError::Size(_))));
    wrong = raid("m", MIRRORED, 4);
    wrong.region_size = 3 << 20;
    assert!(matches!(create(&mut edit, &wrong), Err(EditError::Size(_))));
    let without_room = raid("m", NewRaidLevel::Raid5, 8);
    let refused = create(&mut edit, &without_room).unwrap_err();
    assert!(
        refused.to_string().contains("5 extents on each of 3"),
        "{refused}"
    );
    wrong = raid("m", NewRaidLevel::Raid5, 4);
    wrong.volume.stripes = 64;
    let refused = create(&mut edit, &wrong).unwrap_err();
    assert_eq!(refused.to_string(), "raid5 has 2 to 63 stripes, not 64");
    wrong = raid("m", NewRaidLevel::Raid6, 4);
    wrong.volume.stripes = 2;
    let refused = create(&mut edit, &wrong).unwrap_err();
    assert_eq!(refused.to_string(), "raid6 has 3 to 62 stripes, not 2");
    wrong = raid("m", NewRaidLevel::Raid6, 3);
    wrong.assume_synced = true;
    let refused = create(&mut edit, &wrong).unwrap_err();
    assert!(
        refused.to_string().contains("needs its first resync"),
        "{refused}"
    );
    wrong = raid("m", NewRaidLevel::Raid4, 3);
    wrong.copies = 2;
    assert!(matches!(create(&mut edit, &wrong), Err(EditError::Size(_))));
    let long = "v".repeat(115);
    let refused = create(&mut edit, &raid(&long, MIRRORED, 4)).unwrap_err();
    assert!(refused.to_string().contains("128 bytes"), "{refused}");
    assert_eq!(edit, before);
}

#[test]
fn the_largest_volume_has_room_and_one_extent_more_has_none() {
    let largest = [
        (MIRRORED, 7),
        (NewRaidLevel::Raid10, 8),
        (NewRaidLevel::Raid4, 8),
        (NewRaidLevel::Raid5, 8),
        (NewRaidLevel::Raid6, 6),
    ];
    for (level, largest) in largest {
        let edit = group(&[8, 3, 8, 5, 5]);
        let mut new = raid("m", level, 0);
        new.volume.extents = edit.largest_raid(&new).unwrap();
        assert_eq!(new.volume.extents, largest);
        create(&mut edit.clone(), &new).unwrap();
        new.volume.extents += 1;
        let refused = create(&mut edit.clone(), &new);
        assert!(matches!(refused, Err(EditError::NoSpace { .. })));
    }
}

#[test]
fn regions_are_at_most_the_volume_and_not_too_many() {
    let region = |extents: u64, region_size: u64| {
        let mut edit = group(&[2_000_000, 2_000_000]);
        let mut new = raid("m", MIRRORED, extents);
        new.region_size = region_size;
        create(&mut edit, &new).unwrap();
        let segment = &edit.group().volume("m").unwrap().segments[0];
        match &segment.layout {
            SegmentLayout::Raid { region_size, .. } => *region_size,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(region(3, 16 * MIB), 8 * MIB);
    assert_eq!(region(3, 2 * MIB), 2 * MIB);
    // 4 TiB in regions of 2 MiB are as many as there can be.
    assert_eq!(region(1 << 20, 2 * MIB), 2 * MIB);
    assert_eq!(region((1 << 20) + 1, 2 * MIB), 4 * MIB);
    assert_eq!(region(1 << 20, 4096), 2 * MIB);
}

#[test]
fn a_volume_is_renamed_and_removed_with_its_images() {
    let mut edit = group(&[8, 8]);
    let empty = edit.clone();
    let mut new = raid("m", MIRRORED, 4);
    new.assume_synced = true;
    create(&mut edit, &new).unwrap();
    assert!(edit.group().volume("m").unwrap().has_flag("NOTSYNCED"));
    edit.rename_volume("m", "films").unwrap();
    let names = edit.group().volumes.iter().map(|volume| &volume.name);
    let names: Vec<&String> = names.collect();
    assert_eq!(
        names,
        [
            "films",
            "films_rimage_0",
            "films_rmeta_0",
            "films_rimage_1",
            "films_rmeta_1"
        ]
    );
    let references = edit.group().volume("films").unwrap().segments[0].references();
    assert_eq!(
        references,
        [
            "films_rmeta_0",
            "films_rimage_0",
            "films_rmeta_1",
            "films_rimage_1"
        ]
    );
    // Its images are not for themselves.
    for refused in [
        edit.extend("films_rimage_1", 1, &[]),
        edit.reduce("films_rmeta_0", 1),
    ] {
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("is used by films") || refused.contains("has 1 extents"),
            "{refused}"
        );
    }
    let refused = edit.remove("films_rimage_1");
    assert!(matches!(refused, Err(EditError::InUse { user, .. }) if user == "films"));
    edit.remove("films").unwrap();
    assert_eq!(edit, empty);
}
