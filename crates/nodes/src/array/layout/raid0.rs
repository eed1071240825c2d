//! RAID 0: zones, in each of which chunks go round the members that reach so far. Pure.
//!
//! ```text
//! member 0   | 0 | 3 | 6 | 9  | 11 |           zone 0: rows 0 to 2, three members
//! member 1   | 1 | 4 | 7 |                     zone 1: rows 3 to 4, two members
//! member 2   | 2 | 5 | 8 | 10 | 12 |
//! ```
//!
//! Kernels before 3.14 began each zone with another member: chunk `n` of the array (not of the zone) was on
//! member `n mod members` of its zone. Arrays whose members are equal have one zone, and do not care.
//!
//! Linux rounds each member down to whole chunks for the zones, but masks its sectors with `!(chunk - 1)` for the size of
//! the array. That is the same for a chunk that is a power of two, and less for any other: the last chunks are in a zone,
//! and not in the array ([`size`]).

use block::Range;

use super::Run;
use crate::array::Raid0Layout;
use crate::array::format::SECTOR;

/// A zone: chunks go round its runs, in their order. All of them have the same length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::array) struct Zone {
    /// What it has of which member.
    pub(in crate::array) runs: Vec<Run>,
}

impl Zone {
    /// Its bytes in the array.
    pub(in crate::array) fn len(&self) -> u64 {
        let lens = self.runs.iter().map(|run| run.within.len);
        lens.fold(0, u64::saturating_add)
    }
}

/// Size of the array of members with `lens` bytes of data each, in chunks of whole sectors, as Linux computes it
/// (`raid0_size`). `None`: it is no number.
pub(in crate::array) fn size(lens: &[u64], chunk: u64) -> Option<u64> {
    let mask = !(chunk / SECTOR).saturating_sub(1);
    let masked = |len: &u64| {
        let rounded = len - len.checked_rem(chunk).unwrap_or(0);
        ((rounded / SECTOR) & mask) * SECTOR
    };
    lens.iter().map(masked).try_fold(0, u64::checked_add)
}

/// The zones of members with `lens` bytes of data each, in order. `None`: there are several, and `layout`
/// does not say how they begin.
pub(in crate::array) fn zones(
    lens: &[u64],
    chunk: u64,
    layout: Option<Raid0Layout>,
) -> Option<Vec<Zone>> {
    let used: Vec<u64> = lens
        .iter()
        .map(|len| len - len.checked_rem(chunk).unwrap_or(0))
        .collect();
    let mut ends: Vec<u64> = used.iter().copied().filter(|len| *len > 0).collect();
    ends.sort_unstable();
    ends.dedup();
    if ends.len() > 1 && layout.is_none() {
        return None;
    }
    let mut zones: Vec<Zone> = Vec::with_capacity(ends.len());
    let (mut start, mut before) = (0, 0_u64);
    for end in ends {
        let members = used.iter().enumerate().filter(|(_, len)| **len > start);
        let mut runs: Vec<Run> = members
            .map(|(part, _)| Run {
                part,
                within: Range::new(start, end - start),
            })
            .collect();
        if layout == Some(Raid0Layout::Original) {
            let first = before / chunk % runs.len() as u64;
            runs.rotate_left(Range::new(0, first).len_usize());
        }
        let zone = Zone { runs };
        before = before.saturating_add(zone.len());
        zones.push(zone);
        start = end;
    }
    Some(zones)
}
