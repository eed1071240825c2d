//! The metadata of a group as they were, in a file: what `volume repair --restore` and LVM's `vgcfgrestore` read.
//!
//! # Invariants
//!
//! * A backup is durable before the change that it is for begins, and is never overwritten by another text.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use nodes::volume::format::VolumeGroup;

use crate::failure::Failure;

/// Most texts of one group and sequence number: two are there only after a restore.
const COPIES_MAX: u32 = 100;

/// Keeps `text`, that of `group`, in a file of `directory`; returns its path.
pub(super) fn write(
    directory: Option<&Path>,
    group: &VolumeGroup,
    text: &str,
) -> Result<PathBuf, Failure> {
    let directory = match directory {
        Some(directory) => directory.to_owned(),
        None => default_directory()?,
    };
    let written = write_in(&directory, group, text);
    written.map_err(|error| {
        let what = format!(
            "the metadata cannot be backed up in {}",
            directory.display()
        );
        let failure = Failure::because(format!("{what}; nothing was changed"), &error);
        failure.next("--backup chooses another directory")
    })
}

/// `outboard/volumes` below `XDG_DATA_HOME`.
fn default_directory() -> Result<PathBuf, Failure> {
    let absolute = |name: &str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let data = absolute("XDG_DATA_HOME");
    let data = data.or_else(|| absolute("HOME").map(|home| home.join(".local/share")));
    let data = data.ok_or_else(|| {
        let what = "there is no directory for backups: neither XDG_DATA_HOME nor HOME is set";
        Failure::new(what).next("name one with --backup")
    })?;
    Ok(data.join("outboard").join("volumes"))
}

fn write_in(directory: &Path, group: &VolumeGroup, text: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(directory)?;
    // Two groups may have one name: the id distinguishes them.
    let id = group.id.split('-').next().unwrap_or_default();
    let base = format!(
        "{}-{}-{:05}",
        file_name(&group.name),
        file_name(id),
        group.sequence
    );
    for copy in 0..COPIES_MAX {
        let name = match copy {
            0 => format!("{base}.vg"),
            copy => format!("{base}-{copy}.vg"),
        };
        let path = directory.join(name);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
                fs::File::open(directory)?.sync_all()?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if fs::read(&path)? == text.as_bytes() {
                    return Ok(path);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!(
        "{base} is there {COPIES_MAX} times"
    )))
}

/// A name without what a path would take for a directory: names on disks are of no use as they are.
fn file_name(name: &str) -> String {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    name.chars()
        .map(|c| if is_good(c) { c } else { '_' })
        .collect()
}
