//! The header of a volume in its store: the version in force, and the next one.

use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{Error, ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions};

use super::connect::StoreAccess;
use super::retry::{RetryPolicy, retry};
use crate::error::BucketError;
use crate::format::{JOURNAL_MARK, VolumeHeader, header_version};

/// The header in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundHeader {
    /// Its version.
    pub(crate) version: u64,
    /// The header.
    pub(crate) header: VolumeHeader,
    /// The volume may have an open journal.
    pub(crate) has_journal_mark: bool,
}

/// Reads the header with the largest version.
///
/// # Errors
/// There is none, it is not understood, or the store fails.
pub(crate) async fn read_header(access: &StoreAccess) -> Result<FoundHeader, BucketError> {
    let folder = Path::from(access.names.headers());
    let list = || async {
        let listed = access.store.list(Some(&folder));
        listed.try_collect::<Vec<_>>().await
    };
    let objects = retry(RetryPolicy::OPEN, &access.uri, list)
        .await
        .map_err(|error| BucketError::store(&access.uri, "list the header", error))?;
    let mut names = objects.iter().filter_map(|meta| meta.location.filename());
    let Some(version) = names.clone().filter_map(header_version).max() else {
        let uri = access.uri.clone();
        return Err(BucketError::NoVolume { uri });
    };
    let path = Path::from(access.names.header(version));
    let read = || async { access.store.get(&path).await?.bytes().await };
    let bytes = retry(RetryPolicy::OPEN, &access.uri, read)
        .await
        .map_err(|error| BucketError::store(&access.uri, "read the header", error))?;
    let header = decode_header(access, &bytes)?;
    Ok(FoundHeader {
        version,
        header,
        has_journal_mark: names.any(|name| name == JOURNAL_MARK),
    })
}

/// The header with these bytes.
///
/// # Errors
/// It is not understood.
pub(crate) fn decode_header(
    access: &StoreAccess,
    bytes: &[u8],
) -> Result<VolumeHeader, BucketError> {
    VolumeHeader::decode(bytes).map_err(|source| BucketError::Header {
        uri: access.uri.clone(),
        source,
    })
}

/// Makes `header` the one in force with this version. False if that version is another header.
///
/// # Errors
/// The store fails.
pub(crate) async fn create_header(
    access: &StoreAccess,
    version: u64,
    header: &VolumeHeader,
) -> Result<bool, BucketError> {
    let path = Path::from(access.names.header(version));
    let bytes = header.encode();
    let create = || async {
        let options = PutOptions::from(PutMode::Create);
        let payload = bytes.clone().into();
        match access.store.put_opts(&path, payload, options).await {
            Ok(_) => Ok(true),
            // An earlier try may have been carried out and not answered.
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
                let found = access.store.get(&path).await?;
                Ok(found.bytes().await? == bytes)
            }
            Err(error) => Err(error),
        }
    };
    retry(RetryPolicy::OPEN, &access.uri, create)
        .await
        .map_err(|error| BucketError::store(&access.uri, "write the header", error))
}
