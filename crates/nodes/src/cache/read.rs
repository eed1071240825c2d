//! Reads: what is answered from the cache file, and what has to be fetched.

use std::sync::Arc;

use block::{FileRegion, IoBufs, IoError, Node, Range, TryIo};

use super::Shared;
use super::format::{BLOCK, BLOCK_LEN, BLOCKS, GRANULE, block_crc};
use super::slots::{SlotLookup, SlotPlace, blocks_of};
use super::state::CachePiece;
use super::stats::count;
use crate::blocks::slice;
use crate::read::read_in_order;

/// Pieces of one read that are read at a time.
const IN_FLIGHT: usize = 8;
/// Bytes of the disk that are read together.
const FETCH_MAX: u64 = 1 << 20;

impl Shared {
    pub(super) async fn read(self: &Arc<Self>, range: Range) -> Result<IoBufs, IoError> {
        if self.failure.get().is_some() {
            return self.child.read(range).await;
        }
        let pieces = self.state().pieces(range);
        let is_hit = |piece: &CachePiece| {
            matches!(piece.found, SlotLookup::Hit(_) | SlotLookup::Unverified(_))
        };
        match pieces.iter().all(is_hit) {
            true => count(&self.counters.hits, 1),
            false => count(&self.counters.misses, 1),
        }
        if let &[piece] = pieces.as_slice() {
            return self.read_piece(piece).await;
        }
        let pieces = joined(pieces).into_iter();
        read_in_order(pieces.map(|piece| self.read_piece(piece)), IN_FLIGHT).await
    }

    async fn read_piece(self: &Arc<Self>, piece: CachePiece) -> Result<IoBufs, IoError> {
        let range = piece.range;
        let cached = match piece.found {
            SlotLookup::Hit(place) => self.read_slot(place, range).await,
            SlotLookup::Unverified(place) => self.verify(place, range).await,
            SlotLookup::Uncached => return self.child.read(range).await,
            SlotLookup::Miss => None,
        };
        match cached {
            Some(data) => Ok(data),
            None => self.fetch(range).await,
        }
    }

    /// Reads verified blocks. `None`: the slot has got another granule meanwhile, or the cache file failed.
    async fn read_slot(self: &Arc<Self>, place: SlotPlace, range: Range) -> Option<IoBufs> {
        let read = self.store.read(self.store_range(place.slot, range)).await;
        let data = read.map_err(|error| self.fail(&error)).ok()?;
        self.state().slots.is_current(place).then_some(data)
    }

    /// Reads blocks for the first time since the file was opened, and checks them.
    async fn verify(self: &Arc<Self>, place: SlotPlace, range: Range) -> Option<IoBufs> {
        let start = range.offset / BLOCK * BLOCK;
        let whole = Range::new(start, range.end().next_multiple_of(BLOCK) - start);
        let crcs = self.state().slots.crcs(place)?;
        let read = self.store.read(self.store_range(place.slot, whole)).await;
        let data = read.map_err(|error| self.fail(&error)).ok()?.concat();
        let granule = range.offset / GRANULE;
        let blocks = blocks_of(whole, true);
        let first = blocks.trailing_zeros();
        let (mut matching, mut damaged) = (0, 0);
        for (block, bytes) in (first..BLOCKS).zip(data.chunks_exact(BLOCK_LEN)) {
            let crc = block_crc(&self.id, granule, block, bytes);
            let is_right = crcs.get(block as usize) == Some(&crc);
            let verdict = if is_right {
                &mut matching
            } else {
                &mut damaged
            };
            *verdict |= 1 << block;
        }
        if !self.state().slots.verified(place, matching, damaged) {
            return None;
        }
        if damaged != 0 {
            count(&self.counters.damaged, u64::from(u32::count_ones(damaged)));
            self.write_table();
            return None;
        }
        let within = Range::new(0, range.offset - start).len_usize();
        Some(slice(
            &IoBufs::from_iter([data.into()]),
            within,
            range.len_usize(),
        ))
    }

    pub(super) fn try_read(self: &Arc<Self>, range: Range, into: &mut [u8]) -> TryIo {
        let pieces = self.state().pieces(range);
        let mut rest = into;
        for piece in &pieces {
            let SlotLookup::Hit(place) = piece.found else {
                return TryIo::WouldBlock;
            };
            let (here, later) = rest.split_at_mut(piece.range.len_usize());
            let at = self.store_range(place.slot, piece.range);
            if self.store.try_read(at, here) == TryIo::WouldBlock
                || !self.state().slots.is_current(place)
            {
                return TryIo::WouldBlock;
            }
            rest = later;
        }
        count(&self.counters.hits, 1);
        TryIo::Done
    }

    pub(super) fn file_region(&self, range: Range) -> Option<FileRegion> {
        if !self.layout.is_whole() || range.is_empty() {
            return None;
        }
        let pieces = self.state().pieces(range);
        let first = match pieces.first()?.found {
            SlotLookup::Hit(place) => place.slot,
            _ => return None,
        };
        // Each granule has its own slot, in order.
        let is_hit = |piece: &CachePiece| matches!(piece.found, SlotLookup::Hit(_));
        let at = self.store_range(first, range);
        let (leaf, at) = block::resolve(&*self.store, at);
        let region = pieces.iter().all(is_hit).then(|| leaf.file_region(at))??;
        count(&self.counters.hits, 1);
        Some(region)
    }

    /// The disk, for those that know its bytes are not cached.
    pub(super) const fn disk(&self) -> &Node {
        &self.child
    }
}

/// The same pieces, with misses that lie together as one, up to [`FETCH_MAX`] bytes.
pub(super) fn joined(pieces: Vec<CachePiece>) -> Vec<CachePiece> {
    let mut joined: Vec<CachePiece> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        if let Some(last) = joined.last_mut()
            && (last.found, piece.found) == (SlotLookup::Miss, SlotLookup::Miss)
            && piece.range.end() - last.range.offset <= FETCH_MAX
        {
            last.range.len += piece.range.len;
            continue;
        }
        joined.push(piece);
    }
    joined
}
