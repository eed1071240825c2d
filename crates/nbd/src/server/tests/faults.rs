//! Clients that go, stall or lie; disks that fail; the stop.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Range};
use nbd_proto::{Command, CommandFlags};
use testkit::{CrashDisk, HeldDisk, MemDisk};

use super::{EIO, ENOSPC, EPERM, Limits, RawClient, request, serving};

const SIZE: u64 = 1 << 20;

fn memory() -> Arc<MemDisk> {
    Arc::new(MemDisk::new(SIZE))
}

/// Short limits, so that tests of them are short.
fn hasty() -> Limits {
    Limits {
        handshake_timeout: Duration::from_millis(200),
        stall_timeout: Duration::from_millis(200),
        ..Limits::default()
    }
}

#[test]
fn a_bad_request_magic_ends_that_connection_only() {
    serving(memory(), Limits::default(), |address| async move {
        let mut other = RawClient::simple(address).await;
        let mut raw = RawClient::simple(address).await;
        raw.say(&[0xff; 28]).await;
        assert!(raw.is_closed().await);
        other.assert_in_step().await;
    });
}

#[test]
fn a_write_far_beyond_the_cap_is_not_listened_to() {
    serving(memory(), Limits::default(), |address| async move {
        let mut raw = RawClient::simple(address).await;
        raw.say(&request(Command::Write, 0, 200 << 20).encode())
            .await;
        assert!(raw.is_closed().await);
    });
}

#[test]
fn a_write_above_the_cap_is_skipped_and_refused() {
    let limits = Limits {
        payload_max: 64 << 10,
        ..Limits::default()
    };
    serving(memory(), limits, |address| async move {
        let mut raw = RawClient::simple(address).await;
        let write = request(Command::Write, 0, 100 << 10);
        assert_eq!(raw.ask(write, &vec![1; 100 << 10]).await.0, super::EINVAL);
        raw.assert_in_step().await;
    });
}

#[test]
fn a_client_that_never_negotiates_is_shown_the_door() {
    serving(memory(), hasty(), |address| async move {
        let mut raw = RawClient::connect(address).await;
        raw.take(18).await;
        assert!(raw.is_closed().await);
    });
}

#[test]
fn a_client_that_stops_within_a_payload_is_shown_the_door() {
    serving(memory(), hasty(), |address| async move {
        let mut raw = RawClient::simple(address).await;
        raw.say(&request(Command::Write, 0, 4096).encode()).await;
        raw.say(&[1; 100]).await;
        assert!(raw.is_closed().await);
    });
}

#[test]
fn an_idle_client_is_left_alone() {
    serving(memory(), hasty(), |address| async move {
        let mut raw = RawClient::simple(address).await;
        engine::clock::sleep(Duration::from_millis(500)).await;
        raw.assert_in_step().await;
    });
}

#[test]
fn a_client_that_reads_no_replies_is_bounded_and_shown_the_door() {
    serving(memory(), hasty(), |address| async move {
        let mut raw = RawClient::simple(address).await;
        let reads: Vec<u8> = (0..5000u64)
            .flat_map(|_| request(Command::Read, 0, 60_000).encode())
            .collect();
        raw.say(&reads).await;
        engine::clock::sleep(Duration::from_millis(600)).await;
        let mut taken = 0;
        let mut buffer = vec![0; 1 << 20];
        // What the sockets held arrives, then the end; far less than the 300 MB requested.
        while let Ok(count) = tokio::io::AsyncReadExt::read(&mut raw.stream, &mut buffer).await {
            if count == 0 {
                break;
            }
            taken += count;
        }
        assert!(taken < 100 << 20, "{taken} bytes");
    });
}

#[test]
fn connections_beyond_the_limit_are_closed_at_once() {
    let limits = Limits {
        connections_max: 2,
        ..Limits::default()
    };
    serving(memory(), limits, |address| async move {
        let mut first = RawClient::simple(address).await;
        let mut second = RawClient::simple(address).await;
        assert!(RawClient::connect(address).await.is_closed().await);
        first.assert_in_step().await;
        second.assert_in_step().await;
    });
}

#[test]
fn an_error_of_the_disk_reaches_the_client_as_its_kind() {
    use block::{Errno, Operation};
    for (errno, wire) in [(Errno::NoSpace, ENOSPC), (Errno::Io, EIO)] {
        let fault = testkit::Fault::new(testkit::Effect::Fail(errno)).on(Operation::Write);
        let disk = testkit::FaultDisk::new(memory(), 1, vec![fault]);
        serving(disk, Limits::default(), |address| async move {
            let mut raw = RawClient::simple(address).await;
            let write = request(Command::Write, 0, 4096);
            assert_eq!(raw.ask(write, &[1; 4096]).await.0, wire);
            raw.assert_in_step().await;
        });
    }
}

#[test]
fn a_read_only_disk_refuses_every_change() {
    let disk = Arc::new(MemDisk::new(SIZE).with_geometry(|g| g.read_only = true));
    serving(disk, Limits::default(), |address| async move {
        let mut raw = RawClient::simple(address).await;
        for command in [Command::Write, Command::Trim, Command::WriteZeroes] {
            let payload: &[u8] = if command == Command::Write {
                &[1; 512]
            } else {
                &[]
            };
            assert_eq!(raw.ask(request(command, 0, 512), payload).await.0, EPERM);
        }
        raw.assert_in_step().await;
    });
}

#[test]
fn a_flushed_write_and_a_fua_write_survive_a_crash() {
    let disk = Arc::new(CrashDisk::new(SIZE));
    serving(disk.clone(), Limits::default(), |address| async move {
        let mut raw = RawClient::simple(address).await;
        raw.ask(request(Command::Write, 0, 4096), &[1; 4096]).await;
        raw.ask(request(Command::Flush, 0, 0), &[]).await;
        let mut durable = request(Command::Write, 8192, 4096);
        durable.flags = CommandFlags::FUA;
        raw.ask(durable, &[2; 4096]).await;
        for seed in 0..50 {
            let image = disk.crash(seed);
            assert!(image[..4096].iter().all(|&b| b == 1));
            assert!(image[8192..12288].iter().all(|&b| b == 2));
        }
    });
}

#[test]
fn a_stop_finishes_what_is_in_flight_and_flushes() {
    let inner = Arc::new(CrashDisk::new(SIZE));
    let disk = HeldDisk::new(inner.clone());
    let held = disk.clone();
    let mut raw = serving(disk.clone(), Limits::default(), |address| async move {
        disk.hold(true);
        let mut raw = RawClient::simple(address).await;
        let mut write = request(Command::Write, 0, 4096);
        write.flags = CommandFlags::FUA;
        raw.say(&write.encode()).await;
        raw.say(&[5; 4096]).await;
        disk.arrival().await;
        // Released only after the stop began.
        drop(engine::spawn(async move {
            engine::clock::sleep(Duration::from_millis(100)).await;
            held.hold(false);
            held.release_all().await;
        }));
        raw.stream.into_std().expect("a socket")
    });
    use std::io::Read;
    raw.set_nonblocking(false).expect("a socket");
    let mut reply = Vec::new();
    raw.read_to_end(&mut reply).expect("a reply and the end");
    assert_eq!(reply.len(), 16);
    assert_eq!(reply[4..8], [0; 4]);
    assert!(inner.durable()[..4096].iter().all(|&b| b == 5));
}

#[test]
fn a_client_that_dies_in_mid_write_leaves_nothing_in_flight() {
    let disk = memory();
    let shared = disk.clone();
    serving(disk, Limits::default(), |address| async move {
        for _ in 0..20 {
            let mut raw = RawClient::simple(address).await;
            raw.say(&request(Command::Write, 0, 65_536).encode()).await;
            raw.say(&[1; 30_000]).await;
            drop(raw);
        }
        let mut raw = RawClient::simple(address).await;
        assert_eq!(
            raw.ask(request(Command::Write, 0, 512), &[9; 512]).await.0,
            0
        );
        let read = shared.read(Range::new(0, 512)).await.expect("readable");
        assert!(testkit::gather(&read).iter().all(|&b| b == 9));
    });
}
