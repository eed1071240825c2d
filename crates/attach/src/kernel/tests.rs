//! Tests of the netlink messages. The bytes were laid out by hand from the kernel's headers.

use std::io::Cursor;

use nbd::client::DiskIdentity;
use neli::{FromBytesWithInput, ToBytes};
use proptest::prelude::*;

use super::check_identity;
use super::netlink::{
    Connect, Message, NbdIndex, NbdShape, connect, connected_index, disconnect, is_connected,
    reconnect, resize, status,
};

fn disk(identity: Option<&str>) -> DiskIdentity {
    DiskIdentity {
        identity: identity.map(|id| id.parse().unwrap()),
        ..DiskIdentity::default()
    }
}

/// A server that was restarted with another image of the same size got the dirty pages of the first one: only the
/// size was compared before the kernel was given the connections.
#[test]
fn a_connection_to_another_disk_is_never_handed_over() {
    let check = |was, is| check_identity("nbd://nas/a", &disk(was), &disk(is));
    assert!(check(Some("one"), Some("one")).is_ok());
    assert!(check(None, Some("one")).is_ok(), "nothing was known of it");
    assert!(check(None, None).is_ok());
    let error = check(Some("one"), Some("two")).unwrap_err();
    assert!(error.is_final());
    let text = "another disk is behind nbd://nas/a: expected one, found two";
    assert_eq!(error.to_string(), text);
    let error = check(Some("one"), None).unwrap_err();
    assert!(error.is_final() && error.to_string().ends_with("a disk without an identity"));
}

fn bytes(message: &Message) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    message.to_bytes(&mut out).unwrap();
    out.into_inner()
}

fn read(bytes: &[u8]) -> Option<Message> {
    Message::from_bytes_with_input(&mut Cursor::new(bytes), bytes.len()).ok()
}

#[test]
fn a_connect_names_size_timeouts_flags_owner_and_sockets() {
    let message = connect(&Connect {
        shape: NbdShape {
            size: 0x1000,
            block_size: 512,
        },
        request_timeout_s: 15,
        dead_conn_timeout_s: 300,
        server_flags: 0x105,
        sockets: &[7, 9],
        backend: "ob-1",
    });
    let mut expected = vec![1, 1, 0, 0];
    for (kind, number) in [(2u8, 0x1000u64), (3, 512), (4, 15), (8, 300), (5, 0x105)] {
        expected.extend_from_slice(&[12, 0, kind, 0]);
        expected.extend_from_slice(&number.to_le_bytes());
    }
    expected.extend_from_slice(&[9, 0, 10, 0, b'o', b'b', b'-', b'1', 0, 0, 0, 0]);
    expected.extend_from_slice(&[28, 0, 7, 0x80]);
    for socket in [7, 9] {
        expected.extend_from_slice(&[12, 0, 1, 0x80, 8, 0, 1, 0, socket, 0, 0, 0]);
    }
    assert_eq!(bytes(&message.unwrap()), expected);
}

#[test]
fn a_reconnect_names_the_device_its_owner_and_sockets_but_no_size() {
    let message = reconnect(NbdIndex(3), "ob-1", &[4]);
    let mut expected = vec![3, 1, 0, 0];
    expected.extend_from_slice(&[8, 0, 1, 0, 3, 0, 0, 0]);
    expected.extend_from_slice(&[9, 0, 10, 0, b'o', b'b', b'-', b'1', 0, 0, 0, 0]);
    expected.extend_from_slice(&[16, 0, 7, 0x80, 12, 0, 1, 0x80, 8, 0, 1, 0, 4, 0, 0, 0]);
    assert_eq!(bytes(&message.unwrap()), expected);
}

#[test]
fn a_resize_names_the_device_its_owner_and_size_but_no_sockets() {
    let shape = NbdShape {
        size: 0x2000,
        block_size: 4096,
    };
    let mut expected = vec![3, 1, 0, 0];
    expected.extend_from_slice(&[8, 0, 1, 0, 3, 0, 0, 0]);
    for (kind, number) in [(2u8, 0x2000u64), (3, 4096)] {
        expected.extend_from_slice(&[12, 0, kind, 0]);
        expected.extend_from_slice(&number.to_le_bytes());
    }
    expected.extend_from_slice(&[9, 0, 10, 0, b'o', b'b', b'-', b'1', 0, 0, 0, 0]);
    let message = resize(NbdIndex(3), "ob-1", shape);
    assert_eq!(bytes(&message.unwrap()), expected);
}

#[test]
fn disconnect_and_status_name_the_device() {
    for (command, message) in [(2, disconnect(NbdIndex(3))), (5, status(NbdIndex(3)))] {
        let expected = [command, 1, 0, 0, 8, 0, 1, 0, 3, 0, 0, 0];
        assert_eq!(bytes(&message.unwrap()), expected);
    }
}

#[test]
fn the_answer_to_a_connect_has_the_device() {
    let answer = read(&[1, 1, 0, 0, 8, 0, 1, 0, 12, 0, 0, 0]).unwrap();
    assert_eq!(connected_index(&answer), Some(NbdIndex(12)));
    let without = read(&[1, 1, 0, 0]).unwrap();
    assert_eq!(connected_index(&without), None);
}

#[test]
fn the_status_of_the_requested_device_is_found_in_the_list() {
    let item = |index: u8, connected: u8| {
        [
            20, 0, 1, 0x80, 8, 0, 1, 0, index, 0, 0, 0, 5, 0, 2, 0, connected, 0, 0, 0,
        ]
    };
    let mut body = vec![5, 1, 0, 0, 44, 0, 9, 0x80];
    body.extend_from_slice(&item(0, 0));
    body.extend_from_slice(&item(3, 1));
    let answer = read(&body).unwrap();
    assert_eq!(is_connected(&answer, NbdIndex(3)), Some(true));
    assert_eq!(is_connected(&answer, NbdIndex(0)), Some(false));
    assert_eq!(is_connected(&answer, NbdIndex(1)), None);
}

proptest! {
    #[test]
    fn no_answer_panics(body in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(answer) = read(&body) {
            let _ = (connected_index(&answer), is_connected(&answer, NbdIndex(0)));
        }
    }
}
