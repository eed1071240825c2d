//! Requests on an overlay in memory, against the model.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use block::{BlockDevice, Errno, ExtentKind, Node, Operation, Range, Support, TryIo, WriteFlags};
use futures_util::future::{join, join_all};
use proptest::prelude::*;
use testkit::{
    Effect, Fault, FaultDisk, MemDisk, OpSpace, TrimLeaves, block_on, check_against_model,
    check_in_batches, ops, pattern, single,
};

use super::super::Overlay;
use super::{
    BASE, SIZE, SMALL, base_bytes, base_of, data, held, options, over, read, read_all, store_of,
    store_size, write,
};

const SPACE: OpSpace = OpSpace {
    size: SIZE,
    block_size: 1,
    len_max: 12 * 1024,
};

/// Polls a future once.
async fn is_ready<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

/// Drives an overlay of `chunk`s, looks at its base, and opens it once more.
fn check_model(chunk: u32, size: u64, list: &[testkit::Op], width: usize) {
    block_on(async {
        let base = base_of(size);
        let store = store_of(chunk, store_size(size, chunk)).trims_leave(TrimLeaves::Garbage);
        let store = Arc::new(store);
        let disk = over(base.clone(), store.clone()).await.unwrap();
        check_against_model(&disk, list).await.unwrap();
        check_in_batches(&disk, list, width).await.unwrap();
        let content = read_all(&disk).await;
        disk.flush().await.unwrap();
        assert_eq!(base.snapshot(), base_bytes(size), "the base is not touched");
        let again = Arc::new(MemDisk::from_bytes(store.snapshot()));
        let again = over(base, again).await.unwrap();
        assert_eq!(again.usage(), disk.usage());
        assert_eq!(read_all(&again).await, content);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn an_overlay_of_many_tables_is_a_disk(list in ops(SPACE, 0..40), width in 2_usize..9) {
        check_model(SMALL, SIZE, &list, width);
    }

    #[test]
    fn an_overlay_of_large_chunks_is_a_disk(list in ops(SPACE, 0..40), width in 2_usize..9) {
        check_model(4096, SIZE, &list, width);
    }

    #[test]
    fn a_base_that_ends_within_a_chunk_is_covered(list in ops(SPACE, 0..30), width in 2_usize..9) {
        check_model(16 * 1024, SIZE + 1536, &list, width);
    }

    #[test]
    fn an_overlay_over_an_overlay_is_a_disk(list in ops(SPACE, 0..30), before in ops(SPACE, 0..10)) {
        block_on(async {
            let store = || Arc::new(store_of(SMALL, store_size(SIZE, SMALL)));
            let below = over(base_of(SIZE), store()).await.unwrap();
            check_against_model(&below, &before).await.unwrap();
            let above = over(Arc::new(below), store()).await.unwrap();
            check_against_model(&above, &list).await.unwrap();
        });
    }

    #[test]
    fn blocks_of_4096_are_kept_to(list in ops(OpSpace { block_size: 4096, ..SPACE }, 0..30)) {
        block_on(async {
            let large = |disk: MemDisk| Arc::new(disk.with_geometry(|g| g.block_size = 4096));
            let base = large(MemDisk::from_bytes(base_bytes(SIZE)));
            let store = large(MemDisk::new(store_size(SIZE, 8192)));
            let disk = Overlay::over(base, store, options(8192)).await.unwrap();
            assert_eq!(disk.geometry().block_size, 4096);
            check_against_model(&disk, &list).await.unwrap();
        });
    }
}

/// A small overlay over a base that fails as `faults` say.
async fn over_failing(faults: Vec<Fault>) -> (Arc<FaultDisk>, Overlay) {
    let base = FaultDisk::new(base_of(SIZE), 1, faults);
    let store = Arc::new(store_of(4096, store_size(SIZE, 4096)));
    let disk = over(base.clone(), store).await.unwrap();
    (base, disk)
}

#[test]
fn whole_chunks_read_nothing_and_parts_read_only_what_is_missing() {
    block_on(async {
        let fails = Fault::new(Effect::Fail(Errno::Io)).on(Operation::Read);
        let (_, disk) = over_failing(vec![fails.clone()]).await;
        write(&disk, Range::new(4096, 8192), 1).await.unwrap();
        write(&disk, Range::new(5000, 10), 1).await.unwrap();
        // Only what lies before the request is missing: what lies behind it may fail.
        let tail = Range::new(17_384, 3096);
        let (_, disk) = over_failing(vec![fails.at(tail)]).await;
        write(&disk, tail, 2).await.unwrap();
        let chunk = read(&disk, Range::new(16_384, 4096)).await;
        assert_eq!(chunk[..1000], pattern(BASE, Range::new(16_384, 1000)));
        assert_eq!(chunk[1000..], pattern(2, tail));
    });
}

#[test]
fn a_base_that_cannot_be_read_fails_the_write_and_leaves_the_chunk_alone() {
    block_on(async {
        let fails = Fault::new(Effect::Fail(Errno::Io)).on(Operation::Read);
        let (base, disk) = over_failing(vec![fails]).await;
        let range = Range::new(100, 200);
        let error = write(&disk, range, 1).await.unwrap_err();
        assert_eq!(
            (error.errno, error.operation),
            (Errno::Io, Operation::Write)
        );
        assert_eq!(error.range, Some(range));
        assert_eq!(disk.usage().changed, 0);
        base.heal();
        assert_eq!(read_all(&disk).await, base_bytes(SIZE));
        write(&disk, range, 1).await.unwrap();
        assert_eq!(read(&disk, range).await, pattern(1, range));
    });
}

#[test]
fn neighbours_in_one_new_chunk_wait_for_each_other_and_are_all_written() {
    block_on(async {
        let store = held(Arc::new(store_of(4096, store_size(SIZE, 4096))));
        let disk = over(base_of(SIZE), store.clone()).await.unwrap();
        store.hold(true);
        let ranges: Vec<Range> = (0..8).map(|n| Range::new(n * 512, 512)).collect();
        let writes = ranges.iter().map(|&range| write(&disk, range, 9));
        let mut writes = pin!(join_all(writes));
        let mut first_writes = 0;
        while !is_ready(writes.as_mut()).await {
            let held = store.held();
            first_writes += held
                .iter()
                .filter(|held| held.range.is_some_and(|range| range.len == 4096))
                .count();
            store.release_oldest().await;
        }
        assert_eq!(first_writes, 1, "the chunk is copied once");
        store.hold(false);
        let whole = Range::new(0, 4096);
        assert_eq!(read(&disk, whole).await, pattern(9, whole));
        assert_eq!(disk.usage().changed, 1);
    });
}

#[test]
fn writes_of_different_chunks_do_not_wait() {
    block_on(async {
        let store = held(Arc::new(store_of(4096, store_size(SIZE, 4096))));
        let disk = over(base_of(SIZE), store.clone()).await.unwrap();
        store.hold(true);
        let both = join(
            write(&disk, Range::new(0, 4096), 1),
            write(&disk, Range::new(4096, 4096), 2),
        );
        let mut both = pin!(both);
        assert!(!is_ready(both.as_mut()).await);
        assert_eq!(store.held().len(), 2);
        store.release_all().await;
        assert!(is_ready(both.as_mut()).await);
    });
}

#[test]
fn a_chunk_that_is_being_written_still_reads_as_the_base() {
    block_on(async {
        let store = held(Arc::new(store_of(4096, store_size(SIZE, 4096))));
        let disk = over(base_of(SIZE), store.clone()).await.unwrap();
        store.hold(true);
        let range = Range::new(0, 4096);
        let mut writing = pin!(write(&disk, range, 1));
        assert!(!is_ready(writing.as_mut()).await);
        assert_eq!(read(&disk, range).await, pattern(BASE, range));
        assert_eq!(disk.try_write(range, &[0; 4096]), TryIo::WouldBlock);
        store.release_all().await;
        writing.await.unwrap();
        store.hold(false);
        assert_eq!(read(&disk, range).await, pattern(1, range));
    });
}

#[test]
fn requests_in_line_need_no_waiting_where_base_and_store_need_none() {
    block_on(async {
        let store = Arc::new(store_of(SMALL, store_size(SIZE, SMALL)));
        let disk = over(base_of(SIZE), store).await.unwrap();
        // Every chunk for the first time, over all tables; then parts of chunks.
        for n in 0..SIZE / 512 {
            let range = Range::new(n * 512, 512);
            assert_eq!(disk.try_write(range, &pattern(3, range)), TryIo::Done);
        }
        let range = Range::new(700, 5000);
        assert_eq!(disk.try_write(range, &pattern(4, range)), TryIo::Done);
        let mut found = vec![0; 5000];
        assert_eq!(disk.try_read(range, &mut found), TryIo::Done);
        assert_eq!(found, pattern(4, range));
        let fresh = over(
            base_of(SIZE),
            Arc::new(MemDisk::new(store_size(SIZE, 4096))),
        );
        let fresh = fresh.await.unwrap();
        let part = Range::new(4000, 200);
        assert_eq!(fresh.try_write(part, &pattern(5, part)), TryIo::Done);
        assert_eq!(read(&fresh, part).await, pattern(5, part));
        assert_eq!(fresh.usage().changed, 2);
    });
}

#[test]
fn only_what_is_in_the_store_may_be_followed_down() {
    block_on(async {
        let disk = over(
            base_of(SIZE),
            Arc::new(store_of(4096, store_size(SIZE, 4096))),
        );
        let disk = disk.await.unwrap();
        let range = Range::new(8192, 4096);
        assert!(
            disk.remap(range).is_none(),
            "who follows this would write the base"
        );
        write(&disk, range, 1).await.unwrap();
        let (_, there) = disk.remap(range).unwrap();
        assert_eq!(there, Range::new(2 * 4096, 4096));
        assert!(disk.remap(Range::new(8192, 4097)).is_none());
    });
}

#[test]
fn a_read_only_overlay_takes_no_changes_and_may_be_followed_to_a_read_only_base() {
    block_on(async {
        let store = Arc::new(store_of(4096, store_size(SIZE, 4096)));
        let range = Range::new(0, 4096);
        let disk = over(base_of(SIZE), store.clone()).await.unwrap();
        write(&disk, range, 1).await.unwrap();
        disk.flush().await.unwrap();
        let before = store.snapshot();
        let base = MemDisk::from_bytes(base_bytes(SIZE)).with_geometry(|g| g.read_only = true);
        let read_only = super::OverlayOptions {
            read_only: true,
            ..options(4096)
        };
        let disk = Overlay::over(Arc::new(base), store.clone(), read_only);
        let disk = disk.await.unwrap();
        let error = write(&disk, range, 2).await.unwrap_err();
        assert_eq!(error.errno, Errno::NotPermitted);
        assert_eq!(disk.try_write(range, &[0; 4096]), TryIo::WouldBlock);
        assert!(disk.trim(range).await.is_err());
        assert!(disk.write_zeroes(range, WriteFlags::empty()).await.is_err());
        disk.flush().await.unwrap();
        assert_eq!(read(&disk, range).await, pattern(1, range));
        assert!(disk.remap(Range::new(4096, 4096)).is_some());
        assert_eq!(store.snapshot(), before);
    });
}

#[test]
fn zeroes_take_no_space_and_a_trim_gives_it_back() {
    block_on(async {
        let store = Arc::new(store_of(4096, store_size(SIZE, 4096)));
        let disk = over(base_of(SIZE), store.clone()).await.unwrap();
        let range = Range::new(1000, 30_000);
        disk.write_zeroes(range, WriteFlags::empty()).await.unwrap();
        assert_eq!(read(&disk, range).await, vec![0; 30_000]);
        let extents = disk.extents(Range::new(4096, 8192)).await.unwrap();
        assert!(
            extents.iter().all(|e| e.kind == ExtentKind::Hole),
            "{extents:?}"
        );
        write(&disk, Range::new(0, 8192), 1).await.unwrap();
        disk.trim(Range::new(0, 8192)).await.unwrap();
        let place = Range::new(2 * 4096, 8192);
        let told = store.extents(place).await.unwrap();
        assert!(told.iter().all(|e| e.kind == ExtentKind::Hole), "{told:?}");
        // A trim of what is in the base touches nothing.
        disk.trim(Range::new(40_960, 8192)).await.unwrap();
        let untouched = Range::new(40_960, 8192);
        assert_eq!(read(&disk, untouched).await, pattern(BASE, untouched));
    });
}

#[test]
fn zeroing_what_is_zero_in_the_base_lists_nothing() {
    block_on(async {
        let base = Arc::new(MemDisk::new(SIZE));
        let data = single(pattern(BASE, Range::new(0, 5000)));
        let place = Range::new(10_000, 5000);
        base.write(place, data, WriteFlags::empty()).await.unwrap();
        let store = store_of(4096, store_size(SIZE, 4096));
        let disk = over(base, Arc::new(store)).await.unwrap();
        write(&disk, Range::new(40_960, 100), 1).await.unwrap();
        let all = Range::new(0, SIZE);
        disk.write_zeroes(all, WriteFlags::FUA).await.unwrap();
        assert_eq!(read(&disk, all).await, vec![0; 64 * 1024]);
        // The chunks of 10,000 to 15,000, and the one that was there.
        assert_eq!(disk.usage().changed, 3);
        disk.write_zeroes(all, WriteFlags::NO_HOLE).await.unwrap();
        assert_eq!(disk.usage().changed, SIZE / 4096);
    });
}

#[test]
fn zeroing_that_is_not_fast_is_refused_before_anything_is_written() {
    block_on(async {
        let store = store_of(4096, store_size(SIZE, 4096))
            .with_geometry(|g| g.write_zeroes = Support::Emulated);
        let disk = over(base_of(SIZE), Arc::new(store)).await.unwrap();
        let range = Range::new(0, 8192);
        let error = disk
            .write_zeroes(range, WriteFlags::FAST_ZERO)
            .await
            .unwrap_err();
        assert_eq!(error.errno, Errno::NotSupported);
        assert_eq!(disk.usage().changed, 0);
        disk.write_zeroes(range, WriteFlags::empty()).await.unwrap();
        assert_eq!(read(&disk, range).await, vec![0; 8192]);
    });
}

#[test]
fn a_store_that_cannot_zero_is_written_zeroes() {
    block_on(async {
        let store = store_of(4096, store_size(SIZE, 4096)).with_geometry(|g| {
            g.write_zeroes = Support::None;
            g.trim = Support::None;
        });
        let disk = over(base_of(SIZE), Arc::new(store)).await.unwrap();
        let range = Range::new(10, 9000);
        disk.write_zeroes(range, WriteFlags::empty()).await.unwrap();
        assert_eq!(read(&disk, range).await, vec![0; 9000]);
        let error = disk.trim(range).await.unwrap_err();
        assert_eq!(error.errno, Errno::NotSupported);
    });
}

/// Whole runs are read from the store or the base in one request each.
#[test]
fn a_large_read_reads_each_run_once() {
    block_on(async {
        let store = held(Arc::new(store_of(4096, store_size(SIZE, 4096))));
        let base = held(base_of(SIZE));
        let disk = over(base.clone(), store.clone()).await.unwrap();
        write(&disk, Range::new(8192, 16_384), 1).await.unwrap();
        base.hold(true);
        store.hold(true);
        let range = Range::new(0, SIZE);
        let mut reading = pin!(disk.read(range));
        assert!(!is_ready(reading.as_mut()).await);
        assert_eq!((base.held().len(), store.held().len()), (2, 1));
        base.release_all().await;
        store.release_all().await;
        assert!(is_ready(reading.as_mut()).await);
    });
}

#[test]
fn writes_of_many_pieces_reach_each_of_them() {
    block_on(async {
        let disk = over(
            base_of(SIZE),
            Arc::new(store_of(SMALL, store_size(SIZE, SMALL))),
        );
        let disk = disk.await.unwrap();
        // Every other chunk first, so that the rest lies between them.
        for n in (0..SIZE / 512).step_by(2) {
            write(&disk, Range::new(n * 512, 512), 1).await.unwrap();
        }
        let range = Range::new(300, SIZE - 600);
        let flags = WriteFlags::FUA;
        disk.write(range, data(range, 2), flags).await.unwrap();
        assert_eq!(read(&disk, range).await, pattern(2, range));
        let head = Range::new(0, 300);
        assert_eq!(read(&disk, head).await, pattern(1, head));
        let node: Node = Arc::new(disk);
        assert_eq!(node.extents(Range::new(0, SIZE)).await.unwrap().len(), 1);
    });
}
