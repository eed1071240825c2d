//! A request that never returns while others on its connection do.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Errno, Range, WriteFlags};
use futures_util::future::join_all;
use testkit::single;

use super::fake::{Act, Fake};
use super::{connect, in_engine, poll_once, short_limits};
use crate::client::{Client, ClientConfig};

const MIB: u64 = 1 << 20;

/// Reads elsewhere, all of which are answered, until `done` is true.
async fn keep_busy(client: &Client, mut done: impl FnMut() -> bool) {
    while !done() {
        client.read(Range::new(4096, 512)).await.unwrap();
        engine::clock::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn a_request_without_an_answer_costs_its_connection_and_is_sent_again() {
    in_engine(|| async {
        let fake = Fake::scripted(MIB, |connection, request| match request.offset {
            0 if connection == 1 => Act::Silence,
            _ => Act::Serve,
        });
        let client = connect(&fake, short_limits()).await;
        let data = single(vec![7; 512]);
        let mut write = client.write(Range::new(0, 512), data, WriteFlags::empty());
        assert!(poll_once(&mut write).await.is_pending());
        keep_busy(&client, || client.health().reconnects > 0).await;
        write.await.unwrap();
        assert_eq!(fake.world().live[0], 7);
        let health = client.health();
        assert_eq!(health.reconnects, 1);
        let error = health.last_error.unwrap();
        assert!(error.contains("had no answer within 1 s"), "{error}");
    });
}

#[test]
fn a_request_that_is_never_answered_fails_alone_and_in_time() {
    in_engine(|| async {
        let fake = Fake::scripted(MIB, |_, request| match request.offset {
            0 => Act::Silence,
            _ => Act::Serve,
        });
        let config = ClientConfig {
            request_timeout: Duration::from_millis(200),
            reconnect_for: Duration::from_millis(500),
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        let mut stuck = client.read(Range::new(0, 512));
        assert!(poll_once(&mut stuck).await.is_pending());
        let mut result = None;
        while result.is_none() {
            client.read(Range::new(4096, 512)).await.unwrap();
            engine::clock::sleep(Duration::from_millis(5)).await;
            if let std::task::Poll::Ready(over) = poll_once(&mut stuck).await {
                result = Some(over);
            }
        }
        let error = result.unwrap().unwrap_err();
        assert_eq!(error.errno, Errno::Io);
        let text = error.to_string();
        assert!(text.contains("sent again and again for"), "{text}");
        assert!(text.contains("had no answer within 0.2 s"), "{text}");
        assert!(client.health().reconnects >= 2);
        client.read(Range::new(8192, 512)).await.unwrap();
    });
}

/// A client with two connections and half a second for a request.
async fn connect_twice(fake: &Fake) -> Arc<Client> {
    let config = ClientConfig {
        connections: 2,
        request_timeout: Duration::from_millis(500),
        ..short_limits()
    };
    connect(fake, config).await
}

/// Both connections are there, and are those that it began with.
#[track_caller]
fn assert_both_were_kept(client: &Client) {
    let health = client.health();
    assert_eq!((health.connections, health.reconnects), (2, 0));
}

#[test]
fn a_request_is_given_the_time_of_what_is_in_flight_on_other_connections_too() {
    in_engine(|| async {
        let large = MIB / 2;
        let silent = [0, 1024, large];
        let fake = Fake::scripted(MIB, move |_, request| {
            if silent.contains(&request.offset) {
                return Act::Silence;
            }
            Act::Serve
        });
        let client = connect_twice(&fake).await;
        let mut first = client.read(Range::new(0, large));
        assert!(poll_once(&mut first).await.is_pending());
        // The other connection has nothing else yet.
        let mut small = client.read(Range::new(1024, 512));
        assert!(poll_once(&mut small).await.is_pending());
        engine::clock::sleep(Duration::from_millis(50)).await;
        let mut second = client.read(Range::new(large, large));
        assert!(poll_once(&mut second).await.is_pending());
        // Bytes move on both of them.
        let begun = engine::clock::now();
        while begun.elapsed() < Duration::from_secs(1) {
            let reads = (0..4).map(|_| client.read(Range::new(4096, 4096)));
            for read in join_all(reads).await {
                read.unwrap();
            }
            engine::clock::sleep(Duration::from_millis(5)).await;
        }
        assert_both_were_kept(&client);
    });
}

#[test]
fn a_connection_may_be_silent_while_another_one_is_served() {
    in_engine(|| async {
        let large = MIB / 2;
        let fake = Fake::scripted(MIB, |_, request| match request.offset {
            0 => Act::Silence,
            _ => Act::Serve,
        });
        let client = connect_twice(&fake).await;
        let mut first = client.read(Range::new(0, large));
        assert!(poll_once(&mut first).await.is_pending());
        let begun = engine::clock::now();
        keep_busy(&client, || begun.elapsed() > Duration::from_secs(1)).await;
        assert_both_were_kept(&client);
    });
}
