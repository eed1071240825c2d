//! Requests of a node as those that librbd takes, and what its answers mean. Pure.

use std::io;

use block::{Extent, ExtentKind, Range, merge_extents};
use rustix::io::Errno as Os;

/// Most bytes of one discard or zeroing: longer ones occupy many threads of the cluster at once.
const PIECE_MAX: u64 = 1 << 30;

/// `range` in pieces that librbd is given one by one.
pub(super) fn pieces(range: Range) -> impl Iterator<Item = Range> + Send {
    let count = range.len.div_ceil(PIECE_MAX);
    (0..count).map(move |index| {
        let start = index * PIECE_MAX;
        Range::new(range.offset + start, PIECE_MAX.min(range.len - start))
    })
}

/// Extents of `range`, of what has objects, in order; `None`: everything may.
pub(super) fn extents(range: Range, allocated: Option<Vec<(u64, u64)>>) -> Vec<Extent> {
    let all = || vec![(range.offset, range.len)];
    let mut extents = Vec::new();
    let mut at = range.offset;
    let mut add = |end: u64, kind| {
        if end > at {
            let range = Range::new(at, end - at);
            extents.push(Extent { range, kind });
            at = end;
        }
    };
    for (offset, len) in allocated.unwrap_or_else(all) {
        add(offset.min(range.end()), ExtentKind::Hole);
        add((offset + len).min(range.end()), ExtentKind::Data);
    }
    add(range.end(), ExtentKind::Hole);
    merge_extents(extents)
}

/// Whether an error of librbd says that this client may not write any more: the cluster has put it on its block list, or it
/// has no lock. Nothing that was not flushed is certain then, and nothing that is read is current.
pub(super) fn is_locked_out(error: &io::Error, read_only: bool) -> bool {
    match error.raw_os_error().map(Os::from_raw_os_error) {
        Some(Os::SHUTDOWN) => true,
        Some(Os::ROFS) => !read_only,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(extents: &[Extent]) -> Vec<(u64, u64, ExtentKind)> {
        let parts = extents.iter();
        parts
            .map(|extent| (extent.range.offset, extent.range.len, extent.kind))
            .collect()
    }

    #[test]
    fn pieces_cover_a_range_in_order() {
        let range = Range::new(4096, 2 * PIECE_MAX + 512);
        let cut: Vec<Range> = pieces(range).collect();
        let expected = [
            Range::new(4096, PIECE_MAX),
            Range::new(4096 + PIECE_MAX, PIECE_MAX),
            Range::new(4096 + 2 * PIECE_MAX, 512),
        ];
        assert_eq!(cut, expected);
        assert_eq!(pieces(Range::new(77, 0)).count(), 0);
    }

    #[test]
    fn what_has_no_object_is_a_hole() {
        use ExtentKind::{Data, Hole};
        let range = Range::new(100, 1000);
        let found = Some(vec![(0, 200), (400, 100), (1000, 4096)]);
        let expected = [
            (100, 100, Data),
            (200, 200, Hole),
            (400, 100, Data),
            (500, 500, Hole),
            (1000, 100, Data),
        ];
        assert_eq!(kinds(&extents(range, found)), expected);
        assert_eq!(kinds(&extents(range, Some(vec![]))), [(100, 1000, Hole)]);
        assert_eq!(kinds(&extents(range, None)), [(100, 1000, Data)]);
        assert_eq!(
            kinds(&extents(range, Some(vec![(0, 50)]))),
            [(100, 1000, Hole)]
        );
        assert_eq!(extents(Range::new(5, 0), None), []);
    }

    #[test]
    fn a_client_that_is_locked_out_is_not_one_whose_disk_is_full() {
        let error = |os: Os| io::Error::from(os);
        assert!(is_locked_out(&error(Os::SHUTDOWN), true));
        assert!(is_locked_out(&error(Os::ROFS), false));
        assert!(!is_locked_out(&error(Os::ROFS), true));
        assert!(!is_locked_out(&error(Os::NOSPC), false));
    }
}
