//! [`delete`]: a volume and all its objects.
//!
//! # Invariants
//!
//! * A server that has the volume open is fenced first, and finds out within a poll of its index. What it still writes meanwhile lies
//!   below the id of the deleted volume, which no other volume has.
//! * The header is deleted first, its last version behind the others: what is left of an interrupted delete is no volume.
//! * A volume with snapshots is not deleted. They are looked for once more behind the headers: a snapshot that was made meanwhile either
//!   finds no header, and is no snapshot, or is found, and the header is there again. Until then a mark has the header, so
//!   that an interrupted delete does the same when it is continued.
//! * The same holds for clones. A clone is unfinished from its header on (`clone_marks.rs`), until its objects and its record at the origin
//!   are gone.
//! * Only objects of the volume's own folders are deleted; what else is there stays, and is named.

use object_store::path::Path;
use serde::Serialize;

use super::{clone_marks, delete_object, delete_objects, list, on_runtime, put, take_over};
use crate::error::BucketError;
use crate::format::{SnapshotRecord, VolumeHeader};
use crate::store::{FoundHeader, StoreAccess, StoreOptions, create_header, read_header};
use crate::uri::BucketUri;
use crate::volume::IndexCheckpoints;

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeletedVolume {
    /// Where.
    pub uri: String,
    /// Objects that were deleted.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects there that are not the volume's.
    pub left: Vec<String>,
}

/// Deletes a volume.
///
/// # Errors
/// There is none, or the store fails; the same command continues.
pub async fn delete(uri: &BucketUri, options: &StoreOptions) -> Result<DeletedVolume, BucketError> {
    let access = StoreAccess::connect(uri, options, false)?;
    let deleted = on_runtime(async move { delete_on(&access).await }).await?;
    if let BucketUri::File(path) = uri
        && deleted.left.is_empty()
    {
        remove_folders(path);
    }
    Ok(deleted)
}

pub(crate) async fn delete_on(access: &StoreAccess) -> Result<DeletedVolume, BucketError> {
    let names = &access.names;
    let mut deleted = match read_header(access).await {
        Ok(found) => {
            let of_volume = access.unlock(&found.header)?;
            // Before a server loses it for nothing. An index that cannot be read is found by the search below.
            let refused = refuse_dependents(&of_volume).await;
            if let Err(error) = refused
                && has_dependents(&error)
            {
                return Err(error);
            }
            match take_over(access, true).await {
                // A clone without an index: nothing is lost with it.
                Ok(()) | Err(BucketError::NoRecord { .. }) => {}
                Err(error) => return Err(error),
            }
            refuse_dependents(&of_volume).await?;
            delete_headers(&of_volume, found).await?
        }
        // What is left of an interrupted command.
        Err(error @ BucketError::NoVolume { .. }) => {
            let [data, _, index, gc] = names.contents();
            let mut is_left = finish_marks(access).await?;
            for folder in [names.unfinished_clones(), data, index, gc] {
                is_left |= !list(access, &folder).await?.is_empty();
            }
            if !is_left {
                return Err(error);
            }
            Deleted::default()
        }
        Err(error) => return Err(error),
    };
    let clones = clone_marks::read_marks(access, &names.unfinished_clones()).await?;
    for (_, clone) in &clones {
        let clone = access.of(clone);
        IndexCheckpoints::of(&clone).unpin_origins().await?;
    }
    for folder in names.contents() {
        deleted.add(&delete_all(access, &folder).await?);
    }
    for (_, clone) in &clones {
        clone_marks::release(access, clone).await?;
    }
    let left = list(access, names.root()).await?;
    Ok(DeletedVolume {
        uri: access.uri.clone(),
        objects: deleted.objects,
        bytes: deleted.bytes,
        left: left
            .iter()
            .map(|object| object.location.to_string())
            .collect(),
    })
}

/// Objects that were deleted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Deleted {
    objects: u64,
    bytes: u64,
}

impl Deleted {
    const fn add(&mut self, more: &Self) {
        self.objects += more.objects;
        self.bytes += more.bytes;
    }
}

/// Deletes all objects of a folder.
pub(super) async fn delete_all(access: &StoreAccess, folder: &str) -> Result<Deleted, BucketError> {
    let found = list(access, folder).await?;
    let paths = found.iter().map(|object| object.location.clone());
    delete_objects(access, paths.collect()).await?;
    Ok(Deleted {
        objects: found.len() as u64,
        bytes: found.iter().map(|object| object.size).sum(),
    })
}

/// Whether a volume is not deleted because of its snapshots or clones.
const fn has_dependents(error: &BucketError) -> bool {
    matches!(
        error,
        BucketError::HasSnapshots { .. } | BucketError::HasClones { .. }
    )
}

/// Refuses to delete a volume with clones or snapshots, also with those of another version of this program.
async fn refuse_dependents(access: &StoreAccess) -> Result<(), BucketError> {
    let checkpoints = IndexCheckpoints::of(access);
    let clones = checkpoints.clones().await?;
    if !clones.is_empty() {
        let clones = clones.iter().map(|clone| access.uri_of(&clone.path));
        return Err(BucketError::HasClones {
            uri: access.uri.clone(),
            clones: clones.collect::<Vec<_>>().join(", "),
        });
    }
    let retained = checkpoints.retained().await?;
    if retained.is_empty() {
        return Ok(());
    }
    let names = retained.into_iter().map(|checkpoint| {
        let name = checkpoint.name.unwrap_or_default();
        SnapshotRecord::decode(&name).map_or(name, |record| record.name.to_string())
    });
    Err(BucketError::HasSnapshots {
        uri: access.uri.clone(),
        names: names.collect::<Vec<_>>().join(", "),
    })
}

/// Deletes the headers. If a snapshot or a clone was made meanwhile, the header is there again.
async fn delete_headers(access: &StoreAccess, found: FoundHeader) -> Result<Deleted, BucketError> {
    let mark = Path::from(access.names.deletion());
    put(access, &mark, found.header.encode()).await?;
    let mut headers = list(access, &access.names.headers()).await?;
    headers.sort_by(|one, other| one.location.cmp(&other.location));
    for header in &headers {
        delete_object(access, &header.location).await?;
    }
    finish_mark(access, &mark, (found.version + 1, &found.header)).await?;
    Ok(Deleted {
        objects: headers.len() as u64,
        bytes: headers.iter().map(|header| header.size).sum(),
    })
}

/// Removes the mark of a volume without headers. If it has snapshots or clones, it gets `header` back; else a clone is unfinished.
async fn finish_mark(
    access: &StoreAccess,
    mark: &Path,
    (version, header): (u64, &VolumeHeader),
) -> Result<(), BucketError> {
    let refused = refuse_dependents(access).await;
    match &refused {
        Ok(()) if header.origins.is_empty() => {}
        Ok(()) => clone_marks::begin(access, header).await?,
        Err(error) if has_dependents(error) => {
            create_header(access, version, header).await?;
        }
        // It is tried again.
        Err(_) => return refused,
    }
    delete_object(access, mark).await?;
    refused
}

/// Continues the deletes that were interrupted between their headers and the second search for snapshots. Whether there was one.
async fn finish_marks(access: &StoreAccess) -> Result<bool, BucketError> {
    let marks = clone_marks::read_marks(access, &access.names.deletions()).await?;
    for (path, header) in &marks {
        finish_mark(&access.of(header), path, (1, header)).await?;
    }
    Ok(!marks.is_empty())
}

/// Removes the folders of a volume that are empty now.
fn remove_folders(folder: &std::path::Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_folders(&entry.path());
        }
    }
    if let Err(error) = std::fs::remove_dir(folder) {
        tracing::debug!("{} is left: {error}", folder.display());
    }
}
