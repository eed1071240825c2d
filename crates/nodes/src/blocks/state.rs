//! [`TurnTable`]: which change has which blocks, in order of arrival. Pure.
//!
//! # Invariants
//!
//! * A change that rewrites blocks it does not fill ([`Access::Alone`]) is never carried out concurrently with
//!   another change of those blocks. Changes of whole blocks ([`Access::Beside`]) are, among each
//!   other.
//! * First come, first served: no change starves.
//! * A rewrite that was abandoned while it was in flight below may land late, with the old bytes of
//!   its neighbours. Its blocks are blocked by the abandoned write until the disk below has settled.

use block::Range;

/// Blocked ranges that are kept separate; beyond that they are joined.
const ABANDONED_MAX: usize = 64;

/// How a change shares its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Fills its blocks.
    Beside,
    /// Reads blocks, changes a part of them, and writes them.
    Alone,
}

/// Name of one change; rises in order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn(u64);

#[derive(Debug)]
struct TurnEntry {
    turn: Turn,
    blocks: Range,
    access: Access,
}

impl TurnEntry {
    fn conflicts_with(&self, other: &Self) -> bool {
        (self.access == Access::Alone || other.access == Access::Alone)
            && self.blocks.overlaps(&other.blocks)
    }
}

#[derive(Debug)]
struct AbandonedRewrite {
    since: Turn,
    blocks: Range,
}

/// The changes that are in flight or wait, and what was abandoned.
#[derive(Debug, Default)]
pub(super) struct TurnTable {
    entries: Vec<TurnEntry>,
    next: u64,
    abandoned: Vec<AbandonedRewrite>,
}

impl TurnTable {
    /// A change of `blocks` arrives.
    pub(super) fn enter(&mut self, blocks: Range, access: Access) -> Turn {
        let turn = self.now();
        self.next += 1;
        self.entries.push(TurnEntry {
            turn,
            blocks,
            access,
        });
        turn
    }

    /// Whether it may be carried out: nothing that came before is in its way.
    pub(super) fn is_ready(&self, turn: Turn) -> bool {
        let Some(at) = self.entries.iter().position(|entry| entry.turn == turn) else {
            return false;
        };
        let (before, own) = (&self.entries[..at], &self.entries[at]);
        !before.iter().any(|earlier| earlier.conflicts_with(own))
    }

    /// It has ended.
    pub(super) fn leave(&mut self, turn: Turn) {
        self.entries.retain(|entry| entry.turn != turn);
    }

    /// It was abandoned while its rewrite was in flight below.
    pub(super) fn abandon(&mut self, turn: Turn) {
        let Some(at) = self.entries.iter().position(|entry| entry.turn == turn) else {
            return;
        };
        let blocks = self.entries.remove(at).blocks;
        let since = self.now();
        if self.abandoned.len() < ABANDONED_MAX {
            self.abandoned.push(AbandonedRewrite { since, blocks });
        } else if let Some(last) = self.abandoned.last_mut() {
            let start = last.blocks.offset.min(blocks.offset);
            let end = last.blocks.end().max(blocks.end());
            *last = AbandonedRewrite {
                since,
                blocks: Range::new(start, end - start),
            };
        }
        // The turn separates writes that are abandoned from now on from those before.
        self.next += 1;
    }

    /// Whether something may still land late on `blocks`.
    pub(super) fn is_blocked_by_abandoned(&self, blocks: Range) -> bool {
        self.abandoned.iter().any(|h| h.blocks.overlaps(&blocks))
    }

    /// The turn that would come now: what is abandoned later is newer.
    pub(super) const fn now(&self) -> Turn {
        Turn(self.next)
    }

    /// The disk below has settled what was abandoned before `turn`.
    pub(super) fn settled(&mut self, turn: Turn) {
        self.abandoned.retain(|abandoned| abandoned.since >= turn);
    }
}
