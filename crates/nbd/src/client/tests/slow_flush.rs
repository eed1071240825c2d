//! A server whose disk takes longer for a flush than requests may take, and one that is gone.
//!
//! An SD card under a GiB of page cache took minutes for one fdatasync. The client took the silence for a lost
//! connection, made it again, wrote again, flushed again, until the flush failed and the filesystem went
//! read-only.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, IoError, IoFuture, Range, WriteFlags};
use futures_util::future::{join, join3, try_join_all};
use nbd_proto::Command;
use testkit::single;
use tokio::sync::Notify;

use super::fake::{Act, Fake};
use super::wire::Wire;
use super::{connect, in_engine, poll_once, short_limits, until};
use crate::client::{Client, ClientConfig};

const MIB: u64 = 1 << 20;
/// Within which requests are answered.
const LIMIT: Duration = Duration::from_millis(500);
/// Where most of them are.
const PLACE: Range = Range::new(0, 512);

fn hasty() -> ClientConfig {
    ClientConfig {
        request_timeout: LIMIT,
        flush_timeout: Duration::from_secs(60),
        ..short_limits()
    }
}

/// A server that carries some requests out after a notification, and takes up nothing behind one of these on the same
/// connection. `script` gets that act, too.
fn scripted(size: u64, script: fn(usize, Command, Act) -> Act) -> (Fake, Arc<Notify>) {
    let told = Arc::new(Notify::new());
    let tell = Arc::clone(&told);
    let fake = Fake::scripted(size, move |connection, request| {
        script(connection, request.command, Act::After(Arc::clone(&told)))
    });
    (fake, tell)
}

/// Flushes are carried out after a notification.
fn flushes_when_notified(_: usize, command: Command, when_notified: Act) -> Act {
    match command {
        Command::Flush => when_notified,
        _ => Act::Serve,
    }
}

async fn until_sent(fake: &Fake, command: Command) {
    until("it is asked", || fake.world().commands().contains(&command)).await;
}

/// A client over TCP that waits `limit` for replies.
async fn connect_over(wire: &Wire, limit: Duration) -> Arc<Client> {
    let config = ClientConfig {
        request_timeout: limit,
        ..hasty()
    };
    Client::connect(wire.target(), config).await.unwrap()
}

fn write_sevens(client: &Client, range: Range) -> IoFuture<'_, ()> {
    let data = single(vec![7; range.len_usize()]);
    client.write(range, data, WriteFlags::empty())
}

/// Waits for so long for what the server does not answer.
async fn wait_in_vain(time: Duration, asked: impl Future + Unpin) {
    let answered = engine::clock::timeout(time, asked).await;
    assert!(answered.is_err(), "the server has not answered");
}

/// How long it takes until a request is answered, well.
async fn time_of<T>(asked: impl Future<Output = Result<T, IoError>>) -> Duration {
    let begun = engine::clock::now();
    drop(asked.await.unwrap());
    engine::clock::now().duration_since(begun)
}

/// One connection was lost, because of `why`, and made again.
fn assert_lost_once(fake: &Fake, client: &Client, why: &str) {
    assert_eq!(fake.world().connections, 2);
    let error = client.health().last_error.unwrap();
    assert!(error.contains(why), "{error}");
}

/// The connections that it began with are the ones it has.
fn assert_never_lost(fake: &Fake, client: &Client, connections: usize) {
    let health = client.health();
    assert_eq!((health.reconnects, health.last_error), (0, None));
    assert!(!health.flush_failed);
    assert_eq!(fake.world().connections, connections);
}

#[test]
fn a_flush_of_four_times_the_limit_succeeds_and_so_does_what_waits_behind_it() {
    in_engine(|| async {
        let (fake, tell) = scripted(MIB, flushes_when_notified);
        let client = connect(&fake, hasty()).await;
        write_sevens(&client, PLACE).await.unwrap();
        let mut both = join(client.flush(), client.read(PLACE));
        wait_in_vain(4 * LIMIT, &mut both).await;
        assert_eq!(fake.world().durable[0], 0);
        tell.notify_one();
        let (flush, read) = both.await;
        flush.unwrap();
        read.unwrap();
        assert_eq!(fake.world().durable[0], 7);
        assert_never_lost(&fake, &client, 1);
    });
}

#[test]
fn a_flush_on_one_connection_suspends_the_limits_of_the_others_too() {
    in_engine(|| async {
        let (fake, tell) = scripted(MIB, |_, command, when_notified| match command {
            Command::Flush | Command::Read => when_notified,
            _ => Act::Serve,
        });
        let config = ClientConfig {
            connections: 2,
            ..hasty()
        };
        let client = connect(&fake, config).await;
        // So much in flight on the first connection that the rest goes to the second one.
        let large = client.read(Range::new(0, MIB / 2));
        let mut all = join3(large, client.flush(), client.read(PLACE));
        wait_in_vain(4 * LIMIT, &mut all).await;
        assert_eq!(fake.world().log.len(), 2, "one on each connection");
        tell.notify_waiters();
        // What was behind the flush is taken up now.
        until("the last one is asked", || fake.world().log.len() == 3).await;
        tell.notify_one();
        let (large, flush, small) = all.await;
        large.unwrap();
        flush.unwrap();
        small.unwrap();
        assert_never_lost(&fake, &client, 2);
    });
}

#[test]
fn a_flush_that_is_never_answered_is_sent_again_after_a_limit_of_its_own() {
    in_engine(|| async {
        let fake = Fake::scripted(MIB, |connection, request| match request.command {
            Command::Flush if connection == 1 => Act::Silence,
            _ => Act::Serve,
        });
        let config = ClientConfig {
            flush_timeout: Duration::from_secs(1),
            ..hasty()
        };
        let client = connect(&fake, config).await;
        write_sevens(&client, PLACE).await.unwrap();
        let took = time_of(client.flush()).await;
        assert!(took >= Duration::from_millis(1500), "{took:?}");
        assert_lost_once(&fake, &client, "no byte moved for 1.5 s");
        // What it covers was written again before.
        let commands = fake.world().commands();
        let (write, flush) = (Command::Write, Command::Flush);
        assert_eq!(commands, [write, flush, write, flush]);
        assert_eq!(fake.world().durable[0], 7);
    });
}

#[test]
fn a_request_is_lost_in_time_once_the_flush_is_over() {
    in_engine(|| async {
        let (fake, tell) = scripted(MIB, |connection, command, when_notified| match command {
            Command::Read if connection == 1 => Act::Silence,
            Command::Flush => when_notified,
            _ => Act::Serve,
        });
        let client = connect(&fake, hasty()).await;
        let mut read = client.read(PLACE);
        assert!(poll_once(&mut read).await.is_pending());
        until_sent(&fake, Command::Read).await;
        let mut flush = client.flush();
        wait_in_vain(2 * LIMIT, &mut flush).await;
        assert_eq!(client.health().reconnects, 0);
        tell.notify_one();
        flush.await.unwrap();
        // The time that it had waited before the flush counts, and a busy machine takes longer.
        let took = time_of(read).await;
        assert!(took < 10 * LIMIT, "{took:?}");
        assert_eq!(client.health().reconnects, 1);
    });
}

#[test]
fn a_machine_that_vanishes_during_a_flush_is_found_within_the_limit() {
    in_engine(|| async {
        let fake = Fake::scripted(MIB, |connection, request| match request.command {
            Command::Flush if connection == 1 => Act::Silence,
            _ => Act::Serve,
        });
        let wire = Wire::to(&fake).await;
        let limit = Duration::from_secs(2);
        let client = connect_over(&wire, limit).await;
        let mut flush = client.flush();
        assert!(poll_once(&mut flush).await.is_pending());
        until_sent(&fake, Command::Flush).await;
        wire.vanish();
        let took = time_of(flush).await;
        assert!(took < 4 * limit, "{took:?}");
        assert_lost_once(&fake, &client, "timed out");
    });
}

#[test]
fn a_machine_that_has_vanished_before_a_flush_reached_it_is_found_within_the_limit() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let wire = Wire::to(&fake).await;
        let limit = Duration::from_secs(1);
        let client = connect_over(&wire, limit).await;
        client.read(PLACE).await.unwrap();
        wire.vanish();
        let took = time_of(client.flush()).await;
        assert!(took >= limit && took < 8 * limit, "{took:?}");
        assert_lost_once(&fake, &client, "machine has acknowledged nothing for");
    });
}

/// The window of a server that reads no requests while it flushes is shut: TCP's probes are acknowledged, but no byte is
/// taken. With `TCP_USER_TIMEOUT` the kernel would end such a connection.
#[test]
fn a_server_that_takes_nothing_over_tcp_while_it_flushes_is_there() {
    in_engine(|| async {
        let (fake, tell) = scripted(32 * MIB, flushes_when_notified);
        let wire = Wire::to(&fake).await;
        let client = connect_over(&wire, Duration::from_secs(1)).await;
        let writes = (0..24).map(|nth| write_sevens(&client, Range::new(nth * MIB, MIB)));
        let mut all = join(client.flush(), try_join_all(writes));
        wait_in_vain(Duration::from_secs(4), &mut all).await;
        assert_eq!(fake.world().commands(), [Command::Flush]);
        tell.notify_one();
        let (flush, writes) = all.await;
        flush.unwrap();
        writes.unwrap();
        assert_never_lost(&fake, &client, 1);
    });
}
