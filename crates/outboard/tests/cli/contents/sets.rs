//! What lies on several disks together: arrays and volume groups that mdadm and LVM made.

use serde_json::Value;
use testkit::requires;

use super::{MIB, answer, empty, folder, inspected, members, physical_volumes, put, tool};

fn names(list: &Value, key: &str) -> Vec<String> {
    let list = list.as_array().expect("a list").iter();
    list.map(|item| item[key].as_str().unwrap_or("none").to_owned())
        .collect()
}

#[test]
fn a_volume_group_is_put_together_from_its_physical_volumes() {
    let folder = folder();
    physical_volumes(folder.path());
    let told = inspected(folder.path(), &["pv0", "pv1", "pv2"]);
    let group = &told["volume_groups"][0];
    assert_eq!(group["name"], "vg0");
    assert_eq!(group["size"], 188_743_680);
    assert_eq!(group["free"], 92_274_688);
    assert_eq!(
        names(&group["physical_volumes"], "disk"),
        ["pv0", "pv1", "pv2"]
    );
    assert_eq!(names(&group["volumes"], "type"), ["linear", "striped"]);
    assert!(group["remarks"].is_null(), "{group}");
    let text = answer(folder.path(), &["inspect", "pv0", "pv1", "pv2"]);
    let expected = "\
pv0           64.00 MiB  physical volume of vg0
pv1           64.00 MiB  physical volume of vg0
pv2           64.00 MiB  physical volume of vg0

group vg0    180.00 MiB  3 of 3 physical volumes, 88.00 MiB free
├─pv0         60.00 MiB  physical volume
├─pv1         60.00 MiB  physical volume
├─pv2         60.00 MiB  physical volume
├─vg0/media   68.00 MiB  linear
└─vg0/fast    24.00 MiB  striped
";
    assert_eq!(text, expected);
}

/// A copy of a physical volume was not in the group, without a remark.
#[test]
fn a_copy_of_a_physical_volume_is_reported_by_its_name() {
    let folder = folder();
    physical_volumes(folder.path());
    std::fs::copy(folder.path().join("pv1"), folder.path().join("copy")).expect("a copy");
    let told = inspected(folder.path(), &["pv0", "pv1", "copy", "pv2"]);
    let group = &told["volume_groups"][0];
    assert_eq!(
        names(&group["physical_volumes"], "disk"),
        ["pv0", "pv1", "pv2"]
    );
    let remarks = group["remarks"].as_array().expect("a list");
    let [only] = remarks.as_slice() else {
        panic!("{remarks:?}")
    };
    let only = only.as_str().expect("a text");
    assert!(
        only.starts_with("copy says that it is physical volume ")
            && only.contains("as pv1 does")
            && only.ends_with("copy is not used"),
        "{only}"
    );
    let text = answer(folder.path(), &["inspect", "pv0", "pv1", "copy", "pv2"]);
    assert!(text.contains("! copy says that"), "{text}");
}

#[test]
fn what_is_on_a_linear_volume_is_seen() {
    if !requires::all(&[requires::command("mkfs.ext4"), requires::command("blkid")]) {
        return;
    }
    let folder = folder();
    physical_volumes(folder.path());
    // The volume's first extents are the first ones of the first physical volume.
    empty(folder.path(), "ext", 68 * MIB);
    tool(folder.path(), "mkfs.ext4", &["-q", "-L", "photos", "ext"]);
    let whole = std::fs::read(folder.path().join("ext")).expect("readable");
    std::fs::write(folder.path().join("start"), &whole[..20 << 20]).expect("written");
    put(folder.path(), "pv0", MIB, "start");
    let text = answer(folder.path(), &["inspect", "pv0", "pv1"]);
    assert!(text.contains("linear: ext4 \"photos\""), "{text}");
}

#[test]
fn a_missing_physical_volume_is_named_with_what_lies_on_it() {
    let folder = folder();
    physical_volumes(folder.path());
    let told = inspected(folder.path(), &["pv1", "pv0"]);
    let group = &told["volume_groups"][0];
    let remark = group["remarks"][0].as_str().expect("a remark");
    assert!(
        remark.starts_with("physical volume 4rczpz-WjYJ-a6ZQ-SqoQ-gyRy-GHIk-nxjqWc is not among"),
        "{remark}"
    );
    let partial = |index: usize| group["volumes"][index]["partial"].as_bool();
    assert_eq!((partial(0), partial(1)), (Some(false), Some(true)));
    let text = answer(folder.path(), &["inspect", "pv0", "pv1"]);
    assert!(text.contains("2 of 3 physical volumes"), "{text}");
    assert!(text.contains("striped, a part is missing"), "{text}");
}

#[test]
fn a_mirror_of_which_a_member_failed_is_degraded_and_that_member_stale() {
    let folder = folder();
    members(folder.path());
    let told = inspected(folder.path(), &["mirror1", "mirror0"]);
    let array = &told["arrays"][0];
    assert_eq!(array["uuid"], "92822723:b305c724:82e998a3:f285cb0d");
    assert_eq!(array["name"], "photos");
    assert_eq!(array["host"], "nas");
    assert_eq!(
        (&array["state"], &array["clean"]),
        (&"degraded".into(), &true.into())
    );
    assert_eq!(
        (&array["events"], &array["size"]),
        (&21.into(), &(31_744 * 1024).into())
    );
    assert_eq!(
        array["missing"],
        serde_json::json!([{ "part": 1, "failed": true }])
    );
    assert_eq!(names(&array["members"], "state"), ["stale", "in-sync"]);
    assert_eq!(
        array["remarks"][0],
        "mirror1 is stale: it has seen 17 events, the array 21"
    );
    assert!(array["bitmap"]["chunk"].is_u64(), "{array}");
    let text = answer(folder.path(), &["inspect", "mirror1", "mirror0"]);
    let expected = "raid1, 1 of 2 members, degraded, clean, bitmap, 21 events, md 1.2";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn of_an_array_a_member_that_is_not_given_is_missing() {
    let folder = folder();
    members(folder.path());
    let whole = inspected(folder.path(), &["five0", "five1", "five2"]);
    let array = &whole["arrays"][0];
    assert_eq!(
        (&array["state"], &array["size"]),
        (&"complete".into(), &(64_512 * 1024).into())
    );
    assert_eq!(
        (&array["layout"], &array["chunk"]),
        (&"left-symmetric".into(), &524_288.into())
    );
    let part = inspected(folder.path(), &["five0", "five2"]);
    assert_eq!(part["arrays"][0]["state"], "degraded");
    let one = inspected(folder.path(), &["five1"]);
    assert_eq!(one["arrays"][0]["state"], "incomplete");
    assert_eq!(one["content"]["member"]["role"], "1");
    let old = inspected(folder.path(), &["old0", "old1"]);
    let array = &old["arrays"][0];
    assert_eq!(array["uuid"], "5e9d1889:80690b78:3d186b3c:53958f34");
    assert_eq!(
        (&array["version"], &array["state"]),
        (&"0.90".into(), &"complete".into())
    );
    assert_eq!(
        (&array["events"], &array["size"]),
        (&18.into(), &(32_704 * 1024).into())
    );
}

#[test]
fn the_content_of_a_mirror_is_shown_and_the_same_member_twice_is_reported() {
    if !requires::all(&[requires::command("mkfs.ext4"), requires::command("blkid")]) {
        return;
    }
    let folder = folder();
    members(folder.path());
    empty(folder.path(), "ext", 31 * MIB);
    tool(folder.path(), "mkfs.ext4", &["-q", "-L", "photos", "ext"]);
    put(folder.path(), "mirror0", MIB, "ext");
    let text = answer(folder.path(), &["inspect", "mirror0"]);
    assert!(
        text.contains("md/photos") && text.contains("ext4 \"photos\""),
        "{text}"
    );
    std::fs::copy(folder.path().join("mirror0"), folder.path().join("copy")).expect("copied");
    let text = answer(folder.path(), &["inspect", "mirror0", "copy"]);
    assert!(
        text.contains("mirror0 and copy are the same member: one is a copy"),
        "{text}"
    );
}

#[test]
fn arrays_with_members_that_record_each_other_as_failed_are_reported() {
    let folder = folder();
    members(folder.path());
    // The failed member went on alone, too: it says of the other one that it is gone.
    let mut bytes = std::fs::read(folder.path().join("mirror1")).expect("readable");
    let superblock = &mut bytes[4096..4096 + 512];
    superblock[256..258].copy_from_slice(&0xfffe_u16.to_le_bytes());
    superblock[216..220].fill(0);
    let words = superblock.chunks(4);
    let words = words.map(|w| u64::from(u32::from_le_bytes([w[0], w[1], w[2], w[3]])));
    let sum: u64 = words.sum();
    let folded = u32::try_from((sum & 0xffff_ffff) + (sum >> 32)).expect("no carry is left");
    superblock[216..220].copy_from_slice(&folded.to_le_bytes());
    std::fs::write(folder.path().join("mirror1"), bytes).expect("written");
    let told = inspected(folder.path(), &["mirror0", "mirror1"]);
    let remarks = told["arrays"][0]["remarks"].to_string();
    assert!(
        remarks.contains("used in two ways, and they differ: mirror0 without the rest (21 events"),
        "{remarks}"
    );
    assert!(
        remarks.contains("prefer=mirror0 or prefer=mirror1"),
        "{remarks}"
    );
    let states = names(&told["arrays"][0]["members"], "state");
    assert_eq!(states, ["in-sync", "split"]);
}
