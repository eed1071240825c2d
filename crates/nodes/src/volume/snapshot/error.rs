//! [`SnapshotError`]: why an origin or one of its snapshots cannot be used, and what to do about it.

use block::IoError;

use super::SNAPSHOTS_MAX;
use crate::OverlayError;

/// Why an origin was not opened, or a snapshot not created, removed or merged.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The store cannot be used.
    #[error("snapshot {name}: {source}")]
    Store {
        /// Name of the snapshot.
        name: String,
        /// Why.
        #[source]
        source: OverlayError,
    },
    /// A request on the store failed.
    #[error("snapshot {name}: its store failed: {source}")]
    StoreFailed {
        /// Name of the snapshot.
        name: String,
        /// How.
        #[source]
        source: IoError,
    },
    /// A request on the origin failed.
    #[error("the origin failed: {0}")]
    Origin(#[source] IoError),
    /// A chunk that the device-mapper does not have.
    #[error(
        "snapshot {name}: a chunk is a power of two from 4096 to 524288 bytes, {chunk} is none"
    )]
    Chunk {
        /// Name of the snapshot.
        name: String,
        /// What was requested, bytes.
        chunk: u64,
    },
    /// Two snapshots of one name.
    #[error("snapshot {name} exists already: choose another name")]
    Exists {
        /// The name.
        name: String,
    },
    /// No snapshot of that name.
    #[error("the origin has no snapshot {name}: the status lists those that it has")]
    NotFound {
        /// The name.
        name: String,
    },
    /// A new snapshot with a store that is in use.
    #[error(
        "snapshot {name}: its store holds changes already: wipe its first 4096 bytes if they are not \
         needed any more"
    )]
    NotEmpty {
        /// Name of the snapshot.
        name: String,
    },
    /// It is being merged, so that it is no disk of its own any more.
    #[error(
        "snapshot {name} is being merged into its origin: use the origin, which reads as the snapshot"
    )]
    Merging {
        /// Name of the snapshot.
        name: String,
    },
    /// Two snapshots are to be merged.
    #[error("snapshots {first} and {second} are both being merged: only one can be at a time")]
    TwoMerging {
        /// One of them.
        first: String,
        /// The other one.
        second: String,
    },
    /// A snapshot that is invalid cannot be merged.
    #[error(
        "snapshot {name} is being merged and is invalid: what of it was not merged is lost; remove the snapshot"
    )]
    InvalidMerge {
        /// Name of the snapshot.
        name: String,
    },
    /// A snapshot that is invalid is not extended.
    #[error(
        "snapshot {name} is invalid: {reason}; remove it, and create the next one with a larger store"
    )]
    Lost {
        /// Name of the snapshot.
        name: String,
        /// Why.
        reason: String,
    },
    /// No snapshot is being merged.
    #[error("no snapshot of the origin is being merged")]
    NothingToMerge,
    /// The origin was opened read-only.
    #[error("the origin is open read-only: open it for writing")]
    ReadOnly,
    /// More snapshots than an origin may have here.
    #[error("an origin has at most {SNAPSHOTS_MAX} snapshots: remove one first")]
    TooMany,
}
