//! What cannot be read of which part, and where parity is not to be trusted. Pure.
//!
//! Places are bytes of a member's data, in whole blocks of the array.

use block::Range;

/// Ranges in order that neither touch nor overlap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::array) struct Ranges(Vec<Range>);

impl Ranges {
    /// Adds a range; what it touches becomes one with it.
    pub(in crate::array) fn add(&mut self, range: Range) {
        if range.is_empty() {
            return;
        }
        let first = self.0.partition_point(|held| held.end() < range.offset);
        let behind = self.0.partition_point(|held| held.offset <= range.end());
        let touched = &self.0[first..behind];
        let offset = touched
            .first()
            .map_or(range.offset, |held| held.offset.min(range.offset));
        let end = touched
            .last()
            .map_or(range.end(), |held| held.end().max(range.end()));
        self.0
            .splice(first..behind, [Range::new(offset, end - offset)]);
    }

    /// Those that have bytes in `within`, cut to it.
    pub(in crate::array) fn within(&self, within: Range) -> impl Iterator<Item = Range> {
        let first = self.0.partition_point(|held| held.end() <= within.offset);
        let held = self.0[first..].iter();
        held.take_while(move |held| held.offset < within.end())
            .map(move |held| {
                let start = held.offset.max(within.offset);
                Range::new(start, held.end().min(within.end()) - start)
            })
            .filter(|held| !held.is_empty())
    }

    /// What of `within` is in none of them, in order.
    pub(in crate::array) fn outside(&self, within: Range) -> Vec<Range> {
        let mut gaps = Vec::new();
        let mut at = within.offset;
        for held in self.within(within) {
            gaps.push(Range::new(at, held.offset - at));
            at = held.end();
        }
        gaps.push(Range::new(at, within.end() - at));
        gaps.retain(|gap| !gap.is_empty());
        gaps
    }

    /// The first one.
    pub(in crate::array) fn first(&self) -> Option<Range> {
        self.0.first().copied()
    }

    /// How many there are.
    pub(in crate::array) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether any byte of `range` is in them.
    pub(in crate::array) fn touch(&self, range: Range) -> bool {
        self.within(range).next().is_some()
    }
}

/// What cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::array) struct Lost {
    /// By part.
    parts: Vec<Ranges>,
    /// Where parity may not fit the data.
    unsynced: Ranges,
    /// Unit of all places, bytes.
    block: u64,
}

impl Lost {
    /// Nothing, of `parts` parts in blocks of `block` bytes.
    pub(in crate::array) fn nothing(parts: usize, block: u64) -> Self {
        Self {
            parts: vec![Ranges::default(); parts],
            unsynced: Ranges::default(),
            block,
        }
    }

    /// Adds what cannot be read of `part`: all blocks that it touches.
    pub(in crate::array) fn add(&mut self, part: usize, range: Range) {
        self.parts[part].add(widened(range, self.block));
    }

    /// Adds where parity is not to be trusted.
    pub(in crate::array) fn add_unsynced(&mut self, range: Range) {
        self.unsynced.add(widened(range, self.block));
    }

    /// Whether any of these bytes of a part cannot be read.
    pub(in crate::array) fn touches(&self, part: usize, range: Range) -> bool {
        self.parts[part].touch(range)
    }

    /// Whether none of these bytes of a part can be read.
    pub(in crate::array) fn covers(&self, part: usize, range: Range) -> bool {
        let of_part = self.parts.get(part);
        of_part.is_some_and(|lost| lost.outside(range).is_empty())
    }

    /// Whether any of these bytes of any part cannot be read.
    pub(in crate::array) fn touches_any(&self, range: Range) -> bool {
        self.parts.iter().any(|part| part.touch(range))
    }

    /// Whether parity is not to be trusted at any of these bytes.
    pub(in crate::array) fn is_unsynced(&self, range: Range) -> bool {
        self.unsynced.touch(range)
    }

    /// Where within `range` parity is not to be trusted, in order.
    pub(in crate::array) fn unsynced_within(&self, range: Range) -> impl Iterator<Item = Range> {
        self.unsynced.within(range)
    }

    /// What cannot be read of a part within `range`, in order.
    pub(in crate::array) fn lost_within(
        &self,
        part: usize,
        range: Range,
    ) -> impl Iterator<Item = Range> {
        self.parts[part].within(range)
    }

    /// The parts of which bytes of `range` cannot be read.
    pub(in crate::array) fn lost(&self, range: Range) -> Vec<usize> {
        let parts = self.parts.iter().enumerate();
        let lost = parts.filter(|(_, lost)| lost.touch(range));
        lost.map(|(part, _)| part).collect()
    }

    /// The places within `range` where something begins or ends to be lost.
    pub(in crate::array) fn borders(&self, range: Range) -> Vec<u64> {
        let all = self.parts.iter().chain([&self.unsynced]);
        let lost = all.flat_map(|lost| lost.within(range));
        lost.flat_map(|lost| [lost.offset, lost.end()]).collect()
    }

    /// The same, of `range` alone.
    pub(in crate::array) fn cut(&self, range: Range) -> Self {
        let cut = |ranges: &Ranges| Ranges(ranges.within(range).collect());
        Self {
            parts: self.parts.iter().map(cut).collect(),
            unsynced: cut(&self.unsynced),
            block: self.block,
        }
    }
}

/// The blocks that `range` touches.
fn widened(range: Range, block: u64) -> Range {
    let start = range.offset / block * block;
    let end = range.end().div_ceil(block).saturating_mul(block);
    Range::new(start, end - start)
}
