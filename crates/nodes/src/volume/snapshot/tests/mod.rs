//! Tests of snapshots: their pure parts, requests on origin and snapshots against a model, races, dropped futures,
//! stores that are full or fail, power cuts, merges.

mod cancel;
mod crash;
mod full;
mod life;
mod merge;
mod model;
mod pure;
mod races;

use std::sync::Arc;

use block::{BlockDevice, IoError, Node, Range, WriteFlags};
use testkit::{MemDisk, gather, pattern, single};

use super::{Origin, SnapshotError, SnapshotStore};
use crate::overlay::format::StoreLayout;

/// Size of most origins: not a whole number of the largest chunks.
const SIZE: u64 = 76 * 1024;
/// Seed of an origin's bytes.
const BASE: u8 = 0xB5;
/// Chunk of most stores.
const CHUNK: u32 = 4096;

/// Bytes that a store needs for every chunk of an origin of `size`.
fn store_size(size: u64, chunk: u32) -> u64 {
    let layout = StoreLayout::new(chunk).unwrap();
    layout.chunks_for(size.div_ceil(chunk.into())) * u64::from(chunk)
}

fn base_bytes(size: u64) -> Vec<u8> {
    pattern(BASE, Range::new(0, size))
}

fn base_of(size: u64) -> Arc<MemDisk> {
    Arc::new(MemDisk::from_bytes(base_bytes(size)))
}

/// An empty disk that is large enough for a store of every chunk.
fn new_store(size: u64, chunk: u32) -> Arc<MemDisk> {
    Arc::new(MemDisk::new(store_size(size, chunk)))
}

fn store(name: &str, cow: Node, chunk: u32) -> SnapshotStore {
    SnapshotStore {
        name: name.to_owned(),
        cow,
        chunk: chunk.into(),
        merging: false,
    }
}

/// An origin with one snapshot, `a`.
async fn open_one(base: Node, cow: Node) -> Result<Origin, SnapshotError> {
    Origin::open(base, vec![store("a", cow, CHUNK)], false).await
}

async fn write(disk: &dyn BlockDevice, range: Range, fill: u8) -> Result<(), IoError> {
    let data = single(pattern(fill, range));
    disk.write(range, data, WriteFlags::empty()).await
}

async fn read(disk: &dyn BlockDevice, range: Range) -> Vec<u8> {
    gather(&disk.read(range).await.unwrap())
}

async fn read_all(disk: &dyn BlockDevice) -> Vec<u8> {
    read(disk, Range::new(0, disk.geometry().size)).await
}
