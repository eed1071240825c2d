//! `error`: a disk on which every request fails, as device-mapper's `error` target.
//!
//! It holds the place of what is missing: of a lost drive in a `linear`, of a bad region in a table.
//!
//! # Invariants
//!
//! * Reads, writes, zeroes and trims fail with an input/output error.
//! * A flush succeeds: nothing was ever acknowledged that could be lost. So the other disks of a
//!   `linear` can still be flushed.
//! * Its extents are data: a copy of it gets the error.

#[cfg(test)]
mod tests;

use block::{
    BlockDevice, Errno, Extent, ExtentKind, Geometry, Identity, IoBufs, IoError, IoFuture,
    Operation, Range, WriteFlags,
};

use crate::guard::{assert_checked, assert_len, len_of};

/// A disk of failures.
#[derive(Debug)]
pub struct ErrorDisk {
    geometry: Geometry,
}

impl ErrorDisk {
    /// A disk of `size` bytes, none of which can be read or written.
    #[must_use]
    pub const fn new(size: u64) -> Self {
        Self {
            geometry: Geometry::native(size),
        }
    }

    fn fail<T: Send + 'static>(&self, operation: Operation, range: Range) -> IoFuture<'_, T> {
        assert_checked(&self.geometry, range);
        let error = IoError::new(Errno::Io, operation, Some(range));
        let error = error.because("this disk fails every request");
        Box::pin(std::future::ready(Err(error)))
    }
}

impl BlockDevice for ErrorDisk {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        self.fail(Operation::Read, range)
    }

    fn write(&self, range: Range, data: IoBufs, _flags: WriteFlags) -> IoFuture<'_, ()> {
        assert_len(range, len_of(&data));
        self.fail(Operation::Write, range)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn write_zeroes(&self, range: Range, _flags: WriteFlags) -> IoFuture<'_, ()> {
        self.fail(Operation::WriteZeroes, range)
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        self.fail(Operation::Trim, range)
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        Box::pin(async move {
            assert_checked(&self.geometry, range);
            let kind = ExtentKind::Data;
            let extent = Extent { range, kind };
            Ok(vec![extent; usize::from(!range.is_empty())])
        })
    }

    fn identity(&self) -> Option<Identity> {
        Some(Identity::of("error", &[]))
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}
