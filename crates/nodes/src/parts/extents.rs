//! What parts say of their allocation, as that of the whole. Pure.
//!
//! Rows of a stripe with the same status on every member are reported at once: a hole of exabytes takes
//! as long as one of kilobytes.

use std::vec;

use block::{Extent, ExtentKind, Range};

use super::share::Share;

/// Extents of one answer, at most, and what is added by one row. The rest is reported as data.
const EXTENTS_MAX: usize = 65_536;

/// What one part says, consumed from the front.
struct PartExtents {
    rest: vec::IntoIter<Extent>,
    kind: ExtentKind,
    /// Bytes of `kind` that come first.
    len: u64,
}

impl PartExtents {
    fn new(extents: Vec<Extent>) -> Self {
        Self {
            rest: extents.into_iter(),
            kind: ExtentKind::Data,
            len: 0,
        }
    }

    /// Asserts that `len` is not zero. What a part does not report is taken for data.
    fn fill(&mut self) {
        while self.len == 0 {
            let next = self.rest.next();
            (self.kind, self.len) = next.map_or((ExtentKind::Data, u64::MAX), |extent| {
                (extent.kind, extent.range.len)
            });
        }
    }
}

/// The extents of the request, as they become known.
struct Whole {
    extents: Vec<Extent>,
    at: u64,
}

impl Whole {
    fn push(&mut self, len: u64, kind: ExtentKind) {
        match self.extents.last_mut() {
            Some(last) if last.kind == kind => last.range.len += len,
            _ => self.extents.push(Extent {
                range: Range::new(self.at, len),
                kind,
            }),
        }
        self.at += len;
    }
}

/// Joins what the shares' parts say of their allocation, from the share's first byte on, into that
/// of the request `range`.
pub(super) fn join(range: Range, shares: &[Share], answers: Vec<Vec<Extent>>) -> Vec<Extent> {
    let mut told: Vec<PartExtents> = answers.into_iter().map(PartExtents::new).collect();
    let mut whole = Whole {
        extents: Vec::new(),
        at: range.offset,
    };
    let rows = shares.first().map_or(0, Share::rows);
    let mut row = 0;
    while row < rows && whole.extents.len() < EXTENTS_MAX {
        told.iter_mut().for_each(PartExtents::fill);
        let alike = identical_rows(shares, &told, row);
        if alike > 0 {
            let len = alike * shares[0].lay.chunk;
            told.iter_mut().for_each(|told| told.len -= len);
            whole.push(len * shares.len() as u64, told[0].kind);
            row += alike;
            continue;
        }
        for (share, told) in shares.iter().zip(&mut told) {
            let mut left = share.run(row).map_or(0, |run| run.len);
            while left > 0 {
                told.fill();
                let len = told.len.min(left);
                whole.push(len, told.kind);
                told.len -= len;
                left -= len;
            }
        }
        row += 1;
    }
    if whole.at < range.end() {
        whole.push(range.end() - whole.at, ExtentKind::Data);
    }
    whole.extents
}

/// How many rows from `row` on are whole and of one kind.
fn identical_rows(shares: &[Share], told: &[PartExtents], row: u64) -> u64 {
    // The first runs may begin within a chunk.
    let Some(behind) = row.checked_sub(1) else {
        return 0;
    };
    if told.windows(2).any(|pair| pair[0].kind != pair[1].kind) {
        return 0;
    }
    let rows = shares.iter().zip(told).map(|(share, told)| {
        let passed = share.lay.first + behind * share.lay.chunk;
        let left = share.within.len.saturating_sub(passed);
        told.len.min(left) / share.lay.chunk
    });
    rows.min().unwrap_or(0)
}
