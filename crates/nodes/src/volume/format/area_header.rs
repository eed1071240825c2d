//! [`AreaHeader`]: the header of a metadata area with both its slots, to read and to write.
//!
//! ```text
//! byte 0   checksum of the rest      4  magic      20  version 1      24  offset of the area      32  its length
//! byte 40  slot 0: the committed text      64  slot 1: the text that is about to be committed      88  zeroes
//! slot     offset in the area, length with the NUL at its end, checksum, flags (1: the area is not used)
//! ```

use block::Range;

use super::area::{COMMITTED_AT, IGNORED, MAGIC, text_place};
use super::{AREA_HEADER_LEN, VolumeProblem, checksum};
use crate::fields::{Fields, put};

/// Where the second slot is.
const PRECOMMITTED_AT: usize = 64;
const HEADER_LEN: usize = 512;
const VERSION: u32 = 1;

/// Where a text is in its area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextSlot {
    /// Of its first byte, counted from the area's.
    pub offset: u64,
    /// Bytes, with the NUL at the end.
    pub len: u64,
    /// Of these bytes.
    pub checksum: u32,
}

/// The header of a metadata area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AreaHeader {
    /// The area it begins.
    pub area: Range,
    /// The text that counts.
    pub committed: Option<TextSlot>,
    /// The text that is about to be.
    pub precommitted: Option<TextSlot>,
    /// LVM keeps no metadata here: others of the group have enough.
    pub ignored: bool,
}

impl AreaHeader {
    /// That of an area in which nothing was written yet.
    #[must_use]
    pub const fn new(area: Range) -> Self {
        Self {
            area,
            committed: None,
            precommitted: None,
            ignored: false,
        }
    }

    /// Reads the header that begins `area`.
    ///
    /// # Errors
    /// [`VolumeProblem`] if it is damaged.
    pub fn decode(area: Range, header: &[u8]) -> Result<Self, VolumeProblem> {
        // It validates all of the header and the committed slot.
        text_place(area, header)?;
        let fields = Fields::of(header);
        let slot = |at: usize| {
            let slot = TextSlot {
                offset: fields.u64(at),
                len: fields.u64(at + 8),
                checksum: fields.u32(at + 16),
            };
            (slot.offset != 0).then_some(slot)
        };
        Ok(Self {
            area,
            committed: slot(COMMITTED_AT),
            precommitted: slot(PRECOMMITTED_AT),
            ignored: fields.u32(COMMITTED_AT + 20) & IGNORED != 0,
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN];
        put(&mut bytes, 4, *MAGIC);
        put(&mut bytes, 20, VERSION.to_le_bytes());
        put(&mut bytes, 24, self.area.offset.to_le_bytes());
        put(&mut bytes, 32, self.area.len.to_le_bytes());
        let slots = [
            (COMMITTED_AT, self.committed),
            (PRECOMMITTED_AT, self.precommitted),
        ];
        for (at, slot) in slots {
            if let Some(slot) = slot {
                put(&mut bytes, at, slot.offset.to_le_bytes());
                put(&mut bytes, at + 8, slot.len.to_le_bytes());
                put(&mut bytes, at + 16, slot.checksum.to_le_bytes());
            }
        }
        if self.ignored {
            put(&mut bytes, COMMITTED_AT + 20, IGNORED.to_le_bytes());
        }
        let sum = checksum(&bytes[4..]);
        put(&mut bytes, 0, sum.to_le_bytes());
        bytes
    }
}

const _: () = assert!(AREA_HEADER_LEN == HEADER_LEN as u64);
