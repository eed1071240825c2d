//! The mount namespace of the FUSE server, which must outlive `/dev/fuse`.
//!
//! The last process of a mount namespace unmounts what is mounted there while it exits, and an unmount writes dirty
//! pages. A container that is killed loses all processes at once, so the last one may be the server of the disk under
//! such a filesystem: it would wait for its own replies, with `/dev/fuse` still open.
//!
//! ```text
//! exit without a descriptor of the namespace         exit with one
//! 1. descriptors: the close is deferred              1. descriptors: the closes are deferred
//! 2. namespace: the last reference is dropped,       2. namespace: the descriptor still refers to it
//!    its unmounts are deferred                       3. deferred: /dev/fuse is closed, which aborts the
//! 3. deferred, last in first out: the unmount           connection; the namespace is closed, its unmounts
//!    waits for the server, /dev/fuse stays open         are deferred behind both, in either order
//!                                                    4. deferred: the unmount, whose writes fail at once
//! ```
//!
//! The kernel defers closes and unmounts of an exiting task like this since Linux 3.18, and FUSE mounts of this crate
//! need 5.2. Leaving the namespace instead would take away the paths, `/etc/resolv.conf` and `/proc` that the process needs.

use std::io;

use rustix::fs::{Mode, OFlags};

const MOUNT_NAMESPACE: &str = "/proc/self/ns/mnt";

/// Refers to this process's mount namespace by a descriptor that only the exit of the process closes.
///
/// # Errors
/// If `/proc` is not readable.
pub(crate) fn pin_mount_namespace() -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let namespace = rustix::fs::open(MOUNT_NAMESPACE, flags, Mode::empty())?;
    // An owned descriptor could be closed before `/dev/fuse`.
    std::mem::forget(namespace);
    Ok(())
}
