//! [`status`]: what a volume is and takes in its store. Nothing is written.

use serde::Serialize;

use super::journal::BucketJournal;
use super::{list, on_runtime};
use crate::error::BucketError;
use crate::format::{BLOCK, CIPHER, Compression, RUN, VolumeHeader};
use crate::store::{StoreAccess, StoreOptions, read_header};
use crate::uri::BucketUri;
use crate::volume::{IndexCheckpoints, IndexHandle, ScanError, open_reader};

/// A clone of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BucketClone {
    /// Where.
    pub uri: String,
    /// The name of the snapshot.
    pub snapshot: String,
}

/// What a volume is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VolumeStatus {
    /// Where.
    pub uri: String,
    /// Its id.
    pub id: String,
    /// Its size, bytes.
    pub size: u64,
    /// Bytes of it that hold data.
    pub allocated: u64,
    /// What its data is compressed with, when it is written.
    pub compression: Option<Compression>,
    /// The cipher of its data and its index, if they are encrypted.
    pub encryption: Option<&'static str>,
    /// How often it was opened for writing.
    pub generation: u32,
    /// Snapshots.
    pub snapshots: u64,
    /// The snapshot that it is a clone of, if it is one: `URI@NAME`.
    pub origin: Option<String>,
    /// Clones of its snapshots.
    pub clones: Vec<BucketClone>,
    /// The local journal that is open, if there is one.
    pub journal: Option<BucketJournal>,
    /// Data objects.
    pub data_objects: u64,
    /// Their bytes, with those that no block refers to any more.
    pub data_bytes: u64,
    /// Objects of the index.
    pub index_objects: u64,
    /// Their bytes.
    pub index_bytes: u64,
}

/// Reads the status of a volume.
///
/// # Errors
/// There is none, it is not understood, or the store fails.
pub async fn status(uri: &BucketUri, options: &StoreOptions) -> Result<VolumeStatus, BucketError> {
    let access = StoreAccess::connect(uri, options, false)?;
    on_runtime(async move { status_on(&access).await }).await
}

pub(crate) async fn status_on(access: &StoreAccess) -> Result<VolumeStatus, BucketError> {
    let header = read_header(access).await?.header;
    let access = &access.unlock(&header)?;
    let (index, meta) = open_reader(access, &header).await?;
    let allocated = allocated(&index, header.size).await;
    index.close(&access.uri).await;
    let allocated = allocated.map_err(|error| error.about(&access.uri))?;
    let checkpoints = IndexCheckpoints::of(access);
    let snapshots = checkpoints.snapshots().await?;
    let clones = clones_of(access).await?;
    let data = list(access, &access.names.data()).await?;
    let tables = list(access, &access.names.index()).await?;
    Ok(VolumeStatus {
        uri: access.uri.clone(),
        id: header.id.to_string(),
        size: header.size,
        allocated,
        compression: header.compression,
        encryption: header.sealed_key.map(|_| CIPHER),
        generation: meta.generation.saturating_sub(header.origin_generation()),
        snapshots: snapshots.len() as u64,
        origin: origin_of(access, &header),
        clones,
        journal: meta.journal.as_ref().map(BucketJournal::of),
        data_objects: data.len() as u64,
        data_bytes: data.iter().map(|object| object.size).sum(),
        index_objects: tables.len() as u64,
        index_bytes: tables.iter().map(|object| object.size).sum(),
    })
}

/// Of a clone, the snapshot that it was made of: `URI@NAME`. Reads the header alone, and opens nothing.
///
/// # Errors
/// There is no volume, it is not understood, or the store fails.
pub async fn origin(
    uri: &BucketUri,
    options: &StoreOptions,
) -> Result<Option<String>, BucketError> {
    let access = StoreAccess::connect(uri, options, false)?;
    on_runtime(async move {
        let header = read_header(&access).await?.header;
        Ok(origin_of(&access, &header))
    })
    .await
}

fn origin_of(access: &StoreAccess, header: &VolumeHeader) -> Option<String> {
    let origin = header.origins.last()?;
    Some(format!(
        "{}@{}",
        access.uri_of(&origin.path),
        origin.snapshot
    ))
}

/// The clones of the snapshots of a volume.
///
/// # Errors
/// As [`status`]'s.
pub async fn list_clones(
    uri: &BucketUri,
    options: &StoreOptions,
) -> Result<Vec<BucketClone>, BucketError> {
    let access = StoreAccess::connect(uri, options, false)?;
    on_runtime(async move {
        let header = read_header(&access).await?.header;
        clones_of(&access.of(&header)).await
    })
    .await
}

async fn clones_of(access: &StoreAccess) -> Result<Vec<BucketClone>, BucketError> {
    let clones = IndexCheckpoints::of(access).clones().await?;
    let clones = clones.iter().map(|clone| BucketClone {
        uri: access.uri_of(&clone.path),
        snapshot: clone.snapshot.to_string(),
    });
    Ok(clones.collect())
}

/// Bytes that hold data.
async fn allocated(index: &IndexHandle, size: u64) -> Result<u64, ScanError> {
    let mut scan = index.scan(0..size.div_ceil(RUN)).await?;
    let mut blocks = 0;
    while let Some((_, map)) = scan.next().await? {
        blocks += map.sources().filter(|source| source.is_data()).count() as u64;
    }
    Ok(blocks * BLOCK)
}
