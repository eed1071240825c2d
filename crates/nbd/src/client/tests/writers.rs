//! Identity and access mode that a client sends, the identity of the disk that it gets, and refusals for another writer.

use std::time::Duration;

use block::{BlockDevice, Range};
use nbd_proto::{
    AccessMode, BUSY, ClientToken, DiskIdentity, FENCED, Framing, Refusal, TransmissionFlags,
    WriterAccess, WriterPolicy,
};

use super::fake::Fake;
use super::{connect, in_engine, short_limits};
use crate::client::{Client, ClientConfig, ClientError, dial};

const MIB: u64 = 1 << 20;

/// Modes in the order they were sent, and the token if all sent the same.
fn sent_access(fake: &Fake) -> (Vec<AccessMode>, Option<ClientToken>) {
    let writers = std::mem::take(&mut fake.world().writers);
    let writers: Vec<WriterAccess> = writers.into_iter().map(Option::unwrap).collect();
    let token = writers[0].token;
    let is_one = writers.iter().all(|writer| writer.token == token);
    let modes = writers.iter().map(|writer| writer.mode).collect();
    (modes, is_one.then_some(token))
}

#[test]
fn the_connections_of_a_client_share_a_token_and_only_the_first_claims() {
    use AccessMode::{Read, Resume, Write};
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let config = ClientConfig {
            connections: 3,
            ..short_limits()
        };
        let client = connect(&fake, config.clone()).await;
        let (modes, token) = sent_access(&fake);
        assert_eq!(modes, [Write, Resume, Resume]);
        assert!(token.is_some());

        // What it was it resumes when the server is back.
        fake.stop().await;
        fake.listen();
        client.read(Range::new(0, 512)).await.unwrap();
        assert_eq!(sent_access(&fake), (vec![Resume, Resume, Resume], token));

        // Another client is another one, and one that only reads claims nothing.
        let reader = ClientConfig {
            read_only: true,
            ..config
        };
        let _reader = connect(&fake, reader).await;
        let (modes, other) = sent_access(&fake);
        assert_eq!(modes, [Read, Read, Read]);
        assert!(other.is_some() && other != token);
    });
}

#[test]
fn a_client_sends_the_access_of_its_configuration() {
    use AccessMode::{Resume, Shared, Takeover};
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let token = ClientToken::new([7; 16]);
        for (mode, expected) in [
            (Takeover, [Takeover, Resume]),
            (Resume, [Resume, Resume]),
            (Shared, [Shared, Shared]),
        ] {
            let config = ClientConfig {
                connections: 2,
                writer: Some(WriterAccess { token, mode }),
                ..short_limits()
            };
            let _client = connect(&fake, config).await;
            assert_eq!(sent_access(&fake), (expected.to_vec(), Some(token)));
        }
    });
}

#[test]
fn a_dialed_connection_sends_its_token_and_gets_the_identity_of_the_disk() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let disk = DiskIdentity {
            identity: "file:1:2:3".parse().ok(),
            incarnation: Some(5),
            writers: Some(WriterPolicy::One),
            is_fenced: false,
        };
        fake.world().disk = disk.clone();
        let writer = WriterAccess {
            token: ClientToken::new([7; 16]),
            mode: AccessMode::Write,
        };
        // The kernel's client has simple replies only.
        for framing in [Framing::Simple, Framing::Extended] {
            fake.world().framing = framing;
            let timeout = Duration::from_secs(1);
            let dialed = dial(&fake.target(), false, Some(writer), timeout).await;
            let dialed = dialed.unwrap();
            assert_eq!(dialed.disk(), &disk);
            assert!(!dialed.structured());
        }
        assert_eq!(fake.world().writers, [Some(writer); 2]);
    });
}

#[test]
fn a_refusal_for_another_writer_has_a_name_of_its_own() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let mut refused = Vec::new();
        for text in [
            format!("{BUSY} by 10.0.0.1 since noon"),
            format!("{FENCED} 10.0.0.1 took over writing at noon"),
            "not from there".to_owned(),
        ] {
            fake.world().refuses = Some(Refusal::Policy(text));
            let config = ClientConfig::default();
            refused.push(Client::connect(fake.target(), config).await.unwrap_err());
        }
        let is_expected = matches!(
            &refused[..],
            [
                ClientError::Busy { .. },
                ClientError::Fenced { .. },
                ClientError::Handshake { .. }
            ]
        );
        assert!(is_expected, "{refused:?}");
        let text = refused[0].to_string();
        assert!(
            text.ends_with(": already attached for writing by 10.0.0.1 since noon"),
            "{text}"
        );
    });
}

#[test]
fn a_server_that_allows_one_connection_gets_no_further_ones() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        fake.world().export.flags -= TransmissionFlags::CAN_MULTI_CONN;
        let _client = connect(&fake, short_limits()).await;
        assert_eq!(sent_access(&fake).0, [AccessMode::Write]);
    });
}
