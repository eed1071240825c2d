//! Reads and extents over several pieces: from the store and the base, in order.
//!
//! # Invariants
//!
//! * Where the base is written while the overlay is open, what was read of it counts only for chunks that are
//!   still not in the store afterwards: a chunk is in the store before its base changes, so that no read returns
//!   what was written to the base.

use block::{Extent, ExtentKind, IoBufs, IoError, Range, TryIo, merge_extents};

use super::change::IN_FLIGHT;
use super::map::ChunkPiece;
use super::plan::sections;
use super::{Overlay, SECTION};
use crate::blocks::slice;
use crate::read::read_in_order;

/// Pieces in the store that are searched for holes; the others are reported as data.
const SEARCHED_MAX: usize = 64;

impl Overlay {
    pub(super) async fn read_pieces(&self, range: Range) -> Result<IoBufs, IoError> {
        let pieces = self.state().pieces(range);
        let reads = pieces.into_iter().map(|piece| self.read_piece(piece));
        read_in_order(reads, IN_FLIGHT).await
    }

    /// Whether the base may have changed since `piece` was found there.
    fn may_have_changed(&self, piece: &ChunkPiece) -> bool {
        self.must_verify(piece) && self.state().single(piece.at) != Some(*piece)
    }

    async fn read_piece(&self, piece: ChunkPiece) -> Result<IoBufs, IoError> {
        let (node, at) = self.below(&piece);
        let data = node.read(at).await?;
        if !self.may_have_changed(&piece) {
            return Ok(data);
        }
        let parts = self.state().pieces(piece.at);
        let mut all = IoBufs::new();
        for part in parts {
            if part.store.is_some() {
                let (node, at) = self.below(&part);
                all.extend(node.read(at).await?);
                continue;
            }
            let start = Range::new(0, part.at.offset - piece.at.offset).len_usize();
            all.extend(slice(&data, start, part.at.len_usize()));
        }
        Ok(all)
    }

    pub(super) async fn all_extents(&self, range: Range) -> Result<Vec<Extent>, IoError> {
        let mut extents = Vec::new();
        let mut searched = 0;
        for section in sections(range, SECTION) {
            let pieces = self.state().pieces(section);
            for piece in pieces {
                let (node, at) = self.below(&piece);
                searched += usize::from(piece.store.is_some());
                let is_skipped = piece.store.is_some() && searched > SEARCHED_MAX;
                let found = if is_skipped {
                    None
                } else {
                    Some(node.extents(at).await?)
                };
                let Some(found) = found.filter(|_| !self.may_have_changed(&piece)) else {
                    extents.push(Extent {
                        range: piece.at,
                        kind: ExtentKind::Data,
                    });
                    continue;
                };
                extents.extend(found.into_iter().map(|extent| Extent {
                    range: Range::new(
                        extent.range.offset - at.offset + piece.at.offset,
                        extent.range.len,
                    ),
                    ..extent
                }));
            }
        }
        Ok(merge_extents(extents))
    }

    pub(super) fn try_read_pieces(&self, range: Range, into: &mut [u8]) -> TryIo {
        let single = self.state().single(range);
        if let Some(piece) = single {
            return self.read_piece_now(&piece, into);
        }
        let pieces = self.state().pieces(range);
        let mut rest = into;
        for piece in &pieces {
            let (here, later) = rest.split_at_mut(piece.at.len_usize());
            if self.read_piece_now(piece, here) == TryIo::WouldBlock {
                return TryIo::WouldBlock;
            }
            rest = later;
        }
        TryIo::Done
    }

    fn read_piece_now(&self, piece: &ChunkPiece, into: &mut [u8]) -> TryIo {
        let (node, at) = self.below(piece);
        let read = node.try_read(at, into);
        if self.may_have_changed(piece) {
            return TryIo::WouldBlock;
        }
        read
    }
}
