//! [`Bits`]: the life of a write-intent bitmap's bits. Pure.
//!
//! ```text
//! set ──► durable ──► counted while writes are under way ──► idle for two sweeps ──► cleared, after a flush
//! ```
//!
//! # Invariants
//!
//! * A write is sent to members only while the bits of all its bytes are durably set on all of them, and they stay
//!   so at least until it has ended.
//! * While a part has no member in sync no bit is cleared: they record what it lacks.
//! * A bit that says that copies may differ (`needed`) is not cleared before they were resynced.
//! * The first commit writes the bitmap whole: members that were cut off from power may have had different ones.
//!
//! # What it does not do
//!
//! Version 5 and 6 bitmaps.

use block::Range;

use super::super::ArrayError;
use super::super::format::SECTOR;
use super::super::format::bitmap::{self, Bitmap, HEADER_LEN, HEADER_LEN_USIZE};
use super::phase::Phase;
use crate::fields::put;

/// Chunks of a bitmap, at most: it takes 8 bytes of memory for each.
const CHUNKS_MAX: u64 = 1 << 24;
/// Bytes of a bitmap that are written together.
pub(super) const PAGE: usize = 4096;
/// Where the header has what is covered, in sectors.
const SIZE_AT: usize = 40;
/// Sweeps that a bit must have been idle for.
pub(super) const SWEEPS: u8 = 2;

/// One chunk.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    /// Writes under way, and those cancelled.
    writes: u32,
    phase: Phase,
    /// Sweeps since the last write.
    idle: u8,
    /// Copies may differ.
    needed: bool,
}

/// A bitmap of an array that is open.
#[derive(Debug)]
pub(super) struct Bits {
    chunk: u64,
    size: u64,
    /// Chunks that are not clear, or not only.
    cells: Vec<Cell>,
    /// What members have on their disks: header and bits.
    image: Vec<u8>,
    /// Pages that the next commit writes.
    pages: Vec<bool>,
    /// The next commit has bits to set or to clear.
    changed: Vec<u32>,
    /// What the commit under way changes.
    in_commit: Vec<u32>,
    pages_in_commit: Vec<bool>,
    needed: u64,
    set: u64,
}

/// What one commit writes of a bitmap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    /// Byte of the bitmap.
    pub(super) at: usize,
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
}

impl Bits {
    /// A bitmap as it was read: its header and the bytes of its bits. `all`: every bit counts as set.
    ///
    /// # Errors
    /// There are more bits than memory is spent on.
    pub(super) fn new(header: &Bitmap, image: Vec<u8>, all: bool) -> Result<Self, ArrayError> {
        let chunk = u64::from(header.chunk);
        let chunks = header.size.div_ceil(chunk);
        if chunks > CHUNKS_MAX {
            return Err(ArrayError::refused(
                format!("the bitmap has {chunks} bits, more than {CHUNKS_MAX}"),
                "open the array read-only",
            ));
        }
        let count = usize::try_from(chunks).expect("bounded");
        assert!(
            image.len() >= Self::image_len(header, 1),
            "a bitmap is read whole"
        );
        let pages = image.len().div_ceil(PAGE);
        let mut bits = Self {
            chunk,
            size: header.size,
            cells: vec![Cell::default(); count],
            image,
            pages: vec![true; pages],
            changed: Vec::new(),
            in_commit: Vec::new(),
            pages_in_commit: vec![false; pages],
            needed: 0,
            set: 0,
        };
        for index in 0..count {
            if all || bits.image_bit(index) {
                bits.want(index);
            } else {
                bits.put_image_bit(index, false);
            }
        }
        Ok(bits)
    }

    /// A bitmap with this header that is to be made: no bit is set.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(super) fn blank(header: &Bitmap) -> Result<Self, ArrayError> {
        let mut image = vec![0; Self::image_len(header, PAGE)];
        image[..HEADER_LEN_USIZE].copy_from_slice(&header.encode(&[0; HEADER_LEN_USIZE]));
        Self::new(header, image, false)
    }

    /// Bytes of a bitmap on its disk, which has blocks of `block` bytes.
    pub(super) fn image_len(header: &Bitmap, block: usize) -> usize {
        let bits = header
            .size
            .div_ceil(u64::from(header.chunk))
            .min(CHUNKS_MAX);
        let bytes = HEADER_LEN + bits.div_ceil(8);
        let bytes = usize::try_from(bytes).expect("bounded");
        bytes.next_multiple_of(block)
    }

    /// Bytes of it on each member.
    pub(super) const fn len_on_disk(&self) -> u64 {
        self.image.len() as u64
    }

    fn image_bit(&self, index: usize) -> bool {
        let at = Self::header_len() + index / 8;
        self.image[at] & (1 << (index % 8)) != 0
    }

    fn put_image_bit(&mut self, index: usize, on: bool) {
        let at = Self::header_len() + index / 8;
        let bit = 1 << (index % 8);
        let before = self.image[at];
        self.image[at] = if on { before | bit } else { before & !bit };
        self.pages[at / PAGE] |= before != self.image[at];
    }

    fn header_len() -> usize {
        usize::try_from(HEADER_LEN).expect("small")
    }

    /// The chunks that `range` touches.
    #[inline]
    fn chunks(&self, range: Range) -> std::ops::Range<usize> {
        let index =
            |offset: u64| usize::try_from(offset / self.chunk).expect("a chunk that there is");
        if range.is_empty() {
            return 0..0;
        }
        // While a reshape goes on places are counted further than bits go, all of which are set.
        let len = self.cells.len();
        index(range.offset).min(len)..(index(range.end() - 1) + 1).min(len)
    }

    /// The chunks that lie within `range`; the last one may be cut short by the end.
    fn chunks_within(&self, range: Range) -> std::ops::Range<usize> {
        let index = |chunk: u64| usize::try_from(chunk).expect("a chunk that there is");
        let end = range.end().min(self.size);
        let last = if end == self.size {
            end.div_ceil(self.chunk)
        } else {
            end / self.chunk
        };
        let first = range.offset.div_ceil(self.chunk).min(last);
        index(first)..index(last)
    }

    fn range_of(&self, chunks: std::ops::Range<usize>) -> Range {
        let start = chunks.start as u64 * self.chunk;
        let end = (chunks.end as u64 * self.chunk).min(self.size);
        Range::new(start, end - start)
    }

    fn want(&mut self, index: usize) {
        let cell = &mut self.cells[index];
        let before = cell.phase;
        cell.phase.want();
        if before == Phase::Clear {
            self.set += 1;
        }
        if cell.phase == Phase::Setting && before != Phase::Setting {
            self.changed.push(u32::try_from(index).expect("bounded"));
        }
    }

    /// A write of `range` begins to be waited for. Whether its bits are durably set already.
    #[inline]
    pub(super) fn begin(&mut self, range: Range) -> bool {
        let mut is_set = true;
        for index in self.chunks(range) {
            let cell = &mut self.cells[index];
            cell.writes += 1;
            cell.idle = 0;
            if cell.phase != Phase::Set {
                self.want(index);
                is_set &= self.cells[index].phase.is_set();
            }
        }
        is_set
    }

    /// Whether the bits of `range` are durably set.
    #[inline]
    pub(super) fn are_set(&self, range: Range) -> bool {
        let mut cells = self.cells[self.chunks(range)].iter();
        cells.all(|cell| cell.phase.is_set())
    }

    /// A write has ended.
    #[inline]
    pub(super) fn end(&mut self, range: Range) {
        for index in self.chunks(range) {
            let cell = &mut self.cells[index];
            cell.writes = cell.writes.checked_sub(1).expect("a write ends once");
        }
    }

    /// Bits of another bitmap of the same chunks are set here, too.
    pub(super) fn note(&mut self, other: &bitmap::Bits) {
        for bit in other.ones() {
            let index = usize::try_from(bit).expect("bounded");
            if index < self.cells.len() {
                self.want(index);
            }
        }
    }

    /// Copies of `range` may differ.
    pub(super) fn need(&mut self, range: Range) {
        for index in self.chunks(range) {
            self.want(index);
            let cell = &mut self.cells[index];
            self.needed += u64::from(!cell.needed);
            cell.needed = true;
        }
    }

    /// Copies may differ wherever a bit is set, from byte `from` on.
    pub(super) fn need_all_set(&mut self, from: u64) {
        for index in 0..self.cells.len() {
            let end = (index as u64 + 1) * self.chunk;
            if self.cells[index].phase.is_wanted() && end > from {
                self.need(self.range_of(index..index + 1));
            }
        }
    }

    /// Copies of all chunks within `range` are resynced.
    pub(super) fn resynced(&mut self, range: Range) {
        for index in self.chunks_within(range) {
            let cell = &mut self.cells[index];
            self.needed -= u64::from(cell.needed);
            cell.needed = false;
        }
    }

    /// Whether copies may differ in `range`.
    #[inline]
    pub(super) fn is_needed(&self, range: Range) -> bool {
        self.needed > 0
            && self.cells[self.chunks(range)]
                .iter()
                .any(|cell| cell.needed)
    }

    /// The first run of chunks at or behind byte `from` where copies may differ.
    pub(super) fn next_needed(&self, from: u64) -> Option<Range> {
        if self.needed == 0 {
            return None;
        }
        self.next(from, |cell| cell.needed)
    }

    /// The first run of chunks that are set, at or behind byte `from`.
    pub(super) fn next_set(&self, from: u64) -> Option<Range> {
        self.next(from, |cell| cell.phase != Phase::Clear)
    }

    fn next(&self, from: u64, wanted: impl Fn(&Cell) -> bool) -> Option<Range> {
        let first = usize::try_from(from / self.chunk).ok()?;
        let cells = self.cells.get(first..)?;
        let start = first + cells.iter().position(&wanted)?;
        let rest = self.cells[start..].iter();
        let len = rest.take_while(|cell| wanted(cell)).count();
        Some(self.range_of(start..start + len))
    }

    /// Time has passed: bits that were idle for [`SWEEPS`] of these are let go, where `may_clear`. Whether there are
    /// bits that a later sweep can clear.
    pub(super) fn sweep(&mut self, may_clear: bool) -> bool {
        let mut more = false;
        if self.set == 0 {
            return false;
        }
        for index in 0..self.cells.len() {
            let cell = &mut self.cells[index];
            if cell.phase != Phase::Set || cell.needed {
                continue;
            }
            more = true;
            if cell.writes > 0 {
                continue;
            }
            cell.idle = (cell.idle + 1).min(SWEEPS);
            if may_clear && cell.idle == SWEEPS {
                cell.phase.let_go();
                self.changed.push(u32::try_from(index).expect("bounded"));
            }
        }
        more
    }

    /// Whether the next commit has anything to write of it.
    pub(super) fn has_changes(&self) -> bool {
        !self.changed.is_empty() || self.pages.contains(&true)
    }

    /// Bits are let go by the next commit: members are flushed first.
    pub(super) fn will_clear(&self) -> bool {
        let mut changed = self.changed.iter();
        changed.any(|index| self.cells[*index as usize].phase == Phase::Clearing)
    }

    /// No bit is let go after all.
    pub(super) fn keep_all(&mut self) {
        for index in &self.changed {
            self.cells[*index as usize].phase.keep();
        }
    }

    /// The header, as it was written last.
    pub(super) fn decoded(&self) -> Bitmap {
        Bitmap::decode(self.header()).expect("it was read, or made")
    }

    /// Whether memory is spent on as many bits as `size` bytes take.
    pub(super) const fn can_cover(&self, size: u64) -> bool {
        size.div_ceil(self.chunk) <= CHUNKS_MAX
    }

    /// Bytes on a disk of one that covers `size` bytes.
    pub(super) fn len_for(&self, size: u64) -> u64 {
        let header = Bitmap {
            size,
            ..self.decoded()
        };
        Self::image_len(&header, PAGE) as u64
    }

    /// It covers `size` bytes from now on, which are more; bits of what is new are clear.
    pub(super) fn grow(&mut self, size: u64) {
        let header = Bitmap {
            size,
            ..self.decoded()
        };
        let count = usize::try_from(size.div_ceil(self.chunk)).expect("as many as fit");
        self.image.resize(Self::image_len(&header, PAGE), 0);
        put(&mut self.image, SIZE_AT, (size / SECTOR).to_le_bytes());
        for index in self.cells.len()..count {
            // Bits behind the last chunk mean nothing, and may be set.
            self.put_image_bit(index, false);
        }
        self.cells.resize(count, Cell::default());
        self.size = size;
        let pages = self.image.len().div_ceil(PAGE);
        self.pages_in_commit.resize(pages, false);
        self.pages = vec![true; pages];
    }

    /// All bits are set by the next commit.
    pub(super) fn want_all(&mut self) {
        (0..self.cells.len()).for_each(|index| self.want(index));
    }

    /// A member comes that has no bitmap yet, or another one.
    pub(super) fn write_all(&mut self) {
        self.pages.fill(true);
    }

    /// A commit begins: the pages that it writes. `header` puts the header right, where that changes.
    pub(super) fn begin_commit(&mut self, header: Option<impl FnOnce(&mut [u8])>) -> Vec<Page> {
        assert!(self.in_commit.is_empty(), "one commit at a time");
        for index in std::mem::take(&mut self.changed) {
            let at = index as usize;
            if let Some(on) = self.cells[at].phase.begin() {
                self.put_image_bit(at, on);
                self.in_commit.push(index);
            }
        }
        if let Some(header) = header {
            header(&mut self.image[..Self::header_len()]);
            self.pages[0] = true;
        }
        self.pages_in_commit.clone_from(&self.pages);
        self.pages.fill(false);
        let written = (0..self.pages_in_commit.len()).filter(|page| self.pages_in_commit[*page]);
        written
            .map(|page| {
                let at = page * PAGE;
                let end = (at + PAGE).min(self.image.len());
                let bytes = self.image[at..end].to_vec();
                Page { at, bytes }
            })
            .collect()
    }

    /// The commit has ended; `durable`: all members have it.
    pub(super) fn end_commit(&mut self, durable: bool) {
        for index in std::mem::take(&mut self.in_commit) {
            let cell = &mut self.cells[index as usize];
            let before = cell.phase;
            if durable {
                cell.phase.end();
                self.set -= u64::from(before != Phase::Clear && cell.phase == Phase::Clear);
            } else {
                cell.phase.undo();
                if cell.phase == Phase::Setting && before != Phase::Setting {
                    self.changed.push(index);
                }
            }
        }
        if !durable {
            for (page, in_commit) in self.pages.iter_mut().zip(&self.pages_in_commit) {
                *page |= in_commit;
            }
        }
    }

    /// The header, as it was written last.
    pub(super) fn header(&self) -> &[u8] {
        &self.image[..Self::header_len()]
    }

    /// Bytes for each bit.
    pub(super) const fn chunk(&self) -> u64 {
        self.chunk
    }

    /// How many bits there are.
    pub(super) const fn count(&self) -> u64 {
        self.cells.len() as u64
    }

    /// How many are set, or about to be.
    pub(super) const fn set(&self) -> u64 {
        self.set
    }

    /// Chunks in which copies may differ.
    pub(super) const fn needed(&self) -> u64 {
        self.needed
    }
}
