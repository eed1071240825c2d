//! Tests of `overlay`: its pure parts, requests, power cuts, dropped futures, stores that are opened,
//! full or damaged, files.

mod cancel;
mod commit;
mod crash;
mod disk;
mod files;
mod open;
mod pure;
mod space;

use std::sync::Arc;

use block::{BlockDevice, IoBufs, IoError, Node, Range, WriteFlags};
use testkit::{HeldDisk, MemDisk, gather, pattern, single};

use super::format::StoreLayout;
use super::{Overlay, OverlayError, OverlayOptions};

/// Size of most bases.
const SIZE: u64 = 64 * 1024;
/// A chunk so small that a small disk needs several tables.
const SMALL: u32 = 512;
/// Seed of a base's bytes.
const BASE: u8 = 0xB5;

fn options(chunk: u32) -> OverlayOptions {
    OverlayOptions {
        chunk,
        ..OverlayOptions::default()
    }
}

fn layout(chunk: u32) -> StoreLayout {
    StoreLayout::new(chunk).unwrap()
}

/// Bytes that a store needs for every chunk of a disk of `size`.
fn store_size(size: u64, chunk: u32) -> u64 {
    layout(chunk).chunks_for(size.div_ceil(chunk.into())) * u64::from(chunk)
}

fn base_bytes(size: u64) -> Vec<u8> {
    pattern(BASE, Range::new(0, size))
}

fn base_of(size: u64) -> Arc<MemDisk> {
    Arc::new(MemDisk::from_bytes(base_bytes(size)))
}

/// A store of `chunk`s as the kernel takes it when it is new, with a header already: chunks that are
/// smaller than ours are only found, never made.
fn store_of(chunk: u32, size: u64) -> MemDisk {
    let mut bytes = vec![0; Range::new(0, size).len_usize()];
    let header = layout(chunk).header();
    bytes[..header.len()].copy_from_slice(&header);
    MemDisk::from_bytes(bytes)
}

/// A disk that may be held, and is not yet.
fn held(child: Arc<MemDisk>) -> Arc<HeldDisk> {
    let disk = HeldDisk::new(child);
    disk.hold(false);
    disk
}

async fn over(base: Node, store: Node) -> Result<Overlay, OverlayError> {
    Overlay::over(base, store, OverlayOptions::default()).await
}

async fn write(disk: &dyn BlockDevice, range: Range, fill: u8) -> Result<(), IoError> {
    let data = data(range, fill);
    disk.write(range, data, WriteFlags::empty()).await
}

fn data(range: Range, fill: u8) -> IoBufs {
    single(pattern(fill, range))
}

async fn read(disk: &dyn BlockDevice, range: Range) -> Vec<u8> {
    gather(&disk.read(range).await.unwrap())
}

async fn read_all(disk: &dyn BlockDevice) -> Vec<u8> {
    read(disk, Range::new(0, disk.geometry().size)).await
}
