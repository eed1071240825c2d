//! Loop devices: a file under a block device.
//!
//! The ioctls of `/dev/loop-control` and `/dev/loopN` (`include/uapi/linux/loop.h`), and nothing
//! else: which file, when, and what to do with the device is the caller's.
//!
//! # Invariants
//!
//! * A device is configured in one step (`LOOP_CONFIGURE`, Linux 5.8): no process sees it half made.
//! * Every device set up here clears itself when its last opener is gone, so that a process that
//!   dies leaves none behind once it is not in use. Its partitions go with it.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::ffi::c_void;
use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode};

const CONTROL: &str = "/dev/loop-control";
const LOOP_CLR_FD: Opcode = 0x4C01;
const LOOP_GET_STATUS64: Opcode = 0x4C05;
const LOOP_SET_CAPACITY: Opcode = 0x4C07;
const LOOP_CONFIGURE: Opcode = 0x4C0A;
const LOOP_CTL_GET_FREE: Opcode = 0x4C82;

const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
/// The kernel reads the partition table, and takes the partitions away when the device is cleared.
const LO_FLAGS_PARTSCAN: u32 = 8;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// Bytes of a device's label, with the closing zero.
const LABEL_MAX: usize = 64;
/// Another process may take the free device that the kernel returned; so many times another one is requested.
const FREE_TRIES_MAX: usize = 16;

/// `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; LABEL_MAX],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Config {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<Info>() == 232 && size_of::<Config>() == 304);

impl Info {
    const fn zeroed() -> Self {
        Self {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: 0,
            file_name: [0; LABEL_MAX],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        }
    }
}

/// How a loop device is set up.
#[derive(Debug, Clone, Copy)]
pub struct LoopOptions<'a> {
    /// Kept by the device and returned by [`LoopDevice::status`]; cut at 63 bytes.
    pub label: &'a str,
    /// Logical block size, bytes, a power of two from 512 to the size of a page.
    pub block_size: u32,
    /// Refuse writes.
    pub read_only: bool,
}

/// The state of a loop device, as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopStatus {
    /// The label it was set up with (by other programs usually the file's path).
    pub label: String,
    /// Whether requests bypass the page cache of the file below.
    pub direct_io: bool,
}

/// An open loop device. Dropping it closes the device; it clears when no other process has it open.
#[derive(Debug)]
pub struct LoopDevice {
    fd: OwnedFd,
    path: PathBuf,
}

/// What went wrong with a loop device.
#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    /// `/dev/loop-control` could not be opened.
    #[error("{CONTROL} cannot be opened: {0}")]
    Control(#[source] io::Error),
    /// No free device was to be had.
    #[error("no free loop device: {0}")]
    NoneFree(#[source] io::Error),
    /// A device refused.
    #[error("{path}: {what}: {source}")]
    Device {
        /// Which.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// A loop ioctl; `T` is the structure that the kernel reads or fills, `()` for none.
struct Request<'a, T> {
    opcode: Opcode,
    data: Option<&'a mut T>,
}

// SAFETY: the opcodes above are the kernel's. Each call site pairs one with the structure that the
// kernel reads or fills for it, of the asserted size, or with none where the kernel takes none;
// the borrow outlives the call. The return value is handed on as a plain number.
unsafe impl<T> Ioctl for Request<'_, T> {
    type Output = IoctlOutput;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.data
            .as_deref_mut()
            .map_or(std::ptr::null_mut(), |data| std::ptr::from_mut(data).cast())
    }

    unsafe fn output_from_ptr(
        out: IoctlOutput,
        _: *mut c_void,
    ) -> rustix::io::Result<Self::Output> {
        Ok(out)
    }
}

fn call<T>(
    fd: BorrowedFd<'_>,
    opcode: Opcode,
    data: Option<&mut T>,
) -> rustix::io::Result<IoctlOutput> {
    // SAFETY: see `Request`: only the pairs of this file are ever passed.
    unsafe { ioctl::ioctl(fd, Request { opcode, data }) }
}

impl LoopDevice {
    /// Puts `backing` under a free loop device with direct I/O.
    ///
    /// # Errors
    /// [`LoopError`]; no device is left set up then.
    pub fn attach(backing: BorrowedFd<'_>, options: &LoopOptions<'_>) -> Result<Self, LoopError> {
        let control = rustix::fs::open(CONTROL, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| LoopError::Control(e.into()))?;
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for _ in 0..FREE_TRIES_MAX {
            let number = call::<()>(control.as_fd(), LOOP_CTL_GET_FREE, None)
                .map_err(|e| LoopError::NoneFree(e.into()))?;
            let device = Self::open(PathBuf::from(format!("/dev/loop{number}")))?;
            match device.configure(backing, options) {
                Ok(()) => return Ok(device),
                Err(rustix::io::Errno::BUSY) => last = rustix::io::Errno::BUSY.into(),
                Err(e) => return Err(device.failed("set up", e)),
            }
        }
        Err(LoopError::NoneFree(last))
    }

    /// Opens the loop device at `path`.
    ///
    /// # Errors
    /// [`LoopError::Device`].
    pub fn open(path: PathBuf) -> Result<Self, LoopError> {
        match rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
            Ok(fd) => Ok(Self { fd, path }),
            Err(e) => Err(LoopError::Device {
                path,
                what: "open",
                source: e.into(),
            }),
        }
    }

    fn configure(
        &self,
        backing: BorrowedFd<'_>,
        options: &LoopOptions<'_>,
    ) -> rustix::io::Result<()> {
        let mut info = Info::zeroed();
        info.flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_PARTSCAN | LO_FLAGS_DIRECT_IO;
        if options.read_only {
            info.flags |= LO_FLAGS_READ_ONLY;
        }
        let label = options.label.as_bytes();
        let len = label.len().min(LABEL_MAX - 1);
        info.file_name[..len].copy_from_slice(&label[..len]);
        let mut config = Config {
            fd: u32::try_from(backing.as_raw_fd()).map_err(|_| rustix::io::Errno::BADF)?,
            block_size: options.block_size,
            info,
            reserved: [0; 8],
        };
        call(self.fd.as_fd(), LOOP_CONFIGURE, Some(&mut config)).map(|_| ())
    }

    /// Where the device is.
    #[must_use]
    pub const fn path(&self) -> &PathBuf {
        &self.path
    }

    /// What stands on it; `None` where nothing does.
    ///
    /// # Errors
    /// [`LoopError::Device`].
    pub fn status(&self) -> Result<Option<LoopStatus>, LoopError> {
        let mut info = Info::zeroed();
        match call(self.fd.as_fd(), LOOP_GET_STATUS64, Some(&mut info)) {
            Ok(_) => Ok(Some(status_of(&info))),
            Err(rustix::io::Errno::NXIO) => Ok(None),
            Err(e) => Err(self.failed("ask for its status", e)),
        }
    }

    /// Gives the device the size that its file has now.
    ///
    /// # Errors
    /// [`LoopError::Device`].
    pub fn follow_size(&self) -> Result<(), LoopError> {
        match call::<()>(self.fd.as_fd(), LOOP_SET_CAPACITY, None) {
            Ok(_) => Ok(()),
            Err(e) => Err(self.failed("take on the size of its file", e)),
        }
    }

    /// Takes the file from under the device: at once, or when its last other opener closes it.
    ///
    /// # Errors
    /// [`LoopError::Device`]. A device that is clear already is none.
    pub fn clear(&self) -> Result<(), LoopError> {
        match call::<()>(self.fd.as_fd(), LOOP_CLR_FD, None) {
            Ok(_) | Err(rustix::io::Errno::NXIO) => Ok(()),
            Err(e) => Err(self.failed("clear", e)),
        }
    }

    fn failed(&self, what: &'static str, errno: rustix::io::Errno) -> LoopError {
        LoopError::Device {
            path: self.path.clone(),
            what,
            source: errno.into(),
        }
    }
}

fn status_of(info: &Info) -> LoopStatus {
    let name = &info.file_name;
    let len = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    LoopStatus {
        label: String::from_utf8_lossy(&name[..len]).into_owned(),
        direct_io: info.flags & LO_FLAGS_DIRECT_IO != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_ends_at_its_zero() {
        let mut info = Info::zeroed();
        info.file_name[..3].copy_from_slice(b"a:b");
        info.flags = LO_FLAGS_DIRECT_IO | LO_FLAGS_AUTOCLEAR;
        let status = status_of(&info);
        assert_eq!(status.label, "a:b");
        assert!(status.direct_io);
    }

    #[test]
    fn a_label_without_a_zero_is_taken_whole() {
        let mut info = Info::zeroed();
        info.file_name = [b'x'; LABEL_MAX];
        assert_eq!(status_of(&info).label.len(), LABEL_MAX);
    }
}
