//! [`BootProfile`]: which parts of a disk a machine reads first, to be read ahead in front of its next start. Pure.
//!
//! ```text
//! outboard boot profile 1
//! 0 131072
//! 1048576 262144
//! ```
//!
//! A line is the offset and the length of a range in bytes, in the order of the first read.
//!
//! # Invariants
//!
//! * A profile is a hint: a range beyond the end of a disk is no error, and is left out.
//! * A recording and a profile that is parsed have at most [`GRANULES_MAX`] granules, each counted as often as it is named.
//!
//! # What it does not do
//!
//! It has no bytes of the disk: another disk under the same profile is read ahead at the wrong places, and right.

use std::collections::HashSet;
use std::fmt::Write as _;

use block::Range;

use super::format::GRANULE;

/// Granules that are recorded, 4 GiB of them; what is read later is no start of a machine.
pub(super) const GRANULES_MAX: usize = 32_768;
/// Granules side by side are read ahead together, up to so many bytes.
const READ_MAX: u64 = 512 << 10;
/// The first line.
const HEAD: &str = "outboard boot profile 1";

/// Why a text is no profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BootProfileError {
    /// It is something else, or of a later version.
    #[error("it is no boot profile: the first line is not \"{HEAD}\"")]
    NoProfile,
    /// A line is no range.
    #[error("line {line} is not the offset and the length of a range, in bytes")]
    Line {
        /// Which, from 1.
        line: usize,
    },
    /// More than any recording has.
    #[error("it names more than {GRANULES_MAX} granules of 128 KiB")]
    TooLong,
}

/// Ranges of a disk in the order in which they are to be read ahead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootProfile {
    ranges: Vec<Range>,
}

impl BootProfile {
    /// Parses the text of a profile.
    ///
    /// # Errors
    /// [`BootProfileError`], with the line.
    pub fn parse(text: &str) -> Result<Self, BootProfileError> {
        let mut lines = text.lines().zip(1..);
        if lines.next().is_none_or(|(line, _)| line.trim_end() != HEAD) {
            return Err(BootProfileError::NoProfile);
        }
        let mut ranges = Vec::new();
        let mut left = GRANULES_MAX as u64;
        for (text, line) in lines.filter(|(line, _)| !line.trim().is_empty()) {
            let range = range(text).ok_or(BootProfileError::Line { line })?;
            let granules = range.end().div_ceil(GRANULE) - range.offset / GRANULE;
            left = left
                .checked_sub(granules)
                .ok_or(BootProfileError::TooLong)?;
            ranges.push(range);
        }
        Ok(Self { ranges })
    }

    /// The text of the profile.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEAD}\n");
        for range in &self.ranges {
            writeln!(text, "{} {}", range.offset, range.len).expect("a string has room");
        }
        text
    }

    /// Whether nothing was read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// What is to be read ahead of a disk of this size into so many granules: whole granules, each once, in the order of
    /// the profile, those side by side together.
    pub(super) fn reads(&self, disk_size: u64, granules: u64) -> Vec<Range> {
        let most = usize::try_from(granules).unwrap_or(usize::MAX);
        let inside = self.ranges.iter().filter(|range| range.end() <= disk_size);
        let all = inside.flat_map(|range| range.offset / GRANULE..range.end().div_ceil(GRANULE));
        let mut seen = HashSet::new();
        let new = all.filter(|granule| seen.insert(*granule)).take(most);
        joined(new, disk_size, READ_MAX)
    }
}

/// Granules as ranges in their order, those side by side together, up to `len_max` bytes.
fn joined(granules: impl Iterator<Item = u64>, disk_size: u64, len_max: u64) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for granule in granules {
        let start = granule * GRANULE;
        let len = GRANULE.min(disk_size - start);
        match ranges.last_mut() {
            Some(last) if last.end() == start && last.len + len <= len_max => last.len += len,
            _ => ranges.push(Range::new(start, len)),
        }
    }
    ranges
}

/// A range with bytes in it.
fn range(line: &str) -> Option<Range> {
    let (offset, len) = line.trim().split_once(' ')?;
    let (offset, len): (u64, u64) = (offset.parse().ok()?, len.trim_start().parse().ok()?);
    let end = offset.checked_add(len)?;
    (end > offset).then(|| Range::new(offset, len))
}

/// The granules that are read first.
#[derive(Debug, Default)]
pub(super) struct ProfileRecorder {
    seen: HashSet<u64>,
    order: Vec<u64>,
}

impl ProfileRecorder {
    /// A granule is read.
    pub(super) fn add(&mut self, granule: u64) {
        if self.order.len() < GRANULES_MAX && self.seen.insert(granule) {
            self.order.push(granule);
        }
    }

    /// What was read of a disk of this size.
    pub(super) fn profile(&self, disk_size: u64) -> BootProfile {
        BootProfile {
            ranges: joined(self.order.iter().copied(), disk_size, u64::MAX),
        }
    }
}
