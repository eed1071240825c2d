//! A server that goes away and comes back.

use std::time::Duration;

use block::{BlockDevice, Errno, Range, WriteFlags};
use nbd_proto::TransmissionFlags;
use testkit::{gather, single};

use super::fake::{Act, Fake};
use super::{connect, in_engine, poll_once, short_limits, until};
use crate::client::session::reconnect::Reconnect;
use crate::client::{Client, ClientConfig, ClientError, Target};

const MIB: u64 = 1 << 20;

#[test]
fn requests_wait_for_a_server_that_comes_back() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let config = ClientConfig {
            connections: 3,
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        client.read(Range::new(0, 512)).await.unwrap();
        fake.stop().await;
        let mut read = client.read(Range::new(0, 512));
        let range = Range::new(512, 512);
        let mut write = client.write(range, single(vec![7; 512]), WriteFlags::empty());
        assert!(poll_once(&mut read).await.is_pending());
        assert!(poll_once(&mut write).await.is_pending());
        until("the loss is seen", || client.health().gone_for.is_some()).await;
        assert!(!client.health().connected);
        engine::clock::sleep(Duration::from_millis(300)).await;
        assert!(poll_once(&mut read).await.is_pending());
        fake.listen();
        read.await.unwrap();
        write.await.unwrap();
        assert_eq!(fake.world().live[512], 7);
        let health = client.health();
        assert!(health.connected && health.gone_for.is_none());
        assert_eq!((health.reconnects, health.connections), (1, 3));
    });
}

#[test]
fn requests_fail_when_the_server_stays_away_and_work_when_it_is_back_at_last() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let config = ClientConfig {
            reconnect_for: Duration::from_millis(300),
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        fake.stop().await;
        let range = Range::new(0, 512);
        let error = client.read(range).await.unwrap_err();
        assert_eq!(error.errno, Errno::Io);
        let text = error.to_string();
        assert!(text.contains("the server has been gone for "), "{text}");
        assert!(text.contains("cannot connect"), "{text}");
        // From now on they fail at once: if each waited, they would take three times as long.
        let failing = async {
            for _ in 0..100 {
                client.read(range).await.unwrap_err();
            }
        };
        let failed = engine::clock::timeout(Duration::from_secs(10), failing).await;
        failed.expect("none of them waits");
        fake.listen();
        until("it is back", || client.health().connections == 1).await;
        client.read(range).await.unwrap();
    });
}

/// Everything fails with the reason when its time is over, and nothing is sent to the server until the export is as it
/// was.
async fn waits_for_the_export(fake: &Fake, client: &Client, reason: &str) {
    let export = fake.world().export.clone();
    let before = fake.world().log.len();
    fake.listen();
    let error = client.read(Range::new(0, 512)).await.unwrap_err();
    assert!(error.to_string().contains(reason), "{error}");
    let write = client.write(
        Range::new(0, 512),
        single(vec![1; 512]),
        WriteFlags::empty(),
    );
    assert!(write.await.unwrap_err().to_string().contains(reason));
    assert_eq!(fake.world().log.len(), before);
    let health = client.health();
    assert!(health.last_error.unwrap().contains(reason));
    assert_eq!((health.connected, health.failed), (false, None));
    fake.world().export = client.export().clone();
    until("the right disk is back", || client.health().connected).await;
    client.read(Range::new(0, 512)).await.unwrap();
    fake.world().export = export;
}

/// Requests wait for 300 ms.
fn hasty() -> ClientConfig {
    ClientConfig {
        reconnect_for: Duration::from_millis(300),
        ..short_limits()
    }
}

/// A server that was restarted before its disk was ready had a smaller one for some seconds. The client took that
/// for another disk and never came back, though all was flushed.
#[test]
fn an_export_that_comes_back_smaller_for_a_moment_is_waited_for() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = connect(&fake, short_limits()).await;
        let write = |byte| client.write(Range::new(0, 1), single(vec![byte]), WriteFlags::empty());
        write(7).await.unwrap();
        for flushed in [true, false] {
            if flushed {
                client.flush().await.unwrap();
            }
            fake.lose_power().await;
            fake.world().export.size = 0;
            let before = fake.world().log.len();
            fake.listen();
            let mut read = client.read(Range::new(0, 512));
            assert!(poll_once(&mut read).await.is_pending());
            let is_it = |error: String| error.contains("and has 0");
            let seen = || client.health().last_error.is_some_and(is_it);
            until("the wrong size is seen", seen).await;
            assert_eq!(fake.world().log.len(), before);
            fake.world().export.size = MIB;
            assert_eq!(gather(&read.await.unwrap())[0], 7);
            write(7).await.unwrap();
        }
        client.flush().await.unwrap();
        assert_eq!(fake.world().durable[0], 7);
    });
}

#[test]
fn an_export_that_comes_back_smaller_is_not_touched() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = connect(&fake, hasty()).await;
        fake.stop().await;
        fake.world().export.size = MIB - 512;
        let reason = "it had 1048576 bytes and has 1048064";
        waits_for_the_export(&fake, &client, reason).await;
    });
}

#[test]
fn an_export_that_comes_back_without_its_abilities_is_not_touched() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = connect(&fake, hasty()).await;
        fake.stop().await;
        fake.world().export.flags -= TransmissionFlags::SEND_FLUSH;
        waits_for_the_export(&fake, &client, "it no longer has SEND_FLUSH").await;
    });
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = connect(&fake, hasty()).await;
        fake.stop().await;
        fake.world().export.flags |= TransmissionFlags::READ_ONLY;
        waits_for_the_export(&fake, &client, "it is read-only now").await;
    });
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = connect(&fake, hasty()).await;
        fake.stop().await;
        fake.world().export.block_size_min = 4096;
        waits_for_the_export(&fake, &client, "its blocks were 1 bytes and are 4096").await;
    });
}

#[test]
fn a_server_that_dies_over_and_over_loses_and_repeats_nothing() {
    in_engine(|| async {
        // Every connection serves 5 requests and then hangs up without an answer.
        let mut served = 0;
        let fake = Fake::scripted(MIB, move |_, _| {
            served += 1;
            match served % 6 {
                0 => Act::Hangup,
                _ => Act::Serve,
            }
        });
        let config = ClientConfig {
            connections: 2,
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        for block in 0..64_u8 {
            let range = Range::new(u64::from(block) * 4096, 4096);
            let data = single(vec![block; 4096]);
            let write = client.write(range, data, WriteFlags::empty());
            write.await.unwrap();
            // More than it serves in one life can never be written again.
            if block % 3 == 2 {
                client.flush().await.unwrap();
            }
        }
        client.flush().await.unwrap();
        for block in 0..64_u8 {
            let range = Range::new(u64::from(block) * 4096, 4096);
            let read = gather(&client.read(range).await.unwrap());
            assert_eq!(read, vec![block; 4096]);
        }
        assert!(client.health().reconnects > 5);
    });
}

#[test]
fn closing_while_the_server_is_away_does_not_wait_for_it() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = connect(&fake, short_limits()).await;
        fake.stop().await;
        let mut read = client.read(Range::new(0, 512));
        assert!(poll_once(&mut read).await.is_pending());
        client.close().await;
        assert_eq!(read.await.unwrap_err().errno, Errno::ShuttingDown);
    });
}

#[test]
fn closing_does_not_wait_for_a_silent_server_for_ever() {
    in_engine(|| async {
        let fake = Fake::scripted(MIB, |_, _| Act::Silence);
        let client = connect(&fake, short_limits()).await;
        let mut read = client.read(Range::new(0, 512));
        assert!(poll_once(&mut read).await.is_pending());
        client.close().await;
        assert_eq!(read.await.unwrap_err().errno, Errno::ShuttingDown);
    });
}

#[test]
fn an_outage_lasts_from_the_first_error_until_a_caller_is_answered() {
    let target: Target = "nbd://disk.example/".parse().unwrap();
    let closed = || ClientError::Closed {
        target: target.clone(),
    };
    let shutdown = ClientError::ServerShutdown {
        target: target.clone(),
    };
    let begin = engine::clock::now();
    let mut reconnect = Reconnect::default();
    assert!(reconnect.outage().is_none());
    reconnect.note(shutdown, begin);
    reconnect.note(closed(), begin + Duration::from_secs(3));
    let last = |reconnect: &Reconnect| reconnect.outage().unwrap().last.to_string();
    assert_eq!(last(&reconnect), closed().to_string());
    reconnect.attempt_failed();
    // Connections that were made may be lost before they are of use.
    reconnect.attempt_succeeded();
    assert_eq!(reconnect.count(), 1);
    let outage = reconnect.outage().unwrap();
    assert_eq!(outage.since, begin);
    assert!(matches!(outage.last, ClientError::Closed { .. }));
    reconnect.end_outage(begin + Duration::from_secs(7));
    assert!(reconnect.outage().is_none());
    assert_eq!(reconnect.count(), 1);
    assert_eq!(reconnect.outages_ended(), Duration::from_secs(7));
    // A reply without an outage ends none; the next outage adds to the first.
    reconnect.end_outage(begin + Duration::from_secs(8));
    reconnect.note(closed(), begin + Duration::from_secs(10));
    assert_eq!(reconnect.outages_ended(), Duration::from_secs(7));
    reconnect.end_outage(begin + Duration::from_secs(12));
    assert_eq!(reconnect.outages_ended(), Duration::from_secs(9));
}
