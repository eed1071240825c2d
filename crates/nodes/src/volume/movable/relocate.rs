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
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::activity::{ActivityWatch, UserActivity};
use super::place::{OldPlace, Place};
use super::run::Run;
use super::state::{Relocation, TargetRole};
use super::{MovableDisk, RelocateError, SENT, TurnGuard, first_failure, wake};
use crate::array::SyncRates;
use crate::array::range_locks::CancelledChange;
use crate::array::rate::{Rate, UserShare};
use crate::guard::flush;
use crate::zeroes::is_zero;

/// Longest time without a look whether the copy goes on.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// After so many bytes the new place is flushed, so that the last flush is a short one; as many more are copied meanwhile.
const FLUSH_INTERVAL: u64 = 128 << 20;

/// How fast bytes are copied: as fast as the disks go, in turns with users while there are any.
#[derive(Debug)]
pub(in crate::volume) struct CopyPace {
    rate: Rate,
    begun: Instant,
    users: ActivityWatch,
}

impl CopyPace {
    /// At most `bytes_per_second`, if there is a bound.
    pub(in crate::volume) fn new(bytes_per_second: Option<u64>, users: &Arc<UserActivity>) -> Self {
        let bounds = SyncRates {
            max: bytes_per_second.unwrap_or(u64::MAX),
            ..SyncRates::default()
        };
        let users = users.watch();
        let rate = Rate::new(bounds, Duration::ZERO, users.requests());
        Self {
            rate: rate.with_share(UserShare::Turns),
            begun: clock::now(),
            users,
        }
    }

    fn now(&self) -> Duration {
        clock::now().saturating_duration_since(self.begun)
    }

    /// Looks for users, with so many bytes in flight; how long to wait before another window may begin.
    fn look(&mut self, users_have: u64) -> Duration {
        let now = self.now();
        self.rate.users_have(users_have);
        self.rate.look(now, self.users.requests());
        self.rate.wait(now).min(PAUSE_MAX)
    }
}

/// What of a copy has ended.
enum CopyEvent {
    Window { len: u64, begun: Duration },
    Flush,
}

/// What of a copy is in flight, and what is to follow.
struct CopyQueue<'a> {
    in_flight: FuturesUnordered<BoxFuture<'a, Result<CopyEvent, RelocateError>>>,
    windows: usize,
    /// There are windows that were not begun.
    is_open: bool,
    is_flushing: bool,
    /// Bytes of windows that began after the last flush.
    unflushed: u64,
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
        let mut queue = CopyQueue {
            in_flight: FuturesUnordered::new(),
            windows: 0,
            is_open: true,
            is_flushing: false,
            unflushed: 0,
        };
        loop {
            let users_have = self.state().locks.under_way();
            let wait = pace.look(users_have);
            if queue.unflushed >= FLUSH_INTERVAL && !queue.is_flushing {
                self.begin_flush(&mut queue);
            }
            let may_begin = queue.is_open
                && queue.unflushed < FLUSH_INTERVAL
                && queue.windows < pace.rate.windows()
                && goes_on();
            if may_begin && wait.is_zero() {
                self.begin_window(&mut queue, pace);
                continue;
            }
            if queue.in_flight.is_empty() && !may_begin {
                return match self.failure() {
                    Some(error) => Err(error),
                    None => Ok(!queue.is_open),
                };
            }
            tokio::select! {
                biased;
                Some(ended) = queue.in_flight.next() => match ended? {
                    CopyEvent::Flush => queue.is_flushing = false,
                    CopyEvent::Window { len, begun } => {
                        queue.windows -= 1;
                        pace.rate.took(len, pace.now().saturating_sub(begun));
                        copied.fetch_add(len, Ordering::Relaxed);
                    }
                },
                () = clock::sleep(wait), if may_begin => {}
            }
        }
    }

    /// Begins the next window, if there is one.
    fn begin_window<'a>(&'a self, queue: &mut CopyQueue<'a>, pace: &mut CopyPace) {
        let window = self.lock().begin_window(pace.rate.window());
        let Some((turn, from, to)) = window else {
            queue.is_open = false;
            return;
        };
        let (len, begun) = (from.range.len, pace.now());
        pace.rate.take(begun, len);
        queue.unflushed += len;
        queue.windows += 1;
        let guard = TurnGuard {
            disk: self,
            turn,
            in_flight: None,
        };
        queue.in_flight.push(Box::pin(async move {
            self.copy_window(guard, &from, &to).await?;
            Ok(CopyEvent::Window { len, begun })
        }));
    }

    /// Begins to flush what was copied; windows go on meanwhile.
    fn begin_flush<'a>(&'a self, queue: &mut CopyQueue<'a>) {
        queue.unflushed = 0;
        queue.is_flushing = true;
        queue.in_flight.push(Box::pin(async {
            let flushed = self.flush_target().await;
            flushed.map_err(RelocateError::Write)?;
            Ok(CopyEvent::Flush)
        }));
    }

    async fn copy_window(
        &self,
        mut guard: TurnGuard<'_>,
        from: &Run,
        to: &Run,
    ) -> Result<(), RelocateError> {
        self.wait_turn(guard.turn).await;
        guard.in_flight = Some(SENT);
        let done = transfer(from, to).await;
        // The caller cancels the relocation: then nothing reads the new place.
        guard.in_flight = None;
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
