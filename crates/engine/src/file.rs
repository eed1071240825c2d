//! [`DiskFile`]: a file or block device that holds a disk.
//!
//! The `_now` calls answer from the page cache on the caller's thread. The others return futures
//! that own their buffers and continue short transfers to their end.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::ReadWriteFlags;
use smallvec::SmallVec;

use crate::buffer::Buffer;
use crate::driver::{Kind, Op, perform};
use crate::file_handle::file_handle;
use crate::in_flight::Ticket;

/// Data of a write, in order.
pub type WriteBufs = SmallVec<[Bytes; 2]>;

/// How a disk's file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenMode {
    /// For writing too.
    pub write: bool,
    /// Past the page cache (O_DIRECT).
    pub direct: bool,
    /// For a block device: not while the kernel holds it (O_EXCL).
    pub exclusive: bool,
}

/// An open disk file. Clones share the descriptor.
#[derive(Debug, Clone)]
pub struct DiskFile {
    fd: Arc<OwnedFd>,
    direct: bool,
}

impl DiskFile {
    /// Opens an existing file or device.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn open(path: &Path, mode: OpenMode) -> io::Result<Self> {
        let mut flags = OFlags::empty();
        flags.set(OFlags::DIRECT, mode.direct);
        flags.set(OFlags::EXCL, mode.exclusive);
        // A FIFO must not hang the open; files and block devices do not mind the flag.
        flags |= OFlags::NONBLOCK;
        let file = OpenOptions::new()
            .read(true)
            .write(mode.write)
            .custom_flags(i32::try_from(flags.bits()).map_err(io::Error::other)?)
            .open(path)?;
        let fd = OwnedFd::from(file);
        // io_uring would answer EAGAIN instead of waiting on a non-blocking file.
        rustix::fs::fcntl_setfl(&fd, rustix::fs::fcntl_getfl(&fd)? - OFlags::NONBLOCK)?;
        Ok(Self::from_fd(fd, mode.direct))
    }

    /// Makes an empty file where nothing is.
    ///
    /// # Errors
    /// Those of open(2); `AlreadyExists` if something is at `path`.
    pub fn create_new(path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).open(path).map(drop)
    }

    /// A file that is open already.
    #[must_use]
    pub fn from_fd(fd: OwnedFd, direct: bool) -> Self {
        Self {
            fd: Arc::new(fd),
            direct,
        }
    }

    /// The descriptor.
    #[must_use]
    pub const fn fd(&self) -> &Arc<OwnedFd> {
        &self.fd
    }

    /// The filesystem's handle of it, under any path.
    ///
    /// # Errors
    /// Those of name_to_handle_at(2): not every filesystem has such names.
    pub fn handle(&self) -> io::Result<Vec<u8>> {
        file_handle((*self.fd).as_fd())
    }

    /// Whether it was opened past the page cache.
    #[must_use]
    pub const fn is_direct(&self) -> bool {
        self.direct
    }

    /// Reads what is in the page cache (`preadv2` with `RWF_NOWAIT`).
    ///
    /// # Errors
    /// `WouldBlock` where the first byte is not cached; `Unsupported` where the filesystem does not
    /// support it.
    pub fn try_read(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut vectors = [io::IoSliceMut::new(into)];
        Ok(rustix::io::preadv2(
            &self.fd,
            &mut vectors,
            offset,
            ReadWriteFlags::NOWAIT,
        )?)
    }

    /// Reads on this thread, waiting for the disk if it must (`pread`).
    ///
    /// # Errors
    /// Those of pread(2).
    pub fn read_waiting(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pread(&self.fd, into, offset)?)
    }

    /// Writes into the page cache on this thread (`pwrite`). May wait when too much is dirty.
    ///
    /// # Errors
    /// Those of pwrite(2).
    pub fn try_write(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pwrite(&self.fd, data, offset)?)
    }

    /// Reads exactly `len` bytes into page-aligned memory.
    ///
    /// # Errors
    /// `UnexpectedEof` where the file ends before; those of pread(2).
    pub fn read(
        &self,
        len: usize,
        offset: u64,
        ticket: Ticket,
    ) -> impl Future<Output = io::Result<Bytes>> + Send + 'static {
        let file = self.fd.clone();
        async move {
            let mut op = Op {
                file,
                kind: Kind::Read {
                    buffer: Buffer::take(len),
                    done: 0,
                    offset,
                },
                _ticket: ticket,
            };
            loop {
                let (given_back, result) = perform(op).await;
                op = given_back;
                let Kind::Read { buffer, done, .. } = &mut op.kind else {
                    unreachable!("an op keeps its kind")
                };
                match result {
                    Ok(0) if len > 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(count) => *done += count,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
                if *done >= len {
                    let whole = std::mem::replace(buffer, Buffer::take(0));
                    return Ok(whole.freeze());
                }
            }
        }
    }

    /// Writes all of `data`; `durable` makes the data durable too (`RWF_DSYNC`).
    ///
    /// # Errors
    /// Those of pwrite(2). Part of the data may have been written.
    pub fn write(
        &self,
        data: WriteBufs,
        offset: u64,
        durable: bool,
        ticket: Ticket,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let file = self.fd.clone();
        let len: usize = data.iter().map(Bytes::len).sum();
        async move {
            if len == 0 {
                return Ok(());
            }
            let mut op = Op {
                file,
                kind: Kind::Write {
                    data,
                    done: 0,
                    offset,
                    durable,
                },
                _ticket: ticket,
            };
            loop {
                let (given_back, result) = perform(op).await;
                op = given_back;
                let Kind::Write { done, .. } = &mut op.kind else {
                    unreachable!("an op keeps its kind")
                };
                match result {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(count) => *done += count,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
                if *done >= len {
                    return Ok(());
                }
            }
        }
    }

    /// Makes written data durable (fdatasync).
    ///
    /// # Errors
    /// Those of fdatasync(2). After an error the kernel may have dropped the data that failed: a
    /// later success says nothing about it.
    pub fn sync_data(
        &self,
        ticket: Ticket,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.simple(Kind::SyncData, ticket)
    }

    /// Has the kernel begin to write what is dirty to the disk (sync_file_range), without waiting for
    /// it. Nothing is durable after it, and the next sync still reports an error of the disk.
    ///
    /// # Errors
    /// Those of sync_file_range(2).
    pub fn start_write_out(
        &self,
        ticket: Ticket,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.simple(Kind::WriteOut, ticket)
    }

    /// Allocates, punches or zeroes a range (fallocate).
    ///
    /// # Errors
    /// Those of fallocate(2).
    pub fn allocate(
        &self,
        flags: FallocateFlags,
        offset: u64,
        len: u64,
        ticket: Ticket,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let kind = Kind::Allocate { flags, offset, len };
        self.simple(kind, ticket)
    }

    fn simple(
        &self,
        kind: Kind,
        ticket: Ticket,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let file = self.fd.clone();
        async move {
            let mut op = Op {
                file,
                kind,
                _ticket: ticket,
            };
            loop {
                let (given_back, result) = perform(op).await;
                op = given_back;
                match result {
                    Ok(_) => return Ok(()),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
        }
    }
}
