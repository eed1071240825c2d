//! The header of a write-intent bitmap. Pure.

use super::SECTOR;
use crate::fields::Fields;

/// Bytes of the header.
pub const HEADER_LEN: u64 = 256;
const MAGIC: &[u8; 4] = b"bitm";
/// Smallest chunk of a bitmap, bytes.
const CHUNK_MIN: u32 = 512;

/// What a bitmap says of itself. Sizes are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bitmap {
    /// 3 and 4 are the usual ones; 5 is clustered, 6 another format.
    pub version: u32,
    /// The array's UUID, as in version 1 superblocks.
    pub array: [u8; 16],
    /// Events when it was written.
    pub events: u64,
    /// Events when it was cleared the last time while nothing was missing.
    pub events_cleared: u64,
    /// What it covers: of the array for RAID 10, of a member else.
    pub size: u64,
    /// Bytes for each bit.
    pub chunk: u32,
    /// It is not to be trusted.
    pub stale: bool,
}

/// What is wrong with a bitmap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Something else is there.
    #[error("its bitmap is not where it should be")]
    Missing,
    /// Its chunk is none.
    #[error("its bitmap has chunks of {0} bytes")]
    Chunk(u32),
}

impl Bitmap {
    /// Reads a header.
    ///
    /// # Errors
    /// [`Problem`] if there is none, or it cannot be.
    pub fn decode(bytes: &[u8]) -> Result<Self, Problem> {
        if bytes.len() < 72 || !bytes.starts_with(MAGIC) {
            return Err(Problem::Missing);
        }
        let fields = Fields::of(bytes);
        let chunk = fields.u32(52);
        if !chunk.is_power_of_two() || chunk < CHUNK_MIN {
            return Err(Problem::Chunk(chunk));
        }
        Ok(Self {
            version: fields.u32(4),
            array: fields.bytes(8),
            events: fields.u64(24),
            events_cleared: fields.u64(32),
            size: fields.u64(40).saturating_mul(SECTOR),
            chunk,
            stale: fields.u32(48) & 2 != 0,
        })
    }
}
