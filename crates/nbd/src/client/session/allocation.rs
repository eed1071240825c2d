//! [`Allocation`]: what a server says of the allocation of a range, as it arrives. Pure.
//!
//! A server may report less than was requested, or end behind it; the extents here begin where the
//! range begins, follow each other without a gap, end with or before the range, and lie on blocks.
//! A block of which a part may hold data is data.

use block::{Extent, ExtentKind, Range};
use nbd_proto::AllocationFlags;

use crate::client::limits;

/// The allocation of a range so far.
#[derive(Debug)]
pub(crate) struct Allocation {
    range: Range,
    block_size: u64,
    /// End of what the server reported.
    reported: u64,
    /// Neighbours of one kind are one.
    extents: Vec<Extent>,
    /// More extents do not fit: the caller gets them by a request from the end of these on.
    full: bool,
}

impl Allocation {
    /// Nothing of `range`, which lies on blocks of `block_size` bytes.
    pub(crate) fn new(range: Range, block_size: u32) -> Self {
        Self {
            range,
            block_size: u64::from(block_size.max(1)),
            reported: range.offset,
            extents: Vec::new(),
            full: false,
        }
    }

    /// The same from its beginning.
    pub(crate) fn again(&mut self) {
        self.reported = self.range.offset;
        self.extents.clear();
        self.full = false;
    }

    /// The next `len` bytes have this status in `base:allocation`.
    pub(crate) fn add(&mut self, len: u64, status: u64) {
        let kind = kind_of(status);
        let end = self.reported.saturating_add(len).min(self.range.end());
        self.reported = end;
        // The block in which the last extent ended was counted as data already.
        let start = self.end();
        if end <= start {
            return;
        }
        let rest = match end == self.range.end() {
            true => 0,
            false => end % self.block_size,
        };
        self.push(end - rest, kind);
        if rest > 0 {
            self.push(end - rest + self.block_size, ExtentKind::Data);
        }
    }

    /// End of the extents.
    fn end(&self) -> u64 {
        let last = self.extents.last();
        last.map_or(self.range.offset, |extent| extent.range.end())
    }

    fn push(&mut self, end: u64, kind: ExtentKind) {
        let start = self.end();
        if end <= start || self.full {
            return;
        }
        let room = self.extents.len() < limits::EXTENTS_AT_ONCE;
        match self.extents.last_mut() {
            Some(last) if last.kind == kind => last.range.len += end - start,
            _ if room => self.extents.push(Extent {
                range: Range::new(start, end - start),
                kind,
            }),
            _ => self.full = true,
        }
    }

    /// What was reported; where that is nothing, all may be data.
    pub(crate) fn finish(self) -> Vec<Extent> {
        if self.extents.is_empty() {
            return vec![Extent {
                range: self.range,
                kind: ExtentKind::Data,
            }];
        }
        self.extents
    }
}

/// A hole that may not read as zeroes is of no use to anyone; bits we do not know mean nothing.
fn kind_of(status: u64) -> ExtentKind {
    let known = u64::from(AllocationFlags::all().bits());
    let bits = u32::try_from(status & known).unwrap_or(0);
    let flags = AllocationFlags::from_bits_truncate(bits);
    if !flags.contains(AllocationFlags::ZERO) {
        ExtentKind::Data
    } else if flags.contains(AllocationFlags::HOLE) {
        ExtentKind::Hole
    } else {
        ExtentKind::Zero
    }
}
