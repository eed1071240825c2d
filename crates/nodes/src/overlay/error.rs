//! [`OverlayError`]: why an overlay cannot be opened or committed, and what to do about it.

use std::io;
use std::path::PathBuf;

use block::IoError;

use super::CHUNK_MIN;
use super::format::{CHUNK_MAX, FormatError};
use crate::OpenError;

/// Why an overlay was not opened, or not committed.
#[derive(Debug, thiserror::Error)]
pub enum OverlayError {
    /// The store's file or device cannot be opened.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// There is no store, and none may be made.
    #[error("there is no overlay's store at {path}: check the path", path = path.display())]
    NotFound {
        /// Where it should be.
        path: PathBuf,
    },
    /// It cannot be looked at.
    #[error("{path} cannot be read: {source}", path = path.display())]
    Unreadable {
        /// What was to be read.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file of a new store cannot be made.
    #[error("the overlay's store {path} cannot be made: {source}", path = path.display())]
    Make {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file cannot be as large as its store may become.
    #[error(
        "the overlay's store {path} cannot have {size} bytes, which all of the base may need: {source}",
        path = path.display()
    )]
    Grow {
        /// Where.
        path: PathBuf,
        /// How large.
        size: u64,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A chunk that no store gets.
    #[error("a chunk is a power of two from {CHUNK_MIN} to {CHUNK_MAX} bytes, {0} is none")]
    Chunk(u32),
    /// Chunks that are not made of whole blocks, or a base that is not.
    #[error(
        "the store {store} cannot be used with blocks of {block_size} bytes: {what} is no multiple \
         of that"
    )]
    Blocks {
        /// Which.
        store: String,
        /// The larger block of base and store.
        block_size: u32,
        /// What is not made of whole blocks.
        what: String,
    },
    /// No room for a single change.
    #[error("the store {store} would have {size} bytes, and needs {needed} to hold anything")]
    TooSmall {
        /// Which.
        store: String,
        /// Its size.
        size: u64,
        /// What it needs.
        needed: u64,
    },
    /// What is there is no store, or not one to be trusted.
    #[error("the store {store} is refused: {source}")]
    Format {
        /// Which.
        store: String,
        /// Why.
        source: FormatError,
    },
    /// It is not to be written, and there is nothing to be read.
    #[error("the store {store} is empty, and may not be made because the overlay is read-only")]
    Empty {
        /// Which.
        store: String,
    },
    /// The base cannot be written.
    #[error("the base is read-only: changes cannot be committed to it")]
    ReadOnlyBase,
    /// A request on the store failed.
    #[error("the store {store} failed: {source}")]
    Store {
        /// Which.
        store: String,
        /// How.
        source: IoError,
    },
    /// A request on the base failed.
    #[error("the base failed: {0}")]
    Base(#[source] IoError),
}
