//! [`RegionMarks`]: which regions of the disk may have changed since the cache file was synced. Pure.
//!
//! ```text
//! clear ──enter──► wanted ──set_durable──► marked ──clear──► clear
//! ```
//!
//! # Invariants
//!
//! * A change goes to the disk only once all of its regions are marked durably.
//! * A region is cleared only if no change of it was in flight, or began, since its candidates were listed: in
//!   between the cache file was synced.

use std::collections::BTreeMap;

use block::Range;

use super::format::{MARKS_PER_SECTOR, REGION};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct RegionMark {
    is_durable: bool,
    in_flight: u32,
    /// Number of the last change that entered.
    last: u64,
}

/// A region that may be cleared once the file was synced, and the last change of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClearCandidate {
    region: u64,
    last: u64,
}

/// A sector of marks to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MarkSector {
    pub(super) sector: u64,
    pub(super) bits: Vec<bool>,
}

/// All regions that are not clear.
#[derive(Debug, Default)]
pub(super) struct RegionMarks(BTreeMap<u64, RegionMark>);

fn regions_of(range: Range) -> std::ops::Range<u64> {
    range.offset / REGION..range.end().div_ceil(REGION)
}

impl RegionMarks {
    /// Change number `change` of `range` begins. True: all of its regions are marked durably already.
    pub(super) fn enter(&mut self, range: Range, change: u64) -> bool {
        regions_of(range).fold(true, |all, region| {
            let mark = self.0.entry(region).or_default();
            mark.in_flight += 1;
            mark.last = change;
            all & mark.is_durable
        })
    }

    /// A change of `range` can land no more.
    pub(super) fn leave(&mut self, range: Range) {
        for region in regions_of(range) {
            let mark = self.0.get_mut(&region);
            let mark = mark.expect("a change leaves the regions that it has entered");
            mark.in_flight -= 1;
        }
    }

    /// Whether all regions of `range` are marked durably.
    #[cfg(test)]
    pub(super) fn are_durable(&self, range: Range) -> bool {
        regions_of(range).all(|region| self.0.get(&region).is_some_and(|mark| mark.is_durable))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Regions that wait to be marked.
    pub(super) fn wanted(&self) -> Vec<u64> {
        let wanted = self.0.iter().filter(|(_, mark)| !mark.is_durable);
        wanted.map(|(&region, _)| region).collect()
    }

    /// The sectors of `regions` as they are to be on the medium.
    pub(super) fn sectors(&self, regions: &[u64]) -> Vec<MarkSector> {
        let mut sectors: Vec<u64> = regions.iter().map(|r| r / MARKS_PER_SECTOR).collect();
        sectors.dedup();
        let bits = |sector: u64| {
            let first = sector * MARKS_PER_SECTOR;
            let regions = first..first + MARKS_PER_SECTOR;
            regions.map(|region| self.0.contains_key(&region)).collect()
        };
        let sector = |sector| MarkSector {
            sector,
            bits: bits(sector),
        };
        sectors.into_iter().map(sector).collect()
    }

    /// The marks of `regions` are durable.
    pub(super) fn set_durable(&mut self, regions: &[u64]) {
        for region in regions {
            if let Some(mark) = self.0.get_mut(region) {
                mark.is_durable = true;
            }
        }
    }

    /// Regions without a change in flight, or one behind number `before`.
    pub(super) fn candidates(&self, before: u64) -> Vec<ClearCandidate> {
        let idle = |(_, mark): &(&u64, &RegionMark)| mark.in_flight == 0 && mark.last <= before;
        let marks = self.0.iter().filter(idle);
        marks
            .map(|(&region, mark)| ClearCandidate {
                region,
                last: mark.last,
            })
            .collect()
    }

    /// Clears those candidates that no change has entered since; returns them. The file was synced in between.
    pub(super) fn clear(&mut self, candidates: &[ClearCandidate]) -> Vec<u64> {
        let mut cleared = Vec::new();
        for &ClearCandidate { region, last } in candidates {
            let mark = self.0.get(&region);
            if mark.is_some_and(|mark| mark.in_flight == 0 && mark.last == last) {
                self.0.remove(&region);
                cleared.push(region);
            }
        }
        cleared
    }
}
