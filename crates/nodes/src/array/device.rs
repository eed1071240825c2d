//! [`Array`] as a disk: its requests, on their way to the engine.
//!
//! # Invariants
//!
//! * A request of an array that may get another level passes the gate ([`EngineCell`](super::engine_cell::EngineCell)), and its errors
//!   are of its own range: callers see one disk, of one geometry, whichever engine carries it out.
//! * Such an array leads no caller to its members ([`BlockDevice::remap`]): what bypasses the gate could not be waited for.

use std::sync::atomic::Ordering;

use block::{
    BlockDevice, Extent, FileRegion, Geometry, Identity, IoBufs, IoFuture, Node, Operation, Range,
    TryIo, WriteFlags,
};

use super::Array;
use super::node::EnginePath;
use crate::guard::about;

impl BlockDevice for Array {
    fn geometry(&self) -> &Geometry {
        match &self.path {
            EnginePath::Fixed(engine) => engine.disk().geometry(),
            EnginePath::Gated(_, interface) => interface.geometry.now(),
        }
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        match &self.path {
            EnginePath::Fixed(engine) => engine.disk().read(range),
            EnginePath::Gated(cell, _) => Box::pin(async move {
                let engine = cell.enter().await;
                let read = engine.disk().read(range).await;
                about(Some(range), Operation::Read, read)
            }),
        }
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        match &self.path {
            EnginePath::Fixed(engine) => engine.disk().write(range, data, flags),
            EnginePath::Gated(cell, _) => Box::pin(async move {
                let engine = cell.enter().await;
                let written = engine.disk().write(range, data, flags).await;
                about(Some(range), Operation::Write, written)
            }),
        }
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        match &self.path {
            EnginePath::Fixed(engine) => engine.disk().flush(),
            EnginePath::Gated(cell, _) => Box::pin(async move {
                let engine = cell.enter().await;
                engine.disk().flush().await
            }),
        }
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        match &self.path {
            EnginePath::Fixed(engine) => engine.disk().write_zeroes(range, flags),
            EnginePath::Gated(cell, _) => Box::pin(async move {
                let engine = cell.enter().await;
                let zeroed = engine.disk().write_zeroes(range, flags).await;
                about(Some(range), Operation::WriteZeroes, zeroed)
            }),
        }
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        match &self.path {
            EnginePath::Fixed(engine) => engine.disk().trim(range),
            EnginePath::Gated(cell, _) => Box::pin(async move {
                let engine = cell.enter().await;
                let trimmed = engine.disk().trim(range).await;
                about(Some(range), Operation::Trim, trimmed)
            }),
        }
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        match &self.path {
            EnginePath::Fixed(engine) => engine.disk().extents(range),
            EnginePath::Gated(cell, _) => Box::pin(async move {
                let engine = cell.enter().await;
                let extents = engine.disk().extents(range).await;
                about(Some(range), Operation::Extents, extents)
            }),
        }
    }

    fn identity(&self) -> Option<Identity> {
        self.engine().disk().identity()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        match &self.path {
            EnginePath::Fixed(engine) => engine.disk().settle(),
            EnginePath::Gated(cell, _) => Box::pin(async move {
                let engine = cell.enter().await;
                engine.disk().settle().await
            }),
        }
    }

    fn remap(&self, range: Range) -> Option<(&Node, Range)> {
        match &self.path {
            EnginePath::Fixed(engine) => engine.disk().remap(range),
            EnginePath::Gated(..) => None,
        }
    }

    fn remap_start(&self, range: Range) -> Option<(&Node, Range)> {
        match &self.path {
            EnginePath::Fixed(engine) => engine.disk().remap_start(range),
            EnginePath::Gated(..) => None,
        }
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        match &self.path {
            EnginePath::Fixed(engine) => engine.disk().try_read(range, into),
            EnginePath::Gated(cell, _) => match cell.try_enter() {
                Some(engine) => engine.disk().try_read(range, into),
                None => TryIo::WouldBlock,
            },
        }
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        match &self.path {
            EnginePath::Fixed(engine) => engine.disk().try_write(range, data),
            EnginePath::Gated(cell, _) => match cell.try_enter() {
                Some(engine) => engine.disk().try_write(range, data),
                None => TryIo::WouldBlock,
            },
        }
    }

    fn file_region(&self, range: Range) -> Option<FileRegion> {
        match &self.path {
            EnginePath::Fixed(engine) => engine.disk().file_region(range),
            EnginePath::Gated(..) => {
                let (region, len) = self.file_region_start(range)?;
                (len == range.len).then_some(region)
            }
        }
    }

    fn file_region_start(&self, range: Range) -> Option<(FileRegion, u64)> {
        match &self.path {
            EnginePath::Fixed(engine) => engine.disk().file_region_start(range),
            EnginePath::Gated(cell, _) => {
                let engine = cell.try_enter()?;
                // Regions that are out are waited for: none may follow them.
                let may_lend = !self.lends_nothing.load(Ordering::Acquire);
                may_lend.then(|| engine.disk().file_region_start(range))?
            }
        }
    }
}
