//! [`FileMap`]: a file in the address space, from which the kernel sends without a copy here.
//!
//! # Invariants
//!
//! * Nothing in this process reads the mapping: only the kernel does, inside `send`. So a file that
//!   is truncated while mapped gives an error (`EFAULT`), never a signal, and no Rust reference to
//!   memory that others change exists.

use std::collections::HashMap;
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A whole file, mapped for reading.
#[derive(Debug)]
pub struct FileMap {
    start: *mut c_void,
    len: usize,
    /// Keeps the descriptor's number from being taken by another file while the map is shared.
    _file: Arc<OwnedFd>,
}

// SAFETY: the mapping is only handed to the kernel, by address, for reading.
unsafe impl Send for FileMap {}
// SAFETY: as above.
unsafe impl Sync for FileMap {}

/// Maps that are in use, by descriptor.
static MAPS: LazyLock<Mutex<HashMap<RawFd, Weak<FileMap>>>> = LazyLock::new(Mutex::default);

impl FileMap {
    /// The map of `file`, shared by all that ask while somebody holds it.
    ///
    /// # Errors
    /// Those of mmap(2); `Unsupported` where addresses are too few to spend on this.
    pub fn of(file: &Arc<OwnedFd>) -> io::Result<Arc<Self>> {
        let mut maps = MAPS.lock().unwrap_or_else(PoisonError::into_inner);
        let key = file.as_raw_fd();
        if let Some(map) = maps.get(&key).and_then(Weak::upgrade) {
            return Ok(map);
        }
        maps.retain(|_, map| map.strong_count() > 0);
        let map = Arc::new(Self::new(file)?);
        maps.insert(key, Arc::downgrade(&map));
        Ok(map)
    }

    fn new(file: &Arc<OwnedFd>) -> io::Result<Self> {
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
            _file: file.clone(),
        })
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
        let sent = unsafe {
            libc::send(
                socket.as_fd().as_raw_fd(),
                self.start.byte_add(offset),
                len,
                flags,
            )
        };
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
