//! What the page cache holds of a file.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::SeekFrom;
use rustix::io::ReadWriteFlags;

/// The same number on every architecture that outboard runs on (arch/*/tools/syscall.tbl).
const SYS_CACHESTAT: libc::c_long = 451;

/// Set once the kernel returned that it has no cachestat (before 6.5).
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
/// `Unsupported` on kernels before 6.5; `PermissionDenied` for a file that one could not write,
/// since 6.14; those of cachestat(2).
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
    if error.raw_os_error() == Some(libc::ENOSYS) {
        NO_CACHESTAT.store(true, Ordering::Relaxed);
    }
    Err(error)
}

/// Whether reading `len` bytes at `offset` gives them all and would not wait for the disk. False
/// where the file ends before. Where the kernel cannot report every page, the first and the last
/// are checked.
#[must_use]
pub fn is_cached(file: BorrowedFd<'_>, offset: u64, len: u64) -> bool {
    if len == 0 {
        return true;
    }
    let Some(end) = offset.checked_add(len) else {
        return false;
    };
    // Cheaper than fstat(2). The position that it sets is not used.
    if !rustix::fs::seek(file, SeekFrom::End(0)).is_ok_and(|size| end <= size) {
        return false;
    }
    if let Ok(cached) = cached_pages(file, offset, len) {
        return cached >= pages(offset, end, rustix::param::page_size() as u64);
    }
    let probe = |at| {
        let mut byte = [0];
        let mut into = [io::IoSliceMut::new(&mut byte)];
        rustix::io::preadv2(file, &mut into, at, ReadWriteFlags::NOWAIT) == Ok(1)
    };
    probe(offset) && probe(end - 1)
}

/// Pages of `page` bytes that `offset..end` touches.
const fn pages(offset: u64, end: u64, page: u64) -> u64 {
    end.div_ceil(page) - offset / page
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Raspberry Pi 5 has pages of 16 KiB. They were counted as if they were of 4 KiB, so nothing
    /// ever seemed cached there.
    #[test]
    fn pages_are_counted_in_the_machines_size() {
        for page in [4096, 16_384, 65_536] {
            assert_eq!(pages(0, 131_072, page), 131_072 / page);
            assert_eq!(pages(0, 1, page), 1);
            assert_eq!(pages(page - 1, page + 1, page), 2);
            assert_eq!(pages(page, 2 * page, page), 1);
            assert_eq!(pages(page + 1, 3 * page, page), 2);
        }
    }

    /// Kernels since 6.14 refuse cachestat on a file that one may not write: that says nothing
    /// about other files, which were no longer checked either.
    #[test]
    fn a_file_that_may_not_be_queried_does_not_spoil_the_others() {
        use std::os::fd::AsFd;
        let own = tempfile::tempfile().expect("a temporary file");
        if cached_pages(own.as_fd(), 0, 4096).is_err() {
            eprintln!("skipped: this kernel has no cachestat");
            return;
        }
        let foreign = tempfile::NamedTempFile::new().expect("a temporary file");
        let open = |path: &std::path::Path| crate::DiskFile::open(path, crate::OpenMode::default());
        let foreign = open(foreign.path()).expect("opened");
        let ask = move || {
            // For this thread only: a user that owns nothing.
            let nobody = rustix::process::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).ok()?;
            Some(cached_pages(foreign.fd().as_fd(), 0, 4096).is_err())
        };
        let refused = crate::thread("nobody", ask).expect("a thread").join();
        if refused.expect("no panic") != Some(true) {
            eprintln!("skipped: only root can become a user that this kernel refuses");
            return;
        }
        assert!(cached_pages(own.as_fd(), 0, 4096).is_ok());
    }
}
