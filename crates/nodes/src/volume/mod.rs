//! `volume`: LVM2 volume groups. As yet what physical volumes say of them is read, and nothing else.
//!
//! # What it does not do
//!
//! It activates no volume: it returns metadata as they are, and the caller decides.

pub mod format;
mod movable;
pub mod raid;
pub mod snapshot;
pub mod thin;
mod write_gate;

use block::{IoError, Node, Range};

use self::format::{AREA_HEADER_LEN, Header, LABEL_PLACE_LEN, VolumeGroup, VolumeProblem};
use crate::read::read_within;

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
    let start = read_within(disk, Range::new(0, LABEL_PLACE_LEN)).await?;
    let header = match Header::decode(&start) {
        Ok(None) => return Ok(None),
        Err(problem) => return Ok(Some(Err(problem))),
        Ok(Some(header)) => header,
    };
    let (mut group, mut problems) = (None, Vec::new());
    for area in &header.metadata_areas {
        match metadata(disk, *area).await? {
            Ok(None) => {}
            Ok(Some(found)) => group = newer(group, found),
            Err(problem) => problems.push(problem),
        }
    }
    Ok(Some(Ok(PhysicalVolume {
        header,
        group,
        problems,
    })))
}

/// The one with the higher sequence number.
fn newer(old: Option<VolumeGroup>, new: VolumeGroup) -> Option<VolumeGroup> {
    match old {
        Some(old) if old.sequence >= new.sequence => Some(old),
        _ => Some(new),
    }
}

/// The metadata in one area; `None` where nothing was ever written.
async fn metadata(
    disk: &Node,
    area: Range,
) -> Result<Result<Option<VolumeGroup>, VolumeProblem>, IoError> {
    let header = read_within(disk, Range::new(area.offset, AREA_HEADER_LEN)).await?;
    let text = match format::text_place(area, &header) {
        Ok(None) => return Ok(Ok(None)),
        Ok(Some(text)) => text,
        Err(problem) => return Ok(Err(problem)),
    };
    let mut bytes = Vec::new();
    for piece in text.pieces() {
        bytes.extend(read_within(disk, piece).await?);
    }
    Ok(text.decode(&bytes).map(Some))
}

#[cfg(test)]
mod tests;
