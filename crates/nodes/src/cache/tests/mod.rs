//! Tests of `cache`: `pure` (format, marks, slots), `disk` (the contract, hits, evictions, dropped futures), `open` (files that
//! are opened, made again and refused), `openings` (disks that other machines had meanwhile), `failure` (errors of either disk), `profile` (boot profiles), `worlds` (power cuts, kills, errors, by seed).

mod disk;
mod failure;
mod open;
mod openings;
mod profile;
mod pure;
mod worlds;

use std::sync::Arc;

use block::{BlockDevice, IoError, Node, Range, WriteFlags};
use testkit::{MemDisk, gather, pattern, single};

use super::format::{CacheLayout, GRANULE, SLOTS_MIN};
use super::{Cache, CacheError, CacheOptions};
use crate::{Fault, FaultHandle, FaultPlan};

const KIB: u64 = 1024;
/// A disk of three times as many granules as the smallest cache has.
const SIZE: u64 = 3 * SLOTS_MIN * GRANULE;
/// What is on it at first.
const DISK: u8 = 0xD1;

fn disk_of(size: u64) -> Arc<MemDisk> {
    Arc::new(MemDisk::from_bytes(pattern(DISK, Range::new(0, size))))
}

/// Bytes of a cache file with so many slots.
fn file_size(disk_size: u64, slots: u64) -> u64 {
    CacheLayout { disk_size, slots }.file_size()
}

/// Bytes of one that can hold all of the disk.
fn whole_size(disk_size: u64) -> u64 {
    file_size(disk_size, disk_size.div_ceil(GRANULE).max(SLOTS_MIN))
}

fn small_file() -> Arc<MemDisk> {
    Arc::new(MemDisk::new(file_size(SIZE, SLOTS_MIN)))
}

/// A disk that counts its requests.
fn counted(child: Node) -> (Node, FaultHandle) {
    let child = Fault::new(child, FaultPlan::default());
    let handle = child.handle();
    (Arc::new(child), handle)
}

async fn over(child: Node, store: Node) -> Result<Cache, CacheError> {
    Cache::over(child, store, CacheOptions::default()).await
}

async fn write(disk: &dyn BlockDevice, range: Range, fill: u8) -> Result<(), IoError> {
    let data = single(pattern(fill, range));
    disk.write(range, data, WriteFlags::empty()).await
}

async fn read(disk: &dyn BlockDevice, range: Range) -> Vec<u8> {
    gather(&disk.read(range).await.unwrap())
}

async fn expect(disk: &dyn BlockDevice, range: Range, fill: u8) {
    assert!(read(disk, range).await == pattern(fill, range), "{range}");
}

/// Has everything that was stored synced.
async fn sync(cache: &Cache) {
    cache.settle().await.unwrap();
    cache.shared.checkpoint(u64::MAX).await;
}

/// Lets tasks go on.
async fn others() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
