//! A server that comes back with another disk.
//!
//! A write was acknowledged, the server was killed and came back with another image of the same size: the client
//! wrote its journal onto it. Size, block size and flags were all that it compared.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Errno, Range, WriteFlags};
use nbd_proto::{
    AccessMode, ClientToken, Command, DiskIdentity, FENCED, Refusal, WireError, WriterAccess,
};
use testkit::{gather, single};

use super::fake::{Act, Fake};
use super::{connect, in_engine, poll_once, short_limits, until};
use crate::client::{Changed, Client, ClientConfig};

const MIB: u64 = 1 << 20;

fn named(name: &str) -> DiskIdentity {
    DiskIdentity {
        identity: name.parse().ok(),
        ..DiskIdentity::default()
    }
}

/// A server of others: it names no disk.
fn foreign() -> Fake {
    let fake = Fake::start(MIB);
    fake.world().disk = DiskIdentity::default();
    fake
}

/// The same, with a filesystem on its disk.
fn foreign_with_ext(uuid: u8) -> Fake {
    let fake = foreign();
    fake.put_ext(uuid);
    fake
}

async fn write(client: &Client, offset: u64, bytes: Vec<u8>) -> Result<(), String> {
    let range = Range::new(offset, bytes.len() as u64);
    let written = client
        .write(range, single(bytes), WriteFlags::empty())
        .await;
    written.map_err(|error| error.to_string())
}

async fn read(client: &Client) -> Result<u8, String> {
    let read = client.read(Range::new(1 << 19, 512)).await;
    read.map(|bytes| gather(&bytes)[0])
        .map_err(|error| error.to_string())
}

/// A client whose server lost power, and with it a write that was acknowledged.
async fn unflushed_write_lost(fake: &Fake, config: ClientConfig) -> Arc<Client> {
    let client = connect(fake, config).await;
    write(&client, 1 << 19, vec![7; 512]).await.unwrap();
    fake.lose_power().await;
    client
}

/// Every request fails, for good and because of `why`, and nothing was sent to the other disk.
async fn is_over(fake: &Fake, client: &Client, why: &str) {
    let before = fake.world().log.len();
    fake.listen();
    let error = read(client).await.unwrap_err();
    assert!(error.contains(why), "{error}");
    assert!(
        write(client, 0, vec![1; 512])
            .await
            .unwrap_err()
            .contains(why)
    );
    assert!(client.flush().await.is_err());
    let health = client.health();
    assert!(health.failed.unwrap().contains(why));
    assert!(health.flush_failed && !health.connected);
    assert_eq!(fake.world().log.len(), before);
}

/// It goes on with all that was acknowledged.
async fn goes_on(fake: &Fake, client: &Client) {
    fake.listen();
    assert_eq!(read(client).await, Ok(7));
    client.flush().await.unwrap();
    assert_eq!(fake.world().durable[1 << 19], 7);
}

/// A server that was restarted before its disk was mounted served what was below the mount point: a smaller file with
/// another name. The client took that for good, though all was flushed, and the attached device failed until the
/// machine was started again.
#[test]
fn a_smaller_disk_of_another_name_is_waited_out_while_all_is_flushed() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = connect(&fake, short_limits()).await;
        write(&client, 1 << 19, vec![7; 512]).await.unwrap();
        client.flush().await.unwrap();
        fake.lose_power().await;
        let own = std::mem::replace(&mut fake.world().disk, named("fake:2"));
        fake.world().export.size = 4096;
        let before = fake.world().log.len();
        fake.listen();
        let mut waiting = client.read(Range::new(1 << 19, 512));
        assert!(poll_once(&mut waiting).await.is_pending());
        let is_it = |error: String| error.contains("and has 4096");
        let seen = || client.health().last_error.is_some_and(is_it);
        until("the smaller disk is seen", seen).await;
        assert_eq!(fake.world().log.len(), before);
        assert_eq!(client.health().failed, None);
        fake.world().disk = own;
        fake.world().export.size = MIB;
        assert_eq!(gather(&waiting.await.unwrap())[0], 7);
        client.flush().await.unwrap();
    });
}

#[test]
fn a_smaller_disk_of_another_name_is_final_where_writes_would_be_repeated() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = unflushed_write_lost(&fake, short_limits()).await;
        fake.world().disk = named("fake:2");
        fake.world().export.size = 4096;
        is_over(&fake, &client, "identity fake:2").await;
    });
}

#[test]
fn a_server_that_names_another_disk_gets_nothing() {
    for name in ["fake:2", ""] {
        in_engine(|| async {
            let fake = Fake::start(MIB);
            let client = unflushed_write_lost(&fake, short_limits()).await;
            fake.world().disk = named(name);
            is_over(
                &fake,
                &client,
                "another disk: expected identity fake:1, found",
            )
            .await;
            assert_eq!(fake.world().live[1 << 19], 0);
        });
    }
}

/// The same name, and another content under it.
#[test]
fn a_disk_that_was_replaced_in_place_gets_nothing() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        fake.put_ext(1);
        let client = unflushed_write_lost(&fake, short_limits()).await;
        fake.put_ext(2);
        let why =
            "expected ext2/3/4 UUID 01010101-0101-0101-0101-010101010101, found ext2/3/4 UUID 0202";
        is_over(&fake, &client, why).await;
    });
}

#[test]
fn on_a_server_that_names_no_disk_a_signature_recognizes_it() {
    in_engine(|| async {
        let fake = foreign_with_ext(1);
        let client = unflushed_write_lost(&fake, short_limits()).await;
        goes_on(&fake, &client).await;
        fake.stop().await;
        fake.put_ext(2);
        // Also with nothing to write again: it would read another disk.
        is_over(&fake, &client, "found ext2/3/4 UUID 02020202").await;
    });
}

#[test]
fn a_client_that_only_reads_does_not_read_another_disk() {
    in_engine(|| async {
        let fake = foreign_with_ext(1);
        let config = ClientConfig {
            read_only: true,
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        assert_eq!(read(&client).await, Ok(0));
        fake.stop().await;
        fake.put_ext(2);
        fake.listen();
        assert!(
            read(&client)
                .await
                .unwrap_err()
                .contains("found ext2/3/4 UUID 0202")
        );
        assert_eq!(fake.world().commands(), [Command::Read]);
    });
}

#[test]
fn a_disk_that_nothing_recognizes_goes_on_only_where_nothing_is_to_be_written_again() {
    in_engine(|| async {
        let fake = foreign();
        let client = connect(&fake, short_limits()).await;
        write(&client, 1 << 19, vec![7; 512]).await.unwrap();
        client.flush().await.unwrap();
        fake.lose_power().await;
        goes_on(&fake, &client).await;
        write(&client, 0, vec![7; 512]).await.unwrap();
        fake.lose_power().await;
        let why = "neither the server nor a signature on it says which disk it is, and 1 writes";
        is_over(&fake, &client, why).await;
        assert_eq!(fake.world().live[0], 0);
    });
    // A change without an answer is sent again, too.
    in_engine(|| async {
        let fake = foreign();
        let client = connect(&fake, short_limits()).await;
        fake.world().script = Box::new(|_, _| Act::Silence);
        let mut trim = client.trim(Range::new(0, 512));
        assert!(poll_once(&mut trim).await.is_pending());
        until("the trim arrives", || fake.world().log.len() == 1).await;
        fake.stop().await;
        fake.listen();
        let error = trim.await.unwrap_err().to_string();
        assert!(error.contains("neither the server nor"), "{error}");
        assert_eq!(fake.world().log.len(), 1);
    });
}

/// What the client itself writes to these places is no other disk, whichever part of it a power cut leaves.
#[test]
fn a_filesystem_made_by_the_client_is_the_same_disk() {
    for is_flushed in [false, true] {
        in_engine(|| async {
            let fake = foreign_with_ext(1);
            let client = connect(&fake, short_limits()).await;
            let mut superblock = vec![0; 1024];
            superblock[56..58].copy_from_slice(&[0x53, 0xef]);
            superblock[104..120].fill(2);
            write(&client, 1 << 19, vec![7; 512]).await.unwrap();
            write(&client, 1024, superblock).await.unwrap();
            if is_flushed {
                client.flush().await.unwrap();
            }
            fake.lose_power().await;
            goes_on(&fake, &client).await;
            // From here on the old one is another disk.
            fake.stop().await;
            fake.put_ext(1);
            is_over(&fake, &client, "expected ext2/3/4 UUID 0202").await;
        });
    }
}

#[test]
fn content_that_others_change_is_no_other_disk_where_the_disk_is_shared() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        fake.put_ext(1);
        let writer = WriterAccess {
            token: ClientToken::new([1; 16]),
            mode: AccessMode::Shared,
        };
        let config = ClientConfig {
            writer: Some(writer),
            ..short_limits()
        };
        let client = unflushed_write_lost(&fake, config).await;
        fake.put_ext(2);
        goes_on(&fake, &client).await;
        fake.stop().await;
        fake.world().disk = named("fake:2");
        is_over(&fake, &client, "found identity fake:2").await;
    });
}

#[test]
fn a_client_that_was_taken_over_from_gets_no_further() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = unflushed_write_lost(&fake, short_limits()).await;
        let text = format!("{FENCED} 192.0.2.7 took over writing");
        fake.world().refuses = Some(Refusal::Policy(text));
        is_over(&fake, &client, "192.0.2.7 took over writing").await;
    });
}

#[test]
fn a_disk_that_cannot_be_read_for_a_while_is_waited_for() {
    in_engine(|| async {
        let fake = foreign_with_ext(1);
        let client = unflushed_write_lost(&fake, short_limits()).await;
        fake.world().regions.clear();
        fake.world().regions.push(Range::new(0, 1));
        fake.world().script = Box::new(|_, _| Act::Refuse(WireError::Io, "not ready"));
        fake.listen();
        let why = || client.health().last_error.unwrap_or_default();
        until("it cannot be read", || why().contains("not ready")).await;
        assert!(!fake.world().commands()[1..].contains(&Command::Write));
        fake.world().script = Box::new(|_, _| Act::Serve);
        engine::clock::sleep(Duration::from_millis(1)).await;
        assert_eq!(read(&client).await, Ok(7));
    });
}

/// With two requests at a time the third look was still to be sent when the connections were given up.
#[test]
fn closing_while_the_disk_is_looked_at_waits_for_nothing() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let config = ClientConfig {
            in_flight_max: 2,
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        assert_eq!(read(&client).await, Ok(0));
        fake.stop().await;
        fake.world().regions = vec![Range::new(0, 1)];
        fake.world().script = Box::new(|_, _| Act::Silence);
        let mut waiting = client.read(Range::new(0, 512));
        assert!(poll_once(&mut waiting).await.is_pending());
        fake.listen();
        until("two looks arrive", || fake.world().log.len() == 3).await;
        client.close().await;
        let error = waiting.await.unwrap_err();
        assert_eq!(error.errno, Errno::ShuttingDown, "{error}");
        let error = client.read(Range::new(0, 512)).await.unwrap_err();
        assert_eq!(error.errno, Errno::ShuttingDown, "{error}");
        // The task came to its end, and did not panic.
        until("it is over", || client.health().connections == 0).await;
    });
}

#[test]
fn the_error_carries_what_was_expected_and_what_was_found() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = connect(&fake, short_limits()).await;
        fake.stop().await;
        fake.world().disk = named("fake:2");
        fake.listen();
        let error = client.refresh_size().await;
        drop(error);
        until("it is over", || client.health().failed.is_some()).await;
        let changed = Changed::Disk {
            expected: "identity fake:1".to_owned(),
            found: "identity fake:2".to_owned(),
        };
        let text = format!("({changed})");
        assert!(client.health().failed.unwrap().ends_with(&text));
    });
}
