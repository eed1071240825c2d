//! The bounds: memory that must be waited for, time that may pass, turns that must be shared.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Range};
use nbd_proto::{Command, CommandFlags};
use testkit::{HeldDisk, MemDisk, gather, pattern};

use super::harness::{controlled, named, wait_until};
use super::{Limits, ListenAddress, Listener, RawClient, request, serving, serving_on};

const SIZE: u64 = 4 << 20;
const PAYLOAD: u64 = 512 << 10;
/// Far beyond what anything here takes.
const LONG: Duration = Duration::from_secs(10);

fn patterned() -> Arc<MemDisk> {
    Arc::new(MemDisk::from_bytes(pattern(1, Range::new(0, SIZE))))
}

/// A connection waits for memory, is woken because some was freed, and finds that another one took
/// it first. It then remembered to wait again, but went to sleep without beginning to: nothing ever
/// woke it, and its client waited for ever.
#[test]
fn a_request_that_lost_the_race_for_memory_waits_again_and_is_served() {
    let disk = HeldDisk::new(patterned());
    let limits = Limits {
        in_flight_bytes_total_max: 512 << 10,
        payload_max: 512 << 10,
        ..Limits::default()
    };
    serving(disk.clone(), limits, |address| async move {
        disk.hold(true);
        let read = request(Command::Read, 0, PAYLOAD);
        let mut raws = Vec::new();
        for _ in 0..6 {
            let mut raw = RawClient::simple(address).await;
            raw.say(&read.encode()).await;
            raws.push(raw);
        }
        let answers: Vec<_> = raws
            .into_iter()
            .map(|mut raw| engine::spawn(async move { raw.simple_reply(&read).await }))
            .collect();
        for nth in 0..answers.len() {
            let arrived = engine::clock::timeout(LONG, disk.arrival()).await;
            assert!(arrived.is_ok(), "request {nth} never reached the disk");
            assert_eq!(disk.held().len(), 1, "memory for one");
            disk.release_oldest().await;
        }
        for answer in answers {
            assert_eq!(answer.await.expect("no panic").0, 0);
        }
        disk.hold(false);
    });
}

/// A request that follows reads with replies that fill the socket was taken from the client and not
/// begun: its future was first polled when the client took replies. A client that wants its
/// write done before it reads on waited for ever.
#[test]
fn a_write_behind_replies_that_are_not_read_is_carried_out() {
    let disk = Arc::new(MemDisk::new(SIZE));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let listener = Listener::unix(&path).expect("a free path");
    let seen = disk.clone();
    let body = |_: ListenAddress| async move {
        let mut raw = RawClient::simple_at(&path).await;
        let read = request(Command::Read, 0, 60_000);
        let mut bytes = read.encode().repeat(16);
        let mut write = request(Command::Write, 1 << 20, 512);
        write.flags = CommandFlags::FUA;
        bytes.extend_from_slice(&write.encode());
        bytes.extend_from_slice(&[7; 512]);
        raw.say(&bytes).await;
        let written = async {
            let range = Range::new(1 << 20, 512);
            while gather(&seen.read(range).await.expect("readable"))[0] != 7 {
                engine::clock::sleep(Duration::from_millis(1)).await;
            }
        };
        let written = engine::clock::timeout(LONG, written).await;
        assert!(written.is_ok(), "the write is not carried out");
        for _ in 0..16 {
            raw.simple_reply(&read).await;
        }
        raw.simple_reply(&write).await;
    };
    let (_, end) = serving_on(1, disk, Limits::default(), listener, body);
    end.expect("a clean stop");
}

/// A connection that stopped receiving because too many replies waited for the socket, and then
/// sent them all at once, went to sleep although there was room again: the next requests had
/// arrived before, so no event announced them.
#[test]
fn requests_that_waited_for_room_among_the_replies_are_taken_up_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let listener = Listener::unix(&path).expect("a free path");
    let limits = Limits {
        in_flight_bytes_max: 100_000,
        ..Limits::default()
    };
    let body = |_: ListenAddress| async move {
        let mut raw = RawClient::simple_at(&path).await;
        let read = request(Command::Read, 0, 30_000);
        for _ in 0..5 {
            raw.say(&read.encode().repeat(40)).await;
            // Until the socket and the queue behind it are full.
            engine::clock::sleep(Duration::from_millis(50)).await;
            for nth in 0..40 {
                let reply = engine::clock::timeout(LONG, raw.simple_reply(&read)).await;
                assert_eq!(reply.map(|r| r.0), Ok(0), "reply {nth}");
            }
        }
    };
    // A disk that answers out of line.
    let disk = HeldDisk::new(patterned());
    disk.hold(false);
    let (_, end) = serving_on(1, disk, limits, listener, body);
    end.expect("a clean stop");
}

/// A client with a write that waits for memory held by others owes nothing: it was disconnected as if it
/// had stopped in the middle of its payload.
#[test]
fn a_client_that_waits_for_the_servers_memory_is_not_stalled() {
    let disk = HeldDisk::new(patterned());
    let limits = Limits {
        in_flight_bytes_total_max: 512 << 10,
        payload_max: 512 << 10,
        stall_timeout: Duration::from_millis(100),
        ..Limits::default()
    };
    serving(disk.clone(), limits, |address| async move {
        disk.hold(true);
        let mut first = RawClient::simple(address).await;
        let read = request(Command::Read, 0, PAYLOAD);
        first.say(&read.encode()).await;
        disk.arrival().await;
        let mut second = RawClient::simple(address).await;
        let write = request(Command::Write, 0, 4096);
        second.say(&write.encode()).await;
        second.say(&[1; 4096]).await;
        engine::clock::sleep(Duration::from_millis(500)).await;
        assert_eq!(disk.held().len(), 1, "the write waits for memory");
        disk.hold(false);
        disk.release_all().await;
        assert_eq!(first.simple_reply(&read).await.0, 0);
        assert_eq!(second.simple_reply(&write).await.0, 0);
    });
}

/// One byte now and then counted as progress: a client could hold the memory of a long write for
/// days, and with a few connections all memory of the server.
#[test]
fn a_payload_that_only_trickles_in_ends_its_connection() {
    let limits = Limits {
        stall_timeout: Duration::from_millis(200),
        ..Limits::default()
    };
    serving(patterned(), limits, |address| async move {
        let mut raw = RawClient::simple(address).await;
        let mut write = request(Command::Write, 0, 1 << 20);
        write.flags = CommandFlags::FUA;
        raw.say(&write.encode()).await;
        let trickle = async {
            while tokio::io::AsyncWriteExt::write_all(&mut raw.stream, &[0])
                .await
                .is_ok()
            {
                engine::clock::sleep(Duration::from_millis(20)).await;
            }
        };
        let ended = engine::clock::timeout(LONG, trickle).await;
        assert!(ended.is_ok(), "the trickle goes on");
    });
}

/// Pieces of a payload went to the disk as they arrived, cut at 4096 bytes, regardless of the disk's
/// block size: a disk of larger blocks saw pieces of blocks, and its assertion ended the
/// connection.
#[test]
fn a_disk_of_large_blocks_sees_whole_blocks_only() {
    for shift in [0, 9, 12, 13, 16] {
        let disk = MemDisk::new(SIZE).with_geometry(|g| g.block_size = 1 << shift);
        let disk = Arc::new(disk);
        serving(disk.clone(), Limits::default(), |address| async move {
            let mut raw = RawClient::simple(address).await;
            let range = Range::new(64 << 10, 256 << 10);
            let data = pattern(3, range);
            let write = request(Command::Write, range.offset, range.len);
            raw.say(&write.encode()).await;
            for piece in data.chunks(5000) {
                raw.say(piece).await;
                engine::clock::sleep(Duration::from_micros(300)).await;
            }
            assert_eq!(raw.simple_reply(&write).await.0, 0);
            assert!(gather(&disk.read(range).await.expect("readable")) == data);
        });
    }
}

/// The cache command reads where a disk has no file to advise on, a piece at a time. Those pieces
/// were counted for no connection: a thousand such requests held a gigabyte.
#[test]
fn memory_of_the_cache_command_is_bounded_too() {
    let disk = HeldDisk::new(patterned());
    let limits = Limits {
        in_flight_bytes_total_max: 2 << 20,
        payload_max: 1 << 20,
        ..Limits::default()
    };
    serving(disk.clone(), limits, |address| async move {
        disk.hold(true);
        let mut raw = RawClient::simple(address).await;
        let cache = request(Command::Cache, 0, SIZE);
        raw.say(&cache.encode().repeat(8)).await;
        disk.arrivals(2).await;
        engine::clock::sleep(Duration::from_millis(50)).await;
        assert_eq!(disk.held().len(), 2, "memory for two pieces");
        disk.hold(false);
        disk.release_all().await;
        for _ in 0..8 {
            assert_eq!(raw.simple_reply(&cache).await.0, 0);
        }
    });
}

/// A tiny request that waits takes a page and its bookkeeping, but was counted by its bytes: eighty
/// gigabytes of them fitted into a gigabyte.
#[test]
fn tiny_requests_are_counted_by_what_they_take() {
    let disk = HeldDisk::new(patterned());
    let limits = Limits {
        payload_max: 32 << 10,
        in_flight_bytes_total_max: 64 << 10,
        ..Limits::default()
    };
    serving(disk.clone(), limits, |address| async move {
        disk.hold(true);
        let mut raw = RawClient::simple(address).await;
        let mut write = request(Command::Write, 0, 1);
        write.flags = CommandFlags::FUA;
        raw.say(&[&write.encode()[..], &[1]].concat().repeat(100))
            .await;
        disk.arrivals(15).await;
        engine::clock::sleep(Duration::from_millis(50)).await;
        // A page for each; the last may wait for its payload.
        assert!((15..=16).contains(&disk.held().len()));
        disk.hold(false);
        disk.release_all().await;
        for _ in 0..100 {
            assert_eq!(raw.simple_reply(&write).await.0, 0);
        }
    });
}

#[test]
fn a_disconnect_waits_for_the_long_replies_before_it() {
    let disk = Arc::new(MemDisk::from_bytes(pattern(1, Range::new(0, 16 << 20))));
    serving(disk, Limits::default(), |address| async move {
        let mut raw = RawClient::simple(address).await;
        let read = request(Command::Read, 0, 16 << 20);
        let mut bytes = read.encode().repeat(3);
        bytes.extend_from_slice(&request(Command::Disconnect, 0, 0).encode());
        raw.say(&bytes).await;
        for _ in 0..3 {
            let (error, data) = raw.simple_reply(&read).await;
            assert_eq!(error, 0);
            assert!(data == pattern(1, Range::new(0, 16 << 20)));
        }
        assert!(raw.is_closed().await);
    });
}

/// Sixteen headers of 64 MiB held the memory of the whole server until their clients were found to
/// send nothing behind them, a minute or two later. A payload holds one piece at most before it is
/// there.
#[test]
fn headers_without_their_payload_do_not_hold_the_memory_of_all() {
    let limits = Limits {
        payload_max: 8 << 20,
        in_flight_bytes_total_max: 16 << 20,
        ..Limits::default()
    };
    let disk = Arc::new(MemDisk::new(16 << 20));
    serving(disk, limits, |address| async move {
        let mut long = request(Command::Write, 0, 8 << 20);
        long.flags = CommandFlags::FUA;
        let mut idlers = Vec::new();
        for _ in 0..8 {
            let mut idler = RawClient::simple(address).await;
            idler.say(&long.encode()).await;
            idlers.push(idler);
        }
        engine::clock::sleep(Duration::from_millis(50)).await;
        let mut raw = RawClient::simple(address).await;
        let data = pattern(2, Range::new(0, 8 << 20));
        let written = engine::clock::timeout(LONG, raw.ask(long, &data)).await;
        assert_eq!(written.expect("there is memory").0, 0);
        // They have lost nothing either.
        for mut idler in idlers {
            idler.say(&data).await;
            assert_eq!(idler.simple_reply(&long).await.0, 0);
        }
    });
}

/// A client that holds memory and does nothing with it is sent away sooner while others wait.
#[test]
fn clients_that_hold_memory_without_progress_are_disconnected_first() {
    let limits = Limits {
        payload_max: 1 << 20,
        in_flight_bytes_total_max: 2 << 20,
        stall_timeout: Duration::from_secs(6),
        ..Limits::default()
    };
    let exports = vec![named("disk", patterned())];
    controlled(exports, limits, |address, control| async move {
        let mut long = request(Command::Write, 0, 1 << 20);
        long.flags = CommandFlags::FUA;
        // Their time begins with what they say.
        let start = engine::clock::now();
        let mut idlers = Vec::new();
        for _ in 0..2 {
            let mut idler = RawClient::simple(address).await;
            idler.say(&long.encode()).await;
            idlers.push(idler);
        }
        wait_until(async || control.figures().memory >= 2 << 20).await;
        let mut raw = RawClient::simple(address).await;
        let written = engine::clock::timeout(LONG, raw.ask(long, &[1; 1 << 20])).await;
        assert_eq!(written.expect("they are sent away").0, 0);
        let waited = engine::clock::now() - start;
        assert!(
            waited >= Duration::from_secs(1),
            "they had their time: {waited:?}"
        );
        for mut idler in idlers {
            assert!(idler.is_closed().await);
        }
    });
}
