//! A pool of 1 TiB: what opening it reads. Its metadata, of 524 MiB, are encoded block by block as they are read, and
//! not all 16.8 million mappings of them in memory.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block::{
    BlockDevice, Extent, ExtentKind, Geometry, Identity, IoBufs, IoFuture, Operation, Range,
    WriteFlags,
};
use fastrand::Rng;
use testkit::{MemDisk, block_on, gather, single};

use super::super::ThinPool;
use super::super::format::{BLOCK_LEN, BLOCK_SIZE, BlockKind};
use super::image::{CHUNK, FULL, INTERNAL, LEAF, MetadataImage, TestPool, number};
use crate::fields::put;
use crate::guard::refuse;

const DEVICE: u64 = 1;
const SIZE: u64 = 1 << 40;
const CHUNKS: u64 = SIZE / CHUNK;
/// Half full, as leaves are of a pool that was written at random.
const LEAF_ENTRIES: u64 = 126;
const NODE_ENTRIES: u64 = FULL as u64;
/// Nodes of each level, from the leaves up.
const LEVELS: [u64; 4] = [
    CHUNKS.div_ceil(LEAF_ENTRIES),
    CHUNKS.div_ceil(LEAF_ENTRIES * NODE_ENTRIES),
    CHUNKS.div_ceil(LEAF_ENTRIES * NODE_ENTRIES * NODE_ENTRIES),
    1,
];
/// The superblock, the roots of volumes and their details come first, then the levels from the leaves up.
const FIRST_LEAF: u64 = 3;
const BLOCKS: u64 = FIRST_LEAF + LEVELS[0] + LEVELS[1] + LEVELS[2] + LEVELS[3];

/// A read-only disk of blocks that are made when they are read.
#[derive(Debug)]
struct MadeDisk {
    geometry: Geometry,
    make: fn(u64) -> Vec<u8>,
    /// Blocks that were read.
    read: AtomicU64,
}

impl MadeDisk {
    fn new(size: u64, make: fn(u64) -> Vec<u8>) -> Arc<Self> {
        let geometry = Geometry {
            size,
            read_only: true,
            ..MemDisk::new(BLOCK_SIZE).geometry().clone()
        };
        Arc::new(Self {
            geometry,
            make,
            read: AtomicU64::new(0),
        })
    }

    /// How many blocks were read since the last call.
    fn take_read(&self) -> u64 {
        self.read.swap(0, Ordering::Relaxed)
    }
}

impl BlockDevice for MadeDisk {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        let blocks = range.offset / BLOCK_SIZE..range.end() / BLOCK_SIZE;
        self.read
            .fetch_add(blocks.end - blocks.start, Ordering::Relaxed);
        let bytes: Vec<u8> = blocks.flat_map(self.make).collect();
        assert_eq!(bytes.len(), range.len_usize(), "whole blocks");
        Box::pin(ready(Ok(single(bytes))))
    }

    fn write(&self, range: Range, _data: IoBufs, _flags: WriteFlags) -> IoFuture<'_, ()> {
        refuse(&self.geometry, Operation::Write, range)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    fn write_zeroes(&self, range: Range, _flags: WriteFlags) -> IoFuture<'_, ()> {
        refuse(&self.geometry, Operation::WriteZeroes, range)
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        refuse(&self.geometry, Operation::Trim, range)
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        let kind = ExtentKind::Data;
        Box::pin(ready(Ok(vec![Extent { range, kind }])))
    }

    fn identity(&self) -> Option<Identity> {
        None
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }
}

/// Where a chunk lies: never behind the one before it.
const fn data_chunk(chunk: u64) -> u64 {
    CHUNKS - 1 - chunk
}

/// The only block of an image but its superblock, as block `number`.
fn as_block(mut image: MetadataImage, number: u64) -> Vec<u8> {
    let mut block = image.block(1).to_vec();
    put(&mut block, 8, number.to_le_bytes());
    let sum = BlockKind::Node.checksum(&block);
    put(&mut block, 0, sum.to_le_bytes());
    block
}

/// Block `block` of the metadata.
fn metadata_block(block: u64) -> Vec<u8> {
    let mut image = MetadataImage::new();
    match block {
        0 => {
            let pool = TestPool::new(CHUNKS);
            pool.write_superblock(&mut image, [1, 2], BLOCKS);
            return image.block(0).to_vec();
        }
        1 => image.node(LEAF, 8, &[(DEVICE, number(BLOCKS - 1))]),
        2 => {
            let mut details = number(CHUNKS);
            details.resize(24, 0);
            image.node(LEAF, 24, &[(DEVICE, details)])
        }
        _ => tree_node(&mut image, block),
    };
    as_block(image, block)
}

/// A node of the tree of the mappings.
fn tree_node(image: &mut MetadataImage, block: u64) -> u64 {
    let (mut first, mut level, mut keys) = (FIRST_LEAF, 0, LEAF_ENTRIES);
    while block >= first + LEVELS[level] {
        first += LEVELS[level];
        level += 1;
        keys *= NODE_ENTRIES;
    }
    let index = block - first;
    let end = CHUNKS.min((index + 1) * keys);
    if level == 0 {
        let chunks = index * keys..end;
        let entries = chunks.map(|chunk| (chunk, number(data_chunk(chunk) << 24 | 5)));
        return image.node(LEAF, 8, &entries.collect::<Vec<_>>());
    }
    let below = first - LEVELS[level - 1];
    let each = keys / NODE_ENTRIES;
    let children = index * NODE_ENTRIES..end.div_ceil(each);
    let entries = children.map(|child| (child * each, number(below + child)));
    image.node(INTERNAL, 8, &entries.collect::<Vec<_>>())
}

/// A block of the data: says which chunk it is of.
fn data_block(block: u64) -> Vec<u8> {
    let chunk = block / (CHUNK / BLOCK_SIZE);
    chunk.to_le_bytes().repeat(BLOCK_LEN / 8)
}

/// The story: a test that opened such a pool in a debug build was ended after 280 s. The walk has no part in that, as this shows:
/// what opening costs is counted in blocks, which no load of the machine changes.
#[test]
fn opening_a_pool_of_1_tib_reads_one_path_of_each_tree() {
    let metadata = MadeDisk::new(BLOCKS * BLOCK_SIZE, metadata_block);
    let data = MadeDisk::new(SIZE, data_block);
    let spec = TestPool::new(CHUNKS).spec();
    let pool = block_on(ThinPool::open(metadata.clone(), data, spec)).unwrap();
    assert_eq!(metadata.take_read(), 1, "the superblock");
    let volume = block_on(pool.volume(DEVICE, SIZE, None)).unwrap();
    // Its details, its root, and the path to its first mapping.
    assert_eq!(metadata.take_read(), 2 + LEVELS.len() as u64);
    let mut rng = Rng::with_seed(18);
    for _ in 0..100 {
        let chunk = rng.u64(0..CHUNKS);
        let range = Range::new(chunk * CHUNK + BLOCK_SIZE, BLOCK_SIZE);
        let read = gather(&block_on(volume.read(range)).unwrap());
        assert!(read[..] == data_block(data_chunk(chunk) * (CHUNK / BLOCK_SIZE)));
        // The leaves of a section, and the nodes above them that are not known yet.
        let blocks = metadata.take_read();
        assert!(blocks <= 6 + 3, "{blocks} blocks for one chunk");
    }
}
