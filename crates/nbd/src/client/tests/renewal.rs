//! New connections for a new size, where something is in their way. In virtual time.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Range, WriteFlags};
use nbd_proto::Command;
use testkit::{gather, single};
use tokio::sync::Notify;

use super::fake::{Act, Fake};
use super::{poll_once, short_limits, until};
use crate::client::{Client, ClientConfig, ClientError, Target};

const MIB: u64 = 1 << 20;
const RANGE: Range = Range::new(1 << 19, 512);
/// Virtual: as good as for ever.
const LIMIT: Duration = Duration::from_secs(3600);

/// Runs a test on a clock that skips what nothing happens in.
fn in_virtual_time<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let test = engine::clock::timeout(LIMIT, test());
        test.await.expect("it waits for ever");
    });
}

/// Both servers, in this order.
fn both(first: &Fake, second: &Fake) -> Target {
    Target {
        others: vec![second.target().address],
        ..first.target()
    }
}

async fn write(client: &Client) {
    let data = single(vec![7; 512]);
    let written = client.write(RANGE, data, WriteFlags::empty()).await;
    written.unwrap();
}

/// The flush that comes before was never answered, so that the client connected again to send it again, and again; and each request of a
/// caller waited behind.
#[test]
fn a_server_that_answers_no_flush_keeps_its_connections() {
    in_virtual_time(|| async {
        let one = Fake::scripted(MIB, |_, request| match request.command {
            Command::Flush => Act::Silence,
            _ => Act::Serve,
        });
        let two = Fake::start(MIB);
        let config = short_limits();
        let client = Client::connect(both(&one, &two), config.clone());
        let client = client.await.unwrap();
        write(&client).await;
        one.resize(2 * MIB);
        let begun = engine::clock::now();
        let error = client.refresh_size().await.unwrap_err();
        assert!(matches!(error, ClientError::NotRenewed { .. }), "{error}");
        let took = engine::clock::now().duration_since(begun);
        assert!(took >= config.request_timeout, "{took:?}");
        assert!(took < 2 * config.request_timeout, "{took:?}");
        // What is read is what was written: nothing was given up.
        let read = client.read(RANGE).await.unwrap();
        assert_eq!(gather(&read), vec![7; 512]);
        assert_eq!(client.geometry().size, MIB);
        assert_eq!(client.health().failed, None);
        assert_eq!(two.world().connections, 0);
    });
}

/// The same for what a caller has in flight: one that waits for a slow disk does not keep the others waiting behind the renewal.
#[test]
fn a_request_that_takes_long_does_not_hold_the_others_up_for_longer_than_its_timeout() {
    in_virtual_time(|| async {
        let fake = Fake::scripted(MIB, |_, request| match request.command {
            Command::Flush => Act::Silence,
            _ => Act::Serve,
        });
        let config = ClientConfig {
            flush_timeout: Duration::from_secs(600),
            ..short_limits()
        };
        let client = Client::connect(fake.target(), config.clone());
        let client = client.await.unwrap();
        let mut flush = client.flush();
        assert!(poll_once(&mut flush).await.is_pending());
        let arrives = || fake.world().commands() == [Command::Flush];
        until("the flush arrives", arrives).await;
        fake.resize(2 * MIB);
        let error = client.refresh_size().await.unwrap_err();
        assert!(matches!(error, ClientError::NotRenewed { .. }), "{error}");
        client.read(RANGE).await.unwrap();
        assert_eq!(client.health().reconnects, 0);
    });
}

/// A server was once lost with a write in flight and is in doubt from then on. It ended while connections to it were made again for a new
/// size: after their goodbye nothing showed that, and the client waited for that server alone, for ever.
#[test]
fn an_old_doubt_is_over_when_the_server_ends_instead_of_taking_new_connections() {
    in_virtual_time(|| async {
        let flushes = Arc::new(Notify::new());
        let flushed = Arc::clone(&flushes);
        let one = Fake::scripted(MIB, move |connection, request| match request.command {
            Command::Write if connection == 1 => Act::Silence,
            Command::Flush => Act::After(Arc::clone(&flushed)),
            _ => Act::Serve,
        });
        one.world().disk.incarnation = Some(1);
        let two = Fake::start(MIB);
        let client = Client::connect(both(&one, &two), short_limits());
        let client = client.await.unwrap();
        write(&client).await;
        assert_eq!(client.health().reconnects, 1);
        one.resize(2 * MIB);
        two.resize(2 * MIB);
        two.world().live[1 << 19..][..512].fill(7);
        let refresh = client.refresh_size();
        let ends = async {
            let is_known = || one.world().commands().last() == Some(&Command::Flush);
            until("the size is known", is_known).await;
            one.world().greeted_max = 0;
            flushes.notify_one();
            let is_lost = |error: String| error.contains("no other server is used");
            let lost = || client.health().last_error.is_some_and(is_lost);
            until("it takes no connection", lost).await;
            one.stop().await;
        };
        let (size, ()) = futures_util::future::join(refresh, ends).await;
        assert_eq!(size.unwrap(), 2 * MIB);
        assert_eq!(client.health().server, two.target().to_string());
        let read = client.read(RANGE).await.unwrap();
        assert_eq!(gather(&read), vec![7; 512]);
    });
}
