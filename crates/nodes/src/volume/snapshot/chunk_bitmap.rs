//! [`ChunkBitmap`]: which chunks of an origin may be written without a look at its snapshots. Pure.
//!
//! # Invariants
//!
//! * A bit is set only for a chunk with old content that is durable in every snapshot that is in use. A bit that is
//!   not set means nothing: the maps of the snapshots decide.
//! * A bit that is set stays set.
//! * It takes [`PAGES_MAX`] pages of memory at most, and 8 bytes for each page that the disk could have. Bits of further
//!   pages are not set.

use std::ops;

use block::Range;

/// Words of a page: 4 KiB, which is 128 MiB of chunks of 4 KiB.
const PAGE_WORDS: usize = 512;
/// Bits of a page.
const PAGE_BITS: u64 = PAGE_WORDS as u64 * 64;
/// Pages that are in memory, at most: 64 MiB.
const PAGES_MAX: usize = 16_384;

/// Longest range that is looked up, bytes: the maps of the snapshots are faster for longer ones.
const RANGE_MAX: u64 = 64 << 20;

type BitmapPage = Box<[u64; PAGE_WORDS]>;

/// The chunks that were copied.
#[derive(Debug)]
pub(super) struct ChunkBitmap {
    /// Bytes that a bit stands for.
    unit: u64,
    pages: Vec<Option<BitmapPage>>,
    used: usize,
}

impl ChunkBitmap {
    /// No bit is set, on a disk of `size` bytes in chunks of `unit`.
    pub(super) fn new(size: u64, unit: u64) -> Self {
        let pages = size.div_ceil(unit).div_ceil(PAGE_BITS);
        let pages = Range::new(0, pages).len_usize();
        Self {
            unit,
            pages: std::iter::repeat_with(|| None).take(pages).collect(),
            used: 0,
        }
    }

    /// Whether the bits of all chunks that `range` touches are set. Never of a range that is too long.
    pub(super) fn covers(&self, range: Range) -> bool {
        range.len <= RANGE_MAX && self.chunks(range).all(|chunk| self.is_set(chunk))
    }

    /// Whether the bit of a chunk that `range` touches is set.
    pub(super) fn touches(&self, range: Range) -> bool {
        self.chunks(range).any(|chunk| self.is_set(chunk))
    }

    fn is_set(&self, chunk: u64) -> bool {
        let (page, word, mask) = place(chunk);
        let page = self.pages.get(page).and_then(Option::as_ref);
        page.is_some_and(|page| page[word] & mask != 0)
    }

    /// Sets the bits of all chunks that `range` touches, unless that is too long.
    pub(super) fn insert(&mut self, range: Range) {
        if range.len > RANGE_MAX {
            return;
        }
        for chunk in self.chunks(range) {
            let (at, word, mask) = place(chunk);
            if self.pages.get(at).is_some_and(Option::is_none) {
                if self.used >= PAGES_MAX {
                    continue;
                }
                self.used += 1;
            }
            if let Some(page) = self.pages.get_mut(at) {
                let page = page.get_or_insert_with(|| Box::new([0; PAGE_WORDS]));
                page[word] |= mask;
            }
        }
    }

    fn chunks(&self, range: Range) -> ops::Range<u64> {
        range.offset / self.unit..range.end().div_ceil(self.unit)
    }
}

/// Page, word of it and mask of the bit of a chunk.
fn place(chunk: u64) -> (usize, usize, u64) {
    let page = Range::new(0, chunk / PAGE_BITS).len_usize();
    let bit = chunk % PAGE_BITS;
    let word = Range::new(0, bit / 64).len_usize();
    (page, word, 1 << (bit % 64))
}
