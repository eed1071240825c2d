//! `copy`: what arrives, what is refused, and what is left when it fails.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use testkit::requires;

use super::{LIMIT, Server, answer, failure, outboard, peer, within_a_minute};

const MIB: usize = 1 << 20;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// An image of 16 MiB with two MiB of data in it, and one of zeroes that are written.
fn image(folder: &Path) -> Vec<u8> {
    let path = folder.join("a.img");
    let file = fs::File::create(&path).expect("a new file");
    file.set_len(16 * MIB as u64).expect("a size");
    let range = block::Range::new(0, MIB as u64);
    for (at, seed) in [(3, 1), (9, 2)] {
        let data = testkit::pattern(seed, range);
        file.write_all_at(&data, at * MIB as u64).expect("data");
    }
    let zeroes = vec![0; MIB];
    file.write_all_at(&zeroes, 12 * MIB as u64).expect("zeroes");
    fs::read(path).expect("the image")
}

fn read(folder: &Path, name: &str) -> Vec<u8> {
    fs::read(folder.join(name)).expect("a file")
}

const PEER: &str = "nbd+unix:///?socket=s";

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn a_file_is_copied_with_its_holes() {
    let folder = folder();
    let content = image(folder.path());
    let told = answer(folder.path(), &["copy", "a.img", "b.img", "--verify"]);
    assert!(told.starts_with("b.img: 16.00 MiB in "), "{told}");
    assert!(
        told.ends_with(": 2.00 MiB of data, 14.00 MiB of zeroes, both read back and found equal\n"),
        "{told}"
    );
    assert!(read(folder.path(), "b.img") == content);
    let space = |name| {
        fs::metadata(folder.path().join(name))
            .expect("a file")
            .blocks()
    };
    assert!(
        space("b.img") < space("a.img"),
        "written zeroes became a hole"
    );
}

#[test]
fn zeroes_are_written_where_they_are_not_to_be_detected() {
    let folder = folder();
    let content = image(folder.path());
    let arguments = [
        "copy",
        "a.img",
        "b.img",
        "--detect-zeroes",
        "never",
        "--json",
    ];
    let told = json(&answer(folder.path(), &arguments));
    assert_eq!(told["written"], 3 * MIB);
    assert_eq!(told["kept"], 13 * MIB);
    assert_eq!(told["verified"], false);
    assert!(read(folder.path(), "b.img") == content);
}

#[test]
fn an_export_is_filled_and_read_back() {
    let folder = folder();
    let content = image(folder.path());
    let arguments = ["serve", "e=memory(20M)", "--listen", "unix:s"];
    let (_server, _) = Server::start(outboard(folder.path(), &arguments));
    let uri = "nbd+unix:///e?socket=s";
    answer(folder.path(), &["copy", "a.img", uri, "--verify"]);
    answer(
        folder.path(),
        &[
            "copy",
            uri,
            "back.img",
            "--verify",
            "--connections",
            "2",
            "--requests",
            "3",
        ],
    );
    let back = read(folder.path(), "back.img");
    assert_eq!(back.len(), 20 * MIB);
    assert!(back[..content.len()] == content);
    assert!(back[content.len()..].iter().all(|&byte| byte == 0));
}

/// The bytes behind the last whole sector were not served, and a file that has some was no disk to be copied.
#[test]
fn every_byte_of_a_size_without_whole_sectors_is_served_and_copied() {
    let folder = folder();
    let content: Vec<u8> = (0..70_001_u32).map(|at| (at % 251) as u8).collect();
    fs::write(folder.path().join("odd"), &content).expect("a file");
    let arguments = ["serve", "odd", "--listen", "unix:s,mode=600"];
    let (_server, _) = Server::start(outboard(folder.path(), &arguments));
    let uri = "nbd+unix:///?socket=s";
    answer(folder.path(), &["copy", uri, "back", "--verify"]);
    assert!(read(folder.path(), "back") == content);
    answer(folder.path(), &["copy", "back", "again", "--verify"]);
    assert!(read(folder.path(), "again") == content);
    let mut other = content.clone();
    other[70_000] = !other[70_000];
    fs::write(folder.path().join("other"), &other).expect("a file");
    answer(folder.path(), &["copy", "other", uri, "--verify"]);
    assert!(read(folder.path(), "odd") == other);
}

/// What is composed has whole sectors, as the kernel's devices have.
#[test]
fn a_disk_that_others_are_made_of_has_whole_sectors() {
    let folder = folder();
    fs::write(folder.path().join("odd"), [7; 1000]).expect("a file");
    answer(folder.path(), &["copy", "linear(odd)", "whole"]);
    assert_eq!(read(folder.path(), "whole"), [7; 512]);
}

#[test]
fn what_cannot_be_copied_is_refused_and_nothing_is_changed() {
    let folder = folder();
    image(folder.path());
    let at = |name: &str| folder.path().join(name);
    symlink("a.img", at("link")).expect("a link");
    fs::write(at("mine"), "mine").expect("a file");
    let cases = [
        (
            ["a.img", "mine"],
            "mine exists and holds 4 bytes; --force writes over it",
        ),
        (
            ["a.img", "blocks(mine, size=512)"],
            "mine exists and holds 4 bytes; --force",
        ),
        (["a.img", "a.img"], "are the same disk"),
        (["a.img", "link"], "are the same disk"),
        (["a.img", "blocks(link, size=4K)"], "are the same disk"),
        (["nbd://h/e", "nbd://h/e"], "are the same disk"),
        (["none", "new"], "none does not exist"),
        (
            ["a.img", "no/new"],
            "No such file or directory; make its directory first",
        ),
        (["a.img", "."], "is a directory"),
        (
            ["a.img", "memory(1M)"],
            "is too small: it has 1048576 bytes, a.img has 16777216; nothing was written",
        ),
    ];
    for (ends, message) in cases {
        let (status, told) = failure(folder.path(), &["copy", ends[0], ends[1]]);
        assert_eq!(status, Some(1), "{ends:?}: {told}");
        assert!(told.contains(message), "{ends:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
    assert_eq!(read(folder.path(), "mine"), b"mine");
    assert!(!at("new").exists());
    let (status, told) = failure(folder.path(), &["copy", "x=a.img", "new"]);
    assert_eq!(status, Some(2), "{told}");
}

#[test]
fn force_gives_a_file_the_content_and_the_size_of_the_source() {
    let folder = folder();
    let content = image(folder.path());
    fs::write(folder.path().join("b.img"), vec![7; 40 * MIB]).expect("a file");
    answer(folder.path(), &["copy", "a.img", "b.img", "--force"]);
    assert!(read(folder.path(), "b.img") == content);
}

/// A file was emptied before it was seen that another process had it open.
#[test]
fn a_file_that_is_served_is_not_overwritten_with_force_either() {
    let folder = folder();
    let content = image(folder.path());
    fs::write(folder.path().join("b.img"), vec![7; MIB]).expect("a file");
    let arguments = ["serve", "b.img", "--listen", "unix:s"];
    let (_server, _) = Server::start(outboard(folder.path(), &arguments));
    let (status, told) = failure(folder.path(), &["copy", "a.img", "b.img", "--force"]);
    assert_eq!(status, Some(1));
    assert!(
        told.contains("b.img is already open for writing by process"),
        "{told}"
    );
    assert!(read(folder.path(), "b.img") == vec![7; MIB]);
    assert!(read(folder.path(), "a.img") == content);
}

#[test]
fn a_difference_is_reported_by_its_first_byte() {
    let folder = folder();
    image(folder.path());
    let (status, told) = failure(folder.path(), &["copy", "a.img", "null(16M)", "--verify"]);
    assert_eq!(status, Some(1));
    assert!(
        told.contains("null(16M) differs from a.img at byte 31457"),
        "{told}"
    );
}

/// A copy that reports success after a read or a write failed was CVE-2022-0485.
#[test]
fn any_error_of_a_server_is_an_error_and_the_new_file_is_removed() {
    if !requires::all(&[requires::command("nbdkit")]) {
        return;
    }
    let cases = [("pread", "EIO"), ("pwrite", "ENOSPC")];
    for (operation, errno) in cases {
        let folder = folder();
        image(folder.path());
        let error = format!("error-{operation}={errno}");
        let rate = format!("error-{operation}-rate=100%");
        let arguments = [
            "-f",
            "-U",
            "s",
            "--filter=error",
            "memory",
            "64M",
            &error,
            &rate,
        ];
        let _peer = peer(folder.path(), "nbdkit", &arguments);
        let full = "--detect-zeroes=never";
        let (status, told) = if operation == "pread" {
            fs::write(folder.path().join("full"), vec![5; 32 * MIB]).expect("a file");
            answer(folder.path(), &["copy", "full", PEER]);
            failure(folder.path(), &["copy", PEER, "new", full])
        } else {
            failure(
                folder.path(),
                &["copy", "a.img", PEER, full, "--requests=1"],
            )
        };
        assert_eq!(status, Some(1), "{told}");
        if operation == "pread" {
            assert!(
                told.contains(&format!("cannot read {PEER}: read of ")),
                "{told}"
            );
            assert!(told.ends_with("; new was removed again"), "{told}");
        } else {
            assert!(
                told.contains(&format!("cannot write {PEER}: write of ")),
                "{told}"
            );
            assert!(told.contains("no space left"), "{told}");
            assert!(told.contains("is incomplete: "), "{told}");
        }
        assert!(!folder.path().join("new").exists());
    }
}

#[test]
fn a_signal_ends_the_copy_and_removes_the_new_file() {
    if !requires::all(&[requires::command("nbdkit")]) {
        return;
    }
    let folder = folder();
    let slow = [
        "-f",
        "-U",
        "s",
        "--filter=delay",
        "pattern",
        "1G",
        "delay-read=300ms",
    ];
    let _peer = peer(folder.path(), "nbdkit", &slow);
    let mut command = outboard(folder.path(), &["copy", PEER, "new", "--requests=1"]);
    let mut copying = Server::start_quiet(command.stdin(Stdio::null()));
    let new = folder.path().join("new");
    within_a_minute(|| new.metadata().is_ok_and(|m| m.blocks() > 0).then_some(()));
    copying.signal(Signal::INT);
    assert_eq!(copying.ended().code(), Some(1));
    assert!(!new.exists());
}

#[test]
fn a_signal_ends_it_while_a_server_does_not_say_a_word() {
    let folder = folder();
    let silent = std::os::unix::net::UnixListener::bind(folder.path().join("s"));
    let silent = silent.expect("a socket");
    let mut command = outboard(folder.path(), &["copy", PEER, "new"]);
    let mut copying = Server::start_quiet(command.stdin(Stdio::null()));
    let (_connection, _) = silent.accept().expect("a connection");
    copying.signal(Signal::INT);
    assert_eq!(copying.ended().code(), Some(1));
    assert!(!folder.path().join("new").exists());
}

/// A device is no larger or smaller for what is copied to it, and needs no `--force`.
#[test]
fn a_device_is_written_and_read_like_a_file() {
    if !requires::all(&[requires::root(), requires::loop_device()]) {
        return;
    }
    let folder = folder();
    let content = image(folder.path());
    fs::write(folder.path().join("below"), vec![7; 24 * MIB]).expect("a file");
    let device = testkit::LoopDevice::over(&folder.path().join("below")).expect("a loop device");
    let path = device.path().to_str().expect("UTF-8").to_owned();
    answer(folder.path(), &["copy", "a.img", &path, "--verify"]);
    answer(folder.path(), &["copy", &path, "back.img"]);
    let back = read(folder.path(), "back.img");
    assert_eq!(back.len(), 24 * MIB);
    assert!(back[..content.len()] == content);
    let rest = &back[content.len()..];
    assert!(rest.iter().all(|&byte| byte == 7), "the rest is left alone");
}

#[test]
fn qemu_img_finds_copies_of_and_to_a_qcow2_equal() {
    let needs = [requires::command("qemu-nbd"), requires::command("qemu-img")];
    if !requires::all(&needs) {
        return;
    }
    let folder = folder();
    image(folder.path());
    let qemu_img = |arguments: &[&str]| {
        let mut command = Command::new("qemu-img");
        let output = command.args(arguments).current_dir(folder.path()).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    };
    qemu_img(&["create", "-q", "-f", "qcow2", "q", "16M"]);
    let qemu = ["-k", "s", "-f", "qcow2", "-t", "-e", "8", "q"];
    let socket = folder.path().join("s");
    // A path of qemu-nbd's is absolute.
    let mut qemu = qemu.map(str::to_owned);
    qemu[1] = socket.to_str().expect("UTF-8").to_owned();
    let qemu: Vec<&str> = qemu.iter().map(String::as_str).collect();
    let mut server = peer(folder.path(), "qemu-nbd", &qemu);
    answer(folder.path(), &["copy", "a.img", PEER, "--verify"]);
    answer(folder.path(), &["copy", PEER, "b.img"]);
    server.signal(Signal::TERM).expect("it runs");
    server.wait(LIMIT).expect("it ends");
    qemu_img(&["compare", "-f", "qcow2", "-F", "raw", "q", "a.img"]);
    qemu_img(&["compare", "-f", "raw", "-F", "raw", "b.img", "a.img"]);
}
