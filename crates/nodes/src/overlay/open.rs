//! How a store is found: a file that is opened, created or refused, or a disk that the caller passes.
//!
//! # Invariants
//!
//! * A file is made larger only once everything in it was understood (`store.rs`).
//! * What was made for an overlay that cannot be opened is removed again.

use std::path::Path;
use std::sync::Arc;

use block::{BlockDevice, Geometry, Node, Range};
use engine::DiskFile;

use super::format::{FormatError, StoreLayout};
use super::store::{Look, Store, examine};
use super::{CHUNK_MIN, OverlayError, OverlayOptions};
use crate::{File, FileOptions, OpenError};

/// The store in messages, where it has no path.
const GIVEN: &str = "of the overlay";
/// Files of stores have whole ones, bytes.
const SECTOR: i64 = 512;

/// How it is to be opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoreRequest<'a> {
    pub(super) options: OverlayOptions,
    /// What the base is.
    pub(super) base: &'a Geometry,
    /// It is to be written: a file is made as large as it may have to be.
    pub(super) grows: bool,
}

impl StoreRequest<'_> {
    /// Bytes of the store that can hold all of the base, or as many as it may have.
    fn size(&self, layout: StoreLayout) -> u64 {
        let chunk = layout.chunk();
        let chunks = self.base.size.div_ceil(chunk);
        let whole = layout.chunks_for(chunks).saturating_mul(chunk);
        let most = self.options.size_max.unwrap_or(whole) / chunk * chunk;
        whole.min(most)
    }
}

/// Opens the store at `path`, or makes it.
pub(super) async fn at_path(path: &Path, wanted: StoreRequest<'_>) -> Result<Store, OverlayError> {
    let name = path.display().to_string();
    let options = wanted.options;
    let layout = new_layout(options)?;
    let made = options.create && !options.read_only && make(path)?;
    let opened = open_and_read(path, &name, wanted, layout).await;
    if made && opened.is_err() {
        // No other process has used it: the lock was ours, or there was none to be had.
        if let Err(error) = std::fs::remove_file(path) {
            tracing::warn!("{name} was made and cannot be removed again: {error}");
        }
    }
    opened
}

async fn open_and_read(
    path: &Path,
    name: &str,
    wanted: StoreRequest<'_>,
    new: StoreLayout,
) -> Result<Store, OverlayError> {
    let options = FileOptions {
        read_only: wanted.options.read_only,
        direct: false,
    };
    let file = match File::open(path, options).await {
        Ok(file) => Arc::new(file),
        Err(OpenError::NotFound { path }) => return Err(OverlayError::NotFound { path }),
        Err(error) => return Err(error.into()),
    };
    let (mut store, is_new) = examine(file.clone(), name, wanted, new, Look::Everything).await?;
    refuse_odd_size(&file, name)?;
    if wanted.grows && !wanted.options.read_only {
        let size = wanted.size(store.layout);
        if let Some(grown) = grown(&file, path, size).await? {
            store.node = grown;
        }
    }
    store.make_ready(wanted, is_new).await?;
    Ok(store)
}

/// A file of no whole sectors is no store, but a disk would not show its end.
fn refuse_odd_size(file: &Arc<File>, name: &str) -> Result<(), OverlayError> {
    let Some(region) = file.file_region(Range::new(0, 0)) else {
        return Ok(());
    };
    let length = rustix::fs::fstat(&region.file).map_or(0, |found| found.st_size);
    if length % SECTOR == 0 {
        return Ok(());
    }
    Err(OverlayError::Format {
        store: name.to_owned(),
        source: FormatError::NotAStore,
    })
}

/// Opens a store that is a disk already.
pub(super) async fn on_disk(node: Node, wanted: StoreRequest<'_>) -> Result<Store, OverlayError> {
    let layout = new_layout(wanted.options)?;
    let (store, is_new) = examine(node, GIVEN, wanted, layout, Look::Ends).await?;
    store.make_ready(wanted, is_new).await?;
    Ok(store)
}

/// Opens the store of a snapshot of `base`: other metadata name it as one. It is new where its header is zeroes.
pub(crate) async fn of_snapshot(
    node: Node,
    name: &str,
    base: &Geometry,
    options: OverlayOptions,
) -> Result<Store, OverlayError> {
    let wanted = StoreRequest {
        options,
        base,
        grows: true,
    };
    let layout = new_layout(options)?;
    let (store, is_new) = examine(node, name, wanted, layout, Look::Header).await?;
    store.make_ready(wanted, is_new).await?;
    Ok(store)
}

/// The layout of a store that is made.
fn new_layout(options: OverlayOptions) -> Result<StoreLayout, OverlayError> {
    let layout = StoreLayout::new(options.chunk).filter(|_| options.chunk >= CHUNK_MIN);
    layout.ok_or(OverlayError::Chunk(options.chunk))
}

/// Makes an empty file; false: something is there.
fn make(path: &Path) -> Result<bool, OverlayError> {
    match DiskFile::create_new(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(source) => Err(OverlayError::Make {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Makes a regular file as large as `size`, where it is smaller. `None`: it is what it was.
async fn grown(file: &Arc<File>, path: &Path, size: u64) -> Result<Option<Node>, OverlayError> {
    let here = file.geometry().size;
    let Some(region) = file.file_region(Range::new(0, 0)).filter(|_| here < size) else {
        return Ok(None);
    };
    let failed = |source| OverlayError::Grow {
        path: path.to_owned(),
        size,
        source,
    };
    rustix::fs::ftruncate(&region.file, size).map_err(|error| failed(error.into()))?;
    let measured = file.revalidate().await;
    measured.map_err(|error| failed(std::io::Error::other(error)))
}
