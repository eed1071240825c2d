//! [`Layout`]: where the copies of each byte are, for levels 1 and 10; with parity each byte has one copy. Pure.
//!
//! ```text
//! near=2, 3 parts      far=2, 3 parts       offset=2, 3 parts
//!   0  0  1              0  1  2              0  1  2
//!   1  2  2              3  4  5              2  0  1
//!   3  3  4              2  0  1              3  4  5
//!   4  5  5              5  3  4              5  3  4
//! ```
//!
//! # Invariants
//!
//! * Every byte of the array has the same number of copies, each on another part; no place of a member holds two
//!   bytes (a layout for which md itself breaks this is refused).
//! * A piece lies together on each of its parts.
//!
//! # Where bits, locks and windows count
//!
//! Bitmap, locks of ranges, resync and `synced_to` count bytes of the array where it keeps copies, and bytes of each member's
//! data where it keeps parity: a bit, or a lock, is then of the rows that lie there ([`Layout::sync_range`]).

use block::Range;
use smallvec::SmallVec;

use super::super::ArrayError;
use super::super::assembly::Facts;
use super::super::format::Level;
use super::super::parity;
use super::row_section::RowSections;

/// Bits of md's number for layouts of RAID 10.
const OFFSET: u32 = 1 << 16;
const SETS_SHIFT: u32 = 17;
/// Far copies stay within sets of parts; 1 is an older form that puts copies on the same part.
const SETS_NONE: u32 = 0;
const SETS_IMPROVED: u32 = 2;

/// Where one copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) struct Copy {
    /// On which part.
    pub(in crate::array) part: usize,
    /// Byte of the member's data.
    pub(in crate::array) at: u64,
}

/// Bytes of the array that lie together on each part that has a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::array) struct Piece {
    /// Which bytes of the array.
    pub(in crate::array) range: Range,
    /// Their copies, in the order in which the level has them.
    pub(in crate::array) copies: SmallVec<[Copy; 4]>,
}

impl Piece {
    /// `range` of it alone.
    pub(in crate::array) fn part(&self, range: Range) -> Self {
        let skipped = range.offset - self.range.offset;
        let copies = self.copies.iter().map(|copy| Copy {
            at: copy.at + skipped,
            ..*copy
        });
        Self {
            range,
            copies: copies.collect(),
        }
    }

    /// Where a copy is, bytes of its member's data.
    pub(in crate::array) const fn within(&self, copy: Copy) -> Range {
        Range::new(copy.at, self.range.len)
    }
}

/// Where the copies of each byte are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::array) struct Layout {
    parts: usize,
    size: u64,
    form: Form,
}

/// How bytes are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// Level 1: each part has all of them.
    Whole,
    /// Level 10.
    Dealt(Dealt),
    /// Levels 4, 5 and 6.
    Parity(RowSections),
}

/// Level 10: chunks are dealt out to the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dealt {
    chunk: u64,
    near: u64,
    far: u64,
    /// Far copies are one row further down instead of in another part of the members.
    offset: bool,
    /// Parts of a set of which far copies do not leave; all where there are none.
    set: u64,
    /// Rows of chunks from one far copy to the next.
    stride: u64,
    parts: u64,
    /// Chunks of the array.
    chunks: u64,
}

impl Layout {
    /// The layout of an array of level 1, 10, 4, 5 or 6.
    pub(in crate::array) fn of(facts: &Facts) -> Result<Self, ArrayError> {
        let parts = usize::try_from(facts.parts).unwrap_or(usize::MAX);
        let form = match facts.level {
            Level::Raid10 => return Self::dealt(facts, parts),
            Level::Raid4 | Level::Raid5 | Level::Raid6 => Form::Parity(RowSections::of(facts)?),
            _ => Form::Whole,
        };
        Ok(Self {
            parts,
            size: facts.size,
            form,
        })
    }

    /// Where data and parity are, if it keeps parity.
    pub(in crate::array) const fn parity(&self) -> Option<&RowSections> {
        match &self.form {
            Form::Parity(sections) => Some(sections),
            Form::Whole | Form::Dealt(_) => None,
        }
    }

    /// The same, of an array with parity.
    pub(in crate::array) fn sections(&self) -> &RowSections {
        self.parity().expect("it keeps parity")
    }

    /// Whether chunks are dealt out to the parts (level 10): nothing else follows that.
    pub(in crate::array) const fn is_dealt(&self) -> bool {
        matches!(self.form, Form::Dealt(_))
    }

    /// Whether a reshape is going on.
    pub(in crate::array) fn is_reshaping(&self) -> bool {
        self.parity().is_some_and(RowSections::is_reshaping)
    }

    fn dealt(facts: &Facts, parts: usize) -> Result<Self, ArrayError> {
        let number = facts.layout;
        let (near, far) = (u64::from(number & 0xff), u64::from(number >> 8 & 0xff));
        let (offset, n) = (number & OFFSET != 0, u64::from(facts.parts));
        let sets = number >> SETS_SHIFT;
        let set = if sets == SETS_IMPROVED { near * far } else { n };
        let is_known = matches!(sets, SETS_NONE | SETS_IMPROVED);
        let is_sane = near > 0 && far > 0 && near * far > 1 && near * far <= n;
        // md lays the copies of such arrays over each other.
        let is_torn = near > 1
            && (offset && !n.is_multiple_of(near) || is_sane && !n.is_multiple_of(set) && set < n);
        if !is_known || !is_sane || is_torn || facts.chunk == 0 {
            return Err(ArrayError::refused(
                format!(
                    "layout {number:#x} of RAID 10 over {n} parts is not known, or puts copies over each other"
                ),
                "read the array with the machine that made it",
            ));
        }
        let rows = facts.member_size / facts.chunk / far;
        let chunks = rows * n / near;
        let stride = (chunks * near * far).div_ceil(n) / far;
        Ok(Self {
            parts,
            size: (chunks * facts.chunk).min(facts.size),
            form: Form::Dealt(Dealt {
                chunk: facts.chunk,
                near,
                far,
                offset,
                set,
                stride: if offset { 1 } else { stride },
                parts: n,
                chunks,
            }),
        })
    }

    /// The same with more or fewer parts; only where each part has a copy of everything.
    pub(in crate::array) fn with_parts(&self, parts: usize) -> Self {
        assert!(
            self.form == Form::Whole,
            "only a mirror changes its parts so"
        );
        Self {
            parts,
            ..self.clone()
        }
    }

    /// Whether places of what is there do not depend on the size: not where far copies lie in another part of the members.
    pub(in crate::array) const fn keeps_places(&self) -> bool {
        match &self.form {
            Form::Dealt(dealt) => dealt.far == 1 || dealt.offset,
            Form::Whole | Form::Parity(_) => true,
        }
    }

    /// Size of the array, bytes.
    pub(in crate::array) const fn size(&self) -> u64 {
        self.size
    }

    /// How many bytes bits, locks and windows cover.
    pub(in crate::array) const fn sync_size(&self) -> u64 {
        match &self.form {
            Form::Parity(sections) => sections.len(),
            Form::Whole | Form::Dealt(_) => self.size,
        }
    }

    /// The bytes that bits, locks and windows count for `range` of the array; all, while it is being reshaped.
    #[inline]
    pub(in crate::array) fn sync_range(&self, range: Range) -> Range {
        match &self.form {
            Form::Parity(sections) if sections.is_reshaping() => Range::new(0, sections.len()),
            Form::Parity(sections) => parity::plan::footprint(&sections.after().layout, range),
            Form::Whole | Form::Dealt(_) => range,
        }
    }

    /// The first bytes of `range` that lie together.
    #[inline]
    pub(in crate::array) fn piece(&self, range: Range) -> Piece {
        let dealt = match &self.form {
            Form::Dealt(dealt) => dealt,
            Form::Whole => {
                let at = range.offset;
                let copies = (0..self.parts).map(|part| Copy { part, at }).collect();
                return Piece { range, copies };
            }
            Form::Parity(sections) => {
                let section = sections.at(range.offset);
                let layout = &section.layout;
                let len = range.len.min(parity::plan::run(layout, range.offset));
                let range = Range::new(range.offset, len.min(section.range.end() - range.offset));
                let bytes = parity::plan::single(layout, range).expect("a run lies on one part");
                let copy = Copy {
                    part: bytes.part,
                    at: section.place(bytes.range).offset,
                };
                let copies = std::iter::once(copy).collect();
                return Piece { range, copies };
            }
        };
        let within = range.offset % dealt.chunk;
        let len = range.len.min(dealt.chunk - within);
        Piece {
            range: Range::new(range.offset, len),
            copies: dealt.copies(range.offset / dealt.chunk, within),
        }
    }

    /// All of `range`, piece by piece.
    pub(in crate::array) fn pieces(&self, range: Range) -> impl Iterator<Item = Piece> + '_ {
        let mut rest = range;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let piece = self.piece(rest);
            let end = piece.range.end();
            rest = Range::new(end, rest.end() - end);
            Some(piece)
        })
    }

    /// What bits and windows count for byte `at` of the data of `part`, as far as they lie together. `None`: nothing of
    /// the array is there.
    pub(in crate::array) fn held(&self, part: usize, at: u64) -> Option<Range> {
        let (offset, len) = match &self.form {
            Form::Whole | Form::Parity(_) => (at, u64::MAX),
            Form::Dealt(dealt) => {
                let offset = dealt.array_offset(part as u64, at)?;
                (offset, dealt.chunk - at % dealt.chunk)
            }
        };
        let len = len.min(self.sync_size().checked_sub(offset)?);
        (len > 0).then(|| Range::new(offset, len))
    }

    /// Whether every byte has a copy, or can be computed, on parts for which `present` is true.
    pub(in crate::array) fn survives(&self, present: impl Fn(usize) -> bool) -> bool {
        let dealt = match &self.form {
            Form::Dealt(dealt) => dealt,
            Form::Whole => return (0..self.parts).any(present),
            Form::Parity(sections) => {
                let gone = (0..self.parts).filter(|part| !present(*part));
                return gone.count() <= sections.after().layout.parities();
            }
        };
        // The parts repeat after so many chunks.
        (0..dealt.parts).all(|chunk| {
            let copies = dealt.copies(chunk, 0);
            copies.iter().any(|copy| present(copy.part))
        })
    }
}

impl Dealt {
    /// Where the copies of byte `within` of array chunk `chunk` are.
    fn copies(&self, chunk: u64, within: u64) -> SmallVec<[Copy; 4]> {
        let mut copies = SmallVec::new();
        for far in 0..self.far {
            for near in 0..self.near {
                let slot = chunk * self.near + near;
                let row = slot / self.parts * if self.offset { self.far } else { 1 };
                let part = self.moved(slot % self.parts, far * self.near);
                copies.push(Copy {
                    part: usize::try_from(part).expect("parts are few"),
                    at: (row + far * self.stride) * self.chunk + within,
                });
            }
        }
        copies
    }

    /// `part`, so many parts further on within its set. The last set has what is left over, too.
    const fn moved(&self, part: u64, by: u64) -> u64 {
        let last = (self.parts / self.set - 1) * self.set;
        let (first, len) = if part >= last {
            (last, self.parts - last)
        } else {
            (part / self.set * self.set, self.set)
        };
        first + (part - first + by) % len
    }

    /// The same backwards.
    const fn moved_back(&self, part: u64, by: u64) -> u64 {
        let last = (self.parts / self.set - 1) * self.set;
        let len = if part >= last {
            self.parts - last
        } else {
            self.set
        };
        self.moved(part, len - by % len)
    }

    /// The byte of the array that `part` holds at byte `at` of its data.
    fn array_offset(&self, part: u64, at: u64) -> Option<u64> {
        let (row, within) = (at / self.chunk, at % self.chunk);
        let (far, stripe) = if self.offset {
            (row % self.far, row / self.far)
        } else if self.far > 1 {
            (row / self.stride.max(1), row % self.stride.max(1))
        } else {
            (0, row)
        };
        if far >= self.far {
            return None;
        }
        let first = self.moved_back(part, far * self.near);
        let chunk = (stripe * self.parts + first) / self.near;
        (chunk < self.chunks).then(|| chunk * self.chunk + within)
    }
}
