//! Thin pools and thin volumes, read; and whether a cache holds anything that its origin lacks.
//!
//! ```text
//! thin volume   │ chunk 0 │ chunk 1 │ chunk 2 │ chunk 3 │
//! mapping           │     not mapped     │         │         a btree in the pool's metadata
//! pool's data   ·  · 7 ·  (zeroes, or  · 2 ·  ·  · 9 ·      chunks of any volume, in any order; snapshots
//!                          the origin)                       share those that neither has written since
//! ```
//!
//! # Invariants
//!
//! * Nothing is written, neither to the metadata nor to the data.
//! * A pool that is damaged, marked `needs_check`, of another transaction or with unknown features is refused by
//!   name. Nodes of a btree are verified when they are read: opening reads those on its way, a read of the
//!   volume those that it needs, [`ThinPool::check_volume`] all of one volume. What is damaged fails the reads
//!   that need it and no others.
//! * Walks and caches are bounded (`walk.rs`, `sections.rs`). Opening a pool reads a few blocks, however large
//!   it is (`docs/adr/0014-thin-pools.md`).
//! * `remap` leads to the data only where they are opened read-only: snapshots share chunks.
//!
//! # What it does not do
//!
//! It ignores the held root (a snapshot of the metadata for tools), the space maps but for their counts, and the
//! times of mappings. It writes nothing: the error says that an overlay does.

mod cache;
mod error;
mod format;
mod sections;
#[cfg(test)]
mod tests;
mod unsupported_kind;
mod volume;
mod walk;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block::{Node, Range};
use tokio::sync::Mutex;

pub use self::cache::{CacheMode, CacheState, cache_is_clean};
pub use self::error::{ThinError, ThinSubject};
pub use self::format::NodeFault;
use self::format::{BLOCK_SIZE, DETAILS_LEN, Mapping, POINTER_LEN, Superblock};
use self::sections::{
    CachedVolume, ChunkRun, SECTION_CHUNKS, Section, SectionBuilder, SectionCache,
};
pub use self::unsupported_kind::{UnsupportedKind, unsupported};
use self::volume::ThinVolume;
use self::walk::{Metadata, Tree, Walk};
use crate::fields::Fields;
use crate::read::read_within;

/// Sections that are loaded at the same time. A second read of one that is being loaded waits.
const LOADS_MAX: usize = 64;

/// Blocks of the metadata that the kernel keeps in reserve, at most.
const RESERVE_MAX: u64 = (16 << 20) / BLOCK_SIZE;

/// What the volume group says of a thin pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThinPoolSpec {
    /// The transaction id of the pool; 0: LVM does not manage what is in the pool, and any id is right.
    pub transaction_id: u64,
    /// Chunk, bytes.
    pub chunk_size: u64,
    /// The group has messages for the pool that may not have been carried out: the pool may be one transaction
    /// behind.
    pub pending_messages: bool,
}

/// How much of a pool is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThinPoolUsage {
    /// Chunk, bytes.
    pub chunk_size: u64,
    /// Chunks of the data.
    pub data_chunks: u64,
    /// Those that are allocated.
    pub data_chunks_used: u64,
    /// Blocks of the metadata, of 4096 bytes.
    pub metadata_blocks: u64,
    /// Those that are in use.
    pub metadata_blocks_used: u64,
}

impl ThinPoolUsage {
    /// Bytes of the data.
    #[must_use]
    pub const fn data_bytes(&self) -> u64 {
        self.data_chunks.saturating_mul(self.chunk_size)
    }

    /// Those that are allocated.
    #[must_use]
    pub const fn data_bytes_used(&self) -> u64 {
        self.data_chunks_used.saturating_mul(self.chunk_size)
    }

    /// Bytes of the metadata.
    #[must_use]
    pub const fn metadata_bytes(&self) -> u64 {
        self.metadata_blocks.saturating_mul(BLOCK_SIZE)
    }

    /// Those that are in use or kept by the kernel in reserve, as LVM shows them: a tenth, at most 16 MiB
    /// (`__set_metadata_reserve` of `drivers/md/dm-thin-metadata.c`).
    #[must_use]
    pub fn metadata_bytes_used(&self) -> u64 {
        let reserve = (self.metadata_blocks / 10).min(RESERVE_MAX);
        let used = self.metadata_blocks_used.saturating_add(reserve);
        used.min(self.metadata_blocks).saturating_mul(BLOCK_SIZE)
    }
}

/// A thin pool, opened for reading.
#[derive(Debug)]
pub struct ThinPool {
    metadata: Metadata,
    data: Node,
    superblock: Superblock,
    pending_messages: bool,
    sections: SectionCache,
    loads: Box<[Mutex<()>]>,
    volumes: AtomicU64,
    next_slot: AtomicU64,
}

impl ThinPool {
    /// Opens the pool of these two disks.
    ///
    /// # Errors
    /// [`ThinError`]: what is wrong with the superblock, or does not fit `spec` or the disks.
    pub async fn open(
        metadata: Node,
        data: Node,
        spec: ThinPoolSpec,
    ) -> Result<Arc<Self>, ThinError> {
        let block = read_within(&metadata, Range::new(0, BLOCK_SIZE)).await?;
        let superblock = Superblock::decode(&block)?;
        check_spec(&superblock, spec)?;
        for (what, disk, map, unit) in [
            ("metadata", &metadata, superblock.metadata, BLOCK_SIZE),
            ("data", &data, superblock.data, superblock.chunk_size),
        ] {
            let (size, needed) = (disk.geometry().size, map.blocks.saturating_mul(unit));
            if size < needed {
                return Err(ThinError::Size {
                    subject: ThinSubject::Pool,
                    what,
                    size,
                    needed,
                });
            }
        }
        Ok(Arc::new(Self {
            metadata: Metadata::new(metadata, superblock.metadata.blocks),
            data,
            pending_messages: spec.pending_messages,
            sections: SectionCache::new(superblock.data.blocks),
            loads: (0..LOADS_MAX).map(|_| Mutex::default()).collect(),
            volumes: AtomicU64::new(0),
            next_slot: AtomicU64::new(0),
            superblock,
        }))
    }

    /// How much of it is used.
    #[must_use]
    pub const fn usage(&self) -> ThinPoolUsage {
        ThinPoolUsage {
            chunk_size: self.superblock.chunk_size,
            data_chunks: self.superblock.data.blocks,
            data_chunks_used: self.superblock.data.used,
            metadata_blocks: self.superblock.metadata.blocks,
            metadata_blocks_used: self.superblock.metadata.used,
        }
    }

    /// The thin volume with this device id: a read-only disk of `size` bytes. What is not mapped reads as the
    /// bytes of `external_origin`, as far as that goes, or as zeroes.
    ///
    /// # Errors
    /// [`ThinError`]: there is none, its tree is damaged where this looks, or its size is not made of blocks.
    pub async fn volume(
        self: &Arc<Self>,
        device_id: u64,
        size: u64,
        external_origin: Option<Node>,
    ) -> Result<Node, ThinError> {
        self.mapped_chunks(device_id).await?;
        let tree = self.mappings(device_id).await?;
        // A root that cannot be read is refused here.
        self.metadata.next_key(tree, 0).await?;
        let sections = size.div_ceil(self.chunk_size()).div_ceil(SECTION_CHUNKS);
        let cached = CachedVolume {
            number: self.volumes.fetch_add(1, Ordering::Relaxed) + 1,
            first_slot: self.next_slot.fetch_add(sections, Ordering::Relaxed),
        };
        let volume = ThinVolume::new(self.clone(), device_id, tree, cached, size, external_origin)?;
        Ok(Arc::new(volume))
    }

    /// Reads and verifies all mappings of a volume. Returns how many chunks are mapped.
    ///
    /// # Errors
    /// [`ThinError`]: the first damage that is found.
    pub async fn check_volume(&self, device_id: u64) -> Result<u64, ThinError> {
        let expected = self.mapped_chunks(device_id).await?;
        let tree = self.mappings(device_id).await?;
        let mut walk = Walk::new(&self.metadata, tree, 0..=u64::MAX);
        let mut found = 0;
        while let Some(leaf) = walk.next_leaf().await? {
            for index in 0..leaf.count() {
                self.data_chunk(leaf.key(index), leaf.number(index))?;
            }
            found += leaf.count() as u64;
        }
        if found == expected {
            return Ok(found);
        }
        Err(ThinError::Mapped {
            device: device_id,
            found,
            expected,
        })
    }

    const fn chunk_size(&self) -> u64 {
        self.superblock.chunk_size
    }

    /// The number of mapped chunks in the details of a device.
    async fn mapped_chunks(&self, device: u64) -> Result<u64, ThinError> {
        let tree = Tree {
            root: self.superblock.details,
            value_size: DETAILS_LEN,
        };
        let details = self.metadata.lookup(tree, device).await?;
        let pending = self.pending_messages;
        let details = details.ok_or(ThinError::NoDevice { device, pending })?;
        Ok(Fields::of(&details).u64(0))
    }

    /// The tree of the mappings of a device.
    async fn mappings(&self, device: u64) -> Result<Tree, ThinError> {
        let tree = Tree {
            root: self.superblock.mappings,
            value_size: POINTER_LEN,
        };
        let root = self.metadata.lookup(tree, device).await?;
        let root = root.ok_or(ThinError::Incomplete {
            device,
            what: "mappings",
        })?;
        let root = Fields::of(&root).u64(0);
        Ok(Tree { root, ..tree })
    }

    /// Where a mapping leads, if that is on the data.
    fn data_chunk(&self, chunk: u64, value: u64) -> Result<u64, ThinError> {
        let Mapping { data } = Mapping::of(value);
        let chunks = self.superblock.data.blocks;
        if data < chunks {
            return Ok(data);
        }
        Err(ThinError::Mapping {
            chunk,
            data,
            chunks,
        })
    }

    /// What lies together from `chunk` of a volume on, at most `wanted` chunks and no further than its section.
    /// Loads the section if it is not kept.
    async fn load(
        &self,
        volume: CachedVolume,
        tree: Tree,
        chunk: u64,
        wanted: u64,
    ) -> Result<ChunkRun, ThinError> {
        let section = chunk / SECTION_CHUNKS;
        let load = self.sections.slot(volume, section) % self.loads.len();
        let _one_load = self.loads[load].lock().await;
        if let Some(run) = self.sections.find(volume, chunk, wanted) {
            return Ok(run);
        }
        let content = self.load_section(tree, section).await?;
        let run = content.find(chunk % SECTION_CHUNKS, wanted);
        self.sections.insert(volume, section, content);
        Ok(run)
    }

    async fn load_section(&self, tree: Tree, section: u64) -> Result<Section, ThinError> {
        let first = section * SECTION_CHUNKS;
        let wanted: RangeInclusive<u64> = first..=first + (SECTION_CHUNKS - 1);
        let mut walk = Walk::new(&self.metadata, tree, wanted.clone());
        let mut builder = SectionBuilder::default();
        while let Some(leaf) = walk.next_leaf().await? {
            for index in leaf.lower_bound(first)..leaf.count() {
                let chunk = leaf.key(index);
                if chunk > *wanted.end() {
                    break;
                }
                builder.push(chunk - first, self.data_chunk(chunk, leaf.number(index))?);
            }
        }
        Ok(builder.build())
    }

    /// The first mapped chunk from `chunk` on.
    async fn next_mapped(&self, tree: Tree, chunk: u64) -> Result<Option<u64>, ThinError> {
        self.metadata.next_key(tree, chunk).await
    }
}

/// Compares the superblock with the volume group.
fn check_spec(superblock: &Superblock, spec: ThinPoolSpec) -> Result<(), ThinError> {
    let (found, expected) = (superblock.transaction_id, spec.transaction_id);
    let is_behind = spec.pending_messages && found.checked_add(1) == Some(expected);
    if expected != 0 && found != expected && !is_behind {
        return Err(ThinError::TransactionId { found, expected });
    }
    let (found, expected) = (superblock.chunk_size, spec.chunk_size);
    if found != expected {
        return Err(ThinError::ChunkSize { found, expected });
    }
    Ok(())
}
