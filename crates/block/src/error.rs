//! [`IoError`]: a closed kind to match on, where it happened, and the cause.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use crate::Range;

/// The kinds of failure a disk can report. Closed: each has one NBD value, and each NBD value one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Errno {
    /// The medium or the way to it failed.
    Io,
    /// No space left, on the disk or under a sparse image.
    NoSpace,
    /// The request makes no sense for this disk.
    Invalid,
    /// The disk cannot do this.
    NotSupported,
    /// The disk is read-only or the caller may not do this.
    NotPermitted,
    /// No memory for the request.
    OutOfMemory,
    /// The answer would be larger than allowed.
    Overflow,
    /// The disk is being closed.
    ShuttingDown,
}

impl Errno {
    /// Every kind, for tables and tests.
    pub const ALL: [Self; 8] = [
        Self::Io,
        Self::NoSpace,
        Self::Invalid,
        Self::NotSupported,
        Self::NotPermitted,
        Self::OutOfMemory,
        Self::Overflow,
        Self::ShuttingDown,
    ];
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Io => "input/output error",
            Self::NoSpace => "no space left",
            Self::Invalid => "invalid request",
            Self::NotSupported => "not supported",
            Self::NotPermitted => "not permitted",
            Self::OutOfMemory => "out of memory",
            Self::Overflow => "answer too large",
            Self::ShuttingDown => "shutting down",
        })
    }
}

/// The operation that was requested of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// [`BlockDevice::read`](crate::BlockDevice::read)
    Read,
    /// [`BlockDevice::write`](crate::BlockDevice::write)
    Write,
    /// [`BlockDevice::flush`](crate::BlockDevice::flush)
    Flush,
    /// [`BlockDevice::write_zeroes`](crate::BlockDevice::write_zeroes)
    WriteZeroes,
    /// [`BlockDevice::trim`](crate::BlockDevice::trim)
    Trim,
    /// [`BlockDevice::extents`](crate::BlockDevice::extents)
    Extents,
    /// [`BlockDevice::revalidate`](crate::BlockDevice::revalidate)
    Measure,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::WriteZeroes => "write_zeroes",
            Self::Trim => "trim",
            Self::Extents => "extents",
            Self::Measure => "measure",
        })
    }
}

/// Another client took over writing to the disk: it takes no request of this one any more. A cause of an [`IoError`],
/// found by [`IoError::fenced`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fenced(pub String);

impl fmt::Display for Fenced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Fenced {}

/// A failed request.
#[derive(Debug, Clone)]
pub struct IoError {
    /// The kind.
    pub errno: Errno,
    /// The operation.
    pub operation: Operation,
    /// Where; `None` for a flush.
    pub range: Option<Range>,
    /// The cause, if a lower layer gave one.
    pub source: Option<Arc<dyn Error + Send + Sync>>,
}

impl IoError {
    /// A failure of `operation` on `range`.
    #[must_use]
    pub const fn new(errno: Errno, operation: Operation, range: Option<Range>) -> Self {
        Self {
            errno,
            operation,
            range,
            source: None,
        }
    }

    /// The same with its cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// The writer that took over the disk, if that is why the request failed.
    #[must_use]
    pub fn fenced(&self) -> Option<&Fenced> {
        let mut cause = self.source();
        while let Some(error) = cause {
            if let Some(fenced) = error.downcast_ref() {
                return Some(fenced);
            }
            cause = error.source();
        }
        None
    }

    /// A failure that the operating system reported.
    #[must_use]
    pub fn from_os(error: io::Error, operation: Operation, range: Option<Range>) -> Self {
        Self::new(errno_of(&error), operation, range).because(error)
    }
}

/// Linux values are fixed by its ABI (include/uapi/asm-generic/errno*.h).
fn errno_of(error: &io::Error) -> Errno {
    const EPERM: i32 = 1;
    const ENOMEM: i32 = 12;
    const EACCES: i32 = 13;
    const EINVAL: i32 = 22;
    const EFBIG: i32 = 27;
    const ENOSPC: i32 = 28;
    const EROFS: i32 = 30;
    const ENOSYS: i32 = 38;
    const EOVERFLOW: i32 = 75;
    const EOPNOTSUPP: i32 = 95;
    const EDQUOT: i32 = 122;
    match error.raw_os_error() {
        Some(ENOSPC | EDQUOT | EFBIG) => Errno::NoSpace,
        Some(EPERM | EACCES | EROFS) => Errno::NotPermitted,
        Some(ENOMEM) => Errno::OutOfMemory,
        Some(EINVAL) => Errno::Invalid,
        Some(EOVERFLOW) => Errno::Overflow,
        Some(EOPNOTSUPP | ENOSYS) => Errno::NotSupported,
        _ => Errno::Io,
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.operation)?;
        if let Some(range) = self.range {
            write!(f, " of {range}")?;
        }
        write!(f, ": {}", self.errno)?;
        if let Some(source) = &self.source {
            write!(f, " ({source})")?;
        }
        Ok(())
    }
}

impl Error for IoError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn Error + 'static))
    }
}
