//! [`RangeLocks`]: which bytes of a disk with several copies are being changed, in order of arrival. Pure, but for the wakers it keeps.
//!
//! # Invariants
//!
//! * Of two that overlap, the one that came first goes first: none starves, and all copies of a byte get the same
//!   changes in the same order.
//! * A change that was cancelled in flight keeps its place: no other comes past it before it was
//!   undone or finished ([`RangeLocks::take_cancelled`]). Copies may differ there.
//! * A change that fills all of what was cancelled on the fast path goes over it: nothing of that can land late.

use std::task::Waker;

use block::Range;
use smallvec::SmallVec;

/// Name of one change; rises in order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn(u64);

/// What was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// A write: copies may differ.
    Data {
        /// Nothing of it can land any more.
        landed: bool,
    },
    /// Zeroing.
    Zeroes,
    /// A trim: what is left may be anything, also afterwards.
    Trim,
}

/// What takes a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A change that a user requested.
    Change,
    /// Copies are compared, or resynced.
    Window,
}

/// What was cancelled, and its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CancelledChange {
    pub(crate) turn: Turn,
    pub(crate) range: Range,
    pub(crate) kind: Kind,
    pub(crate) what: Cancelled,
}

/// How a change stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnState {
    /// It may go on.
    Ready,
    /// Another change is before it.
    Waiting,
    /// What is before it was cancelled, and must be repaired first.
    Blocked,
}

#[derive(Debug)]
struct Entry {
    turn: Turn,
    range: Range,
    kind: Kind,
    cancelled: Option<Cancelled>,
    waker: Option<Waker>,
}

/// Wakers to call once the lock of the state is free again.
pub(crate) type Wakers = SmallVec<[Waker; 4]>;

/// All changes that are under way, wait, or were cancelled.
#[derive(Debug, Default)]
pub(crate) struct RangeLocks {
    entries: Vec<Entry>,
    next: u64,
    cancelled: usize,
    /// Changes that have not ended: in flight, waiting, or cancelled.
    changes: u64,
    /// Changes that arrived, ever.
    begun: u64,
}

impl RangeLocks {
    /// A change of `range` arrives.
    pub(crate) fn enter(&mut self, range: Range, kind: Kind) -> Turn {
        let turn = Turn(self.next);
        self.next += 1;
        let changes = u64::from(kind == Kind::Change);
        self.changes += changes;
        self.begun += changes;
        self.entries.push(Entry {
            turn,
            range,
            kind,
            cancelled: None,
            waker: None,
        });
        turn
    }

    /// The same, if no other is before it.
    #[inline]
    pub(crate) fn try_enter(&mut self, range: Range) -> Option<Turn> {
        let is_taken = self
            .entries
            .iter()
            .any(|entry| entry.range.overlaps(&range));
        (!is_taken).then(|| self.enter(range, Kind::Change))
    }

    /// How a change stands; where it waits, `waker` is called when that may have changed.
    pub(crate) fn place(&mut self, turn: Turn, waker: &Waker) -> TurnState {
        let at = self.position(turn);
        let (before, own) = self.entries.split_at_mut(at);
        let own = &mut own[0];
        let mut place = TurnState::Ready;
        for earlier in before.iter().filter(|e| e.range.overlaps(&own.range)) {
            if earlier.cancelled.is_some() {
                return TurnState::Blocked;
            }
            place = TurnState::Waiting;
        }
        if place == TurnState::Waiting {
            match &mut own.waker {
                Some(known) => known.clone_from(waker),
                empty => *empty = Some(waker.clone()),
            }
        }
        place
    }

    /// Whether another change waits for it to end.
    pub(crate) fn is_awaited(&self, turn: Turn) -> bool {
        let (_, from) = self.entries.split_at(self.position(turn));
        let Some((own, behind)) = from.split_first() else {
            return false;
        };
        behind.iter().any(|entry| entry.range.overlaps(&own.range))
    }

    fn position(&self, turn: Turn) -> usize {
        let at = self.entries.iter().position(|entry| entry.turn == turn);
        at.expect("a turn is asked for while it is held")
    }

    /// It has ended. The wakers are those of changes that may be next.
    #[must_use]
    pub(crate) fn leave(&mut self, turn: Turn) -> Wakers {
        let at = self.position(turn);
        let gone = self.entries.remove(at);
        self.cancelled -= usize::from(gone.cancelled.is_some());
        self.changes -= u64::from(gone.kind == Kind::Change);
        self.wakers_behind(at, gone.range)
    }

    /// It was cancelled in flight.
    #[must_use]
    pub(crate) fn cancel(&mut self, turn: Turn, what: Cancelled) -> Wakers {
        let at = self.position(turn);
        self.entries[at].cancelled = Some(what);
        self.entries[at].waker = None;
        self.cancelled += 1;
        let range = self.entries[at].range;
        self.wakers_behind(at + 1, range)
    }

    fn wakers_behind(&mut self, at: usize, range: Range) -> Wakers {
        let behind = self.entries[at..].iter_mut();
        let waiting = behind.filter(|entry| entry.range.overlaps(&range));
        waiting.filter_map(|entry| entry.waker.take()).collect()
    }

    /// Removes what was cancelled on the fast path within `turn`'s range and before it, and returns what that was: a change that goes
    /// over it must not leave it half done either.
    pub(crate) fn go_over(&mut self, turn: Turn) -> SmallVec<[Range; 2]> {
        let mut over = SmallVec::new();
        if self.cancelled == 0 {
            return over;
        }
        let range = self.entries[self.position(turn)].range;
        let covers = |other: Range| range.offset <= other.offset && other.end() <= range.end();
        self.entries.retain(|entry| {
            let landed = entry.cancelled == Some(Cancelled::Data { landed: true });
            let goes = landed && entry.turn < turn && covers(entry.range);
            if goes {
                over.push(entry.range);
                self.changes -= u64::from(entry.kind == Kind::Change);
            }
            !goes
        });
        self.cancelled -= over.len();
        over
    }

    /// What was cancelled, in order. The caller repairs it: no change goes over it from now on.
    pub(crate) fn take_cancelled(&mut self) -> Vec<CancelledChange> {
        let cancelled = self.entries.iter_mut().filter_map(|entry| {
            let what = entry.cancelled?;
            if what == (Cancelled::Data { landed: true }) {
                entry.cancelled = Some(Cancelled::Data { landed: false });
            }
            Some(CancelledChange {
                turn: entry.turn,
                range: entry.range,
                kind: entry.kind,
                what,
            })
        });
        cancelled.collect()
    }

    /// Bytes that users requested to change and wait for.
    pub(crate) fn under_way(&self) -> u64 {
        let changes = self.entries.iter().filter(|entry| {
            // No caller waits for what was cancelled.
            entry.kind == Kind::Change && entry.cancelled.is_none()
        });
        changes.fold(0, |bytes, change| bytes.saturating_add(change.range.len))
    }

    /// The ranges of changes that have not ended: in flight, waiting, or cancelled.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Range> {
        let entries = self.entries.iter();
        let changes = entries.filter(|entry| entry.kind == Kind::Change);
        changes.map(|entry| entry.range)
    }

    /// Whether a change has not ended.
    pub(crate) const fn has_changes(&self) -> bool {
        self.changes > 0
    }

    /// Changes that arrived so far.
    pub(crate) const fn begun(&self) -> u64 {
        self.begun
    }

    /// How many were cancelled.
    pub(crate) const fn cancelled_count(&self) -> usize {
        self.cancelled
    }
}
