//! [`CopyTarget`]: what becomes of a target that is a file.
//!
//! ```text
//! the target is…                     before the copy                 after a failure
//! a path where nothing is            made, of the source's size      removed
//! an empty file                      given the source's size         emptied
//! a file that holds something        refused without --force;        left, and named as incomplete
//!                                    then emptied, as above
//! a file with the state of a copy    left as it is                   left, and named as incomplete
//! anything else                      left as it is                   left, and named as incomplete
//! ```
//!
//! All files are left once there is a state with which the copy can be resumed.
//!
//! A target that is updated (`--bitmap`) of any kind is left as it is; where nothing is, the copy is refused.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use engine::DiskFile;
use nodes::OpenError;
use rustix::fs::{FlockOperation, flock};

use super::state_file::StateFile;
use crate::failure::Failure;
use crate::graph::{Disk, NamedDisk};

/// A file that is made is rounded up to this while it is written, so that its last part can be
/// written in blocks of any size.
const ROUND: u64 = 65_536;

/// What is at the target before the copy.
#[derive(Debug)]
pub(super) enum CopyTarget {
    /// Something that stays as large as it is.
    Disk,
    /// No file yet.
    New(PathBuf),
    /// A file of which nothing is kept.
    Replaced {
        /// Where.
        path: PathBuf,
        /// It held nothing.
        was_empty: bool,
    },
    /// A file with the first part of the source.
    Resumed(PathBuf),
}

impl CopyTarget {
    /// Looks at it; nothing is changed. `hint` is what to do about a file that holds something, without `force`.
    pub(super) fn find(named: &NamedDisk, force: bool, hint: &str) -> Result<Self, Failure> {
        let leaves = named.disk.leaves();
        let [
            Disk::File {
                path, read_only, ..
            },
        ] = leaves.as_slice()
        else {
            return Self::of_several(&named.disk, force);
        };
        let path = path.clone();
        if *read_only {
            let what = format!("{} is read-only, as you wrote it", path.display());
            return Err(Failure::usage(what).next("leave read-only=true away"));
        }
        let whole = matches!(named.disk, Disk::File { .. });
        let found = match std::fs::metadata(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound && whole => {
                return Ok(Self::New(path));
            }
            // Opening it gives the error.
            Err(_) => return Ok(Self::Disk),
        };
        if !found.is_file() {
            return Ok(Self::Disk);
        }
        let was_empty = found.len() == 0;
        if !was_empty && !force {
            let what = format!("{} exists and holds {} bytes", path.display(), found.len());
            return Err(Failure::new(what).next(hint));
        }
        Ok(if whole {
            Self::Replaced { path, was_empty }
        } else {
            Self::Disk
        })
    }

    /// Looks at a file to which a copy was interrupted; `state` is the path of its state.
    pub(super) fn find_resumed(path: &Path, state: &Path) -> Result<Self, Failure> {
        if path.is_file() {
            return Ok(Self::Resumed(path.to_owned()));
        }
        let (path, state) = (path.display(), state.display());
        let failure = Failure::new(format!(
            "{path} does not exist, and {state} is of a copy to it"
        ));
        Err(failure.next("leave --resume out to copy from the beginning"))
    }

    /// Looks at a target that is updated from `source`: all its files must be there.
    pub(super) fn find_existing(named: &NamedDisk, source: &NamedDisk) -> Result<Self, Failure> {
        let missing = |path: &&Path| {
            let found = std::fs::metadata(path);
            found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let Some(path) = named.disk.files().into_iter().find(missing) else {
            return Ok(Self::Disk);
        };
        let what = format!(
            "{} does not exist, and a bitmap has only what was changed",
            path.display()
        );
        let (source, target) = (&source.text, &named.text);
        Err(Failure::new(what).next(format!(
            "make a full copy first: outboard copy {source} {target}"
        )))
    }

    /// A disk that is made of several, or of what a table names.
    fn of_several(disk: &Disk, force: bool) -> Result<Self, Failure> {
        let holds = |path: &&Path| std::fs::metadata(path).is_ok_and(|found| found.len() > 0);
        let files = disk.files();
        let Some(path) = files.into_iter().find(holds).filter(|_| !force) else {
            return Ok(Self::Disk);
        };
        let what = format!(
            "{} is part of the target and holds something",
            path.display()
        );
        Err(Failure::new(what).next(super::FORCE))
    }

    /// Makes the file, or gives it the size of the source. The state of an earlier copy to it is removed before it is changed.
    pub(super) async fn prepare(
        self,
        size: u64,
        state: Option<&StateFile>,
    ) -> Result<Prepared, Failure> {
        let mut options = OpenOptions::new();
        options.write(true);
        let (path, left) = match self {
            Self::Disk => return Ok(Prepared(None)),
            Self::New(path) => {
                options.create_new(true);
                (path, Left::Nothing)
            }
            Self::Replaced {
                path,
                was_empty: true,
            } => (path, Left::Empty),
            Self::Replaced { path, .. } => (path, Left::Incomplete),
            Self::Resumed(path) => (path, Left::Resumed),
        };
        let failed = |error: &io::Error| {
            let failure = Failure::because(format!("cannot make {}", path.display()), error);
            match error.kind() {
                io::ErrorKind::NotFound => failure.next("make its directory first"),
                _ => failure,
            }
        };
        let file = options.open(&path).map_err(|error| failed(&error))?;
        // Another process that uses the file must not see it emptied. Opening it as a disk gives the error with its name.
        match nodes::lock_exclusive(&file, &path).await {
            Err(OpenError::InUse { .. }) => return Ok(Prepared(None)),
            locked => locked.map_err(|error| Failure::from_error(&error))?,
        }
        let made = Made {
            path: path.clone(),
            file,
            left,
        };
        let prepared = made.resize(size, state).and_then(|()| {
            // The disk takes a lock of its own.
            flock(&made.file, FlockOperation::Unlock)?;
            if let Some(state) = state {
                state.set_made(made.file.try_clone()?, &path);
            }
            Ok(())
        });
        match prepared {
            Ok(()) => Ok(Prepared(Some(made))),
            Err(error) => {
                let failure = failed(&error);
                Prepared(Some(made)).remove();
                Err(failure)
            }
        }
    }
}

/// What a copy that fails leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    Empty,
    Incomplete,
    Resumed,
}

#[derive(Debug)]
struct Made {
    path: PathBuf,
    file: File,
    left: Left,
}

/// A target that can be written. A file that was made for it is removed unless it is finished.
#[derive(Debug)]
pub(super) struct Prepared(Option<Made>);

impl Prepared {
    /// Whether all of it reads as zeroes.
    pub(super) fn is_zero(&self) -> bool {
        let made = self.0.as_ref();
        made.is_some_and(|made| made.left != Left::Resumed)
    }

    /// The file that was made.
    pub(super) fn file(&self) -> Option<DiskFile> {
        let file = self.0.as_ref()?.file.try_clone().ok()?;
        Some(DiskFile::from_fd(file.into(), false))
    }

    /// The target holds all of the source: its size is the source's, and that is durable.
    pub(super) fn finish(&mut self, size: u64) -> Result<(), Failure> {
        let Some(made) = &self.0 else {
            return Ok(());
        };
        let finished = set_size(&made.file, size).and_then(|()| made.file.sync_all());
        finished.map_err(|error| {
            Failure::because(format!("cannot finish {}", made.path.display()), &error)
        })?;
        sync_folder(&made.path);
        self.0 = None;
        Ok(())
    }

    /// It stays as it is.
    pub(super) fn keep(mut self) {
        self.0 = None;
    }

    /// Takes back what was made; whether that was possible.
    pub(super) fn remove(mut self) -> bool {
        self.0.take().is_some_and(|made| made.take_back())
    }
}

impl Made {
    /// Gives the file its size, so that all of it is a hole, unless it is one to continue.
    fn resize(&self, size: u64, state: Option<&StateFile>) -> io::Result<()> {
        if self.left == Left::Resumed {
            return Ok(());
        }
        if let Some(state) = state {
            state.remove_found()?;
        }
        self.file.set_len(0)?;
        self.file.set_len(size.next_multiple_of(ROUND))
    }

    fn take_back(&self) -> bool {
        match self.left {
            Left::Nothing => std::fs::remove_file(&self.path).is_ok(),
            Left::Empty => self.file.set_len(0).is_ok(),
            Left::Incomplete | Left::Resumed => false,
        }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(made) = &self.0 {
            // No caller is left that could get the error.
            let _gone = made.take_back();
        }
    }
}

/// Gives a file its size where it has another one. To set the same one again would have a filesystem write
/// its journal once more, after the flush that the copy ended with.
fn set_size(file: &File, size: u64) -> io::Result<()> {
    if file.metadata()?.len() == size {
        return Ok(());
    }
    file.set_len(size)
}

/// Makes the name of a new file durable. Filesystems that cannot have their own ways.
pub(super) fn sync_folder(path: &Path) {
    use rustix::fs::{Mode, OFlags, fsync, open};
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let synced = open(folder, flags, Mode::empty()).and_then(fsync);
    if let Err(error) = synced {
        tracing::debug!("{}: {error}", folder.display());
    }
}
