//! The life of an array that is served: made, written, a member fails and another takes its place.

use std::net::TcpStream;
use std::path::Path;

use rustix::process::Signal;

use super::super::serve::connect;
use super::super::sockets::NbdSession;
use super::super::{Server, answer, failure, outboard};
use super::{
    assert_clean, bytes, image, images, mirror, serving, state_of, status, within_a_minute,
};

const DATA: [u8; 4096] = [7; 4096];

fn client(uri: &str) -> NbdSession<TcpStream> {
    NbdSession::open(connect(uri), "films").expect("served")
}

/// Whether a member's data begin with `DATA`.
fn holds_data(folder: &Path, member: &str) -> bool {
    let bytes = bytes(folder, member);
    bytes
        .windows(DATA.len())
        .step_by(512)
        .any(|window| window == DATA)
}

/// A served mirror of `a.img` and `b.img` that was resynced, and a client that has written [`DATA`] to it.
fn written_mirror(folder: &Path) -> (Server, NbdSession<TcpStream>) {
    mirror(folder, &["a.img", "b.img"]);
    let (server, uri) = serving(folder, &["a.img", "b.img"], &[]);
    answer(folder, &["array", "wait", "media"]);
    let mut session = client(&uri);
    session.write(&DATA).expect("it is written");
    (server, session)
}

#[test]
fn a_member_fails_another_is_added_and_everything_is_there_at_the_end() {
    let folder = images(&["a.img", "b.img", "c.img"]);
    let path = folder.path();
    let (mut server, mut session) = written_mirror(path);

    let told = answer(path, &["array", "fail", "media", "--member", "b.img"]);
    assert!(told.contains("degraded: 1 of 2 parts work"), "{told}");
    let report = status(path, &["films"]);
    assert_eq!(state_of(&report, "b.img"), "failed");
    assert_eq!(report["working"], 1);
    let told = answer(path, &["status"]);
    assert!(
        told.contains("array media: raid1 of 2, ") && told.contains("; b.img is failed"),
        "{told}"
    );
    session.write(&DATA).expect("one member is enough");
    let (_, told) = failure(path, &["array", "fail", "media", "--member", "a.img"]);
    assert!(told.contains("a.img"), "the last one stays: {told}");

    answer(path, &["array", "remove", "media", "--member", "b.img"]);
    let added = answer(
        path,
        &["array", "add", "media", "--disk", "c.img", "--wait"],
    );
    assert!(added.contains("complete"), "{added}");
    let report = status(path, &["media"]);
    assert_eq!(state_of(&report, "c.img"), "in_sync");
    assert_eq!(report["working"], 2);

    let scrubbed = super::json(path, &["array", "scrub", "media", "--wait"]);
    assert_eq!(scrubbed["scrubbed"]["mismatches"], 0, "{scrubbed}");
    assert_eq!(scrubbed["scrubbed"]["finished"], true, "{scrubbed}");

    let (_, told) = failure(path, &["array", "stop", "media"]);
    assert!(
        told.contains("1 client is connected") && told.contains("--force"),
        "{told}"
    );
    session.say_goodbye();
    let told = within_a_minute(|| {
        let output = super::super::run(path, &["array", "stop", "media"]);
        output.status.success().then_some(output.stdout)
    });
    assert!(String::from_utf8_lossy(&told).contains("it is closed"));
    assert_clean(path, &["a.img", "c.img"]);
    assert!(holds_data(path, "a.img") && holds_data(path, "c.img"));
    // The server goes on without it, and its members are free.
    assert_eq!(
        answer(path, &["array", "status"]),
        "no server here runs an array\n"
    );
    let report = status(path, &["a.img", "c.img"]);
    assert_eq!(
        (&report["clean"], &report["working"]),
        (&true.into(), &2.into())
    );
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn a_server_that_is_stopped_leaves_its_arrays_clean() {
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    let (mut server, _session) = written_mirror(path);
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
    assert_clean(path, &["a.img", "b.img"]);
    assert!(holds_data(path, "a.img") && holds_data(path, "b.img"));
    let report = status(path, &["a.img", "b.img"]);
    assert_eq!(report["clean"], true, "{report}");
    assert!(report["sync"].is_null(), "nothing is left to do: {report}");
}

#[test]
fn a_server_that_is_killed_leaves_little_to_do() {
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    let (mut server, _session) = written_mirror(path);
    server.signal(Signal::KILL);
    server.ended();
    let told = answer(path, &["array", "wait", "a.img", "b.img"]);
    assert!(told.contains("complete, clean"), "{told}");
    assert_clean(path, &["a.img", "b.img"]);
    assert!(holds_data(path, "a.img") && holds_data(path, "b.img"));
}

#[test]
fn an_export_that_a_reload_ends_leaves_its_array_clean_and_another_may_have_it() {
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    mirror(path, &["a.img", "b.img"]);
    let config = |name: &str| {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n[[export]]\nname = \"{name}\"\ndisk = \"array(a.img, b.img)\"\n"
        );
        std::fs::write(path.join("c.toml"), text).expect("a file");
    };
    config("films");
    let check = ["serve", "--config", "c.toml", "--check"];
    assert_eq!(answer(path, &check), "c.toml: 1 export\n");
    let (mut server, line) = Server::start(outboard(path, &["serve", "--config", "c.toml"]));
    let uri = line.split_whitespace().next().expect("a URI");
    answer(path, &["array", "wait", "films"]);
    let mut session = client(uri);
    session.write(&DATA).expect("it is written");
    config("movies");
    let told = answer(path, &["reload"]);
    assert_eq!(told, "added movies; removed films\n");
    assert_eq!(status(path, &["movies"])["export"], "movies");
    let (_, told) = failure(path, &["array", "status", "films"]);
    assert!(told.contains("these are run: media"), "{told}");
    std::fs::write(
        path.join("c.toml"),
        "listen = [\"127.0.0.1:0\"]\n[[export]]\nname = \"x\"\ndisk = \"memory(1M)\"\n",
    )
    .expect("a file");
    answer(path, &["reload"]);
    assert_clean(path, &["a.img", "b.img"]);
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn a_served_array_is_not_touched_through_its_members() {
    let folder = images(&["a.img", "b.img", "c.img"]);
    let path = folder.path();
    mirror(path, &["a.img", "b.img"]);
    let (_server, _) = serving(path, &["a.img", "b.img"], &[]);
    for command in [
        &["status", "a.img", "b.img"][..],
        &["fail", "a.img", "b.img", "--member", "b.img"],
        &["add", "a.img", "b.img", "--disk", "c.img"],
        &["scrub", "a.img"],
    ] {
        let (code, told) = failure(path, &[&["array"], command].concat());
        assert_eq!(code, Some(1), "{command:?}: {told}");
        let expected = "name the array instead of its members: media";
        assert!(
            told.contains("a.img is in use: process") && told.contains(expected),
            "{told}"
        );
    }
    image(path, "media", 4096);
    let (code, told) = failure(path, &["array", "status", "media"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("write ./media for the file"), "{told}");
}

#[test]
fn a_disk_that_is_in_use_or_full_is_not_added_to_a_served_array() {
    let folder = images(&["a.img", "b.img", "c.img"]);
    let path = folder.path();
    mirror(path, &["a.img", "b.img"]);
    answer(
        path,
        &["disk", "create", "p.img", "16M", "--part", "rest:linux"],
    );
    let (_server, _) = serving(path, &["a.img", "b.img"], &["c=c.img"]);
    for (disk, expected) in [
        ("c.img", "by two disks"),
        ("p.img", "it holds a partition table (gpt)"),
        ("a.img", "a.img is a member already"),
        ("none.img", "does not exist"),
    ] {
        let (_, told) = failure(path, &["array", "add", "media", "--disk", disk]);
        assert!(told.contains(expected), "{disk}: {told}");
        assert_eq!(
            told.lines().next().map(str::len),
            Some(told.len()),
            "one line: {told}"
        );
    }
    let report = status(path, &["media"]);
    assert_eq!(
        report["members"].as_array().map(Vec::len),
        Some(2),
        "{report}"
    );
}

#[test]
fn a_member_that_was_away_is_taken_back_by_the_server_and_a_stranger_is_not() {
    let folder = images(&["a.img", "b.img", "c.img"]);
    let path = folder.path();
    mirror(path, &["a.img", "b.img"]);
    let (mut server, uri) = serving(path, &["a.img", "b.img"], &[]);
    answer(path, &["array", "wait", "media"]);
    answer(path, &["array", "fail", "media", "--member", "b.img"]);
    let mut session = client(&uri);
    session.write(&DATA).expect("it is written");
    session.say_goodbye();
    let before = bytes(path, "c.img");
    let (_, told) = failure(path, &["array", "re-add", "media", "--disk", "c.img"]);
    assert!(told.contains("c.img was no member of the array"), "{told}");
    assert!(bytes(path, "c.img") == before, "it is not written");
    let back = ["array", "re-add", "media", "--disk", "b.img", "--wait"];
    let output = super::super::run(path, &back);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && told.contains("complete"),
        "{told}"
    );
    let report = status(path, &["media"]);
    assert_eq!(state_of(&report, "b.img"), "in_sync", "{report}");
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
    assert_clean(path, &["a.img", "b.img"]);
    assert!(holds_data(path, "b.img"));
}

#[test]
fn a_disk_that_was_added_is_named_for_the_next_start_which_needs_it() {
    let folder = images(&["a.img", "b.img", "c.img"]);
    let path = folder.path();
    mirror(path, &["a.img", "b.img"]);
    let (mut server, _) = serving(path, &["a.img", "b.img"], &[]);
    answer(path, &["array", "wait", "media"]);
    answer(path, &["array", "fail", "media", "--member", "b.img"]);
    answer(path, &["array", "remove", "media", "--member", "b.img"]);
    let add = ["array", "add", "media", "--disk", "c.img", "--wait"];
    let output = super::super::run(path, &add);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = told.lines().find(|line| line.contains("next start"));
    let line = line.unwrap_or_else(|| panic!("no word of it: {told}"));
    assert!(
        line.contains("the next start of films needs array(a.img, "),
        "{line}"
    );
    let (_, disk) = line.split_once("needs ").expect("a disk");
    assert!(disk.ends_with("/c.img)"), "{line}");
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
    // A start with the old configuration fails with that reason, and does not start a part of the array.
    let old = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "films=array(a.img, b.img)",
    ];
    let (_, told) = failure(path, &old);
    assert!(told.contains("part 1 is missing"), "{told}");
    let serve = ["serve", "--listen", "127.0.0.1:0", &format!("films={disk}")];
    let (mut server, _) = Server::start(outboard(path, &serve));
    let report = status(path, &["media"]);
    assert_eq!(report["working"], 2, "{report}");
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
}

/// The same as [`super::members`] has it, over the control socket of the server that runs the array.
#[test]
fn a_half_with_data_of_its_own_is_not_overwritten_by_a_server_unasked() {
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    super::members::write_apart(path);
    let (mut server, _) = serving(path, &["a.img", "missing"], &[]);
    let before = bytes(path, "b.img");
    let add = ["array", "add", "films", "--disk", "b.img", "--wait"];
    let (code, told) = failure(path, &add);
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.contains("b.img has data of its own") && told.contains("--force overwrites it"),
        "{told}"
    );
    assert!(bytes(path, "b.img") == before, "b.img was written");
    let told = answer(path, &[&add[..], &["--force"]].concat());
    assert!(told.contains("complete"), "{told}");
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
    assert_clean(path, &["a.img", "b.img"]);
}
