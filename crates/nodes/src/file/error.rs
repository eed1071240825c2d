//! [`OpenError`]: why a path cannot be served as a disk, and what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// The process that has a file open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHolder {
    /// For writing, not only for reading.
    pub writes: bool,
    /// Its process id, where the system reports it.
    pub process: Option<u32>,
}

impl fmt::Display for FileHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = if self.writes { "writing" } else { "reading" };
        write!(f, "already open for {access}")?;
        match self.process {
            Some(process) if process == std::process::id() => write!(f, " by this process"),
            Some(process) => write!(f, " by process {process}"),
            None => Ok(()),
        }
    }
}

/// Why a file or device was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Nothing is there.
    #[error(
        "{path} does not exist: check the path, or make an image with `outboard disk create {path} SIZE`",
        path = path.display()
    )]
    NotFound {
        /// What was to be opened.
        path: PathBuf,
    },
    /// A directory.
    #[error("{path} is a directory: name a file or a block device", path = path.display())]
    Directory {
        /// What was to be opened.
        path: PathBuf,
    },
    /// A FIFO, a socket or a character device.
    #[error("{path} is a {kind}: name a file or a block device", path = path.display())]
    NotADisk {
        /// What was to be opened.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// The user may not.
    #[error("{path} may not be opened for {access}: {remedy}", path = path.display())]
    Permission {
        /// What was to be opened.
        path: PathBuf,
        /// For reading, or for reading and writing.
        access: &'static str,
        /// What helps.
        remedy: &'static str,
    },
    /// On a read-only filesystem or medium.
    #[error("{path} is on a read-only filesystem or medium: serve it read-only", path = path.display())]
    ReadOnlyMedium {
        /// What was to be opened.
        path: PathBuf,
    },
    /// Another node has it, here or in another process.
    #[error("{path} is {holder}: close it there, or open it read-only on both sides", path = path.display())]
    InUse {
        /// What was to be opened.
        path: PathBuf,
        /// The process that has it.
        holder: FileHolder,
    },
    /// The kernel holds the device.
    #[error(
        "{path} is in use by the system (mounted, or part of an array or a volume): release it first, or open it read-only",
        path = path.display()
    )]
    Busy {
        /// What was to be opened.
        path: PathBuf,
    },
    /// No O_DIRECT there.
    #[error("{path} cannot be opened past the page cache: its filesystem has no direct I/O; leave `direct` out", path = path.display())]
    NoDirect {
        /// What was to be opened.
        path: PathBuf,
    },
    /// The system refused something else.
    #[error("{path} cannot be opened: {what} failed: {source}", path = path.display())]
    System {
        /// What was to be opened.
        path: PathBuf,
        /// The step.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl OpenError {
    /// What a failed open(2) or stat(2) of `path` means.
    pub(super) fn of_open(path: &Path, read_only: bool, direct: bool, error: io::Error) -> Self {
        let path = path.to_owned();
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) => Self::NotFound { path },
            Some(Errno::ISDIR) => Self::Directory { path },
            Some(Errno::ROFS) => Self::ReadOnlyMedium { path },
            Some(Errno::BUSY) => Self::Busy { path },
            Some(Errno::INVAL) if direct => Self::NoDirect { path },
            Some(Errno::ACCESS | Errno::PERM) if read_only => Self::Permission {
                path,
                access: "reading",
                remedy: "run as a user who may",
            },
            Some(Errno::ACCESS | Errno::PERM) => Self::Permission {
                path,
                access: "reading and writing",
                remedy: "run as a user who may, or open it read-only",
            },
            _ => Self::System {
                path,
                what: "open",
                source: error,
            },
        }
    }

    pub(super) fn system(path: &Path, what: &'static str, source: impl Into<io::Error>) -> Self {
        Self::System {
            path: path.to_owned(),
            what,
            source: source.into(),
        }
    }
}
