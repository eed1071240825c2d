//! Reads of a snapshot while its origin is written: none returns what is written.

use std::pin::pin;
use std::sync::Arc;

use block::{Operation, Range, TryIo, WriteFlags};
use futures_util::future::{join_all, poll_immediate};
use testkit::{CrashDisk, HeldDisk, MemDisk, block_on, pattern, single};

use super::super::Origin;
use super::{
    BASE, SIZE, base_bytes, base_of, new_store, open_one, read_all, store, store_size, write,
};

#[test]
fn a_read_that_was_in_flight_below_does_not_return_what_was_written_meanwhile() {
    block_on(async {
        let base = HeldDisk::new(base_of(SIZE));
        base.hold(false);
        let origin = open_one(base.clone(), new_store(SIZE, 4096)).await.unwrap();
        let snapshot = origin.snapshot("a").unwrap();
        let range = Range::new(1000, 20_000);
        base.hold(true);
        let mut read = pin!(snapshot.read(range));
        assert!(poll_immediate(read.as_mut()).await.is_none());
        base.arrival().await;
        base.hold(false);
        write(&*origin.disk(), Range::new(4096, 8192), 7)
            .await
            .unwrap();
        base.release_all().await;
        let found = read.await.unwrap().concat();
        assert!(found == pattern(BASE, range));
    });
}

#[test]
fn reads_and_writes_together_leave_a_snapshot_as_it_was() {
    for seed in 0..60 {
        block_on(async {
            let base = CrashDisk::from_bytes(base_bytes(SIZE)).interleaved(seed);
            let stores = [("a", 4096), ("b", 16384)].map(|(name, chunk)| {
                let cow = CrashDisk::new(store_size(SIZE, chunk)).interleaved(seed ^ 77);
                store(name, Arc::new(cow), chunk)
            });
            let origin = Origin::open(Arc::new(base), stores.to_vec(), false)
                .await
                .unwrap();
            let disk = origin.disk();
            let snapshots = ["a", "b"].map(|name| origin.snapshot(name).unwrap());
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut range = || {
                let offset = rng.u64(0..SIZE - 1);
                Range::new(offset, rng.u64(1..=(SIZE - offset).min(20_000)))
            };
            let writes: Vec<Range> = (0..24).map(|_| range()).collect();
            let reads: Vec<Range> = (0..48).map(|_| range()).collect();
            let writing = join_all(writes.iter().map(|&range| write(&*disk, range, 9)));
            let reading = join_all(reads.iter().enumerate().map(async |(index, &range)| {
                testkit::moments(u8::try_from(index).unwrap()).await;
                let snapshot = &snapshots[index % 2];
                let found = snapshot.read(range).await.unwrap().concat();
                assert!(found == pattern(BASE, range), "seed {seed}, {range}");
                let extents = snapshot.extents(range).await.unwrap();
                assert!(extents.iter().all(|e| e.kind == block::ExtentKind::Data));
            }));
            let (written, _) = futures_util::future::join(writing, reading).await;
            assert!(written.iter().all(Result::is_ok));
            for snapshot in &snapshots {
                assert!(
                    read_all(&**snapshot).await == base_bytes(SIZE),
                    "seed {seed}"
                );
            }
        });
    }
}

/// Carries out what `disks` hold until `future` is done; returns it and the operations of each disk, in order.
async fn carry_out<T>(
    disks: &[(&'static str, &Arc<HeldDisk>)],
    future: impl Future<Output = T>,
) -> (T, Vec<(&'static str, Operation)>) {
    let mut future = pin!(future);
    let mut operations = Vec::new();
    loop {
        // What a task may do in one turn is bounded.
        tokio::task::yield_now().await;
        if let Some(output) = poll_immediate(future.as_mut()).await {
            return (output, operations);
        }
        for (name, disk) in disks {
            for held in disk.held() {
                operations.push((*name, held.operation));
                disk.release(held.id).await;
            }
        }
    }
}

/// Many first writes share commits of the table, buffered or not: the flushes of the store are few.
#[test]
fn first_writes_share_commits() {
    for flags in [WriteFlags::empty(), WriteFlags::FUA] {
        block_on(async {
            const COUNT: u64 = 64;
            let size = 4096 * COUNT;
            let cow = HeldDisk::new(new_store(size, 4096));
            cow.hold(false);
            let origin = open_one(base_of(size), cow.clone()).await.unwrap();
            let disk = origin.disk();
            cow.hold(true);
            let writes = (0..COUNT).map(|n| {
                let range = Range::new(n * 4096, 4096);
                disk.write(range, single(pattern(1, range)), flags)
            });
            let all = async {
                assert!(join_all(writes).await.iter().all(Result::is_ok));
                disk.flush().await.unwrap();
            };
            let ((), operations) = carry_out(&[("store", &cow)], all).await;
            let is_flush = |(_, operation): &&(_, Operation)| *operation == Operation::Flush;
            let flushes = operations.iter().filter(is_flush).count();
            assert!(
                flushes <= 3,
                "{flushes} flushes for {COUNT} writes, {flags:?}"
            );
        });
    }
}

/// A write reaches the origin only after the store was flushed and its table written.
#[test]
fn the_exception_is_durable_before_the_origin_is_written() {
    for flags in [WriteFlags::empty(), WriteFlags::FUA] {
        block_on(async {
            let base = HeldDisk::new(base_of(SIZE));
            let cow = HeldDisk::new(new_store(SIZE, 4096));
            base.hold(false);
            cow.hold(false);
            let origin = open_one(base.clone(), cow.clone()).await.unwrap();
            let disk = origin.disk();
            base.hold(true);
            cow.hold(true);
            let range = Range::new(0, 4096);
            let writing = async {
                disk.write(range, single(pattern(1, range)), flags)
                    .await
                    .unwrap();
                disk.flush().await.unwrap();
            };
            let disks = [("base", &base), ("store", &cow)];
            let ((), operations) = carry_out(&disks, writing).await;
            let expected = [
                ("base", Operation::Read),
                ("store", Operation::Write),
                ("store", Operation::Flush),
                ("store", Operation::Write),
                ("base", Operation::Write),
                ("base", Operation::Flush),
            ];
            assert_eq!(operations, expected, "the last write of the store has FUA");
        });
    }
}

/// A small write is acknowledged when its old chunk is copied; it is read at once, and below after a flush.
#[test]
fn a_buffered_write_is_read_before_it_is_below() {
    block_on(async {
        let base = base_of(SIZE);
        let origin = open_one(base.clone(), new_store(SIZE, 4096)).await.unwrap();
        let disk = origin.disk();
        let range = Range::new(5000, 9000);
        write(&*disk, range, 1).await.unwrap();
        assert!(base.snapshot() == base_bytes(SIZE));
        assert!(disk.read(range).await.unwrap().concat() == pattern(1, range));
        let around = disk.read(Range::new(0, SIZE)).await.unwrap().concat();
        assert!(around[..5000] == base_bytes(SIZE)[..5000]);
        assert!(disk.file_region(range).is_none());
        let mut into = vec![0; 9000];
        assert_eq!(disk.try_read(range, &mut into), TryIo::WouldBlock);
        disk.flush().await.unwrap();
        assert!(base.snapshot() == around);
        assert_eq!(disk.try_read(range, &mut into), TryIo::Done);
    });
}

/// The buffer is bounded: a caller that never flushes waits for a drain from time to time.
#[test]
fn a_caller_that_never_flushes_fills_no_memory() {
    block_on(async {
        let size = 40 << 20;
        let base = base_of(size);
        let origin = open_one(base.clone(), new_store(size, 65_536))
            .await
            .unwrap();
        let disk = origin.disk();
        for n in 0..size / 65_536 {
            write(&*disk, Range::new(n * 65_536, 65_536), 1)
                .await
                .unwrap();
        }
        let below = base.snapshot();
        let drained = (0..size / 65_536).filter(|n| {
            let range = Range::new(n * 65_536, 64);
            let start = usize::try_from(range.offset).unwrap();
            below[start..start + 64] == pattern(1, range)
        });
        assert!(drained.count() * 65_536 >= 24 << 20);
    });
}

#[test]
fn a_copied_chunk_is_written_at_once_and_others_are_not() {
    block_on(async {
        let origin = open_one(base_of(SIZE), new_store(SIZE, 4096))
            .await
            .unwrap();
        let disk = origin.disk();
        let range = Range::new(8192, 4096);
        let data = pattern(1, range);
        assert_eq!(disk.try_write(range, &data), TryIo::WouldBlock);
        write(&*disk, range, 1).await.unwrap();
        assert_eq!(
            disk.try_write(range, &data),
            TryIo::WouldBlock,
            "it is buffered"
        );
        disk.flush().await.unwrap();
        assert_eq!(disk.try_write(range, &data), TryIo::Done);
        assert_eq!(
            disk.try_write(Range::new(8192, 4097), &pattern(1, Range::new(8192, 4097))),
            TryIo::WouldBlock
        );
        let cow = new_store(SIZE, 4096);
        origin.create_snapshot(store("b", cow, 4096)).await.unwrap();
        assert_eq!(disk.try_write(range, &data), TryIo::WouldBlock);
    });
}

#[test]
fn reads_of_the_origin_need_no_look_at_the_snapshots() {
    block_on(async {
        let base = Arc::new(MemDisk::from_bytes(base_bytes(SIZE)));
        let origin = open_one(base, new_store(SIZE, 4096)).await.unwrap();
        let disk = origin.disk();
        let mut into = vec![0; 4096];
        assert_eq!(disk.try_read(Range::new(0, 4096), &mut into), TryIo::Done);
        assert!(
            disk.remap(Range::new(0, 4096)).is_none(),
            "its caller may write there"
        );
    });
}
