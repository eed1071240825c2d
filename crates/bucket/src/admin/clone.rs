//! [`create_clone`]: a volume that has the blocks of a snapshot, and the same objects: none of its data is copied.
//!
//! ```text
//! mark ──► probe ──► record at the origin ──► index ──► header: a volume ──► record still there? ──► mark removed
//! ```
//!
//! # Invariants
//!
//! * Before the header there is no volume, and a mark by which `delete` finds what an interrupted command left, at the origin, too.
//! * The record at the origin is there before the first object that refers to one of the origin's, and as long as any does: neither the
//!   origin nor the snapshot is deleted meanwhile.
//! * A clone that is reported has its record: its command finds it behind the header, or `delete` of the clone finds the header.

use serde::Serialize;

use super::{clone_marks, is_used, on_runtime, refuse_used};
use crate::error::BucketError;
use crate::format::{CloneRecord, Origin, VolumeHeader, VolumeId};
use crate::snapshot_name::{SnapshotName, SnapshotUri};
use crate::store::{StoreAccess, StoreOptions, create_header, probe, read_header, shares_store};
use crate::uri::BucketUri;
use crate::volume::{FoundSnapshot, IndexCheckpoints, open_snapshot};

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClonedVolume {
    /// Where.
    pub uri: String,
    /// Its id.
    pub id: String,
    /// Its size, that of the snapshot, bytes.
    pub size: u64,
    /// The snapshot: `URI@NAME`.
    pub origin: String,
}

/// Makes a volume with the blocks of a snapshot, in another folder of the same store.
///
/// # Errors
/// There is no such snapshot, something is at `uri` already, it is in another store, or that fails. `status` of the clone shows whether
/// it was made in spite of an error of the store.
pub async fn create_clone(
    snapshot: &SnapshotUri,
    uri: &BucketUri,
    options: &StoreOptions,
) -> Result<ClonedVolume, BucketError> {
    refuse_other_store(snapshot, uri)?;
    let origin = StoreAccess::connect(&snapshot.volume, options, false)?;
    let (name, folder) = (snapshot.name.clone(), uri.folder());
    on_runtime(async move { create_clone_on(&origin, &name, &folder).await }).await
}

/// Makes the same, unless there is a volume at `uri`. What an interrupted command left there, or a fenced server of a clone that was deleted,
/// is no obstacle: it is below another id, and goes with the volume.
///
/// # Errors
/// As [`create_clone`]'s.
pub async fn ensure_clone(
    snapshot: &SnapshotUri,
    uri: &BucketUri,
    options: &StoreOptions,
) -> Result<(), BucketError> {
    refuse_other_store(snapshot, uri)?;
    let origin = StoreAccess::connect(&snapshot.volume, options, false)?;
    let (name, folder) = (snapshot.name.clone(), uri.folder());
    on_runtime(async move { ensure_clone_on(&origin, &name, &folder).await }).await
}

pub(crate) async fn ensure_clone_on(
    origin: &StoreAccess,
    name: &SnapshotName,
    folder: &str,
) -> Result<(), BucketError> {
    match read_header(&origin.at(folder)).await {
        Ok(_) => return Ok(()),
        Err(BucketError::NoVolume { .. }) => {}
        Err(error) => return Err(error),
    }
    match clone_into(origin, name, folder).await {
        // Another server made it at the same time.
        Ok(_) | Err(BucketError::Exists { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Refuses a clone in another store than its snapshot.
fn refuse_other_store(snapshot: &SnapshotUri, uri: &BucketUri) -> Result<(), BucketError> {
    match shares_store(&snapshot.volume, uri) {
        true => Ok(()),
        false => Err(BucketError::OtherStore {
            uri: snapshot.to_string(),
            clone: uri.to_string(),
        }),
    }
}

pub(crate) async fn create_clone_on(
    origin: &StoreAccess,
    name: &SnapshotName,
    folder: &str,
) -> Result<ClonedVolume, BucketError> {
    refuse_used(&origin.at(folder)).await?;
    clone_into(origin, name, folder).await
}

/// Makes a clone in a folder without a header.
async fn clone_into(
    origin: &StoreAccess,
    name: &SnapshotName,
    folder: &str,
) -> Result<ClonedVolume, BucketError> {
    let header = read_header(origin).await?.header;
    let origin = &origin.unlock(&header)?;
    let checkpoints = IndexCheckpoints::of(origin);
    let snapshot = checkpoints.find(name).await?;
    let access = &origin.at(folder);
    let clone = clone_header(origin, &header, &snapshot).await?;
    clone_marks::begin(access, &clone).await?;
    let record = CloneRecord {
        id: clone.id,
        snapshot: name.clone(),
        path: folder.to_owned(),
    };
    let prepared = prepare((origin, header.id), &record, &snapshot, &access.of(&clone)).await;
    let refused = match prepared {
        Ok(()) if create_header(access, 1, &clone).await? => None,
        // Another volume was made here at the same time.
        Ok(()) => Some(is_used(access, access.names.header(1))),
        Err(error) => Some(error),
    };
    if let Some(error) = refused {
        if let Err(left) = clone_marks::remove(access, &clone).await {
            tracing::warn!("{}: what was made is left: {left}", access.uri);
        }
        return Err(error);
    }
    if !checkpoints.has_clone(clone.id).await? {
        // Deleted at the same time.
        clone_marks::release(access, &clone).await?;
        let uri = access.uri.clone();
        return Err(BucketError::NoVolume { uri });
    }
    if let Err(error) = clone_marks::end(access, &clone).await {
        tracing::debug!("{}: its mark is left: {error}", access.uri);
    }
    Ok(ClonedVolume {
        uri: access.uri.clone(),
        id: clone.id.to_string(),
        size: clone.size,
        origin: format!("{}@{name}", origin.uri),
    })
}

/// The header of a clone of a snapshot.
async fn clone_header(
    origin: &StoreAccess,
    header: &VolumeHeader,
    snapshot: &FoundSnapshot,
) -> Result<VolumeHeader, BucketError> {
    let (index, meta) = open_snapshot(origin, header, snapshot).await?;
    index.close(&origin.uri).await;
    let mut origins = header.origins.clone();
    origins.push(Origin {
        path: origin.names.root().to_owned(),
        id: header.id,
        snapshot: snapshot.record.name.clone(),
        generation: meta.generation,
    });
    let clone = VolumeHeader {
        id: VolumeId::random(),
        size: snapshot.record.size,
        origins,
        compression: header.compression,
        sealed_key: None,
    };
    // It reads the objects of its origin, which are sealed with the same key.
    Ok(origin.seal_header(clone, origin.codec().key.as_ref()))
}

/// Probes the store, and makes the record at the origin, which is there then, and the index.
async fn prepare(
    (origin, id): (&StoreAccess, VolumeId),
    record: &CloneRecord,
    snapshot: &FoundSnapshot,
    clone: &StoreAccess,
) -> Result<(), BucketError> {
    probe(clone).await?;
    let checkpoints = IndexCheckpoints::of(origin);
    let source = checkpoints.record_clone(record, snapshot).await?;
    // A volume that is being deleted has no header any more.
    if read_header(origin).await?.header.id != id {
        let uri = origin.uri.clone();
        return Err(BucketError::NoVolume { uri });
    }
    checkpoints.clone_index(&source, clone).await
}
