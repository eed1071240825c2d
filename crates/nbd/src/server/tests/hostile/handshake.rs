//! The handshake with clients that lie, cut and overflow.

use std::net::SocketAddr;

use block::Range;
use nbd_proto::Command;
use testkit::pattern;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::{RawClient, request};
use super::surviving;

const ACK: u32 = 1;
const INFO: u32 = 3;
const UNSUP: u32 = (1 << 31) + 1;
const INVALID: u32 = (1 << 31) + 3;
const UNKNOWN: u32 = (1 << 31) + 6;
const TOO_BIG: u32 = (1 << 31) + 9;

const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const LIST: u32 = 3;
const STARTTLS: u32 = 5;
const OPT_INFO: u32 = 6;
const GO: u32 = 7;
const STRUCTURED: u32 = 8;
const SET_META: u32 = 10;

const GO_DISK: &[u8] = b"\0\0\0\x04disk\0\0";

impl RawClient {
    async fn greeted(address: SocketAddr) -> Self {
        let mut raw = Self::connect(address).await;
        raw.greet().await;
        raw
    }

    /// Sends an option; the type of the last reply to it.
    async fn negotiate(&mut self, option: u32, data: &[u8]) -> u32 {
        self.option(option, data).await;
        loop {
            let head = self.take(20).await;
            assert_eq!(head[..8], 0x0003_e889_0455_65a9u64.to_be_bytes());
            assert_eq!(head[8..12], option.to_be_bytes());
            let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four"));
            let len = word(16) as usize;
            assert!(len <= 64 << 10, "a reply of {len} bytes");
            self.take(len).await;
            if word(12) != INFO && word(12) != 2 {
                return word(12);
            }
        }
    }

    /// The handshake is in step: it can still be finished.
    async fn assert_negotiating(&mut self) {
        assert_eq!(self.negotiate(GO, GO_DISK).await, ACK);
        self.assert_in_step().await;
    }
}

/// GO's data: a name that claims `claimed` bytes and is `name`, and so many information requests.
fn go(claimed: u32, name: &[u8], requests: u16) -> Vec<u8> {
    let mut data = claimed.to_be_bytes().to_vec();
    data.extend_from_slice(name);
    data.extend_from_slice(&requests.to_be_bytes());
    data
}

/// CVE-2022-26495, CVE-2022-26496: a length near 2^32 that wrapped.
#[test]
fn a_name_longer_than_its_option_is_invalid_and_in_step() {
    surviving(|address| async move {
        for option in [GO, OPT_INFO] {
            for claimed in [5, 7, 4097, 0x7fff_ffff, u32::MAX - 5, u32::MAX] {
                let mut raw = RawClient::greeted(address).await;
                let answer = raw.negotiate(option, &go(claimed, b"disk", 0)).await;
                assert!(answer == INVALID || answer == TOO_BIG, "{answer:#x}");
                raw.assert_negotiating().await;
            }
        }
    });
}

#[test]
fn options_that_do_not_add_up_are_invalid_and_in_step() {
    surviving(|address| async move {
        let cases: [(u32, Vec<u8>); 9] = [
            (GO, vec![]),
            (GO, vec![0; 5]),
            (GO, go(4, b"disk", 1)),
            (GO, go(4, b"disk", u16::MAX)),
            (GO, [go(4, b"disk", 0), vec![1]].concat()),
            (LIST, vec![1]),
            (STRUCTURED, vec![1, 2, 3]),
            (SET_META, vec![0; 3]),
            (SET_META, go(u32::MAX, b"disk", 0)),
        ];
        for (option, data) in cases {
            let mut raw = RawClient::greeted(address).await;
            let answer = raw.negotiate(option, &data).await;
            assert!(answer >= 1 << 31, "{option}: {answer:#x}");
            raw.assert_negotiating().await;
        }
    });
}

/// CVE-2017-15118: a long name overran a buffer.
#[test]
fn long_names_are_refused() {
    surviving(|address| async move {
        for len in [4097, 5000, 65_000u16] {
            let name = vec![b'x'; len.into()];
            let mut raw = RawClient::greeted(address).await;
            let answer = raw.negotiate(GO, &go(len.into(), &name, 0)).await;
            assert!(answer == TOO_BIG || answer == INVALID, "{answer:#x}");
            raw.assert_negotiating().await;
            // This one has no way to answer.
            let mut raw = RawClient::greeted(address).await;
            raw.option(EXPORT_NAME, &name).await;
            assert!(raw.is_closed().await);
        }
        let name = vec![b'x'; 4096];
        let mut raw = RawClient::greeted(address).await;
        assert_eq!(raw.negotiate(GO, &go(4096, &name, 0)).await, UNKNOWN);
        raw.assert_negotiating().await;
    });
}

/// Names are not paths and not text of any kind.
#[test]
fn strange_names_are_unknown() {
    surviving(|address| async move {
        let names: [&[u8]; 8] = [
            b"/etc/passwd",
            b"../disk",
            b"disk\0",
            b"\0",
            b"\xff\xfe",
            b"Disk",
            b"disk ",
            "dísk".as_bytes(),
        ];
        for name in names {
            let len = u32::try_from(name.len()).expect("short");
            let mut raw = RawClient::greeted(address).await;
            let answer = raw.negotiate(GO, &go(len, name, 0)).await;
            assert!(
                answer == UNKNOWN || answer == INVALID,
                "{name:?} {answer:#x}"
            );
            raw.assert_negotiating().await;
            let mut raw = RawClient::greeted(address).await;
            raw.option(EXPORT_NAME, name).await;
            assert!(raw.is_closed().await);
        }
    });
}

#[test]
fn an_option_of_absurd_length_is_dropped_at_once() {
    surviving(|address| async move {
        for len in [65_537, 1 << 20, 1 << 31, u32::MAX] {
            let mut raw = RawClient::greeted(address).await;
            let mut bytes = b"IHAVEOPT\0\0\0\x07".to_vec();
            bytes.extend_from_slice(&len.to_be_bytes());
            raw.say(&bytes).await;
            assert!(raw.is_closed().await);
        }
    });
}

#[test]
fn what_is_no_handshake_is_dropped() {
    surviving(|address| async move {
        for flags in [4u32, 0x8000_0000, 0x0001_0003] {
            let mut raw = RawClient::connect(address).await;
            raw.take(18).await;
            raw.say(&flags.to_be_bytes()).await;
            assert!(raw.is_closed().await);
        }
        let mut raw = RawClient::greeted(address).await;
        raw.say(b"GET / HTTP/1.1\r\nHost: disk\r\n\r\n").await;
        assert!(raw.is_closed().await);
    });
}

#[test]
fn unknown_options_are_reported_as_unsupported() {
    surviving(|address| async move {
        let mut raw = RawClient::greeted(address).await;
        assert_eq!(raw.negotiate(STARTTLS, &[]).await, UNSUP);
        for option in [0, 4, 99, u32::MAX] {
            assert_eq!(raw.negotiate(option, &[7; 100]).await, UNSUP);
        }
        assert_eq!(raw.negotiate(STRUCTURED, &[]).await, ACK);
        assert_eq!(raw.negotiate(STRUCTURED, &[]).await, INVALID);
        raw.negotiate(LIST, &[]).await;
        assert_eq!(raw.negotiate(ABORT, &[]).await, ACK);
        assert!(raw.is_closed().await);
    });
}

/// A handshake without an end held its memory and its place.
#[test]
fn a_handshake_of_endless_options_is_ended() {
    surviving(|address| async move {
        let mut raw = RawClient::greeted(address).await;
        let option = b"IHAVEOPT\0\0\0\x03\0\0\0\0".repeat(2000);
        drop(raw.stream.write_all(&option).await);
        let mut rest = Vec::new();
        drop(raw.stream.read_to_end(&mut rest).await);
        assert!(rest.len() < 1 << 20);
    });
}

/// CVE-2013-7441: a client that left during the handshake took the server with it. Cut after each
/// byte, with a goodbye and with a reset.
#[test]
fn a_client_may_leave_after_any_byte() {
    surviving(|address| async move {
        let mut bytes = 3u32.to_be_bytes().to_vec();
        for (option, data) in [(STRUCTURED, &b""[..]), (LIST, b""), (GO, GO_DISK)] {
            bytes.extend_from_slice(b"IHAVEOPT");
            bytes.extend_from_slice(&option.to_be_bytes());
            bytes.extend_from_slice(&u32::try_from(data.len()).expect("short").to_be_bytes());
            bytes.extend_from_slice(data);
        }
        bytes.extend_from_slice(&request(Command::Write, 0, 64).encode());
        bytes.extend_from_slice(&[9; 64]);
        bytes.extend_from_slice(&request(Command::Read, 0, 64).encode());
        for cut in 0..=bytes.len() {
            let mut raw = RawClient::connect(address).await;
            // The server may have no place for it yet.
            drop(raw.stream.write_all(&bytes[..cut]).await);
            if cut % 2 == 0 {
                raw.reset();
            }
        }
    });
}

#[test]
fn a_handshake_byte_by_byte_is_as_good_as_any() {
    surviving(|address| async move {
        let mut raw = RawClient::connect(address).await;
        let mut bytes = 3u32.to_be_bytes().to_vec();
        bytes.extend_from_slice(b"IHAVEOPT\0\0\0\x01\0\0\0\x04disk");
        bytes.extend_from_slice(&request(Command::Read, 7, 9).encode());
        for byte in bytes {
            raw.say(&[byte]).await;
        }
        raw.take(18 + 10).await;
        let read = raw.simple_reply(&request(Command::Read, 7, 9)).await;
        assert_eq!(read, (0, pattern(1, Range::new(7, 9))));
    });
}
