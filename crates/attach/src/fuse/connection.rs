//! The number of a FUSE connection, and its abort by another process than its server (fusectl).
//!
//! A server that ends aborts its connection by that. One that lives and serves nothing any more (stopped, or
//! waiting in the kernel for a disk of its own) has it aborted here, before anything is waited for.
//!
//! fusectl is mounted for the moment, and not into the tree: `/sys/fs/fuse/connections` is missing in most
//! containers.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, minor, statx};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

/// The number of the connection of the filesystem mounted as `mount`: its device's minor number. Sends
/// no request to the filesystem's server.
pub(crate) fn connection_of(mount: &OwnedFd) -> Option<u32> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = statx(mount, "", flags, StatxFlags::INO).ok()?;
    Some(minor(rustix::fs::makedev(
        found.stx_dev_major,
        found.stx_dev_minor,
    )))
}

/// Whether the loop device at `device` stands on the FUSE file `label`. As long as it does, the file's
/// connection keeps its number. Sends no request to the file's server.
pub(crate) fn is_backed_by(device: &Path, label: &str) -> bool {
    let Some(name) = device.file_name() else {
        return false;
    };
    let file = Path::new("/sys/block").join(name).join("loop/backing_file");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.trim().trim_start_matches('/') == label
}

/// Aborts the connection with this number: all that waits for its server fails, now and from now on.
///
/// # Errors
/// Those of the system; not found where there is no such connection.
pub(crate) fn abort_connection(number: u32) -> io::Result<()> {
    let fs = rustix::mount::fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&fs)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID;
    let mounted = rustix::mount::fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let file = format!("{number}/abort");
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let abort = rustix::fs::openat(&mounted, file, flags, Mode::empty())?;
    rustix::io::write(&abort, b"1")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;
    use testkit::requires;

    use super::super::{mount, open_channel};
    use super::*;

    #[test]
    fn a_connection_is_aborted_by_its_number_without_its_server() {
        if !requires::all(&[requires::root(), requires::fuse()]) {
            return;
        }
        let channel = open_channel().unwrap();
        let mounted = mount(&channel).unwrap();
        let number = connection_of(&mounted).unwrap();
        abort_connection(number).unwrap();
        let mut request = vec![0; super::super::reply::READ_BUFFER_LEN];
        let read = rustix::io::read(&channel, &mut request[..]);
        assert_eq!(read, Err(Errno::NODEV));
    }
}
