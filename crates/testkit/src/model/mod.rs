//! The reference: a disk as a byte vector, and random operations on it. Pure.

mod op;
mod sectors;

pub use op::{Op, OpSpace, one_of_each, ops};
pub(crate) use sectors::Sectors;

use block::Range;

use crate::image::{span, to_usize};

/// What a disk should hold: its bytes, and which of them are known. A trimmed or abandoned range
/// reads as anything until it is written again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    bytes: Vec<u8>,
    known: Vec<bool>,
}

/// A byte that a disk should not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) offset: u64,
    pub(crate) expected: u8,
    pub(crate) found: u8,
}

impl Model {
    /// A disk of `size` zeroes.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self::from_bytes(vec![0; to_usize(size)])
    }

    /// A disk that holds `bytes`.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        let known = vec![true; bytes.len()];
        Self { bytes, known }
    }

    /// Size, bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Does to the model what `op` does to a disk.
    pub fn apply(&mut self, op: &Op) {
        match *op {
            Op::Read { .. } | Op::Flush => {}
            Op::Write { range, fill, .. } => self.write(range, &crate::pattern(fill, range)),
            Op::WriteZeroes { range, .. } => self.write(range, &vec![0; range.len_usize()]),
            Op::Trim { range } => self.forget(range),
        }
    }

    /// Writes `data` at the start of `range`, which it fills.
    pub fn write(&mut self, range: Range, data: &[u8]) {
        self.bytes[span(range)].copy_from_slice(data);
        self.known[span(range)].fill(true);
    }

    /// Any content of `range` is right, until it is written again.
    pub fn forget(&mut self, range: Range) {
        self.known[span(range)].fill(false);
    }

    /// Whether every known byte of `range` is `found`'s.
    #[must_use]
    pub fn agrees(&self, range: Range, found: &[u8]) -> bool {
        self.first_wrong(range, found).is_none()
    }

    pub(crate) fn first_wrong(&self, range: Range, found: &[u8]) -> Option<Wrong> {
        let expected = self.bytes[span(range)].iter().zip(&self.known[span(range)]);
        let mut wrong = (range.offset..).zip(expected).zip(found);
        wrong.find_map(|((offset, (&expected, &known)), &found)| {
            (known && expected != found).then_some(Wrong {
                offset,
                expected,
                found,
            })
        })
    }
}
