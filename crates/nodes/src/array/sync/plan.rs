//! [`Walk`]: which window comes next, and how far everything is done. Pure.
//!
//! ```text
//!          reached                 planned                                 end
//!   ─────────┼────────────────────────┼──────────────────────────────────────┤
//!   all done │ under way, or done     │ not looked at yet
//!            │ behind one that is not │
//! ```
//!
//! # Invariants
//!
//! * Windows come in order and never overlap, and each byte that is wanted is in exactly one.
//! * What is reported as reached never goes back, and nothing below it is under way: what is written
//!   down of it holds after a crash.

use std::collections::BTreeMap;

use block::Range;

/// A walk over a member, or over the array.
#[derive(Debug)]
pub(in crate::array) struct Walk {
    planned: u64,
    end: u64,
    /// Windows under way, by their first byte.
    open: BTreeMap<u64, Range>,
}

impl Walk {
    /// A walk over `from..end`.
    pub(in crate::array) fn new(from: u64, end: u64) -> Self {
        Self {
            planned: from.min(end),
            end,
            open: BTreeMap::new(),
        }
    }

    /// The next window, of `len_max` bytes at most and within multiples of that. `wanted` returns the first
    /// range at or behind a byte that is wanted, however long; `None`: nothing is any more.
    pub(in crate::array) fn next(
        &mut self,
        len_max: u64,
        mut wanted: impl FnMut(u64) -> Option<Range>,
    ) -> Option<Range> {
        if self.planned >= self.end {
            return None;
        }
        let Some(found) = wanted(self.planned).filter(|found| found.offset < self.end) else {
            self.planned = self.end;
            return None;
        };
        let start = found.offset.max(self.planned);
        let boundary = (start / len_max).saturating_add(1).saturating_mul(len_max);
        let end = found.end().min(boundary).min(self.end);
        assert!(end > start, "what is wanted lies ahead");
        let window = Range::new(start, end - start);
        self.planned = end;
        self.open.insert(start, window);
        Some(window)
    }

    /// `window` is done.
    pub(in crate::array) fn finish(&mut self, window: Range) {
        let removed = self.open.remove(&window.offset);
        assert_eq!(removed, Some(window), "a window that was handed out");
    }

    /// All below is done, as far as it is wanted.
    pub(in crate::array) fn reached(&self) -> u64 {
        let first = self.open.keys().next().copied();
        first.unwrap_or(self.planned)
    }

    /// Windows under way.
    #[cfg(test)]
    pub(in crate::array) fn under_way(&self) -> usize {
        self.open.len()
    }

    /// Whether everything that is wanted was done.
    #[cfg(test)]
    pub(in crate::array) fn is_done(&self) -> bool {
        self.planned >= self.end && self.open.is_empty()
    }
}
