//! The ground a target gives us: our file in a directory, a device, or an export; held as long as it is
//! measured.
//!
//! Invariants: a directory and a device are locked against another run. A device or an export is only
//! read unless its target says that it may be written.

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::request::TargetSpec;
use super::scratch::{FILE, Scratch, TargetLock};
use crate::LabError;
use crate::fio::Subject;
use crate::host::TargetPlace;
use crate::units::Bytes;

/// A target that is held.
#[derive(Debug)]
pub(super) struct WorkArea {
    kind: WorkAreaKind,
    /// Whether what is on it may be written; our own file always may.
    pub(super) writable: bool,
    /// How much there is, where that is not for us to choose.
    pub(super) size: Option<Bytes>,
    /// Whether another run would be kept out.
    pub(super) locked: bool,
}

#[derive(Debug)]
enum WorkAreaKind {
    Directory {
        scratch: Scratch,
        file: PathBuf,
    },
    Device {
        path: PathBuf,
        number: u64,
        _lock: TargetLock,
    },
    Uri(String),
    /// A folder on the machine of an agent, which removes it when fio ends there.
    RemoteLoad {
        place: TargetPlace,
        file: PathBuf,
        device: u64,
    },
}

impl WorkArea {
    /// Takes hold of a target.
    pub(super) fn hold(spec: &TargetSpec) -> Result<Self, LabError> {
        match &spec.place {
            TargetPlace::Directory(path) => {
                let scratch = Scratch::make(path)?;
                Ok(Self {
                    writable: true,
                    size: None,
                    locked: scratch.locked,
                    kind: WorkAreaKind::Directory {
                        file: scratch.file(),
                        scratch,
                    },
                })
            }
            TargetPlace::Device(path) => Self::device(path, !spec.read_only),
            TargetPlace::Uri(uri) => Ok(Self {
                writable: !spec.read_only,
                size: spec.size,
                locked: true,
                kind: WorkAreaKind::Uri(uri.clone()),
            }),
            TargetPlace::There { .. } => Self::there(spec),
        }
    }

    fn there(spec: &TargetSpec) -> Result<Self, LabError> {
        let place = spec.place.clone();
        let Some(folder) = &spec.folder else {
            let what =
                format!("{place} is on another machine: say which agent is to run fio there");
            return Err(LabError::BadRequest(what));
        };
        Ok(Self {
            writable: true,
            size: None,
            // An agent runs fio for one lab at a time.
            locked: true,
            kind: WorkAreaKind::RemoteLoad {
                place,
                file: folder.path.join(FILE),
                device: folder.device,
            },
        })
    }

    fn device(path: &Path, writable: bool) -> Result<Self, LabError> {
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => LabError::Missing(path.to_owned()),
            _ => LabError::system(format!("open {}", path.display()), error),
        };
        let mut lock = OpenOptions::new().read(true).open(path).map_err(failed)?;
        let metadata = lock.metadata().map_err(failed)?;
        if !metadata.file_type().is_block_device() && !metadata.is_file() {
            return Err(LabError::BadRequest(format!(
                "{} is no block device",
                path.display()
            )));
        }
        let size = lock.seek(SeekFrom::End(0)).map_err(failed)?;
        let lock = TargetLock::take(lock, path)?;
        Ok(Self {
            writable,
            size: Some(Bytes(size)),
            locked: lock.locked,
            kind: WorkAreaKind::Device {
                path: path.to_owned(),
                number: metadata.rdev(),
                _lock: lock,
            },
        })
    }

    /// The file name for fio.
    pub(super) fn subject(&self) -> Subject<'_> {
        match &self.kind {
            WorkAreaKind::Directory { file, .. } | WorkAreaKind::RemoteLoad { file, .. } => {
                Subject::File(file)
            }
            WorkAreaKind::Device { path, .. } => Subject::File(path),
            WorkAreaKind::Uri(uri) => Subject::Uri(uri),
        }
    }

    /// The file or the device of this machine, for what looks at one.
    pub(super) fn file(&self) -> Option<&Path> {
        match &self.kind {
            WorkAreaKind::Directory { file, .. } => Some(file),
            WorkAreaKind::Device { path, .. } => Some(path),
            WorkAreaKind::Uri(_) | WorkAreaKind::RemoteLoad { .. } => None,
        }
    }

    /// Our directory on it.
    pub(super) fn scratch(&self) -> Option<&Scratch> {
        match &self.kind {
            WorkAreaKind::Directory { scratch, .. } => Some(scratch),
            WorkAreaKind::Device { .. }
            | WorkAreaKind::Uri(_)
            | WorkAreaKind::RemoteLoad { .. } => None,
        }
    }

    /// Whether the data has to be written by us before it is read.
    pub(super) const fn is_laid_out(&self) -> bool {
        self.writable
    }

    /// Whether two share a filesystem or a device.
    pub(super) fn shares(&self, other: &Self) -> bool {
        let number = |ground: &Self| match &ground.kind {
            WorkAreaKind::Directory { scratch, .. } => Some(scratch.identity.0),
            WorkAreaKind::Device { number, .. } => Some(*number),
            WorkAreaKind::RemoteLoad { device, .. } => Some(*device),
            WorkAreaKind::Uri(_) => None,
        };
        number(self).is_some_and(|found| Some(found) == number(other))
    }

    /// Where it is, without symbolic links.
    pub(super) fn place(&self) -> TargetPlace {
        match &self.kind {
            WorkAreaKind::Directory { scratch, .. } => {
                TargetPlace::Directory(scratch.directory.clone())
            }
            WorkAreaKind::Device { path, .. } => TargetPlace::Device(path.clone()),
            WorkAreaKind::Uri(uri) => TargetPlace::Uri(uri.clone()),
            WorkAreaKind::RemoteLoad { place, .. } => place.clone(),
        }
    }

    /// Removes what we made; what stays is named.
    pub(super) fn release(self) -> Result<(), String> {
        match self.kind {
            WorkAreaKind::Directory { scratch, .. } => scratch.remove(),
            WorkAreaKind::Device { .. }
            | WorkAreaKind::Uri(_)
            | WorkAreaKind::RemoteLoad { .. } => Ok(()),
        }
    }
}
