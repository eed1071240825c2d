//! Writing the metadata of a group onto its physical volumes.
//!
//! ```text
//! text behind the one that counts ─► flush ─► slot 1 ─► flush ─► slot 0, slot 1 empty ─► flush
//!                       each step on all areas of all disks, before the next one begins
//! ```
//!
//! # Fault model
//!
//! * Power may be cut at any point; of what was not flushed any sectors may survive. A sector is written whole or not
//!   at all: a header is one sector.
//! * A disk may fail to take a write or a flush at any step.
//!
//! # Invariants
//!
//! * After a power cut each area has exactly the old or the new text. As soon as one has the new one, that is the
//!   group's: its sequence number is the highest.
//! * The old text stays where it is until the next change but one.
//! * Nothing is written before the text was parsed again and found to have room in every area.
//! * A disk that failed at a step gets nothing more of this change, and is reported; the change goes on as long as
//!   one area is left.
//!
//! # What it does not do
//!
//! It locks no disk: the caller has opened them for writing. Areas that LVM ignores stay as they are.

mod error;
mod label;
mod plan;
mod raid_metadata;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use block::{IoBufs, IoError, Node, Range, WriteFlags};
use bytes::Bytes;
use futures_util::future::join_all;

pub use self::error::UpdateError;
pub use self::label::{clear_areas, mark_disk_used, write_labels};
pub use self::plan::{PaddedText, PlanError, TextPlan, place_text};
pub use self::raid_metadata::clear_raid_metadata;
use super::format::{AREA_HEADER_LEN, AreaHeader, TextSlot, VolumeGroup};
use crate::Blocks;
use crate::read::read_within;

/// Unit in which metadata are written, bytes.
const SECTOR: u32 = 512;

/// A metadata area of a disk.
#[derive(Debug, Clone)]
pub struct MetadataArea {
    /// What the disk is called in messages.
    pub name: String,
    /// The disk.
    pub disk: Node,
    /// Where on it.
    pub area: Range,
    /// Its header is damaged, and is made new: what was in the area is given up.
    pub reset: bool,
}

/// A step of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateStep {
    /// The text itself.
    Text,
    /// The header names the text as the next.
    Precommit,
    /// The header names the text as the one that counts.
    Commit,
}

/// A disk that did not take a change.
#[derive(Debug)]
pub struct FailedArea {
    /// What the disk is called.
    pub name: String,
    /// The step it failed at.
    pub step: UpdateStep,
    /// Why.
    pub source: IoError,
}

/// What became of a change.
#[derive(Debug, Default)]
pub struct CommitReport {
    /// Areas that have the new text.
    pub written: usize,
    /// Disks that failed: their metadata are outdated.
    pub failed: Vec<FailedArea>,
}

/// An area on the way from the old text to the new one.
struct PendingArea {
    name: String,
    disk: Node,
    header: AreaHeader,
    plan: TextPlan,
}

/// Makes `text` the metadata of the group with these areas.
///
/// # Errors
/// [`UpdateError`]: nothing was changed, unless it is [`UpdateError::Write`].
pub async fn commit(areas: &[MetadataArea], text: &str) -> Result<CommitReport, UpdateError> {
    VolumeGroup::of(text).map_err(UpdateError::Text)?;
    let text = PaddedText::of(text);
    let mut pending = Vec::with_capacity(areas.len());
    for area in areas {
        pending.extend(prepare(area, &text).await?);
    }
    if pending.is_empty() {
        return Err(UpdateError::NoArea);
    }
    let mut report = CommitReport::default();
    for step in [UpdateStep::Text, UpdateStep::Precommit, UpdateStep::Commit] {
        pending = run_step(pending, step, &text, &mut report).await;
    }
    report.written = pending.len();
    let last = report.failed.pop_if(|_| report.written == 0);
    match last {
        Some(FailedArea { name, source, .. }) => Err(UpdateError::Write { disk: name, source }),
        None => Ok(report),
    }
}

/// Reads the header of an area and finds the place of the new text. `None`: LVM ignores it.
async fn prepare(
    area: &MetadataArea,
    text: &PaddedText,
) -> Result<Option<PendingArea>, UpdateError> {
    let name = || area.name.clone();
    let disk = sector_disk(&area.disk);
    let header = match area.reset {
        true => AreaHeader::new(area.area),
        false => {
            let place = Range::new(area.area.offset, AREA_HEADER_LEN);
            let bytes = read_within(&disk, place).await.map_err(|source| {
                let disk = name();
                UpdateError::Read { disk, source }
            })?;
            AreaHeader::decode(area.area, &bytes).map_err(|source| {
                let disk = name();
                UpdateError::Header { disk, source }
            })?
        }
    };
    if header.ignored {
        return Ok(None);
    }
    let plan = place_text(&header, text).map_err(|source| {
        let disk = name();
        UpdateError::Plan { disk, source }
    })?;
    Ok(Some(PendingArea {
        name: name(),
        disk,
        header,
        plan,
    }))
}

/// Carries out one step on all areas, makes it durable, and returns those that took it.
async fn run_step(
    pending: Vec<PendingArea>,
    step: UpdateStep,
    text: &PaddedText,
    report: &mut CommitReport,
) -> Vec<PendingArea> {
    let mut written = Vec::with_capacity(pending.len());
    for mut area in pending {
        match area.write(step, text).await {
            Ok(()) => written.push(area),
            Err(source) => report.failed.push(area.failed(step, source)),
        }
    }
    let flushed = join_all(written.iter().map(|area| area.disk.flush())).await;
    let mut durable = Vec::with_capacity(written.len());
    for (area, flushed) in written.into_iter().zip(flushed) {
        match flushed {
            Ok(()) => durable.push(area),
            Err(source) => report.failed.push(area.failed(step, source)),
        }
    }
    durable
}

impl PendingArea {
    async fn write(&mut self, step: UpdateStep, text: &PaddedText) -> Result<(), IoError> {
        match step {
            UpdateStep::Text => {
                for (place, span) in &self.plan.pieces {
                    put(&self.disk, place.offset, &text.bytes[span.clone()]).await?;
                }
                Ok(())
            }
            UpdateStep::Precommit => {
                self.header.precommitted = Some(self.plan.slot);
                self.write_header().await
            }
            UpdateStep::Commit => {
                self.header.committed = Some(self.plan.slot);
                self.header.precommitted = None::<TextSlot>;
                self.write_header().await
            }
        }
    }

    async fn write_header(&self) -> Result<(), IoError> {
        put(&self.disk, self.header.area.offset, &self.header.encode()).await
    }

    fn failed(&self, step: UpdateStep, source: IoError) -> FailedArea {
        FailedArea {
            name: self.name.clone(),
            step,
            source,
        }
    }
}

/// Writes whole sectors.
async fn put(disk: &Node, at: u64, bytes: &[u8]) -> Result<(), IoError> {
    let range = Range::new(at, bytes.len() as u64);
    let data: IoBufs = [Bytes::copy_from_slice(bytes)].into_iter().collect();
    disk.write(range, data, WriteFlags::empty()).await
}

/// The disk, with blocks of at most one sector.
fn sector_disk(disk: &Node) -> Node {
    if disk.geometry().block_size <= SECTOR {
        return disk.clone();
    }
    let smaller = Blocks::new(disk.clone(), SECTOR);
    Arc::new(smaller.expect("512 is a block size"))
}
