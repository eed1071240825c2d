//! [`MergeDisk`]: an origin into which a snapshot is being merged.
//!
//! ```text
//! disk     │ a │ b │ c │ d │
//! store        b       d        what was not merged yet is read and written here
//! origin     a   .   c   .      everything else; a step brings d here, the next one b
//! ```
//!
//! # Invariants
//!
//! * The disk reads as the snapshot at every moment, also after a power cut in the middle of a merge.
//! * The store gets no new chunks: a chunk that is not in it is written to the origin, which preserves it for its
//!   other snapshots first.
//!
//! # What it does not do
//!
//! It does not remove the snapshot when all is merged: that is up to the metadata that name it.

mod plan;
mod state;
mod step;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{
    BlockDevice, Extent, ExtentKind, FileRegion, Geometry, Identity, IoBufs, IoError, IoFuture,
    Node, Operation, Range, Support, TryIo, WriteFlags, merge_extents,
};
use futures_util::future::try_join;
use futures_util::stream::{self, StreamExt};

use self::plan::MergeStep;
use self::state::{MergeState, MergeWriteId};
use self::step::WakeWaiters;
use super::disk::OriginDisk;
use super::error::SnapshotError;
use super::status::{SnapshotState, SnapshotStatus};
use crate::blocks::slice;
use crate::guard::{about, admit, admit_change, assert_checked, assert_len, flush, len_of};
use crate::overlay::format::StoreLayout;
use crate::overlay::map::ChunkPiece;
use crate::overlay::plan::sections;
use crate::overlay::store::Store;
use crate::read::read_in_order;
use crate::zeroes::zeroes;

/// Requests that one request makes at a time.
const IN_FLIGHT: usize = 64;
/// Bytes of which the pieces are found together.
const SECTION: u64 = 64 << 20;

/// The exceptions as the tables list them.
#[derive(Debug)]
struct MergeList {
    committed: u64,
    /// What was copied and is still listed.
    clear: Option<MergeStep>,
    /// A write of the table may still land.
    is_clear_in_doubt: bool,
    /// A copy may still land in the origin.
    must_settle: bool,
}

/// An origin that reads as the snapshot that is merged into it.
#[derive(Debug)]
pub(super) struct MergeDisk {
    name: String,
    origin: Arc<OriginDisk>,
    store: Node,
    layout: StoreLayout,
    /// Chunks of the store.
    total: u64,
    geometry: Geometry,
    state: Mutex<MergeState>,
    /// A change or a step has ended.
    changed: tokio::sync::Notify,
    list: tokio::sync::Mutex<MergeList>,
}

/// A change in flight.
struct MergeWrite<'a> {
    disk: &'a MergeDisk,
    id: MergeWriteId,
}

impl Drop for MergeWrite<'_> {
    fn drop(&mut self) {
        self.disk.state().end_write(self.id);
        self.disk.changed.notify_waiters();
    }
}

/// A change of a piece.
#[derive(Debug, Clone, Copy)]
enum PieceChange<'a> {
    Data(&'a IoBufs),
    Zeroes,
}

impl MergeDisk {
    /// Merges what is in `store` into `origin`, once steps are made.
    pub(super) async fn open(
        name: String,
        origin: Arc<OriginDisk>,
        store: Store,
    ) -> Result<Self, SnapshotError> {
        let below = origin.geometry();
        let geometry = Geometry {
            block_size: below.block_size.max(store.node.geometry().block_size),
            flush: Support::Native,
            fua: Support::Native,
            write_zeroes: Support::Emulated.min(below.write_zeroes),
            ..below.clone()
        };
        let list = MergeList {
            committed: store.tail.committed(),
            clear: None,
            is_clear_in_doubt: false,
            must_settle: false,
        };
        let disk = Self {
            name,
            layout: store.layout,
            total: store.chunks(),
            geometry,
            state: Mutex::new(MergeState::new(store.layout.chunk(), &store.exceptions)),
            changed: tokio::sync::Notify::new(),
            list: tokio::sync::Mutex::new(list),
            origin,
            store: store.node,
        };
        if !disk.geometry.read_only {
            let table = store
                .leftover
                .then(|| (store.tail.index(), store.tail.table()));
            let tidied = disk.tidy(table).await;
            tidied.map_err(|source| disk.store_failed(source))?;
        }
        Ok(disk)
    }

    /// Makes durable what is read, and clears what a torn write left behind the last exception.
    async fn tidy(&self, table: Option<(u64, &[u8])>) -> Result<(), IoError> {
        if let Some((index, bytes)) = table {
            let data = std::iter::once(bytes.to_vec().into()).collect();
            let range = self.table_range(index);
            self.store.write(range, data, WriteFlags::empty()).await?;
        }
        flush(&self.store).await
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Chunks that were not merged yet.
    pub(super) fn left(&self) -> u64 {
        self.state().left()
    }

    pub(super) fn status(&self) -> SnapshotStatus {
        let left = self.left();
        SnapshotStatus {
            name: self.name.clone(),
            state: SnapshotState::Merging,
            chunk: self.layout.chunk(),
            copied: left,
            used: self.layout.chunks_for(left),
            total: self.total,
        }
    }

    fn state(&self) -> MutexGuard<'_, MergeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store_failed(&self, source: IoError) -> SnapshotError {
        SnapshotError::StoreFailed {
            name: self.name.clone(),
            source,
        }
    }

    fn table_range(&self, index: u64) -> Range {
        let chunk = self.layout.chunk();
        Range::new(self.layout.table(index) * chunk, chunk)
    }

    /// The node that holds a piece, and where.
    fn below(&self, piece: &ChunkPiece) -> (&dyn BlockDevice, Range) {
        match piece.store {
            Some(at) => (&*self.store, Range::new(at, piece.at.len)),
            None => (&*self.origin, piece.at),
        }
    }

    fn try_begin(&self, range: Range) -> Option<MergeWrite<'_>> {
        let id = self.state().begin_write(range)?;
        Some(MergeWrite { disk: self, id })
    }

    /// Waits until no step copies a chunk of `range`.
    async fn begin(&self, range: Range) -> Result<MergeWrite<'_>, IoError> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(write) = self.try_begin(range) {
                return Ok(write);
            }
            // A step that was dropped while it cleared its table is finished here.
            if let Ok(mut list) = self.list.try_lock() {
                let _wake = WakeWaiters(self);
                self.clear_step(&mut list).await?;
                continue;
            }
            changed.await;
        }
    }

    async fn change(
        &self,
        range: Range,
        change: PieceChange<'_>,
        flags: WriteFlags,
    ) -> Result<(), IoError> {
        let _write = self.begin(range).await?;
        let pieces = self.state().pieces(range);
        let plain = flags - WriteFlags::FUA;
        stream::iter(pieces)
            .map(|piece| self.change_piece(range, piece, change, plain))
            .buffer_unordered(IN_FLIGHT)
            .fold(Ok(()), async |all, one| all.and(one))
            .await?;
        if flags.contains(WriteFlags::FUA) {
            return self.flush_both().await;
        }
        Ok(())
    }

    async fn change_piece(
        &self,
        range: Range,
        piece: ChunkPiece,
        change: PieceChange<'_>,
        flags: WriteFlags,
    ) -> Result<(), IoError> {
        let (node, at) = self.below(&piece);
        let can_zero = node.geometry().write_zeroes.any();
        let data = match change {
            PieceChange::Zeroes if can_zero => return node.write_zeroes(at, flags).await,
            PieceChange::Zeroes => zeroes(at.len_usize()),
            PieceChange::Data(data) => {
                let start = Range::new(0, piece.at.offset - range.offset).len_usize();
                slice(data, start, at.len_usize())
            }
        };
        node.write(at, data, WriteFlags::empty()).await
    }

    async fn trim_origin(&self, range: Range) -> Result<(), IoError> {
        let _write = self.begin(range).await?;
        let pieces = self.state().pieces(range);
        // Those in the store stay as they are, until they are merged.
        let in_origin = pieces.into_iter().filter(|piece| piece.store.is_none());
        stream::iter(in_origin)
            .map(|piece| self.origin.trim(piece.at))
            .buffer_unordered(IN_FLIGHT)
            .fold(Ok(()), async |all, one| all.and(one))
            .await
    }

    async fn read_pieces(&self, range: Range) -> Result<IoBufs, IoError> {
        let pieces = self.state().pieces(range);
        let reads = pieces.into_iter().map(|piece| {
            let (node, at) = self.below(&piece);
            node.read(at)
        });
        read_in_order(reads, IN_FLIGHT).await
    }

    async fn all_extents(&self, range: Range) -> Result<Vec<Extent>, IoError> {
        let mut extents = Vec::new();
        for section in sections(range, SECTION) {
            let pieces = self.state().pieces(section);
            for piece in pieces {
                let kind = ExtentKind::Data;
                match piece.store {
                    Some(_) => extents.push(Extent {
                        range: piece.at,
                        kind,
                    }),
                    None => extents.extend(self.origin.extents(piece.at).await?),
                }
            }
        }
        Ok(merge_extents(extents))
    }

    async fn flush_both(&self) -> Result<(), IoError> {
        try_join(self.origin.flush(), flush(&self.store)).await?;
        Ok(())
    }

    async fn settle_both(&self) -> Result<(), IoError> {
        try_join(self.origin.settle(), self.store.settle()).await?;
        Ok(())
    }
}

impl BlockDevice for MergeDisk {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        assert_checked(&self.geometry, range);
        Box::pin(async move {
            let data = self.read_pieces(range).await;
            about(Some(range), Operation::Read, data)
        })
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Write, range)?;
            assert_len(range, len_of(&data));
            let written = self.change(range, PieceChange::Data(&data), flags).await;
            about(Some(range), Operation::Write, written)
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move { about(None, Operation::Flush, self.flush_both().await) })
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit_change(&self.geometry, Operation::WriteZeroes, range, flags)?;
            let zeroed = self.change(range, PieceChange::Zeroes, flags).await;
            about(Some(range), Operation::WriteZeroes, zeroed)
        })
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit_change(&self.geometry, Operation::Trim, range, WriteFlags::empty())?;
            about(Some(range), Operation::Trim, self.trim_origin(range).await)
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
        self.origin.identity()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(self.settle_both())
    }

    fn connection_epoch(&self) -> u64 {
        let store = self.store.connection_epoch();
        self.origin.connection_epoch().wrapping_add(store)
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        assert_len(range, into.len());
        let single = self.state().single(range);
        let Some(piece) = single else {
            return TryIo::WouldBlock;
        };
        let (node, at) = self.below(&piece);
        node.try_read(at, into)
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        assert_len(range, data.len());
        if self.geometry.read_only {
            return TryIo::WouldBlock;
        }
        let Some(_write) = self.try_begin(range) else {
            return TryIo::WouldBlock;
        };
        let single = self.state().single(range);
        let Some(piece) = single else {
            return TryIo::WouldBlock;
        };
        let (node, at) = self.below(&piece);
        node.try_write(at, data)
    }

    fn file_region(&self, range: Range) -> Option<FileRegion> {
        let single = self.state().single(range);
        let piece = single.filter(|piece| piece.store.is_none())?;
        self.origin.file_region(piece.at)
    }
}
