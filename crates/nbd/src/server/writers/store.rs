//! The record of the last writer as a file. Blocks; called on a thread that may.
//!
//! Invariants: at every moment the path has the old record or the new one, whole; when [`save`] returns,
//! the new one survives a power cut.

#![expect(clippy::disallowed_types, reason = "a record of writers is no disk")]

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::path::Path;

use engine::whole_file;

use super::record::{RECORD_MAX, Record};

/// The record; `None`: no client has written yet.
pub(super) fn load(path: &Path) -> Result<Option<Record>, String> {
    let said = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let file = match OpenOptions::new().read(true).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(said(&e)),
    };
    let mut bytes = Vec::new();
    let read = file.take(RECORD_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|e| said(&e))?;
    if bytes.len() as u64 > RECORD_MAX {
        return Err(said(&"it is too long to be one"));
    }
    Record::decode(&bytes).map(Some).map_err(|why| said(&why))
}

/// Replaces what is recorded.
pub(super) fn save(path: &Path, record: &Record) -> Result<(), String> {
    write(path, record.encode().as_bytes()).map_err(|e| format!("{}: {e}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // The image's lock keeps other servers away.
    whole_file::replace(path, &whole_file::new_path(path), bytes, 0o600)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    OpenOptions::new().read(true).open(folder)?.sync_all()
}
