//! The handle of a file, the same under any path: name_to_handle_at(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `MAX_HANDLE_SZ` (include/linux/exportfs.h).
const HANDLE_MAX: usize = 128;

/// `struct file_handle` (name_to_handle_at(2)) with room for the longest handle.
#[repr(C)]
struct FileHandle {
    bytes: u32,
    kind: i32,
    handle: [u8; HANDLE_MAX],
}

/// The handle's type and bytes: for most filesystems the inode and its generation.
///
/// # Errors
/// `EOPNOTSUPP` where the filesystem has no handles; others of name_to_handle_at(2).
pub(crate) fn file_handle(file: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut handle = FileHandle {
        bytes: u32::try_from(HANDLE_MAX).map_err(io::Error::other)?,
        kind: 0,
        handle: [0; HANDLE_MAX],
    };
    let mut mount: libc::c_int = 0;
    // SAFETY: the path is an empty string, the handle is as the kernel declares it with the room that its
    // `bytes` says, and both it and `mount` outlive the call.
    let status = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            file.as_raw_fd(),
            c"".as_ptr(),
            &raw mut handle,
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    let len = usize::try_from(handle.bytes).map_err(io::Error::other)?;
    let mut found = handle.kind.to_le_bytes().to_vec();
    found.extend_from_slice(&handle.handle[..len.min(HANDLE_MAX)]);
    Ok(found)
}
