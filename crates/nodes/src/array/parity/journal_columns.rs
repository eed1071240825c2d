//! Columns of pages, as a journal has them: of a row that is written, and of meta blocks that are read. Pure.
//!
//! ```text
//!             part 0   part 1   part 2   part 3        the journal gets, for each column of pages
//! row         | D0   | D1   | D2   | P    |
//! column a      ████     ····     ████     ████        meta block: D0, D2, P │ page of D0 │ page of D2 │ page of P
//! column b      ····     ····     ████     ████                    D2, P     │ page of D2 │ page of P
//! ```
//!
//! # Invariants
//!
//! * A column has all pages that are written of it, and all of its parities: what replay writes makes a whole row of it.
//! * All payloads of a column are in one meta block, data before parity: so Linux reads them.
//! * Data count once there is parity behind them, and all of what came before then, too, page by page the newest. Parity
//!   without data says nothing: its column was on members before.
//!
//! # What it does not do
//!
//! It reads and writes nothing.

use std::collections::BTreeMap;

use block::{IoBufs, Range};
use bytes::Bytes;
use smallvec::SmallVec;

use super::super::format::r5l::{JournalKey, JournalSpace, MetaBlock, PAGE, PAGE_USIZE, Payload};
use super::layout::Layout;
use super::plan::{Bytes as MemberBytes, single};
use super::stripe_compute::MemberWrite;
use crate::blocks::slice;
use crate::zeroes::zeroes;

/// A column of pages that is to be logged.
#[derive(Debug, Clone)]
pub(in crate::array) struct LoggedColumn {
    /// Byte of each member's data.
    at: u64,
    /// Pages that are written, and which bytes of the array they are.
    data: Vec<(u64, IoBufs)>,
    /// P, then Q.
    parity: SmallVec<[IoBufs; 2]>,
}

/// What is written into the journal at once.
#[derive(Debug)]
pub(in crate::array) struct JournalImage {
    pub(in crate::array) data: IoBufs,
    pub(in crate::array) len: u64,
    /// Meta blocks in it.
    pub(in crate::array) blocks: u64,
}

/// What a journal has of a column: parts, and where their pages are, byte of the journal.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in crate::array) struct FoundColumn {
    /// What is to be on members: data and parity.
    pub(in crate::array) whole: BTreeMap<usize, u64>,
    /// Data that were acknowledged without parity (write-back): on no member yet, and newer.
    pub(in crate::array) cached: BTreeMap<usize, u64>,
}

/// What a journal has, by the columns' bytes of each member's data.
#[derive(Debug, Default)]
pub(in crate::array) struct FoundColumns(BTreeMap<u64, FoundColumn>);

/// Bytes from where the page begins that has byte `at`.
pub(in crate::array) const fn page_of(at: u64) -> u64 {
    at / PAGE * PAGE
}

/// The whole pages that hold what is written of each part, without overlaps.
pub(in crate::array) fn whole_pages(writes: &[MemberWrite]) -> Vec<MemberBytes> {
    let mut pages: Vec<MemberBytes> = Vec::new();
    for write in writes {
        let MemberBytes { part, range } = write.bytes;
        let start = page_of(range.offset);
        let end = range.end().next_multiple_of(PAGE);
        match pages.last_mut() {
            Some(last) if last.part == part && start <= last.range.end() => {
                last.range.len = end - last.range.offset;
            }
            _ => pages.push(MemberBytes {
                part,
                range: Range::new(start, end - start),
            }),
        }
    }
    pages
}

/// What of some whole pages is not written; in order.
pub(in crate::array) fn gaps(pages: &[MemberBytes], writes: &[MemberWrite]) -> Vec<MemberBytes> {
    let mut gaps = Vec::new();
    for page in pages {
        let mut at = page.range.offset;
        let is_in = |write: &&MemberWrite| {
            write.bytes.part == page.part && write.bytes.range.overlaps(&page.range)
        };
        let ends = Range::new(page.range.end(), 0);
        let written = writes.iter().filter(is_in).map(|write| write.bytes.range);
        for range in written.chain([ends]) {
            if at < range.offset {
                gaps.push(MemberBytes {
                    part: page.part,
                    range: Range::new(at, range.offset - at),
                });
            }
            at = range.end();
        }
    }
    gaps
}

/// The part of some writes that lies in `columns`.
pub(in crate::array) fn cut(writes: &[MemberWrite], columns: Range) -> Vec<MemberWrite> {
    let mut cut = Vec::new();
    for write in writes {
        let range = write.bytes.range;
        let start = range.offset.max(columns.offset);
        let end = range.end().min(columns.end());
        if start >= end {
            continue;
        }
        let within = Range::new(start - range.offset, end - start);
        let from = Range::new(0, within.offset).len_usize();
        cut.push(MemberWrite {
            bytes: MemberBytes {
                part: write.bytes.part,
                range: Range::new(start, end - start),
            },
            data: slice(&write.data, from, within.len_usize()),
        });
    }
    cut
}

/// The page of a part at byte `at` of its data, if it is written.
fn page(writes: &[MemberWrite], part: usize, at: u64) -> Option<IoBufs> {
    let page = Range::new(at, PAGE);
    let mut writes = writes.iter();
    let write =
        writes.find(|write| write.bytes.part == part && write.bytes.range.overlaps(&page))?;
    let within = Range::new(0, at - write.bytes.range.offset);
    Some(slice(&write.data, within.len_usize(), PAGE_USIZE))
}

/// What the journal gets of a change of `row`: `new` is what is written to parts with data, in whole pages, `parity` what is to
/// those with parity. A parity without a holder is on no member: it is logged as zeroes.
pub(in crate::array) fn logged(
    layout: &Layout,
    row: u64,
    (new, parity): (&[MemberWrite], &[MemberWrite]),
) -> Vec<LoggedColumn> {
    let of = layout.row(row);
    let mut places: Vec<u64> = Vec::new();
    for write in new {
        let range = write.bytes.range;
        places.extend((range.offset..range.end()).step_by(PAGE_USIZE));
    }
    places.sort_unstable();
    places.dedup();
    let column = |at: u64| {
        let first = row * layout.row_len() + at - row * layout.chunk;
        let data = (0..layout.data()).filter_map(|index| {
            let place = first + index as u64 * layout.chunk;
            Some((place, page(new, of.part(index), at)?))
        });
        let parities = std::iter::once(of.p).chain(of.q);
        let page = |part| page(parity, part, at).unwrap_or_else(|| zeroes(PAGE_USIZE));
        LoggedColumn {
            at,
            data: data.collect(),
            parity: parities.map(page).collect(),
        }
    };
    places.into_iter().map(column).collect()
}

impl LoggedColumn {
    /// Bytes that it takes in a journal, at most.
    pub(in crate::array) fn len_max(&self) -> u64 {
        PAGE * (1 + self.data.len() + self.parity.len()) as u64
    }

    fn payloads(&self, key: JournalKey) -> Vec<Payload> {
        let checksum = |page: &IoBufs| key.checksum(page.iter().map(|piece| &piece[..]));
        let data = self.data.iter().map(|(at, page)| Payload::Data {
            at: *at,
            checksum: checksum(page),
        });
        let parity = Payload::Parity {
            at: self.at,
            checksums: self.parity.iter().map(checksum).collect(),
        };
        data.chain([parity]).collect()
    }
}

impl JournalImage {
    /// Meta blocks and pages of some columns, from byte `at` of the journal on, with sequences from `sequence` on.
    pub(in crate::array) fn of(
        columns: &[LoggedColumn],
        (key, space): (JournalKey, JournalSpace),
        (at, sequence): (u64, u64),
    ) -> Self {
        let mut image = Self {
            data: IoBufs::new(),
            len: 0,
            blocks: 0,
        };
        let mut block = MetaBlock::empty(sequence, at);
        let mut pages = IoBufs::new();
        for column in columns {
            let payloads = column.payloads(key);
            if !block.has_room(&payloads) {
                image.push(&block, std::mem::take(&mut pages), key);
                block = MetaBlock::empty(
                    sequence.wrapping_add(image.blocks),
                    space.advance(at, image.len),
                );
            }
            block.payloads.extend(payloads);
            let data = column.data.iter().map(|(_, page)| page);
            pages.extend(data.chain(&column.parity).flatten().cloned());
        }
        image.push(&block, pages, key);
        image
    }

    fn push(&mut self, block: &MetaBlock, pages: IoBufs, key: JournalKey) {
        self.len += block.footprint();
        self.blocks += 1;
        self.data.push(Bytes::from(block.encode(key)));
        self.data.extend(pages);
    }
}

impl FoundColumns {
    /// Whether there is nothing that could not be on members.
    pub(in crate::array) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The columns, and where they are in each member's data.
    pub(in crate::array) fn iter(&self) -> impl Iterator<Item = (u64, &FoundColumn)> {
        self.0.iter().map(|(at, column)| (*at, column))
    }

    /// Adds what a meta block says, which was read whole, for an array of `size` bytes.
    ///
    /// # Errors
    /// It names a place that the array does not have.
    pub(in crate::array) fn add(
        &mut self,
        block: &MetaBlock,
        (layout, size): (&Layout, u64),
        space: JournalSpace,
    ) -> Result<(), String> {
        let mut at = space.advance(block.at, PAGE);
        for payload in &block.payloads {
            match payload {
                Payload::Data { at: place, .. } => {
                    let page = Range::new(*place, PAGE);
                    let bytes = page.check(size, 1).is_ok().then(|| single(layout, page));
                    let bytes = bytes.flatten();
                    let bytes = bytes.ok_or_else(|| format!("a page at byte {place} of it"))?;
                    let column = self.0.entry(bytes.range.offset).or_default();
                    column.cached.insert(bytes.part, at);
                }
                Payload::Parity {
                    at: place,
                    checksums,
                } => {
                    let row = place / layout.chunk;
                    let is_there =
                        row < size / layout.row_len() && checksums.len() == layout.parities();
                    if !is_there {
                        return Err(format!("parity at byte {place} of its members"));
                    }
                    let of = layout.row(row);
                    let parts = std::iter::once(of.p).chain(of.q);
                    let pages = (0..).map(|index| space.advance(at, index * PAGE));
                    self.add_parity(*place, parts.zip(pages));
                }
                Payload::OnMembers { columns } => {
                    columns.iter().for_each(|place| drop(self.0.remove(place)));
                }
            }
            at = space.advance(at, PAGE * payload.checksums().len() as u64);
        }
        Ok(())
    }

    fn add_parity(&mut self, place: u64, parity: impl Iterator<Item = (usize, u64)>) {
        let Some(column) = self.0.get_mut(&place) else {
            return;
        };
        let cached = std::mem::take(&mut column.cached);
        column.whole.extend(cached);
        column.whole.extend(parity);
    }
}
