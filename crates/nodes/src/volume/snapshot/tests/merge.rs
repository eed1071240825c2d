//! Merging: the disk reads as the snapshot at every moment, and a merge that was cut or dropped anywhere is resumed.

use std::pin::pin;
use std::sync::Arc;

use block::{BlockDevice, IoBufs, IoError, IoFuture, Node, Operation, Range, WriteFlags};
use futures_util::future::{join, poll_immediate};
use proptest::prelude::*;
use testkit::{
    HeldDisk, MemDisk, Model, Op, OpSpace, block_on, check_against_model, check_crashes,
    check_in_batches, ops, pattern, single,
};

use super::super::{Origin, SnapshotState, SnapshotStore};
use super::{
    BASE, CHUNK, SIZE, base_bytes, base_of, new_store, read_all, store, store_size, write,
};

fn merging(cow: Node) -> SnapshotStore {
    SnapshotStore {
        merging: true,
        ..store("a", cow, CHUNK)
    }
}

/// Fills a store: some chunks are the origin's old ones, some were written to the snapshot. Returns what the snapshot
/// reads as.
async fn fill(base: Node, cow: Node) -> Vec<u8> {
    let origin = super::open_one(base, cow).await.unwrap();
    let (disk, snapshot) = (origin.disk(), origin.snapshot("a").unwrap());
    let size = disk.geometry().size;
    write(&*disk, Range::new(0, 9000), 1).await.unwrap();
    write(&*snapshot, Range::new(size - 5000, 5000), 2)
        .await
        .unwrap();
    write(&*disk, Range::new(20_000, 4000), 3).await.unwrap();
    write(&*snapshot, Range::new(4096, 20_000), 4)
        .await
        .unwrap();
    write(&*disk, Range::new(size / 2, 3000), 5).await.unwrap();
    snapshot.flush().await.unwrap();
    disk.flush().await.unwrap();
    read_all(&*snapshot).await
}

async fn open_merging(base: Node, cow: Node) -> Origin {
    Origin::open(base, vec![merging(cow)], false).await.unwrap()
}

#[test]
fn a_merged_origin_reads_as_the_snapshot_did() {
    block_on(async {
        let (base, cow) = (base_of(SIZE), new_store(SIZE, CHUNK));
        let expected = fill(base.clone(), cow.clone()).await;
        let origin = open_merging(base.clone(), cow.clone()).await;
        let disk = origin.disk();
        assert!(read_all(&*disk).await == expected);
        assert_eq!(origin.status()[0].state, SnapshotState::Merging);
        assert!(origin.snapshot("a").is_err());
        origin.merge().await.unwrap();
        assert!(read_all(&*disk).await == expected);
        assert_eq!(origin.status()[0].copied, 0);
        assert!(base.snapshot() == expected);
        let header = &cow.snapshot()[4096..8192];
        assert!(
            header.iter().all(|&byte| byte == 0),
            "no table lists anything"
        );
    });
}

#[test]
fn the_other_snapshots_of_a_merged_origin_keep_what_they_were() {
    block_on(async {
        let (base, cow) = (base_of(SIZE), new_store(SIZE, CHUNK));
        let expected = fill(base.clone(), cow.clone()).await;
        let before = base.snapshot();
        let other = store("other", new_store(SIZE, 8192), 8192);
        let stores = vec![other, merging(cow)];
        let origin = Origin::open(base, stores, false).await.unwrap();
        let other = origin.snapshot("other").unwrap();
        assert!(read_all(&*other).await == before);
        origin.merge().await.unwrap();
        assert!(read_all(&*other).await == before);
        assert!(read_all(&*origin.disk()).await == expected);
    });
}

#[test]
fn a_merge_of_several_tables_goes_from_the_last_to_the_first() {
    block_on(async {
        // Two tables of 256 exceptions and a part of a third.
        const CHUNKS: u64 = 600;
        let size = CHUNKS * 4096;
        let (base, cow) = (base_of(size), new_store(size, CHUNK));
        let origin = super::open_one(base.clone(), cow.clone()).await.unwrap();
        write(&*origin.disk(), Range::new(0, size), 1)
            .await
            .unwrap();
        drop(origin);
        let origin = open_merging(base.clone(), cow.clone()).await;
        let mut left = vec![CHUNKS];
        while left.last() != Some(&0) {
            left.push(origin.merge_step().await.unwrap());
            assert!(read_all(&*origin.disk()).await == base_bytes(size));
        }
        assert_eq!(left, [600, 512, 256, 0]);
        assert!(base.snapshot() == base_bytes(size));
    });
}

/// A disk that merges a step with each change and flush, so that checks of nodes come between its parts.
#[derive(Debug)]
struct StepByStep {
    origin: Origin,
    disk: Node,
}

impl StepByStep {
    async fn with<T>(&self, request: IoFuture<'_, T>) -> Result<T, IoError> {
        let (result, step) = join(request, self.origin.merge_step()).await;
        step.expect("nothing below fails");
        result
    }
}

impl BlockDevice for StepByStep {
    testkit::forward!(disk: geometry, read, extents, identity, settle, try_read, try_write);

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(self.with(self.disk.write(range, data, flags)))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(self.with(self.disk.flush()))
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(self.with(self.disk.write_zeroes(range, flags)))
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(self.with(self.disk.trim(range)))
    }
}

async fn step_by_step(base: Node, cow: Node) -> Arc<StepByStep> {
    let origin = open_merging(base, cow).await;
    let disk = origin.disk();
    Arc::new(StepByStep { origin, disk })
}

/// A chunk of which a step merges few, so that there are many steps: 1 MiB is one.
const MERGE_CHUNK: u32 = 512 * 1024;

const MARK: u64 = 512;

/// Opens on disks of zeroes, or on what a cut left: the snapshot is filled and its merge begins when they are new.
async fn open(disks: Vec<Node>) -> Result<Node, IoError> {
    let [mark, base, cow] = disks.try_into().expect("three disks");
    let whole = Range::new(0, MARK);
    if mark.read(whole).await?.concat() == [0; 512] {
        let all = Range::new(0, base.geometry().size);
        base.write(all, single(pattern(BASE, all)), WriteFlags::FUA)
            .await?;
        fill(base.clone(), cow.clone()).await;
        mark.write(whole, single(vec![1; 512]), WriteFlags::FUA)
            .await?;
    }
    Ok(step_by_step(base, cow).await)
}

fn sizes() -> [u64; 3] {
    [MARK, SIZE, store_size(SIZE, CHUNK)]
}

const fn space(block_size: u32) -> OpSpace {
    OpSpace {
        size: SIZE,
        block_size,
        len_max: 20_000,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn an_origin_that_is_merged_is_a_disk(list in ops(space(1), 0..40), width in 1_usize..12) {
        block_on(async {
            let (base, cow) = (base_of(SIZE), new_store(SIZE, CHUNK));
            let expected = fill(base.clone(), cow.clone()).await;
            let disk = step_by_step(base.clone(), cow.clone()).await;
            assert!(read_all(&*disk).await == expected);
            check_in_batches(&*disk, &list, width).await.unwrap();
            let before = read_all(&*disk).await;
            disk.origin.merge().await.unwrap();
            assert!(read_all(&*disk).await == before);
            disk.flush().await.unwrap();
            assert!(read_all(&*open_merging(base, cow).await.disk()).await == before);
        });
    }

    /// The content after the merge is what the requests left, wherever the power was cut in between.
    #[test]
    fn a_merge_that_was_cut_from_power_goes_on(list in ops(space(512), 0..12), seed: u64) {
        block_on(check_crashes(open, &sizes(), &list, seed)).unwrap();
    }
}

/// Every step is cut after every release of a request below, dropped, and resumed.
#[test]
fn a_merge_that_was_dropped_anywhere_goes_on() {
    block_on(async {
        for releases in 0.. {
            let (base, cow) = (base_of(SIZE), new_store(SIZE, CHUNK));
            let expected = fill(base.clone(), cow.clone()).await;
            let disks = [HeldDisk::new(base), HeldDisk::new(cow)];
            disks.iter().for_each(|disk| disk.hold(false));
            let origin = open_merging(disks[0].clone(), disks[1].clone()).await;
            disks.iter().for_each(|disk| disk.hold(true));
            let is_done = {
                let mut merging = pin!(origin.merge());
                let mut is_done = poll_immediate(merging.as_mut()).await.is_some();
                for _ in 0..releases {
                    if is_done {
                        break;
                    }
                    let _released =
                        disks[0].release_oldest().await || disks[1].release_oldest().await;
                    is_done = poll_immediate(merging.as_mut()).await.is_some();
                }
                is_done
            };
            disks.iter().for_each(|disk| disk.hold(false));
            // A change of everything meets the chunks of the step that was dropped; what is on its way lands meanwhile.
            let disk = origin.disk();
            let range = Range::new(3000, 30_000);
            let late = async {
                testkit::moments(3).await;
                for disk in &disks {
                    disk.release_all().await;
                }
            };
            let (written, ()) = join(write(&*disk, range, 7), late).await;
            written.unwrap();
            let mut model = Model::from_bytes(expected);
            let flags = WriteFlags::empty();
            model.apply(&Op::Write {
                range,
                fill: 7,
                flags,
                now: false,
            });
            let whole = Range::new(0, SIZE);
            assert!(
                model.agrees(whole, &read_all(&*disk).await),
                "after {releases} releases"
            );
            origin.merge().await.unwrap();
            assert!(
                model.agrees(whole, &read_all(&*disk).await),
                "after {releases} releases"
            );
            if is_done {
                return;
            }
        }
    });
}

#[test]
fn a_write_of_a_chunk_that_a_step_copies_waits_and_others_do_not() {
    block_on(async {
        let (base, cow) = (base_of(SIZE), new_store(SIZE, CHUNK));
        let first = super::open_one(base.clone(), cow.clone()).await.unwrap();
        write(&*first.snapshot("a").unwrap(), Range::new(0, 4096), 1)
            .await
            .unwrap();
        first.snapshot("a").unwrap().flush().await.unwrap();
        drop(first);
        let cow = HeldDisk::new(cow);
        cow.hold(false);
        let origin = open_merging(base, cow.clone()).await;
        let disk = origin.disk();
        cow.hold(true);
        let mut merging = pin!(origin.merge());
        assert!(poll_immediate(merging.as_mut()).await.is_none());
        // The table is read, and then the chunk.
        cow.release_oldest().await;
        assert!(poll_immediate(merging.as_mut()).await.is_none());
        assert_eq!(cow.held()[0].operation, Operation::Read);
        let mut same = pin!(write(&*disk, Range::new(100, 10), 2));
        assert!(poll_immediate(same.as_mut()).await.is_none());
        write(&*disk, Range::new(8192, 10), 3).await.unwrap();
        cow.hold(false);
        cow.release_all().await;
        let (merged, written) = join(merging, same).await;
        merged.unwrap();
        written.unwrap();
        assert_eq!(
            super::read(&*disk, Range::new(100, 10)).await,
            pattern(2, Range::new(100, 10))
        );
    });
}

/// A write of the origin's bytes that is in flight below lands before its chunk is copied.
#[test]
fn a_step_waits_for_the_writes_of_its_chunks() {
    block_on(async {
        let (base, cow) = (base_of(SIZE), new_store(SIZE, CHUNK));
        fill(base.clone(), cow.clone()).await;
        let cow = HeldDisk::new(cow);
        cow.hold(false);
        let origin = open_merging(base, cow.clone()).await;
        let disk = origin.disk();
        let range = Range::new(5000, 100);
        cow.hold(true);
        let mut writing = pin!(write(&*disk, range, 9));
        assert!(poll_immediate(writing.as_mut()).await.is_none());
        let mut merging = pin!(origin.merge());
        assert!(poll_immediate(merging.as_mut()).await.is_none());
        let held = cow.held();
        assert_eq!(held.len(), 2, "the write, and the read of the table");
        cow.release(held[1].id).await;
        assert!(poll_immediate(merging.as_mut()).await.is_none());
        assert_eq!(
            cow.held().len(),
            1,
            "no chunk is read before the write has landed"
        );
        cow.hold(false);
        cow.release_all().await;
        let (merged, written) = join(merging, writing).await;
        merged.unwrap();
        written.unwrap();
        assert_eq!(super::read(&*disk, range).await, pattern(9, range));
    });
}

/// Chunks of 512 KiB: a step is two of them, so that a merge has many.
#[test]
fn large_chunks_are_merged_a_few_at_a_time() {
    block_on(async {
        let size = 5 * u64::from(MERGE_CHUNK) + 4096;
        let (base, cow) = (base_of(size), new_store(size, MERGE_CHUNK));
        let list = vec![store("a", cow.clone(), MERGE_CHUNK)];
        let origin = Origin::open(base.clone(), list, false).await.unwrap();
        write(&*origin.disk(), Range::new(0, size), 1)
            .await
            .unwrap();
        drop(origin);
        let origin = open_merging(base, cow).await;
        let mut left = Vec::new();
        while left.last() != Some(&0) {
            left.push(origin.merge_step().await.unwrap());
        }
        assert_eq!(left, [4, 2, 0]);
        assert!(read_all(&*origin.disk()).await == base_bytes(size));
        check_against_model(&*origin.disk(), &[]).await.unwrap();
    });
}

#[test]
fn an_empty_store_has_nothing_to_merge() {
    block_on(async {
        let cow = Arc::new(MemDisk::new(store_size(SIZE, CHUNK)));
        let origin = open_merging(base_of(SIZE), cow).await;
        assert_eq!(origin.merge_step().await.unwrap(), 0);
        assert!(read_all(&*origin.disk()).await == base_bytes(SIZE));
    });
}
