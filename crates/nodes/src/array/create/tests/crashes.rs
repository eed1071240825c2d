//! What a power cut leaves in the middle, and what a disk leaves that fails.

use std::sync::Arc;

use block::{Errno, Node, Operation};
use testkit::{CrashDisk, Effect, Fault, FaultDisk, block_on};

use super::{MIB, disks, made, member, stamp, usual};
use crate::Memory;
use crate::array::create::{make, write};
use crate::array::format::bitmap::Bits;
use crate::array::format::tests::VERSIONS;
use crate::array::format::{Level, Version, bitmap};
use crate::array::{ArrayError, examine};
use crate::read_within;

#[test]
fn a_superblock_that_a_power_cut_leaves_stands_beside_a_whole_bitmap() {
    for version in VERSIONS {
        for seed in 0..60 {
            let disks = [0, 1].map(|n| Arc::new(CrashDisk::new(2 * MIB).interleaved(seed + n)));
            let parts = disks.clone().map(|disk| member("a", disk));
            let options = usual(Level::Raid1, version);
            let stamp = stamp(2);
            let making = Box::pin(make(&parts, &[], &options, &stamp));
            // The cut comes after so many polls.
            cut(making, seed);
            for disk in &disks {
                left_of(disk.crash(seed));
            }
        }
    }
}

/// Polls a future so many times.
fn cut<F: Future>(mut making: std::pin::Pin<Box<F>>, polls: u64) {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for _ in 0..polls {
        if making.as_mut().poll(&mut context).is_ready() {
            return;
        }
    }
}

/// A disk after the cut is whole, or has none.
fn left_of(bytes: Vec<u8>) {
    let size = bytes.len() as u64;
    let disk: Node = Arc::new(testkit::MemDisk::from_bytes(bytes));
    for found in block_on(examine(&disk)).expect("it can be read") {
        // An old one has eight sectors, which can be torn; then it is reported as damaged.
        let Ok(superblock) = &found.superblock else {
            assert!(matches!(found.version, Version::V0_90 { .. }));
            continue;
        };
        let bitmap = found.bitmap.expect("it has one").expect("it is good");
        let shape = bitmap.shape(superblock).expect("it is its own");
        let place = bitmap::place(superblock, found.at, &shape, size, 512);
        let place = place.expect("there is room").expect("it has one");
        let bytes = block_on(read_within(&disk, place)).expect("it can be read");
        assert_eq!(Bits::decode(shape, &bytes, bitmap.size), Bits::full(shape));
    }
}

#[test]
fn the_cuts_meet_disks_with_and_without_superblocks() {
    let left = |polls| {
        let disk = Arc::new(CrashDisk::new(2 * MIB).interleaved(7));
        let other = Arc::new(CrashDisk::new(2 * MIB).interleaved(8));
        let parts = [member("a", disk.clone()), member("b", other)];
        let options = usual(Level::Raid1, Version::V1_2);
        let stamp = stamp(2);
        cut(Box::pin(make(&parts, &[], &options, &stamp)), polls);
        let disk: Node = Arc::new(testkit::MemDisk::from_bytes(disk.durable()));
        block_on(examine(&disk)).expect("it can be read").len()
    };
    assert_eq!((left(0), left(5), left(1000)), (0, 0, 1));
}

#[test]
fn a_disk_that_fails_is_named_and_no_superblock_is_written_then() {
    let failing: Node = Arc::new(Memory::new(64 * MIB));
    let fault = Fault::new(Effect::Fail(Errno::Io)).on(Operation::Write);
    let failing: Node = FaultDisk::new(failing, 1, vec![fault]);
    let mut parts = disks(&[64 * MIB, 64 * MIB]);
    parts[1] = member("b", failing);
    let failed = made(&parts, &[], &usual(Level::Raid1, Version::V1_2));
    let failed = failed.expect_err("b fails");
    assert!(matches!(failed, ArrayError::Write { .. }));
    assert!(failed.to_string().starts_with("b cannot be written: "));
    for part in &parts {
        let disk = part.disk.as_ref().expect("it is there");
        assert_eq!(block_on(examine(disk)).expect("it can be read"), []);
    }
}

#[test]
fn wiping_a_disk_without_superblocks_writes_nothing() {
    let fault = Fault::new(Effect::Fail(Errno::Io)).on(Operation::Write);
    let disk: Node = FaultDisk::new(Arc::new(Memory::new(64 * MIB)), 1, vec![fault]);
    assert!(block_on(write::wipe(&disk)).is_ok());
}
