//! `blocks`: a disk with another block size than its own.
//!
//! ```text
//! request            |···|        or        ··|··········|·
//! block below    [ · · · · ]            [ · · · · ][ · · · · ]
//!                read, change, write    both ends read, all of it written at once
//! ```
//!
//! # Invariants
//!
//! * A change of a part of a block never changes the rest of it, even with other changes in flight: changes
//!   that share a block with it wait (`state.rs`), and so do those behind a change with a future that was
//!   dropped, until the disk below has settled.
//! * A trim leaves the blocks alone that it does not cover; a `write_zeroes` writes into them. What
//!   has no whole block in it changes one block.
//! * A disk that was revalidated shares its turns with the old node: both change the same blocks.
//! * Flush and FUA are the child's: a change of part of a block is one write below, with its flags.
//!
//! # What it does not do
//!
//! A power cut in the middle of a write may tear a block below where the disk below tears blocks.

mod locks;
mod plan;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use block::{
    BlockDevice, Extent, FileRegion, Geometry, Identity, IoBufs, IoError, IoFuture, Node,
    Operation, Range, TryIo, WriteFlags,
};
use engine::Buffer;
use futures_util::future::try_join;

use self::locks::{Guard, Locks};
use self::plan::BlockSpan;
pub(crate) use self::plan::slice;
use self::state::Access;
use crate::guard::{admit, admit_change, assert_checked, assert_len, len_of};
use crate::zeroes::zeroes;

/// Largest block size of the contract, bytes.
const BLOCK_SIZE_MAX: u32 = 65_536;
/// Reads on the fast path that begin or end within a block are tried up to this length, bytes.
const READ_NOW_MAX: u64 = 128 * 1024;

/// A block size that no disk can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a block size is a power of two from 1 to {BLOCK_SIZE_MAX}, {0} is none")]
pub struct BlockSizeError(u32);

/// A disk that is used in blocks of another size.
#[derive(Debug)]
pub struct Blocks {
    child: Node,
    geometry: Geometry,
    /// Shared by all measures of the same disk.
    locks: Arc<Locks>,
}

impl Blocks {
    /// Presents `child` in blocks of `block_size` bytes. What its size has beyond whole blocks is
    /// not presented.
    ///
    /// # Errors
    /// If `block_size` is no power of two up to 65536.
    pub fn new(child: Node, block_size: u32) -> Result<Self, BlockSizeError> {
        if !block_size.is_power_of_two() || block_size > BLOCK_SIZE_MAX {
            return Err(BlockSizeError(block_size));
        }
        Ok(Self::over(child, block_size, Arc::new(Locks::new())))
    }

    fn over(child: Node, block_size: u32, locks: Arc<Locks>) -> Self {
        let below = child.geometry();
        let size = below.size / u64::from(block_size) * u64::from(block_size);
        if size != below.size {
            tracing::warn!(
                "the last {} bytes of a disk are not used: they fill no block of {block_size} bytes",
                below.size - size
            );
        }
        let geometry = Geometry {
            size,
            block_size,
            preferred_block_size: below
                .preferred_block_size
                .max(below.block_size)
                .max(block_size),
            ..below.clone()
        };
        Self {
            child,
            geometry,
            locks,
        }
    }

    /// Block size of the disk below.
    fn below(&self) -> u64 {
        self.child.geometry().block_size.max(1).into()
    }

    fn place(&self, range: Range) -> BlockSpan {
        BlockSpan::of(range, self.below())
    }

    /// Refuses what the disk below cannot do, also where only edges would be written.
    fn admit(&self, operation: Operation, range: Range, flags: WriteFlags) -> Result<(), IoError> {
        admit_change(&self.geometry, operation, range, flags)
    }

    /// The bytes around `place` in the blocks at its ends: those before the request, and those behind it.
    async fn surroundings(&self, place: BlockSpan) -> Result<(IoBufs, IoBufs), IoError> {
        let BlockSpan { range, outer, .. } = place;
        let block = self.below();
        let lead = range.offset - outer.offset;
        let trail = outer.end() - range.end();
        let read = async |wanted: bool, at: u64| {
            if wanted {
                self.child.read(Range::new(at, block)).await
            } else {
                Ok(IoBufs::new())
            }
        };
        let last = outer.end() - block;
        let (head, tail) = if outer.len == block {
            let only = read(lead + trail > 0, last).await?;
            (only.clone(), only)
        } else {
            try_join(read(lead > 0, outer.offset), read(trail > 0, last)).await?
        };
        let len = |bytes: u64| Range::new(0, bytes).len_usize();
        let before = slice(&head, 0, len(lead));
        let behind = slice(&tail, len(block - trail), len(trail));
        Ok((before, behind))
    }

    /// Writes `data` over a part of blocks of which `guard` has the turn.
    async fn rewrite(
        &self,
        guard: &mut Guard<'_>,
        range: Range,
        data: IoBufs,
        flags: WriteFlags,
    ) -> Result<(), IoError> {
        let place = self.place(range);
        let (mut whole, behind) = self.surroundings(place).await?;
        whole.extend(data);
        whole.extend(behind);
        let write = self.child.write(place.outer, whole, flags);
        guard.rewrite(write).await
    }

    async fn turn(&self, blocks: Range, access: Access) -> Result<Guard<'_>, IoError> {
        self.locks.take(blocks, access, &*self.child).await
    }

    async fn zero(&self, place: BlockSpan, flags: WriteFlags) -> Result<(), IoError> {
        let access = if place.is_whole() {
            Access::Beside
        } else {
            Access::Alone
        };
        let mut guard = self.turn(place.outer, access).await?;
        // First, since it may be refused as too slow, and then nothing is done.
        if !place.inner.is_empty() {
            self.child.write_zeroes(place.inner, flags).await?;
        }
        for edge in place.edges(self.below()) {
            let data = zeroes(edge.len_usize());
            let flags = flags & WriteFlags::FUA;
            self.rewrite(&mut guard, edge, data, flags).await?;
        }
        Ok(())
    }
}

/// Returns an error with the range of the caller's request, not the one it became.
fn about<T>(range: Range, operation: Operation, result: Result<T, IoError>) -> Result<T, IoError> {
    result.map_err(|error| IoError {
        operation,
        range: Some(range),
        ..error
    })
}

impl BlockDevice for Blocks {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        let place = self.place(range);
        if place.is_whole() {
            assert_checked(&self.geometry, range);
            return self.child.read(range);
        }
        Box::pin(async move {
            admit(&self.geometry, Operation::Read, range)?;
            let whole = about(range, Operation::Read, self.child.read(place.outer).await)?;
            let start = Range::new(0, range.offset - place.outer.offset).len_usize();
            Ok(slice(&whole, start, range.len_usize()))
        })
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.admit(Operation::Write, range, flags)?;
            assert_len(range, len_of(&data));
            let place = self.place(range);
            if place.is_whole() {
                let _turn = self.turn(range, Access::Beside).await?;
                return self.child.write(range, data, flags).await;
            }
            let mut guard = self.turn(place.outer, Access::Alone).await?;
            let written = self.rewrite(&mut guard, range, data, flags).await;
            about(range, Operation::Write, written)
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.child.flush()
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.admit(Operation::WriteZeroes, range, flags)?;
            let zeroed = self.zero(self.place(range), flags).await;
            about(range, Operation::WriteZeroes, zeroed)
        })
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.admit(Operation::Trim, range, WriteFlags::empty())?;
            let inner = self.place(range).inner;
            if inner.is_empty() {
                return Ok(());
            }
            let _turn = self.turn(inner, Access::Beside).await?;
            about(range, Operation::Trim, self.child.trim(inner).await)
        })
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Extents, range)?;
            let extents = self.child.extents(self.place(range).outer).await;
            let extents = about(range, Operation::Extents, extents)?;
            Ok(plan::clip(extents, range))
        })
    }

    fn identity(&self) -> Option<Identity> {
        self.child.identity()
    }

    fn opening(&self) -> Option<u64> {
        self.child.opening()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(self.locks.settle(&*self.child))
    }

    fn connection_epoch(&self) -> u64 {
        self.child.connection_epoch()
    }

    fn revalidate(&self) -> IoFuture<'_, Option<Node>> {
        Box::pin(async move {
            let Some(child) = self.child.revalidate().await? else {
                return Ok(None);
            };
            let anew = Self::over(child, self.geometry.block_size, self.locks.clone());
            let changed = anew.geometry.size != self.geometry.size;
            Ok(changed.then(|| Arc::new(anew) as Node))
        })
    }

    /// Only where no block is ever rewritten: a caller that changes bytes below must not pass by the turns here.
    fn remap(&self, range: Range) -> Option<(&Node, Range)> {
        let is_made_of_whole = u64::from(self.geometry.block_size).is_multiple_of(self.below());
        is_made_of_whole.then_some((&self.child, range))
    }

    fn file_region(&self, range: Range) -> Option<FileRegion> {
        assert_checked(&self.geometry, range);
        if !self.place(range).is_whole() {
            return None;
        }
        let (leaf, at) = block::resolve(&*self.child, range);
        leaf.file_region(at)
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        assert_len(range, into.len());
        let place = self.place(range);
        if place.is_whole() {
            return self.child.try_read(range, into);
        }
        if place.outer.len > READ_NOW_MAX {
            return TryIo::WouldBlock;
        }
        let mut whole = Buffer::take(place.outer.len_usize());
        if self.child.try_read(place.outer, &mut whole) == TryIo::WouldBlock {
            return TryIo::WouldBlock;
        }
        let start = Range::new(0, range.offset - place.outer.offset).len_usize();
        into.copy_from_slice(&whole[start..start + range.len_usize()]);
        TryIo::Done
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        assert_len(range, data.len());
        if !self.place(range).is_whole() || self.geometry.read_only {
            return TryIo::WouldBlock;
        }
        match self.locks.try_take(range) {
            Some(_turn) => self.child.try_write(range, data),
            None => TryIo::WouldBlock,
        }
    }
}
