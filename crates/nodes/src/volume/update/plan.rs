//! Where a text goes in the ring of a metadata area. Pure.
//!
//! ```text
//! 0          512                                            length of the area
//! | header   | · · | text that counts | new text … | · · · · |       whole sectors; at the end it goes on at 512
//! ```
//!
//! # Invariants
//!
//! * A new text, with the zeroes that fill its last sector, never touches a sector of the text that counts.
//! * Where it goes is where LVM would put it.

use std::ops::Range as Span;

use block::Range;

use crate::volume::format::{AREA_HEADER_LEN, AreaHeader, TEXT_MAX, TextSlot, checksum};

/// Texts begin at multiples of it, bytes.
const SECTOR: u64 = 512;

/// A text has no room in an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// It is longer than two of its kind may be.
    #[error(
        "the metadata would be {len} bytes, a metadata area of {area} bytes takes at most {max}"
    )]
    TooLarge {
        /// Bytes of the text, with its NUL.
        len: u64,
        /// Bytes of the area.
        area: u64,
        /// Longest text it takes.
        max: u64,
    },
    /// The area does not consist of sectors.
    #[error("a metadata area at byte {offset}, of {len} bytes, does not consist of whole sectors")]
    Unaligned {
        /// Of its first byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// The text before leaves no room: LVM would not have written it so long.
    #[error(
        "the metadata of {old} bytes that are there leave no room for {len} more in an area of {area}"
    )]
    Full {
        /// Bytes of the text that counts.
        old: u64,
        /// Bytes of the new one.
        len: u64,
        /// Bytes of the area.
        area: u64,
    },
}

/// How a text is written into an area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPlan {
    /// What the header will say.
    pub slot: TextSlot,
    /// Bytes of the disk, and which bytes of the padded text go there; in order.
    pub pieces: Vec<(Range, Span<usize>)>,
}

/// The bytes of a text as they are written: with a NUL, then zeroes up to a whole sector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaddedText {
    /// With the padding.
    pub bytes: Vec<u8>,
    /// Bytes of the text with its NUL.
    pub len: u64,
    /// Of these.
    pub checksum: u32,
}

impl PaddedText {
    /// Pads `text`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        let (len, checksum) = (bytes.len() as u64, checksum(&bytes));
        let padded = bytes
            .len()
            .next_multiple_of(Range::new(0, SECTOR).len_usize());
        bytes.resize(padded, 0);
        Self {
            bytes,
            len,
            checksum,
        }
    }
}

/// Places a text in the area of `header`, behind the text that counts.
///
/// # Errors
/// [`PlanError`] if there is no room for it.
pub fn place_text(header: &AreaHeader, text: &PaddedText) -> Result<TextPlan, PlanError> {
    let area = header.area;
    if !area.offset.is_multiple_of(SECTOR) || !area.len.is_multiple_of(SECTOR) {
        let (offset, len) = (area.offset, area.len);
        return Err(PlanError::Unaligned { offset, len });
    }
    let len = text.len;
    let ring = area.len.saturating_sub(AREA_HEADER_LEN);
    let max = (ring / 2).saturating_sub(SECTOR).min(TEXT_MAX);
    if len > max {
        let area = area.len;
        return Err(PlanError::TooLarge { len, area, max });
    }
    // A text of an ignored area counts no more.
    let old = header.committed.filter(|_| !header.ignored);
    let offset = old.map_or(AREA_HEADER_LEN, |old| next_offset(area.len, old));
    let slot = TextSlot {
        offset,
        len,
        checksum: text.checksum,
    };
    let new = sectors(area, offset, text.bytes.len() as u64);
    if let Some(old) = old {
        let sectors = sectors(area, old.offset, old.len);
        if new
            .iter()
            .any(|new| sectors.iter().any(|old| new.overlaps(old)))
        {
            return Err(PlanError::Full {
                old: old.len,
                len,
                area: area.len,
            });
        }
    }
    let mut done = 0;
    let pieces = new.into_iter().map(|piece| {
        let from = done;
        done += piece.len_usize();
        (piece, from..done)
    });
    Ok(TextPlan {
        slot,
        pieces: pieces.collect(),
    })
}

/// The first sector behind a text; the first of the ring where that is its end.
fn next_offset(area_len: u64, old: TextSlot) -> u64 {
    let end = old.offset + old.len;
    // A text that wraps goes on behind the header.
    let end = match end > area_len {
        true => end - area_len + AREA_HEADER_LEN,
        false => end,
    };
    let next = end.next_multiple_of(SECTOR);
    match next + SECTOR > area_len {
        true => AREA_HEADER_LEN,
        false => next,
    }
}

/// The bytes of the disk with `len` bytes from `offset` of an area on, as whole sectors, in order.
fn sectors(area: Range, offset: u64, len: u64) -> Vec<Range> {
    let from = offset / SECTOR * SECTOR;
    let len = (offset + len).next_multiple_of(SECTOR) - from;
    let first = len.min(area.len - from);
    let pieces = [
        Range::new(area.offset + from, first),
        Range::new(area.offset + AREA_HEADER_LEN, len - first),
    ];
    let pieces = pieces.into_iter().filter(|piece| !piece.is_empty());
    pieces.collect()
}
