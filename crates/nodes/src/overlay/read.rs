//! Reads and extents over several pieces: from the store and the base, in order.

use block::{Extent, ExtentKind, IoBufs, IoError, Range, TryIo, merge_extents};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::change::IN_FLIGHT;
use super::plan::sections;
use super::{Overlay, SECTION};

/// Pieces in the store that are searched for holes; the others are reported as data.
const SEARCHED_MAX: usize = 64;

impl Overlay {
    pub(super) async fn read_pieces(&self, range: Range) -> Result<IoBufs, IoError> {
        let pieces = self.state().pieces(range);
        stream::iter(pieces)
            .map(|piece| {
                let (node, at) = self.below(&piece);
                node.read(at)
            })
            .buffered(IN_FLIGHT)
            .try_fold(IoBufs::new(), async |mut all, data| {
                all.extend(data);
                Ok(all)
            })
            .await
    }

    pub(super) async fn all_extents(&self, range: Range) -> Result<Vec<Extent>, IoError> {
        let mut extents = Vec::new();
        let mut searched = 0;
        for section in sections(range, SECTION) {
            let pieces = self.state().pieces(section);
            for piece in pieces {
                let (node, at) = self.below(&piece);
                searched += usize::from(piece.store.is_some());
                if piece.store.is_some() && searched > SEARCHED_MAX {
                    let kind = ExtentKind::Data;
                    extents.push(Extent {
                        range: piece.at,
                        kind,
                    });
                    continue;
                }
                let found = node.extents(at).await?;
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

    pub(super) fn read_pieces_now(&self, range: Range, into: &mut [u8]) -> TryIo {
        let single = self.state().single(range);
        if let Some(piece) = single {
            let (node, at) = self.below(&piece);
            return node.try_read(at, into);
        }
        let pieces = self.state().pieces(range);
        let mut rest = into;
        for piece in &pieces {
            let (node, at) = self.below(piece);
            let (here, later) = rest.split_at_mut(at.len_usize());
            if node.try_read(at, here) == TryIo::WouldBlock {
                return TryIo::WouldBlock;
            }
            rest = later;
        }
        TryIo::Done
    }
}
