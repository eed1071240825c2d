//! `file`: a disk in a regular file or on a block device.
//!
//! # Invariants
//!
//! * A file is open for writing once: a lock on it refuses the second writer, and readers along with a
//!   writer, here and in other processes.
//! * A flush is fdatasync, FUA is `RWF_DSYNC`. After one failed sync every later one fails
//!   (`sync.rs`).
//! * What is trimmed is punched out, what is zeroed is zeroed by fallocate where the filesystem
//!   or the device can, else by writing.
//! * An operation that was cancelled runs to its end in the engine and is counted until
//!   then: [`settle`](BlockDevice::settle) waits for all that are counted.
//! * Requests on the fast path (`try_read`, `try_write`, the extents of short ranges) touch what is in memory
//!   only; when one of them had to wait for the disk, the next ones are sent the waiting way for a while.
//!
//! # What it does not do
//!
//! It does not watch the file: its size is what was found when it was opened; revalidation makes
//! [another node](BlockDevice::revalidate). One that is truncated in use gives errors behind its new end until
//! it is written there again. A device that discards but cannot zero by itself is not trimmed.

mod error;
mod identity;
mod lock;
mod open;
mod plan;
mod seek;
mod state;
mod sync;
#[cfg(test)]
mod tests;
mod topology;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::{
    BlockDevice, Errno, Extent, ExtentKind, FileRegion, Geometry, Identity, IoBufs, IoError,
    IoFuture, Node, Operation, Range, TryIo, WriteFlags,
};
use bytes::Bytes;
use engine::{Buffer, DiskFile, InFlight, Ticket};
use smallvec::smallvec;

pub use self::error::{FileHolder, OpenError};
pub use self::lock::lock_exclusive;
use self::open::{FileKind, OpenedFile, TryReadMode, file_size};
use self::plan::Zeroing;
use self::seek::Seeks;
use self::state::Pace;
pub(crate) use self::sync::{SyncEnd, Syncs};
use crate::guard::{admit, assert_checked, assert_len, len_of};
use crate::zeroes::zero_pieces;

/// How a disk file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileOptions {
    /// Refuse changes.
    pub read_only: bool,
    /// Go past the page cache (O_DIRECT).
    pub direct: bool,
}

/// A disk in a file or on a block device. Needs a running engine for all but the `_now` calls.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    opened: OpenedFile,
    syncs: Arc<Syncs>,
    in_flight: InFlight,
    writes: Pace,
    seeks: Seeks,
    /// The filesystem knows no such fallocate.
    cannot_punch: AtomicBool,
    cannot_keep: AtomicBool,
}

impl File {
    /// Opens the disk at `path` and locks it. A lock that a process left behind is waited for, 5 s at most; the timer of the
    /// engine is needed for that alone.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is changed then.
    pub async fn open(path: impl AsRef<Path>, options: FileOptions) -> Result<Self, OpenError> {
        let path = path.as_ref();
        Ok(Self::of(path, open::open(path, options).await?))
    }

    /// Opens the disk at `path` for looking at it: read-only, and without a lock, so that it keeps
    /// no process from writing. Returns the writer, too: what is read may be changing then.
    ///
    /// # Errors
    /// [`OpenError`], but not that it is in use.
    pub async fn look_at(path: impl AsRef<Path>) -> Result<(Self, Option<FileHolder>), OpenError> {
        let path = path.as_ref();
        let (opened, holder) = open::look_at(path).await?;
        Ok((Self::of(path, opened), holder))
    }

    fn of(path: &Path, opened: OpenedFile) -> Self {
        Self {
            opened,
            syncs: Syncs::new(path.to_owned()),
            path: path.to_owned(),
            in_flight: InFlight::new(),
            writes: Pace::new(engine::clock::now()),
            seeks: Seeks::new(),
            cannot_punch: AtomicBool::new(false),
            cannot_keep: AtomicBool::new(false),
        }
    }

    /// The same open file, with its facts revalidated.
    fn sharing(&self, opened: OpenedFile) -> Self {
        let flag = |flag: &AtomicBool| AtomicBool::new(flag.load(Ordering::Relaxed));
        Self {
            path: self.path.clone(),
            opened,
            syncs: self.syncs.clone(),
            in_flight: self.in_flight.clone(),
            writes: Pace::new(engine::clock::now()),
            seeks: Seeks::new(),
            cannot_punch: flag(&self.cannot_punch),
            cannot_keep: flag(&self.cannot_keep),
        }
    }

    /// The path it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    const fn disk(&self) -> &DiskFile {
        &self.opened.disk
    }

    fn admit(&self, operation: Operation, range: Range) -> Result<(), IoError> {
        admit(&self.opened.geometry, operation, range)
    }

    /// The error of a read that failed: a file that ends too early was truncated while in use.
    fn read_error(&self, error: io::Error, range: Range) -> IoError {
        if error.kind() != io::ErrorKind::UnexpectedEof {
            return IoError::from_os(error, Operation::Read, Some(range));
        }
        let why = match file_size(self.disk()) {
            Ok(size) => format!("the file ends at {size}: it was truncated while in use"),
            Err(e) => format!("the file was truncated while in use, and its size is unknown: {e}"),
        };
        IoError::new(Errno::Io, Operation::Read, Some(range)).because(why)
    }

    /// `data` in memory that direct I/O can take; copied only if it is not there already.
    fn aligned(&self, data: IoBufs) -> IoBufs {
        let memory = self.opened.memory_align;
        let block = self.opened.geometry.block_size as usize;
        let fits = |slice: &Bytes| {
            slice.as_ptr().addr().is_multiple_of(memory) && slice.len().is_multiple_of(block)
        };
        if !self.disk().is_direct() || data.iter().all(fits) {
            return data;
        }
        let mut buffer = Buffer::take(len_of(&data));
        let mut rest = &mut *buffer;
        for slice in &data {
            let (here, later) = rest.split_at_mut(slice.len());
            here.copy_from_slice(slice);
            rest = later;
        }
        smallvec![buffer.freeze()]
    }

    async fn write_at(&self, range: Range, data: IoBufs) -> io::Result<()> {
        let data = self.aligned(data);
        let ticket = self.in_flight.ticket();
        self.disk().write(data, range.offset, false, ticket).await
    }

    async fn write_zeroes_at(&self, range: Range) -> io::Result<()> {
        for (piece, data) in zero_pieces(range) {
            self.write_at(piece, data).await?;
        }
        Ok(())
    }

    /// Runs a fallocate on a range that is aligned for it. False: it is not known here.
    async fn allocate(&self, zeroing: Zeroing, range: Range) -> io::Result<bool> {
        let unknown = match zeroing {
            Zeroing::Punch => &self.cannot_punch,
            Zeroing::Keep => &self.cannot_keep,
        };
        if unknown.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let ticket = self.in_flight.ticket();
        let call = self
            .disk()
            .allocate(zeroing.flags(), range.offset, range.len, ticket);
        match call.await {
            Ok(()) => Ok(true),
            Err(e) if is_unknown(&e) => {
                unknown.store(true, Ordering::Relaxed);
                tracing::info!(
                    "{}: fallocate cannot {zeroing:?} here: {e}",
                    self.path.display()
                );
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    /// Zeroes `range`. False: not as fast as `flags` ask for, and nothing was done.
    async fn zero(&self, range: Range, flags: WriteFlags) -> io::Result<bool> {
        let parts = plan::split(range, self.opened.allocation_unit);
        let mut zeroed = parts.middle.is_empty();
        for &zeroing in plan::zeroing(self.opened.kind, flags) {
            zeroed = zeroed || self.allocate(zeroing, parts.middle).await?;
        }
        if !zeroed && flags.contains(WriteFlags::FAST_ZERO) {
            return Ok(false);
        }
        if !zeroed {
            self.write_zeroes_at(parts.middle).await?;
        }
        self.write_zeroes_at(parts.head).await?;
        self.write_zeroes_at(parts.tail).await?;
        Ok(true)
    }
}

/// The filesystem or the device has no such operation.
fn is_unknown(error: &io::Error) -> bool {
    use rustix::io::Errno as Os;
    let os = error.raw_os_error().map(Os::from_raw_os_error);
    matches!(os, Some(Os::OPNOTSUPP | Os::NOSYS))
}

impl BlockDevice for File {
    fn geometry(&self) -> &Geometry {
        &self.opened.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        Box::pin(async move {
            self.admit(Operation::Read, range)?;
            let read = self
                .disk()
                .read(range.len_usize(), range.offset, Ticket::none());
            let data = read.await.map_err(|e| self.read_error(e, range))?;
            Ok(smallvec![data])
        })
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.admit(Operation::Write, range)?;
            assert_len(range, len_of(&data));
            if flags.contains(WriteFlags::FUA) {
                let data = self.aligned(data);
                let durable = self.syncs.write(self.disk(), &self.in_flight, range, data);
                return durable.await;
            }
            let written = self.write_at(range, data).await;
            written.map_err(|e| IoError::from_os(e, Operation::Write, Some(range)))
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let what = (Operation::Flush, None);
            self.syncs.sync(self.disk(), &self.in_flight, what).await
        })
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.admit(Operation::WriteZeroes, range)?;
            let zeroed = self.zero(range, flags).await;
            let done =
                zeroed.map_err(|e| IoError::from_os(e, Operation::WriteZeroes, Some(range)))?;
            if !done {
                let errno = Errno::NotSupported;
                return Err(IoError::new(errno, Operation::WriteZeroes, Some(range)));
            }
            if flags.contains(WriteFlags::FUA) {
                let what = (Operation::WriteZeroes, Some(range));
                self.syncs.sync(self.disk(), &self.in_flight, what).await?;
            }
            Ok(())
        })
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.admit(Operation::Trim, range)?;
            if !self.opened.geometry.trim.any() {
                let errno = Errno::NotSupported;
                return Err(IoError::new(errno, Operation::Trim, Some(range)));
            }
            let whole_units = plan::split(range, self.opened.allocation_unit).middle;
            if whole_units.is_empty() {
                return Ok(());
            }
            // What cannot be punched keeps its data, which a trim allows.
            match self.allocate(Zeroing::Punch, whole_units).await {
                Ok(_) => Ok(()),
                Err(e) => Err(IoError::from_os(e, Operation::Trim, Some(range))),
            }
        })
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        Box::pin(async move {
            self.admit(Operation::Extents, range)?;
            let all_data = || {
                let kind = ExtentKind::Data;
                Ok(vec![Extent { range, kind }; usize::from(!range.is_empty())])
            };
            if self.opened.kind == FileKind::Device {
                return all_data();
            }
            match self.seeks.extents(self.disk(), range).await {
                Ok(extents) => Ok(extents),
                // A filesystem that does not look for holes reports none.
                Err(e) if is_unknown(&e) || e.kind() == io::ErrorKind::InvalidInput => all_data(),
                Err(e) => Err(IoError::from_os(e, Operation::Extents, Some(range))),
            }
        })
    }

    fn revalidate(&self) -> IoFuture<'_, Option<Node>> {
        let measured = match self.opened.measured_again(&self.path) {
            Ok(None) => Ok(None),
            Ok(Some(opened)) => Ok(Some(Arc::new(self.sharing(opened)) as Node)),
            Err(e) => Err(IoError::new(Errno::Io, Operation::Measure, None).because(e)),
        };
        Box::pin(std::future::ready(measured))
    }

    fn identity(&self) -> Option<Identity> {
        self.opened.identity.clone()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.in_flight.settled().await;
            Ok(())
        })
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        assert_checked(&self.opened.geometry, range);
        assert_len(range, into.len());
        let result = match self.opened.try_read {
            TryReadMode::Cached => self.disk().try_read(into, range.offset),
            TryReadMode::Plain => self.disk().read_waiting(into, range.offset),
            TryReadMode::Never => return TryIo::WouldBlock,
        };
        // Part of a range, or an error: the waiting way finds out why.
        match result {
            Ok(count) if count == into.len() => TryIo::Done,
            _ => TryIo::WouldBlock,
        }
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        assert_checked(&self.opened.geometry, range);
        assert_len(range, data.len());
        let geometry = &self.opened.geometry;
        if self.disk().is_direct() || geometry.read_only || self.syncs.have_failed() {
            return TryIo::WouldBlock;
        }
        let start = engine::clock::now();
        if !self.writes.allows(start) {
            return TryIo::WouldBlock;
        }
        let result = self.disk().try_write(data, range.offset);
        let allowed = state::try_write_allowed(data.len());
        self.writes.took(allowed, start, engine::clock::now());
        match result {
            Ok(count) if count == data.len() => TryIo::Done,
            _ => TryIo::WouldBlock,
        }
    }

    fn file_region(&self, range: Range) -> Option<FileRegion> {
        assert_checked(&self.opened.geometry, range);
        let plain = self.opened.kind == FileKind::Regular && !self.disk().is_direct();
        plain.then(|| FileRegion {
            file: self.disk().fd().clone(),
            offset: range.offset,
        })
    }
}
