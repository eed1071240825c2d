//! Tests of groups that are put together from physical volumes.

use super::{
    AssembledGroup, FoundPhysicalVolume, GroupRemark, MemberPlace, VolumeAccess, assemble, select,
};
use crate::volume::format::{Header, VolumeGroup, VolumeProblem};
use crate::volume::{PhysicalVolume, VolumeError};

/// The text of a group of three members with the ids `p0`, `p1`, `p2`, of which some are marked as missing; `extra` are more
/// fields of the group.
fn text(id: &str, sequence: u64, marked: &[usize], extra: &str) -> VolumeGroup {
    let member = |index: usize| {
        let flags = if marked.contains(&index) {
            "\"MISSING\""
        } else {
            ""
        };
        format!(
            "pv{index} {{ id = \"p{index}\" device = \"/dev/sd{index}\" status = [\"ALLOCATABLE\"] flags = [{flags}]
             dev_size = 2048 pe_start = 8 pe_count = 100 }}"
        )
    };
    let members: String = (0..3).map(member).collect();
    let text = format!(
        "contents = \"Text Format Volume Group\" vg0 {{ id = \"{id}\" seqno = {sequence} extent_size = 8
         status = [\"RESIZEABLE\", \"READ\", \"WRITE\"] flags = [] {extra}
         physical_volumes {{ {members} }}
         logical_volumes {{ media {{ id = \"l0\" status = [\"READ\", \"WRITE\", \"VISIBLE\"] flags = []
         segment1 {{ start_extent = 0 extent_count = 2 type = \"striped\" stripe_count = 1 stripes = [\"pv0\", 0] }} }} }} }}"
    );
    VolumeGroup::of(&text).unwrap()
}

/// The disk `name`, physical volume `id`, with the metadata of `group`.
fn disk(name: &str, id: &str, group: Option<VolumeGroup>) -> FoundPhysicalVolume {
    FoundPhysicalVolume {
        name: name.to_owned(),
        size: 1 << 20,
        volume: PhysicalVolume {
            header: Header {
                id: id.to_owned(),
                size: 1 << 20,
                data_areas: Vec::new(),
                metadata_areas: Vec::new(),
                used: Some(true),
            },
            group,
            problems: Vec::new(),
        },
    }
}

fn only(found: &[FoundPhysicalVolume]) -> AssembledGroup {
    let mut groups = assemble(found);
    assert_eq!(groups.len(), 1);
    groups.pop().unwrap()
}

#[test]
fn the_newest_text_counts_and_older_disks_keep_their_place() {
    let found = [
        disk("a", "p0", Some(text("g", 4, &[], ""))),
        disk("b", "p1", Some(text("g", 7, &[], ""))),
        disk("c", "p2", None),
    ];
    let group = only(&found);
    assert_eq!(group.group.sequence, 7);
    assert_eq!(group.places, [0, 1, 2].map(MemberPlace::Found));
    let remark = GroupRemark::Outdated {
        disk: "a".to_owned(),
        own: 4,
        newest: 7,
    };
    assert_eq!(group.remarks, [remark]);
    assert_eq!(group.volume_names(), ["media"]);
}

#[test]
fn a_disk_that_the_newest_text_does_not_list_is_ignored() {
    let found = [
        disk("a", "p0", Some(text("g", 7, &[], ""))),
        disk("old", "p9", Some(text("g", 3, &[], ""))),
    ];
    let group = only(&found);
    assert_eq!(
        group.places[1..],
        [MemberPlace::Missing, MemberPlace::Missing]
    );
    let former = GroupRemark::Former {
        disk: "old".to_owned(),
    };
    assert!(group.remarks.contains(&former), "{:?}", group.remarks);
}

#[test]
fn a_disk_that_was_marked_as_missing_is_not_used() {
    let found = [
        disk("a", "p0", Some(text("g", 7, &[1], ""))),
        disk("b", "p1", Some(text("g", 6, &[], ""))),
    ];
    let group = only(&found);
    assert_eq!(group.places[1], MemberPlace::MarkedMissing(1));
    assert_eq!(group.disk_of(1), None);
    assert_eq!(group.disk_of(0), Some(0));
}

#[test]
fn two_disks_of_one_id_are_refused_by_name() {
    let found = [
        disk("a", "p0", Some(text("g", 7, &[], ""))),
        disk("copy", "p0", Some(text("g", 7, &[], ""))),
    ];
    let group = only(&found);
    let error = group.check_access(&VolumeAccess::default()).unwrap_err();
    assert!(matches!(&error, VolumeError::Duplicate { disks, .. } if *disks == ["a", "copy"]));
    assert!(error.next().unwrap().contains("name only one of them"));
}

#[test]
fn a_disk_with_the_metadata_of_another_group_is_not_used() {
    let other = text("other", 9, &[], "");
    let found = [
        disk("a", "p0", Some(text("g", 7, &[], ""))),
        disk("b", "p1", Some(other)),
    ];
    let groups = assemble(&found);
    assert_eq!(groups.len(), 2);
    assert_eq!(groups[0].places[1], MemberPlace::Missing);
    let is_it = |remark: &GroupRemark| matches!(remark, GroupRemark::OtherGroup { disk, .. } if disk == "b");
    assert!(groups[0].remarks.iter().any(is_it));
}

#[test]
fn two_texts_of_one_sequence_number_that_differ_are_refused() {
    let found = [
        disk("a", "p0", Some(text("g", 7, &[], ""))),
        disk("b", "p1", Some(text("g", 7, &[2], ""))),
    ];
    let error = only(&found).check_access(&VolumeAccess::default());
    let error = error.unwrap_err();
    assert!(
        matches!(&error, VolumeError::Conflict { first, second, .. } if first == "a" && second == "b")
    );
}

#[test]
fn groups_of_one_name_are_distinguished_by_their_ids() {
    let found = [
        disk("a", "p0", Some(text("g", 7, &[], ""))),
        disk("b", "x0", Some(text("h", 2, &[], ""))),
    ];
    let groups = assemble(&found);
    let error = select(&groups, Some("vg0")).unwrap_err();
    assert!(matches!(&error, VolumeError::SameName { ids, .. } if *ids == ["g", "h"]));
    assert_eq!(
        error.next(),
        Some("write the id in place of the group's name")
    );
    assert_eq!(select(&groups, Some("h")).unwrap().group.sequence, 2);
    assert!(matches!(
        select(&groups, None),
        Err(VolumeError::SeveralGroups { .. })
    ));
    let error = select(&groups, Some("vg1")).unwrap_err();
    assert_eq!(error.wrong_name().unwrap().0, "vg1");
}

#[test]
fn a_damaged_copy_of_the_metadata_is_a_remark() {
    let mut first = disk("a", "p0", Some(text("g", 7, &[], "")));
    first.volume.problems = vec![VolumeProblem::Cut];
    let group = only(&[first]);
    assert_eq!(group.group.sequence, 7);
    let text = group.remarks.iter().map(ToString::to_string);
    let text: Vec<String> = text.collect();
    assert!(
        text.iter()
            .any(|line| line.starts_with("a has a damaged copy of the metadata"))
    );
}

#[test]
fn groups_of_other_systems_are_refused_by_name() {
    let refusal = |extra: &str, access: &VolumeAccess| {
        let group = only(&[disk("a", "p0", Some(text("g", 7, &[], extra)))]);
        group
            .check_access(access)
            .map_err(|error| error.to_string())
    };
    let write = VolumeAccess::default();
    let read = VolumeAccess {
        read_only: true,
        ..write.clone()
    };
    let ignore = VolumeAccess {
        ignore_owner: true,
        ..read.clone()
    };
    for extra in ["lock_type = \"sanlock\"", "lock_type = \"dlm\""] {
        let error = refusal(extra, &read).unwrap_err();
        assert!(
            error.contains("the group vg0 is shared by several systems"),
            "{error}"
        );
        assert_eq!(refusal(extra, &ignore), Ok(()));
        assert!(refusal(extra, &write).is_err());
    }
    let foreign = "system_id = \"nas\"";
    let error = refusal(foreign, &write).unwrap_err();
    assert!(error.contains("belongs to the system nas"), "{error}");
    assert_eq!(refusal(foreign, &read), Ok(()));
    let own = VolumeAccess {
        system_id: Some("nas".to_owned()),
        ..write.clone()
    };
    assert_eq!(refusal(foreign, &own), Ok(()));
    assert_eq!(
        refusal("lock_type = \"none\" system_id = \"\"", &write),
        Ok(())
    );
    // `ignore_owner` is for reading only.
    let force = VolumeAccess {
        ignore_owner: true,
        ..write
    };
    assert!(refusal(foreign, &force).is_err());
}

#[test]
fn a_status_that_is_not_known_is_refused() {
    let mut group = text("g", 7, &[], "");
    for (flag, wanted) in [
        ("EXPORTED", "is exported"),
        ("HALTED", "unknown status HALTED"),
    ] {
        group.status = vec![flag.to_owned()];
        let found = only(&[disk("a", "p0", Some(group.clone()))]);
        let error = found.check_access(&VolumeAccess::default()).unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
    }
}
