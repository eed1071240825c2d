//! Requests on a cached disk: against the model, concurrently, dropped, and what of them reaches the disk.

use std::pin::pin;
use std::sync::Arc;

use block::{BlockDevice, Node, Range, TryIo, WriteFlags};
use futures_util::future::join_all;
use proptest::prelude::*;
use testkit::{
    CrashDisk, HeldDisk, MemDisk, Op, OpSpace, block_on, check_against_model, check_crashes,
    check_dropped_futures, check_in_batches, ops, pattern,
};

use super::super::format::{BLOCK, GRANULE, SLOTS_MIN};
use super::{
    DISK, KIB, SIZE, counted, disk_of, expect, file_size, others, over, read, small_file, sync,
    whole_size, write,
};
use crate::test_runtime::is_ready;

/// Not whole blocks.
const ODD: u64 = SIZE + 5000;

fn space(block_size: u32) -> OpSpace {
    OpSpace {
        size: ODD,
        block_size,
        len_max: 300 * KIB,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_cached_disk_is_the_disk_below(list in ops(space(1), 0..40)) {
        block_on(async {
            for slots in [SLOTS_MIN, ODD.div_ceil(GRANULE)] {
                let store = Arc::new(MemDisk::new(file_size(ODD, slots)));
                let cache = over(disk_of(ODD), store).await.unwrap();
                check_against_model(&cache, &list).await.unwrap();
            }
        });
    }

    #[test]
    fn requests_side_by_side_see_what_is_below(list in ops(space(1), 0..40), seed: u64) {
        block_on(async {
            for slots in [SLOTS_MIN, ODD.div_ceil(GRANULE)] {
                let child = CrashDisk::from_bytes(vec![3; usize::try_from(SIZE).unwrap()]).interleaved(seed);
                let list: Vec<Op> = list.iter().filter(|op| op.range().is_none_or(|range| range.end() <= SIZE)).copied().collect();
                let store = CrashDisk::new(file_size(SIZE, slots)).interleaved(!seed);
                let cache = over(Arc::new(child), Arc::new(store)).await.unwrap();
                check_in_batches(&cache, &list, 8).await.unwrap();
            }
        });
    }

    #[test]
    fn what_was_flushed_survives_a_power_cut(
        list in ops(OpSpace { size: 300 * KIB, block_size: 512, len_max: 60 * KIB }, 0..6), seed: u64,
    ) {
        let open = async |disks: Vec<Node>| {
            let [child, store] = disks.try_into().expect("two disks");
            Ok(Arc::new(over(child, store).await.expect("a cut leaves a cache")) as Node)
        };
        let sizes = [300 * KIB, file_size(300 * KIB, SLOTS_MIN)];
        block_on(check_crashes(open, &sizes, &list, seed)).unwrap();
    }
}

#[test]
fn a_dropped_future_leaves_nothing_behind_after_settle() {
    let open = async |disks: Vec<Node>| {
        let [child, store] = disks.try_into().expect("two disks");
        Ok(Arc::new(over(child, store).await.expect("an empty file")) as Node)
    };
    let range = Range::new(4096, 8192);
    let flags = WriteFlags::FUA;
    let now = false;
    let fill = 3;
    let list = [
        Op::Write {
            range,
            fill,
            flags,
            now,
        },
        Op::WriteZeroes { range, flags },
        Op::Trim { range },
        Op::Read { range },
        Op::Flush,
    ];
    let sizes = [SIZE, file_size(SIZE, SLOTS_MIN)];
    block_on(check_dropped_futures(open, &sizes, &list)).unwrap();
}

#[test]
fn a_second_read_needs_no_disk() {
    block_on(async {
        let (child, requests) = counted(disk_of(SIZE));
        let cache = over(child, small_file()).await.unwrap();
        let opened = requests.requests();
        let granule = Range::new(2 * GRANULE, GRANULE);
        expect(&cache, Range::new(2 * GRANULE + 100, 50), DISK).await;
        assert_eq!(requests.requests(), opened + 1);
        expect(&cache, granule, DISK).await;
        sync(&cache).await;
        let mut found = vec![0; granule.len_usize()];
        assert_eq!(cache.try_read(granule, &mut found), TryIo::Done);
        assert_eq!(found, pattern(DISK, granule));
        assert_eq!(
            requests.requests(),
            opened + 1,
            "128 KiB came with the first bytes"
        );
        let status = cache.status();
        assert_eq!((status.hits, status.misses), (2, 1));
        assert_eq!(status.cached, GRANULE);
    });
}

// The kernel drops pages that it could not write, and reads older bytes from the medium then.
#[test]
fn what_the_file_lost_before_it_was_synced_is_read_from_the_disk() {
    block_on(async {
        let (child, requests) = counted(disk_of(SIZE));
        let store = small_file();
        let cache = over(child, store.clone()).await.unwrap();
        let granule = Range::new(2 * GRANULE, GRANULE);
        expect(&cache, granule, DISK).await;
        cache.settle().await.unwrap();
        let before = requests.requests();
        write(
            &*store,
            Range::new(file_size(SIZE, SLOTS_MIN) - SLOTS_MIN * GRANULE, GRANULE),
            9,
        )
        .await
        .unwrap();
        let mut found = vec![0; granule.len_usize()];
        assert_eq!(cache.try_read(granule, &mut found), TryIo::WouldBlock);
        expect(&cache, granule, DISK).await;
        assert_eq!(requests.requests(), before + 1);
    });
}

#[test]
fn a_disk_with_large_blocks_is_compared_in_its_blocks() {
    block_on(async {
        for block_size in [512, 8192, 65_536] {
            let child = MemDisk::from_bytes(pattern(DISK, Range::new(0, SIZE)));
            let child = child.with_geometry(|geometry| geometry.block_size = block_size);
            let child: Node = Arc::new(child);
            let store = small_file();
            let cache = over(child.clone(), store.clone()).await.unwrap();
            expect(&cache, Range::new(0, 3 * GRANULE), DISK).await;
            cache.close().await;
            drop(cache);
            let cache = over(child, store).await.unwrap();
            expect(&cache, Range::new(0, 3 * GRANULE), DISK).await;
            assert_eq!(cache.status().misses, 0);
        }
    });
}

#[test]
fn what_was_written_is_read_without_the_disk() {
    block_on(async {
        let (child, requests) = counted(disk_of(SIZE));
        let cache = over(child, small_file()).await.unwrap();
        let opened = requests.requests();
        let range = Range::new(GRANULE - 4 * KIB, 12 * KIB);
        write(&cache, range, 1).await.unwrap();
        assert_eq!(requests.requests(), opened + 1);
        expect(&cache, range, 1).await;
        assert_eq!(requests.requests(), opened + 1);
        // A part of a block is not enough for one.
        write(&cache, Range::new(GRANULE, 512), 2).await.unwrap();
        expect(&cache, Range::new(GRANULE, 512), 2).await;
        expect(&cache, Range::new(GRANULE + 512, 1024), 1).await;
    });
}

#[test]
fn readers_of_one_granule_share_one_read() {
    block_on(async {
        let child = HeldDisk::new(disk_of(SIZE));
        child.hold(false);
        let cache = over(child.clone(), small_file()).await.unwrap();
        child.hold(true);
        let reads = (0..32).map(|n| read(&cache, Range::new(n * BLOCK, BLOCK)));
        let mut reads = pin!(join_all(reads));
        assert!(!is_ready(reads.as_mut()).await);
        others().await;
        assert_eq!(child.held().len(), 1);
        child.release_all().await;
        let data = reads.await.concat();
        assert_eq!(data, pattern(DISK, Range::new(0, GRANULE)));
    });
}

/// A reader that begins after a write was acknowledged must not get what a fill read before it.
#[test]
fn a_fill_from_before_a_write_is_no_answer_after_it() {
    block_on(async {
        let child = HeldDisk::new(disk_of(SIZE));
        child.hold(false);
        let cache = over(child.clone(), small_file()).await.unwrap();
        child.hold(true);
        let block = Range::new(0, BLOCK);
        let mut early = pin!(read(&cache, block));
        assert!(!is_ready(early.as_mut()).await);
        others().await;
        let fill = child.held()[0].id;
        // What a write leaves is in the cache; zeroes are not.
        let mut writing = pin!(cache.write_zeroes(block, WriteFlags::empty()));
        while !is_ready(writing.as_mut()).await {
            others().await;
            let held = child.held();
            if let Some(write) = held.iter().find(|held| held.id != fill) {
                child.release(write.id).await;
            }
        }
        let mut late = pin!(read(&cache, block));
        assert!(!is_ready(late.as_mut()).await);
        child.release_all().await;
        others().await;
        child.hold(false);
        child.release_all().await;
        assert_eq!(late.await, vec![0; block.len_usize()]);
        drop(early.await);
        assert_eq!(read(&cache, block).await, vec![0; block.len_usize()]);
    });
}

#[test]
fn a_small_cache_holds_what_was_read_last() {
    block_on(async {
        let (child, requests) = counted(disk_of(SIZE));
        let cache = over(child, small_file()).await.unwrap();
        for granule in 0..SIZE / GRANULE {
            expect(&cache, Range::new(granule * GRANULE, GRANULE), DISK).await;
        }
        let status = cache.status();
        assert_eq!(status.cached, SLOTS_MIN * GRANULE);
        assert_eq!(status.evictions, SIZE / GRANULE - SLOTS_MIN);
        let before = requests.requests();
        let last = Range::new(SIZE - GRANULE, GRANULE);
        expect(&cache, last, DISK).await;
        assert_eq!(requests.requests(), before);
        expect(&cache, Range::new(0, 4096), DISK).await;
        assert_eq!(requests.requests(), before + 1);
    });
}

#[test]
fn a_write_waits_for_the_mark_of_its_region_once() {
    block_on(async {
        let store = HeldDisk::new(small_file());
        store.hold(false);
        let (child, requests) = counted(disk_of(SIZE));
        let cache = over(child, store.clone()).await.unwrap();
        let opened = requests.requests();
        store.hold(true);
        let first = [0, 1, 2].map(|n| write(&cache, Range::new(n * GRANULE, 4096), 1));
        let mut first = pin!(join_all(first));
        assert!(!is_ready(first.as_mut()).await);
        others().await;
        assert_eq!(
            requests.requests(),
            opened,
            "the disk sees nothing before the mark is durable"
        );
        assert_eq!(store.held().len(), 1, "one write for all of them");
        store.release_all().await;
        store.hold(false);
        assert!(first.await.iter().all(Result::is_ok));
        store.hold(true);
        // The region is marked: the next write waits for nothing of the file.
        write(&cache, Range::new(0, 100), 2).await.unwrap();
        store.release_all().await;
    });
}

#[test]
fn a_slow_cache_file_delays_no_reader() {
    block_on(async {
        let store = HeldDisk::new(Arc::new(MemDisk::new(whole_size(64 << 20))));
        store.hold(false);
        let cache = over(disk_of(64 << 20), store.clone()).await.unwrap();
        store.hold(true);
        for granule in 0..512 {
            expect(&cache, Range::new(granule * GRANULE, GRANULE), DISK).await;
        }
        let status = cache.status();
        assert!(status.skipped > 0, "16 MiB may wait, and 64 were read");
        store.hold(false);
        store.release_all().await;
        cache.settle().await.unwrap();
        assert!(cache.status().cached >= 8 << 20);
    });
}

#[test]
fn an_idle_cache_clears_its_marks() {
    block_on(async {
        let cache = over(disk_of(SIZE), small_file()).await.unwrap();
        write(&cache, Range::new(0, 4096), 1).await.unwrap();
        assert_eq!(cache.status().regions_marked, 1);
        tokio::time::sleep(4 * super::super::write_back::CHECKPOINT_INTERVAL).await;
        assert_eq!(cache.status().regions_marked, 0);
        write(&cache, Range::new(0, 4096), 2).await.unwrap();
        assert_eq!(cache.status().regions_marked, 1);
        tokio::time::sleep(4 * super::super::write_back::CHECKPOINT_INTERVAL).await;
        assert_eq!(cache.status().regions_marked, 0);
    });
}
