//! Targets of a run: directories, and disks that are attached and mounted while they are measured.
//!
//! # Invariants
//!
//! * A disk is taken down on every way out of the run, but by SIGKILL; `outboard detach --all` finds it
//!   then.
//! * The lab still writes into a directory of its own only, on a filesystem that was there or that
//!   was requested on a disk that holds nothing known.

use std::path::{Path, PathBuf};

use attach::{DetachOptions, DetachTarget};
use lab::TargetSpec;
use lab_drivers::build::DiskAccess as _;

use super::disk_access::OwnDisks;
use crate::commands::attach as attachments;
use crate::failure::Failure;
use crate::graph::{Disk, resolve};

/// What `attach` says of a disk without a filesystem that the system knows.
const NOT_MOUNTED: &str = "cannot be mounted";

/// Something that can be measured.
#[derive(Debug)]
pub(super) enum RunTarget {
    /// A directory.
    Directory(PathBuf),
    /// A disk, while it is mounted.
    Disk(Mounted),
}

/// A disk that was attached for a run.
#[derive(Debug)]
pub(super) struct Mounted {
    /// What the user wrote.
    disk: String,
    /// Where it is mounted.
    directory: PathBuf,
    /// Taken down already.
    gone: bool,
}

/// Whether `text` names a disk. What could be either is a directory.
pub(super) fn is_disk(text: &Path) -> bool {
    let Some(words) = text.to_str().filter(|_| !text.is_dir()) else {
        return false;
    };
    match resolve(words) {
        Ok(named) => match named.disk {
            Disk::File { path, .. } => path.exists(),
            _ => true,
        },
        // A directory that is not there has no brackets; what has is a disk with a slip in it.
        Err(_) => words.contains('('),
    }
}

impl RunTarget {
    /// The directory, or the disk under a directory of its own: the `number`th of this run.
    pub(super) fn find(text: &Path, number: usize, mkfs: Option<&str>) -> Result<Self, Failure> {
        let Some(disk) = text.to_str().filter(|_| is_disk(text)) else {
            return Ok(Self::Directory(text.to_owned()));
        };
        let name = format!("outboard-lab-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let mut request = attachments::plain(disk)?;
        request.mount = Some(directory.clone());
        request.mkfs = mkfs.map(str::to_owned);
        request.check().map_err(Failure::usage)?;
        attachments::attach(&request, 0).map_err(|error| {
            let failure = Failure::new(error);
            // The process that owns the attachment gives its reason as a text.
            if mkfs.is_none() && failure.line().contains(NOT_MOUNTED) {
                return failure.next("--mkfs ext4 makes a filesystem on a disk that holds nothing");
            }
            failure
        })?;
        Ok(Self::Disk(Mounted {
            disk: disk.to_owned(),
            directory,
            gone: false,
        }))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Directory(path) => path,
            Self::Disk(mounted) => &mounted.directory,
        }
    }

    /// As the lab wants it.
    pub(super) fn spec(&self) -> TargetSpec {
        match self {
            Self::Directory(path) => TargetSpec::new(path),
            Self::Disk(mounted) => {
                let mut spec = TargetSpec::new(&mounted.directory).called(&mounted.disk);
                spec.disk = OwnDisks.facts(&mounted.disk);
                spec
            }
        }
    }

    /// Takes the disk down.
    pub(super) fn close(self) -> Result<(), Failure> {
        match self {
            Self::Directory(_) => Ok(()),
            Self::Disk(mut mounted) => mounted.take_down(),
        }
    }
}

impl Mounted {
    fn take_down(&mut self) -> Result<(), Failure> {
        self.gone = true;
        let which = DetachTarget::Path(self.directory.clone());
        let options = DetachOptions {
            timeout: attach::DETACH_TIMEOUT,
            force: false,
        };
        let all = attach::detach(&which, &options).map_err(Failure::new)?;
        let mut failures = all.iter().flat_map(crate::commands::detach::failures_of);
        failures.next().map_or(Ok(()), Err)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.gone {
            return;
        }
        if let Err(failure) = self.take_down() {
            tracing::error!("{}: {}", self.disk, failure.text());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::is_disk;

    #[test]
    fn what_could_be_either_is_a_directory() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.img");
        std::fs::write(&file, [0; 512]).expect("a file");
        assert!(is_disk(&file) && !is_disk(folder.path()));
        for disk in ["memory(64M)", "nbd://host/media", "linear(a b)"] {
            assert!(is_disk(Path::new(disk)), "{disk}");
        }
        for none in ["/none/there", "none", "a b"] {
            assert!(!is_disk(Path::new(none)), "{none}");
        }
    }
}
