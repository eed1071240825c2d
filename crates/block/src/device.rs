//! [`BlockDevice`]: the one trait, and the types that pass through it.
//!
//! Futures are boxed by hand: `async_trait` would wrap every layer of a stack, while a node that
//! only forwards returns its child's future as it is.

use std::fmt::{self, Debug};
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::{Extent, Geometry, Identity, IoError, Range};

/// What every request on a node returns.
pub type IoFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, IoError>> + Send + 'a>>;

/// Data of a request: shared slices, in order. Their lengths add up to the range's.
pub type IoBufs = SmallVec<[Bytes; 2]>;

/// A shared virtual disk.
pub type Node = Arc<dyn BlockDevice>;

bitflags::bitflags! {
    /// Flags of writes and of `write_zeroes`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct WriteFlags: u8 {
        /// The request is durable when its future resolves.
        const FUA = 1;
        /// `write_zeroes` only: keep the space allocated.
        const NO_HOLE = 1 << 1;
        /// `write_zeroes` only: fail with [`Errno::NotSupported`](crate::Errno::NotSupported)
        /// rather than write zeroes one by one.
        const FAST_ZERO = 1 << 2;
    }
}

/// Answer of [`BlockDevice::try_read`] and [`BlockDevice::try_write`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum TryIo {
    /// The request was carried out, whole.
    Done,
    /// Nothing is promised of the range's bytes: take the waiting path, which also returns the error.
    WouldBlock,
}

/// Where in a file the bytes of a range are.
#[derive(Debug, Clone)]
pub struct FileRegion {
    /// The file; reading it at `offset` gives what `read` would give.
    pub file: Arc<OwnedFd>,
    /// Offset in the file, bytes.
    pub offset: u64,
}

/// By its size alone. `Debug` is no supertrait: the vtable of each node would keep the `Debug` of all that the node has in a
/// binary that prints none of it (`docs/adr/0021-size-of-the-binary.md`).
impl Debug for dyn BlockDevice + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockDevice")
            .field("size", &self.geometry().size)
            .finish_non_exhaustive()
    }
}

/// A virtual disk. See the crate's head for what each call promises.
pub trait BlockDevice: Send + Sync {
    /// Size, block sizes and what is native. Plain data, no waiting. The values stay valid for the life of
    /// the disk; only the size of a remote disk or an array may be reported larger by a later call.
    fn geometry(&self) -> &Geometry;

    /// Reads `range`: exactly its bytes or an error.
    fn read(&self, range: Range) -> IoFuture<'_, IoBufs>;

    /// Writes `data`, of `range.len` bytes. Takes [`WriteFlags::FUA`].
    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()>;

    /// Makes every write that resolved before this call durable.
    fn flush(&self) -> IoFuture<'_, ()>;

    /// Makes `range` read as zeroes.
    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()>;

    /// Says that the bytes of `range` are no longer needed; they read as anything until written.
    fn trim(&self, range: Range) -> IoFuture<'_, ()>;

    /// What is known of the allocation of `range`: extents in order that cover it without a gap.
    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>>;

    /// Which disk it is, and the same one each time it is opened; `None` where that is not known. A node that
    /// only changes how its child answers has its child's; one that composes disks has one of them and of
    /// how. The size is no part of it: a disk may grow. Has no default: every node must answer it.
    fn identity(&self) -> Option<Identity>;

    /// Which opening for writing this is, of all that the disk itself has counted, on whatever machine they were: each has the next
    /// number. What was known of the disk's content in opening `n` is still so in opening `n + 1`, since nothing else has written in
    /// between. `None` where the disk does not count them, and for one that is open for reading. A node that only changes how its child
    /// answers has its child's.
    fn opening(&self) -> Option<u64> {
        None
    }

    /// Waits for writes that were cancelled: their futures were dropped. No default: every node implements it.
    fn settle(&self) -> IoFuture<'_, ()>;

    /// The same disk with its size revalidated: a node that shares everything with this one (file, lock, failed
    /// syncs, turns, connections) but has the size that is found now. `None`: its size is what it was, or
    /// is not one that can change. The node itself goes on with the size that it has, but for a remote
    /// disk, which may find that it has grown when it connects again, and then has grown itself.
    fn revalidate(&self) -> IoFuture<'_, Option<Node>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// A number that changes whenever the connections to a remote disk are lost: what answers over new ones may be another
    /// disk. A caller that relies on the disk's content reads it again then. 0 for a disk that cannot be lost so; a node that
    /// stands on several disks adds their numbers.
    fn connection_epoch(&self) -> u64 {
        0
    }

    /// The child and the range there that hold exactly these bytes, where a node merely moves them.
    fn remap(&self, _range: Range) -> Option<(&Node, Range)> {
        None
    }

    /// The same for as many of the first bytes of `range` as lie together: a node that deals its bytes
    /// out to several children returns where the first ones are.
    fn remap_start(&self, range: Range) -> Option<(&Node, Range)> {
        self.remap(range)
    }

    /// Reads into `into` (`range.len` bytes) if that can be done without waiting for a disk.
    fn try_read(&self, _range: Range, _into: &mut [u8]) -> TryIo {
        TryIo::WouldBlock
    }

    /// Writes `data` (`range.len` bytes) if that can be done without waiting for a disk. The same
    /// visibility and durability as a `write` without flags.
    fn try_write(&self, _range: Range, _data: &[u8]) -> TryIo {
        TryIo::WouldBlock
    }

    /// The file region that holds `range`, where plain reads of that file equal reads of the node.
    fn file_region(&self, _range: Range) -> Option<FileRegion> {
        None
    }

    /// The same for as many of the first bytes of `range` as lie together, and how many these are: for a node that deals its
    /// bytes out to children that may change, and so has no [`remap_start`](Self::remap_start).
    fn file_region_start(&self, range: Range) -> Option<(FileRegion, u64)> {
        Some((self.file_region(range)?, range.len))
    }
}

/// Follows [`BlockDevice::remap`] down to the node that holds the bytes of `range`.
#[must_use]
pub fn resolve(device: &dyn BlockDevice, range: Range) -> (&dyn BlockDevice, Range) {
    let mut at = (device, range);
    while let Some((child, range)) = at.0.remap(at.1) {
        at = (&**child, range);
    }
    at
}

/// Follows [`BlockDevice::remap_start`] down to the node that holds the first bytes of `range`; the
/// range there is as long as they lie together.
#[must_use]
pub fn resolve_start(device: &dyn BlockDevice, range: Range) -> (&dyn BlockDevice, Range) {
    let mut at = (device, range);
    while let Some((child, range)) = at.0.remap_start(at.1) {
        at = (&**child, range);
    }
    at
}
