//! [`OriginDisk`]: a disk that copies its old content to its snapshots before it is changed.
//!
//! # Invariants
//!
//! * A change of a chunk reaches the disk below only when the chunk's old content is durable in every snapshot,
//!   or the snapshot is invalid and marked so (`drain.rs`).
//! * A snapshot that fails never fails a request of the origin.
//! * The list of snapshots changes only while no change of the origin is in flight, and nothing is buffered.
//! * Reads of what is not buffered pass. `remap` leads to the disk below only where that is read-only: its caller may
//!   write there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use block::{
    BlockDevice, Errno, Extent, ExtentKind, FileRegion, Geometry, Identity, IoBufs, IoError,
    IoFuture, Node, Operation, Range, TryIo, WriteFlags, merge_extents,
};
use bytes::Bytes;
use tokio::sync::Notify;

use super::error::SnapshotError;
use super::node::Snapshot;
use super::origin_state::OriginState;
use crate::blocks::slice;
use crate::guard::{admit, admit_change, assert_checked, assert_len, flush, len_of};
use crate::join::join_all;
use crate::request_gate::{GatePass, RequestGate};

/// A disk with snapshots.
#[derive(Debug)]
pub(super) struct OriginDisk {
    child: Node,
    geometry: Geometry,
    /// Changes of the origin.
    gate: RequestGate,
    state: Mutex<OriginState>,
    /// The buffer is not empty.
    is_buffering: AtomicBool,
    /// A change of chunks that were not copied has ended.
    pub(super) turn_ended: Notify,
    /// Held by a drain; whether one was dropped.
    pub(super) drain_turn: tokio::sync::Mutex<bool>,
    /// What a drain failed with.
    pub(super) failure: OnceLock<(Errno, String)>,
}

impl OriginDisk {
    pub(super) fn new(child: Node, snapshots: Vec<Arc<Snapshot>>, read_only: bool) -> Self {
        let geometry = Geometry {
            read_only: read_only || child.geometry().read_only,
            ..child.geometry().clone()
        };
        Self {
            state: Mutex::new(OriginState::new(geometry.size, snapshots)),
            child,
            geometry,
            gate: RequestGate::default(),
            is_buffering: AtomicBool::new(false),
            turn_ended: Notify::new(),
            drain_turn: tokio::sync::Mutex::new(false),
            failure: OnceLock::new(),
        }
    }

    /// The disk below, which the snapshots read.
    pub(super) const fn child(&self) -> &Node {
        &self.child
    }

    pub(super) fn snapshots(&self) -> Vec<Arc<Snapshot>> {
        self.state().snapshots.clone()
    }

    /// Adds a snapshot at a moment when no change is in flight, and everything is flushed.
    pub(super) async fn add(&self, snapshot: Arc<Snapshot>) -> Result<(), SnapshotError> {
        let closed = self.gate.close().await;
        self.make_all_durable().await?;
        let mut state = self.state();
        if state.snapshots.iter().any(|s| s.name() == snapshot.name()) {
            let name = snapshot.name().to_owned();
            return Err(SnapshotError::Exists { name });
        }
        state.snapshots.push(snapshot);
        state.restart();
        drop(state);
        drop(closed);
        Ok(())
    }

    /// Removes a snapshot at a moment when no change is in flight.
    pub(super) async fn remove(&self, snapshot: &Arc<Snapshot>) -> Result<(), IoError> {
        let closed = self.gate.close().await;
        self.drain(|_| true).await;
        let removed = snapshot.remove().await;
        self.forget(snapshot);
        drop(closed);
        removed
    }

    /// Replaces a snapshot by what `reopen` makes of its store, at a moment when no change is in flight and all copies are
    /// listed in it. One that cannot be reopened, or is invalid, stays.
    pub(super) async fn reopen(
        &self,
        snapshot: &Arc<Snapshot>,
        reopen: impl AsyncFnOnce() -> Result<Snapshot, SnapshotError>,
    ) -> Result<(), SnapshotError> {
        let closed = self.gate.close().await;
        self.drain(|_| true).await;
        snapshot.write_all().await?;
        let reopened = Arc::new(reopen().await?);
        let mut state = self.state();
        for one in &mut state.snapshots {
            if Arc::ptr_eq(one, snapshot) {
                *one = reopened.clone();
            }
        }
        state.restart();
        drop(state);
        drop(closed);
        Ok(())
    }

    /// Takes a snapshot out once `reopen` has made something else of its store, at a moment when no change is in flight, and
    /// all copies are listed in it and durable. It stays where that fails.
    pub(super) async fn take_out<T>(
        &self,
        snapshot: &Arc<Snapshot>,
        reopen: impl AsyncFnOnce() -> Result<T, SnapshotError>,
    ) -> Result<T, SnapshotError> {
        let closed = self.gate.close().await;
        self.make_all_durable().await?;
        snapshot.write_all().await?;
        let reopened = reopen().await?;
        let removed = snapshot.remove().await;
        removed.map_err(|source| SnapshotError::StoreFailed {
            name: snapshot.name().to_owned(),
            source,
        })?;
        self.forget(snapshot);
        drop(closed);
        Ok(reopened)
    }

    /// Nothing is buffered or in flight afterwards, and all is flushed. The gate is closed.
    async fn make_all_durable(&self) -> Result<(), SnapshotError> {
        self.drain(|_| true).await;
        self.child.settle().await.map_err(SnapshotError::Origin)?;
        self.flush_below().await.map_err(SnapshotError::Origin)
    }

    /// Copies nothing to the snapshot any more. The gate is closed.
    fn forget(&self, snapshot: &Arc<Snapshot>) {
        let mut state = self.state();
        state
            .snapshots
            .retain(|other| !Arc::ptr_eq(other, snapshot));
        state.restart();
    }

    pub(super) fn state(&self) -> MutexGuard<'_, OriginState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether reads have to look at the buffer.
    pub(super) fn note_buffered(&self, state: &OriginState) {
        let is_buffering = !state.buffer.is_empty();
        self.is_buffering.store(is_buffering, Ordering::Release);
    }

    async fn enter(&self, operation: Operation, range: Range) -> Result<GatePass<'_>, IoError> {
        let pass = self.gate.enter().await;
        pass.map_err(|_sealed| IoError::new(Errno::ShuttingDown, operation, Some(range)))
    }

    /// Copies what `range` holds to the snapshots. It is durable after a commit.
    pub(super) async fn copy(&self, range: Range) {
        match &self.snapshots()[..] {
            [only] => only.copy(range).await,
            all => {
                join_all(all.iter().map(|one| one.copy(range))).await;
            }
        }
    }

    /// The same, durably.
    pub(super) async fn preserve(&self, range: Range) {
        match &self.snapshots()[..] {
            [only] => only.preserve(range).await,
            all => {
                join_all(all.iter().map(|one| one.preserve(range))).await;
            }
        }
    }

    async fn flush_below(&self) -> Result<(), IoError> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        flush(&self.child).await
    }

    /// The parts of `range` that are buffered, in order.
    fn buffered(&self, range: Range) -> Vec<(Range, Bytes)> {
        if !self.is_buffering.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.state().buffer.pieces(range)
    }

    fn is_buffered(&self, range: Range) -> bool {
        self.is_buffering.load(Ordering::Acquire) && self.state().buffer.overlaps(range)
    }
}

impl Drop for OriginDisk {
    fn drop(&mut self) {
        if self.is_buffering.load(Ordering::Acquire) {
            tracing::warn!(
                "an origin of snapshots is closed with writes that were not flushed: they are lost"
            );
        }
    }
}

/// `data` of `range`, with what is buffered of it.
fn with_buffered(range: Range, data: &IoBufs, buffered: Vec<(Range, Bytes)>) -> IoBufs {
    let mut all = IoBufs::new();
    let mut at = range.offset;
    let gap = |from: u64, to: u64| {
        let start = Range::new(0, from - range.offset).len_usize();
        slice(data, start, Range::new(0, to - from).len_usize())
    };
    for (part, bytes) in buffered {
        if at < part.offset {
            all.extend(gap(at, part.offset));
        }
        all.push(bytes);
        at = part.end();
    }
    if at < range.end() {
        all.extend(gap(at, range.end()));
    }
    all
}

impl BlockDevice for OriginDisk {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        let buffered = self.buffered(range);
        if buffered.is_empty() {
            return self.child.read(range);
        }
        Box::pin(async move {
            let data = self.child.read(range).await?;
            Ok(with_buffered(range, &data, buffered))
        })
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Write, range)?;
            assert_len(range, len_of(&data));
            let _pass = self.enter(Operation::Write, range).await?;
            if self.state().is_copied(range) {
                return self.child.write(range, data, flags).await;
            }
            self.write_first(range, data, flags).await
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.drain(|_| true).await;
            self.flush_below().await
        })
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit_change(&self.geometry, Operation::WriteZeroes, range, flags)?;
            let _pass = self.enter(Operation::WriteZeroes, range).await?;
            let zero = self.child.write_zeroes(range, flags);
            if self.state().is_copied(range) {
                return zero.await;
            }
            self.change_first(range, zero).await
        })
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let flags = WriteFlags::empty();
            admit_change(&self.geometry, Operation::Trim, range, flags)?;
            let _pass = self.enter(Operation::Trim, range).await?;
            let trim = self.child.trim(range);
            if self.state().is_copied(range) {
                return trim.await;
            }
            self.change_first(range, trim).await
        })
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        let buffered = self.buffered(range);
        if buffered.is_empty() {
            return self.child.extents(range);
        }
        Box::pin(async move {
            let mut extents = Vec::new();
            let mut at = range.offset;
            for (part, _) in buffered {
                if at < part.offset {
                    let gap = Range::new(at, part.offset - at);
                    extents.extend(self.child.extents(gap).await?);
                }
                let kind = ExtentKind::Data;
                extents.push(Extent { range: part, kind });
                at = part.end();
            }
            if at < range.end() {
                let rest = Range::new(at, range.end() - at);
                extents.extend(self.child.extents(rest).await?);
            }
            Ok(merge_extents(extents))
        })
    }

    fn identity(&self) -> Option<Identity> {
        self.child.identity()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            for snapshot in self.snapshots() {
                snapshot.settle_store().await;
            }
            self.child.settle().await
        })
    }

    fn connection_epoch(&self) -> u64 {
        let stores = self.snapshots();
        // A snapshot adds the number of its origin, too: what counts is that the sum changes.
        stores
            .iter()
            .fold(self.child.connection_epoch(), |sum, one| {
                sum.wrapping_add(one.connection_epoch())
            })
    }

    fn remap(&self, range: Range) -> Option<(&Node, Range)> {
        let may_follow = self.geometry.read_only && self.child.geometry().read_only;
        may_follow.then_some((&self.child, range))
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        if self.is_buffered(range) {
            return TryIo::WouldBlock;
        }
        self.child.try_read(range, into)
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        assert_len(range, data.len());
        if self.geometry.read_only {
            return TryIo::WouldBlock;
        }
        let Some(_pass) = self.gate.try_enter() else {
            return TryIo::WouldBlock;
        };
        if !self.state().is_copied(range) {
            return TryIo::WouldBlock;
        }
        self.child.try_write(range, data)
    }

    fn file_region(&self, range: Range) -> Option<FileRegion> {
        if self.is_buffered(range) {
            return None;
        }
        let (leaf, at) = block::resolve(&*self.child, range);
        leaf.file_region(at)
    }
}
