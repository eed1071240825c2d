//! What happens until [`Client::connect`] returns: which disk it is was read.
//!
//! A client was handed out before that. When its server was lost before the first read was answered, what callers had
//! queued went to the next server at the address, and with it to another disk.

use std::time::Duration;

use block::Range;
use nbd_proto::{AccessMode, Command, DiskIdentity};

use super::fake::{Act, Fake};
use super::{connect, in_engine, short_limits};
use crate::client::{Client, ClientConfig, ClientError};

const MIB: u64 = 1 << 20;

/// A server of others, whose script also gets the reads of the first verification.
fn scripted(script: impl FnMut(usize) -> Act + Send + 'static) -> Fake {
    let fake = Fake::start(MIB);
    let mut script = script;
    let mut world = fake.world();
    world.disk = DiskIdentity::default();
    world.regions = vec![Range::new(0, 1)];
    world.script = Box::new(move |connection, _| script(connection));
    drop(world);
    fake
}

#[test]
fn a_client_is_handed_out_once_its_disk_was_read() {
    in_engine(|| async {
        let fake = scripted(|_| Act::Serve);
        let client = connect(&fake, short_limits()).await;
        let reads = fake.world().commands();
        assert!(!reads.is_empty() && reads.iter().all(|command| *command == Command::Read));
        assert!(client.health().connected);
    });
}

#[test]
fn connections_that_are_lost_before_the_disk_was_read_are_made_again() {
    in_engine(|| async {
        let fake = scripted(|connection| match connection {
            1 | 2 => Act::Hangup,
            _ => Act::Serve,
        });
        let client = connect(&fake, short_limits()).await;
        assert_eq!(fake.world().connections, 3);
        // Nothing of the first ones is left: they were no client yet.
        assert_eq!(client.health().reconnects, 0);
        assert_eq!(client.health().last_error, None);
        let writers = std::mem::take(&mut fake.world().writers);
        let modes: Vec<_> = writers.iter().map(|writer| writer.unwrap().mode).collect();
        let resume = AccessMode::Resume;
        assert_eq!(modes, [AccessMode::Write, resume, resume]);
    });
}

#[test]
fn a_disk_that_is_never_read_fails_the_connect_in_time() {
    in_engine(|| async {
        let fake = scripted(|_| Act::Hangup);
        let config = ClientConfig {
            request_timeout: Duration::from_millis(500),
            ..short_limits()
        };
        let error = Client::connect(fake.target(), config).await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.ends_with("while reading what identifies the disk"),
            "{text}"
        );
        assert!(fake.world().connections > 1);

        // A server that hangs is not connected to again: its time is up.
        let fake = scripted(|_| Act::Silence);
        let error = Client::connect(fake.target(), short_limits()).await;
        let error = error.unwrap_err();
        let ClientError::FirstVerification { last } = &error else {
            panic!("{error}");
        };
        assert!(matches!(**last, ClientError::Silent { .. }), "{error}");
        assert_eq!(fake.world().connections, 1);
    });
}

#[test]
fn a_server_that_breaks_the_protocol_is_not_connected_to_again() {
    in_engine(|| async {
        let fake = scripted(|_| Act::Raw(vec![0xff; 32]));
        let error = Client::connect(fake.target(), short_limits()).await;
        let error = error.unwrap_err();
        assert!(error.to_string().contains("broke the protocol"), "{error}");
        assert_eq!(fake.world().connections, 1);
    });
}

#[test]
fn a_server_that_is_gone_when_the_disk_is_read_is_waited_for() {
    in_engine(|| async {
        let fake = scripted(|_| Act::Silence);
        let config = ClientConfig {
            request_timeout: Duration::from_secs(5),
            ..short_limits()
        };
        let connecting = engine::spawn(Client::connect(fake.target(), config));
        super::until("a read arrives", || !fake.world().log.is_empty()).await;
        fake.stop().await;
        fake.world().script = Box::new(|_, _| Act::Serve);
        engine::clock::sleep(Duration::from_millis(200)).await;
        fake.listen();
        let client = connecting.await.unwrap();
        assert!(client.unwrap().health().connected);
    });
}
