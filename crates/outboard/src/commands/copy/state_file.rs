//! [`StateFile`]: keeps how far a copy is durable at its target.
//!
//! The bytes are in `docs/formats/copy-state.md`.
//!
//! # Invariants
//!
//! * The file is replaced atomically and durably: after a loss of power there is the old or the new state, or none.
//! * The position in it never falls while a copy runs, and nothing is written after [`StateFile::remove`].
//! * Before the first state of a target that is a file, that file with its name and size is durable.
//!
//! # What it does not do
//!
//! It flushes no disk: a position is written when all below it is durable.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::Identity;
use engine::whole_file;
use serde::{Deserialize, Serialize};

use super::target::sync_folder;

/// Before the version, in the first line.
const MAGIC: &str = "outboard-copy ";
const VERSION: &str = "1";
/// Largest state, bytes.
const STATE_MAX: u64 = 1 << 20;
/// Of a new state, before the umask.
const MODE: u32 = 0o666;

/// Which copy it is, and how far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CopyState {
    /// Identity of the source, or how it is written where it has none.
    pub(super) source: String,
    pub(super) source_size: u64,
    /// When the source's files were modified.
    pub(super) modified: String,
    /// As of the source.
    pub(super) target: String,
    pub(super) target_size: u64,
    /// All below is durable at the target.
    pub(super) position: u64,
}

/// Why bytes are no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum StateError {
    #[error("is not the state of a copy")]
    Other,
    #[error("has version {0}, and only {VERSION} is known here")]
    Version(String),
    #[error("is damaged")]
    Damaged,
}

impl CopyState {
    pub(super) fn encode(&self) -> String {
        let json = serde_json::to_string(self).expect("numbers and strings are JSON");
        format!("{MAGIC}{VERSION}\n{json}\n{}\n", digest(&json))
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, StateError> {
        let text = std::str::from_utf8(bytes).map_err(|_| StateError::Other)?;
        let text = text.strip_prefix(MAGIC).ok_or(StateError::Other)?;
        let (version, rest) = text.split_once('\n').ok_or(StateError::Damaged)?;
        if version != VERSION {
            return Err(StateError::Version(version.escape_debug().to_string()));
        }
        let (json, sum) = rest.split_once('\n').ok_or(StateError::Damaged)?;
        let state = serde_json::from_slice(json.as_bytes()).map_err(|_| StateError::Damaged)?;
        if sum != format!("{}\n", digest(json)) {
            return Err(StateError::Damaged);
        }
        Ok(state)
    }
}

fn digest(json: &str) -> Identity {
    Identity::of("digest", &[json.as_bytes()])
}

/// The file of one copy.
#[derive(Debug, Clone)]
pub(super) struct StateFile {
    path: Arc<Path>,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// In the file.
    position: Option<u64>,
    /// The target, until it is durable.
    made: Option<(File, PathBuf)>,
    is_removed: bool,
    has_warned: bool,
}

impl StateFile {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.into(),
            shared: Arc::default(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it; `None` where there is none.
    pub(super) fn read(&self) -> io::Result<Option<Result<CopyState, StateError>>> {
        let found = match std::fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        // A pipe would wait for its writer.
        if !found.is_file() {
            return Ok(Some(Err(StateError::Other)));
        }
        let mut bytes = Vec::new();
        let mut options = OpenOptions::new();
        let file = options.read(true).open(&self.path)?;
        file.take(STATE_MAX).read_to_end(&mut bytes)?;
        let state = CopyState::decode(&bytes);
        self.shared().position = state.as_ref().ok().map(|state| state.position);
        Ok(Some(state))
    }

    /// The position in the file, if a state was read or written.
    pub(super) fn position(&self) -> Option<u64> {
        self.shared().position
    }

    /// The target is this file, which was made or emptied, or may have been before the last interruption.
    pub(super) fn set_made(&self, file: File, path: &Path) {
        self.shared().made = Some((file, path.to_owned()));
    }

    /// Checks that the file can be made.
    pub(super) fn probe(&self) -> io::Result<()> {
        drop(whole_file::create(&whole_file::new_path(&self.path), MODE)?);
        std::fs::remove_file(whole_file::new_path(&self.path))
    }

    /// Writes a state, unless the file has a later position. A state that cannot be written leaves the one before.
    ///
    /// # Errors
    /// That the target cannot be made durable.
    pub(super) fn record(&self, state: &CopyState) -> io::Result<()> {
        let mut shared = self.shared();
        if shared.is_removed || shared.position >= Some(state.position) {
            return Ok(());
        }
        if let Some((file, path)) = shared.made.take() {
            file.sync_all()?;
            sync_folder(&path);
        }
        match self.replace(state) {
            Ok(()) => shared.position = Some(state.position),
            Err(error) if !std::mem::replace(&mut shared.has_warned, true) => {
                let path = self.path.display();
                tracing::warn!("this copy cannot be resumed later: cannot write {path}: {error}");
            }
            Err(_) => {}
        }
        Ok(())
    }

    /// Writes the first state of a copy.
    pub(super) fn write_first(&self, state: &CopyState) -> io::Result<()> {
        self.replace(state)?;
        self.shared().position = Some(state.position);
        Ok(())
    }

    /// Removes it, so that it stays removed. No state is written any more.
    pub(super) fn remove(&self) -> io::Result<()> {
        self.shared().is_removed = true;
        self.remove_found()
    }

    /// Removes that of an earlier copy, so that it stays removed.
    pub(super) fn remove_found(&self) -> io::Result<()> {
        let mut shared = self.shared();
        shared.position = None;
        for path in [whole_file::new_path(&self.path), self.path.to_path_buf()] {
            // A name that is too long, or a read-only folder, has no state.
            if path.symlink_metadata().is_ok() {
                std::fs::remove_file(path)?;
                sync_folder(&self.path);
            }
        }
        Ok(())
    }

    fn replace(&self, state: &CopyState) -> io::Result<()> {
        let text = state.encode();
        whole_file::replace(
            &self.path,
            &whole_file::new_path(&self.path),
            text.as_bytes(),
            MODE,
        )?;
        sync_folder(&self.path);
        Ok(())
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        // Each field is right by itself.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(position: u64) -> CopyState {
        CopyState {
            source: "file:00".to_owned(),
            source_size: 1 << 40,
            modified: "1.000000000".to_owned(),
            target: "nbd://host/\"é\n".to_owned(),
            target_size: 1 << 41,
            position,
        }
    }

    fn file() -> (tempfile::TempDir, StateFile) {
        let folder = tempfile::tempdir().unwrap();
        let file = StateFile::new(&folder.path().join("state"));
        (folder, file)
    }

    #[test]
    fn a_state_is_read_as_it_was_written_and_with_any_other_byte_it_is_refused() {
        let text = state(77).encode();
        assert_eq!(CopyState::decode(text.as_bytes()), Ok(state(77)));
        for at in 0..text.len() {
            for change in [1, 0x20, 0x80] {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= change;
                assert!(CopyState::decode(&bytes).is_err(), "byte {at}");
            }
            assert!(
                CopyState::decode(&text.as_bytes()[..at]).is_err(),
                "{at} bytes"
            );
        }
        assert!(CopyState::decode(format!("{text}\n").as_bytes()).is_err());
    }

    #[test]
    fn the_position_in_the_file_does_not_fall() {
        let (_folder, file) = file();
        for (position, expected) in [(5, 5), (3, 5), (9, 9)] {
            file.record(&state(position)).unwrap();
            assert_eq!(file.position(), Some(expected));
            assert_eq!(file.read().unwrap(), Some(Ok(state(expected))));
        }
    }

    /// A record that was on its way when the copy came to its end left a state of a complete copy.
    #[test]
    fn nothing_is_written_after_the_removal() {
        let (folder, file) = file();
        file.record(&state(5)).unwrap();
        file.remove().unwrap();
        file.record(&state(6)).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_state_that_cannot_be_written_ends_no_copy_and_cannot_be_continued() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["no/state".to_owned(), "n".repeat(255)] {
            let file = StateFile::new(&folder.path().join(name));
            file.remove_found().unwrap();
            file.record(&state(5)).unwrap();
            assert_eq!(file.position(), None);
        }
    }

    #[test]
    fn a_symbolic_link_at_the_new_state_is_not_followed() {
        let (folder, file) = file();
        let victim = folder.path().join("victim");
        std::fs::write(&victim, "kept").unwrap();
        std::os::unix::fs::symlink(&victim, folder.path().join("state.new")).unwrap();
        file.probe().unwrap();
        std::os::unix::fs::symlink(&victim, folder.path().join("state.new")).unwrap();
        file.record(&state(5)).unwrap();
        assert_eq!(std::fs::read_to_string(victim).unwrap(), "kept");
        assert_eq!(file.position(), Some(5));
    }
}
