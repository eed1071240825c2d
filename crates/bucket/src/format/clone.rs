//! [`Origin`]: where a clone finds what it has of another volume, in its header; [`CloneRecord`]: a clone, in the index of its origin.
//!
//! # Invariants
//!
//! * The generations of a clone's writers are larger than those of its origins, and those of an origin's own writers are not smaller than
//!   those of the origins before it: the generation of a data object decides its folder.
//! * A record is a checkpoint that never expires. Programs that do not know it neither use it nor delete the volume, and the collection of
//!   the index keeps its tables, with the snapshot and without it.

use serde::{Deserialize, Serialize};

use super::VolumeId;
use crate::snapshot_name::SnapshotName;
use crate::uri::is_folder;

/// A volume of which a clone has data objects, and the snapshot that it was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The folder of the volume in the store.
    pub(crate) path: String,
    /// Which volume it is.
    pub(crate) id: VolumeId,
    /// The snapshot.
    pub(crate) snapshot: SnapshotName,
    /// The last writer of the snapshot: data objects of up to this generation, and above that of the origin before, are in its folder.
    pub(crate) generation: u32,
}

/// As JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OriginJson {
    path: String,
    id: String,
    snapshot: String,
    generation: u32,
}

impl Origin {
    pub(super) fn to_json(&self) -> OriginJson {
        OriginJson {
            path: self.path.clone(),
            id: self.id.to_string(),
            snapshot: self.snapshot.to_string(),
            generation: self.generation,
        }
    }

    fn from_json(json: &OriginJson) -> Option<Self> {
        // The folder of a volume has a name, and is not the store itself.
        is_folder(&json.path).then_some(())?;
        Some(Self {
            path: json.path.clone(),
            id: VolumeId::parse(&json.id)?,
            snapshot: json.snapshot.parse().ok()?,
            generation: json.generation,
        })
    }
}

/// The origins of a clone, the first one first. `None` if they are none that a clone can have.
pub(super) fn origins(json: &[OriginJson]) -> Option<Vec<Origin>> {
    let origins: Option<Vec<Origin>> = json.iter().map(Origin::from_json).collect();
    origins.filter(|origins| {
        let is_sorted = origins.is_sorted_by_key(|origin| origin.generation);
        is_sorted && !origins.is_empty()
    })
}

/// What the name of a clone's checkpoint begins with; then its version, the id of the clone, the snapshot, and the folder of the clone.
const PREFIX: &str = "outboard-clone/1/";

/// A clone of a snapshot, as its origin has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CloneRecord {
    /// Which volume the clone is.
    pub(crate) id: VolumeId,
    /// The snapshot.
    pub(crate) snapshot: SnapshotName,
    /// The folder of the clone in the store.
    pub(crate) path: String,
}

impl CloneRecord {
    /// As the name of a checkpoint.
    pub(crate) fn encode(&self) -> String {
        format!("{PREFIX}{}/{}/{}", self.id, self.snapshot, self.path)
    }

    /// The record that a checkpoint has as its name, if it is one.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let (id, rest) = text.strip_prefix(PREFIX)?.split_once('/')?;
        let (snapshot, path) = rest.split_once('/')?;
        is_folder(path).then_some(())?;
        Some(Self {
            id: VolumeId::parse(id)?,
            snapshot: snapshot.parse().ok()?,
            path: path.to_owned(),
        })
    }
}
