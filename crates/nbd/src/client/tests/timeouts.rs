//! A request that failed because the server was unreachable for too long ends the past.
//!
//! Three ways in which a client lied after `reconnect_for`. A flush that was refused because the server was gone left no
//! trace, so that the next one succeeded, though what the first one covered was never made durable. The journal outlived
//! the failure: hours later, when the server was back, an old write landed on what an administrator had since
//! repaired. And reads came from a disk that lacked what had been acknowledged.

use std::time::Duration;

use block::{BlockDevice, Errno, Range, WriteFlags};
use nbd_proto::{Command, TransmissionFlags, WireError};
use testkit::{gather, single};

use super::fake::{Act, Fake};
use super::{connect, in_engine, poll_once, short_limits, until};
use crate::client::{Client, ClientConfig};

const MIB: u64 = 1 << 20;

/// Requests wait for 300 ms for a server that is unreachable.
fn hasty() -> ClientConfig {
    ClientConfig {
        reconnect_for: Duration::from_millis(300),
        ..short_limits()
    }
}

async fn write(client: &Client, offset: u64, flags: WriteFlags) -> Result<(), String> {
    let data = single(vec![7; 512]);
    let written = client.write(Range::new(offset, 512), data, flags).await;
    written.map_err(|error| error.to_string())
}

async fn read(client: &Client, offset: u64) -> Result<u8, String> {
    let read = client.read(Range::new(offset, 512)).await;
    read.map(|bytes| gather(&bytes)[0])
        .map_err(|error| error.to_string())
}

/// The server has been gone for longer than requests wait; a read failed because of that.
async fn outlast(client: &Client) {
    let error = read(client, 0).await.unwrap_err();
    assert!(error.contains("the server has been gone for"), "{error}");
}

async fn come_back(fake: &Fake, client: &Client) {
    fake.listen();
    until("it is back", || client.health().connected).await;
}

#[test]
fn a_flush_that_was_refused_while_the_server_was_gone_fails_every_later_one() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = connect(&fake, hasty()).await;
        fake.stop().await;
        outlast(&client).await;
        assert!(!client.health().flush_failed, "only a read failed so far");
        client.flush().await.unwrap_err();
        assert!(client.health().flush_failed);
        come_back(&fake, &client).await;
        let error = client.flush().await.unwrap_err().to_string();
        assert!(error.contains("an earlier flush failed"), "{error}");
        assert_eq!(read(&client, 0).await, Ok(0));
        assert!(!fake.world().commands().contains(&Command::Flush));
    });
}

#[test]
fn a_durable_write_that_needs_a_flush_fails_once_a_flush_has_failed() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        fake.world().export.flags -= TransmissionFlags::SEND_FUA;
        let client = connect(&fake, hasty()).await;
        fake.stop().await;
        outlast(&client).await;
        write(&client, 0, WriteFlags::FUA).await.unwrap_err();
        come_back(&fake, &client).await;
        let error = write(&client, 0, WriteFlags::FUA).await.unwrap_err();
        assert!(error.contains("an earlier flush failed"), "{error}");
    });
}

#[test]
fn a_write_that_timed_out_is_never_sent_and_no_flush_succeeds_after_it() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = connect(&fake, hasty()).await;
        fake.stop().await;
        let error = write(&client, 0, WriteFlags::empty()).await.unwrap_err();
        assert!(error.contains("the server has been gone for"), "{error}");
        come_back(&fake, &client).await;
        // Nothing that was acknowledged is lost: the disk goes on, without flushes.
        assert_eq!(read(&client, 0).await, Ok(0));
        write(&client, 4096, WriteFlags::empty()).await.unwrap();
        let error = client.flush().await.unwrap_err().to_string();
        assert!(error.contains("an earlier flush failed"), "{error}");
        let commands = fake.world().commands();
        assert_eq!(commands, [Command::Read, Command::Write]);
        assert_eq!(fake.world().live[0], 0);
    });
}

#[test]
fn unflushed_writes_are_given_up_with_the_whole_disk_when_a_request_times_out() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = connect(&fake, hasty()).await;
        write(&client, 0, WriteFlags::empty()).await.unwrap();
        fake.lose_power().await;
        let before = fake.world().log.len();
        outlast(&client).await;
        assert_eq!(client.health().unflushed, 0);
        // An administrator repairs the disk.
        fake.world().live[0] = 9;
        fake.listen();
        // A read would bring what was there before the write.
        let lost = "acknowledged and not yet flushed";
        let error = read(&client, 0).await.unwrap_err();
        assert!(error.contains(lost), "{error}");
        let error = write(&client, 0, WriteFlags::empty()).await.unwrap_err();
        assert!(error.contains(lost), "{error}");
        assert!(client.flush().await.is_err());
        let health = client.health();
        assert!(health.flush_failed && !health.connected);
        assert!(health.failed.unwrap().contains(lost));
        let world = fake.world();
        assert_eq!((world.live[0], world.log.len()), (9, before));
    });
}

#[test]
fn reads_that_time_out_alone_cost_nothing() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = connect(&fake, hasty()).await;
        write(&client, 0, WriteFlags::empty()).await.unwrap();
        client.flush().await.unwrap();
        fake.stop().await;
        outlast(&client).await;
        come_back(&fake, &client).await;
        assert_eq!(read(&client, 0).await, Ok(7));
        write(&client, 512, WriteFlags::empty()).await.unwrap();
        client.flush().await.unwrap();
        let health = client.health();
        assert!(!health.flush_failed && health.failed.is_none());
    });
}

/// The server is there, and answers all but one write, on no connection.
#[test]
fn a_write_that_is_never_answered_takes_the_unflushed_ones_with_it() {
    in_engine(|| async {
        let fake = Fake::scripted(MIB, |_, request| match request.offset {
            8192 => Act::Silence,
            _ => Act::Serve,
        });
        let config = ClientConfig {
            request_timeout: Duration::from_millis(200),
            ..hasty()
        };
        let client = connect(&fake, config).await;
        let data = single(vec![7; 512]);
        let range = Range::new(8192, 512);
        let mut stuck = client.write(range, data, WriteFlags::empty());
        assert!(poll_once(&mut stuck).await.is_pending());
        let error = loop {
            drop(write(&client, 0, WriteFlags::empty()).await);
            engine::clock::sleep(Duration::from_millis(5)).await;
            if let std::task::Poll::Ready(over) = poll_once(&mut stuck).await {
                break over.unwrap_err();
            }
        };
        assert_eq!(error.errno, Errno::Io);
        let sent = fake.world().log.len();
        assert!(read(&client, 0).await.is_err());
        assert!(client.flush().await.is_err());
        engine::clock::sleep(Duration::from_millis(300)).await;
        assert_eq!(fake.world().log.len(), sent, "nothing is sent again");
    });
}

#[test]
fn after_a_durable_write_failed_no_flush_succeeds() {
    in_engine(|| async {
        let fake = Fake::scripted(MIB, |_, request| match request.flags.is_empty() {
            false => Act::Refuse(WireError::Io, "write-back failed"),
            true => Act::Serve,
        });
        let client = connect(&fake, short_limits()).await;
        write(&client, 0, WriteFlags::FUA).await.unwrap_err();
        let error = client.flush().await.unwrap_err().to_string();
        assert!(error.contains("an earlier flush failed"), "{error}");
        assert_eq!(fake.world().commands(), [Command::Write]);
        write(&client, 0, WriteFlags::empty()).await.unwrap();
    });
}

/// Such a write was refused before anything was done.
#[test]
fn a_durable_write_that_the_server_does_not_allow_leaves_flushes_as_they_are() {
    in_engine(|| async {
        let fake = Fake::scripted(MIB, |_, request| match request.flags.is_empty() {
            false => Act::Refuse(WireError::Permission, "not here"),
            true => Act::Serve,
        });
        let client = connect(&fake, short_limits()).await;
        write(&client, 0, WriteFlags::FUA).await.unwrap_err();
        client.flush().await.unwrap();
    });
}

/// The client flushed by itself, and no caller got its failure. What it covered is not in the journal any more.
#[test]
fn a_server_that_is_lost_after_a_failed_flush_takes_the_disk_with_it() {
    in_engine(|| async {
        let fake = Fake::scripted(MIB, |_, request| match request.command {
            Command::Flush => Act::Refuse(WireError::Io, "write-back failed"),
            _ => Act::Serve,
        });
        let client = connect(&fake, short_limits()).await;
        write(&client, 0, WriteFlags::empty()).await.unwrap();
        client.flush().await.unwrap_err();
        assert_eq!(read(&client, 0).await, Ok(7));
        fake.lose_power().await;
        fake.listen();
        let error = read(&client, 0).await.unwrap_err();
        assert!(
            error.contains("acknowledged and not yet flushed"),
            "{error}"
        );
    });
}
