//! [`create`]: a new volume: its header, then an empty index.

use serde::Serialize;

use super::{is_used, on_runtime, refuse_used};
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
    refuse_used(&access).await?;
    probe(&access).await?;
    let id = VolumeId::random();
    let header = VolumeHeader {
        id,
        size,
        origins: Vec::new(),
    };
    if !create_header(&access, 1, &header).await? {
        return Err(is_used(&access, access.names.header(1)));
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
