//! Where an array that was being written when it stopped, and lacks members, may be wrong: data of what is lost, computed from parity that may not
//! fit. Pure.
//!
//! # Invariants
//!
//! * A place is named if, and only if, its data are computed, and parity of its columns is not known to fit.
//! * No more than [`ROWS_MAX`] rows are looked at: what lies behind them is named as one.

use block::Range;

use super::super::{PLACES_MAX, UntrustedPlaces};
use super::layout::Layout;
use super::unreadable::Lost;

/// Rows that are looked at one by one.
const ROWS_MAX: u64 = 1 << 18;

/// Looks for places of an array, section by section.
#[derive(Debug)]
pub(in crate::array) struct UntrustedScan {
    found: UntrustedPlaces,
    rows_left: u64,
}

impl UntrustedScan {
    pub(in crate::array) fn new() -> Self {
        Self {
            found: UntrustedPlaces::default(),
            rows_left: ROWS_MAX,
        }
    }

    /// Adds those of `range` of the array, which lies by `layout`.
    pub(in crate::array) fn add(&mut self, layout: &Layout, range: Range, lost: &Lost) {
        let row_len = layout.row_len();
        let (first, behind) = (range.offset / row_len, range.end().div_ceil(row_len));
        let columns = Range::new(first * layout.chunk, (behind - first) * layout.chunk);
        for unsynced in lost.unsynced_within(columns) {
            if !lost.touches_any(unsynced) {
                continue;
            }
            let mut at = unsynced.offset;
            while at < unsynced.end() {
                let row = at / layout.chunk;
                if self.rows_left == 0 {
                    let start = (row * row_len).max(range.offset);
                    self.found.rest = Some(Range::new(start, range.end() - start));
                    return;
                }
                self.rows_left -= 1;
                let end = ((row + 1) * layout.chunk).min(unsynced.end());
                self.add_row(layout, range, row, (Range::new(at, end - at), lost));
                at = end;
            }
        }
    }

    fn add_row(&mut self, layout: &Layout, range: Range, row: u64, columns: (Range, &Lost)) {
        let (columns, lost) = columns;
        let of = layout.row(row);
        for index in 0..layout.data() {
            let first = row * layout.row_len() + index as u64 * layout.chunk;
            for held in lost.lost_within(of.part(index), columns) {
                let start = (first + held.offset - row * layout.chunk).max(range.offset);
                let end = (first + held.end() - row * layout.chunk).min(range.end());
                if start < end {
                    self.add_place(Range::new(start, end - start));
                }
            }
        }
    }

    fn add_place(&mut self, place: Range) {
        self.found.count += 1;
        self.found.bytes += place.len;
        if self.found.places.len() < PLACES_MAX {
            self.found.places.push(place);
        }
    }

    /// What was found; `None`: nothing.
    pub(in crate::array) fn finish(self) -> Option<UntrustedPlaces> {
        let is_any = self.found.count > 0 || self.found.rest.is_some();
        is_any.then_some(self.found)
    }
}
