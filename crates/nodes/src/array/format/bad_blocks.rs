//! [`BadBlocks`]: the log of what cannot be read of a member. Pure.
//!
//! ```text
//! 8 bytes for each run:  sector << 10 | sectors (1 to 512), counted from the beginning of the disk
//! all ones               no more runs
//! ```
//!
//! Linux adds the data offset before it notes a run, and reads the log as it is (`rdev_set_badblocks`, `super_1_load` and `is_badblock` of its
//! `md`). [`from_data`] and [`of_data`] go from there to bytes of the data, and back.
//!
//! # Invariants
//!
//! * Runs are in order and apart from each other.
//! * No input panics, and no more than [`RUNS_MAX`] runs are read.

use block::Range;

use super::SECTOR;

/// Most runs of a log, as with Linux.
pub const RUNS_MAX: usize = 512;
/// Longest log, bytes.
pub const LOG_MAX: u64 = 4096;
/// Units of one run, at most.
const RUN_MAX: u64 = 512;
/// Largest shift of a sector to a unit: 512 MiB.
const SHIFT_MAX: u8 = 20;
const END: u64 = u64::MAX;

/// What is wrong with a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A unit that does not exist.
    #[error("its log of bad blocks has units of 2^{0} sectors")]
    Shift(u8),
    /// Longer than Linux reads.
    #[error("its log of bad blocks has {0} bytes, more than {LOG_MAX}")]
    Len(u64),
    /// A run that lies nowhere.
    #[error("its log of bad blocks names sector {0}")]
    Run(u64),
}

/// Where bytes of a member's data, which begin at byte `data_at` of the disk, are on the disk.
#[must_use]
pub const fn from_data(data_at: u64, within: Range) -> Range {
    Range::new(data_at + within.offset, within.len)
}

/// The data that are in `run` of the disk; `None`: it lies before all of them.
#[must_use]
pub fn of_data(data_at: u64, run: Range) -> Option<Range> {
    let start = run.offset.max(data_at);
    let end = run.end();
    (start < end).then(|| Range::new(start - data_at, end - start))
}

/// What cannot be read of a member's disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadBlocks {
    runs: Vec<Range>,
    /// Bytes of a unit.
    unit: u64,
    /// Bytes of the log.
    len: u64,
}

impl BadBlocks {
    /// None, in a log of `len` bytes.
    ///
    /// # Errors
    /// [`Problem`]: such a log cannot be.
    pub const fn none(len: u64, shift: u8) -> Result<Self, Problem> {
        if shift > SHIFT_MAX {
            return Err(Problem::Shift(shift));
        }
        if len > LOG_MAX {
            return Err(Problem::Len(len));
        }
        Ok(Self {
            runs: Vec::new(),
            unit: SECTOR << shift,
            len,
        })
    }

    /// Reads a log. It counts only where the superblock's features say that it has entries.
    ///
    /// # Errors
    /// [`Problem`]: it cannot be.
    pub fn decode(log: &[u8], shift: u8) -> Result<Self, Problem> {
        let mut bad = Self::none(log.len() as u64, shift)?;
        for entry in log.chunks_exact(8).take(RUNS_MAX) {
            let mut eight = [0; 8];
            eight.copy_from_slice(entry);
            let entry = u64::from_le_bytes(eight);
            if entry == END {
                break;
            }
            let (first, units) = (entry >> 10, entry & 0x3ff);
            // A run that ends behind what can be recorded could not be written again.
            let end = first
                .checked_add(units)
                .and_then(|end| end.checked_mul(bad.unit));
            if end.is_none_or(|end| i64::try_from(end).is_err()) {
                return Err(Problem::Run(first));
            }
            bad.add(Range::new(first * bad.unit, units * bad.unit));
        }
        Ok(bad)
    }

    /// The bytes of the log. `None`: there are more runs than it has room for.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut log = Vec::with_capacity(self.room() * 8);
        for run in &self.runs {
            let (mut first, mut left) = (run.offset / self.unit, run.len / self.unit);
            while left > 0 {
                let units = left.min(RUN_MAX);
                log.extend_from_slice(&(first << 10 | units).to_le_bytes());
                (first, left) = (first + units, left - units);
            }
        }
        let len = Range::new(0, self.len).len_usize();
        if log.len() > self.room() * 8 {
            return None;
        }
        log.resize(len, 0xff);
        Some(log)
    }

    /// Entries that there is room for.
    fn room(&self) -> usize {
        (Range::new(0, self.len).len_usize() / 8).min(RUNS_MAX)
    }

    /// What cannot be read, bytes of the disk; in order, apart from each other.
    #[must_use]
    pub fn runs(&self) -> &[Range] {
        &self.runs
    }

    /// The first bytes of `range` that cannot be read, as many as lie together.
    #[must_use]
    pub fn first_in(&self, range: Range) -> Option<Range> {
        let behind = self.runs.partition_point(|run| run.end() <= range.offset);
        let run = self.runs.get(behind).filter(|run| run.overlaps(&range))?;
        let start = run.offset.max(range.offset);
        Some(Range::new(start, run.end().min(range.end()) - start))
    }

    /// Adds `range`, as whole units around it.
    pub fn add(&mut self, range: Range) {
        if range.is_empty() {
            return;
        }
        let start = range.offset / self.unit * self.unit;
        let end = range.end().next_multiple_of(self.unit);
        let mut all = Range::new(start, end - start);
        // Runs that touch become one.
        let first = self.runs.partition_point(|run| run.end() < all.offset);
        let last = self.runs.partition_point(|run| run.offset <= all.end());
        for run in &self.runs[first..last] {
            let end = all.end().max(run.end());
            let start = all.offset.min(run.offset);
            all = Range::new(start, end - start);
        }
        self.runs.splice(first..last, [all]);
    }

    /// Takes `range` out, as whole units within it: what was rewritten can be read.
    pub fn remove(&mut self, range: Range) {
        let start = range.offset.next_multiple_of(self.unit);
        let end = range.end() / self.unit * self.unit;
        if start >= end {
            return;
        }
        let first = self.runs.partition_point(|run| run.end() <= start);
        let last = self.runs.partition_point(|run| run.offset < end);
        let left = |run: &Range| Range::new(run.offset, start.saturating_sub(run.offset));
        let right = |run: &Range| {
            let from = end.max(run.offset);
            Range::new(from, run.end().saturating_sub(from))
        };
        let touched = self.runs[first..last].iter();
        let kept = touched.flat_map(|run| [left(run), right(run)]);
        let kept: Vec<Range> = kept.filter(|run| !run.is_empty()).collect();
        self.runs.splice(first..last, kept);
    }
}
