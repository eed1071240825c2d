//! [`create`]: a new volume: its header, then an empty index.

use serde::Serialize;

use super::{is_used, on_runtime, refuse_used};
use crate::error::BucketError;
use crate::format::{CIPHER, Compression, VolumeHeader, VolumeId, is_size};
use crate::seal::DataKey;
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
    /// What its data is compressed with.
    pub compression: Option<Compression>,
    /// The cipher of its data and its index, if they are encrypted.
    pub encryption: Option<&'static str>,
}

/// What is made. With the key of `StoreOptions` it is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateOptions {
    /// Its size, bytes.
    pub size: u64,
    /// What its data is compressed with.
    pub compression: Option<Compression>,
}

/// Makes a volume of zeroes.
///
/// # Errors
/// Something is there already, the store cannot be used, or no volume has this size.
pub async fn create(
    uri: &BucketUri,
    options: &StoreOptions,
    what: CreateOptions,
) -> Result<CreatedVolume, BucketError> {
    if !is_size(what.size) {
        return Err(BucketError::Size(what.size));
    }
    let access = StoreAccess::connect(uri, options, true)?;
    on_runtime(async move { create_on(access, what).await }).await
}

pub(crate) async fn create_on(
    access: StoreAccess,
    what: CreateOptions,
) -> Result<CreatedVolume, BucketError> {
    refuse_used(&access).await?;
    probe(&access).await?;
    let id = VolumeId::random();
    let header = VolumeHeader {
        id,
        size: what.size,
        origins: Vec::new(),
        compression: what.compression,
        sealed_key: None,
    };
    let data_key = access.key.is_some().then(DataKey::random);
    let header = access.seal_header(header, data_key.as_ref());
    if !create_header(&access, 1, &header).await? {
        return Err(is_used(&access, access.names.header(1)));
    }
    let created = CreatedVolume {
        uri: access.uri.clone(),
        id: id.to_string(),
        size: what.size,
        compression: what.compression,
        encryption: header.sealed_key.map(|_| CIPHER),
    };
    let runtime = tokio::runtime::Handle::current();
    let volume = open_on(access, &VolumeOptions::default(), runtime).await?;
    volume.close().await?;
    Ok(created)
}
