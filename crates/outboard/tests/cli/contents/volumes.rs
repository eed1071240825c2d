//! Logical volumes of a group that LVM made, as disks.

use std::fs;

use super::{MIB, Server, answer, failure, folder, outboard, physical_volumes, put, tool};

/// Bytes of an extent of the group.
const EXTENT: usize = 4 << 20;

#[test]
fn what_is_written_to_a_volume_is_where_lvm_looks_for_it() {
    let folder = folder();
    physical_volumes(folder.path());
    let data: Vec<u8> = (0..17 * EXTENT)
        .map(|at| u8::try_from(at / 4096 % 251).expect("below 251"))
        .collect();
    fs::write(folder.path().join("data"), &data).expect("written");
    let volume = "volume(pv2, pv0, pv1, name=vg0/media)";
    answer(folder.path(), &["copy", "--force", "data", volume]);
    // `lvs -o +seg_pe_ranges`: pv0:0-4 pv0:7-14 pv1:2-5
    let mut at = 0;
    for (name, first, count) in [("pv0", 0, 5), ("pv0", 7, 8), ("pv1", 2, 4)] {
        let disk = fs::read(folder.path().join(name)).expect("readable");
        let start = (1 << 20) + first * EXTENT;
        assert!(
            disk[start..start + count * EXTENT] == data[at..at + count * EXTENT],
            "{name}"
        );
        at += count * EXTENT;
    }
    answer(
        folder.path(),
        &[
            "copy",
            "volume(media, pv0, pv1, pv2)"
                .replace("media", "vg0/media")
                .as_str(),
            "again",
        ],
    );
    assert!(fs::read(folder.path().join("again")).expect("readable") == data);
    let graph = answer(folder.path(), &["inspect", "--graph", volume]);
    assert!(graph.contains("volume linear vg0/media"), "{graph}");
}

#[test]
fn a_mistyped_name_is_marked_and_answered_with_one_that_is_there() {
    let folder = folder();
    physical_volumes(folder.path());
    let (status, text) = failure(
        folder.path(),
        &["inspect", "volume(pv0, pv1, name=vg0/meida)"],
    );
    assert_eq!(status, Some(1));
    let expected = "\
outboard: there is no volume `meida` in the group vg0: it has media, fast; did you mean media?
  volume(pv0, pv1, name=vg0/meida)
                        ^^^^^^^^^";
    assert_eq!(text, expected);
    let (_, text) = failure(folder.path(), &["inspect", "volume(pv0, name=vg1/media)"]);
    assert!(
        text.contains("there is no volume group `vg1` on these disks: they have vg0"),
        "{text}"
    );
}

#[test]
fn a_disk_that_is_missing_or_no_physical_volume_is_named() {
    let folder = folder();
    physical_volumes(folder.path());
    let (_, text) = failure(
        folder.path(),
        &["inspect", "volume(pv0, pv1, name=vg0/fast)"],
    );
    assert!(
        text.contains("the volume fast needs the physical volume 4rczpz-WjYJ-a6ZQ-SqoQ-gyRy-GHIk-nxjqWc, which was /dev/loop2 (not among these disks)"),
        "{text}"
    );
    super::empty(folder.path(), "blank", MIB);
    let (_, text) = failure(
        folder.path(),
        &["inspect", "volume(pv0, blank, name=vg0/media)"],
    );
    assert!(text.contains("blank is no LVM physical volume"), "{text}");
    assert!(text.ends_with("\n              ^^^^^"), "{text}");
    fs::copy(folder.path().join("pv1"), folder.path().join("copy")).expect("a copy");
    let (_, text) = failure(
        folder.path(),
        &["inspect", "volume(pv0, pv1, copy, name=vg0/media)"],
    );
    assert!(
        text.contains("pv1, copy say that they are the one physical volume"),
        "{text}"
    );
}

#[test]
fn volumes_of_one_group_are_served_side_by_side() {
    let folder = folder();
    physical_volumes(folder.path());
    let serve = [
        "serve",
        "media=volume(pv0, pv1, pv2, name=vg0/media)",
        "fast=volume(pv0, pv1, pv2, name=vg0/fast)",
        "--listen",
        "unix:s",
    ];
    let (server, _) = Server::start(outboard(folder.path(), &serve));
    let text = answer(folder.path(), &["ls", "nbd+unix:///?socket=s"]);
    assert!(text.contains("media") && text.contains("fast"), "{text}");
    assert!(!text.contains("read-only"), "{text}");
    drop(server);
    let twice = [
        "serve",
        "a=volume(pv0, pv1, pv2, name=vg0/media)",
        "b=pv0",
        "--listen",
        "unix:t",
    ];
    let (_, text) = failure(folder.path(), &twice);
    assert!(
        text.contains("pv0 would be written by two disks at once"),
        "{text}"
    );
}

#[test]
fn volumes_are_served_by_what_is_found() {
    let folder = folder();
    physical_volumes(folder.path());
    fs::write(folder.path().join("swap"), vec![0; 17 * EXTENT]).expect("written");
    tool(folder.path(), "mkswap", &["-L", "sleep", "swap"]);
    let swap = fs::read(folder.path().join("swap")).expect("readable");
    fs::write(folder.path().join("head"), &swap[..4 * EXTENT]).expect("written");
    put(folder.path(), "pv0", MIB, "head");
    let text = answer(folder.path(), &["inspect", "pv0", "pv1", "pv2"]);
    assert!(
        text.contains("vg0/media   68.00 MiB  linear: swap \"sleep\""),
        "{text}"
    );
    let serve = ["serve", "--auto", "pv0", "pv1", "--listen", "unix:s"];
    let (mut server, first) = Server::start(outboard(folder.path(), &serve));
    let mut lines = vec![first];
    while !lines.iter().any(|line| line.starts_with("nbd+unix://")) {
        lines.push(server.line());
    }
    let text = lines.join("\n");
    assert!(
        text.contains("lvm/vg0/media  read-only  swap \"sleep\""),
        "{text}"
    );
    assert!(
        text.contains("lvm/vg0/fast   left out   a physical volume that it needs is missing"),
        "{text}"
    );
}
