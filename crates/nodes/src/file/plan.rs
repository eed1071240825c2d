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

/// Cuts `range` into pieces of at most `len_max`.
pub(super) fn pieces(range: Range, len_max: u64) -> impl Iterator<Item = Range> {
    let starts =
        (range.offset..range.end()).step_by(usize::try_from(len_max).unwrap_or(usize::MAX));
    starts.map(move |start| Range::new(start, len_max.min(range.end() - start)))
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

/// The allocation of `range` in a file of `file_size` bytes. `seek` finds the next data or hole at
/// or behind an offset; `None`: there is no more data. What lies behind the file's end cannot be
/// read and is reported as data, which promises nothing.
pub(super) fn extents(
    range: Range,
    file_size: u64,
    mut seek: impl FnMut(Seek, u64) -> io::Result<Option<u64>>,
) -> io::Result<Vec<Extent>> {
    let end = range.end().min(file_size);
    let mut extents = Vec::new();
    let mut at = range.offset;
    while at < end && extents.len() < EXTENTS_MAX {
        let data = seek(Seek::Data, at)?.map_or(end, |data| data.clamp(at, end));
        extents.push(extent(at, data, ExtentKind::Hole));
        at = data;
        if at < end {
            let hole = seek(Seek::Hole, at)?.map_or(end, |hole| hole.clamp(at, end));
            extents.push(extent(at, hole, ExtentKind::Data));
            at = hole;
        }
    }
    extents.push(extent(at, range.end(), ExtentKind::Data));
    Ok(merge_extents(extents))
}

fn extent(start: u64, end: u64, kind: ExtentKind) -> Extent {
    Extent {
        range: Range::new(start, end - start),
        kind,
    }
}
