//! The runtime directory: a folder for each attachment, with its record, its socket and its log.
//!
//! ```text
//! /run/outboard-attach/attach-1/   state.json   control.sock   log
//! /run/outboard-attach/by-name/    a link to the device for each attachment with a name
//! ```
//!
//! # Invariants
//!
//! * A folder is made by one process only (`mkdir` decides) and names the attachment.
//! * A record is replaced atomically (written to a temporary file, then renamed).
//! * Removing the last folder removes the runtime directory too.
//! * It belongs to the user that attaches, and no other user may write to it: root acts on what it reads there. So it is no
//!   directory of a service (systemd removes and chowns those), and one that another user owns is refused.
//! * Others may see that there are attachments, and nothing of them.

mod format;
mod names;
mod process;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

pub use format::{DeviceDriver, MountPlace, ProcessId};
pub(crate) use format::{Record, VERSION};
pub(crate) use process::{current_process, is_alive, kill};

/// Where attachments of root are written down.
const ROOT_DIR: &str = "/run/outboard-attach";
/// Where an earlier version kept them, next to the sockets of root's servers.
const OLD_ROOT_DIR: &str = "/run/outboard";

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
    /// Another user could change what is written there.
    #[error(
        "{path}: it belongs to another user, or others may write to it; attachments are not written down there. \
         Remove it, or set {RUNTIME_DIR_VARIABLE} to a directory of your own"
    )]
    Foreign {
        /// Which.
        path: PathBuf,
    },
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
    /// Whether another user's file is in the way.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }

    fn io<'a>(path: &'a Path, what: &'static str) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::Io {
            path: path.to_owned(),
            what,
            source,
        }
    }
}

/// The runtime directory of this user's servers, which need not exist; `None` if there is none to use.
#[must_use]
pub fn runtime_dir() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(dir) = variable(RUNTIME_DIR_VARIABLE) {
        return Some(dir.into());
    }
    if rustix::process::geteuid().is_root() {
        return Some(OLD_ROOT_DIR.into());
    }
    variable("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("outboard"))
}

/// The directory with this user's attachments, which need not exist; `None` if there is none to use.
#[must_use]
pub fn attach_dir() -> Option<PathBuf> {
    let is_chosen = std::env::var_os(RUNTIME_DIR_VARIABLE).is_some_and(|dir| !dir.is_empty());
    match rustix::process::geteuid().is_root() && !is_chosen {
        true => Some(ROOT_DIR.into()),
        false => runtime_dir(),
    }
}

/// Where attachments are written down.
#[derive(Debug, Clone)]
pub(crate) struct RuntimeDir {
    path: PathBuf,
    /// Where an earlier version wrote them down.
    old: Option<PathBuf>,
}

impl RuntimeDir {
    /// The directory of this user, which need not exist.
    ///
    /// # Errors
    /// [`StateError::NoDirectory`].
    pub(crate) fn of_user() -> Result<Self, StateError> {
        let path = attach_dir().ok_or(StateError::NoDirectory)?;
        let old = (path == Path::new(ROOT_DIR)).then(|| OLD_ROOT_DIR.into());
        Ok(Self { path, old })
    }

    /// The directory of root's attachments.
    pub(crate) fn of_root() -> Self {
        Self {
            path: ROOT_DIR.into(),
            old: None,
        }
    }

    #[cfg(test)]
    pub(crate) const fn at(path: PathBuf) -> Self {
        Self { path, old: None }
    }

    #[cfg(test)]
    pub(crate) fn with_old(self, old: PathBuf) -> Self {
        let old = Some(old);
        Self { old, ..self }
    }

    /// Makes the folder of a new attachment.
    ///
    /// # Errors
    /// [`StateError`].
    pub(crate) fn create(&self) -> Result<Folder, StateError> {
        let mut builder = fs::DirBuilder::new();
        builder
            .mode(0o755)
            .recursive(true)
            .create(&self.path)
            .map_err(StateError::io(&self.path, "create"))?;
        if !is_own(&self.path).map_err(StateError::io(&self.path, "examine"))? {
            let path = self.path.clone();
            return Err(StateError::Foreign { path });
        }
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700);
        for number in 1..=ATTACHMENTS_MAX {
            let path = self.path.join(format!("{PREFIX}{number}"));
            match builder.create(&path) {
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
        let mut folders = folders_in(&self.path)?;
        if let Some(old) = &self.old
            && is_own(old).unwrap_or(false)
        {
            folders.extend(folders_in(old)?);
        }
        Ok(folders)
    }
}

/// Whether the directory is this user's, and no other user may write to it.
fn is_own(dir: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let found = fs::symlink_metadata(dir)?;
    let is_writable_by_others = found.mode() & 0o022 != 0;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    Ok(found.is_dir() && is_ours && !is_writable_by_others)
}

/// The folders in a runtime directory, by number.
fn folders_in(dir: &Path) -> Result<Vec<Folder>, StateError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StateError::io(dir, "list")(e)),
    };
    let mut numbered = Vec::new();
    for entry in entries {
        let entry = entry.map_err(StateError::io(dir, "list"))?;
        let folder = Folder { path: entry.path() };
        if let Some(number) = folder.number() {
            numbered.push((number, folder));
        }
    }
    numbered.sort_by_key(|(number, _)| *number);
    Ok(numbered.into_iter().map(|(_, folder)| folder).collect())
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

    /// The number of the attachment.
    pub(crate) fn number(&self) -> Option<u32> {
        self.id().parse().ok()
    }

    /// The record.
    fn record_path(&self) -> PathBuf {
        self.path.join("state.json")
    }

    /// The socket its process listens on.
    pub(crate) fn socket_path(&self) -> PathBuf {
        self.path.join("control.sock")
    }

    /// The log of its process.
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
