//! What is done with a volume as a whole: made, shown, grown, checked, deleted.
//!
//! # Invariants
//!
//! * `delete` takes a volume over from the server that has it open, and `create_snapshot` if its options permit that; nothing else does.
//!   `status`, `check` and `list_snapshots` write nothing.

mod check;
mod create;
mod delete;
mod grow;
mod snapshot;
mod status;

use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore as _};

#[cfg(test)]
pub(crate) use self::check::check_on;
pub use self::check::{CheckOptions, CheckReport, check};
#[cfg(test)]
pub(crate) use self::create::create_on;
pub use self::create::{CreatedVolume, create};
#[cfg(test)]
pub(crate) use self::delete::delete_on;
pub use self::delete::{DeletedVolume, delete};
#[cfg(test)]
pub(crate) use self::grow::grow_on;
pub use self::grow::{GrownVolume, grow};
pub use self::snapshot::{
    BucketSnapshot, SnapshotOptions, create_snapshot, delete_snapshot, list_snapshots,
};
#[cfg(test)]
pub(crate) use self::snapshot::{create_snapshot_on, delete_snapshot_on, list_snapshots_on};
#[cfg(test)]
pub(crate) use self::status::status_on;
pub use self::status::{VolumeStatus, status};
use crate::error::BucketError;
use crate::runtime;
use crate::store::{RetryPolicy, StoreAccess, retry};
use crate::volume::{VolumeOptions, open_on};

/// Does `work` on the runtime of the volumes.
async fn on_runtime<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    engine::join(runtime::handle().spawn(work)).await
}

/// Opens the volume for writing and closes it: no other server has it then, and its index has all of its log in tables.
async fn take_over(access: &StoreAccess) -> Result<(), BucketError> {
    let runtime = tokio::runtime::Handle::current();
    let volume = open_on(access.clone(), &VolumeOptions::default(), runtime).await?;
    volume.close().await
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
