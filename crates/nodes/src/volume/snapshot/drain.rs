//! Changes of chunks that were not copied yet: buffered, or written through; and the drain of the buffer.
//!
//! ```text
//! buffered         old chunks into the stores ──► new chunks into the buffer: acknowledged
//! drain            flush of the stores, their tables, durably ──► the buffer into the disk below
//! written through  drain of the same chunks ──► old chunks into the stores, durably ──► the disk below
//! ```
//!
//! Small writes without FUA are buffered: thousands of first writes share one commit of each store.
//!
//! # Invariants
//!
//! * What was buffered is read from the buffer until it is below. A flush drains first.
//! * A drain that was dropped is repeated with the same content, after the disk below has settled.
//! * Once a drain could not write below, every flush fails.

use block::{IoBufs, IoError, Operation, Range, WriteFlags};
use futures_util::future::try_join;
use futures_util::stream::{self, StreamExt};

use super::disk::OriginDisk;
use super::origin_state::ChangeTurn;
use super::write_buffer::{OldEdges, WriteBuffer};
use crate::join::join_all;

/// Longest write that is buffered, bytes.
const BUFFERED_LEN_MAX: u64 = 64 * 1024;
/// Runs that a drain writes at once.
const RUNS_IN_FLIGHT: usize = 64;

/// The turn of a change, until it is dropped.
struct TurnGuard<'a> {
    disk: &'a OriginDisk,
    turn: ChangeTurn,
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.disk.state().end_turn(self.turn);
        self.disk.turn_ended.notify_waiters();
    }
}

impl OriginDisk {
    async fn take_turn(&self, range: Range) -> TurnGuard<'_> {
        loop {
            let ended = self.turn_ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let turn = self.state().take_turn(range);
            if let Some(turn) = turn {
                return TurnGuard { disk: self, turn };
            }
            ended.await;
        }
    }

    /// A write of chunks that were not all copied.
    pub(super) async fn write_first(
        &self,
        range: Range,
        data: IoBufs,
        flags: WriteFlags,
    ) -> Result<(), IoError> {
        let _turn = self.take_turn(range).await;
        let may_buffer = flags.is_empty() && range.len <= BUFFERED_LEN_MAX;
        if may_buffer && self.buffer(range, &data).await {
            self.drain_when_due().await;
            return Ok(());
        }
        self.make_copied(range).await;
        self.child().write(range, data, flags).await
    }

    /// Another change of chunks that were not all copied, which `change` carries out below.
    pub(super) async fn change_first<F: Future<Output = Result<(), IoError>>>(
        &self,
        range: Range,
        change: F,
    ) -> Result<(), IoError> {
        let _turn = self.take_turn(range).await;
        self.make_copied(range).await;
        change.await
    }

    /// Returns when `range` may be changed below: nothing of it is buffered, and its old content is durable in the
    /// snapshots. The caller has the turn.
    async fn make_copied(&self, range: Range) {
        if self.state().is_copied(range) {
            return;
        }
        self.drain(|buffer| buffer.overlaps(range)).await;
        self.preserve(range).await;
        self.state().set_copied(range);
    }

    /// Puts a write into the buffer; false where it has to be written through.
    async fn buffer(&self, range: Range, data: &IoBufs) -> bool {
        loop {
            let must_wait = |buffer: &WriteBuffer| buffer.is_draining(range) || buffer.is_full();
            let (epoch, waits) = {
                let state = self.state();
                if !state.may_buffer(range) {
                    return false;
                }
                (state.buffer.epoch(), must_wait(&state.buffer))
            };
            if waits {
                self.drain(must_wait).await;
                continue;
            }
            self.copy(range).await;
            let Ok(edges) = self.read_edges(range).await else {
                return false;
            };
            let mut state = self.state();
            let is_buffered = state.buffer.insert(epoch, range, data, &edges);
            self.note_buffered(&state);
            if is_buffered {
                return true;
            }
        }
    }

    async fn read_edges(&self, range: Range) -> Result<OldEdges, IoError> {
        let (first, last) = self.state().buffer.edges(range);
        let read = async |edge: Option<Range>| match edge {
            None => Ok(None),
            Some(edge) => self.child().read(edge).await.map(Some),
        };
        let (first, last) = try_join(read(first), read(last)).await?;
        Ok(OldEdges { first, last })
    }

    async fn drain_when_due(&self) {
        let is_due = self.state().buffer.should_drain();
        if is_due && self.drain_turn.try_lock().is_ok() {
            self.drain(WriteBuffer::should_drain).await;
        }
    }

    /// Writes the buffer below, if that is still `wanted` when it is this caller's turn.
    pub(super) async fn drain(&self, wanted: impl Fn(&WriteBuffer) -> bool) {
        if self.state().buffer.is_empty() {
            return;
        }
        let mut is_in_doubt = self.drain_turn.lock().await;
        let runs = {
            let mut state = self.state();
            let was_dropped = state.buffer.has_draining();
            if state.buffer.is_empty() || !(was_dropped || wanted(&state.buffer)) {
                return;
            }
            state.buffer.begin_drain()
        };
        if *is_in_doubt && let Err(error) = self.child().settle().await {
            self.fail(&error);
        }
        *is_in_doubt = true;
        let snapshots = self.snapshots();
        join_all(snapshots.iter().map(|one| one.commit())).await;
        let ranges: Vec<Range> = runs.iter().map(|(range, _)| *range).collect();
        let written = stream::iter(runs)
            .map(|(range, data)| self.child().write(range, data, WriteFlags::empty()))
            .buffer_unordered(RUNS_IN_FLIGHT)
            .fold(Ok(()), async |all, one| all.and(one))
            .await;
        if let Err(error) = written {
            self.fail(&error);
        }
        *is_in_doubt = false;
        let mut state = self.state();
        state.buffer.finish_drain();
        for range in ranges {
            state.set_copied(range);
        }
        self.note_buffered(&state);
    }

    fn fail(&self, error: &IoError) {
        let failure = (error.errno, error.to_string());
        if self.failure.set(failure).is_ok() {
            tracing::error!(
                "the origin of snapshots failed a write that was acknowledged: {error}; every flush of it fails \
                 until it is opened again"
            );
        }
    }

    /// What a flush answers after a drain has failed.
    pub(super) fn failure(&self) -> Option<IoError> {
        let (errno, why) = self.failure.get()?;
        let why = format!("an earlier write of the origin failed: {why}");
        Some(IoError::new(*errno, Operation::Flush, None).because(why))
    }
}
