//! [`Newest`]: which parts of older writes newer ones have left. Pure.
//!
//! Writes are taken from the newest to the oldest; of each only what no newer one covers is left. What
//! is left overlaps nowhere, so that it may be written in any order.

use std::collections::BTreeMap;

use block::Range;

/// Ranges that were covered, merged: begin and end.
#[derive(Debug, Default)]
pub(crate) struct Newest(BTreeMap<u64, u64>);

impl Newest {
    /// Covers `range`, and returns what of it was not covered before, in order.
    pub(crate) fn cover(&mut self, range: Range) -> Vec<Range> {
        let (mut start, mut end) = (range.offset, range.end());
        let mut left = Vec::new();
        let mut at = range.offset;
        let first = self.0.range(..=start).next_back().map(|(from, _)| *from);
        let touched = self.0.range(first.unwrap_or(start)..=end);
        let touched: Vec<(u64, u64)> = touched
            .map(|(from, to)| (*from, *to))
            .filter(|(from, to)| *to >= start && *from <= end)
            .collect();
        for (from, to) in touched {
            if from > at {
                left.push(Range::new(at, from - at));
            }
            at = at.max(to);
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        if at < range.end() {
            left.push(Range::new(at, range.end() - at));
        }
        self.0.insert(start, end);
        left
    }
}
