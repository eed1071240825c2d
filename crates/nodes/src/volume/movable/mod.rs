//! [`MovableDisk`]: the extents of a volume on physical volumes, which can be moved while they are read and written.
//!
//! ```text
//! volume ─► linear, stripe, … ─► MovableDisk ─┬─► pv0 0-9
//!                                             └─► pv1 5-14
//! ```
//!
//! A relocation goes through these calls, in order (`relocate.rs`):
//!
//! ```text
//! begin ─► copy ─► require_target ─► (the metadata are written) ─► switch
//!            └────────────┴─► cancel, which leaves all where it was
//! ```
//!
//! # Invariants
//!
//! * Reads go to the place that has all bytes: the old one until `switch`, then the new one.
//! * A write of bytes that were copied goes to both places until `switch`; the one of bytes that are being copied waits.
//! * Where a write was dropped or has failed, and the places may differ, they are made equal before anything reads the
//!   new one (`relocate.rs`).
//! * `remap` leads nowhere: its caller would not notice that the bytes go elsewhere.
//!
//! # What it does not do
//!
//! It knows no metadata: the caller writes them between the steps, and gives the old extents to nothing else while
//! [`OldPlace`] has readers.

mod activity;
mod error;
mod node;
mod place;
mod relocate;
mod run;
mod state;
#[cfg(test)]
mod tests;

use std::future::{Future, poll_fn};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::task::Poll;

use block::{
    BlockDevice as _, Errno, Geometry, IoError, Node, Operation, Range, TryIo, WriteFlags,
};
use futures_util::future::{join, join_all};
use smallvec::SmallVec;

pub(super) use self::activity::UserActivity;
pub(super) use self::error::RelocateError;
pub(super) use self::place::{OldPlace, Place};
pub(super) use self::relocate::CopyPace;
use self::run::Run;
use self::state::{Admitted, MovableState, TargetRole};
use crate::array::range_locks::{Cancelled, Turn, TurnState, Wakers};
use crate::guard::about;
use crate::parts::is_same;
use crate::request_gate::{GatePass, RequestGate};
use crate::{Linear, LinearError, Segment};

/// Extents that can be moved.
#[derive(Debug)]
pub(super) struct MovableDisk {
    geometry: Geometry,
    state: RwLock<MovableState>,
    /// Changes; closed where the places of bytes change.
    gate: RequestGate,
    /// Held while places that may differ are made equal.
    repairing: tokio::sync::Mutex<()>,
    /// Of the whole group.
    users: Arc<UserActivity>,
}

/// A change of bytes that are being moved; one that is dropped in flight leaves places that may differ.
struct TurnGuard<'a> {
    disk: &'a MovableDisk,
    turn: Turn,
    /// What is left where it is dropped now; `None`: the places are equal.
    in_flight: Option<Cancelled>,
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        let wakers = {
            let mut state = self.disk.lock();
            match self.in_flight {
                None => state.locks.leave(self.turn),
                Some(what) => state.locks.cancel(self.turn, what),
            }
        };
        wake(wakers);
    }
}

/// What a change leaves that was dropped in flight.
const SENT: Cancelled = Cancelled::Data { landed: false };
/// And one that came from the fast path, of which nothing lands later.
const FAST_PATH: Cancelled = Cancelled::Data { landed: true };

fn wake(wakers: Wakers) {
    for waker in wakers {
        waker.wake();
    }
}

impl MovableDisk {
    /// `segments` of physical volumes, one behind the other, of the members at these indices of the group; `users` counts
    /// its requests.
    ///
    /// # Errors
    /// If they make no disk.
    pub(super) fn new(
        segments: Vec<(usize, Segment)>,
        users: Arc<UserActivity>,
    ) -> Result<Self, LinearError> {
        let places = segments.iter().map(|(member, segment)| {
            let place = Place::new(segment.disk.clone(), *member, segment.range.offset);
            (place, segment.range.len)
        });
        let places = places.collect();
        let segments = segments.into_iter().map(|(_, segment)| segment);
        let whole = Linear::new(segments.collect())?;
        Ok(Self {
            geometry: whole.geometry().clone(),
            state: RwLock::new(MovableState::new(places)),
            gate: RequestGate::default(),
            repairing: tokio::sync::Mutex::default(),
            users,
        })
    }

    /// The parts of it that are at `below` of the disk of `member`: where here, and where there they begin.
    pub(super) fn find(&self, member: usize, below: Range) -> Vec<(Range, u64)> {
        self.state().find(member, below)
    }

    fn state(&self) -> RwLockReadGuard<'_, MovableState> {
        // Each change of it is whole.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> RwLockWriteGuard<'_, MovableState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Each disk below once.
    fn disks(&self) -> SmallVec<[Node; 2]> {
        let mut disks: SmallVec<[Node; 2]> = SmallVec::new();
        for place in self.state().places() {
            if !disks.iter().any(|known| is_same(known, &place.disk)) {
                disks.push(place.disk.clone());
            }
        }
        disks
    }

    async fn enter(&self, operation: Operation, range: Range) -> Result<GatePass<'_>, IoError> {
        let pass = self.gate.enter().await;
        pass.map_err(|_sealed| IoError::new(Errno::ShuttingDown, operation, Some(range)))
    }

    /// Carries out a change: `send` sends one run of it.
    async fn change<F: Future<Output = Result<(), IoError>>>(
        &self,
        operation: Operation,
        range: Range,
        flags: WriteFlags,
        send: impl Fn(Run, WriteFlags) -> F,
    ) -> Result<(), IoError> {
        self.users.count();
        let _pass = self.enter(operation, range).await?;
        if self.state().is_relocating(range) {
            let admitted = self.lock().admit(range, operation != Operation::Trim);
            let changed = self.change_relocating(admitted, flags, send).await;
            return about(Some(range), operation, changed);
        }
        let mut runs = self.state().runs(range);
        let sent = match (runs.pop(), runs.is_empty()) {
            (Some(only), true) => send(only, flags).await,
            (last, _) => {
                let all = runs.into_iter().chain(last);
                let sent = all.map(|run| send(run, flags));
                first_failure(join_all(sent).await)
            }
        };
        about(Some(range), operation, sent)
    }

    async fn change_relocating<F: Future<Output = Result<(), IoError>>>(
        &self,
        admitted: Admitted,
        flags: WriteFlags,
        send: impl Fn(Run, WriteFlags) -> F,
    ) -> Result<(), IoError> {
        let mut guard = TurnGuard {
            disk: self,
            turn: admitted.turn,
            in_flight: admitted.over.then_some(FAST_PATH),
        };
        self.wait_turn(guard.turn).await;
        guard.in_flight = Some(SENT);
        let old = admitted.runs.into_iter();
        let old = join_all(old.map(|run| send(run, flags)));
        let copy = async {
            match admitted.copy {
                Some(run) => send(run, copy_flags(admitted.role, flags)).await,
                None => Ok(()),
            }
        };
        let (old, copied) = join(old, copy).await;
        let old = first_failure(old);
        let copied = match (copied, admitted.role) {
            (Err(error), TargetRole::Copy) => {
                // The old place has it, which is the one that counts.
                self.lock().fail(RelocateError::Write(error));
                Ok(())
            }
            (copied, _) => copied,
        };
        let changed = old.and(copied);
        if changed.is_ok() {
            guard.in_flight = None;
        }
        changed
    }

    /// Carries out a write of bytes that are being moved on the fast path, where it waits for nothing.
    fn try_write_relocating(&self, range: Range, data: &[u8]) -> TryIo {
        let Some(admitted) = self.lock().try_admit(range) else {
            return TryIo::WouldBlock;
        };
        let mut guard = TurnGuard {
            disk: self,
            turn: admitted.turn,
            in_flight: None,
        };
        let [old] = admitted.runs.as_slice() else {
            return TryIo::WouldBlock;
        };
        let copy = admitted.copy.as_ref();
        if copy.is_some() {
            // The caller writes it again where this did not write it whole, and goes over what is there.
            guard.in_flight = Some(FAST_PATH);
        }
        let copy = copy.map(|copy| {
            let start = Range::new(0, copy.range.offset - range.offset).len_usize();
            (copy, &data[start..start + copy.range.len_usize()])
        });
        let is_done = old.place.disk.try_write(old.below, data) == TryIo::Done
            && copy.is_none_or(|(copy, data)| {
                copy.place.disk.try_write(copy.below, data) == TryIo::Done
            });
        if !is_done {
            return TryIo::WouldBlock;
        }
        guard.in_flight = None;
        TryIo::Done
    }

    /// Waits for all that came before and overlaps.
    async fn wait_turn(&self, turn: Turn) {
        loop {
            let state = poll_fn(|context| {
                let state = self.lock().locks.place(turn, context.waker());
                match state {
                    TurnState::Waiting => Poll::Pending,
                    TurnState::Ready | TurnState::Blocked => Poll::Ready(state),
                }
            });
            match state.await {
                TurnState::Blocked => self.repair().await,
                TurnState::Ready | TurnState::Waiting => return,
            }
        }
    }
}

fn first_failure(answers: Vec<Result<(), IoError>>) -> Result<(), IoError> {
    answers.into_iter().collect()
}

/// The flags of a copy: one that need not be durable yet is flushed before it counts, and none is refused for being slow.
const fn copy_flags(role: TargetRole, flags: WriteFlags) -> WriteFlags {
    let flags = flags.difference(WriteFlags::FAST_ZERO);
    match role {
        TargetRole::Copy => flags.difference(WriteFlags::FUA),
        TargetRole::Required => flags,
    }
}
