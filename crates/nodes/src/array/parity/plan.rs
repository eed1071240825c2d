//! A request as reads of the members, and what is computed from them. Pure.
//!
//! A plan is made for a *span*: the same bytes of every member, some rows or some columns of one row.
//!
//! ```text
//!             part 0   part 1   part 2   part 3          a read of D1 and D2, part 2 is gone:
//! row         | D0   | D1   | (D2) | P    |
//! columns       ····   ████   ░░░░   ····                 ██ is read as it is, ░░ is the sum of ··
//! ```
//!
//! # Invariants
//!
//! * Only columns that are needed are read, and each byte of a member once.
//! * What is there is passed on as it was read; only what is lost is computed.
//! * Nothing is computed from parity that is not to be trusted.

use block::Range;

use super::layout::{Layout, Row};
use super::unreadable::Lost;

/// What is read, and what becomes of it.
#[derive(Debug, PartialEq, Eq, Default)]
pub(in crate::array) struct Plan {
    /// Reads of members, by part and place; none touches another.
    pub(in crate::array) reads: Vec<Bytes>,
    /// The bytes of the request that the span has, in order of the request.
    pub(in crate::array) pieces: Vec<Piece>,
    /// What is computed.
    pub(in crate::array) rebuilds: Vec<Rebuild>,
}

/// Bytes of a member's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::array) struct Bytes {
    pub(in crate::array) part: usize,
    pub(in crate::array) range: Range,
}

/// Bytes of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) struct Piece {
    /// Where in the array they begin.
    pub(in crate::array) at: u64,
    /// What they are of their member.
    pub(in crate::array) bytes: Bytes,
    /// The place among the [`rebuilds`](Plan::rebuilds), and which of its results; `None`: they are
    /// read.
    pub(in crate::array) rebuilt: Option<(usize, usize)>,
}

/// Bytes that are computed: those of one or two parts, in the same columns of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::array) struct Rebuild {
    /// The row.
    pub(in crate::array) row: Row,
    /// Which bytes of each member.
    pub(in crate::array) columns: Range,
    /// From what.
    pub(in crate::array) way: Way,
}

/// What lost data is computed from, next to the data that is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) enum Way {
    /// The data of this part from P.
    FromP(usize),
    /// The data of this part from Q.
    FromQ(usize),
    /// The data of these parts from P and Q, in the order of their exponents.
    FromBoth([usize; 2]),
}

impl Way {
    /// The parts that it gives data of.
    pub(in crate::array) fn gives(&self) -> &[usize] {
        match self {
            Self::FromP(part) | Self::FromQ(part) => std::slice::from_ref(part),
            Self::FromBoth(parts) => parts,
        }
    }

    /// The parts of `row` that it reads where `gone` cannot be read.
    pub(in crate::array) fn reads(self, row: &Row, gone: &[usize]) -> impl Iterator<Item = usize> {
        (0..row.parts()).filter(move |part| match self {
            _ if gone.contains(part) => false,
            Self::FromP(_) => Some(*part) != row.q,
            Self::FromQ(_) => *part != row.p,
            Self::FromBoth(_) => true,
        })
    }
}

/// Why bytes cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::array) struct Gone {
    /// Where, of each member.
    pub(in crate::array) columns: Range,
    /// Which bytes of the array.
    pub(in crate::array) range: Range,
    /// The parts that cannot be read there.
    pub(in crate::array) parts: Vec<usize>,
    /// Parity is there, and is not to be trusted.
    pub(in crate::array) unsynced: bool,
}

/// Where `offset` of the array is: its row, the chunk's number in the row, the byte of the chunk.
const fn place(layout: &Layout, offset: u64) -> (u64, u64, u64) {
    let chunk = offset / layout.chunk;
    let data = layout.data() as u64;
    (chunk / data, chunk % data, offset % layout.chunk)
}

/// The member's bytes that hold `range`, if they lie on one.
pub(in crate::array) fn single(layout: &Layout, range: Range) -> Option<Bytes> {
    let (row, index, within) = place(layout, range.offset);
    if range.len > layout.chunk - within {
        return None;
    }
    Some(Bytes {
        part: layout.row(row).part(to_index(index)),
        range: Range::new(row * layout.chunk + within, range.len),
    })
}

/// How many bytes from `offset` on lie together on one part.
pub(in crate::array) const fn run(layout: &Layout, offset: u64) -> u64 {
    layout.chunk - offset % layout.chunk
}

fn to_index(index: u64) -> usize {
    usize::try_from(index).expect("less than the number of parts")
}

/// The bytes of each member that a request touches, as one range: its rows, or its columns where it lies
/// within a chunk.
pub(in crate::array) fn footprint(layout: &Layout, range: Range) -> Range {
    if range.is_empty() {
        return Range::new(0, 0);
    }
    if let Some(bytes) = single(layout, range) {
        return bytes.range;
    }
    let (first, _, _) = place(layout, range.offset);
    let (last, _, _) = place(layout, range.end() - 1);
    Range::new(first * layout.chunk, (last - first + 1) * layout.chunk)
}

/// Cuts a footprint into spans of at most `len_max` bytes: whole rows where that is at least one, else
/// columns of one.
pub(in crate::array) fn spans(
    layout: &Layout,
    footprint: Range,
    len_max: u64,
) -> impl Iterator<Item = Range> + use<> {
    let chunk = layout.chunk;
    let step = if len_max >= chunk {
        len_max / chunk * chunk
    } else {
        len_max
    };
    let mut at = footprint.offset;
    std::iter::from_fn(move || {
        let row_end = (at / chunk + 1) * chunk;
        let limit = if step >= chunk {
            at / chunk * chunk + step
        } else {
            (at + step).min(row_end)
        };
        let end = limit.min(footprint.end());
        let span = Range::new(at, end.checked_sub(at).filter(|len| *len > 0)?);
        at = end;
        Some(span)
    })
}

/// Plans what `request` wants of `span`.
///
/// # Errors
/// [`Gone`]: more is lost there than parity can bear.
pub(in crate::array) fn plan(
    layout: &Layout,
    lost: &Lost,
    request: Range,
    span: Range,
) -> Result<Plan, Gone> {
    let mut plan = Plan::default();
    let mut at = span.offset;
    while at < span.end() {
        let row = at / layout.chunk;
        let end = ((row + 1) * layout.chunk).min(span.end());
        let columns = Range::new(at, end - at);
        plan.add_row(layout, lost, request, row, columns)?;
        at = end;
    }
    plan.join_reads();
    Ok(plan)
}

/// What a request wants of one data chunk.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    at: u64,
    bytes: Bytes,
}

impl Plan {
    /// Adds what the request wants of these columns of a row.
    fn add_row(
        &mut self,
        layout: &Layout,
        lost: &Lost,
        request: Range,
        number: u64,
        columns: Range,
    ) -> Result<(), Gone> {
        let row = layout.row(number);
        let wanted = wanted(layout, request, number, &row, columns);
        let is_lost = |wanted: &Wanted| lost.touches(wanted.bytes.part, wanted.bytes.range);
        if !wanted.iter().any(is_lost) {
            for wanted in wanted {
                self.pass_on(wanted);
            }
            return Ok(());
        }
        let mut borders = lost.borders(columns);
        let ranges = wanted.iter().map(|wanted| wanted.bytes.range);
        borders.extend(ranges.flat_map(|range| [range.offset, range.end()]));
        borders.sort_unstable();
        borders.dedup();
        for border in borders.windows(2) {
            let columns = Range::new(border[0], border[1] - border[0]);
            let mut here = wanted.clone();
            here.retain(|wanted| wanted.bytes.range.overlaps(&columns));
            for wanted in &mut here {
                wanted.at += columns.offset - wanted.bytes.range.offset;
                wanted.bytes.range = columns;
            }
            self.add_columns(lost, row, columns, here)?;
        }
        Ok(())
    }

    /// Adds columns in which each part is lost or is not.
    fn add_columns(
        &mut self,
        lost: &Lost,
        row: Row,
        columns: Range,
        wanted: Vec<Wanted>,
    ) -> Result<(), Gone> {
        let gone = lost.lost(columns);
        let mut rebuild = None;
        for wanted in wanted {
            let part = wanted.bytes.part;
            if !gone.contains(&part) {
                self.pass_on(wanted);
                continue;
            }
            let index = match rebuild {
                Some(index) => index,
                None => {
                    let way = way(&row, &gone, part).filter(|_| !lost.is_unsynced(columns));
                    let Some(way) = way else {
                        return Err(Gone {
                            columns,
                            range: Range::new(wanted.at, columns.len),
                            unsynced: self::way(&row, &gone, part).is_some(),
                            parts: gone,
                        });
                    };
                    *rebuild.insert(self.rebuild(row, columns, way, &gone))
                }
            };
            let mut given = self.rebuilds[index].way.gives().iter();
            let which = given.position(|given| *given == part);
            let which = which.expect("all data that is lost here is given by one way");
            self.pieces.push(Piece {
                at: wanted.at,
                bytes: wanted.bytes,
                rebuilt: Some((index, which)),
            });
        }
        Ok(())
    }

    /// Passes bytes on as they are read.
    fn pass_on(&mut self, wanted: Wanted) {
        self.reads.push(wanted.bytes);
        self.pieces.push(Piece {
            at: wanted.at,
            bytes: wanted.bytes,
            rebuilt: None,
        });
    }

    /// Adds what is computed and what it is computed from.
    fn rebuild(&mut self, row: Row, columns: Range, way: Way, gone: &[usize]) -> usize {
        let range = columns;
        let reads = way.reads(&row, gone).map(|part| Bytes { part, range });
        self.reads.extend(reads);
        self.rebuilds.push(Rebuild { row, columns, way });
        self.rebuilds.len() - 1
    }

    /// Makes one read of those that touch.
    fn join_reads(&mut self) {
        self.reads = join_reads(std::mem::take(&mut self.reads));
        self.pieces.sort_unstable_by_key(|piece| piece.at);
    }

    /// The read that has `bytes`, and how far into it they begin.
    ///
    /// # Panics
    /// If no read has them.
    pub(in crate::array) fn find(&self, bytes: Bytes) -> (usize, usize) {
        find_read(&self.reads, bytes)
    }
}

/// Makes one read of those that touch, in order.
pub(in crate::array) fn join_reads(mut reads: Vec<Bytes>) -> Vec<Bytes> {
    reads.sort_unstable();
    let mut joined: Vec<Bytes> = Vec::with_capacity(reads.len());
    for read in reads {
        match joined.last_mut() {
            Some(last) if last.part == read.part && read.range.offset <= last.range.end() => {
                let end = last.range.end().max(read.range.end());
                last.range.len = end - last.range.offset;
            }
            _ => joined.push(read),
        }
    }
    joined
}

/// Which of `reads`, joined and in order, has `bytes`, and how far into it they begin.
///
/// # Panics
/// If none has them.
pub(in crate::array) fn find_read(reads: &[Bytes], bytes: Bytes) -> (usize, usize) {
    let behind = reads
        .partition_point(|read| (read.part, read.range.offset) <= (bytes.part, bytes.range.offset));
    let index = behind.checked_sub(1).expect("what is used is read");
    let read = reads[index];
    assert!(
        read.part == bytes.part && read.range.end() >= bytes.range.end(),
        "what is used is read"
    );
    let skip = Range::new(0, bytes.range.offset - read.range.offset);
    (index, skip.len_usize())
}

/// What a request wants of these columns of a row, chunk by chunk.
fn wanted(layout: &Layout, request: Range, number: u64, row: &Row, columns: Range) -> Vec<Wanted> {
    let row_at = number * layout.row_len();
    let row_range = Range::new(row_at, layout.row_len());
    if !request.overlaps(&row_range) {
        return Vec::new();
    }
    let from = request.offset.max(row_at) - row_at;
    let to = request.end().min(row_range.end()) - row_at;
    let within = columns.offset - number * layout.chunk;
    let chunks = from / layout.chunk..to.div_ceil(layout.chunk);
    let of_chunk = |index: u64| {
        let chunk = index * layout.chunk;
        let start = (chunk + within).max(from);
        let end = (chunk + within + columns.len).min(to);
        let len = end.checked_sub(start).filter(|len| *len > 0)?;
        let range = Range::new(number * layout.chunk + start - chunk, len);
        let part = row.part(to_index(index));
        Some(Wanted {
            at: row_at + start,
            bytes: Bytes { part, range },
        })
    };
    chunks.filter_map(of_chunk).collect()
}

/// How the data of `part` is computed where `gone` cannot be read.
pub(in crate::array) fn way(row: &Row, gone: &[usize], part: usize) -> Option<Way> {
    let has_p = !gone.contains(&row.p);
    let has_q = row.q.is_some_and(|q| !gone.contains(&q));
    let mut data = gone.iter().copied().filter(|part| !row.is_parity(*part));
    match (data.next(), data.next(), data.next()) {
        (Some(only), None, None) if has_p => Some(Way::FromP(only)),
        (Some(only), None, None) if has_q => Some(Way::FromQ(only)),
        (Some(a), Some(b), None) if has_p && has_q => {
            let in_order = row.exponent(a) < row.exponent(b);
            Some(Way::FromBoth(if in_order { [a, b] } else { [b, a] }))
        }
        _ => None,
    }
    .filter(|way| way.gives().contains(&part))
}
