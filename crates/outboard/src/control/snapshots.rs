//! Requests about the volume groups of a server, and their snapshots. Plain data.

use std::collections::BTreeMap;
use std::fmt;

use nodes::volume::edit::{EditStamp, NewSnapshot};
use nodes::volume::open::SnapshotChange;
use serde::{Deserialize, Serialize};

/// A group of which a server has volumes open for writing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServedGroup {
    /// Its name.
    pub(crate) name: String,
    /// Its id.
    pub(crate) id: String,
    /// Its metadata as they are.
    pub(crate) text: String,
    /// What the server calls its disks, by their names in the metadata.
    pub(crate) disks: BTreeMap<String, String>,
}

/// A change of the snapshots of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotRequest {
    /// Id of the group.
    pub(crate) group: String,
    /// The change of the metadata that the request is based on.
    pub(crate) sequence: u64,
    /// What to do.
    pub(crate) step: SnapshotStep,
    /// When, in seconds since 1970.
    pub(crate) seconds: u64,
    /// On which machine.
    pub(crate) host: String,
    /// By which command.
    pub(crate) description: String,
}

/// What can be done with snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum SnapshotStep {
    /// Create one.
    Create {
        /// Its name.
        name: String,
        /// Of what.
        origin: String,
        /// Id of its store.
        id: String,
        /// Id of its description.
        description_id: String,
        /// Extents of its store.
        extents: u64,
        /// Bytes that are copied together.
        chunk: u64,
        /// Names of physical volumes; all if empty.
        on: Vec<String>,
    },
    /// Make a store larger.
    Extend {
        /// The snapshot.
        name: String,
        /// By how many extents.
        extents: u64,
        /// Names of physical volumes; all if empty.
        on: Vec<String>,
    },
    /// Remove one.
    Remove {
        /// The snapshot.
        name: String,
    },
    /// Merge one into its origin.
    Merge {
        /// The snapshot.
        name: String,
    },
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotChanged {
    /// The metadata afterwards.
    pub(crate) text: String,
    /// Disks that did not take them, and why.
    pub(crate) failed: Vec<(String, String)>,
}

impl SnapshotRequest {
    /// What the text says about its writing.
    pub(crate) fn stamp(&self) -> EditStamp {
        EditStamp {
            seconds: self.seconds,
            host: self.host.clone(),
            description: self.description.clone(),
        }
    }

    /// The change.
    pub(crate) fn change(&self) -> SnapshotChange {
        match self.step.clone() {
            SnapshotStep::Create {
                name,
                origin,
                id,
                description_id,
                extents,
                chunk,
                on,
            } => SnapshotChange::Create(NewSnapshot {
                name,
                origin,
                id,
                description_id,
                extents,
                chunk,
                on,
                seconds: self.seconds,
                host: self.host.clone(),
            }),
            SnapshotStep::Extend { name, extents, on } => {
                SnapshotChange::Extend { name, extents, on }
            }
            SnapshotStep::Remove { name } => SnapshotChange::Remove { name },
            SnapshotStep::Merge { name } => SnapshotChange::Merge { name },
        }
    }
}

impl SnapshotStep {
    /// The snapshot with the store that gets extents.
    pub(crate) fn grows(&self) -> Option<&str> {
        match self {
            Self::Create { name, .. } | Self::Extend { name, .. } => Some(name),
            Self::Remove { .. } | Self::Merge { .. } => None,
        }
    }
}

impl From<&SnapshotChange> for SnapshotStep {
    fn from(change: &SnapshotChange) -> Self {
        match change.clone() {
            SnapshotChange::Create(new) => Self::Create {
                name: new.name,
                origin: new.origin,
                id: new.id,
                description_id: new.description_id,
                extents: new.extents,
                chunk: new.chunk,
                on: new.on,
            },
            SnapshotChange::Extend { name, extents, on } => Self::Extend { name, extents, on },
            SnapshotChange::Remove { name } => Self::Remove { name },
            SnapshotChange::Merge { name } => Self::Merge { name },
        }
    }
}

impl fmt::Display for SnapshotStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { name, origin, .. } => write!(f, "to create {name} of {origin}"),
            Self::Extend { name, extents, .. } => {
                write!(f, "to extend {name} by {extents} extents")
            }
            Self::Remove { name } => write!(f, "to remove {name}"),
            Self::Merge { name } => write!(f, "to merge {name}"),
        }
    }
}
