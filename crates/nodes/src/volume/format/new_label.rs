//! [`NewLabel`]: the label, the header and its extension of a new physical volume; and the flag in the extension
//! that says whether it is part of a group.
//!
//! ```text
//! sector 1:  0 "LABELONE"   8 sector   16 checksum of byte 20 on   20 offset of the header (32)   24 "LVM2 001"
//!           32 id  64 size of the disk  72 data areas, zero item, metadata areas, zero item,
//!              extension: version 2, flags (1: part of a group), bootloader areas, zero item
//! ```

use block::Range;

use super::label::{CHECKED_FROM, HEADER_LEN, ITEM_LEN, KIND, LABEL, SECTOR_LEN, USED};
use super::{Header, LABEL_PLACE_LEN, SECTOR, VolumeProblem, checksum};
use crate::fields::{Fields, put};

/// The sector that LVM writes a new label to.
const LABEL_SECTOR: u64 = 1;
/// Where in its sector the header begins.
const HEADER_AT: usize = 32;
/// The version of the extension that has the flag of being used.
const EXTENSION_VERSION: u32 = 2;
/// Where a new physical volume has its metadata, and its data, as LVM lays it out for a disk with blocks of up to 4 KiB.
const METADATA_AT: u64 = 4096;
const DATA_AT: u64 = 1 << 20;
/// Characters of an id, without dashes.
const ID_LEN: usize = 32;

/// What the label of a new physical volume says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLabel {
    id: [u8; ID_LEN],
    size: u64,
}

/// Bytes to write at a place of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedBytes {
    /// First byte.
    pub offset: u64,
    /// What goes there.
    pub bytes: Vec<u8>,
}

impl NewLabel {
    /// Where the metadata of a new physical volume are.
    pub const METADATA_AREA: Range = Range {
        offset: METADATA_AT,
        len: DATA_AT - METADATA_AT,
    };
    /// Where its extents begin.
    pub const DATA_START: u64 = DATA_AT;

    /// The label of a disk of `size` bytes; `id` with or without dashes.
    ///
    /// # Errors
    /// [`VolumeProblem::Field`] if the id is none.
    pub fn new(id: &str, size: u64) -> Result<Self, VolumeProblem> {
        let bytes: Vec<u8> = id.bytes().filter(|byte| *byte != b'-').collect();
        let bytes = <[u8; ID_LEN]>::try_from(bytes).map_err(|_| VolumeProblem::Field {
            field: "length of the id",
            value: id.len() as u64,
        })?;
        Ok(Self { id: bytes, size })
    }

    /// The first sectors of the disk: the label, which says `used`, and zeroes where other labels may be.
    #[must_use]
    pub fn encode(&self, used: bool) -> PlacedBytes {
        let mut sector = vec![0; SECTOR_LEN];
        put(&mut sector, 0, *LABEL);
        put(&mut sector, 8, LABEL_SECTOR.to_le_bytes());
        put(&mut sector, 20, HEADER_AT_U32.to_le_bytes());
        put(&mut sector, 24, *KIND);
        put(&mut sector, HEADER_AT, self.id);
        put(&mut sector, HEADER_AT + ID_LEN, self.size.to_le_bytes());
        let mut at = HEADER_AT + HEADER_LEN;
        for (offset, len) in [
            (DATA_AT, 0),
            (0, 0),
            (Self::METADATA_AREA.offset, Self::METADATA_AREA.len),
            (0, 0),
        ] {
            put(&mut sector, at, u64::to_le_bytes(offset));
            put(&mut sector, at + 8, u64::to_le_bytes(len));
            at += ITEM_LEN;
        }
        put(&mut sector, at, EXTENSION_VERSION.to_le_bytes());
        put(&mut sector, at + 4, u32::from(used).to_le_bytes());
        seal(&mut sector);
        let mut bytes = vec![0; Range::new(0, LABEL_PLACE_LEN).len_usize()];
        bytes[SECTOR_LEN..2 * SECTOR_LEN].copy_from_slice(&sector);
        PlacedBytes { offset: 0, bytes }
    }
}

const HEADER_AT_U32: u32 = 32;

/// The sector with the label in the first [`LABEL_PLACE_LEN`] bytes of a disk, changed to say `used`. `None`: it says
/// so already, or its extension is of a version that has no such flag.
///
/// # Errors
/// [`VolumeProblem`] if the label is damaged.
pub fn mark_used(start: &[u8], used: bool) -> Result<Option<PlacedBytes>, VolumeProblem> {
    let Some(header) = Header::decode(start)? else {
        return Ok(None);
    };
    let mut sectors = start.chunks_exact(SECTOR_LEN).zip(0_u64..);
    let Some((sector, number)) = sectors.find(|(sector, _)| sector.starts_with(LABEL)) else {
        return Ok(None);
    };
    let mut sector = sector.to_vec();
    let header_at = usize::try_from(Fields::of(&sector).u32(20)).unwrap_or(SECTOR_LEN);
    // Both lists with the empty items that end them.
    let items = header.data_areas.len() + header.metadata_areas.len() + 2;
    let extension = header_at + HEADER_LEN + items * ITEM_LEN;
    if extension + 8 > sector.len() || Fields::of(&sector).u32(extension) < EXTENSION_VERSION {
        return Ok(None);
    }
    let flags = Fields::of(&sector).u32(extension + 4);
    let new = if used { flags | USED } else { flags & !USED };
    if new == flags {
        return Ok(None);
    }
    put(&mut sector, extension + 4, new.to_le_bytes());
    seal(&mut sector);
    Ok(Some(PlacedBytes {
        offset: number * SECTOR,
        bytes: sector,
    }))
}

/// Writes the right checksum into a sector with a label.
fn seal(sector: &mut [u8]) {
    let sum = checksum(&sector[CHECKED_FROM..]);
    put(sector, 16, sum.to_le_bytes());
}
