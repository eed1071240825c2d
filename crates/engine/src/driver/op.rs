//! [`Op`]: one operation on a file, owning what it touches; how each backend carries it out.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::{opcode, squeue, types};
use rustix::fs::FallocateFlags;
use rustix::io::ReadWriteFlags;
use smallvec::SmallVec;

use crate::buffer::Buffer;
use crate::file::WriteBufs;
use crate::in_flight::Ticket;

/// An operation. Dropped only when the kernel is done with its memory.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) file: Arc<OwnedFd>,
    pub(crate) kind: Kind,
    /// Held, never looked at: its drop is what counts.
    pub(crate) _ticket: Ticket,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// Fill `buffer[done..]` from `offset + done`.
    Read {
        buffer: Buffer,
        done: usize,
        offset: u64,
    },
    /// Write `data` less its first `done` bytes to `offset + done`.
    Write {
        data: WriteBufs,
        done: usize,
        offset: u64,
        durable: bool,
    },
    /// fdatasync.
    SyncData,
    /// sync_file_range of all the file, without waiting.
    WriteOut,
    /// fallocate.
    Allocate {
        flags: FallocateFlags,
        offset: u64,
        len: u64,
    },
}

/// The kernel's limit of bytes in one read or write, with room to spare (MAX_RW_COUNT).
const TRANSFER_MAX: usize = 1 << 30;

/// The kernel's limit of parts in one write (UIO_MAXIOV).
const PARTS_MAX: usize = 1024;

impl Kind {
    /// The parts of a write that are left, as the kernel wants them, and no more than it takes.
    fn left(data: &WriteBufs, done: usize) -> SmallVec<[IoSlice<'_>; 2]> {
        let mut skip = done;
        let mut left = SmallVec::new();
        for part in data {
            let cut = skip.min(part.len());
            skip -= cut;
            if left.len() == PARTS_MAX {
                break;
            }
            if cut < part.len() {
                left.push(IoSlice::new(&part[cut..]));
            }
        }
        left
    }
}

impl Op {
    /// Carries the operation out on this thread. Returns the bytes moved.
    pub(crate) fn run(&mut self) -> io::Result<usize> {
        match &mut self.kind {
            Kind::Read {
                buffer,
                done,
                offset,
            } => {
                let at = *offset + *done as u64;
                Ok(rustix::io::pread(&self.file, &mut buffer[*done..], at)?)
            }
            Kind::Write {
                data,
                done,
                offset,
                durable,
            } => {
                let flags = write_flags(*durable);
                let at = *offset + *done as u64;
                let left = Kind::left(data, *done);
                Ok(rustix::io::pwritev2(&self.file, &left, at, flags)?)
            }
            Kind::SyncData => {
                rustix::fs::fdatasync(&self.file)?;
                Ok(0)
            }
            Kind::WriteOut => {
                let fd = self.file.as_raw_fd();
                // SAFETY: no memory is passed, and the op owns the descriptor.
                let status =
                    unsafe { libc::sync_file_range(fd, 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
                if status < 0 {
                    return Err(io::Error::last_os_error());
                }
                Ok(0)
            }
            Kind::Allocate { flags, offset, len } => {
                rustix::fs::fallocate(&self.file, *flags, *offset, *len)?;
                Ok(0)
            }
        }
    }

    /// The operation as a submission entry, with the memory that the entry points to besides the
    /// op's own buffers.
    pub(crate) fn entry(&mut self) -> (squeue::Entry, Vectors) {
        let fd = types::Fd(self.file.as_raw_fd());
        let mut vectors = Vectors::default();
        let entry = match &mut self.kind {
            Kind::Read {
                buffer,
                done,
                offset,
            } => {
                let at = *offset + *done as u64;
                let rest = &mut buffer[*done..];
                opcode::Read::new(fd, rest.as_mut_ptr(), transfer_len(rest.len()))
                    .offset(at)
                    .build()
            }
            Kind::Write {
                data,
                done,
                offset,
                durable,
            } => {
                let at = *offset + *done as u64;
                let left = Kind::left(data, *done);
                let flags =
                    i32::try_from(write_flags(*durable).bits()).expect("RWF flags are small");
                if let [one] = &left[..] {
                    opcode::Write::new(fd, one.as_ptr(), transfer_len(one.len()))
                        .offset(at)
                        .rw_flags(flags)
                        .build()
                } else {
                    vectors = Vectors::of(&left);
                    opcode::Writev::new(fd, vectors.0.as_ptr().cast(), vectors.count())
                        .offset(at)
                        .rw_flags(flags)
                        .build()
                }
            }
            Kind::SyncData => opcode::Fsync::new(fd)
                .flags(types::FsyncFlags::DATASYNC)
                .build(),
            // A length of 0 goes to the end.
            Kind::WriteOut => opcode::SyncFileRange::new(fd, 0)
                .flags(libc::SYNC_FILE_RANGE_WRITE)
                .build(),
            Kind::Allocate { flags, offset, len } => opcode::Fallocate::new(fd, *len)
                .offset(*offset)
                .mode(i32::try_from(flags.bits()).expect("fallocate flags are small"))
                .build(),
        };
        (entry, vectors)
    }
}

/// An array of `struct iovec` that stays where it is until the operation is done.
#[derive(Debug, Default)]
pub(crate) struct Vectors(Box<[(usize, usize)]>);

impl Vectors {
    /// `struct iovec { void *base; size_t len; }` is two words.
    fn of(slices: &[IoSlice<'_>]) -> Self {
        let words = slices
            .iter()
            .map(|s| (s.as_ptr().expose_provenance(), s.len()));
        Self(words.collect())
    }

    fn count(&self) -> u32 {
        u32::try_from(self.0.len()).expect("few parts")
    }
}

fn transfer_len(len: usize) -> u32 {
    u32::try_from(len.min(TRANSFER_MAX)).expect("capped")
}

fn write_flags(durable: bool) -> ReadWriteFlags {
    if durable {
        ReadWriteFlags::DSYNC
    } else {
        ReadWriteFlags::empty()
    }
}
