//! What is stored: keys and entries of the index, the header of a volume, names of objects. Bytes and structs, pure.
//!
//! `docs/formats/bucket.md` describes it.
//!
//! # Invariants
//!
//! * Every stored value has a version and a checksum that covers its key, too: an entry under another key does not match.
//! * Nothing that is not understood is used: another version, kind or codec is an error that names it.

mod clone;
mod collection;
mod encoding;
mod entry;
mod header;
mod journal;
mod json;
mod key;
mod meta;
mod names;
mod relocation;
mod snapshot;
#[cfg(test)]
mod tests;

use crc::{CRC_32_ISCSI, Crc, Table};

pub(crate) use self::clone::{CloneRecord, Origin};
pub use self::collection::CollectionFormatError;
pub(crate) use self::collection::CollectionRecord;
pub(crate) use self::encoding::{CIPHER, SealedKey, from_hex, hex};
pub use self::encoding::{Compression, CompressionError};
pub use self::entry::EntryFormatError;
pub(crate) use self::entry::{Entry, EntryContent, RunPointer, Sequence};
pub use self::header::HeaderFormatError;
pub(crate) use self::header::{VolumeHeader, VolumeId, is_size, random_bytes};
pub use self::journal::JournalFormatError;
pub(crate) use self::journal::{
    JournalHeader, JournalId, JournalOpening, JournalPosition, RING_MIN, RecordHeader, RecordPlan,
};
pub(crate) use self::key::{IndexKey, META_KEY};
pub use self::meta::MetaFormatError;
pub(crate) use self::meta::{IndexMeta, JournalRecord};
pub(crate) use self::names::{DataObject, JOURNAL_MARK, Names, data_object, header_version};
pub(crate) use self::relocation::{RelocationProgress, RelocationRequest};
pub(crate) use self::snapshot::{FLUSH_REQUEST, PENDING, SnapshotRecord};

/// Bytes of a block: the smallest unit that is written.
pub(crate) const BLOCK: u64 = 4096;
/// The same, in memory.
pub(crate) const BLOCK_LEN: usize = 4096;
/// Bytes of a block that is stored as it is, in an entry.
pub(crate) const WHOLE: u16 = 4096;
/// Bytes that the seal of a block adds to it: nonce and tag.
pub(crate) const SEAL_LEN: u32 = 12 + 16;
/// Blocks of a run: what one entry of the index is for, at most.
pub(crate) const RUN_BLOCKS: usize = 32;
/// Bytes of a run.
pub(crate) const RUN: u64 = BLOCK * RUN_BLOCKS as u64;

const CRC32C: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// CRC-32C of `parts`, one behind the other.
pub(crate) fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut digest = CRC32C.digest();
    for part in parts {
        digest.update(part);
    }
    digest.finalize()
}
