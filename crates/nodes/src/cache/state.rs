//! [`CacheState`]: what the slots hold, and which fills and changes are in flight. Pure.
//!
//! # Invariants
//!
//! * A block is valid only while its slot holds what the disk holds: a change takes its blocks out when it begins,
//!   and they are valid again only with the data of a change that no other one overlapped, or of a fill that began
//!   after the change had ended.
//! * A change that failed or was dropped may land late: its blocks stay invalid until the disk has settled.

use block::Range;

use super::fills::Fills;
use super::format::{BLOCK, CacheLayout};
use super::marks::RegionMarks;
use super::profile::ProfileRecorder;
use super::slots::{SlotLookup, SlotTable, StoreJob, blocks_of, granules_of};

/// A piece of a request within one granule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CachePiece {
    pub(super) range: Range,
    pub(super) found: SlotLookup,
}

/// A change in flight.
#[derive(Debug)]
struct CacheChange {
    id: u64,
    range: Range,
    /// Another one overlapped it: which came last is unknown.
    conflict: bool,
}

/// The state. `S` is what the readers of a fill wait on.
#[derive(Debug)]
pub(super) struct CacheState<S> {
    layout: CacheLayout,
    pub(super) slots: SlotTable,
    changes: Vec<CacheChange>,
    /// Changes that may land late, and when they were given up.
    abandoned: Vec<(u64, Range)>,
    pub(super) fills: Fills<S>,
    pub(super) marks: RegionMarks,
    /// What is read first, while that is recorded.
    pub(super) recorder: Option<ProfileRecorder>,
    next: u64,
}

/// Number of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CacheChangeId(u64);

impl<S: Clone> CacheState<S> {
    /// A cache with these slots.
    pub(super) fn new(layout: CacheLayout, slots: SlotTable) -> Self {
        Self {
            layout,
            slots,
            changes: Vec::new(),
            abandoned: Vec::new(),
            fills: Fills::default(),
            marks: RegionMarks::default(),
            recorder: None,
            next: 0,
        }
    }

    /// The pieces of a read.
    pub(super) fn pieces(&mut self, range: Range) -> Vec<CachePiece> {
        let mut pieces = Vec::new();
        for (granule, part) in granules_of(range) {
            if let Some(recorder) = &mut self.recorder {
                recorder.add(granule);
            }
            let cached_end = self.layout.disk_size / BLOCK * BLOCK;
            let end = part.end().min(cached_end.max(part.offset));
            let cached = Range::new(part.offset, end - part.offset);
            let rest = Range::new(end, part.end() - end);
            if !cached.is_empty() {
                let found = self.slots.find(granule, cached);
                pieces.push(CachePiece {
                    range: cached,
                    found,
                });
            }
            if !rest.is_empty() {
                let found = SlotLookup::Uncached;
                pieces.push(CachePiece { range: rest, found });
            }
        }
        pieces
    }

    const fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A change of `range` begins. True: its regions are marked durably already.
    pub(super) fn begin_change(&mut self, range: Range) -> (CacheChangeId, bool) {
        let id = self.tick();
        self.slots.invalidate(range);
        self.fills.taint(range);
        let outer = block_hull(range);
        let mut conflict = false;
        for change in &mut self.changes {
            if block_hull(change.range).overlaps(&outer) {
                (conflict, change.conflict) = (true, true);
            }
        }
        self.changes.push(CacheChange {
            id,
            range,
            conflict,
        });
        (CacheChangeId(id), self.marks.enter(range, id))
    }

    fn take_change(&mut self, id: CacheChangeId) -> CacheChange {
        let at = self.changes.iter().position(|change| change.id == id.0);
        self.changes.swap_remove(at.expect("a change ends once"))
    }

    /// A change ended before anything of it was sent.
    pub(super) fn cancel_change(&mut self, id: CacheChangeId) {
        let range = self.take_change(id).range;
        self.marks.leave(range);
    }

    /// A change failed, or was dropped in flight: it may land late.
    pub(super) fn abandon_change(&mut self, id: CacheChangeId) {
        let range = self.take_change(id).range;
        let now = self.tick();
        self.abandoned.push((now, range));
    }

    /// A change has ended well. What of its data is to be stored, if it `is_stored` at all.
    pub(super) fn finish_change(&mut self, id: CacheChangeId, is_stored: bool) -> Vec<StoreJob> {
        let CacheChange {
            range, conflict, ..
        } = self.take_change(id);
        self.marks.leave(range);
        if !is_stored || conflict || self.slots.is_disabled() || self.may_land_late(range) {
            return Vec::new();
        }
        let parts = granules_of(range);
        parts
            .filter_map(|(granule, part)| self.slots.begin_store(granule, blocks_of(part, true)))
            .collect()
    }

    /// Whether a change that was abandoned may still land on blocks of `range`.
    pub(super) fn may_land_late(&self, range: Range) -> bool {
        let outer = block_hull(range);
        let mut abandoned = self.abandoned.iter();
        abandoned.any(|(_, there)| block_hull(*there).overlaps(&outer))
    }

    /// Changes that were abandoned and may still land.
    pub(super) const fn abandoned_count(&self) -> usize {
        self.abandoned.len()
    }

    pub(super) const fn now(&self) -> u64 {
        self.next
    }

    /// The disk has settled what was abandoned until `moment`.
    pub(super) fn settled(&mut self, moment: u64) {
        let marks = &mut self.marks;
        self.abandoned.retain(|&(since, range)| {
            let is_late = since > moment;
            if !is_late {
                marks.leave(range);
            }
            is_late
        });
    }

    /// A fill of these granules begins, for readers that wait on `result`. `None`: it may not.
    pub(super) fn begin_fill(&mut self, granules: std::ops::Range<u64>, result: S) -> Option<u64> {
        if self.slots.is_disabled() || !self.fills.has_room() {
            return None;
        }
        let id = self.tick();
        self.fills.begin(id, granules, result);
        let in_flight = self.changes.iter().map(|change| change.range);
        let late = self.abandoned.iter().map(|&(_, range)| range);
        let ranges: Vec<Range> = in_flight.chain(late).collect();
        ranges.into_iter().for_each(|range| self.fills.taint(range));
        Some(id)
    }

    /// A fill has its data: what of it is to be stored.
    pub(super) fn finish_fill(&mut self, id: u64) -> Vec<StoreJob> {
        let Some(granules) = self.fills.end(id) else {
            return Vec::new();
        };
        let mut jobs = Vec::new();
        for (granule, tainted) in granules {
            let blocks = self.layout.whole_blocks(granule) & !tainted & !self.slots.valid(granule);
            jobs.extend(self.slots.begin_store(granule, blocks));
        }
        jobs
    }
}

/// The whole blocks around a range.
fn block_hull(range: Range) -> Range {
    let start = range.offset / BLOCK * BLOCK;
    Range::new(start, range.end().next_multiple_of(BLOCK) - start)
}
