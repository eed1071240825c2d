//! Tests of the netlink messages. The bytes of `connect` were laid out by hand from the headers.

use proptest::prelude::*;

use super::netlink::{
    Answer, Connect, FAMILY_CONTROL, Family, Index, Sequence, answers, connect, disconnect,
    find_family, reconnect, status,
};

const FAMILY: Family = Family(0x1f);
const SEQUENCE: Sequence = Sequence(5);

fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(16 + body.len())
        .unwrap()
        .to_le_bytes()
        .to_vec();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&sequence.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(body);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

#[test]
fn the_family_is_asked_for_by_name() {
    let bytes = find_family(SEQUENCE, "nbd");
    let mut expected = vec![28, 0, 0, 0];
    expected.extend_from_slice(&FAMILY_CONTROL.to_le_bytes());
    expected.extend_from_slice(&[5, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend_from_slice(&[3, 1, 0, 0]);
    expected.extend_from_slice(&[8, 0, 2, 0, b'n', b'b', b'd', 0]);
    assert_eq!(bytes, expected);
}

#[test]
fn a_connect_names_size_timeouts_flags_owner_and_sockets() {
    let bytes = connect(
        FAMILY,
        SEQUENCE,
        &Connect {
            size: 0x1000,
            block_size: 512,
            request_timeout_s: 15,
            dead_conn_timeout_s: 300,
            server_flags: 0x105,
            sockets: &[7, 9],
            backend: "ob-1",
        },
    );
    let mut expected = vec![
        0, 0, 0, 0, 0x1f, 0, 5, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0,
    ];
    for (kind, number) in [(2u8, 0x1000u64), (3, 512), (4, 15), (8, 300), (5, 0x105)] {
        expected.extend_from_slice(&[12, 0, kind, 0]);
        expected.extend_from_slice(&number.to_le_bytes());
    }
    expected.extend_from_slice(&[9, 0, 10, 0, b'o', b'b', b'-', b'1', 0, 0, 0, 0]);
    expected.extend_from_slice(&[28, 0, 7, 0x80]);
    for socket in [7, 9] {
        expected.extend_from_slice(&[12, 0, 1, 0x80, 8, 0, 1, 0, socket, 0, 0, 0]);
    }
    expected[0] = u8::try_from(expected.len()).unwrap();
    assert_eq!(bytes, expected);
}

#[test]
fn a_reconnect_names_the_device_its_owner_and_sockets_but_no_size() {
    let bytes = reconnect(FAMILY, SEQUENCE, Index(3), "ob-1", &[4]);
    let mut expected = vec![
        60, 0, 0, 0, 0x1f, 0, 5, 0, 5, 0, 0, 0, 0, 0, 0, 0, 3, 1, 0, 0,
    ];
    expected.extend_from_slice(&[8, 0, 1, 0, 3, 0, 0, 0]);
    expected.extend_from_slice(&[9, 0, 10, 0, b'o', b'b', b'-', b'1', 0, 0, 0, 0]);
    expected.extend_from_slice(&[16, 0, 7, 0x80, 12, 0, 1, 0x80, 8, 0, 1, 0, 4, 0, 0, 0]);
    expected[0] = u8::try_from(expected.len()).unwrap();
    assert_eq!(bytes, expected);
}

#[test]
fn an_answer_with_an_index_and_an_acknowledgement_are_both_read() {
    let mut bytes = message(0x1f, 5, &[1, 1, 0, 0, 8, 0, 1, 0, 12, 0, 0, 0]);
    bytes.extend_from_slice(&message(2, 5, &[0; 20]));
    let answers = answers(&bytes, SEQUENCE).unwrap();
    let Answer::Attributes(attributes) = answers[0] else {
        panic!("the first answer has attributes");
    };
    assert_eq!(attributes.index(), Some(Index(12)));
    assert_eq!(answers[1], Answer::Done);
}

#[test]
fn an_answer_to_another_request_is_passed_over() {
    let bytes = message(2, 4, &[0; 20]);
    assert!(answers(&bytes, SEQUENCE).unwrap().is_empty());
}

#[test]
fn a_refusal_gives_its_errno() {
    let mut body = (-16i32).to_le_bytes().to_vec();
    body.extend_from_slice(&[0; 16]);
    let bytes = message(2, 5, &body);
    assert_eq!(answers(&bytes, SEQUENCE).unwrap(), [Answer::Refused(16)]);
}

#[test]
fn the_status_of_the_asked_device_is_found_in_the_list() {
    let item = |index: u8, connected: u8| {
        [
            20, 0, 1, 0x80, 8, 0, 1, 0, index, 0, 0, 0, 5, 0, 2, 0, connected, 0, 0, 0,
        ]
    };
    let mut body = vec![5, 1, 0, 0, 44, 0, 9, 0x80];
    body.extend_from_slice(&item(0, 0));
    body.extend_from_slice(&item(3, 1));
    let bytes = message(0x1f, 5, &body);
    let found = answers(&bytes, SEQUENCE).unwrap();
    let Answer::Attributes(attributes) = found[0] else {
        panic!("a status has attributes");
    };
    assert_eq!(attributes.connected(Index(3)), Some(true));
    assert_eq!(attributes.connected(Index(0)), Some(false));
    assert_eq!(attributes.connected(Index(1)), None);
}

#[test]
fn disconnect_and_status_name_the_device() {
    for bytes in [
        disconnect(FAMILY, SEQUENCE, Index(3)),
        status(FAMILY, SEQUENCE, Index(3)),
    ] {
        assert_eq!(bytes.len(), 28);
        assert_eq!(bytes[20..], [8, 0, 1, 0, 3, 0, 0, 0]);
    }
}

proptest! {
    #[test]
    fn no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..80) {
        let mut real = message(0x1f, 5, &bytes);
        real.truncate(real.len().saturating_sub(cut));
        for input in [&bytes[..], &real[..]] {
            for found in answers(input, SEQUENCE).unwrap_or_default() {
                if let Answer::Attributes(attributes) = found {
                    let _ = (attributes.index(), attributes.family(), attributes.connected(Index(0)));
                }
            }
        }
    }
}
