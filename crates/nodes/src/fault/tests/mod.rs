//! Tests of `fault`: `state` (which request goes wrong), `pull` (the drive comes and goes),
//! `cache` (what it loses), and here: the errors that a caller sees.

mod cache;
mod pull;
mod rules;

use std::sync::Arc;

use block::{BlockDevice, Errno, IoError, Node, Operation, Range, WriteFlags};
use proptest::prelude::*;
use testkit::{
    MemDisk, Op, OpSpace, TrimLeaves, block_on, check_against_model, check_dropped_futures,
    check_in_batches, gather, ops, pattern, single,
};

use super::{Fault, FaultEffect, FaultPlan, FaultRule};

const SIZE: u64 = 64 * 1024;
const RANGE: Range = Range::new(4096, 4096);

fn space() -> OpSpace {
    OpSpace {
        size: SIZE,
        block_size: 512,
        len_max: 3 * 4096,
    }
}

fn faulty(plan: FaultPlan) -> (Arc<MemDisk>, Fault) {
    let child = Arc::new(MemDisk::new(SIZE));
    (child.clone(), Fault::new(child, plan))
}

fn with(rule: FaultRule) -> (Arc<MemDisk>, Fault) {
    faulty(FaultPlan {
        rules: vec![rule],
        ..FaultPlan::default()
    })
}

fn with_cache(cache: u64) -> FaultPlan {
    FaultPlan {
        cache: Some(cache),
        ..FaultPlan::default()
    }
}

fn on(operation: Operation, effect: FaultEffect) -> FaultRule {
    FaultRule {
        on: vec![operation],
        ..FaultRule::new(effect)
    }
}

async fn write(disk: &dyn BlockDevice, range: Range, fill: u8) -> Result<(), IoError> {
    write_as(disk, range, fill, WriteFlags::empty()).await
}

async fn write_as(
    disk: &dyn BlockDevice,
    range: Range,
    fill: u8,
    flags: WriteFlags,
) -> Result<(), IoError> {
    let data = single(pattern(fill, range));
    disk.write(range, data, flags).await
}

async fn read(disk: &dyn BlockDevice, range: Range) -> Vec<u8> {
    gather(&disk.read(range).await.unwrap())
}

/// Every kind of request.
async fn send(disk: &dyn BlockDevice, operation: Operation) -> Result<(), IoError> {
    match operation {
        Operation::Read => disk.read(RANGE).await.map(drop),
        Operation::Write => write(disk, RANGE, 1).await,
        Operation::Flush => disk.flush().await,
        Operation::Trim => disk.trim(RANGE).await,
        Operation::WriteZeroes => disk.write_zeroes(RANGE, WriteFlags::empty()).await,
        Operation::Extents => disk.extents(RANGE).await.map(drop),
        Operation::Measure => disk.revalidate().await.map(drop),
    }
}

const KINDS: [Operation; 7] = [
    Operation::Read,
    Operation::Write,
    Operation::Flush,
    Operation::Trim,
    Operation::WriteZeroes,
    Operation::Extents,
    Operation::Measure,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_disk_without_faults_is_the_disk_below(ops in ops(space(), 0..60)) {
        let open = |plan| Fault::new(Arc::new(MemDisk::new(SIZE)), plan);
        block_on(check_against_model(&open(FaultPlan::default()), &ops)).unwrap();
        block_on(check_in_batches(&open(FaultPlan::default()), &ops, 12)).unwrap();
    }

    #[test]
    fn a_drive_with_a_cache_is_a_disk(ops in ops(space(), 0..60), cache in 0..80_000_u64) {
        let open = |plan| Fault::new(Arc::new(MemDisk::new(SIZE).trims_leave(TrimLeaves::Garbage)), plan);
        block_on(check_against_model(&open(with_cache(cache)), &ops)).unwrap();
        block_on(check_in_batches(&open(with_cache(cache)), &ops, 12)).unwrap();
    }
}

#[test]
fn a_dropped_future_leaves_nothing_behind_after_settle() {
    let list = [
        Op::Write {
            range: RANGE,
            fill: 3,
            flags: WriteFlags::FUA,
            now: false,
        },
        Op::Write {
            range: RANGE,
            fill: 4,
            flags: WriteFlags::empty(),
            now: false,
        },
        Op::WriteZeroes {
            range: RANGE,
            flags: WriteFlags::empty(),
        },
        Op::Trim { range: RANGE },
        Op::Read { range: RANGE },
        Op::Flush,
    ];
    for plan in [FaultPlan::default(), with_cache(SIZE * 2)] {
        let open = async |children: Vec<Node>| {
            let disk = Fault::new(children[0].clone(), plan.clone());
            Ok(Arc::new(disk) as Node)
        };
        block_on(check_dropped_futures(open, &[SIZE], &list)).unwrap();
    }
}

#[test]
fn the_requests_of_a_rule_fail_with_the_error_of_the_rule() {
    for wrong in KINDS {
        for errno in [Errno::Io, Errno::NoSpace] {
            let (_, disk) = with(on(wrong, FaultEffect::Fail(errno)));
            for sent in KINDS {
                let result = block_on(send(&disk, sent));
                match result {
                    Ok(()) => assert_ne!(sent, wrong),
                    Err(e) => assert_eq!((e.errno, e.operation), (errno, wrong)),
                }
            }
            assert_eq!(disk.handle().requests(), KINDS.len() as u64);
            assert_eq!(disk.handle().hits(), 1);
        }
    }
}

#[test]
fn a_failed_request_never_reaches_the_disk_below() {
    let (child, disk) = with(on(Operation::Write, FaultEffect::Fail(Errno::Io)));
    block_on(send(&disk, Operation::Write)).unwrap_err();
    assert_eq!(child.snapshot(), vec![0; 65_536]);
}

#[test]
fn a_lost_write_is_acknowledged_and_reads_give_what_was_there() {
    for operation in [Operation::Write, Operation::WriteZeroes, Operation::Trim] {
        let (_, disk) = faulty(FaultPlan::default());
        block_on(write(&disk, RANGE, 7)).unwrap();
        disk.handle().add(on(operation, FaultEffect::Lose));
        block_on(send(&disk, operation)).unwrap();
        assert_eq!(block_on(read(&disk, RANGE)), pattern(7, RANGE));
        disk.handle().heal();
        block_on(write(&disk, RANGE, 8)).unwrap();
        assert_eq!(block_on(read(&disk, RANGE)), pattern(8, RANGE));
    }
}

#[test]
fn of_a_torn_write_some_leading_sectors_arrive_and_never_all() {
    let mut seen = [false; 8];
    for seed in 0..100 {
        let rule = FaultRule {
            times: Some(1),
            ..FaultRule::new(FaultEffect::Tear(Errno::Io))
        };
        let (_, disk) = faulty(FaultPlan {
            seed,
            ..FaultPlan::default()
        });
        block_on(write(&disk, RANGE, 1)).unwrap();
        disk.handle().add(rule);
        assert_eq!(
            block_on(write(&disk, RANGE, 2)).unwrap_err().errno,
            Errno::Io
        );
        let found = block_on(read(&disk, RANGE));
        let sectors = pattern(2, RANGE);
        let arrived = found.iter().zip(&sectors).take_while(|(a, b)| a == b);
        let arrived = arrived.count();
        assert!(arrived.is_multiple_of(512) && arrived < 4096, "{arrived}");
        assert_eq!(found[arrived..], pattern(1, RANGE)[arrived..]);
        seen[arrived / 512] = true;
    }
    assert_eq!(seen, [true; 8], "each length is as likely as another");
}

#[test]
fn a_silently_torn_write_is_acknowledged() {
    let (child, disk) = with(FaultRule::new(FaultEffect::TearSilently));
    block_on(write(&disk, RANGE, 1)).unwrap();
    assert_ne!(child.snapshot()[4096..8192], pattern(1, RANGE));
    assert_eq!(child.snapshot()[8192 - 512..8192], [0; 512]);
    assert_eq!(child.snapshot()[8192..], vec![0; 65_536 - 8192]);
}

#[test]
fn no_block_of_a_disk_with_large_blocks_is_torn() {
    for seed in 0..20 {
        let child = MemDisk::new(SIZE).with_geometry(|geometry| geometry.block_size = 4096);
        let plan = FaultPlan {
            seed,
            rules: vec![FaultRule::new(FaultEffect::TearSilently)],
            ..FaultPlan::default()
        };
        let disk = Fault::new(Arc::new(child), plan);
        let range = Range::new(0, 8192);
        block_on(write(&disk, range, 1)).unwrap();
        let found = block_on(read(&disk, range));
        let whole =
            |block: &[u8]| block == vec![0; 4096] || block == pattern(1, Range::new(0, 4096));
        assert!(whole(&found[..4096]) && found[4096..] == vec![0; 4096]);
    }
}

#[test]
fn a_flush_that_failed_stays_failed() {
    let rule = FaultRule {
        times: Some(1),
        ..on(Operation::Flush, FaultEffect::Fail(Errno::NoSpace))
    };
    let (_, disk) = with(rule);
    for _ in 0..3 {
        let error = block_on(disk.flush()).unwrap_err();
        assert_eq!(error.errno, Errno::NoSpace);
        disk.handle().heal();
    }
    block_on(write(&disk, RANGE, 1)).unwrap();
}

#[test]
fn nothing_goes_around_the_faults() {
    let (_, disk) = faulty(FaultPlan::default());
    assert!(disk.remap(RANGE).is_none() && disk.file_region(RANGE).is_none());
    assert_eq!(
        disk.try_read(RANGE, &mut [0; 4096]),
        block::TryIo::WouldBlock
    );
    assert_eq!(disk.try_write(RANGE, &[0; 4096]), block::TryIo::WouldBlock);
}

#[test]
fn a_read_only_disk_stays_read_only_with_a_cache_in_front_of_it() {
    let child = MemDisk::new(SIZE).with_geometry(|geometry| geometry.read_only = true);
    let disk = Fault::new(Arc::new(child), with_cache(SIZE));
    let error = block_on(write(&disk, RANGE, 1)).unwrap_err();
    assert_eq!(error.errno, Errno::NotPermitted);
}
