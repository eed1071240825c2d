//! [`FileMap`]: a file in the address space, from which the kernel sends without a copy here.
//!
//! # Invariants
//!
//! * Nothing in this process reads the mapping: only the kernel does, inside `send`. So a file that
//!   is truncated while mapped gives an error (`EFAULT`), never a signal, and no Rust reference to
//!   memory that others change exists.
//!
//! # What it does not do
//!
//! It does not see a file shrink within a page: to the end of its last page such a file reads as
//! zeroes. Who must not send those asks for the file's size before.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use smallvec::SmallVec;

/// A whole file, mapped for reading.
#[derive(Debug)]
pub struct FileMap {
    start: *mut c_void,
    len: usize,
    file: Arc<OwnedFd>,
}

// SAFETY: the mapping is only handed to the kernel, by address, for reading.
unsafe impl Send for FileMap {}
// SAFETY: as above.
unsafe impl Sync for FileMap {}

impl FileMap {
    /// Maps all that `file` holds now.
    ///
    /// # Errors
    /// Those of mmap(2); `Unsupported` for an empty file, and where addresses are too few to spend
    /// on this.
    pub fn new(file: &Arc<OwnedFd>) -> io::Result<Self> {
        if cfg!(not(target_pointer_width = "64")) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let size = rustix::fs::fstat(file)?.st_size;
        let len = usize::try_from(size).map_err(io::Error::other)?;
        if len == 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                len,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                0,
            )
        }?;
        Ok(Self {
            start,
            len,
            file: file.clone(),
        })
    }

    /// Whether it is the map of this very descriptor.
    #[must_use]
    pub fn is_of(&self, file: &Arc<OwnedFd>) -> bool {
        Arc::ptr_eq(&self.file, file)
    }

    /// The file.
    #[must_use]
    pub const fn file(&self) -> &Arc<OwnedFd> {
        &self.file
    }

    /// Whether nothing else holds the file any more.
    #[must_use]
    pub fn is_last(&self) -> bool {
        Arc::strong_count(&self.file) == 1
    }

    /// Whether `len` bytes at `offset` lie in the map.
    #[must_use]
    pub fn holds(&self, offset: u64, len: u64) -> bool {
        offset
            .checked_add(len)
            .is_some_and(|end| end <= self.len as u64)
    }

    /// Sends pieces of maps to a socket, one behind the other, as far as it takes them without
    /// waiting.
    ///
    /// # Errors
    /// `UnexpectedEof` where a file was truncated; those of sendmsg(2).
    ///
    /// # Panics
    /// If a map does not hold its piece, or there are more than [`MapPiece::MAX`].
    pub fn send(socket: BorrowedFd<'_>, pieces: &[MapPiece<'_>]) -> io::Result<usize> {
        assert!(pieces.len() <= MapPiece::MAX, "checked by the caller");
        let pieces: SmallVec<[libc::iovec; 1]> = pieces.iter().map(MapPiece::iovec).collect();
        // SAFETY: all fields of the structure may be zero.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = pieces.as_ptr().cast_mut();
        message.msg_iovlen = pieces.len();
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the vector lives across the call, and its bytes lie in mappings that do so, too;
        // the kernel only reads them, and answers EFAULT where the file no longer backs them.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) };
        if let Ok(sent) = usize::try_from(sent) {
            return Ok(sent);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::EFAULT) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Err(error)
    }
}

/// Bytes of a map.
#[derive(Debug, Clone, Copy)]
pub struct MapPiece<'a> {
    /// The map.
    pub map: &'a FileMap,
    /// Where in it, bytes.
    pub offset: u64,
    /// How many bytes.
    pub len: usize,
}

impl MapPiece<'_> {
    /// Pieces sent with one call.
    pub const MAX: usize = 64;

    fn iovec(&self) -> libc::iovec {
        let Self { map, offset, len } = *self;
        assert!(map.holds(offset, len as u64), "checked by the caller");
        let offset = usize::try_from(offset).expect("within the map");
        // SAFETY: the offset lies within the mapping.
        let iov_base = unsafe { map.start.byte_add(offset) };
        libc::iovec {
            iov_base,
            iov_len: len,
        }
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; nobody else knows the address.
        if let Err(e) = unsafe { munmap(self.start, self.len) } {
            tracing::error!("munmap: {e}");
        }
    }
}
