//! Requests about moves of extents of a server's volume groups. Plain data.

use nodes::volume::edit::{EditStamp, MoveRequest};
use nodes::volume::open::LiveMoveOptions;
use serde::{Deserialize, Serialize};

use crate::volume_moves::report::MoveReport;

/// A change of the move of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveExtents {
    /// Id of the group.
    pub(crate) group: String,
    /// The change of the metadata that the request is based on.
    pub(crate) sequence: u64,
    /// What to do.
    pub(crate) step: MoveStep,
    /// When, in seconds since 1970.
    pub(crate) seconds: u64,
    /// On which machine.
    pub(crate) host: String,
    /// By which command.
    pub(crate) description: String,
}

/// What can be done with moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum MoveStep {
    /// Begin one.
    Begin {
        /// The physical volume to move extents away from.
        from: String,
        /// Physical volumes that may be used; all others if empty.
        to: Vec<String>,
        /// Only the extents of this volume.
        volume: Option<String>,
        /// Id of the volume that describes the move.
        id: String,
        /// Most bytes a second.
        bytes_per_second: Option<u64>,
    },
    /// Resume the one that was interrupted.
    Resume {
        /// Most bytes a second.
        bytes_per_second: Option<u64>,
    },
    /// End it.
    Abort,
}

/// A move after a request about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MoveChanged {
    /// The group's metadata.
    pub(crate) text: String,
    /// The move, if this server has run one.
    pub(crate) report: Option<MoveReport>,
}

impl MoveExtents {
    /// What the texts say about their writing.
    pub(crate) fn stamp(&self) -> EditStamp {
        EditStamp {
            seconds: self.seconds,
            host: self.host.clone(),
            description: self.description.clone(),
        }
    }

    /// The move to begin, if one is.
    pub(crate) fn request(&self) -> Option<MoveRequest> {
        match &self.step {
            MoveStep::Begin {
                from,
                to,
                volume,
                id,
                ..
            } => Some(MoveRequest {
                from: from.clone(),
                to: to.clone(),
                volume: volume.clone(),
                id: id.clone(),
                seconds: self.seconds,
                host: self.host.clone(),
            }),
            MoveStep::Resume { .. } | MoveStep::Abort => None,
        }
    }

    /// How it is made.
    pub(crate) fn options(&self) -> LiveMoveOptions {
        LiveMoveOptions {
            bytes_per_second: match self.step {
                MoveStep::Begin {
                    bytes_per_second, ..
                }
                | MoveStep::Resume { bytes_per_second } => bytes_per_second,
                MoveStep::Abort => None,
            },
            stamp: self.stamp(),
        }
    }
}
