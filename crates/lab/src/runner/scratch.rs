//! A directory of our own below a target: made with a unique name, locked, removed on every way out.
//!
//! Assumptions: `flock` on the target directory keeps two runs of one machine apart. Where a
//! filesystem cannot lock a directory the run goes on and says so.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock, statvfs};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::LabError;
use crate::units::Bytes;

/// How our directories begin; what is found with it on a target that we have locked is left from a
/// run that was killed.
pub(super) const PREFIX: &str = ".outboard-lab-";
/// The test file.
pub(super) const FILE: &str = "data";
/// What tools make is in here.
pub(super) const TOOLS: &str = "tools";
/// Left free on a target besides the test file.
const RESERVE: Bytes = Bytes(32 << 20);

/// A locked target with our directory in it.
#[derive(Debug)]
pub(super) struct Scratch {
    /// The target without symbolic links.
    pub(super) directory: PathBuf,
    /// Which directory it is, however it is called.
    pub(super) identity: (u64, u64),
    /// Whether another run would be kept out.
    pub(super) locked: bool,
    own: TempDir,
    _lock: TargetLock,
}

impl Scratch {
    /// Checks that `path` is a directory that may be written, locks it and makes ours.
    pub(super) fn make(path: &Path) -> Result<Self, LabError> {
        let not_there = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => LabError::Missing(path.to_owned()),
            _ => not_writable(path, error),
        };
        let directory = fs::canonicalize(path).map_err(not_there)?;
        let metadata = fs::metadata(&directory).map_err(not_there)?;
        if !metadata.is_dir() {
            return Err(LabError::NotADirectory(path.to_owned()));
        }
        let lock = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::DIRECTORY.bits().cast_signed())
            .open(&directory)
            .map_err(|error| not_writable(path, error))?;
        let lock = TargetLock::take(lock, path)?;
        if lock.locked {
            remove_leftovers(&directory);
        }
        let own = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir_in(&directory)
            .map_err(|error| not_writable(path, error))?;
        Ok(Self {
            identity: (metadata.dev(), metadata.ino()),
            directory,
            locked: lock.locked,
            own,
            _lock: lock,
        })
    }

    /// Ours.
    pub(super) fn own(&self) -> &Path {
        self.own.path()
    }

    /// Where tools that are not fio work.
    pub(super) fn tool_directory(&self) -> PathBuf {
        self.own.path().join(TOOLS)
    }

    /// Removes what tools made, also what a later one would work on: that is made again.
    pub(super) fn clear_tools(&self) -> Result<(), String> {
        let path = self.tool_directory();
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(format!("{} could not be removed: {error}", path.display()))
            }
            _ => Ok(()),
        }
    }

    /// Bytes that may still be written to the target.
    pub(super) fn free(&self) -> Result<Bytes, LabError> {
        let space = statvfs(&self.directory).map_err(|error| {
            LabError::system(
                format!("ask {} for its free space", self.directory.display()),
                error,
            )
        })?;
        Ok(Bytes(space.f_bavail.saturating_mul(space.f_frsize)))
    }

    /// The test file.
    pub(super) fn file(&self) -> PathBuf {
        self.own.path().join(FILE)
    }

    /// Refuses a target without room for `files` test files of `size`.
    pub(super) fn check_space(&self, size: Bytes, files: u64) -> Result<(), LabError> {
        let free = self.free()?;
        let needed = Bytes(size.0.saturating_mul(files).saturating_add(RESERVE.0));
        if free < needed {
            return Err(LabError::NoSpace {
                path: self.directory.clone(),
                free,
                needed,
            });
        }
        Ok(())
    }

    /// Removes our directory; what could not be removed is named.
    pub(super) fn remove(self) -> Result<(), String> {
        let path = self.own.path().to_owned();
        self.own
            .close()
            .map_err(|error| format!("{} could not be removed: {error}", path.display()))
    }
}

/// A target that is locked until this is dropped, also where a program that was started meanwhile still has its descriptor: it has a copy
/// of it until it is executed.
#[derive(Debug)]
pub(super) struct TargetLock {
    target: File,
    /// Whether another run is kept out.
    pub(super) locked: bool,
}

impl TargetLock {
    /// Keeps another run out of a target, where that can be done there.
    pub(super) fn take(target: File, path: &Path) -> Result<Self, LabError> {
        let locked = match flock(&target, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => true,
            Err(Errno::WOULDBLOCK) => return Err(LabError::Busy(path.to_owned())),
            Err(error) => {
                tracing::debug!(%error, path = %path.display(), "the target cannot be locked");
                false
            }
        };
        Ok(Self { target, locked })
    }
}

impl Drop for TargetLock {
    fn drop(&mut self) {
        if self.locked
            && let Err(error) = flock(&self.target, FlockOperation::Unlock)
        {
            // It ends with the last descriptor at the latest.
            tracing::debug!(%error, "the target cannot be unlocked");
        }
    }
}

fn not_writable(path: &Path, source: io::Error) -> LabError {
    // "No space left" while making a directory is not a matter of permission.
    if source.kind() == io::ErrorKind::StorageFull {
        return LabError::NoSpace {
            path: path.to_owned(),
            free: Bytes(0),
            needed: RESERVE,
        };
    }
    LabError::NotWritable {
        path: path.to_owned(),
        source,
    }
}

/// Removes what a killed run left: directories of our name that hold our file or nothing.
fn remove_leftovers(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if !ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let file = entry.path().join(FILE);
        // All that is in there was made by a tool that we started.
        let tools = fs::remove_dir_all(entry.path().join(TOOLS));
        if let Err(error) = tools.or_else(ignore_missing) {
            tracing::warn!(%error, path = %entry.path().display(), "a tool's files stay");
        }
        let removed = match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            // Fails, as it should, when there is anything else in it.
            _ => fs::remove_dir(entry.path()),
        };
        if let Err(error) = removed {
            tracing::warn!(%error, path = %entry.path().display(), "a directory left by a killed run stays");
        }
    }
}

fn ignore_missing(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}
