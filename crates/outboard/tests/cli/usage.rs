//! Wrong command lines: exit status 2, one line that says what to write.

use std::path::Path;

use super::{failure, run};

/// Command lines, and a part of their error messages.
const REFUSED: &[(&[&str], &str)] = &[
    (&[], "no command; outboard --help lists them"),
    (&["serv"], "a similar subcommand exists: 'serve'"),
    (&["serve"], "usage: outboard serve <[NAME=]DISK>..."),
    (
        &["serve", "memory(1M)", "--no"],
        "unexpected argument '--no' found",
    ),
    (
        &["serve", "memory(1M)", "--http-admin"],
        "--http <ADDRESS:PORT>",
    ),
    (
        &[
            "serve",
            "memory(1M)",
            "--http=[::1]:1",
            "--http-host=nas:80",
        ],
        "not a name of a host",
    ),
    (
        &["serve", "memory(1M)", "--listen", "99"],
        "a port alone: write ADDRESS",
    ),
    (
        &["serve", "memory(1M)", "--listen", "unix:"],
        "no path behind",
    ),
    (
        &["serve", "memory(1M)", "--listen", "1.2.3.4:99999"],
        "no port from 0 to 65535",
    ),
    (
        &["serve", "memory(1M)", "--engine", "steam"],
        "possible values: auto, uring, threads",
    ),
    (
        &["serve", "a=memory(1M)", "a=memory(1M)"],
        "two disks are named `a`",
    ),
    (
        &["serve", "memory(1M)", "memory(1M)"],
        "write NAME=DISK for all but the first",
    ),
    (
        &[
            "serve",
            "memory(1M)",
            "--listen",
            "unix:s",
            "--port-file",
            "p",
        ],
        "--port-file without a TCP port",
    ),
    (
        &["serve", "memory(1M)", "--stdin", "--listen", "::1"],
        "cannot be used with",
    ),
    (
        &["attach", "m=memory(1M)"],
        "`m=` names an export, and nothing is served here; give the disk alone",
    ),
    (
        &["attach", "null(1M)", "--read-only"],
        "the disk `null(1M)` cannot be read-only",
    ),
    (
        &["attach", "nbd://h/x", "--connections", "17"],
        "--connections takes a number from 1 to 16",
    ),
    (
        &["attach", "memory(1M)", "--via", "kernel"],
        "the kernel's nbd takes a remote disk only",
    ),
    (
        &["attach", "memory(1M)", "--via", "air"],
        "possible values: auto, kernel, fuse",
    ),
    (&["detach"], "usage: outboard detach"),
    (&["detach", "/mnt", "--all"], "cannot be used with"),
    (
        &["lab", "run", "slow", "."],
        "there is no plan named \"slow\"; the plans are: quick",
    ),
    (
        &["serve", "null(1M)", "--read-only"],
        "the disk `null(1M)` cannot be read-only",
    ),
    (&["disk", "create", "a", "20Q"], "`Q` is not a unit"),
    (&["disk", "create", "a", "1000"], "1024 would be one"),
    (&["disk", "create", "a", "0"], "512 would be one"),
    (
        &["disk", "create", "a", "1M", "--fs", "fat32"],
        "known are ext4",
    ),
    (
        &["disk", "create", "a", "1M", "--zero", "--allocate"],
        "cannot be used with",
    ),
];

#[test]
fn a_wrong_command_line_exits_with_2_and_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    for (arguments, message) in REFUSED {
        let (status, told) = failure(folder.path(), arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {told}");
        assert!(told.contains(message), "{arguments:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{arguments:?}: {told}");
    }
    let left = std::fs::read_dir(folder.path())
        .expect("the folder")
        .count();
    assert_eq!(left, 0, "a refused command leaves nothing");
}

#[test]
fn a_wrong_disk_is_shown_at_its_place() {
    let (status, told) = failure(Path::new("."), &["serve", "a=array(x, y"]);
    assert_eq!(status, Some(2));
    let expected = "outboard: in the disk `a=array(x, y`, character 8: this `(` is never closed: \
                    expected `,` or `)`\n  a=array(x, y\n         ^";
    assert_eq!(told, expected);
}

#[test]
fn a_volume_without_a_name_is_refused_at_its_place() {
    let (status, told) = failure(Path::new("."), &["serve", "volume(a, b)"]);
    assert_eq!(status, Some(2));
    assert!(
        told.contains("name=GROUP/VOLUME is missing; write volume(PV, …"),
        "{told}"
    );
    assert!(told.ends_with("\n  volume(a, b)\n  ^^^^^^"), "{told}");
}

#[test]
fn failures_are_printed_as_json() {
    let output = run(Path::new("."), &["serve", "memory(1Q)", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let told: serde_json::Value = serde_json::from_slice(&output.stderr).expect("JSON");
    assert_eq!(told["status"], 2);
    let error = told["error"].as_str().expect("a text");
    assert!(error.contains("`Q` is not a unit"), "{error}");
}

#[test]
fn a_wrong_log_level_is_refused() {
    let mut command = super::outboard(Path::new("."), &["serve", "memory(1M)"]);
    let output = command
        .env("RUST_LOG", "a=b=c")
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.starts_with("outboard: RUST_LOG is `a=b=c`: "),
        "{told}"
    );
}
