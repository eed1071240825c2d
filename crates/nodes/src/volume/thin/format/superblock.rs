//! The superblock of a thin pool, and what that of a cache has in common with it.

use super::super::{ThinError, ThinSubject};
use super::{BLOCK_LEN, BLOCK_SIZE, BlockKind, SECTOR};
use crate::fields::Fields;
use crate::zeroes::is_zero;

/// `THIN_SUPERBLOCK_MAGIC`: decimal in the kernel's source.
const POOL_MAGIC: u64 = 27_022_010;
/// `CACHE_SUPERBLOCK_MAGIC`: the kernel's source writes it with a leading zero, which makes it octal.
const CACHE_MAGIC: u64 = 0o6_142_003;
const VERSION: u32 = 2;
/// Set by the kernel when a metadata operation failed.
const NEEDS_CHECK: u32 = 1;
/// Smallest chunk, and what chunks are multiples of, bytes.
const CHUNK_MIN: u64 = 64 << 10;
/// Largest chunk, bytes.
const CHUNK_MAX: u64 = 1 << 30;

/// How much of something is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpaceMap {
    /// Blocks that there are.
    pub(crate) blocks: u64,
    /// Blocks in use.
    pub(crate) used: u64,
}

impl SpaceMap {
    fn decode(fields: Fields<'_>, at: usize) -> Self {
        Self {
            blocks: fields.u64(at),
            used: fields.u64(at + 8),
        }
    }
}

/// What the superblock says, as far as reading needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// Counts the changes that LVM made to the set of volumes.
    pub(crate) transaction_id: u64,
    /// Data chunks.
    pub(crate) data: SpaceMap,
    /// Metadata blocks.
    pub(crate) metadata: SpaceMap,
    /// Root of the mappings.
    pub(crate) mappings: u64,
    /// Root of the details.
    pub(crate) details: u64,
    /// Chunk, bytes.
    pub(crate) chunk_size: u64,
}

impl Superblock {
    /// Decodes metadata block 0.
    ///
    /// # Errors
    /// [`ThinError`] by name: no superblock, damaged, of another version, marked to be checked, or with features
    /// that are not known.
    pub(crate) fn decode(block: &[u8]) -> Result<Self, ThinError> {
        let subject = ThinSubject::Pool;
        let fields = header(block, subject)?.ok_or(ThinError::Unused)?;
        if fields.u32(40) != VERSION {
            let found = fields.u32(40);
            return Err(ThinError::Version { subject, found });
        }
        let flags = fields.u32(4);
        if flags & NEEDS_CHECK != 0 {
            return Err(ThinError::NeedsCheck(subject));
        }
        // Read-only features of `compat_ro_flags` at 356 do not concern a reader.
        refuse_flags(subject, "flags", flags)?;
        refuse_flags(subject, "incompat_flags", fields.u32(360))?;
        Self::of(fields)
    }

    fn of(fields: Fields<'_>) -> Result<Self, ThinError> {
        let superblock = Self {
            transaction_id: fields.u64(48),
            data: SpaceMap::decode(fields, 64),
            metadata: SpaceMap::decode(fields, 192),
            mappings: fields.u64(320),
            details: fields.u64(328),
            chunk_size: u64::from(fields.u32(336)) * SECTOR,
        };
        let metadata_block = u64::from(fields.u32(340)) * SECTOR;
        if metadata_block != BLOCK_SIZE {
            return Err(bad_field(
                ThinSubject::Pool,
                "metadata block size",
                metadata_block,
            ));
        }
        let chunk = superblock.chunk_size;
        if !(CHUNK_MIN..=CHUNK_MAX).contains(&chunk) || !chunk.is_multiple_of(CHUNK_MIN) {
            return Err(bad_field(ThinSubject::Pool, "chunk size", chunk));
        }
        for (what, map, unit) in [
            ("number of chunks", superblock.data, chunk),
            ("number of metadata blocks", superblock.metadata, BLOCK_SIZE),
        ] {
            let size = map.blocks.checked_mul(unit);
            if size.is_none_or(|size| i64::try_from(size).is_err()) {
                return Err(bad_field(ThinSubject::Pool, what, map.blocks));
            }
        }
        Ok(superblock)
    }
}

/// The fields of metadata block 0, once magic number, checksum and place are right. `None`: all zeroes.
pub(crate) fn header(block: &[u8], subject: ThinSubject) -> Result<Option<Fields<'_>>, ThinError> {
    if block.len() < BLOCK_LEN {
        let len = block.len();
        return Err(ThinError::Cut { subject, len });
    }
    if is_zero(block) {
        return Ok(None);
    }
    let (magic, kind) = match subject {
        ThinSubject::Pool => (POOL_MAGIC, BlockKind::PoolSuperblock),
        ThinSubject::Cache => (CACHE_MAGIC, BlockKind::CacheSuperblock),
    };
    let fields = Fields::of(block);
    if fields.u64(32) != magic {
        return Err(ThinError::Magic(subject));
    }
    let (stored, computed) = (fields.u32(0), kind.checksum(block));
    if stored != computed {
        return Err(ThinError::Checksum {
            subject,
            stored,
            computed,
        });
    }
    if fields.u64(8) != 0 {
        return Err(bad_field(subject, "block number", fields.u64(8)));
    }
    Ok(Some(fields))
}

/// Refuses flags that are not known.
pub(crate) const fn refuse_flags(
    subject: ThinSubject,
    field: &'static str,
    unknown: u32,
) -> Result<(), ThinError> {
    if unknown == 0 {
        return Ok(());
    }
    Err(ThinError::Flags {
        subject,
        field,
        unknown,
    })
}

pub(crate) const fn bad_field(subject: ThinSubject, field: &'static str, value: u64) -> ThinError {
    ThinError::Field {
        subject,
        field,
        value,
    }
}
