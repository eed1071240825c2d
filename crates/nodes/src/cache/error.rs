//! [`CacheError`]: why a cache cannot be opened, and what to do about it.

use std::io;
use std::path::PathBuf;

use block::IoError;

use super::format::{CacheFormatError, DISK_MAX};
use crate::OpenError;

/// Why a cache was not opened.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The file or device cannot be opened.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// The file of a new cache cannot be made.
    #[error("the cache file {path} cannot be made: {source}", path = path.display())]
    Make {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file cannot get its size.
    #[error("the cache file {file} cannot have {size} bytes: {source}")]
    Size {
        /// Which.
        file: String,
        /// How large.
        size: u64,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What is there is no cache, or one of another version.
    #[error("the cache file {file} is refused: {source}")]
    Format {
        /// Which.
        file: String,
        /// Why.
        source: CacheFormatError,
    },
    /// It belongs to a disk of another size.
    #[error(
        "the cache file {file} belongs to a disk of {cached} bytes, and this one has {size}: name \
         another file, or remove this one if its disk was resized; nothing of it was changed"
    )]
    OtherSize {
        /// Which.
        file: String,
        /// Size of the disk that it was made for, bytes.
        cached: u64,
        /// Size of the disk now, bytes.
        size: u64,
    },
    /// It belongs to another disk.
    #[error(
        "the cache file {file} belongs to the disk {cached}, and this one is {found}: name another \
         file, or remove this one; nothing of it was changed"
    )]
    OtherDisk {
        /// Which.
        file: String,
        /// Identity of the disk that it was made for.
        cached: String,
        /// Identity of the disk now.
        found: String,
    },
    /// No room for anything.
    #[error(
        "the cache file {file} may have {size} bytes: a cache of this disk needs {needed} at least"
    )]
    TooSmall {
        /// Which.
        file: String,
        /// Its size.
        size: u64,
        /// What it needs.
        needed: u64,
    },
    /// The disk is larger than any that is cached.
    #[error("the disk has {0} bytes, and a cache is made for {DISK_MAX} at most")]
    DiskTooLarge(u64),
    /// A request on the cache file failed.
    #[error(
        "the cache file {file} failed: {source}; go on without the cache, or name another file"
    )]
    Store {
        /// Which.
        file: String,
        /// How.
        source: IoError,
    },
    /// A request on the disk failed.
    #[error("the cached disk failed: {0}")]
    Disk(#[source] IoError),
}
