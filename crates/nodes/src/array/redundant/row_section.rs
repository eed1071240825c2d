//! [`RowSection`]: bytes of an array with parity that lie in one form. There is one, or two while a reshape goes on. Pure.
//!
//! ```text
//! array    0 ───────── position ───────────────────── size
//!          │ after the reshape │ before it             │
//!
//! member   data afterwards     free        data before
//!          │0 ────────────────┤            │moved + … ─────────┤
//! ```
//!
//! Columns of a section count from where its row 0 begins on each member. Places on members, locks, windows and bits count from
//! where the data begin that are nearest to the beginning of the disks: those afterwards.
//!
//! Where nothing is free before the data, both begin at the same place, and an array that gets more data in each row has the free bytes
//! behind its first rows once these were moved at once: until then it is in its critical section (`rows::critical_section`). One with as much
//! data in each row as before never has any: it is reshaped in place, and all of it is a critical section (`rows::in_place`).
//!
//! # Invariants
//!
//! * Places of two sections that hold something of the array do not overlap: what is written of one never touches the other. Of an array
//!   in its critical section the places that old rows hold may have been written over.

use block::Range;

use super::super::ArrayError;
use super::super::assembly::Facts;
use super::super::parity;
use super::super::parity::layout::Layout;
use super::super::parity::stripe_gather::RowKey;

/// Rows of one section differ from those of the other by this bit.
const BEFORE: u64 = 1 << 63;

/// Bytes of the array that lie in one form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) struct RowSection {
    pub(in crate::array) layout: Layout,
    /// Which bytes of the array.
    pub(in crate::array) range: Range,
    /// Where row 0 begins on each member, counted from where data begin afterwards.
    base: u64,
    /// It is the form before a reshape.
    is_before: bool,
}

impl RowSection {
    /// The form of an array that is not being reshaped.
    pub(super) const fn whole(layout: Layout, size: u64) -> Self {
        Self {
            layout,
            range: Range::new(0, size),
            base: 0,
            is_before: false,
        }
    }

    /// Where columns are on each member.
    #[inline]
    pub(super) const fn place(&self, columns: Range) -> Range {
        Range::new(self.base + columns.offset, columns.len)
    }

    /// The columns of `span` that are at `place` of members; `None`: there are none.
    pub(super) fn columns_in(&self, place: Range, span: Range) -> Option<Range> {
        let start = place.offset.saturating_sub(self.base).max(span.offset);
        let end = place.end().saturating_sub(self.base).min(span.end());
        (start < end).then(|| Range::new(start, end - start))
    }

    /// The columns of `row`.
    pub(super) const fn columns_of(&self, row: u64) -> Range {
        Range::new(row * self.layout.chunk, self.layout.chunk)
    }

    /// `row`, with a name that no row of the other section has.
    pub(super) const fn row_key(&self, row: u64) -> RowKey {
        let len = self.layout.row_len();
        RowKey {
            id: match self.is_before {
                false => row,
                true => row | BEFORE,
            },
            start: row * len,
            len,
        }
    }

    /// The columns that hold anything of the array: whole rows.
    pub(super) fn held(&self) -> Range {
        if self.range.is_empty() {
            return Range::new(0, 0);
        }
        let row_len = self.layout.row_len();
        let first = self.range.offset / row_len;
        let behind = self.range.end().div_ceil(row_len);
        let chunk = self.layout.chunk;
        Range::new(first * chunk, (behind - first) * chunk)
    }

    /// The columns that are at `place` of members, of those that hold anything of the array.
    fn columns_at(&self, place: Range) -> Option<Range> {
        self.columns_in(place, self.held())
    }

    /// Whether it has the same rows in the same places, and all of `range`.
    pub(super) fn still_holds(&self, now: &RowSections, range: Range) -> bool {
        let found = now.at(range.offset);
        let form = |of: &Self| (of.layout, of.base, of.is_before);
        let same = form(found) == form(self);
        same && range.end() <= found.range.end()
    }
}

/// The sections of an array: before a position, and from there on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::array) struct RowSections {
    /// All of the array, where it is not being reshaped.
    after: RowSection,
    before: Option<RowSection>,
    /// Bytes of each member that hold something, free ones between sections too.
    len: u64,
}

impl RowSections {
    /// Those of an array.
    ///
    /// # Errors
    /// Its form cannot be, before or after a reshape.
    pub(super) fn of(facts: &Facts) -> Result<Self, ArrayError> {
        let Some(reshape) = &facts.reshape else {
            return Ok(Self {
                after: RowSection::whole(parity::layout_of(facts)?, facts.size),
                before: None,
                len: facts.member_size,
            });
        };
        let before = parity::layout_of(&reshape.before(facts))?;
        let after = Layout::new(facts.level, facts.layout, facts.parts, facts.chunk);
        let after = after.map_err(|what| ArrayError::refused(what, None))?;
        let position = reshape.position;
        let size = size_of(&after, facts.member_size);
        let is_known = size >= facts.size
            && position <= size
            && position.is_multiple_of(after.row_len())
            && (reshape.moved > 0 || after.data() >= before.data());
        if !is_known {
            return Err(ArrayError::refused(
                format!(
                    "the array was being reshaped from {} to {size} bytes, and had come to byte {position}",
                    facts.size
                ),
                "let mdadm finish that: `mdadm --assemble`",
            ));
        }
        let position_before = position.min(facts.size);
        let sections = Self {
            after: RowSection {
                layout: after,
                range: Range::new(0, position),
                base: 0,
                is_before: false,
            },
            before: Some(RowSection {
                layout: before,
                range: Range::new(position_before, facts.size - position_before),
                base: reshape.moved,
                is_before: true,
            }),
            len: facts.member_size + reshape.moved,
        };
        if sections.free_behind().is_none() {
            return Err(ArrayError::refused(
                format!(
                    "the array was being reshaped, and where it had come to, byte {position}, old and new data lie over each other"
                ),
                "let mdadm finish that: `mdadm --assemble`",
            ));
        }
        Ok(sections)
    }

    /// Bytes of each member between what holds something before the position and behind it. `None`: they overlap.
    fn free_behind(&self) -> Option<u64> {
        let end = self.after.place(self.after.held()).end();
        match &self.before {
            Some(before) if !before.range.is_empty() => {
                before.place(before.held()).offset.checked_sub(end)
            }
            _ => Some(u64::MAX),
        }
    }

    /// The form of new rows, or of all.
    pub(super) const fn after(&self) -> &RowSection {
        &self.after
    }

    /// What lies as it did before the reshape.
    pub(super) const fn before(&self) -> Option<&RowSection> {
        self.before.as_ref()
    }

    /// Whether a reshape is going on.
    pub(super) const fn is_reshaping(&self) -> bool {
        self.before.is_some()
    }

    /// Bytes of each member that hold something, free ones between sections too.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// The section with byte `offset` of the array.
    #[inline]
    pub(super) fn at(&self, offset: u64) -> &RowSection {
        match &self.before {
            Some(before) if offset >= self.after.range.end() => before,
            _ => &self.after,
        }
    }

    /// `range` of the array by sections.
    pub(super) fn split(&self, range: Range) -> impl Iterator<Item = (&RowSection, Range)> {
        let border = match &self.before {
            Some(_) => self.after.range.end().clamp(range.offset, range.end()),
            None => range.end(),
        };
        let halves = [
            Range::new(range.offset, border - range.offset),
            Range::new(border, range.end() - border),
        ];
        let halves = halves.into_iter().filter(|half| !half.is_empty());
        halves.map(|half| (self.at(half.offset), half))
    }

    /// Columns at `place` of members, by sections.
    pub(super) fn columns_at(&self, place: Range) -> impl Iterator<Item = (&RowSection, Range)> {
        let sections = std::iter::once(&self.after).chain(&self.before);
        sections.filter_map(move |section| Some((section, section.columns_at(place)?)))
    }

    /// The bytes of the array to be moved next, `wanted` at most and at least one unit: as many as fit into what is free on members.
    /// `None`: all are, or none fits.
    pub(super) fn next_move(&self, wanted: u64) -> Option<Range> {
        let before = self.before.as_ref()?;
        let position = self.after.range.end();
        let size = size_of(&self.after.layout, self.len - before.base);
        let row_len = self.after.layout.row_len();
        let unit = unit(&before.layout, &self.after.layout);
        let free = self.free_behind()? / self.after.layout.chunk;
        let fits = free.saturating_mul(row_len) / unit * unit;
        let len = (wanted / unit * unit).max(unit).min(fits);
        let len = len.min(size - position);
        (len > 0).then(|| Range::new(position, len))
    }

    /// Whether what is to be moved next may have been written over: rows lie where they did before, and none fits into what is free.
    pub(super) fn is_critical(&self) -> bool {
        let has_old = |before: &RowSection| before.base == 0 && !before.range.is_empty();
        self.before.as_ref().is_some_and(has_old) && self.next_move(0).is_none()
    }

    /// Whether a reshape moves rows to where they are: none ever fits into what is free.
    pub(super) fn is_in_place(&self) -> bool {
        let is_so = |before: &RowSection| {
            before.base == 0 && keeps_data(&before.layout, &self.after.layout)
        };
        self.before.as_ref().is_some_and(is_so)
    }

    /// The bytes of the array to be moved next in place, `wanted` at most and at least one unit. `None`: all are.
    pub(super) fn next_in_place(&self, wanted: u64) -> Option<Range> {
        let before = self.before.as_ref()?;
        let position = self.after.range.end();
        let unit = unit(&before.layout, &self.after.layout);
        let left = size_of(&self.after.layout, self.len) - position;
        let len = (wanted / unit * unit).max(unit).min(left);
        (len > 0).then(|| Range::new(position, len))
    }

    /// Whether rows fit into what is free once all before `position` are moved.
    pub(super) fn is_clear_at(&self, position: u64) -> bool {
        let Some(before) = &self.before else {
            return true;
        };
        let (old, new) = (&before.layout, &self.after.layout);
        position >= before.range.end() || has_room(old, new, position)
    }
}

/// Whether an array gets as much data in each row as it has: without free space before the data, its rows are moved in place.
pub(super) const fn keeps_data(before: &Layout, after: &Layout) -> bool {
    after.data() == before.data()
}

/// What a position is a multiple of, bytes of the array: a kernel that continues a reshape takes no other.
fn unit(before: &Layout, after: &Layout) -> u64 {
    let row_len = after.row_len();
    row_len.max(before.chunk / after.chunk * row_len)
}

/// Bytes of the array that must be moved at once, from its beginning, before new rows fit into what is free, where data begin at the same
/// place before and afterwards. `None`: none ever do, since a row has no more data than before.
pub(super) fn critical_len(before: &Layout, after: &Layout) -> Option<u64> {
    let unit = unit(before, after);
    if after.data() <= before.data() {
        return None;
    }
    let mut lens = (1..).map(|units| units * unit);
    lens.find(|len| has_room(before, after, *len))
}

/// Whether a unit of new rows fits between those before `position` and old ones, where data begin at the same place before and afterwards.
fn has_room(before: &Layout, after: &Layout, position: u64) -> bool {
    let columns = |layout: &Layout, len: u64| len / layout.row_len() * layout.chunk;
    let new = columns(after, position + unit(before, after));
    columns(before, position) >= new
}

/// Bytes that rows of `layout` hold on members of `member_size`.
pub(in crate::array) const fn size_of(layout: &Layout, member_size: u64) -> u64 {
    member_size / layout.chunk * layout.row_len()
}
