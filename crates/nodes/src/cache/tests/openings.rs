//! Caches of a disk that counts its openings for writing, of which some are another machine's.

use std::sync::Arc;

use block::{BlockDevice, Extent, Geometry, Identity, IoBufs, IoFuture, Node, Range, WriteFlags};
use testkit::{MemDisk, block_on};

use super::super::format::GRANULE;
use super::super::open::sampled;
use super::super::{Cache, CacheOptions};
use super::{DISK, SIZE, disk_of, expect, small_file, write};

/// A disk in one opening; none: it is open for reading.
struct Opening {
    disk: Arc<MemDisk>,
    number: Option<u64>,
}

impl BlockDevice for Opening {
    fn geometry(&self) -> &Geometry {
        self.disk.geometry()
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        self.disk.read(range)
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.disk.write(range, data, flags)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.disk.flush()
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.disk.write_zeroes(range, flags)
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        self.disk.trim(range)
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        self.disk.extents(range)
    }

    fn identity(&self) -> Option<Identity> {
        self.disk.identity()
    }

    fn opening(&self) -> Option<u64> {
        self.number
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.disk.settle()
    }
}

/// The cache of a disk in an opening, without a comparison of contents.
async fn cache_in(number: impl Into<Option<u64>>, disk: &Arc<MemDisk>, file: &Node) -> Cache {
    let number = number.into();
    let disk = disk.clone();
    let child = Arc::new(Opening { disk, number });
    let opened = sampled(child, file.clone(), CacheOptions::default(), 0).await;
    opened.expect("a cache")
}

/// What a cache holds at its opening, bytes. It holds a granule afterwards.
async fn held_in(number: impl Into<Option<u64>>, disk: &Arc<MemDisk>, file: &Node) -> u64 {
    let cache = cache_in(number, disk, file).await;
    let held = cache.status().cached;
    expect(&cache, Range::new(0, 4096), DISK).await;
    cache.close().await;
    held
}

#[test]
fn a_cache_is_used_in_the_next_opening_alone() {
    block_on(async {
        let (disk, file) = (disk_of(SIZE), small_file() as Node);
        // The last one that it is of, the one in which it is opened, and what it holds then.
        for (opening, held) in [
            (Some(5), 0),
            (Some(6), GRANULE),
            (Some(7), GRANULE),
            (Some(9), 0),
            (Some(10), GRANULE),
            (Some(10), 0),
            // A counter that went back.
            (Some(3), 0),
            (None, 0),
            (None, GRANULE),
            (Some(4), 0),
        ] {
            assert_eq!(held_in(opening, &disk, &file).await, held, "{opening:?}");
        }
    });
}

#[test]
fn what_another_machine_wrote_is_read() {
    block_on(async {
        let (disk, file) = (disk_of(SIZE), small_file() as Node);
        let cache = cache_in(1, &disk, &file).await;
        expect(&cache, Range::new(0, 2 * GRANULE), DISK).await;
        cache.close().await;
        write(&*disk, Range::new(GRANULE, 4096), 7).await.unwrap();
        let cache = cache_in(3, &disk, &file).await;
        expect(&cache, Range::new(GRANULE, 4096), 7).await;
    });
}

/// The number is durable before the first request, and marks of regions are not lost with it.
#[test]
fn a_kill_keeps_what_was_not_being_written() {
    block_on(async {
        let large = 65 << 20;
        let (disk, file) = (disk_of(large), Arc::new(MemDisk::new(70 << 20)) as Node);
        let cache = cache_in(1, &disk, &file).await;
        expect(&cache, Range::new(0, GRANULE), DISK).await;
        expect(&cache, Range::new(64 << 20, GRANULE), DISK).await;
        write(&cache, Range::new(GRANULE, 4096), 1).await.unwrap();
        drop(cache);
        let cache = cache_in(2, &disk, &file).await;
        assert_eq!(cache.status().cached, GRANULE, "of the other region");
        drop(cache);
        let cache = cache_in(3, &disk, &file).await;
        assert_eq!(cache.status().cached, GRANULE);
        expect(&cache, Range::new(GRANULE, 4096), 1).await;
    });
}
