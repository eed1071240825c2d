//! The steps of a relocation: begun, copied, the new place required, switched to; or cancelled.
//!
//! # Invariants
//!
//! * It begins and ends while no change is in flight, and after what was dropped has settled: nothing lands late, neither
//!   at a place that was copied nor at one that is free.
//! * At most [`Rate::windows`] windows are in memory.
//! * Where the places may differ after a change that was dropped, or has failed, the new one gets what the old one has, before
//!   any other change of these bytes and before the switch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use block::{IoError, Node, Range, WriteFlags};
use engine::clock;
use futures_util::future::{join_all, select};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::place::{OldPlace, Place};
use super::run::Run;
use super::state::{Relocation, TargetRole};
use super::{MovableDisk, RelocateError, TurnGuard, first_failure, wake};
use crate::array::SyncRates;
use crate::array::range_locks::CancelledChange;
use crate::array::rate::Rate;
use crate::guard::flush;
use crate::zeroes::is_zero;

/// Longest time without a look whether the copy goes on.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// After so many bytes the new place is flushed, so that the last flush is a short one.
const FLUSH_INTERVAL: u64 = 128 << 20;

/// How fast bytes are copied, and how many were.
#[derive(Debug)]
pub(in crate::volume) struct CopyPace {
    rate: Rate,
    begun: Instant,
}

impl CopyPace {
    /// At most `bytes_per_second`; as fast as the disks go without a bound.
    pub(in crate::volume) fn new(bytes_per_second: Option<u64>) -> Self {
        let bound = bytes_per_second.unwrap_or(SyncRates::default().max);
        let bounds = SyncRates {
            min: bound,
            max: bound,
        };
        Self {
            rate: Rate::new(bounds, Duration::ZERO, 0),
            begun: clock::now(),
        }
    }

    fn now(&self) -> Duration {
        clock::now().saturating_duration_since(self.begun)
    }
}

impl MovableDisk {
    /// Begins to move `range` to `target`.
    pub(in crate::volume) async fn begin(
        &self,
        range: Range,
        target: Arc<Place>,
    ) -> Result<(), RelocateError> {
        let closed = self.gate.close().await;
        // What was dropped before may land where it is copied from.
        let target_disk = [target.disk.clone()];
        let settled = self.settle_below(&target_disk).await;
        settled.map_err(RelocateError::Settle)?;
        let mut state = self.lock();
        assert!(state.relocation.is_none(), "one relocation at a time");
        state.failure = None;
        state.relocation = Some(Relocation {
            range,
            target,
            begun_to: range.offset,
            role: TargetRole::Copy,
        });
        drop(state);
        drop(closed);
        Ok(())
    }

    /// Copies what is to be moved, as long as `goes_on`; adds the bytes to `copied`. Whether all is copied.
    pub(in crate::volume) async fn copy(
        &self,
        pace: &mut CopyPace,
        copied: &AtomicU64,
        goes_on: impl Fn() -> bool,
    ) -> Result<bool, RelocateError> {
        let mut windows = FuturesUnordered::new();
        let (mut is_open, mut unflushed) = (true, 0);
        loop {
            let now = pace.now();
            let wait = pace.rate.wait(now).min(PAUSE_MAX);
            let may_begin = is_open && unflushed < FLUSH_INTERVAL && goes_on();
            if may_begin && wait.is_zero() && windows.len() < pace.rate.windows() {
                let window = self.lock().begin_window(pace.rate.window());
                let Some((turn, from, to)) = window else {
                    is_open = false;
                    continue;
                };
                let len = from.range.len;
                pace.rate.take(now, len);
                unflushed += len;
                let guard = TurnGuard {
                    disk: self,
                    turn,
                    is_clean: true,
                };
                windows.push(async move {
                    let done = self.copy_window(guard, &from, &to).await;
                    (done, len, now)
                });
                continue;
            }
            if windows.is_empty() {
                if let Some(error) = self.failure() {
                    return Err(error);
                }
                if !is_open || !goes_on() {
                    return Ok(!is_open);
                }
                if unflushed >= FLUSH_INTERVAL {
                    self.flush_target().await.map_err(RelocateError::Write)?;
                    unflushed = 0;
                    continue;
                }
                clock::sleep(wait).await;
                continue;
            }
            let is_waiting = may_begin && !wait.is_zero();
            let ended = match is_waiting {
                true => {
                    let pause = std::pin::pin!(clock::sleep(wait));
                    let ended = select(windows.next(), pause).await;
                    match ended {
                        futures_util::future::Either::Left((ended, _)) => ended,
                        futures_util::future::Either::Right(_) => continue,
                    }
                }
                false => windows.next().await,
            };
            if let Some((done, len, begun)) = ended {
                done?;
                pace.rate.took(len, pace.now().saturating_sub(begun));
                copied.fetch_add(len, Ordering::Relaxed);
            }
        }
    }

    async fn copy_window(
        &self,
        mut guard: TurnGuard<'_>,
        from: &Run,
        to: &Run,
    ) -> Result<(), RelocateError> {
        self.wait_turn(guard.turn).await;
        guard.is_clean = false;
        let done = transfer(from, to).await;
        // The caller cancels the relocation: then nothing reads the new place.
        guard.is_clean = true;
        done
    }

    /// From here on the new place takes every write, or the write fails: it is durable there what it holds by now, and the
    /// metadata may say that it counts.
    pub(in crate::volume) async fn require_target(&self) -> Result<(), RelocateError> {
        let closed = self.gate.close().await;
        self.repair().await;
        self.lock().require_target()?;
        drop(closed);
        self.flush_target().await.map_err(RelocateError::Write)
    }

    /// The new place counts from here on. Returns the old ones, which may still be read.
    pub(in crate::volume) async fn switch(&self) -> Vec<OldPlace> {
        let closed = self.gate.close().await;
        self.repair().await;
        if let Err(error) = self.settle_below(&[]).await {
            tracing::warn!("writes that were cancelled on a disk extents were moved from: {error}");
        }
        let old = self.lock().switch();
        drop(closed);
        old
    }

    /// Ends the relocation: all stays where it was, and nothing more lands at the new place.
    pub(in crate::volume) async fn cancel(&self) -> Result<(), RelocateError> {
        let target = {
            let mut state = self.lock();
            let relocation = state.relocation.as_ref();
            let Some(target) = relocation.map(|relocation| relocation.target.disk.clone()) else {
                return Ok(());
            };
            state.abandon();
            target
        };
        let closed = self.gate.close().await;
        self.repair().await;
        let settled = self.settle_below(&[target]).await;
        self.lock().end();
        drop(closed);
        settled.map_err(RelocateError::Settle)
    }

    fn failure(&self) -> Option<RelocateError> {
        self.state().failure.clone()
    }

    async fn settle_below(&self, more: &[Node]) -> Result<(), IoError> {
        let disks = self.disks();
        let all = disks.iter().chain(more);
        first_failure(join_all(all.map(|disk| disk.settle())).await)
    }

    async fn flush_target(&self) -> Result<(), IoError> {
        let relocation = self.state().relocation.clone();
        match relocation {
            Some(relocation) => flush(&relocation.target.disk).await,
            None => Ok(()),
        }
    }

    /// Flushes the disks below. One that is only copied to may fail: that ends the relocation.
    pub(super) async fn flush_all(&self) -> Result<(), IoError> {
        let disks = self.disks();
        let flushed = join_all(disks.iter().map(async |disk| {
            let flushed = flush(disk).await;
            flushed.or_else(|error| self.lock().fail_flush(disk, error))
        }));
        first_failure(flushed.await)
    }

    /// The new place gets what the old one has, where a change was dropped or failed.
    pub(super) async fn repair(&self) {
        if self.state().locks.cancelled_count() == 0 {
            return;
        }
        let _one_at_a_time = self.repairing.lock().await;
        let cancelled = self.lock().locks.take_cancelled();
        if cancelled.is_empty() {
            return;
        }
        let settled = self.settle_below(&[]).await;
        for change in cancelled {
            let repaired = match &settled {
                Ok(()) => self.repair_change(&change).await,
                Err(error) => Err(RelocateError::Settle(error.clone())),
            };
            let wakers = {
                let mut state = self.lock();
                if let Err(error) = repaired {
                    state.fail(error);
                }
                state.locks.leave(change.turn)
            };
            wake(wakers);
        }
    }

    async fn repair_change(&self, change: &CancelledChange) -> Result<(), RelocateError> {
        let parts = {
            let state = self.state();
            let relocation = state.relocation.as_ref();
            let relocation = relocation.filter(|_| state.failure.is_none());
            let parts = relocation.and_then(|relocation| {
                let begun = relocation.begun(change.range)?;
                let runs = state.runs(begun).into_iter();
                let parts = runs.map(|run| {
                    let to = relocation.target_of(run.range);
                    (run, to)
                });
                Some(parts.collect::<Vec<_>>())
            });
            parts.unwrap_or_default()
        };
        for (from, to) in parts {
            transfer(&from, &to).await?;
        }
        Ok(())
    }
}

/// Copies a run. Zeroes take no space at a new place that can have holes.
async fn transfer(from: &Run, to: &Run) -> Result<(), RelocateError> {
    let data = from.place.disk.read(from.below).await;
    let data = data.map_err(RelocateError::Read)?;
    let written = match data.iter().all(|bytes| is_zero(bytes)) {
        true => to.write_zeroes(WriteFlags::empty()).await,
        false => to.write(data, WriteFlags::empty()).await,
    };
    written.map_err(RelocateError::Write)
}
