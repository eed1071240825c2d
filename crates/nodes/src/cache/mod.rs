//! `cache`: a local file in front of a slow disk. Reads that were made once are answered from it, also after a restart.
//!
//! ```text
//! read    hit: the cache file            miss: 128 KiB of the disk, kept in a slot
//! write   mark its region, durably ──► the disk ──► acknowledged, and kept in a slot
//! ```
//!
//! # Invariants
//!
//! * Write-through: a change is acknowledged when the disk has acknowledged it; flush and FUA are the disk's. A
//!   cache file that is lost loses nothing.
//! * Before a change goes to the disk its regions are marked durably in the cache file. A mark is cleared once the
//!   file was synced with the blocks of the region as they are now, valid or not (`write_back.rs`). When the file is
//!   opened, what marked regions held is dropped.
//! * Nothing of the file is used that its checksum does not match: each block is verified when it is read first.
//! * A block is valid only with the last acknowledged data (`state.rs`).
//! * No request of the disk fails because of the cache file: after an error of it all requests go to the disk, and
//!   the header is changed so that no later open uses what the file holds (`failure.rs`).
//! * What a machine reads first can be recorded, and read ahead when it starts again (`prefetch.rs`).
//! * No reader waits for the cache file to be written: beyond [`STORE_BYTES_MAX`] in flight nothing is stored.
//!
//! # What it does not do
//!
//! The disk must be changed through this cache only, or not at all: the block contract has no word for a change by
//! others. A sample of blocks is compared when the file is opened, and a difference drops everything; that finds
//! another disk, not one changed block. The size of the disk is what it was when it was opened.

mod change;
mod error;
mod failure;
mod fill;
mod fills;
mod format;
mod load;
mod marks;
mod open;
mod prefetch;
mod profile;
mod read;
mod slots;
mod state;
mod stats;
mod store;
#[cfg(test)]
mod tests;
mod write_back;

use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use block::{
    BlockDevice, Extent, FileRegion, Geometry, Identity, IoBufs, IoFuture, Node, Operation, Range,
    TryIo, WriteFlags,
};
use engine::InFlight;

pub use self::error::CacheError;
use self::failure::Retirement;
use self::fill::FillResult;
pub use self::format::CacheFormatError;
use self::format::{CacheId, CacheLayout};
pub use self::open::{CacheFacts, inspect_cache};
pub use self::profile::{BootProfile, BootProfileError};
use self::state::CacheState;
use self::stats::CacheCounters;
pub use self::stats::CacheStatus;
use self::write_back::CheckpointTimer;
use crate::guard::{admit, admit_change, assert_checked, assert_len, len_of};

/// Bytes on their way to the cache file, at most; what comes beyond is not stored.
const STORE_BYTES_MAX: u64 = 16 << 20;

/// How a cache is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheOptions {
    /// The file takes at most so many bytes. A cache that has another size is made again. `None`: what a file has
    /// stays; a new one can hold the whole disk, but takes at most half of the space that is free.
    pub size_max: Option<u64>,
}

/// A disk with a cache in front of it.
#[derive(Debug)]
pub struct Cache {
    shared: Arc<Shared>,
}

/// What requests and tasks in the background share.
struct Shared {
    child: Node,
    store: Node,
    /// The cache file, for messages.
    name: String,
    id: CacheId,
    /// Of the header, and the identity in it.
    sequence: u64,
    identity: String,
    layout: CacheLayout,
    geometry: Geometry,
    state: Mutex<CacheState<FillResult>>,
    /// One writer of the table, and one of the marks, at a time.
    table: tokio::sync::Mutex<()>,
    marks: tokio::sync::Mutex<()>,
    /// Tasks in the background.
    tasks: InFlight,
    timer: CheckpointTimer,
    is_closing: AtomicBool,
    failure: OnceLock<String>,
    retirement: Retirement,
    counters: CacheCounters,
}

impl Cache {
    /// Opens the cache file at `path` for `child`, and locks it; a new or empty file becomes a cache. Call on the
    /// engine.
    ///
    /// # Errors
    /// [`CacheError`]; a file that is refused is not changed.
    pub async fn open(child: Node, path: &Path, options: CacheOptions) -> Result<Self, CacheError> {
        open::at_path(child, path, options).await
    }

    /// The same on a disk that takes the place of the file.
    ///
    /// # Errors
    /// [`CacheError`]; a disk that is refused is not changed.
    pub async fn over(child: Node, store: Node, options: CacheOptions) -> Result<Self, CacheError> {
        open::on_disk(child, store, options).await
    }

    /// Syncs the cache file and clears its marks, so that the next open uses everything. After the last request.
    pub async fn close(&self) {
        self.shared.close().await;
    }

    /// Drops what the file holds, because the disk is about to be changed by another way: from now on all requests go to
    /// the disk, and no later open uses the file. After the last request.
    ///
    /// # Errors
    /// The file takes no write, so that a later open might use it.
    pub async fn discard(&self, why: &str) -> Result<(), String> {
        self.shared.discard(why).await
    }

    /// What it holds and has done.
    #[must_use]
    pub fn status(&self) -> CacheStatus {
        self.shared.status()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, CacheState<FillResult>> {
        // Every change of it is whole, or a panic in an assertion that ends its connection.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store_range(&self, slot: u32, part: Range) -> Range {
        let within = part.offset % format::GRANULE;
        Range::new(self.layout.slot_at(slot) + within, part.len)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("child", &self.child)
            .field("file", &self.name)
            .finish_non_exhaustive()
    }
}

impl BlockDevice for Cache {
    fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        Box::pin(async move {
            admit(&self.shared.geometry, Operation::Read, range)?;
            self.shared.read(range).await
        })
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit(&self.shared.geometry, Operation::Write, range)?;
            assert_len(range, len_of(&data));
            let child = &self.shared.child;
            let kept = data.clone();
            let request = || child.write(range, data, flags);
            self.shared.change(range, Some(kept), request).await
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.shared.child.flush()
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit_change(&self.shared.geometry, Operation::WriteZeroes, range, flags)?;
            let request = || self.shared.child.write_zeroes(range, flags);
            self.shared.change(range, None, request).await
        })
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let flags = WriteFlags::empty();
            admit_change(&self.shared.geometry, Operation::Trim, range, flags)?;
            let request = || self.shared.child.trim(range);
            self.shared.change(range, None, request).await
        })
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        self.shared.child.extents(range)
    }

    fn identity(&self) -> Option<Identity> {
        self.shared.child.identity()
    }

    fn opening(&self) -> Option<u64> {
        self.shared.child.opening()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(self.shared.settle())
    }

    fn connection_epoch(&self) -> u64 {
        self.shared.child.connection_epoch()
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        assert_checked(&self.shared.geometry, range);
        assert_len(range, into.len());
        self.shared.try_read(range, into)
    }

    /// Only where no slot is ever given to another granule: a region may be read long after it was handed out.
    fn file_region(&self, range: Range) -> Option<FileRegion> {
        assert_checked(&self.shared.geometry, range);
        self.shared.file_region(range)
    }
}
