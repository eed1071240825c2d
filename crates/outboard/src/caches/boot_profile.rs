//! The file of a boot profile: what it names is read ahead; where it does not exist it is recorded.
//!
//! # Invariants
//!
//! * What is no profile is refused before the cache file is opened, and not changed.
//! * What was read in [`RECORDING`] after the cache was opened is written once, whole, at the end of that time or when the
//!   cache is closed before. A file that has appeared meanwhile stays as it is.
//!
//! # What it does not do
//!
//! A recording is lost when its process is killed: the next one begins at the next open.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::{clock, whole_file};
use nodes::{BootProfile, BootProfileError, Cache};

/// How long a machine is taken to start.
const RECORDING: Duration = Duration::from_secs(120);
/// More than the longest recording takes.
const FILE_MAX: u64 = 4 << 20;
/// A new file is the user's.
const MODE: u32 = 0o644;

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProfileError {
    /// It cannot be read.
    #[error("the boot profile {} cannot be read: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is something else.
    #[error("the boot profile {} is refused, and was not changed: {source}", path.display())]
    Format {
        /// Which.
        path: PathBuf,
        /// Why.
        source: BootProfileError,
    },
    /// There is no folder for a new one.
    #[error("the boot profile {} cannot be made: there is no such folder", .0.display())]
    NoFolder(PathBuf),
}

/// What becomes of a profile's file.
#[derive(Debug)]
pub(crate) enum BootProfileUse {
    /// It does not exist.
    Record(PathBuf),
    /// It names these parts.
    Prefetch(BootProfile),
}

impl BootProfileUse {
    /// Reads the profile at `path`, if there is one.
    pub(crate) fn of(path: &Path) -> Result<Self, ProfileError> {
        let failed = |source| ProfileError::Read {
            path: path.to_owned(),
            source,
        };
        let refused = |source| ProfileError::Format {
            path: path.to_owned(),
            source,
        };
        let about = match path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let path = std::path::absolute(path).map_err(failed)?;
                return match path.parent().is_some_and(Path::is_dir) {
                    true => Ok(Self::Record(path)),
                    false => Err(ProfileError::NoFolder(path)),
                };
            }
            about => about.map_err(failed)?,
        };
        if !about.is_file() {
            return Err(refused(BootProfileError::NoProfile));
        }
        if about.len() > FILE_MAX {
            return Err(refused(BootProfileError::TooLong));
        }
        let bytes = std::fs::read(path).map_err(failed)?;
        let text = str::from_utf8(&bytes).map_err(|_| refused(BootProfileError::NoProfile))?;
        BootProfile::parse(text)
            .map(Self::Prefetch)
            .map_err(refused)
    }

    /// Records what a cache that was opened just now reads, or reads ahead; where a recording will be written. On the engine.
    pub(super) fn begin(self, cache: &Arc<Cache>) -> Option<PathBuf> {
        let path = match self {
            Self::Prefetch(profile) => {
                drop(engine::spawn(cache.prefetch(&profile)));
                return None;
            }
            Self::Record(path) => path,
        };
        cache.record_reads();
        let cache = Arc::downgrade(cache);
        drop(engine::spawn(async move {
            clock::sleep(RECORDING).await;
            if let Some(cache) = cache.upgrade() {
                end(&cache).await;
            }
        }));
        Some(path)
    }
}

/// Ends the recording of a cache, if there is one, and writes it.
pub(super) async fn end(cache: &Arc<Cache>) {
    let (Some(path), Some(profile)) = (super::take_recording(cache), cache.recorded()) else {
        return;
    };
    if !profile.is_empty() {
        // The disk of an attachment, on which the file may be, is served by this core.
        engine::blocking(move || write(&path, &profile)).await;
    }
}

/// Writes a profile. Blocks.
fn write(path: &Path, profile: &BootProfile) {
    if path.exists() {
        return;
    }
    let new = whole_file::new_path(path);
    match whole_file::replace(path, &new, profile.to_text().as_bytes(), MODE) {
        Ok(()) => tracing::info!("the boot profile {} was recorded", path.display()),
        Err(error) => tracing::warn!(
            "the boot profile {} was not written: {error}",
            path.display()
        ),
    }
}
