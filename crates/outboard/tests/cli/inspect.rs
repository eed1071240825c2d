//! `inspect` and `ls`, with libnbd's nbdinfo as the judge.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::requires;

use super::{Server, answer, failure, outboard, peer};

const MIB: u64 = 1 << 20;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// An image with data at every third of its pages of 64 KiB.
fn image(folder: &Path) {
    let file = fs::File::create(folder.join("a.img")).expect("a new file");
    file.set_len(8 * MIB).expect("a size");
    for at in (0..8 * MIB).step_by(3 << 16) {
        file.write_all_at(&[1; 1 << 16], at).expect("data");
    }
}

fn uri(folder: &Path, export: &str) -> String {
    format!("nbd+unix:///{export}?socket={}/s", folder.display())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn nbdinfo(arguments: &[&str]) -> Value {
    let output = Command::new("nbdinfo")
        .args(arguments)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    json(&String::from_utf8(output.stdout).expect("UTF-8"))
}

/// What nbdinfo's map says, in our words: its types are bits, hole 1 and zero 2.
fn judged_map(uri: &str) -> Vec<(u64, u64, String)> {
    let map = nbdinfo(&["--map", "--json", uri]);
    let map = map.as_array().expect("a list").iter();
    map.map(|extent| {
        let number = |key: &str| extent[key].as_u64().expect("a number");
        let kind = match number("type") {
            3 => "hole",
            2 => "zero",
            _ => "data",
        };
        (number("offset"), number("length"), kind.to_owned())
    })
    .collect()
}

fn our_map(told: &Value) -> Vec<(u64, u64, String)> {
    let map = told["map"]["extents"].as_array().expect("a list").iter();
    map.map(|extent| {
        let number = |key: &str| extent[key].as_u64().expect("a number");
        let kind = extent["kind"].as_str().expect("a text").to_owned();
        (number("offset"), number("length"), kind)
    })
    .collect()
}

#[test]
fn an_export_of_nbdkit_is_what_nbdinfo_says_it_is() {
    if !requires::all(&[requires::command("nbdkit"), requires::command("nbdinfo")]) {
        return;
    }
    let folder = folder();
    image(folder.path());
    let arguments = ["-f", "-U", "s", "-e", "media", "file", "a.img"];
    let _peer = peer(folder.path(), "nbdkit", &arguments);
    let uri = uri(folder.path(), "media");
    let told = json(&answer(
        folder.path(),
        &["inspect", &uri, "--map", "--json"],
    ));
    assert_eq!(our_map(&told), judged_map(&uri));
    assert_eq!(told["map"]["known"], true);
    let judged = nbdinfo(&["--json", &uri]);
    assert_eq!(judged["protocol"], told["export"]["protocol"]);
    assert_eq!(judged["TLS"], told["export"]["tls"]);
    let judged = &judged["exports"][0];
    assert_eq!(judged["export-size"], told["size"]);
    assert_eq!(judged["is_read_only"], told["export"]["read_only"]);
    assert_eq!(judged["is_rotational"], told["rotational"]);
    assert_eq!(judged["contexts"], told["export"]["contexts"]);
    let flags = told["export"]["flags"].as_array().expect("a list");
    for (can, flag) in [
        ("can_flush", "SEND_FLUSH"),
        ("can_fua", "SEND_FUA"),
        ("can_trim", "SEND_TRIM"),
        ("can_zero", "SEND_WRITE_ZEROES"),
        ("can_fast_zero", "SEND_FAST_ZERO"),
        ("can_multi_conn", "CAN_MULTI_CONN"),
        ("can_cache", "SEND_CACHE"),
        ("can_df", "SEND_DF"),
    ] {
        let ours = flags.iter().any(|found| found == flag);
        assert_eq!(judged[can].as_bool(), Some(ours), "{can}");
    }
    let text = answer(folder.path(), &["inspect", &uri, "--map"]);
    assert!(
        text.contains("\nOFFSET") || text.contains(" OFFSET"),
        "{text}"
    );
    let parts = our_map(&told).into_iter();
    let sum = parts.filter(|(.., kind)| kind == "data");
    let sum: u64 = sum.map(|(_, length, _)| length).sum();
    assert_eq!(told["map"]["totals"]["data"], sum);
}

/// It was refused: the only handshake of servers from before named exports.
#[test]
fn an_oldstyle_server_is_listed_inspected_and_copied() {
    if !requires::all(&[requires::command("nbdkit"), requires::command("nbdinfo")]) {
        return;
    }
    let folder = folder();
    image(folder.path());
    let arguments = ["-f", "-U", "s", "--oldstyle", "--readonly", "file", "a.img"];
    let _peer = peer(folder.path(), "nbdkit", &arguments);
    let server = uri(folder.path(), "");
    let listed = json(&answer(folder.path(), &["ls", &server, "--json"]));
    assert_eq!(listed[0]["name"], "");
    assert_eq!(listed[0]["size"], 8 * MIB);
    assert_eq!(listed[0]["read_only"], true);
    let printed = json(&answer(folder.path(), &["inspect", &server, "--json"]));
    assert_eq!(printed["size"], 8 * MIB);
    assert_eq!(printed["export"]["protocol"], "oldstyle");
    assert_eq!(nbdinfo(&["--json", &server])["protocol"], "oldstyle");
    answer(folder.path(), &["copy", &server, "copy.img"]);
    let read = |name: &str| fs::read(folder.path().join(name)).expect("a file");
    assert!(read("copy.img") == read("a.img"));
    let (_, printed) = failure(folder.path(), &["inspect", &uri(folder.path(), "media")]);
    assert!(
        printed.contains("has one export without a name"),
        "{printed}"
    );
}

#[test]
fn the_map_of_a_qcow2_is_the_one_that_nbdinfo_draws() {
    let needs = [
        requires::command("qemu-nbd"),
        requires::command("qemu-img"),
        requires::command("nbdinfo"),
    ];
    if !requires::all(&needs) {
        return;
    }
    let folder = folder();
    image(folder.path());
    let convert = ["convert", "-O", "qcow2", "a.img", "q"];
    let mut command = Command::new("qemu-img");
    let status = command.args(convert).current_dir(folder.path()).status();
    assert!(status.expect("it runs").success());
    let socket = format!("{}/s", folder.path().display());
    let arguments = [
        "-k", &socket, "-f", "qcow2", "-t", "-e", "8", "-r", "-x", "disk", "-D", "a test", "q",
    ];
    let _peer = peer(folder.path(), "qemu-nbd", &arguments);
    let uri = uri(folder.path(), "disk");
    let told = json(&answer(
        folder.path(),
        &["inspect", &uri, "--map", "--json"],
    ));
    assert_eq!(our_map(&told), judged_map(&uri));
    assert_eq!(told["export"]["description"], "a test");
    assert_eq!(told["export"]["read_only"], true);
    let judged = &nbdinfo(&["--json", &uri])["exports"][0];
    for size in ["minimum", "preferred", "maximum"] {
        assert_eq!(
            judged[format!("block_size_{size}")],
            told["block_size"][size]
        );
    }
    let listed = json(&answer(folder.path(), &["ls", &uri, "--json"]));
    assert_eq!(listed[0]["name"], "disk");
    assert_eq!(listed[0]["description"], "a test");
    assert_eq!(listed[0]["size"], 8 * MIB);
}

#[test]
fn the_map_of_a_file_is_that_of_its_filesystem() {
    let folder = folder();
    image(folder.path());
    let told = json(&answer(
        folder.path(),
        &["inspect", "a.img", "--map", "--json"],
    ));
    assert_eq!(told["kind"], "file");
    assert_eq!(told["size"], 8 * MIB);
    let data = told["map"]["totals"]["data"].as_u64().expect("a number");
    let hole = told["map"]["totals"]["hole"].as_u64().expect("a number");
    assert_eq!(data + hole, 8 * MIB);
    assert_eq!(data, 43 << 16, "43 pages were written");
    assert!(told["export"].is_null());
}

#[test]
fn a_server_lists_its_exports() {
    let folder = folder();
    let arguments = [
        "serve",
        "one=memory(1M)",
        "two=memory(1G)",
        "--listen",
        "unix:s",
    ];
    let (_server, _) = Server::start(outboard(folder.path(), &arguments));
    let uri = uri(folder.path(), "");
    let text = answer(folder.path(), &["ls", &uri]);
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(
        names[0] == "NAME" && names.contains(&"one") && names.contains(&"two"),
        "{text}"
    );
    let listed = json(&answer(folder.path(), &["ls", &uri, "--json"]));
    let two = listed
        .as_array()
        .expect("a list")
        .iter()
        .find(|row| row["name"] == "two");
    let two = two.expect("it is served");
    assert_eq!(two["size"], 1024 * MIB);
    let again = two["uri"].as_str().expect("a text");
    let told = json(&answer(folder.path(), &["inspect", again, "--json"]));
    assert_eq!(told["size"], 1024 * MIB);
    let (status, told) = failure(folder.path(), &["inspect", &uri.replace("///", "///none")]);
    assert_eq!(status, Some(1));
    assert!(told.contains("outboard ls nbd+unix:///"), "{told}");
}

#[test]
fn what_is_no_server_has_no_exports() {
    let folder = folder();
    let (status, told) = failure(folder.path(), &["ls", "a.img"]);
    assert_eq!(status, Some(2));
    assert!(
        told.ends_with("a.img is no server; write nbd://HOST or nbd+unix:///?socket=PATH"),
        "{told}"
    );
    let (status, told) = failure(folder.path(), &["ls", &uri(folder.path(), "")]);
    assert_eq!(status, Some(1));
    assert!(told.contains("cannot connect"), "{told}");
}
