//! Several servers of one disk: which is used, and when another one is.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Range, WriteFlags};
use futures_util::future::join;
use nbd_proto::{Command, DiskIdentity, WireError};
use testkit::{gather, single};

use super::fake::{Act, Fake};
use super::{in_engine, poll_once, short_limits, until};
use crate::client::{Client, ClientConfig, ClientError, Target, describe, survey};

const MIB: u64 = 1 << 20;
const RANGE: Range = Range::new(1 << 19, 512);

/// Both servers, in this order.
fn both(first: &Fake, second: &Fake) -> Target {
    Target {
        others: vec![second.target().address],
        ..first.target()
    }
}

/// A server that does not answer a command.
fn silent_to(command: Command) -> Fake {
    Fake::scripted(MIB, move |_, request| match request.command == command {
        true => Act::Silence,
        false => Act::Serve,
    })
}

async fn connect(target: Target, config: ClientConfig) -> Arc<Client> {
    Client::connect(target, config).await.unwrap()
}

async fn write(client: &Client, byte: u8) {
    let data = single(vec![byte; 512]);
    let written = client.write(RANGE, data, WriteFlags::empty()).await;
    written.unwrap();
}

async fn first_byte(client: &Client) -> u8 {
    gather(&client.read(RANGE).await.unwrap())[0]
}

/// Waits until the client reports an error with this text.
async fn reports(client: &Client, text: &str) {
    let is_it = || client.health().last_error.is_some_and(|e| e.contains(text));
    until(text, is_it).await;
}

#[test]
fn the_first_server_that_answers_is_used() {
    in_engine(|| async {
        let (one, two) = (Fake::start(MIB), Fake::start(MIB));
        let client = connect(both(&one, &two), short_limits()).await;
        assert_eq!(client.health().server, one.target().to_string());
        client.close().await;
        one.stop().await;
        let client = connect(both(&one, &two), short_limits()).await;
        assert_eq!(client.health().server, two.target().to_string());
        let target = both(&one, &two);
        let described = describe(&target, Duration::from_secs(1)).await.unwrap();
        assert_eq!(described.target, two.target());
        let survey = survey(&target, Duration::from_secs(1)).await.unwrap();
        assert!(survey.exports.iter().all(|one| one.described.is_ok()));
        two.stop().await;
        let error = Client::connect(target, short_limits()).await.unwrap_err();
        let ClientError::NoServer { tried } = &error else {
            panic!("{error}");
        };
        assert_eq!(tried.len(), 2);
        for fake in [&one, &two] {
            assert!(error.to_string().contains(&fake.target().to_string()));
        }
    });
}

/// A machine that is gone costs the head start of the next server, not its timeout.
#[test]
fn a_server_that_does_not_answer_delays_the_next_one_for_a_moment() {
    in_engine(|| async {
        let (one, two) = (Fake::start(MIB), Fake::start(MIB));
        one.world().greeted_max = 0;
        let config = ClientConfig {
            request_timeout: Duration::from_secs(20),
            ..short_limits()
        };
        let begun = engine::clock::now();
        let client = connect(both(&one, &two), config).await;
        let took = engine::clock::now().duration_since(begun);
        assert_eq!(client.health().server, two.target().to_string());
        assert!(took < Duration::from_secs(10), "{took:?}");
    });
}

#[test]
fn a_disk_goes_on_with_the_other_server_when_its_own_has_ended() {
    in_engine(|| async {
        let (one, two) = (Fake::start(MIB), Fake::start(MIB));
        let config = ClientConfig {
            connections: 3,
            ..short_limits()
        };
        let client = connect(both(&one, &two), config).await;
        write(&client, 7).await;
        one.stop().await;
        // Acknowledged by the first, and never flushed.
        assert_eq!(first_byte(&client).await, 7);
        client.flush().await.unwrap();
        let health = client.health();
        assert_eq!(health.server, two.target().to_string());
        assert_eq!(health.connections, 3);
        assert_eq!((health.server_changes, health.gone_for), (1, None));
        assert!(health.gone_in_all > Duration::ZERO);
        assert_eq!(two.world().durable[1 << 19], 7);
        // It stays there when the first one is back.
        one.listen();
        assert_eq!(first_byte(&client).await, 7);
        two.stop().await;
        write(&client, 8).await;
        let moved = client.health();
        assert_eq!(moved.server, one.target().to_string());
        assert_eq!(moved.server_changes, 2);
        assert!(moved.gone_in_all > health.gone_in_all);
        assert_eq!(one.world().live[1 << 19], 8);
    });
}

/// A write without an answer may be carried out at any time, so that nothing is written elsewhere before its server has ended.
#[test]
fn a_server_that_may_still_write_is_waited_for() {
    in_engine(|| async {
        let one = silent_to(Command::Write);
        let two = Fake::start(MIB);
        let client = connect(both(&one, &two), short_limits()).await;
        let mut write = client.write(RANGE, single(vec![7; 512]), WriteFlags::empty());
        assert!(poll_once(&mut write).await.is_pending());
        one.world().greeted_max = 1;
        reports(&client, "no other server is used").await;
        assert_eq!(two.world().connections, 0);
        one.stop().await;
        write.await.unwrap();
        assert_eq!(client.health().server, two.target().to_string());
        assert_eq!(two.world().live[1 << 19], 7);
    });
}

/// A server that was left with a write in flight was reached again with another disk, and ended then. Its end was seen on the connections of
/// before, which had been reset when it was reached: the client waited for that server alone from then on, for ever.
#[test]
fn a_server_that_has_another_disk_when_it_is_reached_again_is_waited_for_until_its_end() {
    in_engine(|| async {
        let (one, two) = (silent_to(Command::Write), Fake::start(MIB));
        one.put_ext(1);
        two.put_ext(1);
        let client = connect(both(&one, &two), short_limits()).await;
        let mut write = client.write(RANGE, single(vec![7; 512]), WriteFlags::empty());
        assert!(poll_once(&mut write).await.is_pending());
        one.put_ext(2);
        reports(&client, "another disk").await;
        assert_eq!(two.world().connections, 0);
        one.stop().await;
        write.await.unwrap();
        assert_eq!(client.health().server, two.target().to_string());
        assert_eq!(two.world().live[1 << 19], 7);
    });
}

/// A server that is left silent with a write in flight, is reached again with other incarnations of the disk, and ends then.
async fn left_and_reached_again(incarnations: [Option<u64>; 2]) -> (Fake, Arc<Client>) {
    let (one, two) = (silent_to(Command::Write), Fake::start(MIB));
    one.world().disk.incarnation = incarnations[0];
    let client = connect(both(&one, &two), short_limits()).await;
    let data = single(vec![7; 512]);
    let writer = Arc::clone(&client);
    drop(engine::spawn(async move {
        drop(writer.write(RANGE, data, WriteFlags::empty()).await);
    }));
    let writes = |count| {
        move |one: &Fake| {
            one.world()
                .commands()
                .iter()
                .filter(|c| **c == Command::Write)
                .count()
                == count
        }
    };
    until("the write", || writes(1)(&one)).await;
    one.world().disk.incarnation = incarnations[1];
    until("the write again", || writes(2)(&one)).await;
    one.stop().await;
    (two, client)
}

/// Another process may have taken over the address of the one that has the write, and end before it.
#[test]
fn the_end_of_another_process_at_the_address_is_not_that_of_the_one_before() {
    in_engine(|| async {
        for incarnations in [[Some(1), Some(2)], [None, None], [Some(1), None]] {
            let (two, client) = left_and_reached_again(incarnations).await;
            reports(&client, "no other server is used").await;
            assert_eq!(two.world().connections, 0);
        }
    });
}

#[test]
fn the_end_of_the_process_that_was_reached_again_is_known() {
    in_engine(|| async {
        let (two, client) = left_and_reached_again([Some(1), Some(1)]).await;
        let moved = || client.health().server == two.target().to_string();
        until("the other server", moved).await;
        assert_eq!(two.world().live[1 << 19], 7);
    });
}

#[test]
fn a_disk_that_owes_nothing_leaves_a_silent_server_at_once() {
    in_engine(|| async {
        let one = silent_to(Command::Read);
        let two = Fake::start(MIB);
        two.world().live[1 << 19..][..512].fill(7);
        let client = connect(both(&one, &two), short_limits()).await;
        write(&client, 7).await;
        client.flush().await.unwrap();
        assert_eq!(one.world().connections, 1);
        one.world().greeted_max = 1;
        assert_eq!(first_byte(&client).await, 7);
        assert_eq!(client.health().server, two.target().to_string());
    });
}

/// The other server fences the silent one before it admits the client. One that declares no fence may itself have lost the disk.
#[test]
fn a_server_whose_storage_fences_it_is_left_at_once_for_one_that_fences() {
    in_engine(|| async {
        let one = silent_to(Command::Write);
        let (two, three) = (Fake::start(MIB), Fake::start(MIB));
        let target = Target {
            others: vec![two.target().address, three.target().address],
            ..one.target()
        };
        for fenced in [&one, &three] {
            fenced.world().disk.is_fenced = true;
        }
        let client = connect(target, short_limits()).await;
        one.world().greeted_max = 1;
        write(&client, 7).await;
        assert_eq!(client.health().server, three.target().to_string());
        assert_eq!(two.world().live[1 << 19], 0, "it got nothing");
    });
}

#[test]
fn a_server_that_is_fenced_after_a_time_is_waited_for_so_long() {
    in_engine(|| async {
        let one = silent_to(Command::Write);
        let two = Fake::start(MIB);
        let target = Target {
            fenced_after: Some(Duration::from_secs(2)),
            ..both(&one, &two)
        };
        let client = connect(target, short_limits()).await;
        one.world().greeted_max = 1;
        let begun = engine::clock::now();
        write(&client, 7).await;
        let took = engine::clock::now().duration_since(begun);
        assert!(
            took >= Duration::from_secs(3),
            "a second of silence before: {took:?}"
        );
        assert_eq!(client.health().server, two.target().to_string());
    });
}

#[test]
fn another_disk_is_refused_by_name_and_never_written() {
    in_engine(|| async {
        let (one, two) = (Fake::start(MIB), Fake::start(MIB));
        two.world().disk = DiskIdentity {
            identity: "fake:2".parse().ok(),
            ..DiskIdentity::default()
        };
        let client = connect(both(&one, &two), short_limits()).await;
        write(&client, 7).await;
        one.stop().await;
        let mut read = client.read(RANGE);
        assert!(poll_once(&mut read).await.is_pending());
        let server = two.target().to_string();
        let is_it = |error: String| {
            error.contains(&server)
                && error.contains("expected identity fake:1, found identity fake:2")
        };
        let is_named = || client.health().last_error.is_some_and(is_it);
        until("it is named", is_named).await;
        one.listen();
        assert_eq!(gather(&read.await.unwrap())[0], 7);
        assert_eq!(client.health().failed, None);
        assert_eq!(two.world().log.len(), 0);
    });
}

/// Connections are made again for a new size, and may lead to the other server then. What the first one was written to and did not
/// flush it could write back later, over what the other one was sent meanwhile.
#[test]
fn what_is_not_flushed_is_flushed_before_connections_are_made_again_for_a_new_size() {
    in_engine(|| async {
        let (one, two) = (Fake::start(MIB), Fake::start(MIB));
        let client = connect(both(&one, &two), short_limits()).await;
        write(&client, 7).await;
        one.resize(2 * MIB);
        assert_eq!(client.refresh_size().await.unwrap(), 2 * MIB);
        assert_eq!(one.world().goodbyes, 1);
        assert_eq!(one.world().commands(), [Command::Write, Command::Flush]);
        assert_eq!(one.world().durable[1 << 19], 7);
        // One that is only to be connected to again is in no doubt.
        two.resize(2 * MIB);
        two.world().live[1 << 19..][..512].fill(7);
        one.stop().await;
        assert_eq!(first_byte(&client).await, 7);
        assert_eq!(client.health().server, two.target().to_string());
    });
}

/// Writes that a failed flush gave up are on the server that took them, or nowhere.
#[test]
fn connections_to_a_server_with_writes_that_were_given_up_are_kept() {
    in_engine(|| async {
        let one = Fake::scripted(MIB, |_, request| match request.command {
            Command::Flush => Act::Refuse(WireError::Io, "no medium"),
            _ => Act::Serve,
        });
        let two = Fake::start(MIB);
        let client = connect(both(&one, &two), short_limits()).await;
        write(&client, 7).await;
        one.resize(2 * MIB);
        // The second one waits for the first.
        let (refreshed, byte) = join(client.refresh_size(), first_byte(&client)).await;
        let error = refreshed.unwrap_err();
        assert!(matches!(error, ClientError::FlushFailed { .. }), "{error}");
        assert_eq!(byte, 7);
        assert!(client.flush().await.is_err());
        assert_eq!(
            client.refresh_size().await.unwrap_err().to_string(),
            error.to_string()
        );
        assert_eq!(first_byte(&client).await, 7);
        assert_eq!((one.world().connections, two.world().connections), (1, 0));
    });
}

#[test]
fn what_another_client_has_done_outweighs_that_a_server_is_not_reached() {
    let target: Target = "nbd://a/x".parse().unwrap();
    let closed = || ClientError::Closed {
        target: target.clone(),
    };
    let text = || String::from("by another one");
    let busy = || ClientError::Busy {
        target: target.clone(),
        text: text(),
    };
    let fenced = || ClientError::Fenced {
        target: target.clone(),
        text: text(),
    };
    let of = ClientError::of_servers;
    assert!(matches!(of(vec![closed()]), ClientError::Closed { .. }));
    assert!(matches!(
        of(vec![closed(), closed()]),
        ClientError::NoServer { .. }
    ));
    assert!(matches!(
        of(vec![closed(), busy()]),
        ClientError::Busy { .. }
    ));
    assert!(matches!(
        of(vec![busy(), fenced()]),
        ClientError::Fenced { .. }
    ));
}
