//! Cache files that are made, opened again, made again and refused.

use std::path::Path;
use std::sync::Arc;

use block::{BlockDevice, Node, Range};
use testkit::{MemDisk, block_on, pattern};

use super::super::format::{CacheFormatError, GRANULE, SLOTS_MIN};
use super::super::{Cache, CacheError, CacheOptions, inspect_cache};
use super::{
    DISK, SIZE, counted, disk_of, expect, file_size, others, over, small_file, sync, whole_size,
    write,
};
use crate::OpenError;
use crate::test_runtime::timed;

async fn at(child: Node, path: &Path) -> Result<Cache, CacheError> {
    Cache::open(child, path, CacheOptions::default()).await
}

async fn sized(child: Node, path: &Path, size: u64) -> Result<Cache, CacheError> {
    let options = CacheOptions {
        size_max: Some(size),
    };
    Cache::open(child, path, options).await
}

/// The message of an open that fails.
fn refusal(opened: Result<Cache, CacheError>) -> String {
    opened.expect_err("it is refused").to_string()
}

#[test]
fn what_was_read_and_written_is_there_after_a_restart() {
    block_on(async {
        let (child, requests) = counted(disk_of(SIZE));
        let store = Arc::new(MemDisk::new(whole_size(SIZE)));
        let cache = over(child.clone(), store.clone()).await.unwrap();
        expect(&cache, Range::new(0, GRANULE), DISK).await;
        write(&cache, Range::new(GRANULE, 8192), 1).await.unwrap();
        cache.close().await;
        assert_eq!(cache.status().regions_marked, 0);
        drop(cache);
        let cache = over(child, store).await.unwrap();
        let before = requests.requests();
        expect(&cache, Range::new(0, GRANULE), DISK).await;
        expect(&cache, Range::new(GRANULE, 8192), 1).await;
        assert_eq!(requests.requests(), before);
        assert_eq!(cache.status().cached, GRANULE + 8192);
    });
}

#[test]
fn a_kill_drops_the_regions_that_were_being_written_only() {
    const LARGE: u64 = 65 << 20;
    block_on(async {
        let child = disk_of(LARGE);
        let store = Arc::new(MemDisk::new(whole_size(LARGE)));
        let cache = over(child.clone(), store.clone()).await.unwrap();
        expect(&cache, Range::new(0, GRANULE), DISK).await;
        expect(&cache, Range::new(64 << 20, GRANULE), DISK).await;
        write(&cache, Range::new(GRANULE, 4096), 1).await.unwrap();
        drop(cache);
        let (child, requests) = counted(child);
        let cache = over(child, store).await.unwrap();
        assert_eq!(cache.status().cached, GRANULE);
        let before = requests.requests();
        expect(&cache, Range::new(64 << 20, GRANULE), DISK).await;
        assert_eq!(requests.requests(), before);
        expect(&cache, Range::new(GRANULE, 4096), 1).await;
        assert_eq!(requests.requests(), before + 1);
    });
}

#[test]
fn a_disk_that_was_changed_without_the_cache_drops_it() {
    block_on(async {
        let child = disk_of(SIZE);
        let store = small_file();
        let cache = over(child.clone(), store.clone()).await.unwrap();
        expect(&cache, Range::new(0, GRANULE), DISK).await;
        cache.close().await;
        drop(cache);
        write(&*child, Range::new(0, 4096), 7).await.unwrap();
        let cache = over(child.clone(), store.clone()).await.unwrap();
        assert_eq!(cache.status().cached, 0);
        expect(&cache, Range::new(0, 4096), 7).await;
        expect(&cache, Range::new(4096, 4096), DISK).await;
        cache.close().await;
        assert_eq!(over(child, store).await.unwrap().status().cached, GRANULE);
    });
}

#[test]
fn a_block_that_rots_is_read_from_the_disk() {
    block_on(async {
        let child = disk_of(SIZE);
        let store = Arc::new(MemDisk::new(whole_size(SIZE)));
        let cache = over(child.clone(), store.clone()).await.unwrap();
        expect(&cache, Range::new(0, GRANULE), DISK).await;
        let place = cache.shared.layout.slot_at(0) + 5 * 4096;
        cache.close().await;
        drop(cache);
        write(&*store, Range::new(place + 17, 1), 0xFF)
            .await
            .unwrap();
        let cache = over(child, store).await.unwrap();
        expect(&cache, Range::new(0, GRANULE), DISK).await;
        assert_eq!(cache.status().damaged, 1);
        expect(&cache, Range::new(0, GRANULE), DISK).await;
        assert_eq!(cache.status().damaged, 1, "it was stored again");
    });
}

#[test]
fn foreign_files_are_refused_and_not_changed() {
    timed(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        let text = b"not a cache".repeat(5000);
        std::fs::write(&path, &text).unwrap();
        let message = refusal(at(disk_of(SIZE), &path).await);
        assert!(message.contains("is no cache file"), "{message}");
        assert_eq!(std::fs::read(&path).unwrap(), text);
        let small = folder.path().join("small");
        std::fs::write(&small, "x").unwrap();
        assert!(refusal(at(disk_of(SIZE), &small).await).contains("is no cache file"));
        assert_eq!(std::fs::read(&small).unwrap(), b"x");
        // Zeroes at first, and something behind.
        let sparse = folder.path().join("sparse");
        let file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&sparse)
            .unwrap();
        std::os::unix::fs::FileExt::write_at(&file, b"data", 3 << 20).unwrap();
        assert!(refusal(at(disk_of(SIZE), &sparse).await).contains("is no cache file"));
    });
}

#[test]
fn the_cache_of_another_disk_is_refused_and_not_changed() {
    timed(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache");
        let child = disk_of(SIZE);
        at(child.clone(), &path).await.unwrap().close().await;
        let bytes = std::fs::read(&path).unwrap();
        let message = refusal(at(disk_of(SIZE + GRANULE), &path).await);
        assert!(message.contains("belongs to a disk of"), "{message}");
        // A disk of the same size with another identity.
        let message = refusal(at(disk_of(SIZE), &path).await);
        assert!(message.contains("belongs to the disk test:"), "{message}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        at(child, &path).await.unwrap();
    });
}

#[test]
fn another_version_is_refused() {
    block_on(async {
        let store = small_file();
        drop(over(disk_of(SIZE), store.clone()).await.unwrap());
        let mut bytes = store.snapshot();
        for copy in [0, 4096] {
            bytes[copy + 8] = 2;
            let header = &bytes[copy..copy + 508];
            let crc = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI).checksum(header);
            bytes[copy + 508..copy + 512].copy_from_slice(&crc.to_le_bytes());
        }
        let store = Arc::new(MemDisk::from_bytes(bytes.clone()));
        match over(disk_of(SIZE), store.clone()).await {
            Err(CacheError::Format { source, .. }) => {
                assert_eq!(source, CacheFormatError::Version(2));
            }
            other => panic!("{other:?}"),
        }
        assert!(store.snapshot() == bytes);
    });
}

#[test]
fn a_second_process_is_refused() {
    timed(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache");
        let child = disk_of(SIZE);
        let first = at(child.clone(), &path).await.unwrap();
        let second = at(child.clone(), &path).await;
        assert!(
            matches!(second, Err(CacheError::Open(OpenError::InUse { .. }))),
            "{second:?}"
        );
        drop(first);
        at(child, &path).await.unwrap();
    });
}

#[test]
fn a_cache_takes_the_size_that_it_is_given_and_no_more() {
    timed(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache");
        let child = disk_of(64 * GRANULE);
        let size = 3 << 20;
        let cache = sized(child.clone(), &path, size).await.unwrap();
        for granule in 0..64 {
            expect(&cache, Range::new(granule * GRANULE, GRANULE), DISK).await;
        }
        cache.close().await;
        let held = cache.status();
        assert!(held.cached > 1 << 20 && held.cached < size, "{held:?}");
        assert!(std::fs::metadata(&path).unwrap().len() <= size);
        drop(cache);
        others().await;
        // Without a size it keeps its own; with another one it is made again.
        let cache = at(child.clone(), &path).await.unwrap();
        assert_eq!(cache.status().cached, held.cached);
        drop(cache);
        let cache = sized(child.clone(), &path, 2 << 20).await.unwrap();
        assert_eq!(cache.status().cached, 0);
        assert!(std::fs::metadata(&path).unwrap().len() <= 2 << 20);
        expect(&cache, Range::new(0, GRANULE), DISK).await;
        drop(cache);
        let message = refusal(sized(child, &path, 1 << 20).await);
        assert!(message.contains("needs"), "{message}");
    });
}

#[test]
fn a_whole_cache_answers_from_the_file_like_a_file() {
    timed(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache");
        let child = disk_of(SIZE);
        let cache = sized(child.clone(), &path, whole_size(SIZE)).await.unwrap();
        let range = Range::new(GRANULE / 2, 3 * GRANULE);
        assert!(cache.file_region(range).is_none());
        expect(&cache, range, DISK).await;
        sync(&cache).await;
        let region = cache.file_region(range).unwrap();
        let mut found = vec![0; range.len_usize()];
        let count = rustix::io::pread(&region.file, &mut found, region.offset).unwrap();
        assert_eq!(count, found.len());
        assert!(found == pattern(DISK, range));
        drop(region);
        write(&cache, Range::new(GRANULE, 100), 1).await.unwrap();
        assert!(
            cache.file_region(range).is_none(),
            "a part of it is not valid"
        );
        drop(cache);
        let cache = sized(child, &path, file_size(SIZE, SLOTS_MIN))
            .await
            .unwrap();
        expect(&cache, Range::new(0, GRANULE), DISK).await;
        cache.settle().await.unwrap();
        assert!(
            cache.file_region(Range::new(0, GRANULE)).is_none(),
            "its slots may change owner"
        );
    });
}

#[test]
fn a_cache_is_recognized() {
    block_on(async {
        let store = small_file();
        assert_eq!(inspect_cache(&*store).await.unwrap(), None);
        drop(over(disk_of(SIZE), store.clone()).await.unwrap());
        let facts = inspect_cache(&*store).await.unwrap().unwrap();
        assert_eq!(
            (facts.disk_size, facts.capacity),
            (SIZE, SLOTS_MIN * GRANULE)
        );
        assert_eq!(inspect_cache(&*disk_of(SIZE)).await.unwrap(), None);
    });
}

/// A file that is smaller than its header says, as after a copy that was cut off, is made again.
#[test]
fn a_file_that_was_cut_off_is_made_again() {
    timed(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache");
        let child = disk_of(SIZE);
        let cache = at(child.clone(), &path).await.unwrap();
        expect(&cache, Range::new(0, GRANULE), DISK).await;
        cache.close().await;
        drop(cache);
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(64 * 1024).unwrap();
        drop(file);
        let cache = at(child, &path).await.unwrap();
        assert_eq!(cache.status().cached, 0);
        expect(&cache, Range::new(0, GRANULE), DISK).await;
        assert!(cache.geometry().size == SIZE);
    });
}
