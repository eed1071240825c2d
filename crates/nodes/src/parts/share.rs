//! [`Share`]: what one part gets of a request; its data is dealt out and joined. Pure.
//!
//! ```text
//! request          | start | first ······ | gap | chunk ······ | gap | chunk ···
//!                          └── 1st run ───┘     └── 2nd run ───┘     └── 3rd ···
//! the part                 ├──────────────┼──────────────┼──────────┤  one range
//! ```

use std::ops;

use block::{IoBufs, Range};
use bytes::Bytes;

/// Where the bytes of a share are in the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lay {
    /// First byte, counted from the request's.
    pub(crate) start: u64,
    /// Length of the first run, at most; bytes.
    pub(crate) first: u64,
    /// Bytes of others between two runs.
    pub(crate) gap: u64,
    /// Length of the runs behind the first; the last one may be shorter.
    pub(crate) chunk: u64,
}

/// What one part gets of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// Index of the part.
    pub(crate) part: usize,
    /// Where in the part.
    pub(crate) within: Range,
    /// Where in the request.
    pub(crate) lay: Lay,
}

impl Share {
    /// A share that is one run of the request, from its byte `start` on.
    pub(crate) const fn single(part: usize, within: Range, start: u64) -> Self {
        let lay = Lay {
            start,
            first: within.len,
            gap: 0,
            chunk: within.len,
        };
        Self { part, within, lay }
    }

    /// How many runs it has.
    pub(super) const fn rows(&self) -> u64 {
        match self.within.len.checked_sub(self.lay.first) {
            _ if self.within.len == 0 => 0,
            None => 1,
            Some(behind) => 1 + behind.div_ceil(self.lay.chunk),
        }
    }

    /// Run `row` of the request, if there is one. Each follows the one before in the part.
    pub(super) fn run(&self, row: u64) -> Option<Range> {
        let Lay {
            start,
            first,
            gap,
            chunk,
        } = self.lay;
        if row >= self.rows() {
            return None;
        }
        let Some(behind) = row.checked_sub(1) else {
            return Some(Range::new(start, first.min(self.within.len)));
        };
        let left = self.within.len - first - behind * chunk;
        let at = start + first + gap + behind * (chunk + gap);
        Some(Range::new(at, chunk.min(left)))
    }

    /// All runs, in memory.
    pub(crate) fn runs(&self) -> impl Iterator<Item = ops::Range<usize>> {
        let runs = (0..self.rows()).filter_map(|row| self.run(row));
        runs.map(|run| {
            let start = Range::new(0, run.offset).len_usize();
            start..start + run.len_usize()
        })
    }
}

/// Data of one share, or of the request, that is consumed from the front.
struct Cursor {
    pieces: std::vec::IntoIter<Bytes>,
    current: Bytes,
}

impl Cursor {
    fn new(data: IoBufs) -> Self {
        Self {
            pieces: data.into_vec().into_iter(),
            current: Bytes::new(),
        }
    }

    /// Moves the next `len` bytes to `target`.
    fn take(&mut self, mut len: usize, target: &mut IoBufs) {
        while len > 0 {
            if self.current.is_empty() {
                let Some(next) = self.pieces.next() else {
                    return;
                };
                self.current = next;
                continue;
            }
            let taken = self.current.split_to(len.min(self.current.len()));
            len -= taken.len();
            target.push(taken);
        }
    }
}

/// Every run of all shares in the order of the request: the share's index, and its length.
///
/// Shares are in the order of their first runs, and so are their second ones, behind all first ones.
fn in_order(shares: &[Share]) -> impl Iterator<Item = (usize, usize)> {
    let rows = shares.first().map_or(0, Share::rows);
    (0..rows).flat_map(move |row| {
        let of_row = shares.iter().enumerate();
        of_row.filter_map(move |(index, share)| Some((index, share.run(row)?.len_usize())))
    })
}

/// Joins the answers to the shares.
pub(super) fn join(shares: &[Share], answers: Vec<IoBufs>) -> IoBufs {
    let mut answers: Vec<Cursor> = answers.into_iter().map(Cursor::new).collect();
    let mut whole = IoBufs::new();
    for (index, len) in in_order(shares) {
        answers[index].take(len, &mut whole);
    }
    whole
}

/// Cuts the data of a request into that of its shares.
pub(super) fn cut(shares: &[Share], data: &IoBufs) -> Vec<IoBufs> {
    let mut cut = vec![IoBufs::new(); shares.len()];
    let mut data = Cursor::new(data.clone());
    for (index, len) in in_order(shares) {
        data.take(len, &mut cut[index]);
    }
    cut
}
