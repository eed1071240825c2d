//! Disks with partitions, disks in use, disks that may only be read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use testkit::requires;

use super::{MIB, Server, answer, empty, folder, inspected, outboard, partitioned, tool, write};

fn can_partition() -> bool {
    let needs = ["sgdisk", "mkfs.vfat", "mkfs.ext4", "mkswap", "blkid"];
    requires::all(&needs.map(requires::command))
}

#[test]
fn a_partitioned_disk_is_drawn_as_a_tree() {
    if !can_partition() {
        return;
    }
    let folder = folder();
    partitioned(folder.path());
    let text = answer(folder.path(), &["inspect", "disk.img"]);
    let (_, tree) = text
        .split_once("\n\n")
        .expect("a tree behind the disk's lines");
    let expected = "\
disk.img  64.00 MiB  GPT, 4 partitions
├─part/1   8.00 MiB  EFI system \"boot\": vfat \"BOOT\" 4A1B-22F0
├─part/2  16.00 MiB  Linux filesystem: ext4 \"holiday pictures\" 8852fc4c-cf30-4837-8049-e4d78ed5b6de
├─part/3   8.00 MiB  Linux swap: swap cf7a2f4e-7d0f-4a52-9d6b-5a0a3f6f2c11
└─part/4   8.00 MiB  Linux filesystem \"free\"
";
    assert_eq!(tree, expected);
}

#[test]
fn each_partition_is_what_blkid_says_it_is() {
    if !can_partition() {
        return;
    }
    let folder = folder();
    partitioned(folder.path());
    let told = inspected(folder.path(), &["disk.img"]);
    let table = &told["content"]["table"];
    assert_eq!(table["kind"], "gpt");
    assert_eq!(table["id"], "6b1c2b0a-3c0e-4d6c-9c37-0d3f5a6d8e01");
    for partition in table["partitions"].as_array().expect("a list") {
        let number = |key: &str| partition[key].as_u64().expect("a number").to_string();
        let (offset, size) = (number("offset"), number("size"));
        let arguments = ["-p", "-o", "export", "-O", &offset, "-S", &size, "disk.img"];
        let mut blkid = Command::new("blkid");
        let judged = blkid.args(arguments).current_dir(folder.path()).output();
        let judged = String::from_utf8(judged.expect("it runs").stdout).expect("text");
        let value = |key: &str| {
            let mut lines = judged.lines().filter_map(|line| line.split_once('='));
            lines
                .find(|(found, _)| *found == key)
                .map(|(_, value)| value.replace('\\', ""))
        };
        let ours = &partition["content"]["signature"];
        for (key, theirs) in [
            ("type", "TYPE"),
            ("uuid", "UUID"),
            ("label", "LABEL"),
            ("usage", "USAGE"),
        ] {
            assert_eq!(
                ours[key].as_str().map(str::to_owned),
                value(theirs),
                "{partition} {key}"
            );
        }
    }
}

#[test]
fn a_damaged_backup_is_reported() {
    if !can_partition() {
        return;
    }
    let folder = folder();
    partitioned(folder.path());
    write(folder.path(), "disk.img", 64 * MIB - 512, &[0; 512]);
    let told = inspected(folder.path(), &["disk.img"]);
    let remarks = told["content"]["remarks"].as_array().expect("a list");
    assert!(
        remarks[0].as_str().expect("a text").contains("backup"),
        "{remarks:?}"
    );
    assert_eq!(
        told["content"]["table"]["partitions"]
            .as_array()
            .map(Vec::len),
        Some(4)
    );
}

/// A damaged primary GPT was read-only in fact, and `inspect --graph` reported it as writable; the server did not log
/// the warning that the guide promises.
#[test]
fn a_partition_of_a_damaged_table_is_read_only_and_reported_as_such() {
    if !can_partition() {
        return;
    }
    let folder = folder();
    partitioned(folder.path());
    write(folder.path(), "disk.img", 512, &[0; 512]);
    let graph = ["inspect", "--graph", "partition(disk.img, 2)", "--json"];
    let graph: serde_json::Value =
        serde_json::from_str(&answer(folder.path(), &graph)).expect("JSON");
    assert_eq!(graph["graph"]["read_only"], true, "{graph}");
    assert_eq!(graph["graph"]["children"][0]["read_only"], false, "{graph}");
    let serve = ["serve", "p=partition(disk.img, 2)", "--listen", "unix:s"];
    let log = folder.path().join("log");
    let (_server, _) = Server::start_logged(outboard(folder.path(), &serve), &log);
    let log = fs::read_to_string(log).expect("a log");
    assert!(
        log.contains("partition 2 of disk.img is read-only: ") && log.contains("backup"),
        "{log}"
    );
}

#[test]
fn an_unaligned_partition_is_reported() {
    if !requires::all(&[requires::command("sgdisk")]) {
        return;
    }
    let folder = folder();
    empty(folder.path(), "odd.img", 16 * MIB);
    tool(
        folder.path(),
        "sgdisk",
        &["-a", "1", "-n", "1:63:+4M", "odd.img"],
    );
    let text = answer(folder.path(), &["inspect", "odd.img"]);
    assert!(text.contains("! ") && text.contains("4096"), "{text}");
}

#[test]
fn a_disk_that_is_being_served_can_be_looked_at() {
    if !can_partition() {
        return;
    }
    let folder = folder();
    partitioned(folder.path());
    let serve = ["serve", "disk.img", "--listen", "unix:s"];
    let (server, _) = Server::start(outboard(folder.path(), &serve));
    let text = answer(folder.path(), &["inspect", "disk.img"]);
    assert!(text.contains("├─part/1"), "{text}");
    let who = format!(
        "! it is already open for writing by process {}",
        server.child.id()
    );
    assert!(text.contains(&who), "{text}");
    // The same disk through the server.
    let uri = "nbd+unix:///?socket=s";
    let text = answer(folder.path(), &["inspect", uri]);
    assert!(
        text.contains("├─part/1") && text.contains("export of a server"),
        "{text}"
    );
}

/// Runs as an unprivileged user where the tests run as root.
fn as_unprivileged(folder: &Path, arguments: &[&str]) -> Command {
    let ours = outboard(folder, arguments);
    if !rustix::process::geteuid().is_root() {
        return ours;
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(ours.get_program()).args(ours.get_args());
    command.current_dir(folder);
    command
}

#[test]
fn a_disk_that_may_only_be_read_can_be_looked_at() {
    if !can_partition() || !requires::all(&[requires::command("setpriv")]) {
        return;
    }
    let folder = folder();
    partitioned(folder.path());
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.path(), mode).expect("it is ours");
    let image = folder.path().join("disk.img");
    fs::set_permissions(&image, fs::Permissions::from_mode(0o444)).expect("it is ours");
    let output = as_unprivileged(folder.path(), &["inspect", "disk.img"]).output();
    let output = output.expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() && text.is_empty() && rustix::process::geteuid().is_root() {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("ermission"), "{output:?}");
        eprintln!("skipped: nobody may not run the binary where it is");
        return;
    }
    assert!(text.contains("ext4 \"holiday pictures\""), "{output:?}");
}

#[test]
fn several_disks_are_inspected_together() {
    let folder = folder();
    for name in ["a.img", "b.img"] {
        empty(folder.path(), name, 4 * MIB);
    }
    let told = inspected(folder.path(), &["a.img", "b.img"]);
    let disks = told["disks"].as_array().expect("a list");
    assert_eq!(
        (&disks[0]["disk"], &disks[1]["disk"]),
        (&"a.img".into(), &"b.img".into())
    );
    let text = answer(folder.path(), &["inspect", "a.img", "b.img"]);
    assert_eq!(
        text,
        "a.img  4.00 MiB  nothing known\nb.img  4.00 MiB  nothing known\n"
    );
}
