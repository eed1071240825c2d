//! [`MemDisk`]: a plain disk in memory, with the geometry that a test sets.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use block::{
    BlockDevice, Extent, ExtentKind, Geometry, Identity, IoBufs, IoFuture, Operation, Range, TryIo,
    WriteFlags,
};

use crate::data::single;
use crate::image::{SectorImage, TrimLeaves, admit, assert_filled};

/// A disk in memory. Every request is carried out whole at its future's first poll.
pub struct MemDisk {
    geometry: Geometry,
    trim_leaves: TrimLeaves,
    image: Mutex<SectorImage>,
    /// Of the disks of this process.
    number: u64,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl MemDisk {
    /// A disk of `size` zeroes, all of it a hole.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self::from_image(SectorImage::zeroed(size), size)
    }

    /// A disk with this content.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        let size = bytes.len() as u64;
        Self::from_image(SectorImage::from_bytes(bytes), size)
    }

    fn from_image(image: SectorImage, size: u64) -> Self {
        Self {
            geometry: Geometry::native(size),
            trim_leaves: TrimLeaves::default(),
            image: Mutex::new(image),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Changes the geometry.
    ///
    /// # Panics
    /// If the change is to the size.
    #[must_use]
    pub fn with_geometry(mut self, change: impl FnOnce(&mut Geometry)) -> Self {
        let size = self.geometry.size;
        change(&mut self.geometry);
        assert_eq!(self.geometry.size, size, "the size is the content's");
        self
    }

    /// Chooses what trimmed ranges read as.
    #[must_use]
    pub const fn trims_leave(mut self, leaves: TrimLeaves) -> Self {
        self.trim_leaves = leaves;
        self
    }

    /// A copy of the whole content.
    #[must_use]
    pub fn snapshot(&self) -> Vec<u8> {
        self.image().bytes().to_vec()
    }

    fn image(&self) -> MutexGuard<'_, SectorImage> {
        self.image.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemDisk")
            .field("size", &self.geometry.size)
            .finish_non_exhaustive()
    }
}

impl BlockDevice for MemDisk {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Read, range)?;
            Ok(single(self.image().read(range).to_vec()))
        })
    }

    fn write(&self, range: Range, data: IoBufs, _flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Write, range)?;
            assert_filled(range, &data);
            self.image().write(range, &data);
            Ok(())
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit(&self.geometry, Operation::WriteZeroes, range)?;
            self.image().zero(range, zeroed_kind(flags));
            Ok(())
        })
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Trim, range)?;
            self.image().trim(range, self.trim_leaves);
            Ok(())
        })
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Extents, range)?;
            Ok(self.image().extents(range))
        })
    }

    fn identity(&self) -> Option<Identity> {
        Some(Identity::of("test", &[&self.number.to_le_bytes()]))
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        if admit(&self.geometry, Operation::Read, range).is_err() {
            return TryIo::WouldBlock;
        }
        into.copy_from_slice(self.image().read(range));
        TryIo::Done
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        if admit(&self.geometry, Operation::Write, range).is_err() {
            return TryIo::WouldBlock;
        }
        self.image().write_slice(range, data);
        TryIo::Done
    }
}

/// The status that zeroed sectors are reported with.
pub(crate) const fn zeroed_kind(flags: WriteFlags) -> ExtentKind {
    if flags.contains(WriteFlags::NO_HOLE) {
        ExtentKind::Zero
    } else {
        ExtentKind::Hole
    }
}
