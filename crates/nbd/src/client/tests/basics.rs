//! A client and a server that behaves.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use block::{BlockDevice, Errno, Range, Support, WriteFlags};
use nbd_proto::{Command, CommandFlags, Framing, TransmissionFlags, WireError};
use testkit::{Op, OpSpace, check_in_batches, gather, ops, pattern, single};
use tokio::sync::Notify;

use super::fake::{Act, Fake};
use super::{connect, in_engine, poll_once, short_limits, until};
use crate::client::ClientConfig;

const MIB: u64 = 1 << 20;

/// The same requests in every run.
pub(super) fn random_ops(space: OpSpace, count: usize) -> Vec<Op> {
    use proptest::strategy::{Strategy, ValueTree};
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    ops(space, count).new_tree(&mut runner).unwrap().current()
}

/// Random requests against the model, with a server of each kind.
fn agrees_with_the_model(framing: Framing, scattered: bool, connections: usize) {
    in_engine(|| async move {
        let fake = Fake::start(4 * MIB);
        fake.world().framing = framing;
        fake.world().scattered = scattered;
        fake.world().export.block_size_max = 100_000;
        check_model(&fake, connections).await;
    });
}

async fn check_model(fake: &Fake, connections: usize) {
    let config = ClientConfig {
        connections,
        ..ClientConfig::default()
    };
    let client = connect(fake, config).await;
    let space = OpSpace {
        size: 4 * MIB,
        block_size: 1,
        len_max: 300_000,
    };
    check_in_batches(&*client, &random_ops(space, 300), 16)
        .await
        .unwrap();
    assert_eq!(client.health().connections, connections);
}

#[test]
fn simple_replies_agree_with_the_model() {
    agrees_with_the_model(Framing::Simple, false, 1);
}

/// The client refused oldstyle servers. They take requests of all kinds, but have no names, TLS and contexts.
#[test]
fn an_oldstyle_server_agrees_with_the_model() {
    in_engine(|| async move {
        let fake = Fake::start(4 * MIB);
        fake.world().oldstyle = true;
        check_model(&fake, 2).await;
        assert!(fake.world().commands().contains(&Command::Flush));
    });
}

#[test]
fn structured_replies_agree_with_the_model() {
    agrees_with_the_model(Framing::Structured, false, 4);
}

#[test]
fn replies_in_pieces_and_holes_agree_with_the_model() {
    agrees_with_the_model(Framing::Structured, true, 2);
}

#[test]
fn extended_headers_agree_with_the_model() {
    agrees_with_the_model(Framing::Extended, false, 4);
    agrees_with_the_model(Framing::Extended, true, 2);
}

#[test]
fn replies_may_come_in_any_order() {
    in_engine(|| async {
        let fake = Fake::scripted(MIB, |_, request| match request.offset {
            0 => Act::Hold,
            _ => Act::Serve,
        });
        let client = connect(&fake, short_limits()).await;
        let data = pattern(7, Range::new(0, MIB));
        fake.world().live.copy_from_slice(&data);
        let (first, second) = futures_util::future::join(
            client.read(Range::new(0, 4096)),
            client.read(Range::new(8192, 4096)),
        )
        .await;
        assert_eq!(gather(&first.unwrap()), data[..4096]);
        assert_eq!(gather(&second.unwrap()), data[8192..12288]);
    });
}

#[test]
fn huge_requests_are_split_at_the_server_s_maximum() {
    in_engine(|| async {
        let fake = Fake::start(8 * MIB);
        fake.world().export.block_size_min = 4096;
        fake.world().export.block_size_max = 1_000_000;
        let client = connect(&fake, short_limits()).await;
        assert_eq!(client.geometry().block_size, 4096);
        let whole = Range::new(0, 8 * MIB);
        let data = pattern(3, whole);
        client
            .write(whole, single(data.clone()), WriteFlags::empty())
            .await
            .unwrap();
        let read = client.read(whole).await.unwrap();
        assert_eq!(gather(&read), data);
        let world = fake.world();
        let longest = world.log.iter().map(|request| request.len).max();
        assert_eq!(longest, Some(1_000_000 / 4096 * 4096));
        assert!(world.log.iter().all(|r| r.offset % 4096 == 0));
    });
}

#[test]
fn an_error_ends_one_request_and_brings_the_server_s_words() {
    in_engine(|| async {
        let fake = Fake::scripted(MIB, |_, request| match request.command {
            Command::Write => Act::Refuse(WireError::NoSpace, "the pool is full"),
            _ => Act::Serve,
        });
        let client = connect(&fake, short_limits()).await;
        let range = Range::new(4096, 512);
        let error = client
            .write(range, single(vec![1; 512]), WriteFlags::empty())
            .await
            .unwrap_err();
        assert_eq!(error.errno, Errno::NoSpace);
        assert_eq!(error.range, Some(range));
        assert!(error.to_string().contains("the pool is full"), "{error}");
        client.read(range).await.unwrap();
        assert_eq!(fake.world().connections, 1);
    });
}

#[test]
fn one_failed_part_fails_the_whole_request_once() {
    in_engine(|| async {
        let fake = Fake::scripted(8 * MIB, |_, request| match request.offset {
            0x20_0000 => Act::Refuse(WireError::Io, "bad sector"),
            _ => Act::Serve,
        });
        fake.world().export.block_size_max = 1 << 20;
        let config = ClientConfig {
            in_flight_max: 2,
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        let error = client.read(Range::new(0, 8 * MIB)).await.unwrap_err();
        assert_eq!(error.errno, Errno::Io);
        client.read(Range::new(0, 512)).await.unwrap();
        assert!(fake.world().log.len() < 9, "what is left is not asked for");
    });
}

#[test]
fn one_connection_is_used_unless_the_server_says_that_flushes_cover_all() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        fake.world().export.flags -= TransmissionFlags::CAN_MULTI_CONN;
        let config = ClientConfig {
            connections: 4,
            ..short_limits()
        };
        let client = connect(&fake, config.clone()).await;
        assert_eq!(client.health().connections, 1);
        let readers = ClientConfig {
            read_only: true,
            ..config
        };
        let client = connect(&fake, readers).await;
        assert_eq!(client.health().connections, 4);
    });
}

/// `qemu-nbd` takes one client, and lets the others wait: opening its export took the whole 30 s of a request.
#[test]
fn a_server_of_one_client_is_used_after_a_moment() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        fake.world().greeted_max = 1;
        let config = ClientConfig {
            connections: 4,
            request_timeout: Duration::from_secs(30),
            ..short_limits()
        };
        let begun = engine::clock::now();
        let client = connect(&fake, config).await;
        let took = engine::clock::now() - begun;
        assert!(took < Duration::from_secs(10), "{took:?}");
        assert_eq!(client.health().connections, 1);
    });
}

#[test]
fn many_bytes_in_flight_are_spread_over_the_connections() {
    in_engine(|| async {
        let fake = Fake::start(8 * MIB);
        let used = Arc::new(std::sync::Mutex::new(std::collections::BTreeSet::new()));
        let seen = Arc::clone(&used);
        fake.world().script = Box::new(move |nth, _| {
            seen.lock().unwrap().insert(nth);
            Act::Serve
        });
        let config = ClientConfig {
            connections: 3,
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        let reads = (0..8).map(|n| client.read(Range::new(n * MIB, MIB)));
        for read in futures_util::future::join_all(reads).await {
            read.unwrap();
        }
        assert_eq!(used.lock().unwrap().len(), 3);
    });
}

#[test]
fn what_the_server_cannot_do_is_done_by_other_requests_or_refused() {
    in_engine(|| async {
        let fake = Fake::start(4 * MIB);
        fake.world().export.flags = TransmissionFlags::HAS_FLAGS | TransmissionFlags::SEND_FLUSH;
        let client = connect(&fake, short_limits()).await;
        let geometry = client.geometry().clone();
        assert_eq!(geometry.fua, Support::Emulated);
        assert_eq!(geometry.write_zeroes, Support::Emulated);
        assert_eq!(geometry.trim, Support::None);

        let range = Range::new(4096, 4096);
        let data = single(vec![9; 4096]);
        client.write(range, data, WriteFlags::FUA).await.unwrap();
        assert_eq!(fake.world().commands(), [Command::Write, Command::Flush]);
        assert_eq!(fake.world().log[0].flags, CommandFlags::empty());
        assert_eq!(fake.world().durable[4096], 9);

        let zeroed = Range::new(0, 3 * MIB);
        client
            .write_zeroes(zeroed, WriteFlags::empty())
            .await
            .unwrap();
        assert_eq!(fake.world().live[4096], 0);
        let fast = client.write_zeroes(zeroed, WriteFlags::FAST_ZERO).await;
        assert_eq!(fast.unwrap_err().errno, Errno::NotSupported);
        let trim = client.trim(range).await;
        assert_eq!(trim.unwrap_err().errno, Errno::NotSupported);
    });
}

#[test]
fn flags_reach_the_server() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = connect(&fake, short_limits()).await;
        let range = Range::new(0, 4096);
        let data = single(vec![9; 4096]);
        client.write(range, data, WriteFlags::FUA).await.unwrap();
        client.write_zeroes(range, WriteFlags::all()).await.unwrap();
        client.trim(range).await.unwrap();
        client.flush().await.unwrap();
        let log = fake.world().log.clone();
        assert_eq!(log[0].flags, CommandFlags::FUA);
        let all = CommandFlags::FUA | CommandFlags::NO_HOLE | CommandFlags::FAST_ZERO;
        assert_eq!(log[1].flags, all);
        assert_eq!((log[3].offset, log[3].len), (0, 0));
    });
}

#[test]
fn a_read_only_export_is_never_sent_a_change() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        fake.world().export.flags |= TransmissionFlags::READ_ONLY;
        let client = connect(&fake, short_limits()).await;
        let range = Range::new(0, 512);
        let write = client.write(range, single(vec![1; 512]), WriteFlags::empty());
        assert_eq!(write.await.unwrap_err().errno, Errno::NotPermitted);
        let zeroes = client.write_zeroes(range, WriteFlags::empty());
        assert_eq!(zeroes.await.unwrap_err().errno, Errno::NotPermitted);
        let trim = client.trim(range).await;
        assert_eq!(trim.unwrap_err().errno, Errno::NotPermitted);
        assert!(fake.world().log.is_empty());
    });
}

#[test]
fn settle_waits_for_a_write_whose_future_was_dropped() {
    in_engine(|| async {
        let notify = Arc::new(Notify::new());
        let notifier = Arc::clone(&notify);
        let fake = Fake::scripted(MIB, move |_, _| Act::After(Arc::clone(&notifier)));
        let client = connect(&fake, short_limits()).await;
        let range = Range::new(0, 512);
        let mut write = client.write(range, single(vec![1; 512]), WriteFlags::empty());
        let polled = poll_once(&mut write).await;
        assert!(polled.is_pending());
        drop(write);
        let mut settle = client.settle();
        until("the write arrives", || !fake.world().log.is_empty()).await;
        assert_eq!(
            poll_once(&mut settle).await.map(|r| r.is_ok()),
            Poll::Pending
        );
        notify.notify_one();
        settle.await.unwrap();
        assert_eq!(fake.world().live[0], 1);
    });
}

#[test]
fn closing_finishes_what_is_in_flight_and_says_goodbye() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let config = ClientConfig {
            connections: 2,
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        let range = Range::new(0, 512);
        let mut write = client.write(range, single(vec![1; 512]), WriteFlags::empty());
        assert!(poll_once(&mut write).await.is_pending());
        client.close().await;
        write.await.unwrap();
        until("both goodbyes", || fake.world().goodbyes == 2).await;
        let error = client.read(range).await.unwrap_err();
        assert_eq!(error.errno, Errno::ShuttingDown);
        client.settle().await.unwrap();
        client.close().await;
        assert!(!client.health().connected);
    });
}

#[test]
fn closing_waits_until_the_server_holds_nothing_for_the_client() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        fake.world().ends_after = Duration::from_millis(200);
        let config = ClientConfig {
            connections: 2,
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        client.close().await;
        assert_eq!(fake.world().ended, 2);
        // One that never ends the connection is not waited for.
        fake.world().ends_after = Duration::MAX / 4;
        let client = connect(&fake, short_limits()).await;
        let begun = engine::clock::now();
        client.close().await;
        let took = engine::clock::now() - begun;
        assert!(took < Duration::from_secs(10), "{took:?}");
    });
}

#[test]
fn dropping_the_client_says_goodbye_too() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        drop(connect(&fake, short_limits()).await);
        until("the goodbye", || fake.world().goodbyes == 1).await;
    });
}
