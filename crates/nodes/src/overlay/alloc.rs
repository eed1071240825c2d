//! [`Allocator`]: which chunks of the store are free. Pure.
//!
//! # Invariants
//!
//! * A chunk is handed out once until it is given back; a chunk of the store's own tables never is.
//! * What a dropped write may still land on is stranded: it is free again once the store has settled.
//! * Chunks are handed out from the front, as the kernel does: the file grows with what is used.

use std::ops;

use smallvec::SmallVec;

use super::format::StoreLayout;

/// Neighbouring chunks of the store, in the order of their requests.
pub(super) type StoreRuns = SmallVec<[ops::Range<u64>; 1]>;

/// Free runs that are remembered between chunks that are used; the rest is free again when the
/// store is opened the next time.
pub(super) const GAPS_MAX: usize = 65_536;

/// Runs that are stranded, at most, before the store must settle.
const STRANDED_MAX: usize = 4096;

/// Separates what was stranded before from what is stranded later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StrandMark(u64);

/// The free chunks of a store.
#[derive(Debug)]
pub(super) struct Allocator {
    layout: StoreLayout,
    /// Nothing from here on is used.
    next: u64,
    /// Nothing from here on may be used.
    end: u64,
    gaps: Vec<ops::Range<u64>>,
    stranded: Vec<(StrandMark, ops::Range<u64>)>,
    mark: StrandMark,
}

impl Allocator {
    /// A store of `end` chunks, where everything from `next` on is free, and `gaps` before.
    pub(super) fn new(
        layout: StoreLayout,
        gaps: Vec<ops::Range<u64>>,
        next: u64,
        end: u64,
    ) -> Self {
        Self {
            layout,
            next,
            end,
            gaps,
            stranded: Vec::new(),
            mark: StrandMark(0),
        }
    }

    /// The chunk behind the last that is or was used.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Chunks there are.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// Takes `count` chunks, or none.
    pub(super) fn take(&mut self, count: u64) -> Option<StoreRuns> {
        if count > self.free() {
            return None;
        }
        let mut places = StoreRuns::new();
        let mut left = count;
        while left > 0 {
            let place = self.take_some(left);
            left -= place.end - place.start;
            places.push(place);
        }
        Some(places)
    }

    /// Takes up to `len_max` neighbours. There is a free chunk.
    fn take_some(&mut self, len_max: u64) -> ops::Range<u64> {
        if let Some(gap) = self.gaps.last_mut() {
            let place = gap.start..gap.end.min(gap.start + len_max);
            gap.start = place.end;
            if gap.is_empty() {
                self.gaps.pop();
            }
            return place;
        }
        if self.layout.is_own(self.next) {
            self.next += 1;
        }
        let table = self.layout.table(self.layout.tables_before(self.next));
        let end = table.min(self.end).min(self.next + len_max);
        let place = self.next..end;
        self.next = end;
        place
    }

    fn free(&self) -> u64 {
        let gaps = self.gaps.iter().map(|gap| gap.end - gap.start);
        let ahead = self.end.saturating_sub(self.next);
        let before = |chunk| self.layout.tables_before(chunk);
        let tables = before(self.end).saturating_sub(before(self.next));
        gaps.sum::<u64>() + ahead.saturating_sub(tables)
    }

    /// `place` is not used after all, and nothing can land on it any more.
    pub(super) fn give_back(&mut self, place: ops::Range<u64>) {
        if place.end == self.next {
            self.next = place.start;
        } else if self.gaps.len() < GAPS_MAX {
            self.gaps.push(place);
        }
    }

    /// `place` is not used after all, but a write that was abandoned may still land on it.
    pub(super) fn strand(&mut self, place: ops::Range<u64>) {
        self.stranded.push((self.mark, place));
    }

    /// Whether a settled store would have more free chunks.
    pub(super) fn has_stranded(&self) -> bool {
        !self.stranded.is_empty()
    }

    /// Whether so much is stranded that the store must settle first.
    pub(super) fn must_settle(&self) -> bool {
        self.stranded.len() >= STRANDED_MAX
    }

    /// Before the call to the store's `settle`.
    pub(super) fn mark(&mut self) -> StrandMark {
        let mark = self.mark;
        self.mark = StrandMark(mark.0 + 1);
        mark
    }

    /// The store has settled what was stranded before `mark` was taken.
    pub(super) fn settled(&mut self, mark: StrandMark) {
        let settled = self.stranded.extract_if(.., |(since, _)| *since <= mark);
        let mut places: Vec<ops::Range<u64>> = settled.map(|(_, place)| place).collect();
        // From the back, so that what was last moves the end of what is used.
        places.sort_unstable_by_key(|place| std::cmp::Reverse(place.start));
        for place in places {
            self.give_back(place);
        }
    }
}
