//! A real source tree of this machine, copied onto a target: many small files with real sizes.
//!
//! Invariants: files are taken in the order of their names until a bound is reached, so the same
//! machine gives every target the same tree. Only regular files and directories are copied; links and
//! devices are not followed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::check_cancelled;
use super::{Tick, ToolError};
use crate::units::{Bytes, grouped};

/// Where trees of real files are, the first that is there is taken.
const KNOWN: [&str; 4] = [
    "/usr/src/linux",
    "/usr/include",
    "/usr/share/doc",
    "/usr/share",
];
/// A walk that goes deeper is cut off there.
const DEPTH_MAX: usize = 32;
/// The most files of a tree.
pub const FILES_MAX: usize = 100_000;

/// A file of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// Below the tree.
    pub path: PathBuf,
    /// Its size.
    pub bytes: Bytes,
}

/// What a tree has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Where it was copied from.
    pub source: PathBuf,
    /// Its files.
    pub files: u64,
    /// Of all files.
    pub bytes: Bytes,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            source,
            files,
            bytes,
        } = self;
        write!(
            f,
            "{}: {} files, {bytes} ({} bytes)",
            source.display(),
            grouped(*files as f64),
            bytes.0
        )
    }
}

/// The tree that is copied when the plan names none.
#[must_use]
pub fn known() -> Option<PathBuf> {
    let mut known = KNOWN.iter().map(PathBuf::from);
    known.find(|path| path.is_dir())
}

/// The files below `source`, ordered by name, as many as fit in `bytes_max` together.
///
/// # Errors
/// When `source` cannot be read; what cannot be read below it is left out.
pub(crate) fn walk(source: &Path, bytes_max: Bytes) -> io::Result<Vec<TreeEntry>> {
    fs::read_dir(source)?;
    let mut entries = Vec::new();
    let mut room = bytes_max.0;
    descend(source, Path::new(""), 0, &mut room, &mut entries);
    Ok(entries)
}

/// Whether there is room for more.
fn descend(
    root: &Path,
    below: &Path,
    depth: usize,
    room: &mut u64,
    entries: &mut Vec<TreeEntry>,
) -> bool {
    let Ok(found) = fs::read_dir(root.join(below)) else {
        return true;
    };
    let mut names: Vec<_> = found.flatten().collect();
    names.sort_by_key(fs::DirEntry::file_name);
    for entry in names {
        let path = below.join(entry.file_name());
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if metadata.is_dir() && depth < DEPTH_MAX {
            if !descend(root, &path, depth + 1, room, entries) {
                return false;
            }
        } else if metadata.is_file() {
            let bytes = metadata.len();
            if bytes > *room || entries.len() >= FILES_MAX {
                return false;
            }
            *room -= bytes;
            entries.push(TreeEntry {
                path,
                bytes: Bytes(bytes),
            });
        }
    }
    true
}

/// Copies at most `bytes_max` of `source` to `target`, which must not be there yet.
///
/// # Errors
/// [`ToolError`]; what was copied by then is left for the owner of the directory to remove.
pub fn copy(
    source: &Path,
    target: &Path,
    bytes_max: Bytes,
    tick: Tick<'_>,
) -> Result<Summary, ToolError> {
    let failed = |path: &Path, error| ToolError::system(format!("copy {}", path.display()), error);
    let entries = walk(source, bytes_max).map_err(|error| failed(source, error))?;
    let mut summary = Summary {
        source: source.to_owned(),
        files: 0,
        bytes: Bytes(0),
    };
    fs::create_dir(target).map_err(|error| failed(target, error))?;
    for entry in &entries {
        check_cancelled(tick)?;
        let (from, to) = (source.join(&entry.path), target.join(&entry.path));
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        }
        match fs::copy(&from, &to) {
            Ok(bytes) => {
                summary.files += 1;
                summary.bytes.0 += bytes;
            }
            // Other users may read less than root, the same on every target.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(failed(&from, error)),
        }
    }
    if summary.files == 0 {
        let source = source.display();
        let reason = format!("{source} has no files to make an archive of; give another tree");
        return Err(ToolError::NoSubject(reason));
    }
    Ok(summary)
}
