//! Errors of the cache file and of the disk.

use block::{BlockDevice, Errno, Operation, Range};
use testkit::{Effect, Fault, FaultDisk, block_on};

use super::super::format::GRANULE;
use super::{DISK, SIZE, disk_of, expect, others, over, small_file, write};

fn failing(operation: Operation) -> Fault {
    Fault::new(Effect::Fail(Errno::Io)).on(operation)
}

#[test]
fn an_error_of_the_cache_file_is_no_error_of_the_disk() {
    for operation in [Operation::Read, Operation::Write, Operation::Flush] {
        block_on(async {
            let memory = small_file();
            let store = FaultDisk::new(memory.clone(), 1, Vec::new());
            let child = disk_of(SIZE);
            let cache = over(child.clone(), store.clone()).await.unwrap();
            expect(&cache, Range::new(0, GRANULE), DISK).await;
            write(&cache, Range::new(0, 4096), 1).await.unwrap();
            cache.settle().await.unwrap();
            store.inject(failing(operation).times(1));
            expect(&cache, Range::new(0, 4096), 1).await;
            write(&cache, Range::new(4096, 4096), 2).await.unwrap();
            cache.close().await;
            let status = cache.status();
            assert!(status.failure.is_some(), "{operation:?}");
            assert_eq!(status.cached, 0);
            expect(&cache, Range::new(0, 4096), 1).await;
            expect(&cache, Range::new(4096, 4096), 2).await;
            expect(&*child, Range::new(4096, 4096), 2).await;
        });
    }
}

#[test]
fn a_full_filesystem_only_means_that_nothing_more_is_stored() {
    block_on(async {
        let store = FaultDisk::new(small_file(), 1, Vec::new());
        let cache = over(disk_of(SIZE), store.clone()).await.unwrap();
        expect(&cache, Range::new(0, GRANULE), DISK).await;
        cache.settle().await.unwrap();
        store.inject(Fault::new(Effect::Fail(Errno::NoSpace)).on(Operation::Write));
        expect(&cache, Range::new(GRANULE, GRANULE), DISK).await;
        cache.settle().await.unwrap();
        let status = cache.status();
        assert_eq!((status.failure, status.cached), (None, GRANULE));
        assert!(status.skipped > 0);
    });
}

#[test]
fn a_cache_that_failed_is_never_used_again() {
    block_on(async {
        let child = disk_of(SIZE);
        let memory = small_file();
        let store = FaultDisk::new(memory.clone(), 1, Vec::new());
        let cache = over(child.clone(), store.clone()).await.unwrap();
        expect(&cache, Range::new(0, 2 * GRANULE), DISK).await;
        cache.settle().await.unwrap();
        // The mark of the first write fails; the header can be written.
        store.inject(failing(Operation::Write).times(1));
        write(&cache, Range::new(0, 4096), 1).await.unwrap();
        assert!(cache.status().failure.is_some());
        assert!(cache.shared.is_retired());
        expect(&cache, Range::new(0, 4096), 1).await;
        drop(cache);
        let cache = over(child, memory).await.unwrap();
        assert_eq!(cache.status().cached, 0);
        expect(&cache, Range::new(0, 4096), 1).await;
        expect(&cache, Range::new(4096, GRANULE), DISK).await;
    });
}

#[test]
fn a_header_that_cannot_be_written_is_tried_again() {
    block_on(async {
        let child = disk_of(SIZE);
        let memory = small_file();
        let store = FaultDisk::new(memory.clone(), 1, Vec::new());
        let cache = over(child.clone(), store.clone()).await.unwrap();
        expect(&cache, Range::new(0, GRANULE), DISK).await;
        cache.settle().await.unwrap();
        store.inject(failing(Operation::Write));
        write(&cache, Range::new(0, 4096), 1).await.unwrap();
        assert!(!cache.shared.is_retired());
        store.heal();
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        write(&cache, Range::new(4096, 4096), 2).await.unwrap();
        assert!(cache.shared.is_retired());
        drop(cache);
        let cache = over(child, memory).await.unwrap();
        expect(&cache, Range::new(0, 4096), 1).await;
    });
}

#[test]
fn a_write_that_fails_leaves_its_blocks_out() {
    for effect in [Effect::Fail(Errno::Io), Effect::FailAfter(Errno::Io)] {
        block_on(async {
            let disk = disk_of(SIZE);
            let child = FaultDisk::new(disk.clone(), 1, Vec::new());
            let cache = over(child.clone(), small_file()).await.unwrap();
            let range = Range::new(0, GRANULE);
            expect(&cache, range, DISK).await;
            child.inject(Fault::new(effect).on(Operation::Write).times(1));
            write(&cache, Range::new(4096, 4096), 5).await.unwrap_err();
            let there = super::read(&*disk, range).await;
            assert!(super::read(&cache, range).await == there);
            others().await;
            assert!(super::read(&cache, range).await == there);
            write(&cache, Range::new(4096, 4096), 6).await.unwrap();
            expect(&cache, Range::new(4096, 4096), 6).await;
        });
    }
}

#[test]
fn an_error_of_the_disk_is_the_readers() {
    block_on(async {
        let child = FaultDisk::new(disk_of(SIZE), 1, vec![failing(Operation::Read).times(4)]);
        let cache = over(child, small_file()).await.unwrap();
        let range = Range::new(4096, 100);
        let error = cache.read(range).await.unwrap_err();
        assert_eq!((error.errno, error.range), (Errno::Io, Some(range)));
        assert_eq!(cache.status().failure, None);
        cache.read(range).await.unwrap_err();
        expect(&cache, range, DISK).await;
    });
}
