//! [`Snapshot`]: an origin as it was, and what was written to the snapshot since.
//!
//! An [`Overlay`] over the origin that may become invalid, and that may be removed while it is open.
//!
//! # Invariants
//!
//! * Once it is invalid, every request on it fails. A read that was in flight then fails too: the origin
//!   may have been changed under it.
//! * It is invalid in memory before it is on the disk, and a writer of the origin that finds it so waits until the
//!   header says so durably.
//! * After it was removed nothing of it lands on its store.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use block::{
    BlockDevice, Errno, Extent, FileRegion, Geometry, Identity, IoBufs, IoError, IoFuture, Node,
    Operation, Range, TryIo, WriteFlags,
};
use tokio::sync::OnceCell;

use super::error::SnapshotError;
use super::status::{SnapshotState, SnapshotStatus};

use crate::Overlay;
use crate::request_gate::{GatePass, RequestGate};

/// A store that is fuller than this part of it, in percent, is reported once in the log.
const FULL_WARNING_PERCENT: u64 = 80;

/// A snapshot that was valid when it was opened.
#[derive(Debug)]
pub(super) struct Snapshot {
    name: String,
    overlay: Overlay,
    /// Writers of the snapshot itself.
    gate: RequestGate,
    /// Why it is invalid.
    reason: OnceLock<String>,
    /// The header says that it is invalid, or cannot be written.
    retired: OnceCell<()>,
    was_nearly_full: AtomicBool,
}

impl Snapshot {
    pub(super) fn new(name: String, overlay: Overlay) -> Self {
        Self {
            name,
            overlay,
            gate: RequestGate::default(),
            reason: OnceLock::new(),
            retired: OnceCell::new(),
            was_nearly_full: AtomicBool::new(false),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Bytes that are copied together.
    pub(super) fn chunk(&self) -> u64 {
        self.overlay.usage().chunk.into()
    }

    /// Whether writers of the origin may pass it by.
    pub(super) fn is_retired(&self) -> bool {
        self.retired.initialized()
    }

    pub(super) fn status(&self) -> SnapshotStatus {
        let usage = self.overlay.usage();
        let chunk = u64::from(usage.chunk);
        SnapshotStatus {
            name: self.name.clone(),
            state: match self.reason.get() {
                None => SnapshotState::Valid,
                Some(reason) => SnapshotState::Invalid(reason.clone()),
            },
            chunk,
            copied: usage.changed,
            used: usage.used / chunk,
            total: usage.size / chunk,
        }
    }

    /// Before `range` of the origin is written: afterwards the snapshot has its content durably, or is
    /// invalid and marked so.
    pub(super) async fn preserve(&self, range: Range) {
        self.copy(range).await;
        self.commit().await;
    }

    /// Copies what the origin holds of `range`. A failure is found by the next [`Self::commit`].
    pub(super) async fn copy(&self, range: Range) {
        if self.is_retired() || self.reason.get().is_some() {
            return;
        }
        match self.overlay.copy_from_base(range).await {
            Ok(()) => self.warn_when_nearly_full(),
            Err(error) => self.set_reason(&error),
        }
    }

    /// Makes durable what was copied; afterwards the origin may be written, also where the snapshot is invalid.
    pub(super) async fn commit(&self) {
        if self.is_retired() {
            return;
        }
        if self.reason.get().is_none() {
            match self.overlay.make_listed().await {
                Ok(()) => return,
                Err(error) => self.set_reason(&error),
            }
        }
        self.retire().await;
    }

    fn set_reason(&self, error: &IoError) {
        let reason = match error.errno {
            Errno::NoSpace => "its store is full".to_owned(),
            _ => error.to_string(),
        };
        if self.reason.set(reason.clone()).is_ok() {
            tracing::error!(
                "snapshot {} is invalid from now on, its origin goes on: {reason}; remove the snapshot, \
                 and create the next one with a larger store",
                self.name
            );
        }
    }

    /// Marks it invalid on the disk.
    async fn retire(&self) {
        let mark = || async {
            if let Err(error) = self.overlay.mark_invalid().await {
                tracing::error!(
                    "snapshot {} cannot be marked invalid in its store, and looks valid when it is opened \
                     again: {error}; remove it",
                    self.name
                );
            }
        };
        self.retired.get_or_init(mark).await;
    }

    fn warn_when_nearly_full(&self) {
        if self.was_nearly_full.load(Ordering::Relaxed) {
            return;
        }
        let usage = self.overlay.usage();
        let is_nearly_full =
            usage.used.saturating_mul(100) >= usage.size.saturating_mul(FULL_WARNING_PERCENT);
        if is_nearly_full && !self.was_nearly_full.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "snapshot {}: {} of {} bytes of its store are used; it becomes invalid when it is full",
                self.name,
                usage.used,
                usage.size
            );
        }
    }

    /// Waits for dropped writes of its store. A live snapshot is invalid if its store fails at that.
    pub(super) async fn settle_store(&self) {
        let Err(error) = self.overlay.settle().await else {
            return;
        };
        if self.is_retired() {
            tracing::warn!("snapshot {}: {error}", self.name);
            return;
        }
        self.set_reason(&error);
        self.retire().await;
    }

    /// Makes all that it has durable in its store, so that another one may read it there. The caller keeps writers out.
    pub(super) async fn write_all(&self) -> Result<(), SnapshotError> {
        self.commit().await;
        if let Some(reason) = self.reason.get() {
            return Err(SnapshotError::Lost {
                name: self.name.clone(),
                reason: reason.clone(),
            });
        }
        let written = async {
            self.overlay.settle().await?;
            self.overlay.flush().await
        };
        written.await.map_err(|source| SnapshotError::StoreFailed {
            name: self.name.clone(),
            source,
        })
    }

    /// Refuses all further requests, and waits for changes in flight.
    pub(super) async fn remove(&self) -> Result<(), IoError> {
        self.gate.close().await.seal();
        self.overlay.settle().await
    }

    fn check(&self, operation: Operation, range: Option<Range>) -> Result<(), IoError> {
        if self.gate.is_sealed() {
            return Err(self.removed(operation, range));
        }
        let Some(reason) = self.reason.get() else {
            return Ok(());
        };
        let why = format!("snapshot {} is invalid: {reason}", self.name);
        Err(IoError::new(Errno::Io, operation, range).because(why))
    }

    fn removed(&self, operation: Operation, range: Option<Range>) -> IoError {
        let why = format!("snapshot {} was removed", self.name);
        IoError::new(Errno::Io, operation, range).because(why)
    }

    fn is_in_use(&self) -> bool {
        self.reason.get().is_none() && !self.gate.is_sealed()
    }

    async fn enter(
        &self,
        operation: Operation,
        range: Option<Range>,
    ) -> Result<GatePass<'_>, IoError> {
        let pass = self.gate.enter().await;
        let pass = pass.map_err(|_sealed| self.removed(operation, range))?;
        self.check(operation, range)?;
        Ok(pass)
    }

    /// A change by `request`, which fails too if the snapshot has become invalid meanwhile.
    async fn change(
        &self,
        operation: Operation,
        range: Option<Range>,
        request: IoFuture<'_, ()>,
    ) -> Result<(), IoError> {
        let _pass = self.enter(operation, range).await?;
        let result = request.await;
        self.check(operation, range)?;
        result
    }
}

impl BlockDevice for Snapshot {
    fn geometry(&self) -> &Geometry {
        self.overlay.geometry()
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        Box::pin(async move {
            self.check(Operation::Read, Some(range))?;
            let data = self.overlay.read(range).await;
            self.check(Operation::Read, Some(range))?;
            data
        })
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        let request = self.overlay.write(range, data, flags);
        Box::pin(self.change(Operation::Write, Some(range), request))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(self.change(Operation::Flush, None, self.overlay.flush()))
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        let request = self.overlay.write_zeroes(range, flags);
        Box::pin(self.change(Operation::WriteZeroes, Some(range), request))
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        let request = self.overlay.trim(range);
        Box::pin(self.change(Operation::Trim, Some(range), request))
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        Box::pin(async move {
            self.check(Operation::Extents, Some(range))?;
            let extents = self.overlay.extents(range).await;
            self.check(Operation::Extents, Some(range))?;
            extents
        })
    }

    fn identity(&self) -> Option<Identity> {
        self.overlay.identity()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.overlay.settle()
    }

    fn connection_epoch(&self) -> u64 {
        self.overlay.connection_epoch()
    }

    fn remap(&self, range: Range) -> Option<(&Node, Range)> {
        // A writer would pass the gate by.
        let may_follow = self.is_in_use() && self.geometry().read_only;
        may_follow.then(|| self.overlay.remap(range))?
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        if !self.is_in_use() {
            return TryIo::WouldBlock;
        }
        let read = self.overlay.try_read(range, into);
        if !self.is_in_use() {
            return TryIo::WouldBlock;
        }
        read
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        let Some(_pass) = self.gate.try_enter() else {
            return TryIo::WouldBlock;
        };
        if !self.is_in_use() {
            return TryIo::WouldBlock;
        }
        self.overlay.try_write(range, data)
    }

    fn file_region(&self, range: Range) -> Option<FileRegion> {
        self.is_in_use().then(|| self.overlay.file_region(range))?
    }
}
