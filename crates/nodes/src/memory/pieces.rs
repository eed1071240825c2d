//! [`MemoryPieces`]: sparse memory behind many small locks.
//!
//! ```text
//! byte offset   0        64 KiB   128 KiB   …
//! piece         0        1        2         …     a piece that is not there reads as zeroes
//! shard         piece modulo SHARDS: neighbours have different locks
//! ```

use std::collections::{BTreeMap, TryReserveError};
use std::fmt;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use block::{Extent, ExtentKind, Range, merge_extents};

/// Size of a piece, bytes.
pub(super) const PIECE: u64 = 64 * 1024;
const PIECE_LEN: usize = 64 * 1024;
/// Locks. One is held for the copy of at most one piece.
const SHARDS: u64 = 256;

/// Whether zeroing gives pieces back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freeing {
    Free,
    Keep,
}

type Shard = BTreeMap<u64, Box<[u8]>>;

pub(super) struct MemoryPieces {
    shards: Box<[RwLock<Shard>]>,
}

/// The part of a range that lies in one piece.
struct PiecePart {
    piece: u64,
    /// Within the piece.
    start: usize,
    len: usize,
}

impl PiecePart {
    const fn is_whole(&self) -> bool {
        self.len == PIECE_LEN
    }

    const fn span(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.len
    }
}

impl MemoryPieces {
    pub(super) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
        }
    }

    pub(super) fn read(&self, offset: u64, into: &mut [u8]) {
        let mut rest = into;
        for part in parts(Range::new(offset, rest.len() as u64)) {
            let (here, later) = rest.split_at_mut(part.len);
            match self.shard(part.piece).get(&part.piece) {
                Some(piece) => here.copy_from_slice(&piece[part.span()]),
                None => here.fill(0),
            }
            rest = later;
        }
    }

    /// Fails with part of the data written if memory runs out.
    pub(super) fn write(&self, offset: u64, data: &[u8]) -> Result<(), TryReserveError> {
        let mut rest = data;
        for part in parts(Range::new(offset, data.len() as u64)) {
            let (here, later) = rest.split_at(part.len);
            let mut shard = self.shard_mut(part.piece);
            if let Some(piece) = shard.get_mut(&part.piece) {
                piece[part.span()].copy_from_slice(here);
            } else {
                let mut piece = zeroed_piece()?;
                piece[part.span()].copy_from_slice(here);
                shard.insert(part.piece, piece);
            }
            rest = later;
        }
        Ok(())
    }

    /// The shards that hold pieces of `range`, each once.
    pub(super) fn shards_of(range: Range) -> impl Iterator<Item = u64> {
        let pieces = pieces_of(range);
        let count = (pieces.end - pieces.start).min(SHARDS);
        (pieces.start..pieces.start + count).map(|piece| piece % SHARDS)
    }

    /// Zeroes what `shard` holds of `range`.
    pub(super) fn zero(&self, shard: u64, range: Range, freeing: Freeing) {
        let mut shard = self.shard_mut(shard);
        let mut freed = Vec::new();
        for (&number, piece) in shard.range_mut(pieces_of(range)) {
            let part = part_of(range, number);
            if part.is_whole() && freeing == Freeing::Free {
                freed.push(number);
            } else {
                piece[part.span()].fill(0);
            }
        }
        for number in freed {
            shard.remove(&number);
        }
    }

    pub(super) fn extents(&self, range: Range) -> Vec<Extent> {
        let mut found: Vec<u64> = Self::shards_of(range)
            .flat_map(|shard| {
                let shard = self.shard(shard);
                let pieces = shard.range(pieces_of(range)).map(|(&number, _)| number);
                pieces.collect::<Vec<_>>()
            })
            .collect();
        found.sort_unstable();
        let mut extents = Vec::new();
        let mut at = range.offset;
        for number in found {
            let part = part_of(range, number);
            let start = number * PIECE + part.start as u64;
            extents.push(extent(at, start, ExtentKind::Hole));
            at = start + part.len as u64;
            extents.push(extent(start, at, ExtentKind::Data));
        }
        extents.push(extent(at, range.end(), ExtentKind::Hole));
        merge_extents(extents)
    }

    /// Pieces that are allocated.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        (0..SHARDS).map(|shard| self.shard(shard).len()).sum()
    }

    fn lock(&self, piece: u64) -> &RwLock<Shard> {
        let index = usize::try_from(piece % SHARDS).expect("a shard's number is small");
        &self.shards[index]
    }

    /// A panic under the lock leaves whole pieces: the lock is taken all the same.
    fn shard(&self, piece: u64) -> RwLockReadGuard<'_, Shard> {
        let lock = self.lock(piece).read();
        lock.unwrap_or_else(PoisonError::into_inner)
    }

    fn shard_mut(&self, piece: u64) -> RwLockWriteGuard<'_, Shard> {
        let lock = self.lock(piece).write();
        lock.unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryPieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pieces").finish_non_exhaustive()
    }
}

fn zeroed_piece() -> Result<Box<[u8]>, TryReserveError> {
    let mut piece = Vec::new();
    piece.try_reserve_exact(PIECE_LEN)?;
    piece.resize(PIECE_LEN, 0);
    Ok(piece.into_boxed_slice())
}

fn extent(start: u64, end: u64, kind: ExtentKind) -> Extent {
    Extent {
        range: Range::new(start, end - start),
        kind,
    }
}

/// Numbers of the pieces that `range` touches.
fn pieces_of(range: Range) -> std::ops::Range<u64> {
    if range.is_empty() {
        return 0..0;
    }
    range.offset / PIECE..range.end().div_ceil(PIECE)
}

/// What `range` has of piece `number`, which it touches.
fn part_of(range: Range, number: u64) -> PiecePart {
    let base = number * PIECE;
    let start = range.offset.max(base) - base;
    let end = (range.end() - base).min(PIECE);
    let index = |within: u64| usize::try_from(within).expect("a place in a piece is small");
    PiecePart {
        piece: number,
        start: index(start),
        len: index(end - start),
    }
}

fn parts(range: Range) -> impl Iterator<Item = PiecePart> {
    pieces_of(range).map(move |number| part_of(range, number))
}
