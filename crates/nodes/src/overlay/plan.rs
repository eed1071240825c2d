//! What a change becomes in the store, and what a flush writes into its tables. Pure.

use block::{IoBufs, Range};

use super::format::{self, StoreLayout};
use super::map::{ChunkPiece, Exception};
use super::state::ChunkWork;
use crate::blocks::slice;

/// One write of the store.
#[derive(Debug)]
pub(super) struct StoreWrite {
    /// Where in the store.
    pub(super) at: Range,
    /// `None`: zeroes.
    pub(super) data: Option<IoBufs>,
}

/// A request and what is around it in new chunks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sides {
    pub(super) head: Range,
    pub(super) middle: Range,
    pub(super) tail: Range,
}

impl Sides {
    pub(super) const fn of(outer: Range, request: Range) -> Self {
        Self {
            head: between(outer.offset, request.offset),
            middle: request,
            tail: between(request_end(request), request_end(outer)),
        }
    }
}

const fn between(start: u64, end: u64) -> Range {
    Range::new(start, end - start)
}

const fn request_end(range: Range) -> u64 {
    range.offset + range.len
}

/// `ranges`, which are in order, with all of the chunks that they touch, as far as those lie in
/// `within`; neighbours become one.
pub(super) fn whole_chunks(ranges: &[Range], chunk: u64, within: Range) -> Vec<Range> {
    let mut whole: Vec<Range> = Vec::new();
    for range in ranges {
        let start = (range.offset / chunk * chunk).max(within.offset);
        let end = range.end().div_ceil(chunk).saturating_mul(chunk);
        let end = end.min(within.end());
        match whole.last_mut() {
            Some(last) if last.end() >= start => last.len = end.max(last.end()) - last.offset,
            _ => whole.push(between(start, end)),
        }
    }
    whole
}

/// The parts of `pieces` that may not be zeroes, in order: all that is in the store, and the base's where it has
/// `data`, which is in order.
pub(super) fn not_zero(pieces: &[ChunkPiece], data: &[Range]) -> Vec<Range> {
    let mut wanted = Vec::new();
    for piece in pieces {
        if piece.store.is_some() {
            wanted.push(piece.at);
            continue;
        }
        let first = data.partition_point(|range| range.end() <= piece.at.offset);
        let within = data[first..].iter().map(|range| {
            let start = range.offset.max(piece.at.offset);
            (start, range.end().min(piece.at.end()))
        });
        let within = within.take_while(|(start, end)| start < end);
        wanted.extend(within.map(|(start, end)| between(start, end)));
    }
    wanted
}

/// The steps that write `data` over all of `work`.
pub(super) fn writes(work: &ChunkWork, data: &IoBufs) -> Vec<StoreWrite> {
    steps(work, work.outer, |part| {
        let start = Range::new(0, part.offset - work.outer.offset).len_usize();
        Some(slice(data, start, part.len_usize()))
    })
}

/// The steps that zero the request, with `head` and `tail` from the base around it.
pub(super) fn zeroes(
    work: &ChunkWork,
    sides: Sides,
    head: &IoBufs,
    tail: &IoBufs,
) -> Vec<StoreWrite> {
    let part_of = |whole: Range, data: &IoBufs, part: Range| {
        let start = Range::new(0, part.offset - whole.offset).len_usize();
        Some(slice(data, start, part.len_usize()))
    };
    let mut all = steps(work, sides.head, |part| part_of(sides.head, head, part));
    all.extend(steps(work, sides.middle, |_| None));
    all.extend(steps(work, sides.tail, |part| {
        part_of(sides.tail, tail, part)
    }));
    all
}

/// A step for each piece of `work` that `within` touches.
fn steps(
    work: &ChunkWork,
    within: Range,
    mut data: impl FnMut(Range) -> Option<IoBufs>,
) -> Vec<StoreWrite> {
    let mut steps = Vec::with_capacity(work.pieces.len());
    for piece in &work.pieces {
        let start = piece.at.offset.max(within.offset);
        let end = piece.at.end().min(within.end());
        if start >= end {
            continue;
        }
        let part = between(start, end);
        let store = piece.store.expect("all of a change is in the store");
        steps.push(StoreWrite {
            at: Range::new(store + (start - piece.at.offset), part.len),
            data: data(part),
        });
    }
    steps
}

/// Cuts `range` into sections of at most `len_max`.
pub(crate) fn sections(range: Range, len_max: u64) -> impl Iterator<Item = Range> {
    let mut at = range.offset;
    std::iter::from_fn(move || {
        let len = len_max.min(range.end() - at);
        let section = Range::new(at, len);
        at += len;
        (len > 0).then_some(section)
    })
}

/// The end of the tables: how many exceptions are durable, and the table that the next one goes to.
#[derive(Debug)]
pub(crate) struct Tail {
    layout: StoreLayout,
    committed: u64,
    table: Vec<u8>,
}

impl Tail {
    /// Behind `committed` exceptions, of which `listed` are the last table's.
    pub(super) fn new(layout: StoreLayout, committed: u64, listed: &[Exception]) -> Self {
        let mut tail = Self {
            layout,
            committed,
            table: vec![0; Range::new(0, layout.chunk()).len_usize()],
        };
        for (index, &exception) in listed.iter().enumerate() {
            format::put(&mut tail.table, index, exception);
        }
        tail
    }

    /// The table that the next exception goes to.
    pub(crate) fn table(&self) -> &[u8] {
        &self.table
    }

    /// How many exceptions are durable.
    pub(crate) const fn committed(&self) -> u64 {
        self.committed
    }

    /// Its number.
    pub(crate) fn index(&self) -> u64 {
        self.committed / self.layout.per_table()
    }

    /// The tables that change when `added` are listed too: their numbers and new content, in order.
    pub(super) fn tables(&self, added: &[Exception]) -> impl Iterator<Item = (u64, Vec<u8>)> {
        let first = self.index();
        let used = self.used();
        let room = self.per_table() - used;
        let (here, later) = added.split_at(room.min(added.len()));
        let mut table = self.table.clone();
        list(&mut table, used, here);
        let later = later.chunks(self.per_table()).map(|some| {
            let mut table = vec![0; self.table.len()];
            list(&mut table, 0, some);
            table
        });
        (first..).zip(std::iter::once(table).chain(later))
    }

    /// `added` are listed and durable.
    pub(super) fn advance(&mut self, added: &[Exception]) {
        let used = self.used();
        let total = used + added.len();
        let last_table = total / self.per_table() * self.per_table();
        self.committed += added.len() as u64;
        if last_table == 0 {
            list(&mut self.table, used, added);
            return;
        }
        self.table.fill(0);
        let rest = &added[last_table - used..];
        list(&mut self.table, 0, rest);
    }

    /// Exceptions in the table.
    fn used(&self) -> usize {
        let used = self.committed % self.layout.per_table();
        Range::new(0, used).len_usize()
    }

    fn per_table(&self) -> usize {
        Range::new(0, self.layout.per_table()).len_usize()
    }
}

fn list(table: &mut [u8], used: usize, exceptions: &[Exception]) {
    for (index, &exception) in (used..).zip(exceptions) {
        format::put(table, index, exception);
    }
}
