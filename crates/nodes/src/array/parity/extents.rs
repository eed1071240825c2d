//! What members say of their allocation, as that of the array. Pure.
//!
//! Rows of which every part says the same are reported at once.

use block::{Extent, ExtentKind, Range};

use super::layout::Layout;
use super::plan::{run, single};

/// Extents of one answer, at most. What lies behind is reported as data.
const EXTENTS_MAX: usize = 65_536;
/// Chunks and runs of rows that are looked at for one answer.
const STEPS_MAX: usize = 1 << 20;

/// The answer of one part, by the bytes of its data: in order, and read in order.
#[derive(Debug)]
pub(super) struct ReportedExtents {
    extents: Vec<Extent>,
    at: usize,
}

impl ReportedExtents {
    pub(super) const fn new(extents: Vec<Extent>) -> Self {
        Self { extents, at: 0 }
    }

    /// Its answer for byte `offset`, and up to where. What a part does not answer for is data.
    fn of(&mut self, offset: u64) -> (ExtentKind, u64) {
        while let Some(extent) = self.extents.get(self.at) {
            if extent.range.end() > offset {
                return (extent.kind, extent.range.end());
            }
            self.at += 1;
        }
        (ExtentKind::Data, u64::MAX)
    }
}

/// Joins what all parts say of `range`.
pub(super) fn join(layout: &Layout, range: Range, reported: &mut [ReportedExtents]) -> Vec<Extent> {
    let mut whole: Vec<Extent> = Vec::new();
    let mut at = range.offset;
    let mut steps = 0;
    let mut push = |at: &mut u64, len: u64, kind: ExtentKind| {
        match whole.last_mut() {
            Some(last) if last.kind == kind => last.range.len += len,
            _ => whole.push(Extent {
                range: Range::new(*at, len),
                kind,
            }),
        }
        *at += len;
        steps += 1;
        whole.len() < EXTENTS_MAX && steps < STEPS_MAX
    };
    while at < range.end() {
        let left = range.end() - at;
        let alike = rows_alike(layout, Range::new(at, left), reported);
        let (len, kind) = alike.unwrap_or_else(|| {
            let len = run(layout, at).min(left);
            let bytes = single(layout, Range::new(at, len)).expect("a run lies on one part");
            let (kind, end) = reported[bytes.part].of(bytes.range.offset);
            (len.min(end - bytes.range.offset), kind)
        });
        if !push(&mut at, len, kind) {
            break;
        }
    }
    let left = range.end() - at;
    if left > 0 {
        push(&mut at, left, ExtentKind::Data);
    }
    whole
}

/// How many bytes of whole rows at the beginning of `rest` are of one kind on all parts.
fn rows_alike(
    layout: &Layout,
    rest: Range,
    reported: &mut [ReportedExtents],
) -> Option<(u64, ExtentKind)> {
    let row_len = layout.row_len();
    if !rest.offset.is_multiple_of(row_len) {
        return None;
    }
    let below = rest.offset / row_len * layout.chunk;
    let mut said = reported.iter_mut().map(|reported| reported.of(below));
    let (kind, end) = said.next()?;
    let end = said.try_fold(end, |end, (also, to)| (also == kind).then_some(end.min(to)))?;
    let rows = ((end - below) / layout.chunk).min(rest.len / row_len);
    (rows > 0).then_some((rows * row_len, kind))
}
