//! The change of a row, cut so that a partial parity log can have it. Pure.
//!
//! An entry of the log has some columns of a row, and in these *consecutive* chunks. What has no such entry is written in
//! several passes, one after the other, each with an entry for all that it writes:
//!
//! ```text
//!             D0     D1     D2     D3          pass 1: a of D0, b of D0 and D1     pass 2: a of D2
//! columns a   ████   ····   ████   ····
//! columns b   ████   ████   ····   ····
//! ```
//!
//! # Invariants
//!
//! * Every byte that is written is in one pass, and each pass has entries for all that it writes to members that are there.
//! * What the only missing part would get is parity alone: it goes with a pass that writes others, as data that stay, or
//!   has an entry that names it alone, which takes the place of older ones.
//! * No pass has more entries than a header, or more partial parity than the log has room for.

use block::{IoBufs, Range};
use engine::Buffer;
use engine::parity::Kernel;

use super::super::format::SECTOR;
use super::super::format::ppl::{self, ENTRIES_MAX, PplEntry};
use super::layout::Layout;
use super::plan::Bytes;
use super::stripe_compute::{MemberWrite, join_writes};
use crate::blocks::slice;

/// Columns of one entry without partial parity, at most, bytes.
const FULL_MAX: u64 = 1 << 20;

/// What is written together, and logged before.
#[derive(Debug, Default)]
pub(in crate::array) struct PplPass {
    pub(in crate::array) writes: Vec<MemberWrite>,
    pub(in crate::array) spans: Vec<PplSpan>,
}

/// Columns in which consecutive chunks are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::array) struct PplSpan {
    pub(in crate::array) columns: Range,
    /// The number of the first chunk in its row.
    first: usize,
    /// The parts with them, in order.
    parts: Vec<usize>,
    /// Parts that are missing, and get data that parity alone has.
    missing: Vec<usize>,
    /// All data of the row are written.
    is_full: bool,
}

/// What a log gets of one pass.
#[derive(Debug, Clone)]
pub(in crate::array) struct PplRecord {
    pub(in crate::array) entries: Vec<PplEntry>,
    /// The partial parity of the entries, in their order.
    pub(in crate::array) parity: IoBufs,
    /// Parts that the pass writes.
    pub(in crate::array) parts: Vec<usize>,
}

impl PplSpan {
    fn parity_len(&self) -> u64 {
        if self.is_full { 0 } else { self.columns.len }
    }

    /// Takes the first `len` bytes of its columns off.
    fn split_off(&mut self, len: u64) -> Self {
        let first = Range::new(self.columns.offset, len);
        self.columns = Range::new(first.end(), self.columns.len - len);
        Self {
            columns: first,
            ..self.clone()
        }
    }

    fn writes<'a>(&self, new: &'a [MemberWrite]) -> impl Iterator<Item = MemberWrite> + 'a {
        let range = self.columns;
        let parts = self.parts.iter().chain(&self.missing);
        let parts: Vec<usize> = parts.copied().collect();
        parts.into_iter().map(move |part| {
            let bytes = Bytes { part, range };
            MemberWrite {
                bytes,
                data: bytes_of(new, bytes),
            }
        })
    }
}

/// Cuts a change of row `row` into passes. `new`: what is written to parts with data, those of a part joined. `held`: by part,
/// whether it has a holder. `parity_max`: room of the log, bytes.
pub(in crate::array) fn passes(
    layout: &Layout,
    row: u64,
    new: &[MemberWrite],
    (held, parity_max): (&[bool], u64),
) -> Vec<PplPass> {
    let of = layout.row(row);
    let part = |index| of.part(index);
    let mut borders: Vec<u64> = new
        .iter()
        .flat_map(|write| [write.bytes.range.offset, write.bytes.range.end()])
        .collect();
    borders.sort_unstable();
    borders.dedup();
    let mut layers: Vec<Vec<PplSpan>> = Vec::new();
    for border in borders.windows(2) {
        let columns = Range::new(border[0], border[1] - border[0]);
        let is_written = |part: usize| {
            let mut writes = new.iter().map(|write| write.bytes);
            writes.any(|bytes| bytes.part == part && bytes.range.overlaps(&columns))
        };
        let written: Vec<usize> = (0..layout.data())
            .filter(|i| is_written(part(*i)))
            .collect();
        for (layer, span) in spans(columns, &written, part, held).into_iter().enumerate() {
            if layers.len() == layer {
                layers.push(Vec::new());
            }
            let is_full = span.parts.len() == layout.data();
            layers[layer].push(PplSpan { is_full, ..span });
        }
    }
    let mut passes = Vec::new();
    for layer in layers {
        chop(layer, new, parity_max, &mut passes);
    }
    passes
}

/// The runs of consecutive chunks among those that are written in `columns`; what goes to a missing part is of the first.
fn spans(
    columns: Range,
    written: &[usize],
    part: impl Fn(usize) -> usize,
    held: &[bool],
) -> Vec<PplSpan> {
    let span = |first: usize| PplSpan {
        columns,
        first,
        parts: Vec::new(),
        missing: Vec::new(),
        is_full: false,
    };
    let (there, missing): (Vec<usize>, Vec<usize>) =
        written.iter().partition(|index| held[part(**index)]);
    let mut spans: Vec<PplSpan> = Vec::new();
    for index in there {
        let continues = |span: &&mut PplSpan| span.first + span.parts.len() == index;
        match spans.last_mut().filter(continues) {
            Some(last) => last.parts.push(part(index)),
            None => {
                let mut first = span(index);
                first.parts.push(part(index));
                spans.push(first);
            }
        }
    }
    let Some(lowest) = missing.first() else {
        return spans;
    };
    if spans.is_empty() {
        spans.push(span(*lowest));
    }
    spans[0].missing = missing.iter().map(|index| part(*index)).collect();
    spans
}

/// Deals spans out to passes that have room for them.
fn chop(layer: Vec<PplSpan>, new: &[MemberWrite], parity_max: u64, passes: &mut Vec<PplPass>) {
    let mut pass = PplPass::default();
    let mut room = parity_max;
    let mut end = |pass: &mut PplPass| {
        let mut done = std::mem::take(pass);
        done.writes = join_writes(done.writes);
        passes.push(done);
    };
    for mut span in layer {
        while !span.columns.is_empty() {
            if pass.spans.len() == ENTRIES_MAX || (room == 0 && !span.is_full) {
                end(&mut pass);
                room = parity_max;
            }
            let most = if span.is_full { FULL_MAX } else { room };
            let next = span.split_off(span.columns.len.min(most));
            room -= next.parity_len();
            pass.writes.extend(next.writes(new));
            pass.spans.push(next);
        }
    }
    if !pass.spans.is_empty() {
        end(&mut pass);
    }
}

/// What the log gets of a pass that writes `new`. `parity`: the parity that it writes.
pub(in crate::array) fn record(
    layout: &Layout,
    row: u64,
    spans: &[PplSpan],
    (parity, new): (&[MemberWrite], &[MemberWrite]),
) -> PplRecord {
    let p = layout.row(row).p;
    let mut record = PplRecord {
        entries: Vec::with_capacity(spans.len()),
        parity: IoBufs::new(),
        parts: new.iter().map(|write| write.bytes.part).collect(),
    };
    record.parts.push(p);
    for span in spans {
        let at = row * layout.row_len()
            + span.first as u64 * layout.chunk
            + (span.columns.offset - row * layout.chunk);
        // One of which nothing is there names the part that is missing.
        let chunks = span.parts.len().max(1) as u64;
        let len = |len: u64| u32::try_from(len).expect("a span is not that long");
        let mut entry = PplEntry {
            data_sector: at / SECTOR,
            parity_len: len(span.parity_len()),
            data_len: len(span.columns.len * chunks),
            parity_part: u32::try_from(p).expect("parts are few"),
            checksum: ppl::checksum([]),
        };
        if !span.is_full {
            let parity = partial_parity(span, p, parity, new).freeze();
            entry.checksum = ppl::checksum([&*parity]);
            record.parity.push(parity);
        }
        record.entries.push(entry);
    }
    record
}

/// The sum of what a span leaves as it is: new parity, less what is written.
fn partial_parity(span: &PplSpan, p: usize, parity: &[MemberWrite], new: &[MemberWrite]) -> Buffer {
    let range = span.columns;
    let mut sum = Buffer::take(range.len_usize());
    sum.fill(0);
    let only_missing = span.parts.is_empty().then_some(&span.missing);
    let written = only_missing.unwrap_or(&span.parts).iter();
    let terms = written.map(|part| bytes_of(new, Bytes { part: *part, range }));
    for bufs in terms.chain([bytes_of(parity, Bytes { part: p, range })]) {
        let mut at = 0;
        for piece in &bufs {
            let end = at + piece.len();
            Kernel::best().multiply_add(1, piece, &mut sum[at..end]);
            at = end;
        }
    }
    sum
}

/// Bytes that one of `writes` has.
fn bytes_of(writes: &[MemberWrite], bytes: Bytes) -> IoBufs {
    let has = |write: &&MemberWrite| {
        let own = write.bytes.range;
        let is_within = own.offset <= bytes.range.offset && bytes.range.end() <= own.end();
        write.bytes.part == bytes.part && is_within
    };
    let write = writes.iter().find(has).expect("it is written");
    let skip = Range::new(0, bytes.range.offset - write.bytes.range.offset);
    slice(&write.data, skip.len_usize(), bytes.range.len_usize())
}
