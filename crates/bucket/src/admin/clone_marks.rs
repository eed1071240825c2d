//! Clones that are being made or deleted: a mark in the folder of the clone has its header, and with it the origin, while anything of the
//! clone is there without a header in force.
//!
//! # Invariants
//!
//! * The mark is there before the record at the origin and before the first object, and is removed behind the last of them: an interrupted
//!   command leaves nothing that `delete` does not find.

use object_store::path::Path;

use super::delete::delete_all;
use super::{delete_object, get, list, put};
use crate::error::BucketError;
use crate::format::VolumeHeader;
use crate::store::{StoreAccess, decode_header, read_header};
use crate::volume::IndexCheckpoints;

/// The marks in a folder.
pub(super) async fn read_marks(
    access: &StoreAccess,
    folder: &str,
) -> Result<Vec<(Path, VolumeHeader)>, BucketError> {
    let mut marks = Vec::new();
    for mark in list(access, folder).await? {
        let path = mark.location;
        let bytes = get(access, &path).await?;
        let header = decode_header(access, &bytes)?;
        marks.push((path, header));
    }
    Ok(marks)
}

/// Marks a clone as unfinished.
pub(super) async fn begin(access: &StoreAccess, clone: &VolumeHeader) -> Result<(), BucketError> {
    let mark = Path::from(access.of(clone).names.unfinished_clone());
    put(access, &mark, clone.encode()).await
}

/// Removes the mark of a clone of which everything is there, or nothing.
pub(super) async fn end(access: &StoreAccess, clone: &VolumeHeader) -> Result<(), BucketError> {
    let mark = Path::from(access.of(clone).names.unfinished_clone());
    delete_object(access, &mark).await
}

/// Removes a clone at its origin, when its objects are gone; then its header, if a command that was making it has created that
/// meanwhile; then the mark.
pub(super) async fn release(access: &StoreAccess, clone: &VolumeHeader) -> Result<(), BucketError> {
    if let Some(origin) = clone.origins.last() {
        let origin = access.of_origin(origin);
        IndexCheckpoints::of(&origin).remove_clone(clone.id).await?;
    }
    match read_header(access).await {
        Ok(found) if found.header.id == clone.id => {
            delete_all(access, &access.names.headers()).await?;
        }
        Ok(_) | Err(BucketError::NoVolume { .. }) => {}
        Err(error) => return Err(error),
    }
    end(access, clone).await
}

/// Removes all of a clone that never had a header.
pub(super) async fn remove(access: &StoreAccess, clone: &VolumeHeader) -> Result<(), BucketError> {
    let access = &access.of(clone);
    IndexCheckpoints::of(access).unpin_origins().await?;
    delete_all(access, &access.names.index()).await?;
    release(access, clone).await
}
