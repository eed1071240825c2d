//! `read_ahead`: a disk that reads the next bytes before their request.
//!
//! For remote disks: a sequential reader waits for the round trip
//! once, not with each request.
//!
//! ```text
//! already read     ···········|                 what was read ahead, by pieces
//! pieces               [  1  ][  2  ][  3  ][  4  ]
//!                       kept   there   in flight        up to the window
//! ```
//!
//! # Invariants
//!
//! * A read sees what a read of the disk below would have given at some time while it was in flight:
//!   changes take the pieces that they touch out, and keep new ones away until they have ended; those
//!   that were dropped, until the disk below has settled (`pieces.rs`).
//! * Memory is bounded: `WINDOWS_MAX` (4) windows and two pieces more of each, for any number of readers.
//! * Random reads go to the disk below as they are, and nothing else does (`streams.rs`).
//! * A piece that cannot be read is forgotten; a read of its bytes goes to the disk below, and returns
//!   its error.
//!
//! # What it does not do
//!
//! It is no cache: what has been read is not kept. What others write on a disk that is shared is seen
//! when the pieces that were read before have been passed.

mod piece_cache;
mod pieces;
mod plan;
mod streams;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use block::{
    BlockDevice, Extent, Geometry, Identity, IoBufs, IoFuture, Node, Range, TryIo, WriteFlags,
};

use self::piece_cache::{PieceCache, gather};
use self::plan::AheadWindow;
pub use self::plan::WindowError;
use crate::guard::revalidated;
use crate::guard::{assert_checked, assert_len};

/// A disk that is read ahead.
#[derive(Debug)]
pub struct ReadAhead {
    child: Node,
    window: AheadWindow,
    cache: Arc<PieceCache>,
}

impl ReadAhead {
    /// Reads `child` ahead of sequential readers, by about `window` bytes. What is
    /// read ahead is read by tasks of the engine.
    ///
    /// # Errors
    /// If the window is too small or too large.
    pub fn new(child: Node, window: u64) -> Result<Self, WindowError> {
        let window = AheadWindow::new(child.geometry(), window)?;
        Ok(Self {
            child,
            window,
            cache: Arc::new(PieceCache::new(&window)),
        })
    }

    /// Runs a change of `range` with nothing kept of it.
    fn change<'a>(&'a self, range: Range, change: IoFuture<'a, ()>) -> IoFuture<'a, ()> {
        Box::pin(async move {
            let in_flight = self.cache.change(range);
            let result = change.await;
            in_flight.ended();
            result
        })
    }
}

impl BlockDevice for ReadAhead {
    fn geometry(&self) -> &Geometry {
        self.child.geometry()
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        Box::pin(async move {
            assert_checked(self.geometry(), range);
            let (found, todo) = self.cache.observe(range, &self.window);
            for job in todo.jobs {
                drop(engine::spawn(job.run(self.child.clone())));
            }
            if let Some(settling) = todo.settling {
                drop(engine::spawn(settling.run(self.child.clone())));
            }
            if let Some(found) = found
                && let Some(data) = gather(found, range).await
            {
                return Ok(data);
            }
            self.child.read(range).await
        })
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.change(range, self.child.write(range, data, flags))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.child.flush()
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.change(range, self.child.write_zeroes(range, flags))
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        self.change(range, self.child.trim(range))
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        self.child.extents(range)
    }

    fn identity(&self) -> Option<Identity> {
        self.child.identity()
    }

    fn opening(&self) -> Option<u64> {
        self.child.opening()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(self.cache.settle(&*self.child))
    }

    fn connection_epoch(&self) -> u64 {
        self.child.connection_epoch()
    }

    fn revalidate(&self) -> IoFuture<'_, Option<Node>> {
        Box::pin(revalidated(&self.child, |child| {
            Arc::new(Self {
                window: self.window.on(child.geometry().size),
                child,
                cache: self.cache.clone(),
            })
        }))
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        assert_checked(self.geometry(), range);
        assert_len(range, into.len());
        match self.cache.try_copy(range, &self.window, into) {
            Some(true) => TryIo::Done,
            Some(false) => TryIo::WouldBlock,
            None => self.child.try_read(range, into),
        }
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        let in_flight = self.cache.change(range);
        let done = self.child.try_write(range, data);
        in_flight.ended();
        done
    }
}
