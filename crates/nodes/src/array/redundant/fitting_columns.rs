//! [`FittingColumns`]: columns of which all parity was written although a resync has not come to them. Pure.
//!
//! ```text
//! members   0 ──── resynced ────┤──────────── parity may not fit ────────────┤
//!                                      ████      ██████ written since the open: it fits there
//! ```
//!
//! Bits and the place of a resync count whole chunks, and are on members. This is neither: it is exact to the byte, in memory alone,
//! and empty after an open.
//!
//! # Invariants
//!
//! * What it has was written, with all parity that has a holder, by changes that did not fail, and nothing was done since that may
//!   have left parity that does not fit ([`State::need`](super::state::State::need)).
//! * It has [`RANGES_MAX`] ranges at most: what finds no room is forgotten, and a resync computes its parity again.
//!
//! # What it does not do
//!
//! It says nothing where parity is in sync, and clears no bit: a resync comes to these columns like to others.

use std::collections::BTreeMap;

use block::Range;

/// Ranges that do not touch, at most: 2 MiB of memory.
pub(super) const RANGES_MAX: usize = 1 << 16;

/// Ranges of members' data, in order, that neither touch nor overlap.
#[derive(Debug, Default)]
pub(super) struct FittingColumns {
    /// The end of each range by its start.
    ends: BTreeMap<u64, u64>,
}

impl FittingColumns {
    /// Parity fits in `range`. What finds no room is not kept.
    pub(super) fn add(&mut self, range: Range) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.offset, range.end());
        let before = self.ends.range(..=start).next_back();
        if let Some((&known, &known_end)) = before
            && known_end >= start
        {
            start = known;
            end = end.max(known_end);
        }
        while let Some((&next, &next_end)) = self.ends.range(start..=end).next() {
            self.ends.remove(&next);
            end = end.max(next_end);
        }
        if self.ends.len() < RANGES_MAX {
            self.ends.insert(start, end);
        }
    }

    /// Parity may not fit in `range` any more, or is in sync there.
    pub(super) fn remove(&mut self, range: Range) {
        if range.is_empty() {
            return;
        }
        let (start, end) = (range.offset, range.end());
        let before = self.ends.range_mut(..start).next_back();
        if let Some((_, known_end)) = before
            && *known_end > start
        {
            let rest = *known_end;
            *known_end = start;
            self.add_behind(end, rest);
        }
        while let Some((&next, &next_end)) = self.ends.range(start..end).next() {
            self.ends.remove(&next);
            self.add_behind(end, next_end);
        }
    }

    /// What is left of a range behind what was removed of it.
    fn add_behind(&mut self, start: u64, end: u64) {
        if start < end && self.ends.len() < RANGES_MAX {
            self.ends.insert(start, end);
        }
    }

    /// Nothing is known any more.
    pub(super) fn clear(&mut self) {
        self.ends.clear();
    }

    /// What of `range` is in none of them, in order.
    pub(super) fn outside(&self, range: Range) -> Vec<Range> {
        let mut gaps = Vec::new();
        let mut at = range.offset;
        let before = self.ends.range(..=at).next_back();
        if let Some((_, &end)) = before {
            at = at.max(end.min(range.end()));
        }
        for (&start, &end) in self.ends.range(at..range.end().max(at)) {
            gaps.push(Range::new(at, start - at));
            at = end.min(range.end());
        }
        gaps.push(Range::new(at, range.end() - at));
        gaps.retain(|gap| !gap.is_empty());
        gaps
    }

    /// How many ranges there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}
