//! [`delete`]: a volume and all its objects.
//!
//! # Invariants
//!
//! * A server that has the volume open is fenced first, and finds out within a poll of its index. What it still writes meanwhile lies
//!   below the id of the deleted volume, which no other volume has.
//! * The header is deleted first, its last version behind the others: what is left of an interrupted delete is no volume.
//! * Only objects of the volume's own folders are deleted; what else is there stays, and is named.

use futures_util::stream::{self, StreamExt as _};
use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use serde::Serialize;

use super::{list, on_runtime};
use crate::error::BucketError;
use crate::store::{RetryPolicy, StoreAccess, StoreOptions, read_header, retry};
use crate::uri::BucketUri;
use crate::volume::{VolumeOptions, open_on};

/// Objects that are deleted at a time.
const DELETES_MAX: usize = 16;

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
    match read_header(access).await {
        Ok(_) => take_over(access).await?,
        // What is left of an interrupted delete.
        Err(error @ BucketError::NoVolume { .. }) => {
            let [data, _, index] = access.names.contents();
            if list(access, &data).await?.is_empty() && list(access, &index).await?.is_empty() {
                return Err(error);
            }
        }
        Err(error) => return Err(error),
    }
    let names = &access.names;
    let (mut objects, mut bytes) = (0, 0);
    let mut headers = list(access, &names.headers()).await?;
    headers.sort_by(|one, other| one.location.cmp(&other.location));
    for header in headers {
        delete_object(access, &header.location).await?;
        objects += 1;
        bytes += header.size;
    }
    for folder in names.contents() {
        let found = list(access, &folder).await?;
        let deletes = found.iter();
        let deletes = deletes.map(|object| delete_object(access, &object.location));
        let deletes: Vec<_> = deletes.collect();
        let mut deletes = stream::iter(deletes).buffer_unordered(DELETES_MAX);
        while let Some(deleted) = deletes.next().await {
            deleted?;
        }
        drop(deletes);
        objects += found.len() as u64;
        bytes += found.iter().map(|object| object.size).sum::<u64>();
    }
    let left = list(access, names.root()).await?;
    Ok(DeletedVolume {
        uri: access.uri.clone(),
        objects,
        bytes,
        left: left
            .iter()
            .map(|object| object.location.to_string())
            .collect(),
    })
}

/// Opens the volume for writing, so that no other server has it.
async fn take_over(access: &StoreAccess) -> Result<(), BucketError> {
    let runtime = tokio::runtime::Handle::current();
    let volume = open_on(access.clone(), &VolumeOptions::default(), runtime).await?;
    volume.close().await
}

async fn delete_object(access: &StoreAccess, path: &Path) -> Result<(), BucketError> {
    let delete = || async {
        match access.store.delete(path).await {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            deleted => deleted,
        }
    };
    let deleted = retry(RetryPolicy::OPEN, &access.uri, delete).await;
    deleted.map_err(|error| BucketError::store(&access.uri, "delete an object", error))
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
