//! A reconnect must not lie. A server that lost power has lost what it acknowledged and never
//! flushed; a client that merely connects again would let the next flush report it safe.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::{BlockDevice, Range, WriteFlags};
use nbd_proto::{Command, Framing, ReplyTo, Request, WireError};
use testkit::{gather, pattern, single};

use super::fake::{Act, Fake};
use super::{connect, in_engine, poll_once, short_limits, until};
use crate::client::{Client, ClientConfig};

const MIB: u64 = 1 << 20;

async fn write(client: &Client, offset: u64, byte: u8, len: usize) {
    let range = Range::new(offset, len as u64);
    let data = single(vec![byte; len]);
    let write = client.write(range, data, WriteFlags::empty());
    write.await.unwrap();
}

#[test]
fn acknowledged_writes_survive_a_power_cut_of_the_server_in_their_order() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let config = ClientConfig {
            connections: 4,
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        write(&client, 0, 1, 4096).await;
        client.flush().await.unwrap();
        // Over each other, in part and whole, with zeroes and a durable write in between.
        write(&client, 0, 2, 8192).await;
        let zeroes = client.write_zeroes(Range::new(1024, 1024), WriteFlags::empty());
        zeroes.await.unwrap();
        let data = single(vec![3; 512]);
        let fua = client.write(Range::new(0, 512), data, WriteFlags::FUA);
        fua.await.unwrap();
        write(&client, 4096, 4, 512).await;
        write(&client, 512 * 1024, 5, 100_000).await;
        let expected = fake.world().live.clone();
        fake.lose_power().await;
        assert_ne!(fake.world().live, expected, "something was lost");
        fake.listen();
        let whole = client.read(Range::new(0, MIB)).await.unwrap();
        assert!(gather(&whole) == expected, "reads see what was written");
        assert!(client.health().unflushed > 0, "nothing is durable yet");
        client.flush().await.unwrap();
        assert!(fake.world().durable == expected);
        assert_eq!(client.health().unflushed, 0);
    });
}

#[test]
fn what_was_flushed_is_not_written_again() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = connect(&fake, short_limits()).await;
        write(&client, 0, 1, 4096).await;
        client.flush().await.unwrap();
        write(&client, 4096, 2, 4096).await;
        fake.lose_power().await;
        let before = fake.world().log.len();
        fake.listen();
        client.read(Range::new(0, 512)).await.unwrap();
        let log = fake.world().log[before..].to_vec();
        assert_eq!((log[0].command, log[0].offset), (Command::Write, 4096));
        assert_eq!(log[1].command, Command::Read);
        assert_eq!(log.len(), 2);
    });
}

/// A write that came while the flush was under way is not covered by it.
#[test]
fn a_write_acknowledged_during_a_flush_is_kept() {
    in_engine(|| async {
        let told = Arc::new(tokio::sync::Notify::new());
        let tell = Arc::clone(&told);
        let fake = Fake::scripted(MIB, move |_, request| match request.command {
            Command::Flush => Act::After(Arc::clone(&tell)),
            _ => Act::Serve,
        });
        let config = ClientConfig {
            connections: 2,
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        let mut flush = client.flush();
        assert!(poll_once(&mut flush).await.is_pending());
        until("the flush arrives", || !fake.world().log.is_empty()).await;
        // The first connection waits; much data goes over the second.
        let mut big = client.write(
            Range::new(0, 512 << 10),
            single(vec![8; 512 << 10]),
            WriteFlags::empty(),
        );
        assert!(poll_once(&mut big).await.is_pending());
        told.notify_one();
        let (flushed, written) = futures_util::future::join(flush, big).await;
        flushed.unwrap();
        written.unwrap();
        assert!(client.health().unflushed >= 512 << 10);
    });
}

#[test]
fn when_the_lost_writes_cannot_be_repeated_no_request_succeeds_any_more() {
    in_engine(|| async {
        let full = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&full);
        let fake = Fake::scripted(MIB, move |_, request| {
            match request.command == Command::Write && seen.load(Ordering::Relaxed) {
                true => Act::Refuse(WireError::NoSpace, "the disk was swapped for a small one"),
                false => Act::Serve,
            }
        });
        let client = connect(&fake, short_limits()).await;
        write(&client, 0, 1, 4096).await;
        fake.lose_power().await;
        full.store(true, Ordering::Relaxed);
        fake.listen();
        let error = client.flush().await.unwrap_err().to_string();
        assert!(
            error.contains("acknowledged before the server went"),
            "{error}"
        );
        let health = client.health();
        assert!(health.flush_failed);
        let last = health.failed.unwrap();
        assert!(last.contains("swapped for a small one"), "{last}");
        full.store(false, Ordering::Relaxed);
        assert!(client.flush().await.is_err());
        // It would bring what was there before the write.
        assert!(client.read(Range::new(0, 512)).await.is_err());
    });
}

#[test]
fn after_a_failed_flush_no_flush_is_even_sent() {
    in_engine(|| async {
        let fake = Fake::scripted(MIB, |_, request| match request.command {
            Command::Flush => Act::Refuse(WireError::Io, "write-back failed"),
            _ => Act::Serve,
        });
        let client = connect(&fake, short_limits()).await;
        write(&client, 0, 1, 4096).await;
        let error = client.flush().await.unwrap_err().to_string();
        assert!(error.contains("write-back failed"), "{error}");
        fake.world().script = Box::new(|_, _| Act::Serve);
        let error = client.flush().await.unwrap_err().to_string();
        assert!(error.contains("an earlier flush failed"), "{error}");
        assert_eq!(fake.world().commands(), [Command::Write, Command::Flush]);
        write(&client, 0, 2, 4096).await;
        client.read(Range::new(0, 512)).await.unwrap();
    });
}

/// The server's kernel reports that writing back failed to one of two flushes. The other one succeeded, was answered first, and
/// was reported: the caller took what was lost for durable.
#[test]
fn a_flush_does_not_succeed_before_an_older_one_has() {
    let to = |request: &Request| ReplyTo {
        cookie: request.cookie,
        offset: request.offset,
    };
    for is_lost in [false, true] {
        in_engine(|| async {
            let mut older = None;
            let fake = Fake::scripted(MIB, move |_, request| match request.command {
                Command::Flush if older.is_none() => {
                    older = Some(*request);
                    Act::Silence
                }
                Command::Trim if is_lost => Act::Hangup,
                Command::Trim => {
                    let older = to(older.as_ref().expect("a flush came before"));
                    let framing = Framing::Structured;
                    let mut replies =
                        framing.error(older, WireError::Io, "write-back failed", None);
                    replies.extend_from_slice(&framing.success(to(request)));
                    Act::Raw(replies)
                }
                _ => Act::Serve,
            });
            let client = connect(&fake, short_limits()).await;
            write(&client, 0, 1, 4096).await;
            let (mut older, mut newer) = (client.flush(), client.flush());
            assert!(poll_once(&mut older).await.is_pending());
            assert!(poll_once(&mut newer).await.is_pending());
            client.read(Range::new(0, 512)).await.unwrap();
            assert!(poll_once(&mut newer).await.is_pending());
            // Until it is reported, the write may have to be written again.
            assert!(client.health().unflushed > 0);
            if is_lost {
                let mut trim = client.trim(Range::new(0, 512));
                assert!(poll_once(&mut trim).await.is_pending());
                until("a reconnect", || client.health().reconnects > 0).await;
                fake.world().script = Box::new(|_, _| Act::Serve);
                trim.await.unwrap();
                older.await.unwrap();
                newer.await.unwrap();
                let commands = fake.world().commands();
                let writes = commands.iter().filter(|c| **c == Command::Write).count();
                assert!(writes > 1, "{commands:?}");
                return;
            }
            client.trim(Range::new(0, 512)).await.unwrap();
            let error = older.await.unwrap_err().to_string();
            assert!(error.contains("write-back failed"), "{error}");
            let error = newer.await.unwrap_err().to_string();
            assert!(error.contains("an earlier flush failed"), "{error}");
        });
    }
}

#[test]
fn a_flush_is_sent_before_what_is_kept_grows_too_large() {
    in_engine(|| async {
        let fake = Fake::start(2 * MIB);
        let client = connect(&fake, short_limits()).await;
        let data = bytes::Bytes::from(pattern(1, Range::new(0, MIB)));
        for _ in 0..200 {
            let range = Range::new(0, MIB);
            let write = client.write(range, single(data.clone()), WriteFlags::empty());
            write.await.unwrap();
            assert!(client.health().unflushed <= 64 * MIB);
        }
        let commands = fake.world().commands();
        let flushes = commands.iter().filter(|c| **c == Command::Flush).count();
        assert!((3..=20).contains(&flushes), "{flushes} flushes");
    });
}

/// A flush that never comes back holds writes, not reads, once what is kept is full.
#[test]
fn writes_wait_when_what_is_kept_is_full() {
    in_engine(|| async {
        let told = Arc::new(tokio::sync::Notify::new());
        let tell = Arc::clone(&told);
        let fake = Fake::scripted(2 * MIB, move |_, request| match request.command {
            Command::Flush => Act::After(Arc::clone(&tell)),
            _ => Act::Serve,
        });
        let config = ClientConfig {
            connections: 2,
            request_timeout: std::time::Duration::from_secs(20),
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        let data = bytes::Bytes::from(vec![1; 1 << 20]);
        let range = Range::new(0, MIB);
        let writes = (0..100)
            .map(|_| client.write(range, single(data.clone()), WriteFlags::empty()))
            .collect::<Vec<_>>();
        let mut all = Box::pin(futures_util::future::join_all(writes));
        for _ in 0..50 {
            assert!(poll_once(&mut all).await.is_pending());
            engine::clock::sleep(std::time::Duration::from_millis(10)).await;
        }
        let written = fake.world().commands();
        let written = written.iter().filter(|c| **c == Command::Write).count();
        assert!(written <= 64, "{written} writes were sent");
        let release = async {
            loop {
                engine::clock::sleep(std::time::Duration::from_millis(5)).await;
                told.notify_one();
            }
        };
        tokio::select! {
            results = all => assert!(results.iter().all(Result::is_ok)),
            () = release => {}
        }
    });
}

/// Of two writes that must be repeated the server never answers one, on any connection.
#[test]
fn requests_behind_a_write_that_is_never_repeated_fail_in_time() {
    in_engine(|| async {
        let fake = Fake::scripted(MIB, |connection, request| match request.offset {
            4096 if connection > 1 => Act::Silence,
            _ => Act::Serve,
        });
        let config = ClientConfig {
            request_timeout: std::time::Duration::from_millis(200),
            reconnect_for: std::time::Duration::from_millis(500),
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        write(&client, 0, 1, 512).await;
        write(&client, 4096, 2, 512).await;
        fake.lose_power().await;
        fake.listen();
        let error = client.read(Range::new(8192, 512)).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("the server has been gone for"), "{text}");
        assert!(client.flush().await.is_err());
        // Nothing was read from a disk that lacks what was written.
        let commands = fake.world().commands();
        assert!(commands.iter().all(|command| *command == Command::Write));
    });
}

/// A write, and a durable one over a part of it. The server comes back, gets the journal, and loses power
/// in the middle: written again in order, the older write undid the durable one, which the server had lost
/// when the client then gave up. World 407 of `worlds` found it.
#[test]
fn a_durable_write_is_not_undone_while_the_journal_is_written_again() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = connect(&fake, short_limits()).await;
        write(&client, 0, 1, 4096).await;
        let fua = client.write(Range::new(512, 512), single(vec![2; 512]), WriteFlags::FUA);
        fua.await.unwrap();
        fake.stop().await;
        let before = fake.world().log.len();
        fake.listen();
        client.read(Range::new(0, 512)).await.unwrap();
        let log = fake.world().log[before..].to_vec();
        let durable = Range::new(512, 512);
        let over: Vec<_> = log
            .iter()
            .filter(|request| request.command == Command::Write)
            .filter(|request| Range::new(request.offset, request.len).overlaps(&durable))
            .map(|request| (request.offset, request.len, request.flags))
            .collect();
        assert_eq!(over, [(512, 512, nbd_proto::CommandFlags::FUA)]);
        assert!(fake.world().live[..4096].iter().all(|byte| *byte != 0));
    });
}
