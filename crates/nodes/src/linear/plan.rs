//! Which segments a request falls on. Pure.

use block::Range;

use crate::parts::{Layout, Share};

/// The segments' ends on the composed disk, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Map {
    ends: Vec<u64>,
}

impl Map {
    /// Segments of these lengths, one behind the other. Their sum was checked to be a disk's size.
    pub(super) fn new(lens: impl Iterator<Item = u64>) -> Self {
        let mut at = 0;
        let ends = lens.map(|len| {
            at += len;
            at
        });
        Self {
            ends: ends.collect(),
        }
    }

    #[inline]
    fn index_of(&self, offset: u64) -> usize {
        self.ends.partition_point(|&end| end <= offset)
    }

    fn within(&self, index: usize, range: Range) -> Range {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Range::new(range.offset - start, range.len)
    }
}

impl Layout for Map {
    #[inline]
    fn single(&self, range: Range) -> Option<(usize, Range)> {
        let index = self.index_of(range.offset);
        let end = *self.ends.get(index)?;
        (range.end() <= end).then(|| (index, self.within(index, range)))
    }

    fn run(&self, offset: u64) -> u64 {
        let end = self.ends.get(self.index_of(offset));
        end.map_or(0, |end| end - offset)
    }

    fn shares(&self, range: Range) -> Vec<Share> {
        let mut shares = Vec::new();
        let mut at = range.offset;
        for (index, &end) in self.ends.iter().enumerate().skip(self.index_of(at)) {
            let piece = Range::new(at, end.min(range.end()) - at);
            if piece.is_empty() {
                break;
            }
            let start = at - range.offset;
            shares.push(Share::single(index, self.within(index, piece), start));
            at = piece.end();
        }
        shares
    }
}
