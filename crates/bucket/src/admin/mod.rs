//! What is done with a volume as a whole: made, cloned, shown, grown, checked, relocated, collected, deleted; its local journal given up, and its
//! key changed.
//!
//! # Invariants
//!
//! * `delete` and `discard_journal` take a volume over from the server that has it open, and `create_snapshot` and `relocate` if their
//!   options permit that; nothing else does. `status`, `check`, `list_snapshots` and dry runs of `gc` and `relocate` write nothing.

mod check;
mod clone;
mod clone_marks;
mod create;
mod delete;
mod gc;
mod grow;
mod journal;
mod key;
mod references;
mod relocate;
mod snapshot;
mod status;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use futures_util::stream::{self, StreamExt as _};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore as _};

#[cfg(test)]
pub(crate) use self::check::check_on;
pub use self::check::{CheckOptions, CheckReport, check};
pub use self::clone::{ClonedVolume, create_clone, ensure_clone};
#[cfg(test)]
pub(crate) use self::clone::{create_clone_on, ensure_clone_on};
#[cfg(test)]
pub(crate) use self::create::create_on;
pub use self::create::{CreateOptions, CreatedVolume, create};
#[cfg(test)]
pub(crate) use self::delete::delete_on;
pub use self::delete::{DeletedVolume, delete};
pub use self::gc::{CollectedObject, GcOptions, GcReport, gc};
#[cfg(test)]
pub(crate) use self::gc::{GcRun, gc_on};
#[cfg(test)]
pub(crate) use self::grow::grow_on;
pub use self::grow::{GrownVolume, grow};
#[cfg(test)]
pub(crate) use self::journal::discard_journal_on;
pub use self::journal::{BucketJournal, DiscardedJournal, discard_journal};
#[cfg(test)]
pub(crate) use self::key::change_key_on;
pub use self::key::{ChangedKey, change_key};
#[cfg(test)]
pub(crate) use self::relocate::relocate_on;
pub use self::relocate::{RelocateOptions, RelocationReport, relocate};
pub use self::snapshot::{
    BucketSnapshot, SnapshotOptions, create_snapshot, delete_snapshot, list_snapshots,
};
#[cfg(test)]
pub(crate) use self::snapshot::{create_snapshot_on, delete_snapshot_on, list_snapshots_on};
#[cfg(test)]
pub(crate) use self::status::status_on;
pub use self::status::{BucketClone, VolumeStatus, list_clones, origin, status};
use crate::error::BucketError;
use crate::runtime;
use crate::store::{self, RetryPolicy, StoreAccess, retry};
use crate::volume::{VolumeOptions, open_on};

/// Objects that are deleted at a time.
const DELETES_MAX: usize = 16;

/// Does `work` on the runtime of the volumes.
async fn on_runtime<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    engine::join(runtime::handle().spawn(work)).await
}

/// Opens the volume for writing and closes it: no other server has it then, and its index has all of its log in tables. A volume with an
/// open journal is refused, or that is discarded.
async fn take_over(access: &StoreAccess, discards_journal: bool) -> Result<(), BucketError> {
    let runtime = tokio::runtime::Handle::current();
    let options = VolumeOptions {
        discards_journal,
        ..VolumeOptions::default()
    };
    let volume = open_on(access.clone(), &options, runtime).await?;
    volume.close().await
}

/// Refuses a folder where anything is.
async fn refuse_used(access: &StoreAccess) -> Result<(), BucketError> {
    let objects = list(access, access.names.root()).await?;
    let Some(first) = objects.first() else {
        return Ok(());
    };
    let find = |folder: String| {
        let folder = Path::from(folder);
        let mut objects = objects.iter();
        objects.find(|object| object.location.prefix_matches(&folder))
    };
    let unfinished = find(access.names.unfinished_clones());
    match (find(access.names.headers()), unfinished) {
        (None, Some(mark)) => Err(BucketError::Unfinished {
            uri: access.uri.clone(),
            found: mark.location.to_string(),
        }),
        _ => Err(is_used(access, first.location.to_string())),
    }
}

/// The error that `found` is there.
fn is_used(access: &StoreAccess, found: String) -> BucketError {
    BucketError::Exists {
        uri: access.uri.clone(),
        found,
    }
}

/// All objects of a folder; of an empty name those of the whole store.
async fn list(access: &StoreAccess, folder: &str) -> Result<Vec<ObjectMeta>, BucketError> {
    let prefix = (!folder.is_empty()).then(|| Path::from(folder));
    let list = || async {
        access
            .store
            .list(prefix.as_ref())
            .try_collect::<Vec<_>>()
            .await
    };
    let listed = retry(RetryPolicy::OPEN, &access.uri, list).await;
    listed.map_err(|error| BucketError::store(&access.uri, "list the objects", error))
}

/// Reads an object.
async fn get(access: &StoreAccess, path: &Path) -> Result<Bytes, BucketError> {
    let bytes = store::read_object(access, RetryPolicy::OPEN, path).await;
    bytes.map_err(|error| BucketError::store(&access.uri, "read an object", error))
}

/// Writes an object, also over another one.
async fn put(access: &StoreAccess, path: &Path, bytes: Vec<u8>) -> Result<(), BucketError> {
    let put = store::write_object(access, RetryPolicy::OPEN, (path, bytes.into())).await;
    put.map_err(|error| BucketError::store(&access.uri, "write an object", error))
}

/// Deletes objects, several at a time.
async fn delete_objects(access: &StoreAccess, paths: Vec<Path>) -> Result<(), BucketError> {
    let deletes = paths.iter().map(|path| delete_object(access, path));
    // A list: the stream would need its futures for any lifetime of their paths.
    let deletes: Vec<_> = deletes.collect();
    let deletes = stream::iter(deletes).buffer_unordered(DELETES_MAX);
    deletes.try_collect().await
}

/// Deletes an object, if it is there.
async fn delete_object(access: &StoreAccess, path: &Path) -> Result<(), BucketError> {
    let deleted = store::delete_object(access, RetryPolicy::OPEN, path).await;
    deleted.map_err(|error| BucketError::store(&access.uri, "delete an object", error))
}
