//! Which members a request falls on. Pure.
//!
//! ```text
//! disk      | 0 | 1 | 2 | 3 | 4 | 5 | 6 | …      in chunks
//! member 0  | 0 | 3 | 6 |                        chunk n is on member n mod 3, at n div 3
//! member 1  | 1 | 4 |
//! member 2  | 2 | 5 |
//! ```
//!
//! The chunks of a request that lie on one member follow each other there: each member gets one
//! request, however long the request is.

use block::Range;

use crate::parts::{Lay, Layout, Share};

/// How the disk is dealt out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deal {
    /// Bytes of a chunk.
    pub(super) chunk: u64,
    /// How many members there are.
    pub(super) members: u64,
}

impl Deal {
    /// The member's share of `range` with the first chunk `chunk` in it; `last` is the range's.
    fn share(self, range: Range, chunk: u64, last: u64) -> Share {
        let piece = |chunk: u64| {
            let start = (chunk * self.chunk).max(range.offset);
            let end = (chunk * self.chunk)
                .saturating_add(self.chunk)
                .min(range.end());
            Range::new(start, end - start)
        };
        let head = piece(chunk);
        // The member's last chunk in the range.
        let behind = last - (last - chunk) % self.members;
        let tail = piece(behind);
        let at = |piece: Range| {
            let chunk = piece.offset / self.chunk;
            chunk / self.members * self.chunk + piece.offset % self.chunk
        };
        let within = Range::new(at(head), at(tail) + tail.len - at(head));
        Share {
            part: self.member_of(chunk),
            within,
            lay: Lay {
                start: head.offset - range.offset,
                first: head.len,
                gap: (self.members - 1) * self.chunk,
                chunk: self.chunk,
            },
        }
    }

    fn member_of(self, chunk: u64) -> usize {
        Range::new(0, chunk % self.members).len_usize()
    }
}

impl Layout for Deal {
    #[inline]
    fn single(&self, range: Range) -> Option<(usize, Range)> {
        let chunk = range.offset / self.chunk;
        let offset = range.offset % self.chunk;
        let fits = self.members == 1 || range.len <= self.chunk - offset;
        fits.then(|| {
            let at = chunk / self.members * self.chunk + offset;
            (self.member_of(chunk), Range::new(at, range.len))
        })
    }

    fn run(&self, offset: u64) -> u64 {
        if self.members == 1 {
            return u64::MAX - offset;
        }
        self.chunk - offset % self.chunk
    }

    fn shares(&self, range: Range) -> Vec<Share> {
        if range.is_empty() {
            return Vec::new();
        }
        let first = range.offset / self.chunk;
        let last = (range.end() - 1) / self.chunk;
        let touched = first..=last.min(first + (self.members - 1));
        touched
            .map(|chunk| self.share(range, chunk, last))
            .collect()
    }
}
