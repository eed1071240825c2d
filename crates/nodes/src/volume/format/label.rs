//! The label and the header of a physical volume, in one of the first four sectors.

use block::Range;

use super::{LABEL_PLACE_LEN, VolumeProblem, checksum};
use crate::fields::Fields;

pub(super) const LABEL: &[u8; 8] = b"LABELONE";
pub(super) const KIND: &[u8; 8] = b"LVM2 001";
/// Bytes of a sector, and of one item of a list of areas.
pub(super) const SECTOR_LEN: usize = 512;
pub(super) const ITEM_LEN: usize = 16;
/// Where in its sector the checksum begins to count.
pub(super) const CHECKED_FROM: usize = 20;
/// Bytes of the header before its lists.
pub(super) const HEADER_LEN: usize = 40;
/// The extension: a physical volume that is part of a group says so.
pub(super) const USED: u32 = 1;

/// The identity of a physical volume. Offsets and sizes are bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Its id, as LVM prints it: `CPN7xD-txTn-TwdH-Axeg-eY89-h0d7-mGlpM3`.
    pub id: String,
    /// Size of the disk when it was made one.
    pub size: u64,
    /// Where data are; length 0 stands for all up to the end.
    pub data_areas: Vec<Range>,
    /// Where metadata are; some physical volumes have none.
    pub metadata_areas: Vec<Range>,
    /// Whether it says that it is part of a group; old ones do not say.
    pub used: Option<bool>,
}

impl Header {
    /// Finds the label in the first [`LABEL_PLACE_LEN`] bytes of a disk. `None`: there is none.
    ///
    /// # Errors
    /// [`VolumeProblem`] if it is damaged.
    pub fn decode(start: &[u8]) -> Result<Option<Self>, VolumeProblem> {
        let start = &start[..start
            .len()
            .min(usize::try_from(LABEL_PLACE_LEN).unwrap_or(0))];
        let mut sectors = start.chunks_exact(SECTOR_LEN).zip(0_u64..);
        let Some((sector, number)) = sectors.find(|(sector, _)| is_label(sector)) else {
            return Ok(None);
        };
        let fields = Fields::of(sector);
        let (stored, computed) = (fields.u32(16), checksum(&sector[CHECKED_FROM..]));
        if stored != computed {
            let what = "label";
            return Err(VolumeProblem::Checksum {
                what,
                stored,
                computed,
            });
        }
        if fields.u64(8) != number {
            let field = "sector";
            let value = fields.u64(8);
            return Err(VolumeProblem::Field { field, value });
        }
        let offset = fields.u32(20);
        let field = "offset of the header";
        let value = offset.into();
        let problem = VolumeProblem::Field { field, value };
        let at = usize::try_from(offset).ok();
        let header = at.and_then(|at| sector.get(at..)).ok_or(problem)?;
        Self::of(header).map(Some)
    }

    fn of(header: &[u8]) -> Result<Self, VolumeProblem> {
        if header.len() < HEADER_LEN {
            let field = "length of the header";
            let value = header.len() as u64;
            return Err(VolumeProblem::Field { field, value });
        }
        let fields = Fields::of(header);
        let mut rest = &header[HEADER_LEN..];
        let data_areas = list(&mut rest)?;
        let metadata_areas = list(&mut rest)?;
        let extension = rest.len() >= 8 && Fields::of(rest).u32(0) != 0;
        Ok(Self {
            id: shown(&fields.bytes(0)),
            size: fields.u64(32),
            data_areas,
            metadata_areas,
            used: extension.then(|| Fields::of(rest).u32(4) & USED != 0),
        })
    }
}

fn is_label(sector: &[u8]) -> bool {
    sector.starts_with(LABEL) && &sector[24..32] == KIND
}

/// A list of places, which ends with an empty one; `rest` is what is behind it.
fn list(rest: &mut &[u8]) -> Result<Vec<Range>, VolumeProblem> {
    let mut places = Vec::new();
    while let Some((item, behind)) = rest.split_at_checked(ITEM_LEN) {
        *rest = behind;
        let (offset, len) = (Fields::of(item).u64(0), Fields::of(item).u64(8));
        if offset == 0 {
            return Ok(places);
        }
        let end = offset.checked_add(len);
        if end.is_none_or(|end| end > i64::MAX.cast_unsigned()) {
            let field = "area";
            return Err(VolumeProblem::Field {
                field,
                value: offset,
            });
        }
        places.push(Range::new(offset, len));
    }
    let field = "number of areas";
    let value = places.len() as u64;
    Err(VolumeProblem::Field { field, value })
}

/// An id of 32 characters with the dashes that LVM prints.
fn shown(id: &[u8; 32]) -> String {
    let mut text = String::new();
    for (index, byte) in id.iter().enumerate() {
        if matches!(index, 6 | 10 | 14 | 18 | 22 | 26) {
            text.push('-');
        }
        let known = byte.is_ascii_alphanumeric() || matches!(byte, b'!' | b'#');
        text.push(if known { char::from(*byte) } else { '?' });
    }
    text
}
