//! Tests of what comes after the handshake: the same bytes in any pieces, and nothing that is not
//! theirs.

use std::io::{self, IoSlice, Read, Seek, Write};
use std::os::fd::AsFd;

use proptest::prelude::*;
use proptest::sample;
use rustls::crypto::ring::cipher_suite::{
    TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, TLS13_AES_128_GCM_SHA256,
};
use rustls::{ClientConnection, ServerConnection, SupportedCipherSuite};

use super::pipe::{End, pipe, shake};
use super::pki::Pki;
use crate::tls::link::WINDOW;
use crate::tls::{Handshake, Link, RawSocket, ServerTls, TlsVersion};

/// A client's end and a server's, which has changed keys after so many records.
fn ends(rekey_after: u64) -> ((Link, End), (Link, End)) {
    ends_with(TLS13_AES_128_GCM_SHA256, rekey_after)
}

/// The same with this cipher, and the version that it is of.
pub(super) fn ends_with(
    cipher: SupportedCipherSuite,
    rekey_after: u64,
) -> ((Link, End), (Link, End)) {
    let pki = Pki::new();
    let files = pki.files_from(TlsVersion::Tls12);
    let server = ServerTls::with_rekey_after(files, rekey_after).expect("good files");
    let client = Handshake::client(&pki.client_with(&[cipher])).expect("a client");
    let server = Handshake::server(&server).expect("a server");
    let (client, server) = shake(client, server, usize::MAX);
    let (ours, theirs) = pipe();
    let link =
        |side: Result<crate::tls::handshake::SecuredConnection, _>| side.expect("they agree").link;
    ((link(client), ours), (link(server), theirs))
}

/// One of each record format.
pub(super) const CIPHERS: [SupportedCipherSuite; 4] = [
    TLS13_AES_128_GCM_SHA256,
    TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
];

fn would_block<T>(result: &io::Result<T>) -> bool {
    matches!(result, Err(e) if e.kind() == io::ErrorKind::WouldBlock)
}

pub(super) fn receive(side: &(Link, End), len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let count = side.0.receive(&side.1, &mut &mut bytes[..], false)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// Bytes that depend on their position.
pub(super) fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at ^ (at >> 8) ^ (at >> 16)).to_le_bytes()[0])
        .collect()
}

/// Moves `data` from one side to the other, in calls of `step` bytes on either side. Asserts that
/// neither side waits for bytes that will not come.
fn carry(from: &(Link, End), to: &(Link, End), data: &[u8], step: usize) -> Vec<u8> {
    let (mut sent, mut got) = (0, Vec::new());
    while got.len() < data.len() {
        let mut moved = false;
        if sent < data.len() {
            let end = data.len().min(sent + step);
            let (a, b) = data[sent..end].split_at((end - sent) / 3);
            match from
                .0
                .send(&from.1, &[IoSlice::new(a), IoSlice::new(b)], false)
            {
                Ok(count) => {
                    assert!((1..=end - sent).contains(&count));
                    sent += count;
                    moved = true;
                }
                Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
            }
        }
        let ready = to.0.has_received() || to.1.waiting() > 0;
        let waiting = to.1.waiting();
        match receive(to, step) {
            Ok(bytes) => {
                assert!(!bytes.is_empty() && ready);
                got.extend(bytes);
                moved = true;
            }
            Err(e) => {
                assert_eq!(e.kind(), io::ErrorKind::WouldBlock);
                assert!(!to.0.has_received(), "it said that there is something");
                moved |= to.1.waiting() < waiting;
            }
        }
        assert!(moved, "stuck at {sent} sent, {} received", got.len());
    }
    got
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_pieces_both_ways_carry_the_same_bytes(
        len in 1..400_000usize,
        step in 1..300_000usize,
        chunk in 1..200_000usize,
        room in 1..200_000usize,
        rekey_after in 1..40u64,
        cipher in sample::select(&CIPHERS[..]),
    ) {
        let rekey_after = if cipher.tls13().is_some() { rekey_after } else { u64::MAX };
        // Tiny pieces of long streams only take long.
        let len = len.min(step.min(chunk).min(room).saturating_mul(2000));
        let (client, server) = ends_with(cipher, rekey_after);
        client.1.limit(chunk, room);
        server.1.limit(chunk, room);
        let data = pattern(len);
        prop_assert!(carry(&server, &client, &data, step) == data);
        prop_assert!(carry(&client, &server, &data, step) == data);
    }
}

#[test]
fn bytes_are_reported_only_when_they_have_left() {
    let (client, server) = ends(u64::MAX);
    server.1.limit(usize::MAX, 10_000);
    let data = pattern(WINDOW);
    let send = || server.0.send(&server.1, &[IoSlice::new(&data)], false);
    assert!(would_block(&send()), "one record does not fit");
    assert!(would_block(&send()));
    assert_eq!(client.1.waiting(), 10_000);
    server.1.limit(usize::MAX, usize::MAX);
    // All of them were sealed by the first call, and are not sealed again.
    assert_eq!(send().ok(), Some(WINDOW));
    let mut got = Vec::new();
    while let Ok(bytes) = receive(&client, 1 << 20) {
        got.extend(bytes);
    }
    assert!(got == data);
}

#[test]
fn what_a_small_receive_leaves_is_announced() {
    let (client, server) = ends(u64::MAX);
    let data = pattern(40_000);
    server
        .0
        .send(&server.1, &[IoSlice::new(&data)], false)
        .expect("room");
    let mut got = receive(&client, 10).expect("data");
    while got.len() < data.len() {
        assert!(client.0.has_received() || client.1.waiting() > 0);
        got.extend(receive(&client, 1000).expect("data"));
    }
    assert!(!client.0.has_received() && client.1.waiting() == 0);
    assert!(got == data);
}

#[test]
fn files_are_sent_from_where_they_are() {
    for cipher in CIPHERS {
        let rekey_after = if cipher.tls13().is_some() {
            3
        } else {
            u64::MAX
        };
        sends_a_file(&ends_with(cipher, rekey_after));
    }
}

fn sends_a_file((client, server): &((Link, End), (Link, End))) {
    let data = pattern(500_000);
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&data).expect("room");
    file.rewind().expect("a file");
    server.1.limit(70_000, 90_000);
    let (mut at, mut got) = (1000, Vec::new());
    while got.len() < data.len() - 1000 {
        let left = data.len() - at + 5000;
        match server.0.send_file(&server.1, file.as_fd(), at as u64, left) {
            Ok(count) => at += count,
            Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
        }
        while let Ok(bytes) = receive(client, 1 << 20) {
            got.extend(bytes);
        }
    }
    assert!(got == data[1000..]);
    let behind = server.0.send_file(&server.1, file.as_fd(), at as u64, 10);
    assert_eq!(behind.ok(), Some(0), "the file has ended");
}

#[test]
fn a_goodbye_is_an_end_and_a_cut_is_an_error() {
    let (client, server) = ends(u64::MAX);
    client
        .0
        .send(&client.1, &[IoSlice::new(b"last words")], false)
        .expect("room");
    client.0.close(&client.1);
    assert_eq!(receive(&server, 100).expect("data"), b"last words");
    assert!(server.0.has_received(), "the end can be had");
    assert_eq!(receive(&server, 100).expect("an end"), b"");

    let (client, server) = ends(u64::MAX);
    client
        .0
        .send(&client.1, &[IoSlice::new(b"first words")], false)
        .expect("room");
    client.1.cut();
    assert_eq!(receive(&server, 100).expect("data"), b"first words");
    let error = receive(&server, 100).expect_err("no goodbye");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    assert!(receive(&server, 100).is_err(), "and stays one");
}

#[test]
fn a_truncated_record_is_an_error() {
    for cipher in CIPHERS {
        let (client, server) = ends_with(cipher, u64::MAX);
        client
            .0
            .send(&client.1, &[IoSlice::new(&pattern(1000))], false)
            .expect("room");
        server.1.tamper(|bytes| bytes.truncate(900));
        assert!(would_block(&receive(&server, 100)));
        assert!(!server.0.has_received());
        client.1.cut();
        assert!(receive(&server, 100).is_err());
    }
}

#[test]
fn a_record_that_was_changed_or_came_twice_or_not_at_all_ends_the_connection() {
    type Change = fn(&mut std::collections::VecDeque<u8>);
    let changes: [(&str, Change); 9] = [
        ("the type", |bytes| bytes[0] = 22),
        ("the version", |bytes| bytes[2] ^= 1),
        ("behind the header", |bytes| bytes[5] ^= 1),
        ("a bit", |bytes| bytes[100] ^= 1),
        ("the tag", |bytes| *bytes.back_mut().expect("bytes") ^= 1),
        ("twice", |bytes| {
            let again: Vec<u8> = bytes.iter().copied().collect();
            bytes.extend(again.clone());
            bytes.drain(..again.len() / 2);
        }),
        ("the first left out", |bytes| {
            let len = usize::from(bytes[3]) << 8 | usize::from(bytes[4]);
            bytes.drain(..5 + len);
        }),
        ("too long", |bytes| bytes[3] = 0x50),
        ("plain", |bytes| bytes[0] = 0x25),
    ];
    let of_ciphers = |change| CIPHERS.map(|cipher| (cipher, change));
    for (cipher, (what, change)) in changes.into_iter().flat_map(of_ciphers) {
        let (client, server) = ends_with(cipher, u64::MAX);
        for text in [pattern(200), pattern(200)] {
            client
                .0
                .send(&client.1, &[IoSlice::new(&text)], false)
                .expect("room");
        }
        server.1.tamper(change);
        let mut got = 0;
        let error = loop {
            match receive(&server, 200) {
                Ok(bytes) => got += bytes.len(),
                Err(error) => break error,
            }
        };
        assert!(
            got <= if what == "twice" { 400 } else { 200 },
            "{what}: {got}"
        );
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{what}: {error}");
        assert!(server.0.has_received(), "{what}: the error stays");
    }
}

/// rustls' own client and a server of ours.
pub(super) struct Foreign {
    pub(super) client: ClientConnection,
    pub(super) link: Link,
    pub(super) end: End,
    theirs: End,
    /// Bytes that the client has received and the test has not checked.
    pub(super) got: Vec<u8>,
}

impl Foreign {
    fn new(rekey_after: u64) -> Self {
        Self::with(TLS13_AES_128_GCM_SHA256, rekey_after)
    }

    /// With a client that has this cipher only.
    pub(super) fn with(cipher: SupportedCipherSuite, rekey_after: u64) -> Self {
        let pki = Pki::new();
        let files = pki.files_from(TlsVersion::Tls12);
        let tls = ServerTls::with_rekey_after(files, rekey_after).expect("good files");
        let (config, name) = pki.client_with(&[cipher]).parts();
        let mut client = ClientConnection::new(config, name).expect("a client");
        let mut server = Handshake::server(&tls).expect("a server");
        while client.is_handshaking() || client.wants_write() {
            let mut bytes = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut bytes).expect("memory");
            }
            server.advance(&bytes).expect("a client that is let in");
            let answer = server.take_outgoing();
            let mut rest = &answer[..];
            while !rest.is_empty() {
                client.read_tls(&mut rest).expect("memory");
                client
                    .process_new_packets()
                    .expect("a server that is trusted");
            }
        }
        let (end, theirs) = pipe();
        let link = server.finish().expect("finished").link;
        Self {
            client,
            link,
            end,
            theirs,
            got: Vec::new(),
        }
    }

    /// What the client has to send goes out, what has arrived goes in.
    pub(super) fn pump(&mut self) {
        let mut bytes = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut bytes).expect("memory");
        }
        assert_eq!(self.theirs.send(&bytes, false).expect("room"), bytes.len());
        let mut bytes = vec![0; 1 << 20];
        let count = self.theirs.receive(&mut bytes, false).unwrap_or(0);
        let mut rest = &bytes[..count];
        while !rest.is_empty() {
            self.client.read_tls(&mut rest).expect("memory");
            self.client.process_new_packets().expect("good records");
            // Nothing to read is an error of its own.
            drop(self.client.reader().read_to_end(&mut self.got));
        }
    }
}

#[test]
fn the_records_are_those_of_tls_also_where_keys_change() {
    let mut foreign = Foreign::new(2);
    for len in [1, 16_384, 16_385, 100_000, WINDOW] {
        let data = pattern(len);
        assert_eq!(
            foreign
                .link
                .send(&foreign.end, &[IoSlice::new(&data)], false)
                .expect("room"),
            len
        );
        foreign.pump();
        assert!(std::mem::take(&mut foreign.got) == data);

        let mut writer = foreign.client.writer();
        let taken = writer.write(&data).expect("room");
        foreign.client.refresh_traffic_keys().expect("TLS 1.3");
        foreign.pump();
        let mut got: Vec<u8> = Vec::new();
        while got.len() < taken {
            let mut piece = vec![0; 9999];
            match foreign
                .link
                .receive(&foreign.end, &mut &mut piece[..], false)
            {
                Ok(count) => got.extend(&piece[..count]),
                // The key update came alone.
                Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
            }
            assert!(got.len() >= taken || foreign.end.waiting() > 0 || foreign.link.has_received());
        }
        assert!(got == data[..taken]);
    }
}

#[test]
fn key_updates_without_end_are_not_answered_without_end() {
    let mut foreign = Foreign::new(u64::MAX);
    for _ in 0..20 {
        foreign.client.refresh_traffic_keys().expect("TLS 1.3");
    }
    foreign.pump();
    let receive = |foreign: &Foreign| {
        let mut piece = [0; 10];
        foreign
            .link
            .receive(&foreign.end, &mut &mut piece[..], false)
    };
    while would_block(&receive(&foreign)) && foreign.end.waiting() > 0 {}
    foreign.pump();
    assert_eq!(
        foreign.theirs.waiting(),
        0,
        "nothing is said until there is data"
    );
    for _ in 0..20 {
        foreign.client.refresh_traffic_keys().expect("TLS 1.3");
    }
    foreign.pump();
    let mut last = receive(&foreign);
    while would_block(&last) && foreign.end.waiting() > 0 {
        last = receive(&foreign);
    }
    assert!(last.is_err_and(|e| e.kind() == io::ErrorKind::InvalidData));
}

#[test]
fn rustls_hears_the_goodbye_and_its_goodbye_is_heard() {
    for cipher in CIPHERS {
        let mut foreign = Foreign::with(cipher, u64::MAX);
        foreign.client.send_close_notify();
        foreign.pump();
        let mut piece = [0; 10];
        let end = foreign
            .link
            .receive(&foreign.end, &mut &mut piece[..], false);
        assert_eq!(end.expect("a goodbye"), 0);
        foreign.link.close(&foreign.end);
        foreign.pump();
        assert_eq!(
            foreign.client.reader().read(&mut piece).expect("a goodbye"),
            0
        );
    }
}

/// rustls' own server, only to show that a client of ours takes its session tickets.
#[test]
fn session_tickets_are_passed_over() {
    let pki = Pki::new();
    let tls = pki.server_tls();
    let mut config = (*tls.config()).clone();
    config.send_tls13_tickets = 4;
    let mut server = ServerConnection::new(config.into()).expect("a server");
    let mut client = Handshake::client(&pki.client_tls()).expect("a client");
    client.advance(&[]).expect("it speaks first");
    let mut answer = Vec::new();
    while server.is_handshaking() {
        let hello = client.take_outgoing();
        let mut rest = &hello[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest).expect("memory");
            server
                .process_new_packets()
                .expect("a client that is let in");
        }
        answer.clear();
        while server.wants_write() {
            server.write_tls(&mut answer).expect("memory");
        }
        if server.is_handshaking() {
            client.advance(&answer).expect("a server that is trusted");
        }
    }
    server.writer().write_all(b"data").expect("room");
    while server.wants_write() {
        server.write_tls(&mut answer).expect("memory");
    }
    let link = client.finish().expect("finished").link;
    let (ours, theirs) = pipe();
    theirs.send(&answer, false).expect("room");
    assert_eq!(receive(&(link, ours), 100).expect("data"), b"data");
}
