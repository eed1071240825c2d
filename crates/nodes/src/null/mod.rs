//! `null`: discards what is written and reads zeroes. Of any size; keeps nothing.

#[cfg(test)]
mod tests;

use block::{
    BlockDevice, Extent, ExtentKind, Geometry, Identity, IoBufs, IoFuture, Operation, Range, TryIo,
    WriteFlags,
};

use crate::guard::{admit, assert_checked, assert_len, len_of};
use crate::zeroes::zeroes;

/// A disk of nothing.
#[derive(Debug)]
pub struct Null {
    geometry: Geometry,
}

impl Null {
    /// A disk of `size` zeroes.
    #[must_use]
    pub const fn new(size: u64) -> Self {
        Self {
            geometry: Geometry::native(size),
        }
    }
}

impl BlockDevice for Null {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Read, range)?;
            Ok(zeroes(range.len_usize()))
        })
    }

    fn write(&self, range: Range, data: IoBufs, _flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            assert_len(range, len_of(&data));
            admit(&self.geometry, Operation::Write, range)
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn write_zeroes(&self, range: Range, _flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move { admit(&self.geometry, Operation::WriteZeroes, range) })
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(async move { admit(&self.geometry, Operation::Trim, range) })
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Extents, range)?;
            let kind = ExtentKind::Hole;
            let extent = Extent { range, kind };
            Ok(vec![extent; usize::from(!range.is_empty())])
        })
    }

    fn identity(&self) -> Option<Identity> {
        Some(Identity::of("null", &[]))
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        into.fill(0);
        TryIo::Done
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        assert_len(range, data.len());
        TryIo::Done
    }
}
