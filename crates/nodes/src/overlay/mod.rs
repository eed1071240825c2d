//! `overlay`: copy-on-write. Changes go into a store; the base is never written.
//!
//! ```text
//! disk     │ a │ b │ c │ d │ e │      chunks
//! base       a       c   d            never written
//! store          b           e        what was written once stays there; device-mapper's format
//! ```
//!
//! # Invariants
//!
//! * The base is read only. What is not in the store is the base's, also while it is written for the
//!   first time (`state.rs`).
//! * A chunk goes into the store whole: what a request does not fill comes from the base. Whole
//!   chunks read nothing. Two first writes of one chunk wait for each other; all others do not.
//! * The store on the disk is valid at every moment, and lists a chunk only once its data is durable
//!   (`tables.rs`).
//! * A full store fails the write that finds it full, with `NoSpace`, and nothing else.
//! * A trim gives back the space of chunks in the store; it never brings the base's bytes back to
//!   light on purpose, nor frees a chunk's place: the format has no word for that.
//!
//! # What it does not do
//!
//! The store does not know its base: a store over another base than the one it was made for gives
//! nonsense, and only sizes that do not fit are found out. It is used by one process at a time.

mod alloc;
mod change;
mod error;
pub(crate) mod format;
pub(crate) mod map;
mod merge;
pub(crate) mod open;
pub(crate) mod plan;
mod preserve;
mod read;
mod state;
mod status;
pub(crate) mod store;
mod tables;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use block::{
    BlockDevice, Extent, FileRegion, Geometry, Identity, IoBufs, IoFuture, Node, Operation, Range,
    Support, TryIo, WriteFlags,
};
use tokio::sync::Notify;

use self::alloc::Allocator;
pub use self::error::OverlayError;
pub use self::format::FormatError;
use self::format::StoreLayout;
use self::map::Map;
pub use self::merge::Committing;
use self::open::StoreRequest;
use self::state::{ChunkPiece, LoadedStore, OverlayState};
pub use self::status::{StoreStatus, Validity};
use self::store::Store;
use self::tables::{Failure, Tables};
use crate::guard::{about, admit, admit_change, assert_checked, assert_len, len_of};

/// Chunk of a store that is made, bytes.
const CHUNK_DEFAULT: u32 = 4096;
/// Smallest chunk of a store that is made, bytes.
const CHUNK_MIN: u32 = 4096;
/// Largest block size of the contract, bytes.
const BLOCK_SIZE_MAX: u64 = 65_536;
/// Bytes of the disk that are looked up together.
const SECTION: u64 = 1 << 30;

/// How an overlay is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverlayOptions {
    /// Chunk of a store that is made, bytes: a power of two from 4 KiB to 512 KiB. A store that is
    /// there keeps its own.
    pub chunk: u32,
    /// The store takes at most so many bytes, its tables among them.
    pub size_max: Option<u64>,
    /// Refuse changes. The store is opened for reading.
    pub read_only: bool,
    /// Make the store if there is none.
    pub create: bool,
}

impl Default for OverlayOptions {
    fn default() -> Self {
        Self {
            chunk: CHUNK_DEFAULT,
            size_max: None,
            read_only: false,
            create: true,
        }
    }
}

/// What of a store is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Chunk, bytes.
    pub chunk: u32,
    /// Chunks that are in the store.
    pub changed: u64,
    /// Bytes of the store that are taken, its tables and gaps among them.
    pub used: u64,
    /// Bytes that it may have.
    pub size: u64,
}

/// A disk that keeps its changes in a store of their own.
pub struct Overlay {
    base: Node,
    /// The base is written while the overlay is open; its writers call [`Overlay::copy_from_base`] first.
    is_base_written: bool,
    store: Node,
    name: String,
    layout: StoreLayout,
    geometry: Geometry,
    state: Mutex<OverlayState>,
    /// A claim ended.
    ended: Notify,
    tables: tokio::sync::Mutex<Tables>,
    failure: OnceLock<Failure>,
}

impl Overlay {
    /// Opens the store at `top` over `base`, and locks it; creates it where the options request it.
    ///
    /// A file is made as large as it can ever become, and sparse: it takes the space of what was
    /// written.
    ///
    /// # Errors
    /// [`OverlayError`]; nothing is changed then.
    pub async fn open(
        base: Node,
        top: &Path,
        options: OverlayOptions,
    ) -> Result<Self, OverlayError> {
        let store = open::at_path(top, wanted(&base, options)).await?;
        Self::assemble(base, store, options).await
    }

    /// The same over a store that is a disk already.
    ///
    /// # Errors
    /// [`OverlayError`]; nothing is changed then.
    pub async fn over(
        base: Node,
        store: Node,
        options: OverlayOptions,
    ) -> Result<Self, OverlayError> {
        let store = open::on_disk(store, wanted(&base, options)).await?;
        Self::assemble(base, store, options).await
    }

    /// The same over a store that was found and understood, for a base that is written meanwhile: its writers
    /// call [`Self::copy_from_base`] and [`Self::make_listed`] before.
    ///
    /// # Errors
    /// [`OverlayError`] where the last table cannot be written without what a torn write left.
    pub(crate) async fn of_origin(
        base: Node,
        store: Store,
        options: OverlayOptions,
    ) -> Result<Self, OverlayError> {
        let mut overlay = Self::assemble(base, store, options).await?;
        overlay.is_base_written = !options.read_only;
        Ok(overlay)
    }

    async fn assemble(
        base: Node,
        store: Store,
        options: OverlayOptions,
    ) -> Result<Self, OverlayError> {
        let geometry = compose(base.geometry(), &store, options);
        let layout = store.layout;
        let most = options.size_max.map(|bytes| bytes / layout.chunk());
        let end = store.chunks().min(most.unwrap_or(u64::MAX));
        let found = LoadedStore {
            layout,
            size: geometry.size,
            map: Map::of_sorted(&store.exceptions),
            alloc: Allocator::new(layout, store.gaps, store.next, end),
        };
        let leftover = store.leftover && !options.read_only;
        let overlay = Self {
            base,
            is_base_written: false,
            store: store.node,
            name: store.name,
            layout,
            geometry,
            state: Mutex::new(OverlayState::new(found)),
            ended: Notify::new(),
            tables: tokio::sync::Mutex::new(Tables::new(store.tail)),
            failure: OnceLock::new(),
        };
        if leftover {
            let tidied = overlay.tidy().await;
            tidied.map_err(|source| OverlayError::Store {
                store: overlay.name.clone(),
                source,
            })?;
        }
        Ok(overlay)
    }

    /// What of the store is used now.
    pub fn usage(&self) -> Usage {
        let state = self.state();
        let chunk = self.layout.chunk();
        Usage {
            chunk: u32::try_from(chunk).unwrap_or(u32::MAX),
            changed: state.map().count(),
            used: state.alloc().next() * chunk,
            size: state.alloc().end() * chunk,
        }
    }

    fn state(&self) -> MutexGuard<'_, OverlayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what is read of `piece` counts only if it is still in the base afterwards.
    const fn must_verify(&self, piece: &ChunkPiece) -> bool {
        self.is_base_written && piece.store.is_none()
    }

    /// The node that holds a piece, and where.
    fn below(&self, piece: &ChunkPiece) -> (&Node, Range) {
        match piece.store {
            Some(at) => (&self.store, Range::new(at, piece.at.len)),
            None => (&self.base, piece.at),
        }
    }
}

/// What a store must be to be written over `base`.
fn wanted(base: &Node, options: OverlayOptions) -> StoreRequest<'_> {
    StoreRequest {
        options,
        base: base.geometry(),
        grows: true,
    }
}

/// The disk that both are together.
fn compose(base: &Geometry, store: &Store, options: OverlayOptions) -> Geometry {
    let below = store.node.geometry();
    let chunk = store.layout.chunk();
    let changes = |support| {
        if options.read_only {
            Support::None
        } else {
            support
        }
    };
    let preferred = u32::try_from(chunk.min(BLOCK_SIZE_MAX)).unwrap_or(CHUNK_DEFAULT);
    Geometry {
        size: base.size,
        block_size: base.block_size.max(below.block_size),
        preferred_block_size: base.preferred_block_size.max(preferred),
        read_only: options.read_only,
        rotational: base.rotational || below.rotational,
        flush: Support::Native,
        fua: Support::Native,
        trim: changes(below.trim),
        write_zeroes: changes(below.write_zeroes.max(Support::Emulated)),
    }
}

impl fmt::Debug for Overlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlay")
            .field("base", &self.base)
            .field("store", &self.name)
            .finish_non_exhaustive()
    }
}

impl BlockDevice for Overlay {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        assert_checked(&self.geometry, range);
        let single = self.state().single(range);
        if let Some(piece) = single.filter(|piece| !self.must_verify(piece)) {
            let (node, at) = self.below(&piece);
            return node.read(at);
        }
        Box::pin(async move {
            let data = self.read_pieces(range).await;
            about(Some(range), Operation::Read, data)
        })
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Write, range)?;
            assert_len(range, len_of(&data));
            if range.is_empty() {
                return Ok(());
            }
            let written = self.change_data(range, data, flags).await;
            about(Some(range), Operation::Write, written)
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            if self.geometry.read_only {
                return Ok(());
            }
            about(None, Operation::Flush, self.make_durable().await)
        })
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit_change(&self.geometry, Operation::WriteZeroes, range, flags)?;
            let zeroed = self.change_to_zeroes(range, flags).await;
            about(Some(range), Operation::WriteZeroes, zeroed)
        })
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit_change(&self.geometry, Operation::Trim, range, WriteFlags::empty())?;
            about(Some(range), Operation::Trim, self.trim_store(range).await)
        })
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Extents, range)?;
            let extents = self.all_extents(range).await;
            about(Some(range), Operation::Extents, extents)
        })
    }

    fn identity(&self) -> Option<Identity> {
        Identity::composed("overlay", "", [self.base.identity(), self.store.identity()])
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(self.settle_store())
    }

    fn connection_epoch(&self) -> u64 {
        let store = self.store.connection_epoch();
        self.base.connection_epoch().wrapping_add(store)
    }

    /// The range in the store. The caller may write there, which is right for the store alone.
    fn remap(&self, range: Range) -> Option<(&Node, Range)> {
        let piece = self.state().single(range)?;
        let may_follow =
            piece.store.is_some() || (self.geometry.read_only && self.base.geometry().read_only);
        may_follow.then(|| self.below(&piece))
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        assert_len(range, into.len());
        self.try_read_pieces(range, into)
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        assert_len(range, data.len());
        if self.geometry.read_only || range.is_empty() {
            return TryIo::WouldBlock;
        }
        self.try_change(range, data)
    }

    fn file_region(&self, range: Range) -> Option<FileRegion> {
        assert_checked(&self.geometry, range);
        let piece = self.state().single(range)?;
        if self.must_verify(&piece) {
            return None;
        }
        let (node, at) = self.below(&piece);
        let (leaf, at) = block::resolve(&**node, at);
        leaf.file_region(at)
    }
}
