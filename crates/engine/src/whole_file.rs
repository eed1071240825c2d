//! Small files that are replaced whole: a reader finds the old or the new one, also after a power cut.
//!
//! # Invariants
//!
//! * What a crash left at the name of the new file is removed and not opened: where it is a symbolic link, another user
//!   chose where it leads.
//!
//! # What it does not do
//!
//! It does not sync the folder, which the new file's place in it takes to be durable: callers differ in what they do
//! where a filesystem cannot.
#![expect(clippy::disallowed_types, reason = "these files are no disks")]

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Where the new file lies until it takes the place of the one at `path`.
#[must_use]
pub fn new_path(path: &Path) -> PathBuf {
    path.with_added_extension("new")
}

/// Creates the file at `path`, in the place of one that a crash left there.
///
/// # Errors
/// As the system calls have them.
pub fn create(path: &Path, mode: u32) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode).open(path)
}

/// Replaces the file at `path` by one of `bytes`, which is synced at `new` before.
///
/// # Errors
/// As the system calls have them; the file at `path` is the old one then.
pub fn replace(path: &Path, new: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = create(new, mode)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(new, path)
}
