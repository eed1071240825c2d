//! `volume`: LVM2 volume groups, and the logical volumes in them.
//!
//! ```text
//! disks ─► examine (format: label, areas, text) ─► group: one AssembledGroup for each group ─► open: a volume as a disk
//!                                                         │
//!                                                         └─► edit: the group's next text ─► update: written to the disks
//! ```
//!
//! # Invariants
//!
//! * What is on disks is understood before anything is written. What is unknown is refused by name.
//! * Reading writes nothing.
//!
//! # What it does not do
//!
//! It knows no device-mapper of the kernel: nothing is activated.

pub mod edit;
mod error;
pub mod format;
pub mod group;
mod movable;
pub mod open;
pub mod pvmove;
pub mod raid;
mod random_id;
pub mod scan;
pub mod snapshot;
pub mod thin;
pub mod update;

use block::{IoError, Node};

pub use self::error::{MissingMember, VolumeError};
use self::format::{Header, VolumeGroup, VolumeProblem};
pub use self::random_id::random_id;
use self::scan::scan;

/// What a physical volume says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhysicalVolume {
    /// Its id, and where its data and metadata are.
    pub header: Header,
    /// The volume group of the newest good metadata on this disk; `None` in an empty physical volume,
    /// or where nothing good was found.
    pub group: Option<VolumeGroup>,
    /// What is wrong with its metadata.
    pub problems: Vec<VolumeProblem>,
}

/// Looks for an LVM label on `disk` and reads what it leads to. `None`: there is none.
///
/// # Errors
/// What reading fails with. What is wrong on the disk is in the answer.
pub async fn examine(
    disk: &Node,
) -> Result<Option<Result<PhysicalVolume, VolumeProblem>>, IoError> {
    let found = scan(disk).await?;
    Ok(found.map(|found| found.map(|scan| scan.physical_volume())))
}

#[cfg(test)]
mod tests;
