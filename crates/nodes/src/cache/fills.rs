//! [`Fills`]: reads of the disk that will fill slots, shared by the readers of the same granules. Pure.
//!
//! # Invariants
//!
//! * A block that a change touches while its fill is in flight is tainted: the fill may have read what was there
//!   before. No tainted block is stored, and no reader that begins later gets it.

use block::Range;

use super::slots::{blocks_of, granules_of};

/// Fills in flight, at most; more reads go to the disk without filling anything.
const FILLS_MAX: usize = 64;

#[derive(Debug)]
struct Fill<S> {
    id: u64,
    /// The first granule, and which blocks of each granule are tainted.
    first: u64,
    tainted: Vec<u32>,
    result: S,
}

/// The fills in flight. `S` is what their readers wait on.
#[derive(Debug)]
pub(super) struct Fills<S>(Vec<Fill<S>>);

impl<S> Default for Fills<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: Clone> Fills<S> {
    pub(super) const fn has_room(&self) -> bool {
        self.0.len() < FILLS_MAX
    }

    /// A fill of these granules begins.
    pub(super) fn begin(&mut self, id: u64, granules: std::ops::Range<u64>, result: S) {
        self.0.push(Fill {
            id,
            first: granules.start,
            tainted: granules.map(|_| 0).collect(),
            result,
        });
    }

    /// A change touches `range`.
    pub(super) fn taint(&mut self, range: Range) {
        for fill in &mut self.0 {
            let Some(parts) = fill.parts(range) else {
                continue;
            };
            for (granule, part) in granules_of(parts) {
                let index = fill.index(granule);
                fill.tainted[index] |= blocks_of(part, false);
            }
        }
    }

    /// The first granule and the result of a fill in flight that will give all of `range`.
    pub(super) fn join(&self, range: Range) -> Option<(u64, S)> {
        let gives = |fill: &&Fill<S>| {
            fill.parts(range) == Some(range)
                && granules_of(range).all(|(granule, part)| {
                    let tainted = fill.tainted[fill.index(granule)];
                    tainted & blocks_of(part, false) == 0
                })
        };
        let fill = self.0.iter().find(gives)?;
        Some((fill.first, fill.result.clone()))
    }

    /// A fill has ended: its granules, and the tainted blocks of each.
    pub(super) fn end(&mut self, id: u64) -> Option<Vec<(u64, u32)>> {
        let at = self.0.iter().position(|fill| fill.id == id)?;
        let fill = self.0.swap_remove(at);
        Some((fill.first..).zip(fill.tainted).collect())
    }
}

impl<S> Fill<S> {
    /// Of a granule that it reads.
    fn index(&self, granule: u64) -> usize {
        Range::new(0, granule - self.first).len_usize()
    }

    /// The part of `range` that lies in the fill.
    fn parts(&self, range: Range) -> Option<Range> {
        let granule = super::format::GRANULE;
        let start = range.offset.max(self.first * granule);
        let end = (self.first + self.tainted.len() as u64) * granule;
        let end = range.end().min(end);
        (start < end).then(|| Range::new(start, end - start))
    }
}
