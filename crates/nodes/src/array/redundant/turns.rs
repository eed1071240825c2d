//! Changes that are under way: begun, counted, ended, cancelled. Pure; part of [`State`].
//!
//! # Invariants
//!
//! * What is counted is uncounted once: at its end, or when what was cancelled has settled.
//! * A change begins on the fast path only where nothing at all has to be waited for.

use block::Range;

use super::range_locks::{Cancelled, Kind, Turn, Wakers};
use super::state::State;

impl State {
    /// A change of `range`, or a window, arrives. It waits for its turn, and for [`is_ready`](Self::is_ready).
    pub(super) fn begin(&mut self, range: Range, kind: Kind) -> Turn {
        let turn = self.locks.enter(range, kind);
        if kind == Kind::Change {
            self.count(range);
        }
        turn
    }

    /// The same, if it need not wait for anything.
    #[inline]
    pub(super) fn begin_now(&mut self, range: Range) -> Option<Turn> {
        let may = self.ledger.is_dirty()
            && self.ledger.is_recorded()
            && self.members.view.no_bad
            && !self.stopped
            && !self.fence.is_closed()
            && self.bits.as_ref().is_none_or(|bits| bits.are_set(range));
        if !may {
            return None;
        }
        let turn = self.locks.try_enter(range)?;
        self.count(range);
        Some(turn)
    }

    #[inline]
    fn count(&mut self, range: Range) {
        self.ledger.begin_write();
        if let Some(bits) = &mut self.bits {
            bits.begin(range);
        }
    }

    /// Whether members know what they must before `range` is changed.
    pub(super) fn is_ready(&self, range: Range) -> bool {
        self.ledger.is_dirty()
            && self.is_recorded()
            && self.bits.as_ref().is_none_or(|bits| bits.are_set(range))
    }

    /// Whether all members know what they must before anything is acknowledged.
    pub(super) const fn is_recorded(&self) -> bool {
        self.ledger.is_recorded()
    }

    /// A change has ended: nothing of it is under way.
    #[must_use]
    pub(super) fn end(&mut self, turn: Turn, range: Range, kind: Kind) -> Wakers {
        if kind == Kind::Change {
            self.uncount(range);
        }
        self.locks.leave(turn)
    }

    /// A change was cancelled in flight.
    #[must_use]
    pub(super) fn cancel(&mut self, turn: Turn, what: Cancelled) -> Wakers {
        self.locks.cancel(turn, what)
    }

    /// A change takes over what was cancelled on the fast path, where it fills all of that. Whether there was any.
    pub(super) fn go_over(&mut self, turn: Turn) -> bool {
        let over = self.locks.go_over(turn);
        for range in &over {
            self.uncount(*range);
        }
        !over.is_empty()
    }

    fn uncount(&mut self, range: Range) {
        if let Some(bits) = &mut self.bits {
            bits.end(range);
        }
    }
}
