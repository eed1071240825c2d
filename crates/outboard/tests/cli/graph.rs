//! Disk expressions as users meet them: drawn, served, attached and measured.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::requires;

use super::{Server, answer, failure, outboard, run, within_a_minute};

const MIB: u64 = 1 << 20;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn image(folder: &Path, name: &str, size: u64) {
    let file = fs::File::create(folder.join(name)).expect("a new file");
    file.set_len(size).expect("a size");
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn a_graph_is_drawn_as_a_tree() {
    let folder = folder();
    image(folder.path(), "a.img", MIB);
    image(folder.path(), "b.img", 3 * MIB);
    let disk =
        "linear(delay(file(a.img, read-only=true), read=1ms), stripe(b.img, memory(3M)), zero(4K))";
    let drawn = answer(folder.path(), &["inspect", "--graph", disk]);
    let expected = "\
NODE                SIZE      BLOCK  ACCESS
linear              7.00 MiB  1      read
├─delay             1.00 MiB  1      read
│ └─file a.img      1.00 MiB  1      read
├─stripe chunk 64K  6.00 MiB  1      read, write
│ ├─file b.img      3.00 MiB  1      read, write
│ └─memory 3M       3.00 MiB  1      read, write
└─zero 4K           4.00 KiB  1      read, write
";
    assert_eq!(drawn, expected);
}

#[test]
fn a_disk_that_begins_off_a_block_is_said_to_be_slow() {
    if !requires::all(&[requires::command("sfdisk")]) {
        return;
    }
    let folder = folder();
    image(folder.path(), "a", MIB);
    image(folder.path(), "odd", MIB + 512);
    image(folder.path(), "parted", MIB);
    write_table(folder.path(), "parted", "label: dos\nstart=63, size=1000\n");
    let warnings = |disk: &str| {
        let output = run(folder.path(), &["inspect", disk]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    let stderr = warnings("linear(a, odd, parted)");
    let slow =
        "parted begins at byte 2097664, no multiple of 4 KiB: writes are slow on most drives";
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains(slow), "{stderr}");
    assert_eq!(warnings("linear(a, odd)"), "");
    let stderr = warnings("partition(parted, 1)");
    let slow = "parted: partition 1 begins at byte 32256, no multiple of 4 KiB";
    assert!(stderr.contains(slow), "{stderr}");
}

#[test]
fn a_byte_is_traced_down_to_its_file() {
    let folder = folder();
    image(folder.path(), "a.img", MIB);
    image(folder.path(), "b.img", MIB);
    fs::write(
        folder.path().join("t"),
        "0 2048 linear a.img 0\n2048 1024 linear b.img 1024\n",
    )
    .expect("a table");
    let told = answer(
        folder.path(),
        &["inspect", "--graph", "dm(t)", "--offset", "2050s"],
    );
    let (_, path) = told.split_once("\n\n").expect("two parts");
    let expected = "\
NODE        BYTE     SECTOR
dm t        1049600  2050
file b.img  525312   1026
";
    assert_eq!(path, expected);
    let arguments = ["inspect", "--graph", "dm(t)", "--offset", "1K", "--json"];
    let told = json(&answer(folder.path(), &arguments));
    assert_eq!(told["path"][1]["about"], "a.img");
    assert_eq!(told["path"][1]["offset"], 1024);
    assert_eq!(told["graph"]["size"], 3072 * 512);
    assert_eq!(told["graph"]["children"][1]["node"], "file");
    let (status, told) = failure(
        folder.path(),
        &["inspect", "--graph", "dm(t)", "--offset", "2M"],
    );
    assert_eq!(status, Some(2));
    assert!(
        told.ends_with("is behind the end of the disk; its last one is 1572863"),
        "{told}"
    );
}

#[test]
fn looking_at_a_graph_changes_nothing() {
    let folder = folder();
    image(folder.path(), "a.img", MIB);
    let disk = "overlay(a.img, new.cow)";
    let (status, told) = failure(folder.path(), &["inspect", "--graph", disk]);
    assert_eq!(status, Some(1));
    assert!(told.contains("no overlay's store at new.cow"), "{told}");
    let left = fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(left, 1);
}

#[test]
fn what_is_wrong_in_a_table_is_one_line_and_the_place() {
    let folder = folder();
    fs::write(
        folder.path().join("t"),
        "0 8 zero\n8 8 linear memry(1M) 0\n",
    )
    .expect("a table");
    let (status, told) = failure(folder.path(), &["serve", "x=dm(t)"]);
    assert_eq!(status, Some(1));
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].starts_with("outboard: t, line 2: "), "{told}");
    assert!(lines[0].contains("did you mean memory?"), "{told}");
    assert_eq!(lines[1..], ["  memry(1M)", "  ^^^^^"]);
}

/// An image with two partitions of 1 MiB from 1 MiB on, made by sfdisk.
fn partitioned(folder: &Path, name: &str) {
    image(folder, name, 8 * MIB);
    let script = "label: gpt\nstart=2048, size=2048\nstart=4096, size=2048\n";
    write_table(folder, name, script);
}

/// Has sfdisk write a partition table.
fn write_table(folder: &Path, name: &str, script: &str) {
    let mut command = Command::new("sfdisk");
    command.args(["--quiet", name]).current_dir(folder);
    command.stdin(std::process::Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut input = child.stdin.take().expect("it is piped");
    std::io::Write::write_all(&mut input, script.as_bytes()).expect("it reads");
    drop(input);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn two_partitions_of_one_file_are_served_and_written_side_by_side() {
    if !requires::all(&[requires::command("sfdisk")]) {
        return;
    }
    let folder = folder();
    partitioned(folder.path(), "disk.img");
    let arguments = [
        "serve",
        "one=partition(disk.img, 1)",
        "two=partition(disk.img, 2)",
        "--listen",
        "unix:s",
    ];
    let (_server, _) = Server::start(outboard(folder.path(), &arguments));
    for (export, fill) in [("one", 1_u8), ("two", 2)] {
        fs::write(folder.path().join(export), vec![fill; 1 << 20]).expect("a file");
        let uri = format!("nbd+unix:///{export}?socket=s");
        answer(folder.path(), &["copy", export, &uri, "--force"]);
    }
    let disk = fs::read(folder.path().join("disk.img")).expect("it is there");
    for (at, fill) in [(1, 1_u8), (2, 2)] {
        let found = &disk[at << 20..(at + 1) << 20];
        assert!(found.iter().all(|byte| *byte == fill), "partition {at}");
    }
}

#[test]
fn partitions_that_share_bytes_with_another_disk_are_refused() {
    if !requires::all(&[requires::command("sfdisk")]) {
        return;
    }
    let folder = folder();
    partitioned(folder.path(), "disk.img");
    for other in [
        "b=disk.img",
        "b=partition(disk.img, 1)",
        "b=overlay(disk.img, t.cow)",
    ] {
        let arguments = [
            "serve",
            "a=partition(disk.img, 1)",
            other,
            "--listen",
            "unix:s",
        ];
        let (status, told) = failure(folder.path(), &arguments);
        assert_eq!(status, Some(1));
        assert!(told.contains("disk.img"), "{told}");
        assert!(told.lines().count() > 1, "the places are shown: {told}");
    }
    let (_, told) = failure(folder.path(), &["serve", "partition(disk.img, 3)"]);
    assert!(
        told.contains("has no partition 3: its GPT has 1, 2"),
        "{told}"
    );
}

#[test]
fn a_copy_onto_several_files_overwrites_none_without_force() {
    let folder = folder();
    fs::write(folder.path().join("source"), vec![7; 1 << 20]).expect("a file");
    image(folder.path(), "a", MIB / 2);
    image(folder.path(), "b", MIB / 2);
    let (status, told) = failure(folder.path(), &["copy", "source", "linear(a, b)"]);
    assert_eq!(status, Some(1));
    assert!(
        told.ends_with("a is part of the target and holds something; --force writes over it"),
        "{told}"
    );
    answer(
        folder.path(),
        &["copy", "source", "linear(a, b)", "--force"],
    );
    let both = ["a", "b"].map(|name| fs::read(folder.path().join(name)).expect("it is there"));
    assert_eq!(both.concat(), [7; 1 << 20]);
    let arguments = ["copy", "a", "linear(a, b)", "--force"];
    let (_, told) = failure(folder.path(), &arguments);
    assert!(told.contains("have a disk in common"), "{told}");
}

/// Takes down what a test that failed half way left attached.
struct TakenDown<'a>(&'a Path);

impl Drop for TakenDown<'_> {
    fn drop(&mut self) {
        drop(run(self.0, &["detach", "--all", "--force"]));
    }
}

#[test]
fn every_node_carries_a_filesystem_and_leaves_nothing_behind() {
    let needs = [
        requires::root(),
        requires::fuse(),
        requires::loop_device(),
        requires::command("mkfs.ext4"),
        requires::command("sfdisk"),
    ];
    if !requires::all(&needs) {
        return;
    }
    let folder = folder();
    let _taken_down = TakenDown(folder.path());
    for name in ["a", "b", "c", "d", "e", "f", "h", "golden"] {
        image(folder.path(), name, 32 * MIB);
    }
    fs::write(
        folder.path().join("t"),
        "0 32768 linear e 0\n32768 65536 striped 2 128 e 32768 f 0\n",
    )
    .expect("a table");
    let file = fs::File::create(folder.path().join("g")).expect("a new file");
    file.set_len(64 * MIB).expect("a size");
    write_table(folder.path(), "g", "label: gpt\nstart=2048, size=65536\n");
    for disk in [
        "linear(a, b)",
        "stripe(c, d, chunk=16K)",
        "dm(t)",
        "partition(g, 1)",
        "overlay(golden, today.cow)",
        "delay(throttle(fault(blocks(h, size=4K), after=1000000), bytes=1G/s), flush=1ms)",
    ] {
        carries_a_filesystem(folder.path(), disk);
    }
    let golden = fs::read(folder.path().join("golden")).expect("it is there");
    assert!(
        golden.iter().all(|byte| *byte == 0),
        "a base is never written"
    );
}

/// Mounts `disk`, writes a file, takes it down, and finds the file again.
fn carries_a_filesystem(folder: &Path, disk: &str) {
    let mount = folder.join("mnt");
    let place = mount.to_str().expect("UTF-8");
    let arguments = [
        "attach", disk, "--via", "fuse", "--mount", place, "--mkfs", "ext4",
    ];
    answer(folder, &arguments);
    let content = disk.repeat(10_000);
    fs::write(mount.join("file"), &content).unwrap_or_else(|error| panic!("{disk}: {error}"));
    let detached = |device: &str| {
        // A busy machine may still look at a new device.
        within_a_minute(|| {
            let detached = run(folder, &["detach", device]);
            let error = String::from_utf8_lossy(&detached.stderr);
            let done = detached.status.success();
            assert!(done || error.contains("--force"), "{disk}: {error}");
            done.then_some(())
        });
        assert!(!mount.exists(), "{disk}: the directory is left");
        let told = answer(folder, &["status"]);
        assert_eq!(told, "nothing is attached\n", "{disk}");
    };
    detached(place);
    answer(
        folder,
        &[
            "attach",
            disk,
            "--via",
            "fuse",
            "--mount",
            place,
            "--read-only",
        ],
    );
    let found = fs::read_to_string(mount.join("file"));
    assert!(found.is_ok_and(|found| found == content), "{disk}");
    detached(place);
}

#[test]
fn the_lab_measures_a_disk_under_a_mount_of_its_own() {
    let needs = [
        requires::root(),
        requires::fuse(),
        requires::loop_device(),
        requires::command("fio"),
        requires::command("mkfs.ext4"),
    ];
    if !requires::all(&needs) {
        return;
    }
    let folder = folder();
    let _taken_down = TakenDown(folder.path());
    fs::write(folder.path().join("p.toml"), super::lab::plan()).expect("a plan");
    let disk = "overlay(memory(128M), t.cow)";
    let arguments = [
        "lab",
        "run",
        "p.toml",
        disk,
        "--mkfs",
        "ext4",
        "--against",
        ".",
    ];
    let table = answer(folder.path(), &arguments);
    assert!(table.contains(disk), "{table}");
    assert_eq!(answer(folder.path(), &["status"]), "nothing is attached\n");
    let arguments = ["lab", "run", "p.toml", "memory(128M)", "--dry-run"];
    let (status, told) = failure(folder.path(), &arguments);
    assert_eq!(status, Some(2));
    assert!(told.contains("would have to be attached"), "{told}");
    let (status, told) = failure(folder.path(), &["lab", "run", "p.toml", "memory(128M)"]);
    assert_eq!(status, Some(1));
    assert!(told.contains("--mkfs ext4 makes a filesystem"), "{told}");
    assert_eq!(answer(folder.path(), &["status"]), "nothing is attached\n");
}
