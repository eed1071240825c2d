//! The stop: what the server waits for, how long, and its error for the rest.

use std::sync::Arc;
use std::time::Duration;

use block::{Node, Support};
use nbd_proto::{Command, CommandFlags};
use testkit::{CrashDisk, HeldDisk, MemDisk};

use super::{Export, Limits, ListenAddress, RawClient, ServeError, Server, export, request};
use super::{local, serving_on};

const SIZE: u64 = 1 << 20;

fn held() -> Arc<HeldDisk> {
    let disk = HeldDisk::new(Arc::new(MemDisk::new(SIZE)));
    disk.hold(true);
    disk
}

fn hasty() -> Limits {
    Limits {
        stop_timeout: Duration::from_millis(200),
        ..Limits::default()
    }
}

/// The flush at the stop had no limit: a disk that did not answer any more kept the server from
/// ending, and a service manager killed it in the end, without a word of why.
#[test]
fn a_disk_that_does_not_answer_is_given_up_at_the_stop_and_named() {
    let ((), end) = serving_on(1, held(), hasty(), local(), |_| async {});
    let error = end.expect_err("nothing was flushed").to_string();
    assert!(
        error.contains("\"disk\"") && error.contains("200ms"),
        "{error}"
    );
}

/// The server of a remote disk may know no flush. Each stop ended with an error then, though nothing was wrong.
#[test]
fn a_disk_without_flush_is_not_flushed_at_the_stop() {
    let disk = MemDisk::new(SIZE).with_geometry(|g| g.flush = Support::None);
    let disk = HeldDisk::new(Arc::new(disk));
    disk.hold(true);
    let ((), end) = serving_on(1, disk, hasty(), local(), |_| async {});
    end.expect("a clean stop");
}

/// The same with a request in flight, so that the connection cannot end either.
#[test]
fn a_request_that_does_not_end_is_given_up_at_the_stop() {
    let disk = held();
    let ((), end) = serving_on(2, disk.clone(), hasty(), local(), |address| async move {
        let ListenAddress::Tcp(address) = address else {
            panic!("a TCP listener has a TCP address")
        };
        let mut raw = RawClient::simple(address).await;
        let mut write = request(Command::Write, 0, 512);
        write.flags = CommandFlags::FUA;
        raw.say(&write.encode()).await;
        raw.say(&[1; 512]).await;
        disk.arrival().await;
    });
    assert!(end.is_err());
}

/// One disk that does not answer must not keep another one from being flushed.
#[test]
fn every_disk_is_flushed_at_the_stop_even_if_another_hangs() {
    let good = Arc::new(CrashDisk::new(SIZE));
    let written: Node = good.clone();
    let exports = [("stuck", held() as Node), ("good", written.clone())];
    let exports = exports.map(|(name, disk)| Export {
        name: name.to_owned(),
        ..export(disk)
    });
    let server = Server::new(exports.into(), hasty()).expect("two exports");
    let end = engine::run(&engine::Config::default(), |handle| async move {
        let data = testkit::single(vec![4; 512]);
        let flags = block::WriteFlags::empty();
        let range = block::Range::new(0, 512);
        written.write(range, data, flags).await.expect("written");
        let serve = server.serve(&handle, vec![local()], async {});
        engine::clock::timeout(Duration::from_secs(10), serve).await
    });
    let end = end.expect("the engine starts").expect("it stops");
    let error = end.expect_err("one was not flushed");
    assert!(
        matches!(&error, ServeError::FlushTimeout { name, .. } if name == "stuck"),
        "{error}"
    );
    assert!(good.durable()[..512].iter().all(|&b| b == 4));
}

/// A connected socket that is served alone has the same limits.
#[test]
fn serving_one_connection_stops_within_the_limit_too() {
    let disk = held();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
    theirs.set_nonblocking(true).expect("a socket");
    let server = Server::new(vec![export(disk.clone())], hasty()).expect("one export");
    let end = engine::run(&engine::Config::default(), |handle| async move {
        let stream = tokio::net::UnixStream::from_std(theirs).expect("a socket");
        let mut raw = RawClient { stream };
        let stop = async move {
            raw.choose().await;
            raw.say(&request(Command::Read, 0, 512).encode()).await;
            disk.arrival().await;
            // The client stays.
            std::mem::forget(raw);
        };
        let serve = server.serve_connection(&handle, ours.into(), stop);
        engine::clock::timeout(Duration::from_secs(10), serve).await
    });
    let end = end.expect("the engine starts").expect("it stops");
    assert!(
        matches!(end, Err(ServeError::FlushTimeout { .. })),
        "{end:?}"
    );
}
