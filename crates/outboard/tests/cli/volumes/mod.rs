//! `outboard volume …`: the binary on files, and LVM's own programs as the judge of them.

mod bad_input;
mod judge;
mod moves;
mod raid;
mod snapshots;

use std::path::Path;

use serde_json::Value;

use super::{answer, failure, outboard, run};

/// Size of a disk: room for metadata, and for 15 extents of 4 MiB.
const DISK: u64 = 64 << 20;

/// A folder with empty images of these names.
fn images(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in names {
        let file = std::fs::File::create(folder.path().join(name));
        file.and_then(|file| file.set_len(DISK)).expect("an image");
    }
    folder
}

fn bytes(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).expect("an image")
}

fn volume(folder: &Path, arguments: &[&str]) -> String {
    answer(folder, &[&["volume"], arguments].concat())
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let printed = volume(folder, &[arguments, &["--json"]].concat());
    serde_json::from_str(&printed).expect("JSON")
}

/// The one line of a command that fails.
fn refusal(folder: &Path, arguments: &[&str]) -> String {
    let (code, line) = failure(folder, &[&["volume"], arguments].concat());
    assert!(
        code.is_some_and(|code| code == 1 || code == 2),
        "{code:?}: {line}"
    );
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

/// A group `vg0` of a.img and b.img with the volume `media`.
fn media(size: &str) -> tempfile::TempDir {
    let folder = images(&["a.img", "b.img", "c.img"]);
    let create = [
        "create",
        "vg0/media",
        "--size",
        size,
        "--disks",
        "a.img",
        "b.img",
    ];
    volume(folder.path(), &create);
    folder
}

/// Areas of the segments of a volume: disk, first extent, extents.
fn areas(folder: &Path, name: &str) -> Vec<(String, u64, u64)> {
    let status = json(folder, &["status", "a.img", "b.img"]);
    let volumes = status["groups"][0]["volumes"].as_array().expect("volumes");
    let volume = volumes.iter().find(|volume| volume["name"] == name);
    let segments = volume.expect("the volume")["segments"]
        .as_array()
        .expect("segments");
    let areas = segments
        .iter()
        .flat_map(|segment| segment["areas"].as_array().expect("areas"));
    let area = |area: &Value| {
        let number = |field: &str| area["extents"][field].as_u64().expect("a number");
        let disk = area["on"].as_str().expect("a disk").to_owned();
        (disk, number("start"), number("count"))
    };
    areas.map(area).collect()
}

fn on(disk: &str, start: u64, count: u64) -> (String, u64, u64) {
    (disk.to_owned(), start, count)
}

#[test]
fn a_group_with_a_volume_is_made_of_new_disks() {
    let folder = media("40M");
    let status = volume(folder.path(), &["status", "a.img", "b.img"]);
    assert_eq!(
        status.trim_end(),
        "vg0: 120.00 MiB in extents of 4.00 MiB, 80.00 MiB free
  disk  a.img  60.00 MiB  5 extents free: 10-14
  disk  b.img  60.00 MiB  15 extents free: 0-14
  volume media: linear, 40.00 MiB
    0-9  linear  a.img 0-9"
    );
    let check = volume(folder.path(), &["check", "a.img", "b.img"]);
    assert!(check.starts_with("vg0: good"), "{check}");
}

#[test]
fn a_volume_grows_shrinks_and_goes() {
    let folder = media("8M");
    let disks = ["a.img", "b.img"];
    let change = |words: &[&str]| volume(folder.path(), &[words, &disks].concat());
    change(&["extend", "vg0/media", "--size", "+80M"]);
    assert_eq!(
        areas(folder.path(), "media"),
        [on("a.img", 0, 15), on("b.img", 0, 7)]
    );
    change(&["create", "vg0/fast", "--on", "b.img", "-l", "100%FREE"]);
    assert_eq!(areas(folder.path(), "fast"), [on("b.img", 7, 8)]);
    change(&["reduce", "vg0/media", "--size", "20M", "--force"]);
    assert_eq!(areas(folder.path(), "media"), [on("a.img", 0, 5)]);
    change(&["rename", "vg0/media", "films"]);
    change(&["rename", "vg0", "vg1"]);
    change(&["remove", "vg1/fast"]);
    change(&[
        "create",
        "vg1/wide",
        "--size",
        "30M",
        "--stripes",
        "2",
        "--stripe-size",
        "16K",
    ]);
    assert_eq!(
        areas(folder.path(), "wide"),
        [on("a.img", 5, 4), on("b.img", 0, 4)]
    );
    let status = json(folder.path(), &["status", "a.img", "b.img"]);
    assert_eq!(status["groups"][0]["name"], "vg1");
    assert_eq!(status["groups"][0]["sequence"], 8);
    let check = change(&["check"]);
    assert!(check.starts_with("vg1: good"), "{check}");
}

#[test]
fn a_disk_is_added_and_taken_out() {
    let folder = media("40M");
    let path = folder.path();
    volume(
        path,
        &["add-disk", "vg0", "a.img", "b.img", "--disk", "c.img"],
    );
    let all = ["a.img", "b.img", "c.img"];
    volume(
        path,
        &[
            &["create", "vg0/more", "-L", "20M", "--on", "c.img"],
            &all[..],
        ]
        .concat(),
    );
    let remove = |disk| [&["remove-disk", "vg0"], &all[..], &["--disk", disk]].concat();
    let line = refusal(path, &remove("c.img"));
    assert!(line.contains("more"), "{line}");
    volume(path, &[&["remove", "vg0/more"], &all[..]].concat());
    volume(path, &remove("c.img"));
    let status = volume(path, &[&["status"], &all[..]].concat());
    assert!(
        status.contains("c.img: a physical volume without a group"),
        "{status}"
    );
    assert!(volume(path, &["check", "a.img", "b.img"]).starts_with("vg0: good"));
    // It is an empty physical volume: it is taken again only if that is meant.
    let add = [
        "add-disk", "vg0", "a.img", "b.img", "--disk", "c.img", "--force",
    ];
    volume(path, &add);
}

#[test]
fn a_dry_run_prints_the_segments_and_writes_nothing() {
    let folder = media("40M");
    let before = bytes(folder.path(), "a.img");
    let extend = [
        "extend",
        "vg0/media",
        "a.img",
        "b.img",
        "-l",
        "+7",
        "--dry-run",
    ];
    let printed = volume(folder.path(), &extend);
    assert_eq!(
        printed.trim_end(),
        "before:
  media  0-9  linear  a.img 0-9
  -      5    free    a.img 10-14
  -      15   free    b.img 0-14
after:
  media  0-14   linear  a.img 0-14
  media  15-16  linear  b.img 0-1
  -      13     free    b.img 2-14
nothing was written: --dry-run"
    );
    assert!(
        bytes(folder.path(), "a.img") == before,
        "something was written"
    );
    let create = [
        "create",
        "vg1/x",
        "-L",
        "4M",
        "--disks",
        "c.img",
        "--dry-run",
    ];
    volume(folder.path(), &create);
    assert!(bytes(folder.path(), "c.img").iter().all(|byte| *byte == 0));
    let json = json(folder.path(), &extend);
    assert_eq!(json["dry_run"], true);
    assert_eq!(json["before"]["volumes"][0]["extents"], 10);
    assert_eq!(json["after"]["volumes"][0]["extents"], 17);
    assert_eq!(json["after"]["sequence"], 2);
}

#[test]
fn the_metadata_before_a_change_are_kept_and_restored() {
    let folder = media("40M");
    let path = folder.path();
    let changed = json(path, &["remove", "vg0/media", "a.img", "b.img"]);
    let backup = changed["backup"].as_str().expect("a path");
    assert!(
        backup.starts_with(path.join("data").to_str().expect("UTF-8")),
        "{backup}"
    );
    assert!(
        std::fs::read_to_string(backup)
            .expect("a backup")
            .contains("seqno = 1\n")
    );
    let restored = json(
        path,
        &[
            "repair",
            "a.img",
            "b.img",
            "--restore",
            backup,
            "--backup",
            "here",
        ],
    );
    assert_eq!(restored["after"]["volumes"][0]["name"], "media");
    assert_eq!(restored["after"]["sequence"], 3);
    assert_eq!(areas(path, "media"), [on("a.img", 0, 10)]);
    assert_eq!(
        std::fs::read_dir(path.join("here"))
            .expect("a directory")
            .count(),
        1
    );
    // Another group's backup is none of this one.
    volume(path, &["create", "vg0", "--disks", "c.img"]);
    let line = refusal(path, &["repair", "c.img", "--restore", backup]);
    assert!(line.contains("is of another group"), "{line}");
}

#[test]
fn outdated_and_damaged_metadata_are_repaired() {
    let folder = media("40M");
    let path = folder.path();
    let old = bytes(path, "b.img");
    volume(path, &["rename", "vg0/media", "films", "a.img", "b.img"]);
    std::fs::write(path.join("b.img"), &old).expect("an image");
    let output = run(path, &["volume", "check", "a.img", "b.img"]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        !output.status.success() && printed.contains("outdated"),
        "{printed}"
    );
    // The header of the other disk's area is damaged, or the text that counts in it.
    let mut texts = old.windows(5).enumerate();
    let newest = texts.rfind(|(_, word)| word == b"seqno");
    let (text, _) = newest.expect("there is a text");
    for (at, what) in [(4096 + 100, "metadata header"), (text, "metadata")] {
        let mut damaged = old.clone();
        damaged[at] = 0xff;
        std::fs::write(path.join("b.img"), damaged).expect("an image");
        let output = run(path, &["volume", "check", "a.img", "b.img"]);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(
            !output.status.success()
                && printed.contains("damaged")
                && printed.contains(&format!("the checksum of its {what}")),
            "{printed}"
        );
        let line = refusal(path, &["remove", "vg0/films", "a.img", "b.img"]);
        assert!(
            line.contains("b.img has a damaged copy") && line.contains("repair"),
            "{line}"
        );
        let repaired = volume(path, &["repair", "a.img", "b.img"]);
        assert!(
            repaired.starts_with("vg0: its metadata are on all of its disks"),
            "{repaired}"
        );
        assert!(volume(path, &["check", "a.img", "b.img"]).starts_with("vg0: good"));
    }
    let status = volume(path, &["status", "b.img"]);
    assert!(status.contains("volume films"), "{status}");
}
