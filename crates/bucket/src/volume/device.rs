//! [`BlockDevice`] of a volume.

use std::sync::Arc;

use block::{
    BlockDevice, Errno, Extent, Geometry, Identity, IoBufs, IoError, IoFuture, Node, Operation,
    Range, TryIo, WriteFlags,
};
use bytes::Bytes;

use super::open::geometry;
use super::{BucketVolume, VolumeShared};
use crate::dirty::copy_blocks;
use crate::format::RUN;
use crate::store::read_header;

/// Bytes of a write that wait for space together.
const WRITE_PIECE: u64 = 8 * RUN;

impl BucketVolume {
    /// Asserts that the export checked `range`; refuses changes of a volume that is read-only or failed.
    fn admit(&self, operation: Operation, range: Range) -> Result<(), IoError> {
        assert_checked(&self.geometry, range);
        if self.geometry.read_only {
            let error = IoError::new(Errno::NotPermitted, operation, Some(range));
            let why = match self.shared.snapshot {
                Some(_) => "a snapshot is read-only",
                None => "the volume is read-only",
            };
            return Err(error.because(why));
        }
        self.shared.refuse_failed(operation, Some(range))
    }

    async fn finish(
        &self,
        flags: WriteFlags,
        operation: Operation,
        range: Range,
    ) -> Result<(), IoError> {
        if !flags.contains(WriteFlags::FUA) {
            return Ok(());
        }
        let flushed = self.shared.flush().await;
        flushed.map_err(|failure| self.shared.error(&failure, operation, Some(range)))
    }
}

fn assert_checked(geometry: &Geometry, range: Range) {
    if let Err(e) = range.check(geometry.size, geometry.block_size) {
        panic!("the export lets through a range that it should refuse: {e}");
    }
}

impl VolumeShared {
    async fn write(self: &Arc<Self>, range: Range, data: &[Bytes]) -> Result<(), IoError> {
        let mut blocks = copy_blocks(data).into_iter();
        let mut at = range.offset;
        while at < range.end() {
            // Up to a multiple, so that few runs are written in two pieces.
            let end = (at / WRITE_PIECE * WRITE_PIECE + WRITE_PIECE).min(range.end());
            let piece = Range::new(at, end - at);
            let count = piece.len_usize() / crate::format::BLOCK_LEN;
            let mut taken: Vec<Bytes> = blocks.by_ref().take(count).collect();
            self.take(Operation::Write, range, |memory| {
                memory.write(piece, &mut taken)
            })
            .await?;
            at = end;
        }
        Ok(())
    }

    /// Writes if there is space now.
    fn try_write(self: &Arc<Self>, range: Range, data: &[u8]) -> bool {
        if !self.memory().is_ready(range) {
            return false;
        }
        // Without the lock.
        let mut blocks = copy_blocks(&[data]);
        let mut memory = self.memory();
        if !memory.is_ready(range) {
            return false;
        }
        let admission = memory.write(range, &mut blocks);
        drop(memory);
        self.follow(admission)
    }
}

impl BlockDevice for BucketVolume {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        assert_checked(&self.geometry, range);
        Box::pin(async move { self.shared.read(range).await })
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.admit(Operation::Write, range)?;
            self.shared.write(range, &data).await?;
            self.finish(flags, Operation::Write, range).await
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let flushed = self.shared.flush().await;
            flushed.map_err(|failure| self.shared.error(&failure, Operation::Flush, None))
        })
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.admit(Operation::WriteZeroes, range)?;
            self.shared.zero(range, Operation::WriteZeroes).await?;
            self.finish(flags, Operation::WriteZeroes, range).await
        })
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.admit(Operation::Trim, range)?;
            self.shared.zero(range, Operation::Trim).await
        })
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        assert_checked(&self.geometry, range);
        Box::pin(async move { self.shared.extents(range).await })
    }

    fn identity(&self) -> Option<Identity> {
        Some(match &self.shared.snapshot {
            Some(checkpoint) => Identity::of("bucket-snapshot", &[&self.shared.id.0, checkpoint]),
            None => Identity::of("bucket", &[&self.shared.id.0]),
        })
    }

    fn opening(&self) -> Option<u64> {
        (!self.geometry.read_only).then_some(self.shared.generation.into())
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.shared.changes.settled().await;
            Ok(())
        })
    }

    fn revalidate(&self) -> IoFuture<'_, Option<Node>> {
        Box::pin(async move {
            self.shared.refuse_lost(Operation::Measure, None)?;
            if self.shared.snapshot.is_some() {
                return Ok(None);
            }
            let read = |shared: Arc<VolumeShared>| async move { read_header(&shared.access).await };
            let failed = |error| IoError::new(Errno::Io, Operation::Measure, None).because(error);
            let found = self.shared.in_task(read).await.map_err(failed)?;
            if found.header.size <= self.geometry.size || found.header.id != self.shared.id {
                return Ok(None);
            }
            // The key authenticates the size.
            let unlocked = self.shared.access.unlock(&found.header);
            unlocked.map_err(failed)?;
            let grown: Node = Arc::new(Self {
                shared: self.shared.clone(),
                guard: self.guard.clone(),
                geometry: geometry(found.header.size, self.geometry.read_only),
            });
            Ok(Some(grown))
        })
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        assert_eq!(
            into.len() as u64,
            range.len,
            "the buffer of a read is as long as its range"
        );
        match self.shared.try_read(range, into) {
            true => TryIo::Done,
            false => TryIo::WouldBlock,
        }
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        assert_eq!(
            data.len() as u64,
            range.len,
            "the data of a write fills its range"
        );
        match !self.geometry.read_only && self.shared.try_write(range, data) {
            true => TryIo::Done,
            false => TryIo::WouldBlock,
        }
    }
}
