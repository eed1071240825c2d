//! What an answer promises: a flush covers every write answered before it was sent, on any
//! connection; FUA covers its own request.

use std::sync::Arc;
use std::time::Duration;

use block::{Errno, Operation};
use nbd_proto::{Command, CommandFlags};
use testkit::{CrashDisk, HeldDisk, MemDisk};

use super::harness::{controlled, named, wait_until};
use super::{EIO, Limits, RawClient, request, serving};

const SIZE: u64 = 1 << 20;

#[test]
fn a_flush_covers_writes_acknowledged_on_another_connection() {
    let disk = Arc::new(CrashDisk::new(SIZE));
    serving(disk.clone(), Limits::default(), |address| async move {
        for round in 1..20u8 {
            let mut writer = RawClient::simple(address).await;
            let mut flusher = RawClient::simple(address).await;
            let write = request(Command::Write, 0, 8192);
            assert_eq!(writer.ask(write, &[round; 8192]).await.0, 0);
            let flush = request(Command::Flush, 0, 0);
            assert_eq!(flusher.ask(flush, &[]).await.0, 0);
            let image = disk.crash(round.into());
            assert!(image[..8192].iter().all(|&b| b == round), "round {round}");
        }
    });
}

/// A flush that began before a write was answered says nothing about it, so one that is sent
/// after the reply is a flush of its own.
#[test]
fn a_flush_does_not_join_one_that_is_under_way() {
    let disk = HeldDisk::new(Arc::new(MemDisk::new(SIZE)));
    serving(disk.clone(), Limits::default(), |address| async move {
        disk.hold(true);
        let mut early = RawClient::simple(address).await;
        let flush = request(Command::Flush, 0, 0);
        early.say(&flush.encode()).await;
        disk.arrival().await;
        let first = disk.held()[0].id;
        let mut writer = RawClient::simple(address).await;
        let write = request(Command::Write, 0, 512);
        writer.say(&write.encode()).await;
        writer.say(&[1; 512]).await;
        let written = held_after(&disk, first).await;
        disk.release(written).await;
        assert_eq!(writer.simple_reply(&write).await.0, 0);
        writer.say(&flush.encode()).await;
        let second = held_after(&disk, written).await;
        disk.release(first).await;
        assert_eq!(early.simple_reply(&flush).await.0, 0);
        engine::clock::sleep(Duration::from_millis(20)).await;
        assert_eq!(
            disk.held().len(),
            1,
            "the second flush is a request of its own"
        );
        disk.release(second).await;
        assert_eq!(writer.simple_reply(&flush).await.0, 0);
        disk.hold(false);
    });
}

/// The request that arrived behind `id`.
async fn held_after(disk: &HeldDisk, id: u64) -> u64 {
    loop {
        if let Some(held) = disk.held().iter().find(|held| held.id > id) {
            return held.id;
        }
        engine::clock::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn zeroes_with_fua_survive_a_crash() {
    let disk = Arc::new(CrashDisk::from_bytes(vec![1; 1 << 20]));
    serving(disk.clone(), Limits::default(), |address| async move {
        let mut raw = RawClient::simple(address).await;
        let mut zeroes = request(Command::WriteZeroes, 4096, 8192);
        zeroes.flags = CommandFlags::FUA;
        assert_eq!(raw.ask(zeroes, &[]).await.0, 0);
        for seed in 0..30 {
            assert!(disk.crash(seed)[4096..12_288].iter().all(|&b| b == 0));
        }
    });
}

#[test]
fn a_trim_with_fua_is_answered_when_the_flush_behind_it_is() {
    let disk = HeldDisk::new(Arc::new(MemDisk::new(SIZE)));
    serving(disk.clone(), Limits::default(), |address| async move {
        disk.hold(true);
        let mut raw = RawClient::simple(address).await;
        let mut trim = request(Command::Trim, 0, 4096);
        trim.flags = CommandFlags::FUA;
        raw.say(&trim.encode()).await;
        disk.arrival().await;
        let held = disk.held()[0];
        assert_eq!(held.operation, Operation::Trim);
        disk.release(held.id).await;
        let flush = held_after(&disk, held.id).await;
        assert_eq!(disk.held()[0].operation, Operation::Flush);
        let mut nothing = [0];
        let early = tokio::io::AsyncReadExt::read(&mut raw.stream, &mut nothing);
        let early = engine::clock::timeout(Duration::from_millis(50), early).await;
        assert!(early.is_err(), "answered before the flush");
        disk.release(flush).await;
        assert_eq!(raw.simple_reply(&trim).await.0, 0);
        disk.hold(false);
    });
}

/// After a flush failed no reply to any client may report that data is safe.
#[test]
fn a_failed_flush_fails_every_later_one() {
    let fault = testkit::Fault::new(testkit::Effect::Fail(Errno::Io));
    let fault = fault.on(Operation::Flush).times(1);
    let disk = testkit::FaultDisk::new(Arc::new(MemDisk::new(SIZE)), 1, vec![fault]);
    let (_, end) = super::serving_on(
        2,
        disk,
        Limits::default(),
        super::local(),
        |at| async move {
            let super::ListenAddress::Tcp(address) = at else {
                panic!("a TCP listener has a TCP address")
            };
            for _ in 0..3 {
                let mut raw = RawClient::simple(address).await;
                let write = request(Command::Write, 0, 512);
                assert_eq!(raw.ask(write, &[1; 512]).await.0, 0);
                let flush = request(Command::Flush, 0, 0);
                assert_eq!(raw.ask(flush, &[]).await.0, EIO);
                raw.assert_in_step().await;
            }
        },
    );
    assert!(end.is_err(), "the flush at the stop fails too");
}

/// A client that lost its connection repeats its requests on a new one, and continues. A write of the broken one
/// that was still under way landed on what was written since. Now a connection begins when the
/// writes of those that ended before it have.
#[test]
fn a_write_of_a_broken_connection_does_not_land_on_what_its_successor_wrote() {
    let memory = Arc::new(MemDisk::new(SIZE));
    let disk = HeldDisk::new(memory.clone());
    let exports = vec![named("disk", disk.clone())];
    controlled(exports, Limits::default(), |address, control| async move {
        let served = control.0.exports.named("disk").expect("the export");
        disk.hold(true);
        let write = request(Command::Write, 0, 512);
        for breaks in [true, false] {
            let mut broken = RawClient::simple(address).await;
            broken.say(&write.encode()).await;
            broken.say(&[1; 512]).await;
            disk.arrival().await;
            if breaks {
                broken.reset();
            } else {
                drop(broken);
            }
            // A server that has not seen the end yet could not know which connection the next one follows.
            wait_until(async || served.leaving().count() > 0).await;
            let mut successor = RawClient::simple(address).await;
            successor.say(&write.encode()).await;
            successor.say(&[2; 512]).await;
            engine::clock::sleep(Duration::from_millis(50)).await;
            // The newest first, as disks may.
            for _ in 0..2 {
                disk.arrival().await;
                let newest = disk.held().last().expect("one is held").id;
                disk.release(newest).await;
            }
            assert_eq!(successor.simple_reply(&write).await.0, 0);
            assert!(memory.snapshot()[..512].iter().all(|&b| b == 2));
        }
        disk.hold(false);
    });
}

/// Only what changes the disk is waited for: a read that does not complete delays no client.
#[test]
fn a_read_of_a_broken_connection_is_forgotten_with_it() {
    let disk = HeldDisk::new(Arc::new(MemDisk::new(SIZE)));
    let limits = Limits {
        connections_max: 1,
        ..Limits::default()
    };
    serving(disk.clone(), limits, |address| async move {
        disk.hold(true);
        let mut broken = RawClient::simple(address).await;
        broken.say(&request(Command::Read, 0, 512).encode()).await;
        disk.arrival().await;
        broken.reset();
        let successor = async {
            loop {
                let mut raw = RawClient::connect(address).await;
                if tokio::io::AsyncReadExt::read_exact(&mut raw.stream, &mut [0; 18])
                    .await
                    .is_ok()
                {
                    return raw;
                }
            }
        };
        let successor = engine::clock::timeout(Duration::from_secs(10), successor).await;
        let mut successor = successor.expect("its place is free");
        let mut bytes = 3u32.to_be_bytes().to_vec();
        bytes.extend_from_slice(b"IHAVEOPT\0\0\0\x01\0\0\0\x04disk");
        bytes.extend_from_slice(&request(Command::Flush, 0, 0).encode());
        successor.say(&bytes).await;
        let arrived = engine::clock::timeout(Duration::from_secs(10), disk.arrival()).await;
        assert!(arrived.is_ok());
        assert_eq!(disk.held()[0].operation, Operation::Flush);
        disk.hold(false);
        disk.release_all().await;
    });
}
