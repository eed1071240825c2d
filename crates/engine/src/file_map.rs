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

    /// Sends `len` bytes at `offset` to a socket, without waiting.
    ///
    /// # Errors
    /// `UnexpectedEof` where the file was truncated; those of send(2).
    ///
    /// # Panics
    /// If the map does not hold the bytes.
    pub fn send(&self, socket: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<usize> {
        assert!(self.holds(offset, len as u64), "checked by the caller");
        let offset = usize::try_from(offset).expect("within the map");
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the bytes lie in the mapping, which lives as long as `self`; the kernel only
        // reads them, and answers EFAULT where the file no longer backs them.
        let sent =
            unsafe { libc::send(socket.as_raw_fd(), self.start.byte_add(offset), len, flags) };
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

impl Drop for FileMap {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; nobody else knows the address.
        if let Err(e) = unsafe { munmap(self.start, self.len) } {
            tracing::error!("munmap: {e}");
        }
    }
}
