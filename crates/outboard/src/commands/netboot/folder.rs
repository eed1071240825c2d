//! [`NetbootFolder`]: the folder as it is on the disk.
//!
//! # Invariants
//!
//! * A text file that differs from what was last written here is never written again: `FOLDER/.written` has a copy of each.
//! * A file that a client may be fetching is replaced by a rename, whole, and readable by the user that dnsmasq runs as.
//! * One process at a time serves a folder ([`NetbootFolder::lock`]); the lock ends with it.
//!
//! What it does not do: it removes nothing.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::failure::Failure;

/// Folders in each other on a card.
const DEPTH_MAX: usize = 8;
/// Permissions of what dnsmasq reads.
const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;
const WRITTEN: &str = ".written";
/// What clients fetch.
pub(super) const TFTP: &str = "tftp";

/// What became of a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextOutcome {
    Written,
    Unchanged,
    /// It has other content than what was last written: it stays.
    Edited,
}

/// An existing folder.
#[derive(Debug)]
pub(super) struct NetbootFolder {
    path: PathBuf,
}

impl NetbootFolder {
    /// Creates what is missing.
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        for folder in [
            path.to_owned(),
            path.join(TFTP),
            path.join(WRITTEN).join(TFTP),
        ] {
            create_folder(&folder).map_err(|error| cannot("create", &folder, &error))?;
        }
        let path = path.to_owned();
        Ok(Self { path })
    }

    /// Takes the folder for this process, until the file is closed.
    pub(super) fn lock(&self) -> Result<File, Failure> {
        let path = self.path.join(WRITTEN).join("lock");
        let file = File::create(&path).map_err(|error| cannot("create", &path, &error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(file),
            Err(Errno::WOULDBLOCK) => {
                let what = format!("{} is served already", self.path.display());
                Err(Failure::new(what).next("end that `outboard netboot`, or pass --write-only"))
            }
            Err(error) => Err(cannot("lock", &path, &error.into())),
        }
    }

    /// Writes a text file, unless it was edited.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<TextOutcome, Failure> {
        let (path, copy) = (self.path.join(name), self.path.join(WRITTEN).join(name));
        let read = |path: &Path| match fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(cannot("read", path, &error)),
        };
        let (present, before) = (read(&path)?, read(&copy)?);
        let outcome = match present {
            Some(present) if present == text.as_bytes() => TextOutcome::Unchanged,
            Some(present) if before != Some(present.clone()) => return Ok(TextOutcome::Edited),
            _ => TextOutcome::Written,
        };
        let work = self.work()?;
        // The copy is last: after a crash between both the file has this text, and is not taken for an edited one.
        for target in [&path, &copy] {
            let part = work.path().join("part");
            let written = fs::write(&part, text).and_then(|()| replace(&part, target));
            written.map_err(|error| cannot("write", target, &error))?;
        }
        Ok(outcome)
    }

    /// A folder on the same filesystem, for files that are made in steps.
    pub(super) fn work(&self) -> Result<TempDir, Failure> {
        let made = tempfile::tempdir_in(self.path.join(WRITTEN));
        made.map_err(|error| cannot("write into", &self.path, &error))
    }

    /// Has clients fetch `name` of a [work](Self::work) folder.
    pub(super) fn publish(&self, work: &TempDir, name: &str) -> Result<(), Failure> {
        let target = self.path.join(TFTP).join(name);
        let replaced = replace(&work.path().join(name), &target);
        replaced.map_err(|error| cannot("write", &target, &error))
    }

    /// Copies the files of a card's boot partition that are new, but for those in `left_out`.
    pub(super) fn publish_card(&self, card: &Path, left_out: &[&str]) -> Result<(), Failure> {
        let work = self.work()?;
        let part = work.path().join("part");
        let mut folders = vec![(card.to_owned(), self.path.join(TFTP), 0)];
        while let Some((from, to, depth)) = folders.pop() {
            let copied = copy_folder(&from, &to, &part, |name| {
                depth == 0 && left_out.contains(&name)
            });
            let below = copied.map_err(|error| cannot("copy", &from, &error))?;
            if depth < DEPTH_MAX {
                folders.extend(below.into_iter().map(|(from, to)| (from, to, depth + 1)));
            }
        }
        Ok(())
    }
}

/// Copies the files of one folder, by way of `part`; returns the folders in it, and where they belong.
fn copy_folder(
    from: &Path,
    to: &Path,
    part: &Path,
    is_left_out: impl Fn(&str) -> bool,
) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    create_folder(to)?;
    let mut below = Vec::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            below.push((path, target));
        } else if metadata.is_file() && !entry.file_name().to_str().is_some_and(&is_left_out) {
            let is_same = fs::metadata(&target).is_ok_and(|present| {
                let modified = (present.modified().ok(), metadata.modified().ok());
                present.len() == metadata.len() && modified.0 >= modified.1
            });
            if !is_same {
                fs::copy(&path, part)?;
                replace(part, &target)?;
            }
        }
    }
    Ok(below)
}

fn create_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE))
}

fn replace(part: &Path, target: &Path) -> io::Result<()> {
    fs::set_permissions(part, Permissions::from_mode(FILE_MODE))?;
    fs::rename(part, target)
}

fn cannot(verb: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::because(format!("cannot {verb} {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edited_file_stays_and_a_deleted_one_is_written_again() {
        let place = tempfile::tempdir().unwrap();
        let folder = NetbootFolder::create(&place.path().join("new")).unwrap();
        let path = place.path().join("new/a.conf");
        assert_eq!(folder.write("a.conf", "one\n"), Ok(TextOutcome::Written));
        assert_eq!(folder.write("a.conf", "one\n"), Ok(TextOutcome::Unchanged));
        assert_eq!(folder.write("a.conf", "two\n"), Ok(TextOutcome::Written));
        fs::write(&path, "mine\n").unwrap();
        assert_eq!(folder.write("a.conf", "two\n"), Ok(TextOutcome::Edited));
        assert_eq!(folder.write("a.conf", "three\n"), Ok(TextOutcome::Edited));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine\n");
        fs::remove_file(&path).unwrap();
        assert_eq!(folder.write("a.conf", "three\n"), Ok(TextOutcome::Written));
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
    }

    #[test]
    fn a_file_of_others_stays() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("a.conf"), "theirs\n").unwrap();
        let folder = NetbootFolder::create(place.path()).unwrap();
        assert_eq!(folder.write("a.conf", "one\n"), Ok(TextOutcome::Edited));
    }

    #[test]
    fn one_process_serves_a_folder() {
        let place = tempfile::tempdir().unwrap();
        let folder = NetbootFolder::create(place.path()).unwrap();
        let lock = folder.lock().unwrap();
        let refused = folder.lock().unwrap_err().line();
        assert!(refused.contains("is served already"), "{refused}");
        drop(lock);
        folder.lock().unwrap();
    }

    #[test]
    fn a_card_is_copied_with_its_folders_and_readable_by_all() {
        let place = tempfile::tempdir().unwrap();
        let card = place.path().join("card");
        fs::create_dir_all(card.join("overlays")).unwrap();
        for name in ["start4.elf", "cmdline.txt", "overlays/cmdline.txt"] {
            fs::write(card.join(name), name).unwrap();
            fs::set_permissions(card.join(name), Permissions::from_mode(0o600)).unwrap();
        }
        let folder = NetbootFolder::create(&place.path().join("new")).unwrap();
        let tftp = place.path().join("new/tftp");
        folder.publish_card(&card, &["cmdline.txt"]).unwrap();
        assert!(!tftp.join("cmdline.txt").exists());
        let copied = fs::read_to_string(tftp.join("overlays/cmdline.txt")).unwrap();
        assert_eq!(copied, "overlays/cmdline.txt");
        let mode = fs::metadata(tftp.join("start4.elf")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, FILE_MODE);
        // A newer file of the same length replaces it.
        fs::write(card.join("start4.elf"), "START4.ELF").unwrap();
        folder.publish_card(&card, &["cmdline.txt"]).unwrap();
        let copied = fs::read_to_string(tftp.join("start4.elf")).unwrap();
        assert_eq!(copied, "START4.ELF");
    }
}
