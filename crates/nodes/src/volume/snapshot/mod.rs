//! Classic snapshots: an origin that is served and written while its snapshots keep what it was.
//!
//! ```text
//! Origin::disk ── write ──► OriginDisk ──► copy to every store ──► WriteBuffer ── drain ──► the origin's own disk
//! Origin::snapshot(a) ──► Overlay over that disk, in store a
//! Origin::snapshot(b) ──► Overlay over that disk, in store b
//!
//! while a snapshot is merged:     Origin::disk ──► MergeDisk ──► OriginDisk ──► …
//! ```
//!
//! A store has the format of device-mapper's persistent snapshot (`docs/formats/overlay.md`), also while its origin
//! is written: the node of the store is [`Overlay`], which reads and writes that format.
//!
//! # Invariants
//!
//! * A snapshot reads as its origin was when it was created, and as what was written to the snapshot since, or it is
//!   known to be invalid: also after a power cut (`disk.rs`, `node.rs`).
//! * A store that is full or fails costs its snapshot, never a request of the origin.
//! * A snapshot is created while no change of the origin is in flight, and after a flush.
//! * A write of the origin that was not flushed may still be in memory: the end of the process loses it as the end of the
//!   power does (`drain.rs`). At most 16 MiB, and requests in flight, are; the opener drains them by the clock
//!   ([`Origin::drain`]).
//! * Nothing is written where the origin is opened read-only.
//!
//! # What it does not do
//!
//! It knows no volume group: the caller finds the disks of origin and stores, and changes the metadata. A snapshot of
//! a snapshot has no place in the format.

mod chunk_bitmap;
mod disk;
mod drain;
mod error;
mod merge;
mod node;
mod origin_merge;
mod origin_state;
mod status;
#[cfg(test)]
mod tests;
mod write_buffer;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{Geometry, IoBufs, Node, Range, WriteFlags};

use self::disk::OriginDisk;
pub use self::error::SnapshotError;
use self::merge::MergeDisk;
use self::node::Snapshot;
pub use self::status::{SnapshotState, SnapshotStatus};
use crate::guard::flush;
use crate::overlay::open::of_snapshot;
use crate::overlay::store::Store;
use crate::zeroes::zeroes;
use crate::{ErrorDisk, FormatError, Overlay, OverlayError, OverlayOptions};

/// Snapshots that an origin may have.
pub const SNAPSHOTS_MAX: usize = 256;
/// What is wiped of a new store, bytes: a header of zeroes makes it a new one.
const WIPE_LEN: u64 = 4096;

/// The store of a snapshot.
#[derive(Debug, Clone)]
pub struct SnapshotStore {
    /// Name of the snapshot.
    pub name: String,
    /// The disk that holds what was copied or changed.
    pub cow: Node,
    /// Chunk, bytes, where the store is new; one that is in use has its own in its header.
    pub chunk: u64,
    /// The snapshot is being merged into the origin.
    pub merging: bool,
}

/// A snapshot that was invalid when it was opened.
#[derive(Debug, Clone)]
struct InvalidSnapshot {
    name: String,
    reason: String,
}

/// A disk with snapshots.
#[derive(Debug, Clone)]
pub struct Origin {
    disk: Arc<OriginDisk>,
    merge: Arc<Mutex<Option<Arc<MergeDisk>>>>,
    invalid: Arc<Mutex<Vec<InvalidSnapshot>>>,
}

/// What a store was found to be.
enum FoundStore {
    Valid(Store),
    Invalid(InvalidSnapshot),
}

impl Origin {
    /// Opens `origin` with its snapshots. A store of which the header is zeroes becomes that of a new snapshot; one that
    /// was marked invalid is reported so, and the origin is opened all the same.
    ///
    /// # Errors
    /// [`SnapshotError`]: a store that is not understood, or two that cannot be together.
    pub async fn open(
        origin: Node,
        stores: Vec<SnapshotStore>,
        read_only: bool,
    ) -> Result<Self, SnapshotError> {
        check_names(&stores)?;
        let (mut snapshots, mut invalid, mut merging) = (Vec::new(), Vec::new(), None);
        for store in stores {
            let (name, is_merging) = (store.name.clone(), store.merging);
            match find(store, origin.geometry(), read_only).await? {
                FoundStore::Invalid(_) if is_merging => {
                    return Err(SnapshotError::InvalidMerge { name });
                }
                FoundStore::Invalid(found) => invalid.push(found),
                FoundStore::Valid(found) if is_merging => merging = Some((name, found)),
                FoundStore::Valid(found) => {
                    let snapshot = open_snapshot(&origin, name, found, read_only).await?;
                    snapshots.push(Arc::new(snapshot));
                }
            }
        }
        let disk = Arc::new(OriginDisk::new(origin, snapshots, read_only));
        let merge = match merging {
            None => None,
            Some((name, store)) => {
                Some(Arc::new(MergeDisk::open(name, disk.clone(), store).await?))
            }
        };
        Ok(Self {
            disk,
            merge: Arc::new(Mutex::new(merge)),
            invalid: Arc::new(Mutex::new(invalid)),
        })
    }

    /// The origin as a disk: what is written to it is preserved first for its snapshots. It is another one after
    /// [`Self::begin_merge`].
    #[must_use]
    pub fn disk(&self) -> Node {
        match self.merging() {
            Some(merge) => merge,
            None => self.disk.clone(),
        }
    }

    /// A snapshot as a disk. One that is invalid fails every request.
    ///
    /// # Errors
    /// [`SnapshotError::NotFound`], [`SnapshotError::Merging`].
    pub fn snapshot(&self, name: &str) -> Result<Node, SnapshotError> {
        self.check_merging(name)?;
        if let Some(snapshot) = self.find_snapshot(name) {
            return Ok(snapshot);
        }
        let is_invalid = self.invalid().iter().any(|one| one.name == name);
        if is_invalid {
            let size = block::BlockDevice::geometry(&*self.disk).size;
            return Ok(Arc::new(ErrorDisk::new(size)));
        }
        Err(not_found(name))
    }

    /// All snapshots, and how full their stores are.
    #[must_use]
    pub fn status(&self) -> Vec<SnapshotStatus> {
        let snapshots = self.disk.snapshots();
        let mut all: Vec<SnapshotStatus> = snapshots.iter().map(|one| one.status()).collect();
        let invalid = self.invalid();
        all.extend(
            invalid
                .iter()
                .map(|one| SnapshotStatus::invalid(&one.name, &one.reason)),
        );
        all.extend(self.merging().iter().map(|merge| merge.status()));
        all
    }

    /// Creates a snapshot of the origin as it is now, while it is served: requests in flight are waited for, the origin is
    /// flushed, and later ones are preserved. Its store begins with zeroes ([`wipe_store`]).
    ///
    /// # Errors
    /// [`SnapshotError`]; the origin goes on without it.
    pub async fn create_snapshot(&self, store: SnapshotStore) -> Result<Node, SnapshotError> {
        let geometry = block::BlockDevice::geometry(&*self.disk);
        if geometry.read_only {
            return Err(SnapshotError::ReadOnly);
        }
        if let Some(merge) = self.merging() {
            let name = merge.name().to_owned();
            return Err(SnapshotError::Merging { name });
        }
        let name = store.name.clone();
        let known = self.status();
        if known.iter().any(|one| one.name == name) {
            return Err(SnapshotError::Exists { name });
        }
        if known.len() >= SNAPSHOTS_MAX {
            return Err(SnapshotError::TooMany);
        }
        let found = match find(store, geometry, false).await? {
            FoundStore::Valid(found) if found.exceptions.is_empty() => found,
            _ => return Err(SnapshotError::NotEmpty { name }),
        };
        let snapshot = open_snapshot(self.disk.child(), name, found, false).await?;
        let snapshot = Arc::new(snapshot);
        self.disk.add(snapshot.clone()).await?;
        Ok(snapshot)
    }

    /// A snapshot goes on in its store as it is now: `cow` begins with the same bytes, and is larger. The snapshot is not in
    /// use as a disk; the origin may be.
    ///
    /// # Errors
    /// [`SnapshotError`]; the snapshot goes on in what it had of the store, or is invalid as before.
    pub async fn extend_snapshot(&self, name: &str, cow: Node) -> Result<(), SnapshotError> {
        self.check_merging(name)?;
        let snapshot = self.known_snapshot(name)?;
        let reopen = async || {
            let found = self.find_again(&snapshot, cow, false).await?;
            open_snapshot(self.disk.child(), name.to_owned(), found, false).await
        };
        self.disk.reopen(&snapshot, reopen).await
    }

    /// Removes a snapshot while the origin is served. Every request on it fails afterwards, and nothing lands on its store
    /// any more; the store keeps what it holds.
    ///
    /// # Errors
    /// [`SnapshotError`]. After `StoreFailed` the snapshot is removed, and changes may still land on its store.
    pub async fn remove_snapshot(&self, name: &str) -> Result<(), SnapshotError> {
        self.check_merging(name)?;
        if let Some(snapshot) = self.find_snapshot(name) {
            let removed = self.disk.remove(&snapshot).await;
            let name = name.to_owned();
            return removed.map_err(|source| SnapshotError::StoreFailed { name, source });
        }
        let mut invalid = self.invalid();
        let before = invalid.len();
        invalid.retain(|one| one.name != name);
        if invalid.len() == before {
            return Err(not_found(name));
        }
        Ok(())
    }

    /// Writes what is buffered to the origin's disk. It is durable after a flush, and a failure is found by that.
    pub async fn drain(&self) {
        self.disk.drain(|_| true).await;
    }

    fn known_snapshot(&self, name: &str) -> Result<Arc<Snapshot>, SnapshotError> {
        self.find_snapshot(name).ok_or_else(|| not_found(name))
    }

    /// Reads the store of a snapshot again, which is `cow` from now on.
    async fn find_again(
        &self,
        snapshot: &Snapshot,
        cow: Node,
        merging: bool,
    ) -> Result<Store, SnapshotError> {
        let store = SnapshotStore {
            name: snapshot.name().to_owned(),
            cow,
            chunk: snapshot.chunk(),
            merging,
        };
        match find(store, block::BlockDevice::geometry(&*self.disk), false).await? {
            FoundStore::Valid(found) => Ok(found),
            FoundStore::Invalid(_) => Err(not_found(snapshot.name())),
        }
    }

    fn find_snapshot(&self, name: &str) -> Option<Arc<Snapshot>> {
        let snapshots = self.disk.snapshots();
        snapshots.into_iter().find(|one| one.name() == name)
    }

    fn invalid(&self) -> MutexGuard<'_, Vec<InvalidSnapshot>> {
        self.invalid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes `store` one that a new snapshot may be created in: its first bytes become zeroes, durably. What it held is lost.
///
/// # Errors
/// What writing fails with.
pub async fn wipe_store(store: &Node) -> Result<(), block::IoError> {
    let len = WIPE_LEN.max(store.geometry().block_size.into());
    let range = Range::new(0, len.min(store.geometry().size));
    let data: IoBufs = zeroes(range.len_usize());
    store.write(range, data, WriteFlags::empty()).await?;
    flush(store).await
}

/// How full a store is that nothing writes: of a snapshot of an origin of `origin` bytes. Nothing is written.
///
/// # Errors
/// [`SnapshotError`] if it is not understood.
pub async fn read_status(
    store: SnapshotStore,
    origin: u64,
) -> Result<SnapshotStatus, SnapshotError> {
    let (name, is_merging) = (store.name.clone(), store.merging);
    let geometry = Geometry {
        block_size: store.cow.geometry().block_size,
        ..Geometry::native(origin)
    };
    let found = match find(store, &geometry, true).await? {
        FoundStore::Valid(found) => found,
        FoundStore::Invalid(found) => return Ok(SnapshotStatus::invalid(&name, &found.reason)),
    };
    Ok(SnapshotStatus {
        name,
        state: match is_merging {
            true => SnapshotState::Merging,
            false => SnapshotState::Valid,
        },
        chunk: found.layout.chunk(),
        copied: found.exceptions.len() as u64,
        used: found.next,
        total: found.chunks(),
    })
}

fn not_found(name: &str) -> SnapshotError {
    SnapshotError::NotFound {
        name: name.to_owned(),
    }
}

/// Refuses names and merges that cannot be together.
fn check_names(stores: &[SnapshotStore]) -> Result<(), SnapshotError> {
    if stores.len() > SNAPSHOTS_MAX {
        return Err(SnapshotError::TooMany);
    }
    let mut merging: Option<&str> = None;
    for (index, store) in stores.iter().enumerate() {
        let name = &store.name;
        if stores[..index].iter().any(|other| other.name == *name) {
            return Err(SnapshotError::Exists { name: name.clone() });
        }
        if !store.merging {
            continue;
        }
        if let Some(first) = merging.replace(name) {
            return Err(SnapshotError::TwoMerging {
                first: first.to_owned(),
                second: name.clone(),
            });
        }
    }
    Ok(())
}

fn options(chunk: u32, read_only: bool) -> OverlayOptions {
    OverlayOptions {
        chunk,
        read_only,
        ..OverlayOptions::default()
    }
}

/// Reads a store, or makes it where it is new.
async fn find(
    store: SnapshotStore,
    origin: &Geometry,
    read_only: bool,
) -> Result<FoundStore, SnapshotError> {
    let SnapshotStore {
        name, cow, chunk, ..
    } = store;
    let Ok(chunk) = u32::try_from(chunk) else {
        return Err(SnapshotError::Chunk { name, chunk });
    };
    let options = options(chunk, read_only);
    match of_snapshot(cow, &name, origin, options).await {
        Ok(found) => Ok(FoundStore::Valid(found)),
        Err(OverlayError::Format {
            source: source @ FormatError::Invalid,
            ..
        }) => Ok(FoundStore::Invalid(InvalidSnapshot {
            name,
            reason: source.to_string(),
        })),
        Err(OverlayError::Chunk(_)) => Err(SnapshotError::Chunk {
            name,
            chunk: chunk.into(),
        }),
        Err(source) => Err(SnapshotError::Store { name, source }),
    }
}

/// A snapshot of `origin` in `store`. What is read of the store is made durable: the origin may be changed once a chunk
/// is in it.
async fn open_snapshot(
    origin: &Node,
    name: String,
    store: Store,
    read_only: bool,
) -> Result<Snapshot, SnapshotError> {
    if !read_only {
        let flushed = flush(&store.node).await;
        flushed.map_err(|source| SnapshotError::StoreFailed {
            name: name.clone(),
            source,
        })?;
    }
    let chunk = u32::try_from(store.layout.chunk()).unwrap_or(u32::MAX);
    let overlay = Overlay::of_origin(origin.clone(), store, options(chunk, read_only)).await;
    let overlay = overlay.map_err(|source| SnapshotError::Store {
        name: name.clone(),
        source,
    })?;
    Ok(Snapshot::new(name, overlay))
}
