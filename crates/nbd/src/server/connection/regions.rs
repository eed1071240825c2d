//! Where in files the bytes of a read are.
//!
//! A disk may deal them out to several files, in pieces: each is sent from where it is.

use std::os::fd::AsFd;

use block::{BlockDevice, FileRegion, Range};
use engine::page_cache;
use smallvec::{SmallVec, smallvec};

/// A read with pieces shorter than this on average is left to the disk: each piece is a call of its
/// own, and its packets are no longer than it (docs/adr/0003-large-reads.md).
const PIECE_MEAN_MIN: u64 = 32 << 10;

/// So many bytes from the beginning of a region.
pub(super) type FilePiece = (FileRegion, usize);

/// The pieces of `range` in files, in order; `None`: not all of it is in files, or it is in shreds.
pub(super) fn regions(disk: &dyn BlockDevice, range: Range) -> Option<SmallVec<[FilePiece; 1]>> {
    let mut pieces = smallvec![];
    let mut rest = range;
    let pieces_max = (range.len / PIECE_MEAN_MIN).max(1);
    while !rest.is_empty() {
        if pieces.len() as u64 == pieces_max {
            return None;
        }
        let (leaf, at) = block::resolve_start(disk, rest);
        let (region, len) = leaf.file_region_start(at)?;
        pieces.push((region, Range::new(at.offset, len).len_usize()));
        rest = Range::new(rest.offset + len, rest.len - len);
    }
    Some(pieces)
}

/// Whether the page cache holds all of them.
pub(super) fn are_cached(pieces: &[FilePiece]) -> bool {
    pieces
        .iter()
        .all(|(region, len)| page_cache::is_cached(region.file.as_fd(), region.offset, *len as u64))
}
