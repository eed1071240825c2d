//! `serve --auto`: what is served of disks, under which names, and what is not.

use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::requires;

use super::{
    MIB, Server, answer, empty, failure, folder, members, outboard, partitioned, physical_volumes,
};

fn can() -> bool {
    let needs = ["sgdisk", "mkfs.vfat", "mkfs.ext4", "mkswap", "blkid"];
    requires::all(&needs.map(requires::command))
}

fn listed(folder: &Path) -> Vec<(String, u64, bool)> {
    let listed = answer(folder, &["ls", "nbd+unix:///?socket=s", "--json"]);
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let rows = listed.as_array().expect("a list").iter();
    let row = |row: &Value| {
        let name = row["name"].as_str().expect("a name").to_owned();
        let size = row["size"].as_u64().expect("a size");
        (name, size, row["read_only"].as_bool().expect("told"))
    };
    rows.map(row).collect()
}

#[test]
fn partitions_are_served_by_their_numbers_and_read_only() {
    if !can() {
        return;
    }
    let folder = folder();
    partitioned(folder.path());
    let before = fs::read(folder.path().join("disk.img")).expect("readable");
    let serve = [
        "serve", "--auto", "disk.img", "--listen", "unix:s", "--json",
    ];
    let (mut server, found) = Server::start(outboard(folder.path(), &serve));
    let found: Value = serde_json::from_str(&found).expect("JSON");
    assert_eq!(found["exports"][1]["name"], "part/2");
    assert!(
        server.line().contains("part/2"),
        "the second line says where"
    );
    let expected: Vec<(String, u64, bool)> = [8, 16, 8, 8]
        .into_iter()
        .zip(1..)
        .map(|(size, number)| (format!("part/{number}"), size * MIB, true))
        .collect();
    assert_eq!(listed(folder.path()), expected);
    let uri = "nbd+unix:///part%2F2?socket=s";
    let text = answer(folder.path(), &["inspect", uri]);
    assert!(text.contains("ext4 \"holiday pictures\""), "{text}");
    let after = fs::read(folder.path().join("disk.img")).expect("readable");
    assert!(before == after, "serving read-only changed it");
}

#[test]
fn several_disks_have_their_names_before_and_members_are_left_out() {
    if !can() {
        return;
    }
    let folder = folder();
    partitioned(folder.path());
    physical_volumes(folder.path());
    let serve = [
        "serve",
        "--auto",
        "--writable",
        "disk.img",
        "old=pv0",
        "plain=ext",
        "--listen",
        "unix:s",
    ];
    let (mut server, first) = Server::start(outboard(folder.path(), &serve));
    let mut lines = vec![first];
    // Where they are comes last, once it listens.
    while !lines.iter().any(|line| line.starts_with("nbd+unix://")) {
        lines.push(server.line());
    }
    let text = lines.join("\n");
    assert!(text.contains("disk/part/1    writable"), "{text}");
    assert!(
        text.contains("old/whole      left out  a physical volume of vg0"),
        "{text}"
    );
    assert!(
        text.contains("plain/whole    writable  ext4 \"holiday pictures\""),
        "{text}"
    );
    // The other disk of its group is not here.
    let missing = "lvm/vg0/media  left out  a physical volume that it needs is missing";
    assert!(text.contains(missing), "{text}");
    let served = listed(folder.path());
    assert!(
        served.contains(&("plain/whole".to_owned(), 16 * MIB, false)),
        "{served:?}"
    );
    assert_eq!(served.len(), 5);
}

#[test]
fn a_degraded_array_is_served_read_only() {
    let folder = folder();
    members(folder.path());
    let before = fs::read(folder.path().join("five2")).expect("readable");
    let serve = ["serve", "--auto", "five2", "five0", "--listen", "unix:s"];
    let (mut server, first) = Server::start(outboard(folder.path(), &serve));
    let mut lines = vec![first];
    while !lines.iter().any(|line| line.starts_with("nbd+unix://")) {
        lines.push(server.line());
    }
    let text = lines.join("\n");
    assert!(
        text.contains("md/films     read-only  raid5 array"),
        "{text}"
    );
    assert!(
        text.contains("five0/whole  left out   a member of the raid5"),
        "{text}"
    );
    assert_eq!(
        listed(folder.path()),
        [("md/films".to_owned(), 64_512 * 1024, true)]
    );
    let after = fs::read(folder.path().join("five2")).expect("readable");
    assert!(before == after, "serving read-only changed it");
    let (status, told) = failure(folder.path(), &["serve", "--auto", "five0"]);
    assert_eq!(status, Some(1));
    assert!(
        told.contains("md/films: too many of its members are missing"),
        "{told}"
    );
}

/// Arrays of arrays were found, and left out: "its members lie in other arrays".
#[test]
fn a_stripe_of_mirrors_is_served() {
    if !requires::all(&[requires::command("mkfs.ext4"), requires::command("blkid")]) {
        return;
    }
    let folder = folder();
    let path = folder.path();
    for image in ["a", "b", "c", "d"] {
        empty(path, image, 16 * MIB);
    }
    let create = ["array", "create", "--assume-clean", "-l"];
    for (name, first, second) in [("m0", "a", "b"), ("m1", "c", "d")] {
        answer(
            path,
            &[&create[..], &["1", "-N", name, first, second]].concat(),
        );
    }
    let stripe = ["0", "-N", "all", "array(a, b)", "array(c, d)"];
    answer(path, &[&create[..], &stripe].concat());
    assert_clean(path);
    let size = {
        let serve = [
            "serve",
            "x=array(array(a, b), array(c, d))",
            "--listen",
            "unix:s",
        ];
        let (mut server, _) = Server::start(outboard(path, &serve));
        let served = listed(path);
        assert!(!served[0].2, "{served:?}");
        server.signal(rustix::process::Signal::TERM);
        assert_eq!(server.ended().code(), Some(0));
        served[0].1
    };
    for (more, read_only) in [(&[][..], true), (&["--writable"][..], false)] {
        let serve = ["serve", "--auto", "a", "b", "c", "d", "--listen", "unix:s"];
        let (mut server, first) = Server::start(outboard(path, &[&serve[..], more].concat()));
        let mut lines = vec![first];
        while !lines.iter().any(|line| line.starts_with("nbd+unix://")) {
            lines.push(server.line());
        }
        let text = lines.join("\n");
        assert!(
            text.contains("md/m0") && text.contains("a member of the raid0"),
            "{text}"
        );
        assert_eq!(
            listed(path),
            [("md/all".to_owned(), size, read_only)],
            "{text}"
        );
        server.signal(rustix::process::Signal::TERM);
        assert_eq!(server.ended().code(), Some(0));
    }
    // The outermost one was stopped first: the others know that nothing is under way.
    assert_clean(path);
    let told = answer(path, &["array", "status", "array(a, b)", "array(c, d)"]);
    assert!(told.contains("all: raid0 of 2"), "{told}");
}

/// Both mirrors below the stripe are marked clean, and need no resync.
fn assert_clean(path: &Path) {
    for members in [["a", "b"], ["c", "d"]] {
        let status = answer(path, &[&["array", "status"], &members[..]].concat());
        assert!(status.contains("complete, clean"), "{status}");
    }
}

#[test]
fn nothing_to_serve_is_a_failure_that_says_why() {
    let folder = folder();
    empty(folder.path(), "none", MIB);
    let (status, told) = failure(folder.path(), &["serve", "--auto", "none"]);
    assert_eq!(status, Some(1));
    assert_eq!(
        told,
        "outboard: nothing to serve was found: whole: nothing known is on it; \
         `outboard serve DISK` serves a disk as it is"
    );
    let (status, told) = failure(folder.path(), &["serve", "--auto", "none", "./none"]);
    assert_eq!(status, Some(2), "{told}");
    assert!(told.contains("two disks are named `none`"), "{told}");
}
