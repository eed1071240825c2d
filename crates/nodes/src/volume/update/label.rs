//! Making a disk a physical volume, marking it as part of a group, and taking it out of one.
//!
//! # Invariants
//!
//! * A label is written behind a header of its metadata area that names no text: at any time the disk is what it was
//!   before, nothing, or an empty physical volume.
//! * A new physical volume is no member of an array of md: a superblock that was left, also one at its end, would make it one
//!   for all that look for arrays first.

use block::{IoError, Node, Range};

use super::{UpdateError, put, sector_disk};
use crate::array::wipe_superblocks;
use crate::read::read_within;
use crate::volume::format::{AreaHeader, LABEL_PLACE_LEN, NewLabel, VolumeProblem, mark_used};

/// Bytes of a new metadata area that become zeroes first, header included.
const WIPED_LEN: usize = 4096;

/// Makes each disk an empty physical volume; durable when it returns.
///
/// # Errors
/// [`UpdateError::Label`] with the disk that failed.
pub async fn write_labels(disks: &[(&str, &Node, &NewLabel)]) -> Result<(), UpdateError> {
    for (name, disk, label) in disks {
        let written = write_label(&sector_disk(disk), label).await;
        written.map_err(|source| failed(name, source))?;
    }
    Ok(())
}

async fn write_label(disk: &Node, label: &NewLabel) -> Result<(), IoError> {
    wipe_superblocks(disk).await?;
    // The label of an earlier physical volume must not lead to the area while that is being made.
    let empty = vec![0; Range::new(0, LABEL_PLACE_LEN).len_usize()];
    put(disk, 0, &empty).await?;
    disk.flush().await?;
    let mut area = AreaHeader::new(NewLabel::METADATA_AREA).encode();
    area.resize(WIPED_LEN, 0);
    put(disk, NewLabel::METADATA_AREA.offset, &area).await?;
    disk.flush().await?;
    let sectors = label.encode(false);
    put(disk, sectors.offset, &sectors.bytes).await?;
    disk.flush().await
}

/// Makes the label of a disk say whether it is part of a group; durable when it returns. Labels of old physical
/// volumes cannot say it, and stay.
///
/// # Errors
/// [`UpdateError::Label`] if it cannot be read or written, or [`UpdateError::Header`] if it is damaged.
pub async fn mark_disk_used(name: &str, disk: &Node, used: bool) -> Result<(), UpdateError> {
    let disk = sector_disk(disk);
    let start = read_within(&disk, Range::new(0, LABEL_PLACE_LEN)).await;
    let start = start.map_err(|source| failed(name, source))?;
    let sector = mark_used(&start, used).map_err(|source| damaged(name, source))?;
    let Some(sector) = sector else {
        return Ok(());
    };
    let written = async {
        put(&disk, sector.offset, &sector.bytes).await?;
        disk.flush().await
    };
    written.await.map_err(|source| failed(name, source))
}

/// Makes the metadata areas of a disk name no text: what a disk gets that is taken out of its group. Its texts stay.
///
/// # Errors
/// [`UpdateError::Label`] if one cannot be written.
pub async fn clear_areas(name: &str, disk: &Node, areas: &[Range]) -> Result<(), UpdateError> {
    let disk = sector_disk(disk);
    let cleared = async {
        for area in areas {
            put(&disk, area.offset, &AreaHeader::new(*area).encode()).await?;
        }
        disk.flush().await
    };
    cleared.await.map_err(|source| failed(name, source))
}

fn failed(disk: &str, source: IoError) -> UpdateError {
    let disk = disk.to_owned();
    UpdateError::Label { disk, source }
}

fn damaged(disk: &str, source: VolumeProblem) -> UpdateError {
    let disk = disk.to_owned();
    UpdateError::Header { disk, source }
}
