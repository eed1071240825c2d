//! Where a request lies among the blocks of the disk below, and how data is cut. Pure.

use block::{Extent, IoBufs, Range};

/// A request among whole blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockSpan {
    /// The request.
    pub(super) range: Range,
    /// The blocks it touches.
    pub(super) outer: Range,
    /// The blocks it covers whole; may be empty.
    pub(super) inner: Range,
}

impl BlockSpan {
    /// Finds the blocks of `block` bytes of `range`.
    pub(super) fn of(range: Range, block: u64) -> Self {
        let start = range.offset / block * block;
        let end = range.end().next_multiple_of(block);
        let first = range.offset.next_multiple_of(block);
        let last = (range.end() / block * block).max(first);
        let whole = !range.is_empty() && first < last;
        Self {
            range,
            outer: if range.is_empty() {
                range
            } else {
                between(start, end)
            },
            inner: if whole {
                between(first, last)
            } else {
                Range::new(range.offset, 0)
            },
        }
    }

    /// Whether the request is made of whole blocks.
    pub(super) fn is_whole(&self) -> bool {
        self.outer == self.range
    }

    /// The parts of the request that do not fill their block, each within one block.
    pub(super) fn edges(&self, block: u64) -> impl Iterator<Item = Range> {
        let Range { offset, len } = self.range;
        let end = self.range.end();
        let parts = if self.inner.is_empty() {
            // Within one block, or the end of one and the beginning of the next.
            let cut = offset.next_multiple_of(block).clamp(offset, end);
            [between(offset, cut), between(cut, end)]
        } else {
            [
                between(offset, self.inner.offset),
                between(self.inner.end(), end),
            ]
        };
        debug_assert!(parts.iter().all(|part| part.len <= len));
        parts.into_iter().filter(|part| !part.is_empty())
    }
}

const fn between(start: u64, end: u64) -> Range {
    Range::new(start, end - start)
}

/// `len` bytes of `data`, from byte `start` of it on. Nothing is copied.
pub(crate) fn slice(data: &IoBufs, start: usize, len: usize) -> IoBufs {
    let mut skip = start;
    let mut left = len;
    let mut cut = IoBufs::new();
    for piece in data {
        let from = skip.min(piece.len());
        let to = from + left.min(piece.len() - from);
        if from < to {
            cut.push(piece.slice(from..to));
        }
        skip -= from;
        left -= to - from;
    }
    cut
}

/// The status of `range` by `extents`, which cover it.
pub(super) fn clip(extents: Vec<Extent>, range: Range) -> Vec<Extent> {
    let within = extents.into_iter().map(|extent| {
        let start = extent.range.offset.clamp(range.offset, range.end());
        let end = extent.range.end().clamp(start, range.end());
        Extent {
            range: between(start, end),
            ..extent
        }
    });
    within.filter(|extent| !extent.range.is_empty()).collect()
}
