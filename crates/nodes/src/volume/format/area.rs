//! A metadata area: a header, and a ring in which the text lies.

use block::Range;

use super::{AREA_HEADER_LEN, TEXT_MAX, VolumeGroup, VolumeProblem, checksum};
use crate::fields::Fields;

pub(super) const MAGIC: &[u8; 16] = b" LVM2 x[5A%r0N*>";
/// Where the header's checksum begins to count, and where the place of the text that counts is.
const CHECKED_FROM: usize = 4;
pub(super) const COMMITTED_AT: usize = 40;
/// The text is not to be used.
pub(super) const IGNORED: u32 = 1;

/// Where the text of an area is, and what it adds up to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPlace {
    area: Range,
    /// Of the text in its area.
    offset: u64,
    len: u64,
    checksum: u32,
}

/// Finds the text that counts in `area`, which begins with `header`. `None`: there is none as yet, or
/// it is not to be used.
///
/// # Errors
/// [`VolumeProblem`] if the area is damaged.
pub fn text_place(area: Range, header: &[u8]) -> Result<Option<TextPlace>, VolumeProblem> {
    if header.len() as u64 != AREA_HEADER_LEN {
        return Err(VolumeProblem::Cut);
    }
    let fields = Fields::of(header);
    if &fields.bytes::<16>(4) != MAGIC {
        return Err(VolumeProblem::NoArea { at: area.offset });
    }
    let (stored, computed) = (fields.u32(0), checksum(&header[CHECKED_FROM..]));
    if stored != computed {
        let what = "metadata header";
        return Err(VolumeProblem::Checksum {
            what,
            stored,
            computed,
        });
    }
    let said = [
        ("metadata version", fields.u32(20).into(), 1),
        ("place of metadata", fields.u64(24), area.offset),
        ("size of metadata", fields.u64(32), area.len),
    ];
    if let Some((field, value, _)) = said.into_iter().find(|(_, said, right)| said != right) {
        return Err(VolumeProblem::Field { field, value });
    }
    let place = TextPlace {
        area,
        offset: fields.u64(COMMITTED_AT),
        len: fields.u64(COMMITTED_AT + 8),
        checksum: fields.u32(COMMITTED_AT + 16),
    };
    if place.offset == 0 || fields.u32(COMMITTED_AT + 20) & IGNORED != 0 {
        return Ok(None);
    }
    let ring = area.len.saturating_sub(AREA_HEADER_LEN);
    for (field, value, good) in [
        (
            "length of the text",
            place.len,
            place.len <= ring.min(TEXT_MAX),
        ),
        (
            "offset of the text",
            place.offset,
            (AREA_HEADER_LEN..area.len).contains(&place.offset),
        ),
    ] {
        if !good {
            return Err(VolumeProblem::Field { field, value });
        }
    }
    Ok(Some(place))
}

impl TextPlace {
    /// The bytes of the disk that hold it, in order: a text that runs into the end of its area goes
    /// on behind the area's header.
    pub fn pieces(&self) -> impl Iterator<Item = Range> + use<> {
        let Self {
            area, offset, len, ..
        } = *self;
        let first = len.min(area.len - offset);
        let pieces = [
            Range::new(area.offset + offset, first),
            Range::new(area.offset + AREA_HEADER_LEN, len - first),
        ];
        pieces.into_iter().filter(|piece| !piece.is_empty())
    }

    /// The text, given the bytes of all its pieces.
    ///
    /// # Errors
    /// [`VolumeProblem`] if it is damaged.
    pub fn text(&self, bytes: &[u8]) -> Result<String, VolumeProblem> {
        if bytes.len() as u64 != self.len {
            return Err(VolumeProblem::Cut);
        }
        let (stored, computed) = (self.checksum, checksum(bytes));
        if stored != computed {
            let what = "metadata";
            return Err(VolumeProblem::Checksum {
                what,
                stored,
                computed,
            });
        }
        // It ends with a NUL.
        let end = bytes.iter().position(|byte| *byte == 0);
        let text = String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]);
        Ok(text.into_owned())
    }

    /// Parses the text, given the bytes of all its pieces.
    ///
    /// # Errors
    /// [`VolumeProblem`] if it is damaged or makes no sense.
    pub fn decode(&self, bytes: &[u8]) -> Result<VolumeGroup, VolumeProblem> {
        VolumeGroup::of(&self.text(bytes)?)
    }
}
