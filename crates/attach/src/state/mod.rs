//! The runtime directory: a folder for each attachment, with its record, its socket and its log.
//!
//! ```text
//! /run/outboard/attach-1/   state.json   control.sock   log
//! /run/outboard/by-name/    a link to the device for each attachment with a name
//! ```
//!
//! # Invariants
//!
//! * A folder is made by one process only (`mkdir` decides) and names the attachment.
//! * A record is replaced whole (written beside, then renamed).
//! * Removing the last folder removes the runtime directory too.

mod format;
mod names;
mod process;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

pub use format::{MountPlace, ProcessId, Way};
pub(crate) use format::{Record, VERSION};
pub(crate) use process::{kill, lives, this};

/// Names the runtime directory, for tests and for several instances on one machine.
pub const RUNTIME_DIR_VARIABLE: &str = "OUTBOARD_RUNTIME_DIR";
/// Attachments on one machine.
const ATTACHMENTS_MAX: u32 = 4096;
const PREFIX: &str = "attach-";

/// What went wrong with the runtime directory.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A file or folder could not be used.
    #[error("{path}: {what}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// There is no directory to use.
    #[error(
        "no runtime directory: XDG_RUNTIME_DIR is not set; set {RUNTIME_DIR_VARIABLE} to a directory of your own"
    )]
    NoDirectory,
    /// Another attachment has the name.
    #[error(
        "the name {name} is taken; `outboard status` lists what is attached, give another --name"
    )]
    NameTaken {
        /// Which.
        name: String,
    },
    /// Too many attachments.
    #[error("there are {ATTACHMENTS_MAX} attachments already; detach some")]
    Full,
    /// A record makes no sense.
    #[error("{path}: the record of an attachment cannot be used: {why}")]
    Record {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl StateError {
    fn io<'a>(path: &'a Path, what: &'static str) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::Io {
            path: path.to_owned(),
            what,
            source,
        }
    }
}

/// The runtime directory of this user, which need not exist; `None` if there is none to use.
#[must_use]
pub fn runtime_dir() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(dir) = variable(RUNTIME_DIR_VARIABLE) {
        return Some(dir.into());
    }
    if rustix::process::geteuid().is_root() {
        return Some("/run/outboard".into());
    }
    variable("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("outboard"))
}

/// Where attachments are written down.
#[derive(Debug, Clone)]
pub(crate) struct RuntimeDir(PathBuf);

impl RuntimeDir {
    /// The directory of this user, which need not exist.
    ///
    /// # Errors
    /// [`StateError::NoDirectory`].
    pub(crate) fn of_user() -> Result<Self, StateError> {
        runtime_dir().map(Self).ok_or(StateError::NoDirectory)
    }

    #[cfg(test)]
    pub(crate) const fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Makes the folder of a new attachment.
    ///
    /// # Errors
    /// [`StateError`].
    pub(crate) fn create(&self) -> Result<Folder, StateError> {
        let private = |recursive| {
            let mut builder = fs::DirBuilder::new();
            builder.mode(0o700).recursive(recursive);
            builder
        };
        private(true)
            .create(&self.0)
            .map_err(StateError::io(&self.0, "create"))?;
        for number in 1..=ATTACHMENTS_MAX {
            let path = self.0.join(format!("{PREFIX}{number}"));
            match private(false).create(&path) {
                Ok(()) => return Ok(Folder { path }),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(StateError::io(&path, "create")(e)),
            }
        }
        Err(StateError::Full)
    }

    /// The folders there are, by number.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub(crate) fn list(&self) -> Result<Vec<Folder>, StateError> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(StateError::io(&self.0, "list")(e)),
        };
        let mut numbered = Vec::new();
        for entry in entries {
            let entry = entry.map_err(StateError::io(&self.0, "list"))?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|n| n.strip_prefix(PREFIX));
            if let Some(number) = number.and_then(|n| n.parse::<u32>().ok()) {
                numbered.push((number, Folder { path: entry.path() }));
            }
        }
        numbered.sort_by_key(|(number, _)| *number);
        Ok(numbered.into_iter().map(|(_, folder)| folder).collect())
    }
}

/// The folder of one attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder at `path`, made before by [`RuntimeDir::create`].
    pub(crate) const fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The attachment's short name.
    pub(crate) fn id(&self) -> &str {
        let name = self.path.file_name().and_then(|n| n.to_str());
        name.and_then(|n| n.strip_prefix(PREFIX)).unwrap_or("")
    }

    /// The record.
    fn record_path(&self) -> PathBuf {
        self.path.join("state.json")
    }

    /// The socket its process listens on.
    pub(crate) fn socket_path(&self) -> PathBuf {
        self.path.join("control.sock")
    }

    /// What its process said.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Writes the record.
    ///
    /// # Errors
    /// [`StateError`].
    pub(crate) fn write(&self, record: &Record) -> Result<(), StateError> {
        let path = self.record_path();
        let bytes = format::encode(record).map_err(|e| StateError::Record {
            path: path.clone(),
            why: e.to_string(),
        })?;
        let beside = self.path.join("state.json.new");
        fs::File::create(&beside)
            .and_then(|mut file| file.write_all(&bytes))
            .and_then(|()| fs::rename(&beside, &path))
            .map_err(StateError::io(&path, "write"))
    }

    /// Reads the record; `None` where none was written yet.
    ///
    /// # Errors
    /// [`StateError`].
    pub(crate) fn read(&self) -> Result<Option<Record>, StateError> {
        let path = self.record_path();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(StateError::io(&path, "read")(e)),
        };
        match format::decode(&bytes) {
            Ok(record) => Ok(Some(record)),
            Err(e) => Err(StateError::Record {
                path,
                why: e.to_string(),
            }),
        }
    }

    /// Removes the folder with all that an attachment puts there, and the runtime directory if that
    /// was its last one. What is gone already is no failure.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub(crate) fn remove(&self) -> Result<(), StateError> {
        let files = [
            self.record_path(),
            self.path.join("state.json.new"),
            self.socket_path(),
            self.log_path(),
        ];
        for file in files {
            gone(fs::remove_file(&file)).map_err(StateError::io(&file, "remove"))?;
        }
        gone(fs::remove_dir(&self.path)).map_err(StateError::io(&self.path, "remove"))?;
        if let Some(parent) = self.path.parent() {
            // It stays where something else lies in it.
            drop(fs::remove_dir(parent));
        }
        Ok(())
    }
}

fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
