//! What a request on a file becomes: which parts go to fallocate and which are written, what its
//! allocation is. Pure.

use std::io;

use block::{Extent, ExtentKind, Range, WriteFlags, merge_extents};
use rustix::fs::FallocateFlags;

use super::open::FileKind;

/// Extents reported per request; the rest is reported as data, which is always true.
pub(super) const EXTENTS_MAX: usize = 256 * 1024;

/// A range cut at multiples of an alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AlignedParts {
    pub(super) head: Range,
    /// Aligned at both ends; may be empty.
    pub(super) middle: Range,
    pub(super) tail: Range,
}

/// Cuts `range` into what lies before, within and behind whole units of `align`.
pub(super) fn split(range: Range, align: u64) -> AlignedParts {
    let start = range.offset.next_multiple_of(align).min(range.end());
    let end = (range.end() / align * align).max(start);
    AlignedParts {
        head: Range::new(range.offset, start - range.offset),
        middle: Range::new(start, end - start),
        tail: Range::new(end, range.end() - end),
    }
}

/// A way to zero without writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zeroing {
    /// Gives the space back.
    Punch,
    /// Keeps it.
    Keep,
}

impl Zeroing {
    pub(super) const fn flags(self) -> FallocateFlags {
        match self {
            Self::Punch => FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE),
            Self::Keep => FallocateFlags::ZERO_RANGE,
        }
    }
}

/// The ways to carry out a `write_zeroes` with `flags`, best first. None may be supported.
pub(super) const fn zeroing(kind: FileKind, flags: WriteFlags) -> &'static [Zeroing] {
    let keep_space = flags.contains(WriteFlags::NO_HOLE);
    // A device without the command zeroes a range by writing, inside the kernel; only punching is
    // refused instead.
    let keep_may_be_slow =
        matches!(kind, FileKind::Device) && flags.contains(WriteFlags::FAST_ZERO);
    match (keep_space, keep_may_be_slow) {
        (false, false) => &[Zeroing::Punch, Zeroing::Keep],
        (false, true) => &[Zeroing::Punch],
        (true, false) => &[Zeroing::Keep],
        (true, true) => &[],
    }
}

/// What lseek(2) looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seek {
    Data,
    Hole,
}

/// The allocation of a range of a file, found in as many steps as the caller likes. What lies behind the file's end
/// cannot be read and is reported as data, which promises nothing.
#[derive(Debug)]
pub(super) struct Search {
    range: Range,
    /// Of the range, or of the file if that comes first.
    end: u64,
    at: u64,
    extents: Vec<Extent>,
}

impl Search {
    /// Of `range` in a file of `file_size` bytes.
    pub(super) fn new(range: Range, file_size: u64) -> Self {
        Self {
            range,
            end: range.end().min(file_size),
            at: range.offset,
            extents: Vec::new(),
        }
    }

    /// Goes on, with about `seeks_max` seeks at most. `seek` finds the next data or hole at or behind an offset; `None`:
    /// there is no more data. Returns whether the search is over.
    pub(super) fn advance(
        &mut self,
        seeks_max: usize,
        mut seek: impl FnMut(Seek, u64) -> io::Result<Option<u64>>,
    ) -> io::Result<bool> {
        let end = self.end;
        let mut seeks = 0;
        while self.at < end && self.extents.len() < EXTENTS_MAX {
            if seeks >= seeks_max {
                return Ok(false);
            }
            let data = seek(Seek::Data, self.at)?.map_or(end, |data| data.clamp(self.at, end));
            self.extents.push(extent(self.at, data, ExtentKind::Hole));
            self.at = data;
            if data < end {
                let hole = seek(Seek::Hole, data)?.map_or(end, |hole| hole.clamp(data, end));
                self.extents.push(extent(data, hole, ExtentKind::Data));
                self.at = hole;
            }
            seeks += 2;
        }
        Ok(true)
    }

    /// Seeks that were made so far.
    pub(super) fn seeks(&self) -> usize {
        self.extents.len()
    }

    /// Takes what was found, and data for the rest.
    pub(super) fn finish(&mut self) -> Vec<Extent> {
        let mut extents = std::mem::take(&mut self.extents);
        extents.push(extent(self.at, self.range.end(), ExtentKind::Data));
        merge_extents(extents)
    }
}

fn extent(start: u64, end: u64, kind: ExtentKind) -> Extent {
    Extent {
        range: Range::new(start, end - start),
        kind,
    }
}
