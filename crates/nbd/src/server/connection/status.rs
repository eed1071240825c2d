//! The allocation of a disk, as `BLOCK_STATUS` reports it.
//!
//! # Invariants
//!
//! * The extents cover the request from its first byte on without a gap, and nothing behind its
//!   end. They may end before; the client's next request begins there.
//! * A hole is reported only where whole blocks of the export are one. The rest is reported as
//!   allocated with any content, which is always true.

use block::{Extent, ExtentKind, IoError, Node, Range, merge_extents};

/// Extents in one answer. A client requests the rest from where it ends, so this bounds what one request takes of
/// processor and memory: a file may have a hole between any two pages.
pub(super) const EXTENTS_MAX: usize = 1 << 12;
/// Memory that one of them takes on its way, from the disk's list to the reply.
const EXTENT_BYTES: u64 = 64;
/// Extents begin and end at multiples of this where they can (proto.md, `NBD_CMD_BLOCK_STATUS`).
const ALIGN: u32 = 512;
/// Bytes of the first query to the disk: no more extents than fit an answer, where each is a page…
const WINDOW_FIRST: u64 = 4096 * EXTENTS_MAX as u64;
/// …or so much where one extent is wanted: clients that ask for them one by one must not make the
/// disk count all that follow each time. Then…
const WINDOW_ONE: u64 = 256 << 10;
/// …as much as should have the extents that are left, and at most so many times as much in each turn.
const WINDOW_GROWTH: u64 = 8;

/// Memory that the status of `range` may take.
pub(super) fn memory(range: Range) -> usize {
    let extents = (range.len / u64::from(ALIGN) + 2).min(EXTENTS_MAX as u64);
    Range::new(0, extents * EXTENT_BYTES).len_usize()
}

/// Queries the extents of `range` as far as one reply goes: to the first change if `one`.
pub(super) async fn collect(disk: &Node, range: Range, one: bool) -> Result<Vec<Extent>, IoError> {
    let align = disk.geometry().block_size.max(ALIGN);
    let wanted = if one { 1 } else { EXTENTS_MAX };
    let mut reported = Vec::new();
    let mut at = range.offset;
    let mut window = if one { WINDOW_ONE } else { WINDOW_FIRST };
    while at < range.end() {
        let requested = Range::new(at, window.min(range.end() - at));
        let found = disk.extents(requested).await?;
        reported.extend(in_blocks(&found, requested, align));
        reported = merge_extents(reported);
        // The last may go on.
        if reported.len() > wanted {
            break;
        }
        at = requested.end();
        window = next_window(window, found.len(), wanted - reported.len() + 1);
    }
    reported.truncate(wanted);
    Ok(reported)
}

/// The next window behind one of `window` bytes that had `found` extents, where `left` more are wanted.
pub(super) fn next_window(window: u64, found: usize, left: usize) -> u64 {
    let grown = window.saturating_mul(WINDOW_GROWTH);
    // Where nothing changes, the density is unknown: a disk of a pebibyte may be one hole.
    if found <= 2 {
        return grown;
    }
    let expected = u128::from(window) * left as u128 / found as u128;
    u64::try_from(expected).map_or(grown, |expected| {
        expected.clamp(WINDOW_ONE.min(grown), grown)
    })
}

/// What `found` says of `range`, in whole blocks of `align` bytes but at its two ends.
pub(super) fn in_blocks(found: &[Extent], range: Range, align: u32) -> Vec<Extent> {
    let align = u64::from(align);
    let mut reported = Vec::with_capacity(found.len() + 1);
    let mut at = range.offset;
    let mut tell = |at: &mut u64, end: u64, kind| {
        let len = end - *at;
        reported.push(Extent {
            range: Range::new(*at, len),
            kind,
        });
        *at = end;
    };
    for extent in found.iter().filter(|e| e.kind != ExtentKind::Data) {
        let mut start = extent.range.offset.max(at);
        let mut end = extent.range.end().min(range.end());
        if start > range.offset {
            start = start.next_multiple_of(align);
        }
        if end < range.end() {
            end = end / align * align;
        }
        if start < end {
            tell(&mut at, start, ExtentKind::Data);
            tell(&mut at, end, extent.kind);
        }
    }
    tell(&mut at, range.end(), ExtentKind::Data);
    merge_extents(reported)
}
