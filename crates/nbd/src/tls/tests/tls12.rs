//! Tests of TLS 1.2: spoken only where both sides allow it, with rustls' own connection as the other opinion on its records.
//! `streams` has what is the same for every version.

use std::io::{self, IoSlice, Write};

use rustls::ConnectionTrafficSecrets;
use rustls::crypto::cipher::{AeadKey, Iv};

use super::pipe::{pipe, shake};
use super::pki::Pki;
use super::streams::{CIPHERS, Foreign, ends_with, pattern, receive};
use crate::tls::channel::{Channel, ChannelError, Endpoint, TrafficKeys};
use crate::tls::handshake::SecuredConnection;
use crate::tls::link::WINDOW;
use crate::tls::record::{ContentType, RecordOpener, RecordSealer};
use crate::tls::record_format::RecordFormat;
use crate::tls::{
    ClientTls, Handshake, Link, RawSocket, ServerTls, TlsFailure, TlsVersion, VerifyPeer,
};

type Outcome = Result<SecuredConnection, TlsFailure>;

fn meet(client: TlsVersion, server: TlsVersion) -> (Outcome, Outcome) {
    let pki = Pki::new();
    let folder = Some(pki.folder());
    let client = ClientTls::load("localhost", folder, VerifyPeer::Yes, client);
    let client = Handshake::client(&client.expect("good files")).expect("a client");
    let server = ServerTls::load(pki.files_from(server)).expect("good files");
    let server = Handshake::server(&server).expect("a server");
    shake(client, server, usize::MAX)
}

/// What the records of a link look like: TLS 1.2 shows the type of an alert.
fn version_of(link: &Link) -> TlsVersion {
    let (ours, theirs) = pipe();
    link.close(&ours);
    let mut record = [0; 100];
    theirs.receive(&mut record, false).expect("a goodbye");
    match record[0] {
        21 => TlsVersion::Tls12,
        _ => TlsVersion::Tls13,
    }
}

#[test]
fn tls_1_2_is_not_spoken_by_sides_that_allow_it_and_can_do_better() {
    use TlsVersion::{Tls12, Tls13};
    for (client, server) in [
        (Tls12, Tls12),
        (Tls12, Tls13),
        (Tls13, Tls12),
        (Tls13, Tls13),
    ] {
        let (client, server) = meet(client, server);
        assert_eq!(version_of(&client.expect("a connection").link), Tls13);
        assert_eq!(version_of(&server.expect("a connection").link), Tls13);
    }
}

#[test]
fn a_client_of_tls_1_2_is_refused_unless_the_server_allows_it() {
    for cipher in &CIPHERS[1..] {
        let pki = Pki::new();
        let handshake = || Handshake::client(&pki.client_with(&[*cipher])).expect("a client");
        let strict = Handshake::server(&pki.server_tls()).expect("a server");
        let (client, server) = shake(handshake(), strict, usize::MAX);
        let text = server.expect_err("TLS 1.3 is required").to_string();
        assert!(text.starts_with("it speaks no TLS 1.3"), "{text}");
        assert!(client.is_err());
        let server = ServerTls::load(pki.files_from(TlsVersion::Tls12)).expect("good files");
        let server = Handshake::server(&server).expect("a server");
        let (client, server) = shake(handshake(), server, usize::MAX);
        let (client, server) = (client.expect("let in"), server.expect("let in"));
        assert_eq!(server.peer_name.as_deref(), Some("laptop"));
        assert_eq!(version_of(&client.link), TlsVersion::Tls12);
        assert_eq!(version_of(&server.link), TlsVersion::Tls12);
    }
}

/// A reload may allow it, and forbid it again.
#[test]
fn the_oldest_version_is_one_of_the_settings_that_a_reload_replaces() {
    let pki = Pki::new();
    let tls = pki.server_tls();
    let is_allowed = || {
        let client = Handshake::client(&pki.client_with(&CIPHERS[1..])).expect("a client");
        let server = Handshake::server(&tls).expect("a server");
        shake(client, server, usize::MAX).1.is_ok()
    };
    assert!(!is_allowed());
    let allows = pki.files_from(TlsVersion::Tls12);
    assert!(tls.replace(allows).expect("good files"), "it is different");
    assert!(is_allowed());
    let forbids = pki.files_from(TlsVersion::Tls13);
    assert!(tls.replace(forbids).expect("good files"));
    assert!(!is_allowed());
}

#[test]
fn records_are_those_that_rustls_opens_and_seals() {
    for cipher in &CIPHERS[1..] {
        let mut foreign = Foreign::with(*cipher, u64::MAX);
        for len in [1, 16_384, 16_385, 100_000, WINDOW] {
            let data = pattern(len);
            let sent = foreign
                .link
                .send(&foreign.end, &[IoSlice::new(&data)], false);
            assert_eq!(sent.expect("room"), len);
            foreign.pump();
            assert!(std::mem::take(&mut foreign.got) == data);
            let taken = foreign.client.writer().write(&data).expect("room");
            foreign.pump();
            let mut got: Vec<u8> = Vec::new();
            while got.len() < taken {
                let mut piece = vec![0; 9999];
                let mut place = &mut piece[..];
                let count = foreign.link.receive(&foreign.end, &mut place, false);
                got.extend(&piece[..count.expect("data")]);
            }
            assert!(got == data[..taken]);
        }
    }
}

/// There is no next key. What was sent until then arrives, and then a goodbye.
#[test]
fn a_connection_ends_before_a_key_has_sealed_too_much() {
    for cipher in &CIPHERS[1..] {
        let (client, server) = ends_with(*cipher, 5);
        let send = || server.0.send(&server.1, &[IoSlice::new(b"data")], false);
        let mut sent = 0;
        let mut refused = None;
        while sent < 40 && refused.is_none() {
            match send() {
                Ok(count) => sent += count,
                Err(error) => refused = Some(error),
            }
        }
        let has_limit = cipher.tls13().is_none() && format!("{cipher:?}").contains("GCM");
        assert_eq!(refused.is_some(), has_limit, "{cipher:?}");
        if let Some(error) = refused {
            // The handshake used one number.
            assert_eq!(sent, 16);
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(
                error.to_string().contains("cannot change the key"),
                "{error}"
            );
            assert!(send().is_err(), "and stays so");
        }
        server.0.close(&server.1);
        let mut got = 0;
        while let Ok(bytes) = receive(&client, 100)
            && !bytes.is_empty()
        {
            got += bytes.len();
        }
        assert_eq!(got, sent);
        assert_eq!(receive(&client, 100).expect("a goodbye"), b"");
    }
}

struct NoKeys;

impl TrafficKeys for NoKeys {
    fn next_to_send(&mut self) -> Option<(u64, ConnectionTrafficSecrets)> {
        panic!("TLS 1.2 has none");
    }

    fn next_to_receive(&mut self) -> Option<(u64, ConnectionTrafficSecrets)> {
        panic!("TLS 1.2 has none");
    }
}

fn secrets() -> ConnectionTrafficSecrets {
    ConnectionTrafficSecrets::Aes256Gcm {
        key: AeadKey::from([7; 32]),
        iv: Iv::new([9; 12]),
    }
}

/// A handshake message of these bytes arrives at `side`, `times` times.
fn hears(side: Endpoint, message: &[u8], times: u32) -> Result<(), ChannelError> {
    let sealer = || RecordSealer::new(TlsVersion::Tls12, 0, &secrets()).expect("a known cipher");
    let opener = RecordOpener::new(TlsVersion::Tls12, 0, &secrets()).expect("a known cipher");
    let mut peer = sealer();
    let mut channel = Channel::new(side, sealer(), opener, Box::new(NoKeys), u64::MAX);
    for _ in 0..times {
        let format = RecordFormat::Tls12Gcm;
        let mut record = vec![0; format.overhead() + message.len()];
        record[format.content_at()..][..message.len()].copy_from_slice(message);
        peer.seal(ContentType::Handshake, &mut record);
        assert_eq!(channel.wire_len(&record), Ok(Some(record.len())));
        assert_eq!(channel.open(&mut record)?, b"");
    }
    Ok(())
}

#[test]
fn nothing_is_negotiated_again_and_no_key_is_updated() {
    let hello_request = [0, 0, 0, 0];
    assert_eq!(hears(Endpoint::Client, &hello_request, 20), Ok(()));
    let endless = hears(Endpoint::Client, &hello_request, 200);
    assert_eq!(endless, Err(ChannelError::EmptyRecords));
    let refused = |side, message: &[u8]| {
        let kind = message[0];
        assert_eq!(hears(side, message, 1), Err(ChannelError::Message(kind)));
    };
    refused(Endpoint::Server, &hello_request);
    // A client's hello, a session ticket, an update of keys.
    refused(Endpoint::Server, &[1, 0, 0, 2, 3, 3]);
    refused(Endpoint::Client, &[4, 0, 0, 1, 0]);
    for side in [Endpoint::Client, Endpoint::Server] {
        refused(side, &[24, 0, 0, 1, 0]);
    }
}

#[test]
fn a_nonce_of_the_past_does_not_open_a_record_again() {
    let mut sealer = RecordSealer::new(TlsVersion::Tls12, 0, &secrets()).expect("known");
    let mut opener = RecordOpener::new(TlsVersion::Tls12, 0, &secrets()).expect("known");
    let mut record = vec![1; RecordFormat::Tls12Gcm.overhead() + 100];
    sealer.seal(ContentType::Data, &mut record);
    let mut again = record.clone();
    assert!(opener.open(&mut record).is_ok());
    assert!(opener.open(&mut again).is_err());
}
