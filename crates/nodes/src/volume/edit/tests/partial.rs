//! Tests of groups of which physical volumes are missing.

use super::raid::{create, raid};
use super::*;
use crate::volume::edit::{NewRaidLevel, PartialGroupEdit};

/// Of the volumes of three physical volumes `both` and `copies` lie on the second, which is missing.
fn partial() -> PartialGroupEdit {
    let mut edit = group(&[10, 10, 10]);
    for (name, on) in [("first", &["pv0"][..]), ("both", &["pv0", "pv1"])] {
        let mut new = volume(name, 4, on.len());
        new.on = on.iter().map(|member| (*member).to_owned()).collect();
        edit.create_volume(&new).unwrap();
    }
    let mut new = raid("copies", NewRaidLevel::Raid1, 2);
    new.volume.on = vec!["pv1".to_owned(), "pv2".to_owned()];
    create(&mut edit, &new).unwrap();
    PartialGroupEdit::open(edit.group().clone(), vec!["pv1".to_owned()]).unwrap()
}

#[test]
fn volumes_that_lie_elsewhere_are_removed_and_no_others() {
    let mut edit = partial();
    let before = edit.clone();
    for name in ["both", "copies"] {
        let refused = edit.remove(name).unwrap_err();
        let expected =
            format!("the volume {name} lies on the missing disk pv1, last seen as /dev/disk1");
        assert_eq!(refused.to_string(), expected);
        assert_eq!(edit, before);
    }
    edit.remove("first").unwrap();
    let after = VolumeGroup::of(&edit.finish(&stamp()).unwrap()).unwrap();
    assert!(after.volume("first").is_none() && after.volume("copies_rimage_0").is_some());
    assert_eq!((after.sequence, after.members.len()), (1, 3));
}

#[test]
fn missing_disks_leave_the_group_when_nothing_lies_on_them() {
    let mut edit = partial();
    let before = edit.clone();
    let refused = edit.remove_missing().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "/dev/disk1 is not empty: the volumes both, copies_rimage_0, copies_rmeta_0 use it"
    );
    assert_eq!(edit, before);
    let mut marked = group(&[10, 10, 10]).group().clone();
    marked.members[2].missing = true;
    let mut edit = PartialGroupEdit::open(marked, vec!["pv1".to_owned()]).unwrap();
    assert_eq!(edit.remove_missing().unwrap(), ["pv1", "pv2"]);
    assert_eq!(edit.group().members.len(), 1);
    let whole = group(&[10]).group().clone();
    let refused = PartialGroupEdit::open(whole, vec![])
        .unwrap()
        .remove_missing();
    assert!(matches!(refused, Err(EditError::NoneMissing(_))));
}

#[test]
fn a_group_that_another_system_may_use_is_not_changed_without_a_disk_either() {
    let mut foreign = group(&[10, 10]).group().clone();
    foreign.system_id = Some("nas".to_owned());
    let refused = PartialGroupEdit::open(foreign, vec!["pv1".to_owned()]).unwrap_err();
    assert!(refused.to_string().contains("belongs to the system nas"));
}
