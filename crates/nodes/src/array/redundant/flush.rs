//! Flushing, and settling what was cancelled.
//!
//! # Invariants
//!
//! * A flush succeeds only if all members that hold a part and have not failed were flushed, and the failures are durable.
//!   After it failed it never succeeds again.
//! * Settling resyncs copies where a change was cancelled in flight, before they may be changed again.

use std::sync::Arc;

use block::{IoError, IoFuture, Operation, Range, WriteFlags};
use futures_util::future::join_all;

use super::RedundantArray;
use super::commit::Driven;
use super::layout::Piece;
use super::member_table::Failing;
use super::members::Target;
use super::range_locks::{Cancelled, CancelledChange};
use super::read::Which;
use super::state::State;
use super::write::{Change, holders};

/// Bytes that are resynced together.
const WINDOW: u64 = 1 << 20;

impl RedundantArray {
    /// Makes every change that was acknowledged durable.
    pub(super) async fn flush_all(&self) -> Result<(), IoError> {
        self.fence.check(Operation::Flush, None)?;
        if let Some(error) = self.flush_failed.get() {
            return Err(error.clone());
        }
        let flushed = self.on_all(|target| Box::pin(target.flush())).await;
        let recorded = match flushed {
            Ok(()) => self.record(State::is_recorded).await,
            failed => failed,
        };
        recorded.inspect_err(|error| {
            let again = IoError {
                operation: Operation::Flush,
                ..error.clone()
            };
            // The first error is the one that later flushes return.
            drop(self.flush_failed.set(again));
        })
    }

    /// Sends the same to all members that are written. One that fails at it has failed; `Err`: one that cannot be failed.
    pub(super) async fn on_all(
        &self,
        ask: impl Fn(&Target) -> IoFuture<'_, ()>,
    ) -> Result<(), IoError> {
        let view = self.view();
        let targets: Vec<Arc<Target>> = view.written().map(|h| h.target.clone()).collect();
        let asked: Vec<_> = targets.iter().map(|target| ask(target)).collect();
        let answers = join_all(asked).await;
        let failures = targets.iter().zip(answers);
        let mut result = Ok(());
        for (target, answer) in failures {
            let Err(error) = answer else { continue };
            if self.read_only() || self.fail_slot(target.slot, &error.to_string()) == Failing::Last
            {
                result = Err(error);
            }
        }
        result
    }

    /// Waits for what was cancelled, and resyncs copies there.
    pub(super) async fn settle_all(&self) -> Result<(), IoError> {
        let _one = self.settling.lock().await;
        let commit = self.lock().commit.as_ref().map(Driven::wait);
        if let Some(commit) = commit {
            // The tasks that wait for it get its result.
            drop(commit.await);
        }
        let cancelled = self.lock().state.locks.take_cancelled();
        self.on_all(|target| Box::pin(target.settle())).await?;
        for cancelled in cancelled {
            self.resync_cancelled(cancelled).await?;
            let CancelledChange {
                turn, range, kind, ..
            } = cancelled;
            let wakers = self.lock().state.end(turn, range, kind);
            wakers.into_iter().for_each(std::task::Waker::wake);
        }
        if self.read_only() {
            return Ok(());
        }
        self.record(State::is_recorded).await
    }

    async fn resync_cancelled(&self, cancelled: CancelledChange) -> Result<(), IoError> {
        let range = cancelled.range;
        if self.layout().parity().is_some() {
            // What of it landed is not known, and data are not touched: parity is recomputed.
            self.lock().state.need(range);
            return Ok(());
        }
        match cancelled.what {
            Cancelled::Trim => Ok(()),
            Cancelled::Zeroes => {
                let answers = self
                    .send(range, &Change::Zeroes, WriteFlags::empty(), None)
                    .await;
                self.conclude(range, &answers).await
            }
            Cancelled::Data { .. } => {
                let mut rest = range;
                while !rest.is_empty() {
                    let window = Range::new(rest.offset, rest.len.min(WINDOW));
                    for piece in self.view().pieces(window) {
                        self.copy_first(&piece).await?;
                    }
                    rest = Range::new(window.end(), rest.end() - window.end());
                }
                Ok(())
            }
        }
    }

    /// Writes what the first copy in sync holds to all others.
    async fn copy_first(&self, piece: &Piece) -> Result<(), IoError> {
        if holders(&self.view(), piece).nth(1).is_none() {
            return Ok(());
        }
        let Ok(found) = self.read_any(piece, Which::First, None).await else {
            // No member can be read there: the next write of it resyncs the copies.
            self.lock().state.need(piece.range);
            return Ok(());
        };
        let what = Change::Data(found.data);
        let plain = WriteFlags::empty();
        let answers = self.send(piece.range, &what, plain, Some(found.from)).await;
        self.conclude(piece.range, &answers).await
    }
}
