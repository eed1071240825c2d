//! `--port-file`: writes the port that was bound, for scripts.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Most names that are tried for the unfinished file.
const NAMES_MAX: u32 = 100;

/// A written port file; removed when this is dropped.
#[derive(Debug)]
pub(crate) struct PortFile(PathBuf);

impl PortFile {
    /// Writes `port`, so that a reader finds the whole number or no file.
    pub(crate) fn write(path: &Path, port: u16) -> Result<Self, Failure> {
        let written = || -> io::Result<()> {
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
            let (unfinished, mut file) = create_unfinished(folder, name)?;
            let moved = writeln!(file, "{port}").and_then(|()| std::fs::rename(&unfinished, path));
            if moved.is_err() {
                drop(std::fs::remove_file(&unfinished));
            }
            moved
        };
        let what = format!("cannot write the port file {}", path.display());
        written().map_err(|error| Failure::because(what, &error))?;
        Ok(Self(path.to_owned()))
    }

    /// Removes it.
    pub(crate) fn remove(&self) {
        // Another process may have removed it already.
        drop(std::fs::remove_file(&self.0));
    }
}

/// A new file in `folder` that becomes `name`. Any user may put a symbolic link at a name that can be guessed, and in a
/// folder like /tmp the server of root would write where it leads: what exists is never opened.
fn create_unfinished(folder: &Path, name: &OsStr) -> io::Result<(PathBuf, File)> {
    let process = std::process::id();
    for number in 0..NAMES_MAX {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{process}.{number}"));
        let path = folder.join(hidden);
        match File::create_new(&path) {
            Ok(file) => return Ok((path, file)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

impl Drop for PortFile {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file was opened where it existed: through a symbolic link at the name that a process of a known id would
    /// take, another user chose which file the server of root truncated.
    #[test]
    fn a_symbolic_link_at_the_unfinished_file_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        std::fs::write(&victim, "kept").unwrap();
        let process = std::process::id();
        for guess in [format!(".port.{process}"), format!(".port.{process}.0")] {
            std::os::unix::fs::symlink(&victim, folder.path().join(guess)).unwrap();
        }
        let path = folder.path().join("port");
        let written = PortFile::write(&path, 10_809).unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "10809\n");
        assert!(!path.symlink_metadata().unwrap().is_symlink());
        drop(written);
        assert!(!path.exists());
    }

    /// So does one at the file itself: the rename puts another file in its place.
    #[test]
    fn a_symbolic_link_at_the_port_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        std::fs::write(&victim, "kept").unwrap();
        let path = folder.path().join("port");
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        let _written = PortFile::write(&path, 10_809).unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "10809\n");
    }
}
