//! Arrays that a server runs get another level while a client writes and reads; mdadm is the judge of their superblocks.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;

use super::super::serve::connect;
use super::super::sockets::NbdSession;
use super::super::{Server, answer, outboard, run};
use super::{assert_clean, examine, has_mdadm, images, mirror, serving, status, value};

/// Sets a flag when it is dropped.
struct Sets<'a>(&'a AtomicBool);

impl Drop for Sets<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Does `change` while a client writes and reads; what it wrote last is the number that it is left with.
fn used_meanwhile<T>(uri: &str, change: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = Sets(&is_over);
        scope.spawn(|| {
            let session = NbdSession::open(connect(uri), "films");
            let mut session = session.expect("it is served");
            let mut rounds = 0_u32;
            while !is_over.load(Ordering::Acquire) || rounds < 20 {
                let data = [rounds.to_le_bytes()[0]; 4096];
                session.write(&data).expect("it is written");
                let found = session.read(4096).expect("it is read");
                assert!(found == data, "round {rounds}");
                rounds += 1;
            }
            session.write(&[7; 4096]).expect("it is written");
            session.say_goodbye();
        });
        let changed = change();
        drop(over);
        changed
    })
}

/// The level of a member, by mdadm.
fn assert_level(path: &Path, member: &str, level: &str) {
    if has_mdadm() {
        let examined = examine(path, member);
        assert_eq!(value(&examined, "Raid Level"), level, "{examined}");
    }
}

#[test]
fn a_served_mirror_gets_parity_and_becomes_a_mirror_again() {
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    mirror(path, &["a.img", "b.img"]);
    let (mut server, uri) = serving(path, &["a.img", "b.img"], &[]);
    answer(path, &["array", "wait", "media"]);
    let printed = used_meanwhile(&uri, || {
        answer(path, &["array", "grow", "media", "--level", "5"])
    });
    assert!(printed.contains("raid5 (left-symmetric) of 2"), "{printed}");
    assert_level(path, "a.img", "raid5");
    let scrubbed = super::json(path, &["array", "scrub", "media", "--wait"]);
    assert_eq!(scrubbed["scrubbed"]["mismatches"], 0, "{scrubbed}");
    let printed = used_meanwhile(&uri, || {
        answer(path, &["array", "grow", "media", "--level", "1"])
    });
    assert!(printed.contains("raid1 of 2"), "{printed}");
    assert_eq!(status(path, &["media"])["level"], "raid1");
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
    assert_level(path, "b.img", "raid1");
    assert_clean(path, &["a.img", "b.img"]);
    let scrubbed = super::json(path, &["array", "scrub", "a.img", "b.img"]);
    assert_eq!(scrubbed["scrubbed"]["mismatches"], 0, "{scrubbed}");
}

#[test]
fn a_served_stripe_gets_parity_and_a_disk_for_it() {
    let folder = images(&["a.img", "b.img", "c.img"]);
    let path = folder.path();
    let create = ["array", "create", "-l", "0", "-c", "64K", "--name", "media"];
    answer(path, &[&create[..], &["a.img", "b.img"]].concat());
    let (mut server, uri) = serving(path, &["a.img", "b.img"], &[]);
    let printed = used_meanwhile(&uri, || {
        answer(path, &["array", "grow", "media", "--level", "5"])
    });
    assert!(printed.contains("raid5 (parity-last) of 3"), "{printed}");
    assert!(printed.contains("degraded: 2 of 3"), "{printed}");
    let printed = used_meanwhile(&uri, || {
        answer(
            path,
            &["array", "add", "media", "--disk", "c.img", "--wait"],
        )
    });
    assert!(printed.contains("complete"), "{printed}");
    let spread = [
        "array",
        "grow",
        "media",
        "--layout",
        "left-symmetric",
        "--wait",
    ];
    used_meanwhile(&uri, || answer(path, &spread));
    let report = status(path, &["media"]);
    assert_eq!(
        (&report["level"], &report["working"]),
        (&"raid5".into(), &3.into())
    );
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
    assert_level(path, "c.img", "raid5");
    assert_clean(path, &["a.img", "b.img", "c.img"]);
    let scrubbed = super::json(path, &["array", "scrub", "a.img", "b.img", "c.img"]);
    assert_eq!(scrubbed["scrubbed"]["mismatches"], 0, "{scrubbed}");
}

#[test]
fn a_served_array_gives_up_its_parity_and_the_disk_with_it_is_free() {
    let folder = images(&["a.img", "b.img", "c.img"]);
    let path = folder.path();
    let create = [
        "array",
        "create",
        "-l",
        "5",
        "-c",
        "64K",
        "--layout",
        "parity-last",
        "--name",
        "media",
        "--assume-clean",
        "-k",
        "bitmap",
    ];
    answer(path, &[&create[..], &["a.img", "b.img", "c.img"]].concat());
    let (mut server, uri) = serving(path, &["a.img", "b.img", "c.img"], &[]);
    let output = used_meanwhile(&uri, || {
        run(path, &["array", "grow", "media", "--level", "0"])
    });
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("keeps no bitmap"), "{said}");
    let line = said
        .lines()
        .find(|line| line.contains("c.img is no member"));
    let line = line.unwrap_or_else(|| panic!("no word of it: {said}"));
    let (_, disk) = line.split_once("needs ").expect("a disk");
    assert!(disk.ends_with("b.img)"), "{line}");
    assert_eq!(status(path, &["media"])["level"], "raid0");
    // Its disk is closed: another array may have it.
    answer(
        path,
        &[
            "array", "create", "-l", "1", "--name", "other", "c.img", "missing",
        ],
    );
    used_meanwhile(&uri, || ());
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
    assert_level(path, "a.img", "raid0");
    let serve = format!("films={disk}");
    let (mut server, uri) = Server::start(outboard(
        path,
        &["serve", "--listen", "127.0.0.1:0", &serve],
    ));
    let uri = uri.split_whitespace().next().expect("a URI").to_owned();
    let mut session = NbdSession::open(connect(&uri), "films").expect("it is served");
    assert!(session.read(4096).expect("it is read") == [7; 4096]);
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
}

/// What is released was compared with the array as it was before its rows were moved: no line named the disks of the next start.
#[test]
fn a_served_array_whose_parity_is_moved_first_names_the_disk_that_it_releases() {
    let folder = images(&["a.img", "b.img", "c.img"]);
    let path = folder.path();
    let create = ["array", "create", "-l", "5", "-c", "64K", "--name", "media"];
    let members = ["--assume-clean", "a.img", "b.img", "c.img"];
    answer(path, &[&create[..], &members].concat());
    let (mut server, uri) = serving(path, &["a.img", "b.img", "c.img"], &[]);
    let output = used_meanwhile(&uri, || {
        run(path, &["array", "grow", "media", "--level", "0", "--wait"])
    });
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{printed}");
    assert_eq!(status(path, &["media"])["level"], "raid0");
    let is_released = |line: &&str| line.contains("c.img is no member");
    let line = printed.lines().find(is_released);
    let line = line.unwrap_or_else(|| panic!("c.img is not named: {printed}"));
    assert!(line.ends_with("b.img)"), "{line}");
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
    assert_level(path, "a.img", "raid0");
}
