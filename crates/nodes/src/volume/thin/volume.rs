//! [`ThinVolume`]: the node of a thin volume. Read-only.
//!
//! # Invariants
//!
//! * A request that lies on chunks that are together, and of which the section is kept, is the data disk's: the
//!   future, the answer on the fast path and the file region are passed on as they are.
//! * Another one is cut into pieces that lie together; nothing is copied.
//! * A read that needs a section that is not kept is no fast one: its metadata are read first.

use std::future::ready;
use std::sync::Arc;

use block::{
    BlockDevice, Extent, ExtentKind, FileRegion, Geometry, Identity, IoBufs, IoError, IoFuture,
    Node, Operation, Range, Support, TryIo, WriteFlags, merge_extents,
};

use super::sections::{CachedVolume, ChunkRun, SECTION_CHUNKS};
use super::walk::Tree;
use super::{ThinError, ThinPool};
use crate::guard::{about, assert_checked, assert_len, refuse};
use crate::read::read_in_order;
use crate::zeroes::zeroes;

/// Pieces of one request that are read at the same time.
const IN_FLIGHT: usize = 16;

/// A thin volume.
#[derive(Debug)]
pub(super) struct ThinVolume {
    pool: Arc<ThinPool>,
    device: u64,
    tree: Tree,
    cached: CachedVolume,
    origin: Option<Node>,
    geometry: Geometry,
}

/// What the bytes of a piece are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PieceSource {
    Data,
    Origin,
    Zeroes,
}

/// Bytes that lie together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ThinPiece {
    source: PieceSource,
    /// Where on the source.
    at: Range,
}

impl ThinVolume {
    pub(super) fn new(
        pool: Arc<ThinPool>,
        device: u64,
        tree: Tree,
        cached: CachedVolume,
        size: u64,
        origin: Option<Node>,
    ) -> Result<Self, ThinError> {
        let below = pool.data.geometry();
        let mut geometry = Geometry {
            size,
            read_only: true,
            trim: Support::None,
            write_zeroes: Support::None,
            ..below.clone()
        };
        if let Some(origin) = origin.as_ref().map(|origin| origin.geometry()) {
            geometry.block_size = geometry.block_size.max(origin.block_size);
            geometry.preferred_block_size =
                (geometry.preferred_block_size).max(origin.preferred_block_size);
            geometry.rotational |= origin.rotational;
        }
        let block_size = geometry.block_size;
        if !size.is_multiple_of(block_size.into()) {
            return Err(ThinError::Blocks { size, block_size });
        }
        Ok(Self {
            pool,
            device,
            tree,
            cached,
            origin,
            geometry,
        })
    }

    /// The first chunk of `range`, which is not empty, and how many it touches.
    fn chunks(&self, range: Range) -> (u64, u64) {
        let chunk = self.pool.chunk_size();
        let first = range.offset / chunk;
        (first, (range.offset + (range.len - 1)) / chunk - first + 1)
    }

    /// The first bytes of `range`: as many as lie together in `run`, which begins at its first chunk.
    fn piece_of(&self, range: Range, run: ChunkRun) -> ThinPiece {
        let chunk = self.pool.chunk_size();
        let (first, within) = (range.offset / chunk, range.offset % chunk);
        let end = first.saturating_add(run.chunks).saturating_mul(chunk);
        let len = range.end().min(end) - range.offset;
        if let Some(data) = run.data {
            let at = Range::new(data * chunk + within, len);
            let source = PieceSource::Data;
            return ThinPiece { source, at };
        }
        let size = self.origin.as_ref().map_or(0, |disk| disk.geometry().size);
        let (source, len) = match size.checked_sub(range.offset) {
            Some(rest) if rest > 0 => (PieceSource::Origin, len.min(rest)),
            _ => (PieceSource::Zeroes, len),
        };
        let at = Range::new(range.offset, len);
        ThinPiece { source, at }
    }

    /// The first piece of `range`, if its section is kept.
    fn cached_piece(&self, range: Range) -> Option<ThinPiece> {
        if range.is_empty() {
            return None;
        }
        let (first, wanted) = self.chunks(range);
        let run = self.pool.sections.find(self.cached, first, wanted)?;
        Some(self.piece_of(range, run))
    }

    /// The whole of `range`, if it is one piece and its section is kept.
    fn cached_whole(&self, range: Range) -> Option<ThinPiece> {
        self.cached_piece(range)
            .filter(|piece| piece.at.len == range.len)
    }

    /// What lies together from the first chunk of `range` on.
    async fn run(&self, range: Range, operation: Operation) -> Result<ChunkRun, IoError> {
        let (first, wanted) = self.chunks(range);
        if let Some(run) = self.pool.sections.find(self.cached, first, wanted) {
            return Ok(run);
        }
        let loaded = self.pool.load(self.cached, self.tree, first, wanted).await;
        loaded.map_err(|error| error.of_request(operation, range))
    }

    /// All pieces of `range`.
    async fn pieces(&self, range: Range) -> Result<Vec<ThinPiece>, IoError> {
        let mut pieces: Vec<ThinPiece> = Vec::new();
        let mut rest = range;
        while !rest.is_empty() {
            let run = self.run(rest, Operation::Read).await?;
            let piece = self.piece_of(rest, run);
            rest = behind(rest, piece.at.len);
            match pieces.last_mut() {
                Some(last) if last.source == piece.source && last.at.end() == piece.at.offset => {
                    last.at.len += piece.at.len;
                }
                _ => pieces.push(piece),
            }
        }
        Ok(pieces)
    }

    /// The disk of a source; `None`: it is zeroes.
    fn disk(&self, source: PieceSource) -> Option<&Node> {
        match source {
            PieceSource::Data => Some(&self.pool.data),
            PieceSource::Origin => self.origin.as_ref(),
            PieceSource::Zeroes => None,
        }
    }

    fn read_piece(&self, piece: ThinPiece) -> IoFuture<'_, IoBufs> {
        match self.disk(piece.source) {
            Some(disk) => disk.read(piece.at),
            None => Box::pin(ready(Ok(zeroes(piece.at.len_usize())))),
        }
    }

    async fn read_pieces(&self, range: Range) -> Result<IoBufs, IoError> {
        let pieces = self.pieces(range).await?;
        let reads = pieces.into_iter().map(|piece| self.read_piece(piece));
        read_in_order(reads, IN_FLIGHT).await
    }

    async fn all_extents(&self, range: Range) -> Result<Vec<Extent>, IoError> {
        let mut extents: Vec<Extent> = Vec::new();
        let mut rest = range;
        while !rest.is_empty() {
            let run = self.long_run(rest).await?;
            let piece = self.piece_of(rest, run);
            let here = Range::new(rest.offset, piece.at.len);
            rest = behind(rest, here.len);
            let kind = match piece.source {
                PieceSource::Data => ExtentKind::Data,
                PieceSource::Zeroes => ExtentKind::Hole,
                PieceSource::Origin => {
                    let origin = self.origin.as_ref().expect("the piece is the origin's");
                    extents.extend(origin.extents(piece.at).await?);
                    continue;
                }
            };
            match extents.last_mut() {
                Some(last) if last.kind == kind => last.range.len += here.len,
                _ => extents.push(Extent { range: here, kind }),
            }
        }
        Ok(merge_extents(extents))
    }

    /// What lies together from the first chunk of `range` on; a hole goes on behind its section, so that one of
    /// many TiB costs a single walk.
    async fn long_run(&self, range: Range) -> Result<ChunkRun, IoError> {
        let mut run = self.run(range, Operation::Extents).await?;
        let (first, wanted) = self.chunks(range);
        let end = first + run.chunks;
        if run.data.is_none() && run.chunks < wanted && end.is_multiple_of(SECTION_CHUNKS) {
            let next = self.pool.next_mapped(self.tree, end).await;
            let next = next.map_err(|error| error.of_request(Operation::Extents, range))?;
            run.chunks = next.map_or(wanted, |next| wanted.min(next - first));
        }
        Ok(run)
    }

    /// Where a piece is, if a caller that follows it cannot write there.
    fn read_only_place(&self, piece: ThinPiece) -> Option<(&Node, Range)> {
        let disk = self.disk(piece.source)?;
        disk.geometry().read_only.then_some((disk, piece.at))
    }
}

/// What of `range` comes behind its first `len` bytes.
const fn behind(range: Range, len: u64) -> Range {
    Range::new(range.offset + len, range.len - len)
}

impl BlockDevice for ThinVolume {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        assert_checked(&self.geometry, range);
        match self.cached_whole(range) {
            Some(piece) => self.read_piece(piece),
            None => Box::pin(async move {
                let data = self.read_pieces(range).await;
                about(Some(range), Operation::Read, data)
            }),
        }
    }

    fn write(&self, range: Range, _data: IoBufs, _flags: WriteFlags) -> IoFuture<'_, ()> {
        refuse(&self.geometry, Operation::Write, range)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    fn write_zeroes(&self, range: Range, _flags: WriteFlags) -> IoFuture<'_, ()> {
        refuse(&self.geometry, Operation::WriteZeroes, range)
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        refuse(&self.geometry, Operation::Trim, range)
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        assert_checked(&self.geometry, range);
        Box::pin(async move {
            let extents = self.all_extents(range).await;
            about(Some(range), Operation::Extents, extents)
        })
    }

    fn identity(&self) -> Option<Identity> {
        let disks = [self.pool.metadata.disk(), &self.pool.data];
        let disks = disks.into_iter().chain(&self.origin);
        let identities = disks.map(|disk| disk.identity());
        Identity::composed("thin", &self.device.to_string(), identities)
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    fn connection_epoch(&self) -> u64 {
        let disks = [self.pool.metadata.disk(), &self.pool.data];
        let disks = disks.into_iter().chain(&self.origin);
        let epochs = disks.map(|disk| disk.connection_epoch());
        epochs.fold(0, u64::wrapping_add)
    }

    fn remap(&self, range: Range) -> Option<(&Node, Range)> {
        self.read_only_place(self.cached_whole(range)?)
    }

    fn remap_start(&self, range: Range) -> Option<(&Node, Range)> {
        self.read_only_place(self.cached_piece(range)?)
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        assert_len(range, into.len());
        let (mut rest, mut into) = (range, into);
        while !rest.is_empty() {
            let Some(piece) = self.cached_piece(rest) else {
                return TryIo::WouldBlock;
            };
            let (here, later) = into.split_at_mut(piece.at.len_usize());
            match self.disk(piece.source) {
                None => here.fill(0),
                Some(disk) if disk.try_read(piece.at, here) == TryIo::Done => {}
                Some(_) => return TryIo::WouldBlock,
            }
            (rest, into) = (behind(rest, piece.at.len), later);
        }
        TryIo::Done
    }

    fn file_region(&self, range: Range) -> Option<FileRegion> {
        let piece = self.cached_whole(range)?;
        let (leaf, at) = block::resolve(&**self.disk(piece.source)?, piece.at);
        leaf.file_region(at)
    }
}
