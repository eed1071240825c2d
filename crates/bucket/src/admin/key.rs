//! [`change_key`]: the data key of a volume is sealed with another key of its user. No data is written.
//!
//! # Invariants
//!
//! * The next version of the header has the new key, and is created as any other change of it: of two at the same time one fails.
//! * Earlier versions are overwritten with that header and not deleted: none of them opens with the old key any more, and their names stay
//!   in use, so that a change which was made for one of them fails. Of a volume that is deleted meanwhile none is left.
//!
//! # What it does not do
//!
//! The data key stays as it is: with the old key and the header of before the volume can be read. Clones have headers of their own.

use std::path::Path;

use object_store::ObjectMeta;
use serde::Serialize;

use super::{delete_object, list, on_runtime, put};
use crate::error::BucketError;
use crate::format::header_version;
use crate::seal::VolumeKey;
use crate::store::{StoreAccess, StoreOptions, create_header, read_header, read_key};
use crate::uri::BucketUri;

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedKey {
    /// Where.
    pub uri: String,
    /// Its id.
    pub id: String,
}

/// Seals the data key of a volume, which the key of `options` opens, with the key in the file `new`. Servers that have it open continue.
///
/// # Errors
/// The volume is not encrypted, one of the keys cannot be used, others change the header at the same time, or the store fails. The same
/// command with the new key for both ends one that was interrupted.
pub async fn change_key(
    uri: &BucketUri,
    options: &StoreOptions,
    new: &Path,
) -> Result<ChangedKey, BucketError> {
    let new = read_key(new)?;
    let access = StoreAccess::connect(uri, options, false)?;
    on_runtime(async move { change_key_on(&access, new).await }).await
}

pub(crate) async fn change_key_on(
    access: &StoreAccess,
    new: VolumeKey,
) -> Result<ChangedKey, BucketError> {
    let uri = access.uri.clone();
    let found = read_header(access).await?;
    let Some(data_key) = access.unlock(&found.header)?.codec().key.clone() else {
        return Err(BucketError::NotEncrypted { uri });
    };
    let with_new = access.with_key(Some(new));
    let header = with_new.seal_header(found.header, Some(&data_key));
    let version = found.version + 1;
    if !create_header(access, version, &header).await? {
        return Err(BucketError::Contended { uri });
    }
    let version_of = |object: &ObjectMeta| object.location.filename().and_then(header_version);
    let mut earlier = list(access, &access.names.headers()).await?;
    earlier.retain(|object| version_of(object).is_some_and(|found| found < version));
    for object in &earlier {
        put(access, &object.location, header.encode()).await?;
    }
    // A command that deletes the volume removes the last version last.
    let now = list(access, &access.names.headers()).await?;
    if !now.iter().any(|object| version_of(object) >= Some(version)) {
        for object in &earlier {
            delete_object(access, &object.location).await?;
        }
        return Err(BucketError::NoVolume { uri });
    }
    Ok(ChangedKey {
        uri,
        id: header.id.to_string(),
    })
}
