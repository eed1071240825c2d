//! Metadata of pools and caches, encoded for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{Node, Range};
use fastrand::Rng;
use testkit::{MemDisk, block_on, pattern};

use super::super::format::{BLOCK_LEN, BlockKind};
use super::super::{ThinError, ThinPool, ThinPoolSpec};
use crate::fields::put;

/// Smallest chunk.
pub(super) const CHUNK: u64 = 64 << 10;
pub(super) const INTERNAL: u32 = 1;
pub(super) const LEAF: u32 = 2;
/// Entries of a full node with values of eight bytes.
pub(super) const FULL: usize = 252;

/// Entries of a tree: keys and values.
pub(super) type Entries = Vec<(u64, Vec<u8>)>;

/// Metadata blocks; the superblock is the first.
#[derive(Debug, Clone)]
pub(super) struct MetadataImage {
    pub(super) bytes: Vec<u8>,
}

impl MetadataImage {
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![0; BLOCK_LEN],
        }
    }

    pub(super) fn blocks(&self) -> u64 {
        (self.bytes.len() / BLOCK_LEN) as u64
    }

    pub(super) fn block(&mut self, number: u64) -> &mut [u8] {
        let at = usize::try_from(number).unwrap() * BLOCK_LEN;
        &mut self.bytes[at..at + BLOCK_LEN]
    }

    /// Writes the number of a block and its checksum.
    pub(super) fn seal(&mut self, number: u64, kind: BlockKind) {
        let block = self.block(number);
        let place = if kind == BlockKind::Array { 16 } else { 8 };
        put(block, place, number.to_le_bytes());
        let sum = kind.checksum(block);
        put(block, 0, sum.to_le_bytes());
    }

    pub(super) fn add(&mut self, content: &[u8], kind: BlockKind) -> u64 {
        let number = self.blocks();
        self.bytes.extend(content);
        self.bytes
            .resize((usize::try_from(number).unwrap() + 1) * BLOCK_LEN, 0);
        self.seal(number, kind);
        number
    }

    pub(super) fn node(
        &mut self,
        flags: u32,
        value_size: usize,
        entries: &[(u64, Vec<u8>)],
    ) -> u64 {
        let max = (BLOCK_LEN - 32) / (8 + value_size) / 3 * 3;
        let mut block = vec![0; BLOCK_LEN];
        put(&mut block, 4, flags.to_le_bytes());
        for (at, number) in [(16, entries.len()), (20, max), (24, value_size)] {
            put(&mut block, at, word(number));
        }
        for (index, (key, value)) in entries.iter().enumerate() {
            put(&mut block, 32 + index * 8, key.to_le_bytes());
            let at = 32 + max * 8 + index * value_size;
            block[at..at + value_size].copy_from_slice(value);
        }
        self.add(&block, BlockKind::Node)
    }

    /// A tree of nodes with `fanout` entries; returns its root.
    pub(super) fn tree(
        &mut self,
        value_size: usize,
        entries: &[(u64, Vec<u8>)],
        fanout: usize,
    ) -> u64 {
        if entries.is_empty() {
            return self.node(LEAF, value_size, &[]);
        }
        let (mut level, mut size, mut flags) = (entries.to_vec(), value_size, LEAF);
        loop {
            let nodes: Entries = level
                .chunks(fanout)
                .map(|part| (part[0].0, number(self.node(flags, size, part))))
                .collect();
            if let [(_, root)] = nodes.as_slice() {
                return u64::from_le_bytes(root.as_slice().try_into().unwrap());
            }
            (level, size, flags) = (nodes, 8, INTERNAL);
        }
    }
}

/// A number as a field of four bytes.
pub(super) fn word(number: usize) -> [u8; 4] {
    u32::try_from(number)
        .expect("it fits the field")
        .to_le_bytes()
}

pub(super) fn number(number: u64) -> Vec<u8> {
    number.to_le_bytes().to_vec()
}

/// A pool of 64 KiB chunks, or of several of them.
#[derive(Debug, Clone)]
pub(super) struct TestPool {
    pub(super) chunk: u64,
    pub(super) data_chunks: u64,
    pub(super) transaction_id: u64,
    /// Of each device the data chunk of each of its chunks.
    pub(super) volumes: BTreeMap<u64, BTreeMap<u64, u64>>,
    pub(super) fanout: usize,
}

impl TestPool {
    pub(super) fn new(data_chunks: u64) -> Self {
        Self {
            chunk: CHUNK,
            data_chunks,
            transaction_id: 7,
            volumes: BTreeMap::new(),
            fanout: FULL,
        }
    }

    pub(super) fn volume(mut self, device: u64, mappings: &[(u64, u64)]) -> Self {
        self.volumes
            .insert(device, mappings.iter().copied().collect());
        self
    }

    /// Volumes of up to `chunks` chunks, in random order on up to `data_chunks` chunks of data, with snapshots among
    /// them.
    pub(super) fn random(rng: &mut Rng, chunks: u64, data_chunks: u64) -> Self {
        let mut pool = Self::new(rng.u64(1..=data_chunks));
        pool.chunk *= rng.u64(1..=3);
        pool.fanout = *[3, 7, 50, FULL].get(rng.usize(0..4)).unwrap();
        let mut next = 0;
        for device in 1..=rng.u64(1..=3) {
            let mut mappings = match pool.volumes.values().next() {
                Some(origin) if rng.bool() => origin.clone(),
                _ => BTreeMap::new(),
            };
            let mut chunk = rng.u64(0..chunks);
            for _ in 0..rng.u64(0..=chunks) {
                if rng.bool() {
                    next = rng.u64(0..pool.data_chunks);
                }
                mappings.insert(chunk, next % pool.data_chunks);
                (chunk, next) = ((chunk + 1) % chunks, next + 1);
            }
            pool.volumes.insert(device * 3, mappings);
        }
        pool
    }

    pub(super) fn spec(&self) -> ThinPoolSpec {
        ThinPoolSpec {
            transaction_id: self.transaction_id,
            chunk_size: self.chunk,
            pending_messages: false,
        }
    }

    pub(super) fn metadata(&self) -> MetadataImage {
        let mut image = MetadataImage::new();
        let (mut roots, mut details) = (Entries::new(), Entries::new());
        let mut known: Vec<(&BTreeMap<u64, u64>, u64)> = Vec::new();
        for (device, mappings) in &self.volumes {
            // A snapshot that was not written since has the root of its origin.
            let shared = known.iter().find(|(found, _)| *found == mappings);
            let root = shared.map_or_else(
                || {
                    let time = device & 0xff_ffff;
                    let entries = mappings.iter().map(|(c, d)| (*c, number(d << 24 | time)));
                    image.tree(8, &entries.collect::<Entries>(), self.fanout)
                },
                |(_, root)| *root,
            );
            known.push((mappings, root));
            roots.push((*device, number(root)));
            let mut detail = number(mappings.len() as u64);
            detail.resize(24, 0);
            details.push((*device, detail));
        }
        let mappings = image.tree(8, &roots, self.fanout);
        let details = image.tree(24, &details, self.fanout.min(126));
        let blocks = image.blocks();
        self.write_superblock(&mut image, [mappings, details], blocks);
        image
    }

    /// The superblock of metadata of so many blocks, with these roots of the mappings and of the details.
    pub(super) fn write_superblock(
        &self,
        image: &mut MetadataImage,
        [mappings, details]: [u64; 2],
        blocks: u64,
    ) {
        let block = image.block(0);
        for (at, number) in [
            (32, 27_022_010),
            (48, self.transaction_id),
            (64, self.data_chunks),
            (72, self.data_chunks / 2),
            (192, blocks),
            (200, blocks),
            (320, mappings),
            (328, details),
            (344, blocks),
        ] {
            put(block, at, u64::to_le_bytes(number));
        }
        let sectors = u32::try_from(self.chunk / 512).unwrap();
        for (at, number) in [(40, 2), (336, sectors), (340, 8)] {
            put(block, at, u32::to_le_bytes(number));
        }
        image.seal(0, BlockKind::PoolSuperblock);
    }

    /// Bytes of the data.
    pub(super) fn data(&self) -> Vec<u8> {
        let len = self.data_chunks * self.chunk;
        pattern(1, Range::new(0, len))
    }

    /// What a volume of `size` bytes holds.
    pub(super) fn expected(&self, device: u64, size: u64, origin: &[u8]) -> Vec<u8> {
        let (data, chunk) = (self.data(), usize::try_from(self.chunk).unwrap());
        let mut all = vec![0; usize::try_from(size).unwrap()];
        let from_origin = all.len().min(origin.len());
        all[..from_origin].copy_from_slice(&origin[..from_origin]);
        for (at, found) in &self.volumes[&device] {
            let at = usize::try_from(*at).unwrap() * chunk;
            let from = usize::try_from(*found).unwrap() * chunk;
            if at < all.len() {
                let len = chunk.min(all.len() - at);
                all[at..at + len].copy_from_slice(&data[from..from + len]);
            }
        }
        all
    }

    /// A read-only disk of the data.
    pub(super) fn data_disk(&self) -> Node {
        let disk = MemDisk::from_bytes(self.data());
        Arc::new(disk.with_geometry(|geometry| geometry.read_only = true))
    }

    pub(super) fn open(&self) -> Arc<ThinPool> {
        let opened = self.open_with(&self.metadata(), self.data_disk(), self.spec());
        opened.expect("it is a good pool")
    }

    pub(super) fn open_with(
        &self,
        metadata: &MetadataImage,
        data: Node,
        spec: ThinPoolSpec,
    ) -> Result<Arc<ThinPool>, ThinError> {
        let metadata = Arc::new(MemDisk::from_bytes(metadata.bytes.clone()));
        block_on(ThinPool::open(metadata, data, spec))
    }
}
