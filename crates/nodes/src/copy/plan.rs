//! What is to be done with each part of a disk that is copied. Pure.
//!
//! ```text
//! source   |data data|hole           |data|zero     |
//! target   |anything          |hole  |anything      |
//!          |Data     |Zero    |Keep  |Data|Zero     |
//! ```
//!
//! # Invariants
//!
//! * The runs of a window cover it, in order, without a gap.
//! * Nothing is left as it is unless the target is known to read as zeroes there, and the source
//!   too.
//! * Runs begin and end at whole units, but for the end of the disk. Where only ranges of a disk are copied, they are cut
//!   to these afterwards, which are whole blocks of both disks.

use std::collections::VecDeque;

use block::{Extent, ExtentKind, IoBufs, Range};
use smallvec::SmallVec;

use crate::zeroes::is_zero;

/// Runs of zeroes are looked for in cells of this size at least, bytes: a smaller one costs more
/// requests than it saves.
pub(super) const CELL_MIN: u64 = 32 * 1024;

/// What to do with a run of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Read and write.
    Data {
        /// The target reads as zeroes here: zeroes need not be written.
        onto_zeroes: bool,
    },
    /// The source reads as zeroes: zero the target.
    Zero,
    /// Both read as zeroes.
    Keep,
}

/// A run of bytes and what to do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataRun {
    pub(super) range: Range,
    pub(super) action: Action,
}

/// What is known of both disks in a window.
#[derive(Debug, Clone, Copy)]
pub(super) struct CopyWindow<'a> {
    /// Begins at a whole unit.
    pub(super) range: Range,
    /// The source's extents.
    pub(super) source: &'a [Extent],
    /// The target's; none if nothing is known of it.
    pub(super) target: &'a [Extent],
    /// Runs begin and end at multiples of this.
    pub(super) unit: u64,
    /// Where the disk ends.
    pub(super) size: u64,
}

/// Decides on a window.
pub(super) fn runs(window: &CopyWindow<'_>) -> Vec<DataRun> {
    let source = zeroes(window, window.source);
    let target = zeroes(window, window.target);
    let mut cuts = vec![window.range.offset, window.range.end()];
    cuts.extend(edges(&source).chain(edges(&target)));
    cuts.sort_unstable();
    cuts.dedup();
    let mut runs: Vec<DataRun> = Vec::new();
    let (mut from, mut onto) = (Cursor::new(&source), Cursor::new(&target));
    for pair in cuts.windows(2) {
        let range = Range::new(pair[0], pair[1] - pair[0]);
        let action = match (from.covers(range), onto.covers(range)) {
            (false, onto_zeroes) => Action::Data { onto_zeroes },
            (true, false) => Action::Zero,
            (true, true) => Action::Keep,
        };
        match runs.last_mut() {
            Some(last) if last.action == action => last.range.len += range.len,
            _ => runs.push(DataRun { range, action }),
        }
    }
    runs
}

/// `ranges`, which rise, each extended to whole blocks of `block` bytes, and joined where they meet then. Empty ones have no block.
pub(super) fn whole_blocks(ranges: &[Range], block: u64, size: u64) -> Vec<Range> {
    let mut whole: Vec<Range> = Vec::new();
    for range in ranges.iter().filter(|range| !range.is_empty()) {
        let start = range.offset / block * block;
        let end = range.end().next_multiple_of(block).min(size);
        match whole.last_mut() {
            Some(last) if start <= last.end() => {
                last.len = end.max(last.end()) - last.offset;
            }
            _ => whole.push(Range::new(start, end - start)),
        }
    }
    whole
}

/// The parts of `runs` that lie in `ranges`. Both rise.
pub(super) fn within(runs: &[DataRun], ranges: &[Range]) -> Vec<DataRun> {
    let mut parts = Vec::new();
    for run in runs {
        let first = ranges.partition_point(|range| range.end() <= run.range.offset);
        let overlapping = ranges[first..].iter();
        for range in overlapping.take_while(|range| range.offset < run.range.end()) {
            let start = run.range.offset.max(range.offset);
            let end = run.range.end().min(range.end());
            parts.push(DataRun {
                range: Range::new(start, end - start),
                action: run.action,
            });
        }
    }
    parts
}

/// Where `extents` are known to read as zeroes, in whole units of the window, joined.
fn zeroes(window: &CopyWindow<'_>, extents: &[Extent]) -> Vec<Range> {
    let mut joined: Vec<Range> = Vec::new();
    for extent in extents.iter().filter(|e| e.kind != ExtentKind::Data) {
        match joined.last_mut() {
            Some(last) if last.end() == extent.range.offset => last.len += extent.range.len,
            _ => joined.push(extent.range),
        }
    }
    let whole = joined.into_iter().map(|range| {
        let start = range.offset.max(window.range.offset);
        let end = range.end().min(window.range.end());
        let start = start.next_multiple_of(window.unit);
        let end = if end == window.size {
            end
        } else {
            end / window.unit * window.unit
        };
        Range::new(start, end.saturating_sub(start))
    });
    whole.filter(|range| !range.is_empty()).collect()
}

fn edges(ranges: &[Range]) -> impl Iterator<Item = u64> {
    ranges.iter().flat_map(|range| [range.offset, range.end()])
}

/// Goes through ranges that rise.
struct Cursor<'a> {
    rest: std::slice::Iter<'a, Range>,
    at: Option<&'a Range>,
}

impl<'a> Cursor<'a> {
    fn new(ranges: &'a [Range]) -> Self {
        let mut rest = ranges.iter();
        let at = rest.next();
        Self { rest, at }
    }

    /// Whether `range`, which rises from call to call, lies in one of them.
    fn covers(&mut self, range: Range) -> bool {
        while self.at.is_some_and(|at| at.end() <= range.offset) {
            self.at = self.rest.next();
        }
        self.at
            .is_some_and(|at| at.offset <= range.offset && range.end() <= at.end())
    }
}

/// Longest pieces, bytes: multiples of the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PieceMax {
    /// Of what is read and written.
    pub(super) data: u64,
    /// Of what is zeroed.
    pub(super) zero: u64,
}

/// Runs that are still to be done, cut into pieces on the way out.
#[derive(Debug, Default)]
pub(super) struct CopyQueue {
    runs: VecDeque<DataRun>,
}

impl CopyQueue {
    pub(super) fn extend(&mut self, runs: Vec<DataRun>) {
        self.runs.extend(runs);
    }

    /// Runs that wait.
    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    /// The next piece.
    pub(super) fn pop(&mut self, max: PieceMax) -> Option<DataRun> {
        let first = self.runs.front_mut()?;
        let len_max = match first.action {
            Action::Data { .. } => max.data,
            Action::Zero => max.zero,
            Action::Keep => u64::MAX,
        };
        // Up to a multiple of the longest piece: later pieces lie as well as the disk does.
        let to_boundary = len_max - first.range.offset % len_max;
        if first.range.len <= to_boundary {
            return self.runs.pop_front();
        }
        let piece = Range::new(first.range.offset, to_boundary);
        first.range = Range::new(piece.end(), first.range.len - piece.len);
        let action = first.action;
        Some(DataRun {
            range: piece,
            action,
        })
    }
}

/// A part of data that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CopyPart {
    pub(super) range: Range,
    /// All of it zeroes.
    pub(super) zero: bool,
}

/// Looks for zeroes in the `data` of `range`, by cells of `cell` bytes of the disk.
pub(super) fn parts(range: Range, data: &IoBufs, cell: u64) -> SmallVec<[CopyPart; 4]> {
    let mut parts: SmallVec<[CopyPart; 4]> = SmallVec::new();
    let mut rest = data.iter();
    let mut slice: &[u8] = &[];
    let mut at = range.offset;
    while at < range.end() {
        let end = (at / cell + 1).saturating_mul(cell).min(range.end());
        let mut left = end - at;
        let mut zero = true;
        while left > 0 {
            if slice.is_empty() {
                slice = rest.next().expect("data fills its range");
                continue;
            }
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(slice.len());
            let (here, later) = slice.split_at(len);
            zero = zero && is_zero(here);
            slice = later;
            left -= len as u64;
        }
        match parts.last_mut() {
            Some(last) if last.zero == zero => last.range.len += end - at,
            _ => parts.push(CopyPart {
                range: Range::new(at, end - at),
                zero,
            }),
        }
        at = end;
    }
    parts
}

/// Where two answers of one length differ first.
pub(super) fn first_difference(one: &IoBufs, other: &IoBufs) -> Option<u64> {
    let (mut ones, mut others) = (one.iter(), other.iter());
    let (mut left, mut right): (&[u8], &[u8]) = (&[], &[]);
    let mut at = 0;
    loop {
        while left.is_empty() {
            match ones.next() {
                Some(slice) => left = slice,
                None => return None,
            }
        }
        while right.is_empty() {
            right = others.next()?;
        }
        let len = left.len().min(right.len());
        let ((here, left_rest), (there, right_rest)) = (left.split_at(len), right.split_at(len));
        if here != there {
            let differ = here.iter().zip(there).position(|(a, b)| a != b);
            return differ.map(|within| at + within as u64);
        }
        (left, right) = (left_rest, right_rest);
        at += len as u64;
    }
}
