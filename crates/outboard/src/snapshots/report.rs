//! [`SnapshotReport`]: a snapshot and how full its store is, as JSON and in words. Pure.

use indicatif::HumanBytes;
use nodes::volume::format::VolumeGroup;
use nodes::volume::open::SnapshotOwner;
use nodes::volume::snapshot::{SnapshotState, SnapshotStatus};
use serde::{Deserialize, Serialize};

/// Whether a snapshot can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SnapshotHealth {
    /// It reads as its origin was.
    Valid,
    /// It was lost; its origin goes on.
    Invalid,
    /// It is being merged into its origin.
    Merging,
    /// Its store cannot be read here.
    Unknown,
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotReport {
    /// Name of its volume group.
    pub(crate) group: String,
    /// The volume that it is a snapshot of.
    pub(crate) origin: String,
    /// Its name.
    pub(crate) name: String,
    /// Whether it can be used.
    pub(crate) state: SnapshotHealth,
    /// Why not.
    pub(crate) why: Option<String>,
    /// Bytes of the snapshot as a disk.
    pub(crate) size: u64,
    /// Bytes of its store.
    pub(crate) store_size: u64,
    /// Bytes of the store that are used, its tables among them.
    pub(crate) used: u64,
    /// How full the store is, in tenths of a percent; 1000 where the snapshot is invalid. `None`: it is not known.
    pub(crate) per_mille: Option<u64>,
    /// Bytes that are copied together.
    pub(crate) chunk: u64,
}

impl SnapshotReport {
    /// A snapshot of `group`, by what its store says or why that cannot be read.
    pub(crate) fn of(
        group: &VolumeGroup,
        owner: &SnapshotOwner,
        status: &Result<SnapshotStatus, String>,
    ) -> Self {
        let bytes = |name: &str| {
            let volume = group.volume(name);
            volume.map_or(0, |volume| group.bytes(volume.extents()))
        };
        let (state, why) = match status {
            Err(why) => (SnapshotHealth::Unknown, Some(why.clone())),
            Ok(status) => match &status.state {
                SnapshotState::Valid => (SnapshotHealth::Valid, None),
                SnapshotState::Merging => (SnapshotHealth::Merging, None),
                SnapshotState::Invalid(why) => (SnapshotHealth::Invalid, Some(why.clone())),
            },
        };
        let known = status.as_ref().ok();
        Self {
            group: group.name.clone(),
            origin: owner.origin.clone(),
            name: owner.name.clone(),
            state,
            why,
            size: bytes(&owner.origin),
            store_size: bytes(&owner.name),
            used: known.map_or(0, |status| status.used.saturating_mul(status.chunk)),
            per_mille: known.map(SnapshotStatus::per_mille),
            chunk: known.map_or(0, |status| status.chunk),
        }
    }

    /// How full it is: `12.5 %`.
    pub(crate) fn full(&self) -> String {
        match self.per_mille {
            Some(tenths) => format!("{}.{} %", tenths / 10, tenths % 10),
            None => "?".to_owned(),
        }
    }

    /// Its state in words.
    pub(crate) fn health(&self) -> String {
        match (self.state, &self.why) {
            (SnapshotHealth::Valid, _) => "valid".to_owned(),
            (SnapshotHealth::Merging, _) => "merging".to_owned(),
            (SnapshotHealth::Invalid, Some(why)) => format!("invalid: {why}"),
            (SnapshotHealth::Invalid, None) => "invalid".to_owned(),
            (SnapshotHealth::Unknown, Some(why)) => format!("unknown: {why}"),
            (SnapshotHealth::Unknown, None) => "unknown".to_owned(),
        }
    }

    /// One line about it.
    pub(crate) fn line(&self) -> String {
        let Self {
            group,
            origin,
            name,
            ..
        } = self;
        format!("snapshot {group}/{name} of {origin}: {}", self.fill())
    }

    /// How full its store is, and what is wrong.
    pub(crate) fn fill(&self) -> String {
        let fill = format!("{} of {} full", self.full(), HumanBytes(self.store_size));
        match self.state {
            SnapshotHealth::Valid => fill,
            _ => format!("{fill}, {}", self.health()),
        }
    }
}
