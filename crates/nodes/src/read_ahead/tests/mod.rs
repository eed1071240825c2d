//! Tests of `read_ahead`: `pure` (readers, pieces, windows), `changes` (what is kept is what is
//! below, after any write and any dropped future), and here: what it is good for, and what it leaves alone.

mod changes;
mod pure;

use std::pin::pin;
use std::sync::Arc;

use block::{BlockDevice, Errno, Node, Operation, Range, TryIo, WriteFlags};
use futures_util::future::join_all;
use proptest::prelude::*;
use testkit::{
    CrashDisk, HeldDisk, MemDisk, Op, OpSpace, block_on, check_against_model,
    check_dropped_futures, check_in_batches, gather, ops, pattern, single,
};

use super::ReadAhead;
use crate::test_runtime::is_ready;
use crate::{Fault, FaultEffect, FaultHandle, FaultPlan, FaultRule, Memory, Null};

const SIZE: u64 = 1024 * 1024;
const KIB: u64 = 1024;
/// Four pieces of 64 KiB.
const WINDOW: u64 = 256 * KIB;

fn open(child: impl BlockDevice + 'static) -> ReadAhead {
    ReadAhead::new(Arc::new(child), WINDOW).unwrap()
}

/// A disk that is read ahead over one that counts its requests.
fn counted(child: Node, window: u64) -> (ReadAhead, FaultHandle) {
    let child = Fault::new(child, FaultPlan::default());
    let handle = child.handle();
    (ReadAhead::new(Arc::new(child), window).unwrap(), handle)
}

async fn fill(disk: &dyn BlockDevice) {
    let range = Range::new(0, disk.geometry().size);
    let data = single(pattern(1, range));
    disk.write(range, data, WriteFlags::empty()).await.unwrap();
}

async fn expect(disk: &dyn BlockDevice, fill: u8, range: Range) {
    let found = gather(&disk.read(range).await.unwrap());
    assert!(found == pattern(fill, range), "{range}");
}

/// Lets tasks go on.
async fn others() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Readers that go on, others that jump, and changes before and behind them.
fn sequences() -> impl Strategy<Value = Vec<Op>> {
    const BLOCK: u64 = 4 * KIB;
    let step = (0..20_u8, 1..9_u64, 0..SIZE / BLOCK, any::<u8>());
    prop::collection::vec(step, 0..120).prop_map(|steps| {
        let mut cursor = 0;
        let mut ops = Vec::new();
        for (kind, blocks, place, fill) in steps {
            let at = |offset: u64| {
                let offset = offset % SIZE;
                Range::new(offset, (blocks * BLOCK).min(SIZE - offset))
            };
            let near = at(cursor + place % 64 * BLOCK);
            let flags = WriteFlags::empty();
            ops.push(match kind {
                0 => {
                    cursor = place * BLOCK;
                    Op::Flush
                }
                1..3 => Op::Write {
                    range: near,
                    fill,
                    flags,
                    now: fill.is_multiple_of(2),
                },
                3 => Op::WriteZeroes { range: near, flags },
                4 => Op::Trim { range: near },
                _ => {
                    let range = at(cursor);
                    cursor = range.end() % SIZE;
                    Op::Read { range }
                }
            });
        }
        ops
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_disk_that_is_read_ahead_is_the_disk_below(ops in sequences()) {
        block_on(check_against_model(&open(MemDisk::new(SIZE)), &ops)).unwrap();
    }

    #[test]
    fn requests_side_by_side_see_what_is_below(ops in sequences(), seed: u64) {
        let child = CrashDisk::new(SIZE).interleaved(seed);
        block_on(check_in_batches(&open(child), &ops, 8)).unwrap();
    }

    #[test]
    fn random_requests_see_what_is_below(
        ops in ops(OpSpace { size: SIZE, block_size: 1, len_max: 200 * KIB }, 0..40), seed: u64,
    ) {
        let child = CrashDisk::new(SIZE).interleaved(seed);
        block_on(check_in_batches(&open(child), &ops, 8)).unwrap();
    }
}

#[test]
fn a_dropped_future_leaves_nothing_behind_after_settle() {
    let open = async |children: Vec<Node>| {
        let disk = ReadAhead::new(children[0].clone(), WINDOW).unwrap();
        Ok(Arc::new(disk) as Node)
    };
    let range = Range::new(4096, 8192);
    let flags = WriteFlags::FUA;
    let list = [
        Op::Write {
            range,
            fill: 3,
            flags,
            now: false,
        },
        Op::WriteZeroes { range, flags },
        Op::Trim { range },
        Op::Read { range },
        Op::Flush,
    ];
    block_on(check_dropped_futures(open, &[SIZE], &list)).unwrap();
}

#[test]
fn a_sequential_reader_becomes_a_few_large_reads_below() {
    block_on(async {
        let size = 8 * SIZE;
        let (disk, handle) = counted(Arc::new(Memory::new(size)), 4 * SIZE);
        fill(&disk).await;
        let before = handle.requests();
        for at in 0..size / (16 * KIB) {
            expect(&disk, 1, Range::new(at * 16 * KIB, 16 * KIB)).await;
        }
        // Three reads before it is sure, and pieces of 1 MiB.
        let asked = handle.requests() - before;
        assert!(asked <= 3 + 8, "{asked} requests below instead of 512");
    });
}

#[test]
fn readers_that_take_turns_are_distinguished() {
    block_on(async {
        let (disk, handle) = counted(Arc::new(Memory::new(8 * SIZE)), SIZE);
        fill(&disk).await;
        let before = handle.requests();
        for at in 0..64 {
            for reader in 0..4 {
                let offset = reader * 2 * SIZE + at * 16 * KIB;
                expect(&disk, 1, Range::new(offset, 16 * KIB)).await;
            }
        }
        // Each reads 1 MiB: three reads, and pieces of 256 KiB with the window beyond the end.
        let asked = handle.requests() - before;
        assert!(
            asked <= 4 * (3 + 9),
            "{asked} requests below instead of 256"
        );
    });
}

#[test]
fn requests_that_overtake_each_other_are_one_reader() {
    block_on(async {
        let (disk, handle) = counted(Arc::new(Memory::new(8 * SIZE)), 4 * SIZE);
        fill(&disk).await;
        let before = handle.requests();
        let at = |n: u64| Range::new(n * 16 * KIB, 16 * KIB);
        for n in 0..4 {
            expect(&disk, 1, at(n)).await;
        }
        for batch in 1..60 {
            let order = [3, 0, 7, 2, 1, 5, 4, 6].map(|n| batch * 8 + n);
            join_all(order.map(|n| expect(&disk, 1, at(n)))).await;
        }
        let asked = handle.requests() - before;
        assert!(asked <= 30, "{asked} requests below instead of 476");
    });
}

#[test]
fn random_reads_reach_the_disk_below_as_they_are() {
    const READS: u64 = 5000;
    block_on(async {
        let (disk, handle) = counted(Arc::new(Null::new(1 << 40)), 4 * SIZE);
        for n in 0..READS {
            let block = crate::chance::below(1, n, (1 << 40) / 4096);
            drop(disk.read(Range::new(block * 4096, 4096)).await.unwrap());
        }
        others().await;
        assert_eq!(handle.requests(), READS);
        assert_eq!(disk.cache.bytes(), 0);
    });
}

#[test]
fn memory_is_bounded_however_many_read() {
    block_on(async {
        let child = HeldDisk::new(Arc::new(Null::new(1 << 40)));
        child.hold(false);
        let disk = ReadAhead::new(child.clone(), SIZE).unwrap();
        let bytes_max = 4 * (SIZE + 2 * 256 * KIB);
        let mut most = 0;
        for at in 0..100 {
            for reader in 0..12 {
                let offset = reader * (1 << 32) + at * 64 * KIB;
                drop(disk.read(Range::new(offset, 64 * KIB)).await.unwrap());
                most = most.max(disk.cache.bytes());
                assert!(most <= bytes_max, "{most}");
            }
        }
        assert!(most > bytes_max / 2, "{most}: what there is is used");
    });
}

#[test]
fn a_read_in_line_takes_what_is_there_and_nothing_else() {
    block_on(async {
        let child = HeldDisk::new(Arc::new(Memory::new(SIZE)));
        child.hold(false);
        let disk = ReadAhead::new(child.clone(), WINDOW).unwrap();
        fill(&disk).await;
        let mut into = vec![0; 4096];
        let at = |n: u64| Range::new(n * 4096, 4096);
        assert_eq!(disk.try_read(at(0), &mut into), TryIo::WouldBlock);
        for n in 0..4 {
            expect(&disk, 1, at(n)).await;
        }
        others().await;
        assert_eq!(disk.try_read(at(4), &mut into), TryIo::Done);
        assert_eq!(into, pattern(1, at(4)));
        assert_eq!(disk.try_read(at(200), &mut into), TryIo::WouldBlock);
        assert!(disk.remap(at(4)).is_none() && disk.file_region(at(4)).is_none());
    });
}

#[test]
fn a_piece_that_cannot_be_read_fails_only_reads_of_its_bad_bytes() {
    block_on(async {
        let bad = Range::new(100 * KIB, 4 * KIB);
        let (disk, handle) = counted(Arc::new(Memory::new(SIZE)), WINDOW);
        fill(&disk).await;
        handle.add(FaultRule {
            on: vec![Operation::Read],
            at: Some(bad),
            ..FaultRule::new(FaultEffect::Fail(Errno::Io))
        });
        for n in 0..64 {
            let range = Range::new(n * 4 * KIB, 4 * KIB);
            if range == bad {
                let error = disk.read(range).await.unwrap_err();
                assert_eq!((error.errno, error.range), (Errno::Io, Some(range)));
            } else {
                expect(&disk, 1, range).await;
            }
        }
    });
}

#[test]
fn a_reader_waits_for_the_piece_that_is_under_way() {
    block_on(async {
        let child = HeldDisk::new(Arc::new(Memory::new(SIZE)));
        child.hold(false);
        let disk = ReadAhead::new(child.clone(), WINDOW).unwrap();
        fill(&disk).await;
        for n in 0..2 {
            expect(&disk, 1, Range::new(n * 4096, 4096)).await;
        }
        child.hold(true);
        {
            let third = Range::new(2 * 4096, 4096);
            let mut read = pin!(expect(&disk, 1, third));
            assert!(!is_ready(read.as_mut()).await);
            others().await;
            let held = child.held();
            let piece = Range::new(3 * 4096, 64 * KIB - 3 * 4096);
            assert_eq!(held[0].range, Some(third));
            assert_eq!(
                held[1].range,
                Some(piece),
                "from what is read to the end of its piece"
            );
            child.release(held[0].id).await;
            read.await;
        }
        let mut read = pin!(expect(&disk, 1, Range::new(3 * 4096, 4096)));
        assert!(!is_ready(read.as_mut()).await);
        others().await;
        assert!(
            child
                .held()
                .iter()
                .all(|held| held.range.is_some_and(|r| r.len > 4096))
        );
        child.hold(false);
        child.release_all().await;
        read.await;
    });
}

#[test]
fn a_window_has_its_bounds() {
    for window in [0, 4095, 64 * SIZE + 1, u64::MAX] {
        let refused = ReadAhead::new(Arc::new(Null::new(SIZE)), window).unwrap_err();
        let text = refused.to_string();
        assert!(
            text.contains("from 4096") && text.contains(&window.to_string()),
            "{text}"
        );
    }
    for window in [4 * KIB, SIZE, 64 * SIZE] {
        ReadAhead::new(Arc::new(Null::new(SIZE)), window).unwrap();
    }
}
