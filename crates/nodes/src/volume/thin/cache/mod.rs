//! Caches (dm-cache): whether the origin alone has every byte of the cached volume.
//!
//! ```text
//! block 0         superblock: flags (shut down cleanly, needs check), chunks of the cache, roots of arrays
//! mapping array   of each chunk of the cache: origin chunk << 16 | dirty (format 1 only) | valid
//! dirty bitset    format 2: one bit of each chunk, in words of 64
//! array           a btree: index of a block of values ─► that block
//! ```
//!
//! # Invariants
//!
//! * The dirty bits count only after a clean shutdown: the kernel writes them then, and no sooner.
//! * An array is read in order and must be complete: a missing block is damage, not clean chunks.
//!
//! # What it does not do
//!
//! It does not read the cache's data. A caller that reads the origin alone must not write there: the cache
//! would not notice, and return what it has.

mod array;

use block::{Node, Range};

use super::ThinError;
use super::error::ThinSubject;
use super::format::{BLOCK_SIZE, SECTOR, bad_field, header, refuse_flags};
use super::walk::Metadata;
use crate::read::read_within;

const CLEAN_SHUTDOWN: u32 = 1;
const NEEDS_CHECK: u32 = 2;
/// From this format on dirty bits are an array of their own.
const SEPARATE_DIRTY_BITS: u32 = 2;
const VALID: u64 = 1;
const DIRTY: u64 = 2;
const BITS: u64 = 64;
/// Chunks of a cache: 8 TiB of the smallest. Their dirty bits take 32 MiB.
const CHUNKS_MAX: u64 = 1 << 28;

/// How a cache treats writes: `cache_mode` in LVM's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheMode {
    /// A write is acknowledged when the origin has it.
    Writethrough,
    /// A write is acknowledged when the cache has it.
    Writeback,
    /// Reads and writes go to the origin.
    Passthrough,
}

impl CacheMode {
    /// As LVM's text says it; where it says nothing it is `writethrough`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "writethrough" => Some(Self::Writethrough),
            "writeback" => Some(Self::Writeback),
            "passthrough" => Some(Self::Passthrough),
            _ => None,
        }
    }
}

/// What the metadata of a cache say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheState {
    /// It was shut down cleanly, or never used.
    pub clean_shutdown: bool,
    /// Chunks of the cache that the origin lacked when it was last shut down cleanly.
    pub dirty: u64,
}

impl CacheState {
    /// Checks that the origin alone has every byte of a volume with this cache.
    ///
    /// # Errors
    /// [`ThinError::DirtyCache`].
    pub fn check_origin(self, mode: CacheMode) -> Result<(), ThinError> {
        if mode == CacheMode::Writeback && !self.clean_shutdown {
            let why = "it caches writes and was not shut down cleanly";
            return Err(ThinError::DirtyCache(why.to_owned()));
        }
        match self.dirty {
            0 => Ok(()),
            1 => Err(ThinError::DirtyCache("1 chunk is dirty".to_owned())),
            dirty => Err(ThinError::DirtyCache(format!("{dirty} chunks are dirty"))),
        }
    }
}

/// What the superblock says, as far as this needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CacheSuperblock {
    version: u32,
    clean_shutdown: bool,
    /// Chunks of the cache.
    chunks: u64,
    metadata_blocks: u64,
    mappings: u64,
    dirty_bits: u64,
}

impl CacheSuperblock {
    /// Decodes metadata block 0; `None`: the cache was never used.
    fn decode(block: &[u8]) -> Result<Option<Self>, ThinError> {
        let subject = ThinSubject::Cache;
        let Some(fields) = header(block, subject)? else {
            return Ok(None);
        };
        let version = fields.u32(40);
        if !(1..=SEPARATE_DIRTY_BITS).contains(&version) {
            let found = version;
            return Err(ThinError::Version { subject, found });
        }
        let flags = fields.u32(4);
        if flags & NEEDS_CHECK != 0 {
            return Err(ThinError::NeedsCheck(subject));
        }
        refuse_flags(subject, "flags", flags & !CLEAN_SHUTDOWN)?;
        refuse_flags(subject, "incompat_flags", fields.u32(252))?;
        let metadata_block = u64::from(fields.u32(236)) * SECTOR;
        if metadata_block != BLOCK_SIZE {
            return Err(bad_field(subject, "metadata block size", metadata_block));
        }
        let chunks = fields.u32(240).into();
        if chunks > CHUNKS_MAX {
            return Err(bad_field(subject, "number of chunks", chunks));
        }
        Ok(Some(Self {
            version,
            clean_shutdown: flags & CLEAN_SHUTDOWN != 0,
            chunks,
            metadata_blocks: fields.u64(64),
            mappings: fields.u64(192),
            dirty_bits: fields.u64(284),
        }))
    }
}

/// Reads from the metadata of a cache whether anything in it is dirty.
///
/// # Errors
/// [`ThinError`]: the metadata are damaged, marked `needs_check` or of an unknown version, or cannot be read.
pub async fn cache_is_clean(metadata: &Node) -> Result<CacheState, ThinError> {
    let block = read_within(metadata, Range::new(0, BLOCK_SIZE)).await?;
    let Some(superblock) = CacheSuperblock::decode(&block)? else {
        return Ok(CacheState {
            clean_shutdown: true,
            dirty: 0,
        });
    };
    let blocks = superblock.metadata_blocks;
    let (size, needed) = (metadata.geometry().size, blocks.saturating_mul(BLOCK_SIZE));
    if size < needed {
        let subject = ThinSubject::Cache;
        return Err(ThinError::Size {
            subject,
            what: "metadata",
            size,
            needed,
        });
    }
    let metadata = Metadata::new(metadata.clone(), blocks);
    let chunks = superblock.chunks;
    let mut words: Vec<u64> = Vec::new();
    let separate = superblock.version >= SEPARATE_DIRTY_BITS;
    if separate {
        let visit = |_, word| words.push(word);
        array::read(
            &metadata,
            superblock.dirty_bits,
            chunks.div_ceil(BITS),
            visit,
        )
        .await?;
    }
    let mut dirty = 0;
    let visit = |chunk: u64, mapping: u64| {
        let word = usize::try_from(chunk / BITS).map(|word| words.get(word));
        let bit = word.is_ok_and(|word| word.is_some_and(|word| word >> (chunk % BITS) & 1 != 0));
        let is_dirty = if separate { bit } else { mapping & DIRTY != 0 };
        // Bits of chunks that are not mapped mean nothing: cache_restore sets them.
        dirty += u64::from(is_dirty && mapping & VALID != 0);
    };
    array::read(&metadata, superblock.mappings, chunks, visit).await?;
    Ok(CacheState {
        clean_shutdown: superblock.clean_shutdown,
        dirty,
    })
}
