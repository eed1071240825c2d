//! How a path becomes a file node: what it is, whether it is free, and its geometry.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use block::{Geometry, Identity, Support};
use engine::{DiskFile, OpenMode};
use rustix::fs::{
    AtFlags, FileType, Stat, StatxFlags, fstat, fstatfs, ioctl_blksszget, seek, stat, statx,
};

use super::FileOptions;
use super::error::{FileHolder, OpenError};
use super::identity::identity_of;
use super::lock;
use super::topology::{QueueLimits, SYSFS};

/// Page of the page cache, and what is assumed of direct I/O where the kernel does not report it.
const PAGE: u32 = 4096;
/// Largest block size that the contract has.
const BLOCK_SIZE_MAX: u32 = 65_536;
/// Filesystems in memory (statfs(2)): their reads never wait.
const TMPFS_MAGIC: i64 = 0x0102_1994;
const RAMFS_MAGIC: i64 = 0x8584_58f6;

/// What a disk is kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    Regular,
    Device,
}

/// How reads can be tried without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TryReadMode {
    /// Ask the page cache.
    Cached,
    /// Reads never wait here.
    Plain,
    /// There is no way.
    Never,
}

/// An open disk and what was found out about it.
#[derive(Debug, Clone)]
pub(super) struct OpenedFile {
    pub(super) disk: DiskFile,
    pub(super) kind: FileKind,
    pub(super) geometry: Geometry,
    /// Which disk it is, as far as that is known.
    pub(super) identity: Option<Identity>,
    pub(super) try_read: TryReadMode,
    /// fallocate takes multiples of this, bytes.
    pub(super) allocation_unit: u64,
    /// Memory of direct writes lies at multiples of this, bytes.
    pub(super) memory_align: usize,
}

/// Offsets, lengths and memory of direct I/O, bytes.
#[derive(Debug, Clone, Copy)]
struct DirectAlign {
    offset: u32,
    memory: u32,
}

pub(super) async fn open(path: &Path, options: FileOptions) -> Result<OpenedFile, OpenError> {
    let unlocked = Unlocked::open(path, options)?;
    lock::take(
        unlocked.disk.fd().as_fd(),
        path,
        &unlocked.stat,
        options.read_only,
    )
    .await?;
    unlocked.examine(path, options)
}

/// The same for a reader without a lock: it refuses no writer, and gets the writer's process.
pub(super) async fn look_at(path: &Path) -> Result<(OpenedFile, Option<FileHolder>), OpenError> {
    let options = FileOptions {
        read_only: true,
        direct: false,
    };
    let unlocked = Unlocked::open(path, options)?;
    let holder = match lock::take(unlocked.disk.fd().as_fd(), path, &unlocked.stat, true).await {
        Ok(()) => {
            lock::release(unlocked.disk.fd());
            None
        }
        Err(OpenError::InUse { holder, .. }) => Some(holder),
        Err(error) => return Err(error),
    };
    Ok((unlocked.examine(path, options)?, holder))
}

/// A disk that is open and whose lock is still to be taken.
struct Unlocked {
    disk: DiskFile,
    kind: FileKind,
    stat: Stat,
}

impl Unlocked {
    fn open(path: &Path, options: FileOptions) -> Result<Self, OpenError> {
        let FileOptions { read_only, direct } = options;
        let failed = |error: io::Error| OpenError::of_open(path, read_only, direct, error);
        // Looked at before it is opened: opening a tape or a FIFO does things.
        let before = stat(path).map_err(|e| failed(e.into()))?;
        let mode = OpenMode {
            write: !read_only,
            direct,
            exclusive: kind_of(path, &before)? == FileKind::Device && !read_only,
        };
        let disk = DiskFile::open(path, mode).map_err(|e| match failed(e) {
            // The holder of our own lock is a better message than the kernel's refusal.
            OpenError::Busy { path } => match lock::holder(&path, &before, read_only) {
                holder if holder.process.is_some() => OpenError::InUse { path, holder },
                _ => OpenError::Busy { path },
            },
            other => other,
        })?;
        let stat = fstat(disk.fd()).map_err(|e| OpenError::system(path, "fstat", e))?;
        let kind = kind_of(path, &stat)?;
        Ok(Self { disk, kind, stat })
    }

    fn examine(self, path: &Path, options: FileOptions) -> Result<OpenedFile, OpenError> {
        examine(path, options, self.disk, self.kind, &self.stat)
    }
}

fn kind_of(path: &Path, stat: &Stat) -> Result<FileKind, OpenError> {
    let path = path.to_owned();
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(FileKind::Regular),
        FileType::BlockDevice => return Ok(FileKind::Device),
        FileType::Directory => return Err(OpenError::Directory { path }),
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "character device",
        _ => "file of an unknown kind",
    };
    Err(OpenError::NotADisk { path, kind })
}

fn examine(
    path: &Path,
    options: FileOptions,
    disk: DiskFile,
    kind: FileKind,
    stat: &Stat,
) -> Result<OpenedFile, OpenError> {
    let device = match kind {
        FileKind::Regular => stat.st_dev,
        FileKind::Device => stat.st_rdev,
    };
    let queue = QueueLimits::of(Path::new(SYSFS), device);
    let align = if options.direct {
        Some(direct_align(path, &disk, queue.as_ref())?)
    } else {
        None
    };
    let block_size = align.map_or(1, |align| align.offset);
    let size = served_size(path, &disk, kind, block_size)?;
    let allocation_unit = match kind {
        FileKind::Regular => 1,
        FileKind::Device => ioctl_blksszget(disk.fd())
            .map_err(|e| OpenError::system(path, "ioctl BLKSSZGET", e))?
            .into(),
    };
    Ok(OpenedFile {
        geometry: Geometry {
            block_size,
            preferred_block_size: preferred(kind, stat, queue.as_ref()).max(block_size),
            rotational: queue.as_ref().is_some_and(QueueLimits::is_rotational),
            read_only: options.read_only,
            trim: trim_support(kind, options, queue.as_ref()),
            write_zeroes: write_zeroes_support(kind, options, queue.as_ref()),
            ..Geometry::native(size)
        },
        identity: identity_of(Path::new(SYSFS), &disk, kind, stat),
        try_read: try_read_mode(&disk),
        memory_align: align.map_or(1, |align| align.memory as usize),
        disk,
        kind,
        allocation_unit,
    })
}

impl OpenedFile {
    /// The same with the size that is found now; `None` if it is what it was.
    pub(super) fn measured_again(&self, path: &Path) -> Result<Option<Self>, OpenError> {
        let size = served_size(path, &self.disk, self.kind, self.geometry.block_size)?;
        if size == self.geometry.size {
            return Ok(None);
        }
        let geometry = Geometry {
            size,
            ..self.geometry.clone()
        };
        Ok(Some(Self {
            geometry,
            ..self.clone()
        }))
    }
}

/// The size that is served: every byte, or whole blocks where only those can be requested.
fn served_size(
    path: &Path,
    disk: &DiskFile,
    kind: FileKind,
    block_size: u32,
) -> Result<u64, OpenError> {
    let found = size_of(path, disk, kind)?;
    let unit = u64::from(block_size);
    let size = found / unit * unit;
    if size != found {
        tracing::warn!(
            "{}: the last {} of its {found} bytes are not served: direct I/O is in blocks of {unit} bytes",
            path.display(),
            found - size
        );
    }
    Ok(size)
}

fn size_of(path: &Path, disk: &DiskFile, kind: FileKind) -> Result<u64, OpenError> {
    match kind {
        FileKind::Regular => file_size(disk),
        // fstat does not report a device's size.
        FileKind::Device => seek(disk.fd(), rustix::fs::SeekFrom::End(0)).map_err(Into::into),
    }
    .map_err(|e| OpenError::system(path, "asking for its size", e))
}

/// Size of a regular file now.
pub(super) fn file_size(disk: &DiskFile) -> io::Result<u64> {
    let size = fstat(disk.fd())?.st_size;
    u64::try_from(size).map_err(io::Error::other)
}

/// The alignment that direct I/O on the file requires.
fn direct_align(
    path: &Path,
    disk: &DiskFile,
    queue: Option<&QueueLimits>,
) -> Result<DirectAlign, OpenError> {
    let stat = statx(disk.fd(), "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        .map_err(|e| OpenError::system(path, "statx", e))?;
    let align = if StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN) {
        DirectAlign {
            offset: stat.stx_dio_offset_align,
            memory: stat.stx_dio_mem_align,
        }
    } else {
        // A kernel before 6.1 reports nothing of files; it checks against the device's unit.
        let unit = queue
            .and_then(QueueLimits::logical_block_size)
            .unwrap_or(PAGE);
        DirectAlign {
            offset: unit,
            memory: unit,
        }
    };
    let served = |unit: u32| unit.is_power_of_two() && unit <= BLOCK_SIZE_MAX;
    // Zero says that the file has no direct I/O.
    if served(align.offset) && served(align.memory) && align.memory <= PAGE {
        return Ok(align);
    }
    Err(OpenError::NoDirect {
        path: path.to_owned(),
    })
}

fn preferred(kind: FileKind, stat: &Stat, queue: Option<&QueueLimits>) -> u32 {
    let reported = match kind {
        FileKind::Regular => u32::try_from(stat.st_blksize).ok(),
        FileKind::Device => queue.and_then(QueueLimits::physical_block_size),
    };
    reported
        .filter(|size| size.is_power_of_two())
        .map_or(PAGE, |size| size.clamp(PAGE, BLOCK_SIZE_MAX))
}

fn trim_support(kind: FileKind, options: FileOptions, queue: Option<&QueueLimits>) -> Support {
    match kind {
        _ if options.read_only => Support::None,
        // A filesystem that cannot punch keeps the data, which a trim allows.
        FileKind::Regular => Support::Native,
        FileKind::Device if queue.is_some_and(QueueLimits::has_write_zeroes) => Support::Native,
        FileKind::Device => Support::None,
    }
}

fn write_zeroes_support(
    kind: FileKind,
    options: FileOptions,
    queue: Option<&QueueLimits>,
) -> Support {
    match kind {
        _ if options.read_only => Support::None,
        FileKind::Regular => Support::Native,
        FileKind::Device if queue.is_some_and(QueueLimits::has_write_zeroes) => Support::Native,
        FileKind::Device => Support::Emulated,
    }
}

/// Probes once: some filesystems do not support reads from the page cache alone.
fn try_read_mode(disk: &DiskFile) -> TryReadMode {
    if disk.is_direct() {
        return TryReadMode::Never;
    }
    match disk.try_read(&mut [0], 0) {
        Ok(_) => TryReadMode::Cached,
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => TryReadMode::Cached,
        Err(_) if is_in_memory(disk) => TryReadMode::Plain,
        Err(_) => TryReadMode::Never,
    }
}

fn is_in_memory(disk: &DiskFile) -> bool {
    fstatfs(disk.fd()).is_ok_and(|found| {
        #[expect(
            clippy::useless_conversion,
            reason = "its width differs by architecture"
        )]
        let magic = i64::from(found.f_type);
        magic == TMPFS_MAGIC || magic == RAMFS_MAGIC
    })
}
