//! [`grow`]: another header with a larger size. A server that has the volume open finds it when the export is refreshed.

use serde::Serialize;

use super::on_runtime;
use crate::error::BucketError;
use crate::format::{VolumeHeader, is_size};
use crate::store::{StoreAccess, StoreOptions, create_header, read_header};
use crate::uri::BucketUri;

/// Tries, while others grow the volume at the same time.
const TRIES: usize = 5;

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GrownVolume {
    /// Where.
    pub uri: String,
    /// Its size before, bytes.
    pub size_before: u64,
    /// Its size, bytes.
    pub size: u64,
}

/// Makes a volume larger.
///
/// # Errors
/// It has that size or more, or the store fails.
pub async fn grow(
    uri: &BucketUri,
    options: &StoreOptions,
    size: u64,
) -> Result<GrownVolume, BucketError> {
    if !is_size(size) {
        return Err(BucketError::Size(size));
    }
    let access = StoreAccess::connect(uri, options, false)?;
    on_runtime(async move { grow_on(&access, size).await }).await
}

pub(crate) async fn grow_on(access: &StoreAccess, size: u64) -> Result<GrownVolume, BucketError> {
    let uri = access.uri.clone();
    let mut tries = 0;
    loop {
        let found = read_header(access).await?;
        let size_before = found.header.size;
        if size <= size_before {
            return Err(BucketError::Shrink {
                uri,
                size: size_before,
            });
        }
        // What the key authenticates has the size.
        let key = access.unlock(&found.header)?.codec().key.clone();
        let header = VolumeHeader {
            size,
            ..found.header
        };
        let header = access.seal_header(header, key.as_ref());
        if create_header(access, found.version + 1, &header).await? {
            return Ok(GrownVolume {
                uri,
                size_before,
                size,
            });
        }
        tries += 1;
        if tries == TRIES {
            return Err(BucketError::Contended { uri });
        }
    }
}
