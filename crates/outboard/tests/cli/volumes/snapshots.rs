//! Snapshots with the binary: their whole life on files, and what is refused.

use std::path::Path;

use rustix::process::Signal;
use testkit::requires;

use super::super::{Server, outboard, within_a_minute};
use super::judge::judge;
use super::{DISK, answer, bytes, images, json, media, refusal, volume};

const DISKS: [&str; 2] = ["a.img", "b.img"];
const ORIGIN: &str = "volume(a.img, b.img, name=vg0/media)";

fn snapshot(folder: &Path, words: &[&str]) -> String {
    volume(folder, &[&["snapshot"], words, &DISKS].concat())
}

fn create(folder: &Path, name: &str, size: &[&str]) -> String {
    snapshot(folder, &[&["create", "vg0/media", name], size].concat())
}

/// Writes `len` bytes of `byte` to the beginning of the origin.
fn write(folder: &Path, byte: u8, len: usize) {
    std::fs::write(folder.join("new"), vec![byte; len]).expect("a file");
    answer(folder, &["copy", "new", ORIGIN, "--force"]);
}

fn read(folder: &Path, name: &str) -> Vec<u8> {
    let disk = format!("volume(a.img, b.img, name=vg0/{name})");
    let _old = std::fs::remove_file(folder.join("read"));
    answer(folder, &["copy", &disk, "read"]);
    bytes(folder, "read")
}

/// That a command is refused with these words, and nothing was written.
fn assert_refused(folder: &Path, words: &[&str], expected: &[&str]) {
    let before = DISKS.map(|disk| bytes(folder, disk));
    let line = refusal(folder, &[&["snapshot"], words, &DISKS].concat());
    for word in expected {
        assert!(line.contains(word), "{words:?}: {word} is not in {line}");
    }
    let after = DISKS.map(|disk| bytes(folder, disk));
    assert!(before == after, "{words:?}: something was written");
}

#[test]
fn a_snapshot_is_created_filled_extended_and_removed() {
    let folder = media("8M");
    let path = folder.path();
    write(path, 1, 8 << 20);
    let printed = create(path, "before", &["--size", "4M", "--chunk", "64K"]);
    assert!(
        printed.starts_with("vg0/before: snapshot of media, with a store of 4.00 MiB (1 extent)\n"),
        "{printed}"
    );
    write(path, 2, 1 << 20);
    assert!(read(path, "before").iter().all(|byte| *byte == 1));
    let status = volume(path, &["status", "a.img", "b.img"]);
    // 16 chunks, a table and a header, of 64.
    let line = "snapshot before of media: 28.1 % of 4.00 MiB full";
    assert!(status.contains(line), "{status}");
    let inspected = answer(path, &["inspect", "a.img", "b.img"]);
    let line = "8.00 MiB  snapshot of media, 28.1 % of 4.00 MiB full";
    assert!(inspected.contains(line), "{inspected}");
    snapshot(path, &["extend", "vg0/before", "--size", "+4M"]);
    let list = json(path, &["snapshot", "list", "a.img", "b.img"]);
    let one = &list["snapshots"][0];
    assert_eq!(
        (&one["size"], &one["store_size"], &one["per_mille"]),
        (
            &(8_u64 << 20).into(),
            &(8_u64 << 20).into(),
            &140_u64.into()
        )
    );
    let removed = snapshot(path, &["remove", "vg0/before"]);
    assert!(removed.starts_with("vg0/before is removed"), "{removed}");
    assert!(read(path, "media")[..1 << 20].iter().all(|byte| *byte == 2));
    let list = snapshot(path, &["list"]);
    assert_eq!(list.trim_end(), "no snapshots");
    assert!(volume(path, &["check", "a.img", "b.img"]).starts_with("vg0: good"));
}

#[test]
fn a_merge_makes_the_origin_what_it_was() {
    let folder = media("8M");
    let path = folder.path();
    write(path, 1, 8 << 20);
    create(path, "before", &["--extents", "100%ORIGIN"]);
    create(path, "other", &["--extents", "100%ORIGIN"]);
    write(path, 2, 5 << 20);
    let merged = snapshot(path, &["merge", "vg0/before"]);
    assert!(
        merged.starts_with("vg0/media is what before was; before is removed"),
        "{merged}"
    );
    for name in ["media", "other"] {
        assert!(read(path, name).iter().all(|byte| *byte == 1), "{name}");
    }
    let list = json(path, &["snapshot", "list", "a.img", "b.img"]);
    assert_eq!(list["snapshots"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_snapshot_that_was_full_is_invalid_and_its_origin_goes_on() {
    let folder = media("8M");
    let path = folder.path();
    write(path, 1, 8 << 20);
    create(path, "small", &["--size", "4M"]);
    write(path, 2, 8 << 20);
    let list = json(path, &["snapshot", "list", "a.img", "b.img"]);
    let one = &list["snapshots"][0];
    assert_eq!(
        (&one["state"], &one["per_mille"]),
        (&"invalid".into(), &1000_u64.into())
    );
    assert!(read(path, "media").iter().all(|byte| *byte == 2));
    assert_refused(path, &["merge", "vg0/small"], &["invalid", "remove"]);
    snapshot(path, &["remove", "vg0/small"]);
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let folder = media("40M");
    let path = folder.path();
    create(path, "before", &["--size", "4M"]);
    let small = ["--size", "4M"];
    let refuse = |words: &[&str], expected: &[&str]| {
        assert_refused(path, &[words, &small].concat(), expected);
    };
    refuse(
        &["create", "vg0/before", "x"],
        &["before is a snapshot of media"],
    );
    refuse(
        &["create", "vg0/media", "before"],
        &["before already", "another name"],
    );
    refuse(&["create", "vg0/nothing", "x"], &["no volume nothing"]);
    refuse(
        &["create", "vg0/media", "x", "--chunk", "5K"],
        &["power of two"],
    );
    refuse(&["extend", "vg0/media"], &["media is no snapshot"]);
    assert_refused(
        path,
        &[
            "create",
            "vg0/media",
            "x",
            "-l",
            "90%ORIGIN",
            "--on",
            "a.img",
        ],
        &["10 extents are needed", "4 are free (4 on a.img)"],
    );
    assert_refused(path, &["remove", "vg0/media"], &["media is no snapshot"]);
    assert_refused(path, &["merge", "vg0/nothing"], &["no volume nothing"]);
    let words = ["create", "vg0/media", "x", "--size", "8M", "--dry-run"];
    let before = DISKS.map(|disk| bytes(path, disk));
    let printed = snapshot(path, &words);
    assert!(printed.contains("snapshot  media, x"), "{printed}");
    assert!(before == DISKS.map(|disk| bytes(path, disk)));
    let line = refusal(path, &["remove", "vg0/media", "a.img", "b.img"]);
    assert!(line.contains("has snapshots: before"), "{line}");
    let line = refusal(path, &["remove", "vg0/before", "a.img", "b.img"]);
    assert!(line.contains("is a snapshot of media"), "{line}");
}

/// Writes to the origin while it is served.
fn write_served(folder: &Path, file: &str) -> std::process::Command {
    outboard(
        folder,
        &["copy", file, "nbd+unix:///media?socket=s", "--force"],
    )
}

/// A program for `--on-event` that writes down what it gets.
fn event_program(folder: &Path) {
    let hook = folder.join("hook");
    std::fs::write(
        &hook,
        "#!/bin/sh\necho \"$1 $2 $OUTBOARD_ORIGIN\" >>events\n",
    )
    .expect("a file");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&hook, executable).expect("it is ours");
}

/// The first event, once it has come.
fn first_event(folder: &Path) -> String {
    within_a_minute(|| {
        let events = std::fs::read_to_string(folder.join("events")).unwrap_or_default();
        events.lines().next().map(str::to_owned)
    })
}

#[test]
fn snapshots_of_a_served_volume_are_changed_by_its_server() {
    let folder = media("16M");
    let path = folder.path();
    write(path, 1, 16 << 20);
    for (file, byte, len) in [("two", 2, 1_usize << 20), ("three", 3, 16 << 20)] {
        std::fs::write(path.join(file), vec![byte; len]).expect("a file");
    }
    let disk = "media=volume(a.img, b.img, name=vg0/media)";
    let (mut server, _) = Server::start(outboard(path, &["serve", disk, "--listen", "unix:s"]));
    let ask = |words: &[&str]| volume(path, &[&["snapshot"], words].concat());
    let planned = ask(&["create", "vg0/media", "before", "--size", "4M", "--dry-run"]);
    assert!(planned.contains("nothing was written"), "{planned}");
    let created = ask(&["create", "vg0/media", "before", "--size", "4M"]);
    assert!(
        created.contains("with a store of 4.00 MiB (1 extent)"),
        "{created}"
    );
    assert!(created.contains("the metadata before: "), "{created}");
    let copied = write_served(path, "two").status().expect("it runs");
    assert!(copied.success());
    // 256 chunks, a table and a header, of 1024.
    let line = "snapshot vg0/before of media: 25.1 % of 4.00 MiB full";
    let status = answer(path, &["status"]);
    assert!(status.contains(line), "{status}");
    let extended = ask(&["extend", "vg0/before", "--extents", "100%ORIGIN"]);
    assert!(
        extended.contains("20.00 MiB (5 extents), was 4.00 MiB"),
        "{extended}"
    );
    let line = refusal(path, &["snapshot", "remove", "vg9/before"]);
    assert!(line.contains("groups that are served: vg0"), "{line}");
    let line = refusal(
        path,
        &["snapshot", "remove", "vg0/before", "a.img", "b.img"],
    );
    assert!(line.contains("is already open"), "{line}");

    // While it is written, at any moment.
    let mut writing = write_served(path, "three").spawn().expect("it runs");
    ask(&["create", "vg0/media", "during", "-l", "100%ORIGIN"]);
    assert!(writing.wait().expect("it ends").success());
    let list = json(path, &["snapshot", "list"]);
    let states = list["snapshots"].as_array().expect("snapshots").iter();
    assert!(
        states.map(|one| &one["state"]).eq(["valid", "valid"]),
        "{list}"
    );
    ask(&["create", "vg0/media", "gone", "--size", "4M"]);
    ask(&["remove", "vg0/gone"]);
    server.signal(Signal::TERM);
    assert!(server.ended().success());

    assert!(volume(path, &["check", "a.img", "b.img"]).starts_with("vg0: good"));
    assert!(read(path, "media").iter().all(|byte| *byte == 3));
    assert!(read(path, "before").iter().all(|byte| *byte == 1));
    let during = read(path, "during");
    for (index, chunk) in during.chunks(4096).enumerate() {
        let old = if index < 256 { 2 } else { 1 };
        let is_whole = chunk.iter().all(|byte| *byte == 3) || chunk.iter().all(|byte| *byte == old);
        assert!(is_whole, "chunk {index}");
    }
    for name in ["before", "during"] {
        snapshot(path, &["remove", &format!("vg0/{name}")]);
    }
}

/// A client that is connected would see its disk become another one.
fn refuse_merge_with_a_client(path: &Path) {
    let slow = "throttle(nbd+unix:///media?socket=s, bytes=1M/s)";
    let mut client = outboard(path, &["copy", slow, "slow", "--connections", "1"]);
    let mut client = client.spawn().expect("it runs");
    let clients = |count: usize| {
        let status = answer(path, &["status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        let media = &status["servers"][0]["figures"]["exports"][0];
        assert_eq!(media["name"], "media");
        let clients = media["clients"].as_array().expect("clients").len();
        (clients == count).then_some(())
    };
    within_a_minute(|| clients(1));
    let line = refusal(path, &["snapshot", "merge", "vg0/before"]);
    assert!(
        line.contains("export \"media\" has 1 connection: a merge"),
        "{line}"
    );
    client.kill().expect("it runs");
    client.wait().expect("it ends");
    within_a_minute(|| clients(0));
}

#[test]
fn a_snapshot_is_merged_into_a_volume_that_is_served() {
    let folder = media("16M");
    let path = folder.path();
    write(path, 1, 16 << 20);
    std::fs::write(path.join("two"), vec![2; 12 << 20]).expect("a file");
    std::fs::write(path.join("five"), vec![5; 1 << 20]).expect("a file");
    event_program(path);
    let media = "media=volume(a.img, b.img, name=vg0/media)";
    let other = "other=volume(a.img, b.img, name=vg0/other)";
    volume(
        path,
        &["create", "vg0/other", "a.img", "b.img", "--size", "4M"],
    );
    let serve = [
        "serve",
        media,
        other,
        "--listen",
        "unix:s",
        "--on-event",
        "./hook",
    ];
    let (mut server, _) = Server::start(outboard(path, &serve));
    let ask = |words: &[&str]| volume(path, &[&["snapshot"], words].concat());
    ask(&["create", "vg0/media", "before", "-l", "100%ORIGIN"]);
    ask(&["create", "vg0/media", "kept", "-l", "100%ORIGIN"]);
    assert!(
        write_served(path, "two")
            .status()
            .expect("it runs")
            .success()
    );

    refuse_merge_with_a_client(path);
    let planned = ask(&["merge", "vg0/before", "--dry-run"]);
    assert!(planned.contains("nothing was written"), "{planned}");
    let merged = ask(&["merge", "vg0/before"]);
    assert!(
        merged.starts_with("vg0/media is what before was; the server merges"),
        "{merged}"
    );
    // From this moment on, whether all is merged or not.
    let copied = answer(
        path,
        &["copy", "nbd+unix:///media?socket=s", "now", "--force"],
    );
    assert!(copied.contains("16.00 MiB"), "{copied}");
    assert!(bytes(path, "now").iter().all(|byte| *byte == 1));
    assert!(
        write_served(path, "five")
            .status()
            .expect("it runs")
            .success()
    );
    assert_eq!(first_event(path), "SnapshotMerged vg0/before vg0/media");
    let list = json(path, &["snapshot", "list"]);
    let names = list["snapshots"].as_array().expect("snapshots").iter();
    assert!(names.map(|one| &one["name"]).eq(["kept"]), "{list}");
    // The next one.
    ask(&["create", "vg0/media", "again", "-l", "100%ORIGIN"]);
    server.signal(Signal::TERM);
    assert!(server.ended().success());

    assert!(volume(path, &["check", "a.img", "b.img"]).starts_with("vg0: good"));
    let media = read(path, "media");
    assert!(media[..1 << 20].iter().all(|byte| *byte == 5));
    assert!(media[1 << 20..].iter().all(|byte| *byte == 1));
    assert!(read(path, "again") == media);
    assert!(read(path, "kept").iter().all(|byte| *byte == 1));
}

#[test]
fn a_merge_that_was_begun_elsewhere_is_finished_by_the_server() {
    let folder = media("16M");
    let path = folder.path();
    write(path, 1, 16 << 20);
    snapshot(path, &["create", "vg0/media", "before", "-l", "100%ORIGIN"]);
    write(path, 2, 16 << 20);
    event_program(path);
    // Each write takes its time, so that it is interrupted under way.
    let slow = [
        "volume",
        "snapshot",
        "merge",
        "vg0/before",
        "delay(a.img, write=200ms)",
        "b.img",
    ];
    let mut merging = outboard(path, &slow).spawn().expect("it runs");
    let is_merging = || snapshot(path, &["list"]).contains("merging").then_some(());
    within_a_minute(is_merging);
    merging.kill().expect("it runs");
    merging.wait().expect("it ends");
    let media = "media=volume(a.img, b.img, name=vg0/media)";
    let serve = ["serve", media, "--listen", "unix:s", "--on-event", "./hook"];
    let (mut server, _) = Server::start(outboard(path, &serve));
    assert_eq!(first_event(path), "SnapshotMerged vg0/before vg0/media");
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert!(read(path, "media").iter().all(|byte| *byte == 1));
}

#[test]
fn a_full_snapshot_of_a_served_volume_is_an_event() {
    let folder = media("16M");
    let path = folder.path();
    std::fs::write(path.join("three"), vec![3; 16 << 20]).expect("a file");
    event_program(path);
    let disk = "media=volume(a.img, b.img, name=vg0/media)";
    let serve = ["serve", disk, "--listen", "unix:s", "--on-event", "./hook"];
    let (_server, _) = Server::start(outboard(path, &serve));
    volume(
        path,
        &["snapshot", "create", "vg0/media", "small", "--size", "4M"],
    );
    let copied = write_served(path, "three").status().expect("it runs");
    assert!(copied.success(), "the origin goes on");
    let line = within_a_minute(|| {
        let events = std::fs::read_to_string(path.join("events")).unwrap_or_default();
        let mut lines = events.lines().map(str::to_owned);
        lines.find(|line| line.starts_with("SnapshotInvalid"))
    });
    assert_eq!(line, "SnapshotInvalid vg0/small vg0/media");
    let line = refusal(path, &["snapshot", "extend", "vg0/small", "--size", "+4M"]);
    assert!(line.contains("invalid"), "{line}");
    volume(path, &["snapshot", "remove", "vg0/small"]);
}

#[test]
fn lvm_finds_groups_with_snapshots_good() {
    if !requires::all(&[requires::command("pvck")]) {
        return;
    }
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    volume(
        path,
        &[
            "create",
            "vg0/media",
            "-L",
            "8M",
            "--disks",
            "a.img",
            "b.img",
        ],
    );
    create(path, "before", &["--size", "4M"]);
    assert_eq!(bytes(path, "a.img").len() as u64, DISK);
    for disk in DISKS {
        let disk = path.join(disk);
        let disk = disk.to_str().expect("UTF-8");
        let text = judge("pvck", &["--dump", "metadata", disk]);
        assert!(text.contains("cow_store = \"before\""), "{text}");
        judge("pvck", &["--dump", "headers", disk]);
    }
}

/// The origin reads as the snapshot from the moment of the merge: a cache above it that was used again would answer with
/// what was there before. A sample of blocks is compared, which one block is hardly in.
#[test]
fn a_cache_above_an_origin_does_not_outlive_a_merge() {
    let folder = media("16M");
    let path = folder.path();
    write(path, 1, 16 << 20);
    create(path, "before", &["--extents", "100%ORIGIN"]);
    let mut changed = vec![1; 16 << 20];
    let block = (5 << 20) + 36_864;
    changed[block..block + 4096].fill(2);
    std::fs::write(path.join("two"), &changed).expect("a file");
    answer(path, &["copy", "two", ORIGIN, "--force"]);
    let media = "media=cache(volume(a.img, b.img, name=vg0/media), c.cache)";
    let serve = ["serve", media, "--listen", "unix:s"];
    let copy = || {
        let arguments = ["copy", "nbd+unix:///media?socket=s", "now", "--force"];
        answer(path, &arguments);
        bytes(path, "now")
    };
    let (mut server, _) = Server::start(outboard(path, &serve));
    assert!(copy() == changed);
    // Now all of it is in the cache file.
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    let (_server, _) = Server::start(outboard(path, &serve));
    volume(path, &["snapshot", "merge", "vg0/before"]);
    assert!(copy().iter().all(|byte| *byte == 1));
}
