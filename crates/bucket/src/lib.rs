//! A volume on an object store: a disk that is as large as a bucket, and is served by any machine that reaches it.
//!
//! ```text
//! s3://BUCKET/PATH/VOLUME/
//!     volume/…   the header: what the volume is, its size
//!     index/…    where each block is: SlateDB, which is also the log and the fence
//!     data/…     immutable objects with the data of the blocks
//! ```
//!
//! * `BucketVolume` is an open volume, or a snapshot of one, a [`block::BlockDevice`]; `volume/` has its requests and commits.
//! * `create()`, `status()`, `grow()`, `check()`, `relocate()`, `gc()`, `delete()`, `create_snapshot()`, `list_snapshots()`, `delete_snapshot()`, `create_clone()`, `ensure_clone()`, `list_clones()`, `origin()`, `discard_journal()`, `change_key()`
//!   are the commands.
//! * `volume_figures()` has what the open volumes of the process requested of their stores.
//! * `format/`, `figures`, `prices`, `run_map`, `dirty`, `flush_plan`, `read_plan`, `collection_plan`, `relocation_plan`, `journal_plan` and `journal_ring` are pure.
//!
//! # Invariants
//!
//! * What a flush acknowledged is in the store. After a commit failed no later flush reports success.
//! * One writer: the volume has been lost to another one before that one's first commit; then every request fails.
//! * A store that does not create an object on condition that it is not there is never written.
//! * What a snapshot or a clone needs is not deleted: the index keeps its checkpoint, `gc()` what that refers to, and a volume with
//!   snapshots or clones is not deleted.
//! * What is compressed or encrypted is encoded by `data_codec` and `seal` (`docs/adr/0029-encryption-and-compression.md`), of which the rest
//!   of the crate knows the lengths alone.
//! * Nothing that is not understood is used: versions, kinds and checksums are compared (`format/`).
//!
//! # What this crate does not do
//!
//! It has no log, tree or consensus of its own, and caches no data: `cache(…)` does. Data objects with a little data in use are
//! rewritten on request only (`relocate()`): `gc()` deletes those alone that nothing refers to.
//!
//! Without the feature `store` it is the pure core alone, so that builds without it have none of its dependencies.

#![cfg_attr(
    not(feature = "store"),
    allow(
        dead_code,
        unused_imports,
        reason = "the core is used by the store alone, and tested without"
    )
)]
#![cfg_attr(not(test), deny(clippy::disallowed_types))]

#[cfg(feature = "store")]
mod admin;
mod collection_plan;
mod committer;
#[cfg(feature = "store")]
mod data_codec;
mod dirty;
#[cfg(feature = "store")]
mod error;
mod figures;
mod flush_plan;
mod format;
mod journal_plan;
mod journal_ring;
mod prices;
mod read_plan;
mod relocation_plan;
mod run_map;
#[cfg(feature = "store")]
mod runtime;
#[cfg(feature = "store")]
mod seal;
mod snapshot_name;
#[cfg(feature = "store")]
mod store;
#[cfg(test)]
mod tests;
mod uri;
#[cfg(feature = "store")]
mod volume;

#[cfg(feature = "store")]
pub use self::admin::{
    BucketClone, BucketJournal, BucketSnapshot, ChangedKey, CheckOptions, CheckReport,
    ClonedVolume, CollectedObject, CreateOptions, CreatedVolume, DeletedVolume, DiscardedJournal,
    GcOptions, GcReport, GrownVolume, RelocateOptions, RelocationReport, SnapshotOptions,
    VolumeStatus, change_key, check, create, create_clone, create_snapshot, delete,
    delete_snapshot, discard_journal, ensure_clone, gc, grow, list_clones, list_snapshots, origin,
    relocate, status,
};
#[cfg(feature = "store")]
pub use self::error::{BucketError, VolumeFailure};
pub use self::figures::{JournalFigures, OperationFigures, StoreOperation, VolumeFigures};
pub use self::format::{
    CollectionFormatError, Compression, CompressionError, EntryFormatError, HeaderFormatError,
    JournalFormatError, MetaFormatError,
};
pub use self::journal_plan::JournalRefusal;
pub use self::prices::{Decimal, StorePrices, VolumeCost};
pub use self::relocation_plan::RelocatedPart;
#[cfg(feature = "store")]
pub use self::seal::{VolumeKey, VolumeKeyError};
pub use self::snapshot_name::{SnapshotName, SnapshotNameError, SnapshotUri, VolumeUri};
#[cfg(feature = "store")]
pub use self::store::{StoreOptions, shares_store};
pub use self::uri::{BucketUri, BucketUriError, SCHEMES};
#[cfg(feature = "store")]
pub use self::volume::{BucketVolume, VolumeJournal, VolumeOptions, close_all, volume_figures};
