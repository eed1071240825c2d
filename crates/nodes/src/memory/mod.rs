//! `memory`: a disk in RAM that costs what was written to it.
//!
//! # Invariants
//!
//! * Memory is held in pieces, allocated by the first write that touches them; a piece that is not
//!   there reads as zeroes. A trim or a `write_zeroes` frees the pieces it covers whole.
//! * No request waits: each is done at its future's first polls, and dropping one leaves nothing
//!   behind, so [`settle`](BlockDevice::settle) has nothing to wait for.
//! * `NO_HOLE` keeps the pieces there are. It allocates none: memory cannot be reserved.
//!
//! # What it does not do
//!
//! Its content ends with the process; a flush is accepted because there is nothing to lose to it.

mod pieces;
#[cfg(test)]
mod tests;

use block::{
    BlockDevice, Errno, Extent, Geometry, Identity, IoBufs, IoError, IoFuture, Operation, Range,
    TryIo, WriteFlags,
};
use engine::Buffer;
use smallvec::smallvec;

use self::pieces::{Freeing, MemoryPieces};
use crate::guard::{admit, assert_checked, assert_len, len_of};

/// Shards that are zeroed between two chances for other tasks of the thread.
const SHARDS_PER_TURN: usize = 32;

/// A disk in RAM.
#[derive(Debug)]
pub struct Memory {
    geometry: Geometry,
    pieces: MemoryPieces,
    identity: Identity,
}

impl Memory {
    /// A disk of `size` zeroes, none of them allocated.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self {
            geometry: Geometry::native(size),
            pieces: MemoryPieces::new(),
            identity: new_identity(),
        }
    }

    /// The same, never written.
    #[must_use]
    pub const fn read_only(mut self) -> Self {
        self.geometry.read_only = true;
        self
    }

    async fn zero(&self, range: Range, freeing: Freeing) {
        for (done, shard) in MemoryPieces::shards_of(range).enumerate() {
            self.pieces.zero(shard, range, freeing);
            if done % SHARDS_PER_TURN == SHARDS_PER_TURN - 1 {
                tokio::task::yield_now().await;
            }
        }
    }
}

impl BlockDevice for Memory {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Read, range)?;
            let mut buffer = Buffer::take(range.len_usize());
            self.pieces.read(range.offset, &mut buffer);
            Ok(smallvec![buffer.freeze()])
        })
    }

    fn write(&self, range: Range, data: IoBufs, _flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Write, range)?;
            assert_len(range, len_of(&data));
            let mut offset = range.offset;
            for slice in &data {
                self.pieces.write(offset, slice).map_err(|e| {
                    IoError::new(Errno::OutOfMemory, Operation::Write, Some(range)).because(e)
                })?;
                offset += slice.len() as u64;
            }
            Ok(())
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit(&self.geometry, Operation::WriteZeroes, range)?;
            let freeing = if flags.contains(WriteFlags::NO_HOLE) {
                Freeing::Keep
            } else {
                Freeing::Free
            };
            self.zero(range, freeing).await;
            Ok(())
        })
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Trim, range)?;
            self.zero(range, Freeing::Free).await;
            Ok(())
        })
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Extents, range)?;
            Ok(self.pieces.extents(range))
        })
    }

    fn identity(&self) -> Option<Identity> {
        Some(self.identity.clone())
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        assert_len(range, into.len());
        self.pieces.read(range.offset, into);
        TryIo::Done
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        assert_len(range, data.len());
        if self.geometry.read_only {
            return TryIo::WouldBlock;
        }
        match self.pieces.write(range.offset, data) {
            Ok(()) => TryIo::Done,
            Err(_) => TryIo::WouldBlock,
        }
    }
}

/// Another one for each disk: what is in memory ends with it.
fn new_identity() -> Identity {
    let mut random = [0; 16];
    let filled = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    assert_eq!(filled, Ok(random.len()), "the kernel has random bytes");
    Identity::of("memory", &[&random])
}
