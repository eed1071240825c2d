//! What a suite that knows nothing of us begins with: the binary on any kind of socket, with its default
//! export and one of a name, and requests as large as some clients send.

use outboard_tests::handover::{Activated, Inetd};
use outboard_tests::image::{Folder, MIB, bytes_at, pattern};
use outboard_tests::raw::{self, Request};
use outboard_tests::said::{nbdsh, needs_nbdsh};
use outboard_tests::server::{Server, WAYS};
use outboard_tests::server_fixture;
use rustix::process::Signal;
use testkit::requires;

/// Room for 50 MB and something before and behind.
const SIZE: u64 = 64 * MIB;

/// 50 MB, as other projects' suites have it.
const LARGE: u32 = 50_000_000;

#[test]
fn requests_of_50_mb_are_served_over_tcp_and_unix_by_the_default_and_by_a_named_export() {
    if !requires::all(&[needs_nbdsh()]) {
        return;
    }
    let server = Server::start(&["first=memory(64M)", "second=memory(64M)"]);
    let mut seed = 0;
    for by in WAYS {
        for export in ["", "second"] {
            seed += 1;
            nbdsh("large", &[&server.uri_by(by, export), &seed.to_string()]).ok();
        }
    }
    assert_eq!(server.stop(Signal::TERM), Some(0));
}

#[test]
fn requests_of_50_mb_are_served_on_a_socket_that_was_handed_over() {
    if !requires::all(&[needs_nbdsh()]) {
        return;
    }
    let folder = Folder::new();
    let image = folder.empty("image", SIZE);
    let server = Activated::start(&[&format!("name={image}")]);
    for (export, seed) in [("", "1"), ("name", "2")] {
        let uri = format!("nbd+unix:///{export}?socket={}", server.socket());
        nbdsh("large", &[&uri, seed]).ok();
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn requests_of_50_mb_are_served_on_standard_input() {
    if !requires::all(&[needs_nbdsh()]) {
        return;
    }
    let folder = Folder::new();
    let image = folder.empty("image", SIZE);
    let server = Inetd::start(&[&format!("name={image}")]);
    for (export, seed) in [("", "1"), ("name", "2")] {
        let uri = format!("nbd+unix:///{export}?socket={}", server.socket());
        nbdsh("large", &[&uri, seed]).ok();
    }
    assert_eq!(server.stop(), [""; 0]);
}

#[test]
fn a_client_without_structured_replies_moves_50_mb_in_one_request() {
    let (image, server) = server_fixture::empty(SIZE);
    let mut client = raw::connected(server.port());
    let request = Request {
        command: raw::WRITE,
        cookie: 7,
        offset: 4096,
        len: LARGE,
        ..Request::default()
    };
    let data = pattern(u64::from(LARGE), 3);
    let answer = raw::write(&mut client, request, &data);
    assert_eq!(answer.unwrap(), (0, 7));
    let found = raw::read(&mut client, 8, 4096, LARGE).unwrap();
    assert!(found == data, "what was read is not what was written");
    assert_eq!(server.stop(Signal::TERM), Some(0));
    assert!(
        bytes_at(&image, 4096, data.len()) == data,
        "the image differs"
    );
}

#[test]
fn the_default_export_is_the_first_and_no_other() {
    if !requires::all(&[needs_nbdsh()]) {
        return;
    }
    let folder = Folder::new();
    let (first, second) = (folder.empty("a", SIZE), folder.empty("b", SIZE));
    let server = Server::start(&[&format!("first={first}"), &format!("second={second}")]);
    nbdsh("commands", &[&server.uri("")]).ok();
    assert_eq!(server.stop(Signal::TERM), Some(0));
    let written = bytes_at(&first, 3 * MIB + 1, 513);
    assert_eq!(written, vec![b'z'; 513]);
    assert_eq!(bytes_at(&second, 3 * MIB + 1, 513), vec![0; 513]);
}
