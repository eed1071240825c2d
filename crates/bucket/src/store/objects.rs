//! Objects that are read, written and deleted whole, again after a failure. Writes are of the same bytes, also over another object.

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt as _, PutPayload};

use super::connect::StoreAccess;
use super::retry::{RetryPolicy, retry};

/// Reads an object.
pub(crate) async fn read_object(
    access: &StoreAccess,
    policy: RetryPolicy,
    path: &Path,
) -> Result<Bytes, Error> {
    let get = || async { access.store.get(path).await?.bytes().await };
    retry(policy, &access.uri, get).await
}

/// Writes an object.
pub(crate) async fn write_object(
    access: &StoreAccess,
    policy: RetryPolicy,
    (path, payload): (&Path, PutPayload),
) -> Result<(), Error> {
    let put = || async { access.store.put(path, payload.clone()).await };
    retry(policy, &access.uri, put).await.map(drop)
}

/// Deletes an object, if it is there.
pub(crate) async fn delete_object(
    access: &StoreAccess,
    policy: RetryPolicy,
    path: &Path,
) -> Result<(), Error> {
    let delete = || async {
        match access.store.delete(path).await {
            Err(Error::NotFound { .. }) => Ok(()),
            deleted => deleted,
        }
    };
    retry(policy, &access.uri, delete).await
}
