//! [`OverlayFolder`]: the files of an export's overlays. Everything here may block.
//!
//! ```text
//! DIR/export-root/4c1de20b93a5f177/addr-10.0.0.1.json   its client, and its image
//!        │               │         addr-10.0.0.1.cow    what differs from that image
//!        export          number of the image
//! ```
//!
//! # Invariants
//!
//! * The record is there before the overlay is, and goes after it: an overlay without a record is
//!   nothing that this program made, and is refused. Before a client uses a new one, both are durable
//!   with the folders they are in.
//! * Folders are their owner's alone.
//! * An open overlay is not removed.

use std::collections::HashSet;
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nbd::server::ClientName;
use nodes::OpenError;

use super::file_name::{of_client, of_export};
use super::record::{ImageRecord, OverlayRecord, RecordError};

/// Longest record that is read, bytes.
const RECORD_MAX: u64 = 64 << 10;
/// Bytes of a block of stat(2).
const STAT_BLOCK: u64 = 512;

/// Why an overlay's files cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum FolderError {
    #[error("{what} {}: {source}", path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{} cannot be used: {source}", path.display())]
    Record { path: PathBuf, source: RecordError },
    #[error(
        "{} exists, but not the record of its client and its image; put it back, \
         or remove the overlay", .0.display()
    )]
    NoRecord(PathBuf),
    #[error("the image has {0} overlays already, which is `overlays_max`")]
    TooMany(usize),
    #[error("{} is in use", .0.display())]
    InUse(PathBuf),
}

type Result<T> = std::result::Result<T, FolderError>;

/// An overlay that was found.
#[derive(Debug)]
pub(super) struct FoundOverlay {
    pub(super) record: OverlayRecord,
    /// Bytes that it takes on its filesystem.
    pub(super) bytes: u64,
}

/// An overlay that no other process has open until this is dropped.
#[derive(Debug)]
pub(super) struct OverlayLock(#[expect(dead_code, reason = "the lock ends with it")] std::fs::File);

/// Where an overlay is, or may be made.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) path: PathBuf,
    /// There was none.
    pub(super) is_new: bool,
}

/// The overlays of an export.
#[derive(Debug)]
pub(super) struct OverlayFolder {
    path: PathBuf,
    export: String,
    image: ImageRecord,
    overlays_max: usize,
    /// Names of the overlays over the image.
    known: Mutex<HashSet<String>>,
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_owned();
    move |source| FolderError::Io { what, path, source }
}

impl OverlayFolder {
    /// The overlays of `export` over `image` within `directory`, which is made if it is not there.
    pub(super) fn open(
        directory: &Path,
        export: String,
        image: ImageRecord,
        overlays_max: usize,
    ) -> Result<Self> {
        make(directory)?;
        let folder = Self {
            path: directory.join(of_export(&export)),
            export,
            image,
            overlays_max,
            known: Mutex::default(),
        };
        let records = records_in(&folder.path.join(&folder.image.id))?;
        folder
            .known()
            .extend(records.into_iter().map(|(stem, _)| stem));
        Ok(folder)
    }

    fn known(&self) -> MutexGuard<'_, HashSet<String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, name: &ClientName, image: &str, ending: &str) -> PathBuf {
        let file = format!("{}.{ending}", of_client(name));
        self.path.join(image).join(file)
    }

    /// Writes or checks the record of the overlay of `name`, and returns the overlay's path: the caller may open it, and
    /// create it if there is none.
    pub(super) fn prepare(&self, name: &ClientName, now: u64) -> Result<Prepared> {
        let overlay = self.place(name, &self.image.id, "cow");
        let path = self.place(name, &self.image.id, "json");
        if let Some(mut record) = read(&path)? {
            let checked = record.check(name, &self.image.id);
            checked.map_err(|source| FolderError::Record {
                path: path.clone(),
                source,
            })?;
            record.last_seen = now;
            write(&path, &record)?;
            let is_new = !overlay.exists();
            return Ok(Prepared {
                path: overlay,
                is_new,
            });
        }
        if overlay.exists() {
            return Err(FolderError::NoRecord(overlay));
        }
        self.take_place(name)?;
        let record = OverlayRecord::new(self.export.clone(), name.clone(), self.image.clone(), now);
        let folder = self.path.join(&self.image.id);
        let made = make(&folder).and_then(|()| write(&path, &record));
        let made = made.and_then(|()| sync(&folder));
        if made.is_err() {
            self.known().remove(&of_client(name));
        }
        made?;
        let (client, disk) = (name.to_string(), &self.image.disk);
        let older = self.older_of(name);
        let older: Vec<&str> = older
            .iter()
            .map(|record| record.image.disk.as_str())
            .collect();
        let kept = match older.as_slice() {
            [] => String::new(),
            older => format!("; what it changed of {} is kept", older.join(", ")),
        };
        tracing::info!(
            client,
            export = self.export,
            "begins with nothing of its own over {disk}{kept}"
        );
        Ok(Prepared {
            path: overlay,
            is_new: true,
        })
    }

    /// Makes durable that there is an overlay more.
    pub(super) fn sync(&self) -> Result<()> {
        let image = self.path.join(&self.image.id);
        let folders = [Some(image.as_path()), Some(&self.path), self.path.parent()];
        folders.into_iter().flatten().try_for_each(sync)
    }

    /// Records of `name` over other images.
    fn older_of(&self, name: &ClientName) -> Vec<OverlayRecord> {
        let images = std::fs::read_dir(&self.path)
            .into_iter()
            .flatten()
            .flatten();
        let others = images.filter(|image| *image.file_name() != *self.image.id);
        let record = |image: std::fs::DirEntry| {
            let path = image.path().join(format!("{}.json", of_client(name)));
            read(&path).ok().flatten()
        };
        others.filter_map(record).collect()
    }

    /// Counts the overlay of `name`, if there may be one more.
    fn take_place(&self, name: &ClientName) -> Result<()> {
        let mut known = self.known();
        let stem = of_client(name);
        if known.len() >= self.overlays_max && !known.contains(&stem) {
            return Err(FolderError::TooMany(self.overlays_max));
        }
        known.insert(stem);
        Ok(())
    }

    /// Writes down that its client was here until now.
    pub(super) fn seen(&self, name: &ClientName, now: u64) -> Result<()> {
        let path = self.place(name, &self.image.id, "json");
        let Some(mut record) = read(&path)? else {
            return Ok(());
        };
        record.last_seen = now;
        write(&path, &record)
    }

    /// All overlays, those over other images too. Unreadable ones are logged and left out.
    pub(super) fn list(&self) -> Vec<FoundOverlay> {
        let mut found = Vec::new();
        let images = std::fs::read_dir(&self.path).into_iter().flatten();
        for image in images.filter_map(std::result::Result::ok) {
            match records_in(&image.path()) {
                Ok(records) => found.extend(records.iter().filter_map(|(_, path)| looked_at(path))),
                Err(e) => tracing::warn!("{e}"),
            }
        }
        found.sort_by(|a, b| a.record.client.cmp(&b.record.client));
        found
    }

    /// Locks the overlay of `name` over the image of that number, as the node that writes it does; `None` if there is none. This
    /// alone is called on the engine: it may wait for a lock that a process left behind.
    pub(super) async fn lock(&self, name: &ClientName, image: &str) -> Result<Option<OverlayLock>> {
        let path = self.place(name, image, "cow");
        let file = match std::fs::OpenOptions::new().read(true).open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed("cannot open", &path))?,
        };
        match nodes::lock_exclusive(&file, &path).await {
            Ok(()) => Ok(Some(OverlayLock(file))),
            Err(OpenError::InUse { .. }) => Err(FolderError::InUse(path)),
            Err(e) => Err(failed("cannot lock", &path)(io::Error::other(e))),
        }
    }

    /// Removes the overlay of `name` over the image of that number, which `_lock` keeps others from opening until it is gone.
    pub(super) fn remove(
        &self,
        name: &ClientName,
        image: &str,
        _lock: Option<OverlayLock>,
    ) -> Result<()> {
        let overlay = self.place(name, image, "cow");
        let record = self.place(name, image, "json");
        for path in [&overlay, &record] {
            match std::fs::remove_file(path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("cannot remove", path)(e));
                }
                _ => {}
            }
        }
        if image == self.image.id {
            self.known().remove(&of_client(name));
        }
        // It stays where other overlays are in it.
        drop(std::fs::remove_dir(self.path.join(image)));
        Ok(())
    }
}

/// Makes a folder and those above it, for their owner alone.
fn make(path: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.mode(0o700).recursive(true).create(path);
    made.map_err(failed("cannot make the folder", path))
}

/// The records in a folder: their names without the ending, and their paths.
fn records_in(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let cannot = || failed("cannot look into", folder);
    let entries = match std::fs::read_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Ok(Vec::new()),
        entries => entries.map_err(cannot())?,
    };
    let mut records = Vec::new();
    for entry in entries {
        let path = entry.map_err(cannot())?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if let Some(stem) = stem
            && path.extension().is_some_and(|ending| ending == "json")
        {
            records.push((stem.to_owned(), path.clone()));
        }
    }
    Ok(records)
}

fn looked_at(path: &Path) -> Option<FoundOverlay> {
    let record = match read(path) {
        Ok(record) => record?,
        Err(e) => {
            tracing::warn!("{e}");
            return None;
        }
    };
    let overlay = std::fs::metadata(path.with_extension("cow"));
    let bytes = overlay.map_or(0, |overlay| overlay.blocks() * STAT_BLOCK);
    Some(FoundOverlay { record, bytes })
}

fn read(path: &Path) -> Result<Option<OverlayRecord>> {
    let cannot = || failed("cannot read", path);
    let mut options = std::fs::OpenOptions::new();
    let file = match options.read(true).open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(cannot())?,
    };
    let mut bytes = Vec::new();
    let bounded = file.take(RECORD_MAX).read_to_end(&mut bytes);
    bounded.map_err(cannot())?;
    let record = OverlayRecord::parse(&bytes).map_err(|source| FolderError::Record {
        path: path.to_owned(),
        source,
    });
    record.map(Some)
}

/// Replaces a record atomically: a reader finds the old or the new one, also after a power cut.
fn write(path: &Path, record: &OverlayRecord) -> Result<()> {
    let (new, text) = (path.with_extension("new"), record.text());
    let replaced = engine::whole_file::replace(path, &new, text.as_bytes(), 0o666);
    replaced.map_err(failed("cannot write", path))
}

/// Makes what was made in a folder durable.
fn sync(folder: &Path) -> Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let synced = options.read(true).open(folder).and_then(|f| f.sync_all());
    synced.map_err(failed("cannot sync", folder))
}
