//! The FUSE filesystem's mount: made, used once to open the disk's file, never put into the tree.
//!
//! The loop device keeps the file, the file keeps the mount: when the device is clear the
//! filesystem is gone. So there is no mount to be found, to be entered or to be left behind.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::proto::ProtoError;

const FUSE_DEVICE: &str = "/dev/fuse";

/// Why there is no FUSE.
#[derive(Debug, thiserror::Error)]
pub enum FuseError {
    /// The device node is missing.
    #[error(
        "{FUSE_DEVICE} is missing: load the module (modprobe fuse), or give the container the device"
    )]
    NoDevice,
    /// The device node may not be opened.
    #[error("{FUSE_DEVICE} cannot be opened: {0}")]
    Device(#[source] io::Error),
    /// The kernel would not mount.
    #[error("the kernel refuses a FUSE filesystem ({what}): {source}; it takes Linux 5.2 and root")]
    Mount {
        /// Which call.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The filesystem's file could not be opened.
    #[error("the disk's file cannot be opened through FUSE: {0}")]
    Open(#[source] io::Error),
    /// A request without a header.
    #[error("the kernel sent what is no request: {0}")]
    Request(#[source] ProtoError),
    /// The kernel does not take a reply.
    #[error("the kernel does not take a reply, so the FUSE connection is aborted: {0}")]
    Reply(#[source] io::Error),
    /// The channel to the kernel failed.
    #[error("the channel to FUSE failed: {0}")]
    Channel(#[source] io::Error),
}

/// Opens the channel to the kernel, without blocking reads.
///
/// # Errors
/// [`FuseError::NoDevice`], [`FuseError::Device`].
pub(crate) fn open_channel() -> Result<OwnedFd, FuseError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::open(FUSE_DEVICE, flags, Mode::empty()).map_err(|e| match e {
        rustix::io::Errno::NOENT | rustix::io::Errno::NODEV | rustix::io::Errno::NXIO => {
            FuseError::NoDevice
        }
        e => FuseError::Device(e.into()),
    })
}

/// Makes the filesystem behind `channel`. The kernel's first request waits in the channel then.
///
/// # Errors
/// [`FuseError::Mount`].
pub(crate) fn mount(channel: &OwnedFd) -> Result<OwnedFd, FuseError> {
    let failed = |what| {
        move |e: rustix::io::Errno| FuseError::Mount {
            what,
            source: e.into(),
        }
    };
    let fs =
        rustix::mount::fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC).map_err(failed("fsopen"))?;
    let number = channel.as_raw_fd().to_string();
    let options = [
        ("source", "outboard"),
        ("fd", number.as_str()),
        ("rootmode", "40000"),
        ("user_id", "0"),
        ("group_id", "0"),
    ];
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(&fs, key, value).map_err(failed("fsconfig"))?;
    }
    rustix::mount::fsconfig_create(&fs).map_err(failed("create"))?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID;
    rustix::mount::fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        .map_err(failed("fsmount"))
}

/// Opens the file `name` of the filesystem. Blocks until the channel is served.
///
/// # Errors
/// [`FuseError::Open`].
pub(crate) fn open_file(
    mount: &OwnedFd,
    name: &str,
    read_only: bool,
) -> Result<OwnedFd, FuseError> {
    let access = if read_only {
        OFlags::RDONLY
    } else {
        OFlags::RDWR
    };
    rustix::fs::openat(mount, name, access | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| FuseError::Open(e.into()))
}
