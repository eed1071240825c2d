//! An export that grows while it is used, and one that shrinks.

use block::{BlockDevice, Range, WriteFlags};
use nbd_proto::{TransmissionFlags, WireError};
use testkit::{gather, single};

use super::fake::{Act, Fake};
use super::{connect, in_engine, poll_once, short_limits, until};
use crate::client::{Changed, Client, ClientConfig, ClientError};

const MIB: u64 = 1 << 20;

async fn write(client: &Client, offset: u64, byte: u8) {
    let range = Range::new(offset, 512);
    let write = client.write(range, single(vec![byte; 512]), WriteFlags::empty());
    write.await.unwrap();
}

/// Its connections hold on to the size that they were made with.
fn grown_only_for_the_new(connections: usize) -> Fake {
    Fake::scripted(MIB, move |nth, request| {
        match request.offset >= MIB && nth <= connections {
            true => Act::Refuse(WireError::NoSpace, "beyond the end"),
            false => Act::Serve,
        }
    })
}

#[test]
fn a_larger_size_is_found_by_a_refresh_and_used_over_new_connections() {
    in_engine(|| async {
        let fake = grown_only_for_the_new(3);
        let config = ClientConfig {
            connections: 3,
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        assert_eq!(client.refresh_size().await.unwrap(), MIB);
        assert_eq!(client.health().reconnects, 0, "nothing has changed");
        write(&client, 0, 1).await;
        fake.resize(2 * MIB + 100);
        assert_eq!(client.geometry().size, MIB);
        assert_eq!(client.refresh_size().await.unwrap(), 2 * MIB + 100);
        assert_eq!(client.geometry().size, 2 * MIB + 100);
        assert_eq!(client.health().size, 2 * MIB + 100);
        write(&client, 2 * MIB - 512, 2).await;
        assert_eq!(fake.world().live[(2 << 20) - 512], 2);
        until("three goodbyes", || fake.world().goodbyes == 3).await;
        let health = client.health();
        assert_eq!((health.connections, health.last_error), (3, None));
    });
}

#[test]
fn what_is_in_flight_is_finished_before_the_connections_are_made_again() {
    in_engine(|| async {
        let told = std::sync::Arc::new(tokio::sync::Notify::new());
        let tell = std::sync::Arc::clone(&told);
        let fake = Fake::scripted(MIB, move |nth, request| match request.offset {
            0 if nth == 1 => Act::After(std::sync::Arc::clone(&tell)),
            _ => Act::Serve,
        });
        fake.world().export.flags -= TransmissionFlags::CAN_MULTI_CONN;
        let client = connect(&fake, ClientConfig::default()).await;
        write(&client, 4096, 3).await;
        let mut slow = client.write(
            Range::new(0, 512),
            single(vec![7; 512]),
            WriteFlags::empty(),
        );
        assert!(poll_once(&mut slow).await.is_pending());
        until("the write arrives", || fake.world().log.len() == 2).await;
        fake.resize(2 * MIB);
        let mut refresh = Box::pin(client.refresh_size());
        assert!(poll_once(&mut refresh).await.is_pending());
        engine::clock::sleep(std::time::Duration::from_millis(50)).await;
        assert_eq!(fake.world().connections, 1);
        told.notify_one();
        slow.await.unwrap();
        assert_eq!(refresh.await.unwrap(), 2 * MIB);
        let read = client.read(Range::new(0, 512)).await.unwrap();
        assert_eq!(gather(&read), vec![7; 512]);
        // A flush on the new connection alone need not cover what the old one wrote.
        let log = fake.world().log.clone();
        let rewritten: Vec<u64> = log[2..4].iter().map(|request| request.offset).collect();
        assert_eq!(rewritten, [4096, 0]);
    });
}

#[test]
fn a_caller_that_keeps_a_size_gets_the_new_one_by_remeasuring() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = connect(&fake, short_limits()).await;
        assert!(client.revalidate().await.unwrap().is_none());
        fake.resize(2 * MIB);
        // Also when the client itself has seen it already.
        client.refresh_size().await.unwrap();
        let revalidated = client.revalidate().await.unwrap().unwrap();
        assert_eq!(revalidated.geometry().size, 2 * MIB);
        assert!(revalidated.revalidate().await.unwrap().is_none());
        write(&client, MIB, 5).await;
        let read = revalidated.read(Range::new(MIB, 512)).await.unwrap();
        assert_eq!(gather(&read), vec![5; 512]);
        // One session: it ends with the last of them.
        drop(client);
        revalidated.flush().await.unwrap();
        assert_eq!(fake.world().goodbyes, 1);
        drop(revalidated);
        until("the goodbye", || fake.world().goodbyes == 2).await;
    });
}

#[test]
fn a_smaller_size_is_refused_and_the_client_goes_on() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = connect(&fake, short_limits()).await;
        fake.world().export.size = MIB / 2;
        let error = client.refresh_size().await.unwrap_err();
        let changed = Changed::Size {
            was: MIB,
            is: MIB / 2,
        };
        assert!(
            matches!(&error, ClientError::Changed { changed: is, .. } if *is == changed),
            "{error}"
        );
        let error = client.revalidate().await.unwrap_err();
        assert!(error.to_string().contains("and has 524288"), "{error}");
        assert_eq!(client.geometry().size, MIB);
        write(&client, 0, 1).await;
        assert_eq!(client.health().reconnects, 0);
    });
}

#[test]
fn an_export_that_comes_back_larger_has_grown() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let config = ClientConfig {
            reconnect_for: std::time::Duration::from_secs(2),
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        write(&client, 0, 9).await;
        fake.lose_power().await;
        fake.resize(3 * MIB);
        fake.listen();
        let read = client.read(Range::new(0, 512)).await.unwrap();
        assert_eq!(gather(&read), vec![9; 512], "the journal was written again");
        assert_eq!(client.geometry().size, 3 * MIB);
        write(&client, 3 * MIB - 512, 4).await;
        // And from there it must not shrink either.
        fake.stop().await;
        fake.world().export.size = 2 * MIB;
        fake.listen();
        let error = client
            .read(Range::new(0, 512))
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("it had 3145728 bytes and has 2097152"),
            "{error}"
        );
    });
}

#[test]
fn a_refresh_of_the_size_fails_when_the_server_is_lost_or_the_client_is_closed() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let config = ClientConfig {
            reconnect_for: std::time::Duration::from_millis(300),
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        fake.stop().await;
        let error = client.refresh_size().await.unwrap_err();
        assert!(matches!(error, ClientError::Connect { .. }), "{error}");
        client.close().await;
        fake.resize(2 * MIB);
        fake.listen();
        let error = client.refresh_size().await.unwrap_err();
        assert!(matches!(error, ClientError::ShutDown { .. }), "{error}");
    });
}
