//! What the page cache holds of a file.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::ReadWriteFlags;

const PAGE: u64 = 4096;

/// The same number on every architecture that outboard runs on (arch/*/tools/syscall.tbl).
const SYS_CACHESTAT: libc::c_long = 451;

/// Set once the kernel said that it has no cachestat (before 6.5, or forbidden by seccomp).
static NO_CACHESTAT: AtomicBool = AtomicBool::new(false);

/// `struct cachestat_range` (include/uapi/linux/mman.h).
#[repr(C)]
struct CachestatRange {
    offset: u64,
    len: u64,
}

/// `struct cachestat`: pages.
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Pages of `len` bytes at `offset` that are in the page cache.
///
/// # Errors
/// `Unsupported` on kernels before 6.5; those of cachestat(2).
pub fn cached_pages(file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<u64> {
    if NO_CACHESTAT.load(Ordering::Relaxed) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let range = CachestatRange { offset, len };
    let mut found = Cachestat::default();
    // SAFETY: both structures are as the kernel declares them and outlive the call.
    let status = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut found,
            0,
        )
    };
    if status == 0 {
        return Ok(found.cached);
    }
    let error = io::Error::last_os_error();
    if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) {
        NO_CACHESTAT.store(true, Ordering::Relaxed);
    }
    Err(error)
}

/// Whether reading `len` bytes at `offset` would not wait for the disk. Where the kernel cannot
/// tell for every page, the first and the last are asked for.
#[must_use]
pub fn is_cached(file: BorrowedFd<'_>, offset: u64, len: u64) -> bool {
    let Some(last) = (offset + len).checked_sub(1).filter(|_| len > 0) else {
        return true;
    };
    if let Ok(cached) = cached_pages(file, offset, len) {
        return cached > last / PAGE - offset / PAGE;
    }
    let probe = |at| {
        let mut byte = [0];
        let mut into = [io::IoSliceMut::new(&mut byte)];
        rustix::io::preadv2(file, &mut into, at, ReadWriteFlags::NOWAIT) == Ok(1)
    };
    probe(offset) && probe(last)
}
