//! [`create`]: a new volume: its header, then an empty index.

use serde::Serialize;

use super::{list, on_runtime};
use crate::error::BucketError;
use crate::format::{VolumeHeader, VolumeId, is_size};
use crate::store::{StoreAccess, StoreOptions, create_header, probe};
use crate::uri::BucketUri;
use crate::volume::{VolumeOptions, open_on};

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CreatedVolume {
    /// Where.
    pub uri: String,
    /// Its id.
    pub id: String,
    /// Its size, bytes.
    pub size: u64,
}

/// Makes a volume of `size` zeroes.
///
/// # Errors
/// Something is there already, the store cannot be used, or no volume has this size.
pub async fn create(
    uri: &BucketUri,
    options: &StoreOptions,
    size: u64,
) -> Result<CreatedVolume, BucketError> {
    if !is_size(size) {
        return Err(BucketError::Size(size));
    }
    let access = StoreAccess::connect(uri, options, true)?;
    on_runtime(async move { create_on(access, size).await }).await
}

pub(crate) async fn create_on(
    access: StoreAccess,
    size: u64,
) -> Result<CreatedVolume, BucketError> {
    let exists = |found: String| BucketError::Exists {
        uri: access.uri.clone(),
        found,
    };
    if let Some(object) = list(&access, access.names.root()).await?.first() {
        return Err(exists(object.location.to_string()));
    }
    probe(&access).await?;
    let id = VolumeId::random();
    if !create_header(&access, 1, &VolumeHeader { id, size }).await? {
        return Err(exists(access.names.header(1)));
    }
    let created = CreatedVolume {
        uri: access.uri.clone(),
        id: id.to_string(),
        size,
    };
    let runtime = tokio::runtime::Handle::current();
    let volume = open_on(access, &VolumeOptions::default(), runtime).await?;
    volume.close().await?;
    Ok(created)
}
