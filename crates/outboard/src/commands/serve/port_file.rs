//! `--port-file`: writes the port that was bound, for scripts.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

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
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{}", std::process::id()));
            let unfinished = folder.join(hidden);
            let mut file = std::fs::File::create(&unfinished)?;
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

impl Drop for PortFile {
    fn drop(&mut self) {
        self.remove();
    }
}
