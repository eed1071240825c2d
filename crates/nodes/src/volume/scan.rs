//! What the label and each metadata area of a disk hold: what everything else about a physical volume is derived from.

use block::{IoError, Node, Range};

use super::PhysicalVolume;
use crate::read::read_within;
use crate::volume::format::{
    AREA_HEADER_LEN, AreaHeader, Header, LABEL_PLACE_LEN, VolumeGroup, VolumeProblem, text_place,
};

/// A physical volume and its metadata areas.
#[derive(Debug, Clone)]
pub struct DiskScan {
    /// What its label says.
    pub header: Header,
    /// Its areas, in the label's order.
    pub areas: Vec<AreaScan>,
}

/// A metadata area.
#[derive(Debug, Clone)]
pub struct AreaScan {
    /// Where it is.
    pub area: Range,
    /// Its header.
    pub header: Result<AreaHeader, VolumeProblem>,
    /// The text that counts; `None` if nothing was written, or the area is ignored.
    pub text: Result<Option<AreaText>, VolumeProblem>,
}

/// A text with a good checksum.
#[derive(Debug, Clone)]
pub struct AreaText {
    /// The text itself.
    pub text: String,
    /// What it says.
    pub group: VolumeGroup,
}

impl DiskScan {
    /// The newest text of its areas.
    #[must_use]
    pub fn newest(&self) -> Option<&AreaText> {
        let texts = self
            .areas
            .iter()
            .filter_map(|area| area.text.as_ref().ok()?.as_ref());
        // Of equal ones the first, as LVM has it.
        texts.reduce(
            |best, text| match text.group.sequence > best.group.sequence {
                true => text,
                false => best,
            },
        )
    }

    /// What the disk says of itself and its group.
    #[must_use]
    pub fn physical_volume(&self) -> PhysicalVolume {
        let problems = self
            .areas
            .iter()
            .filter_map(|area| area.text.as_ref().err());
        PhysicalVolume {
            header: self.header.clone(),
            group: self.newest().map(|text| text.group.clone()),
            problems: problems.cloned().collect(),
        }
    }
}

/// Reads label and metadata areas of `disk`. `None`: it is no physical volume.
///
/// # Errors
/// What reading fails with. What is wrong on the disk is in the result.
pub async fn scan(disk: &Node) -> Result<Option<Result<DiskScan, VolumeProblem>>, IoError> {
    let start = read_within(disk, Range::new(0, LABEL_PLACE_LEN)).await?;
    let header = match Header::decode(&start) {
        Ok(None) => return Ok(None),
        Ok(Some(header)) => header,
        Err(problem) => return Ok(Some(Err(problem))),
    };
    let mut areas = Vec::with_capacity(header.metadata_areas.len());
    for area in &header.metadata_areas {
        areas.push(scan_area(disk, *area).await?);
    }
    Ok(Some(Ok(DiskScan { header, areas })))
}

/// Reads the header of an area, and the text that counts.
///
/// # Errors
/// What reading fails with.
async fn scan_area(disk: &Node, area: Range) -> Result<AreaScan, IoError> {
    let bytes = read_within(disk, Range::new(area.offset, AREA_HEADER_LEN)).await?;
    let header = AreaHeader::decode(area, &bytes);
    let text = match text_place(area, &bytes) {
        Ok(None) => Ok(None),
        Err(problem) => Err(problem),
        Ok(Some(place)) => {
            let mut bytes = Vec::new();
            for piece in place.pieces() {
                bytes.extend(read_within(disk, piece).await?);
            }
            place.text(&bytes).and_then(|text| {
                let group = VolumeGroup::of(&text)?;
                Ok(Some(AreaText { text, group }))
            })
        }
    };
    Ok(AreaScan { area, header, text })
}
