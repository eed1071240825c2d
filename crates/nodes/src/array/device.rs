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

impl Array {
    /// Carries out a request that may wait: where the level may change, in one engine, behind the gate. `of`: what its errors are of then.
    #[inline]
    fn pass<'a, T: 'a>(
        &'a self,
        of: Option<(Operation, Range)>,
        request: impl for<'e> FnOnce(&'e dyn BlockDevice) -> IoFuture<'e, T> + Send + 'a,
    ) -> IoFuture<'a, T> {
        match &self.path {
            EnginePath::Fixed(engine) => request(engine.disk()),
            EnginePath::Gated(cell, _) => Box::pin(async move {
                let engine = cell.enter().await;
                let answer = request(engine.disk()).await;
                match of {
                    Some((operation, range)) => about(Some(range), operation, answer),
                    None => answer,
                }
            }),
        }
    }

    /// Carries out a request that does not wait. `None`: the gate is held.
    #[inline]
    fn at_once<T>(&self, request: impl FnOnce(&dyn BlockDevice) -> T) -> Option<T> {
        match &self.path {
            EnginePath::Fixed(engine) => Some(request(engine.disk())),
            EnginePath::Gated(cell, _) => cell.try_enter().map(|engine| request(engine.disk())),
        }
    }

    /// The same, with a region of a file that is handed out. Regions that are out are waited for where the level is about to change: none
    /// may follow them.
    fn lend<T>(&self, request: impl FnOnce(&dyn BlockDevice) -> Option<T>) -> Option<T> {
        self.at_once(|disk| {
            let may_lend = !self.lends_nothing.load(Ordering::Acquire);
            may_lend.then(|| request(disk))?
        })?
    }
}

impl BlockDevice for Array {
    fn geometry(&self) -> &Geometry {
        match &self.path {
            EnginePath::Fixed(engine) => engine.disk().geometry(),
            EnginePath::Gated(_, interface) => interface.geometry.now(),
        }
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        self.pass(Some((Operation::Read, range)), move |disk| disk.read(range))
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.pass(Some((Operation::Write, range)), move |disk| {
            disk.write(range, data, flags)
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.pass(None, |disk| disk.flush())
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.pass(Some((Operation::WriteZeroes, range)), move |disk| {
            disk.write_zeroes(range, flags)
        })
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        self.pass(Some((Operation::Trim, range)), move |disk| disk.trim(range))
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        self.pass(Some((Operation::Extents, range)), move |disk| {
            disk.extents(range)
        })
    }

    fn identity(&self) -> Option<Identity> {
        self.engine().disk().identity()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.pass(None, |disk| disk.settle())
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
        let read = self.at_once(|disk| disk.try_read(range, into));
        read.unwrap_or(TryIo::WouldBlock)
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        let written = self.at_once(|disk| disk.try_write(range, data));
        written.unwrap_or(TryIo::WouldBlock)
    }

    fn file_region(&self, range: Range) -> Option<FileRegion> {
        self.lend(|disk| disk.file_region(range))
    }

    fn file_region_start(&self, range: Range) -> Option<(FileRegion, u64)> {
        self.lend(|disk| disk.file_region_start(range))
    }
}
