//! Write-intent bitmaps: the header, what it allows, and where a bitmap may lie. Pure.
//!
//! ```text
//! byte 0     header, 256 bytes
//! byte 256   a bit for each chunk of what is covered, the lowest bit of a byte first
//! ```
//!
//! # Invariants
//!
//! * No input panics; no more than [`CHUNKS_MAX`] bits are ever held, independent of what a header says.
//! * A header is changed from its bytes as they were read, so that unknown fields stay.
//!
//! # What it does not do
//!
//! It does not know clustered (5) and lockless (6) bitmaps: they are reported by name.

mod bits;
#[cfg(test)]
mod tests;

use block::Range;

pub use self::bits::{Bits, CHUNKS_MAX, PAGE, Shape};
use super::{Level, SECTOR, Superblock, Version};
use crate::fields::{Fields, put};

/// Bytes of the header.
pub const HEADER_LEN: u64 = 256;
/// The same, of memory.
pub const HEADER_LEN_USIZE: usize = 256;
/// The usual seconds between two looks for bits that can be cleared.
pub const DAEMON_SLEEP: u32 = 5;
const MAGIC: &[u8; 4] = b"bitm";
/// Smallest chunk of a bitmap, bytes.
const CHUNK_MIN: u32 = 512;
/// The version that is written.
const VERSION: u32 = 4;
/// Its bits are in the order of the machine that made it.
const HOST_ENDIAN: u32 = 3;
/// Bit of the state.
const STALE: u32 = 2;

/// What a bitmap says of itself. Sizes are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bitmap {
    /// 3 and 4 are the usual ones; 5 is clustered, 6 another format.
    pub version: u32,
    /// The array's UUID; see [`array_in`].
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
    /// Seconds between two looks for bits that can be cleared.
    pub daemon_sleep: u32,
    /// Writes that a write-mostly member may be behind; not used here.
    pub write_behind: u32,
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
    /// It is of a kind that is not known here.
    #[error("its bitmap is {}", of_version(.0))]
    Version(u32),
    /// Its bits are in the order of another machine.
    #[error("its bitmap of version 3 is in the order of bits of the machine that made it")]
    Order,
    /// It is another array's.
    #[error("its bitmap belongs to another array")]
    Array,
    /// It would take too much memory, or its superblock has no size.
    #[error("its bitmap would have {0} bits, more than {CHUNKS_MAX}")]
    Chunks(u64),
    /// It lies on something else.
    #[error("its bitmap at byte {at} with {len} bytes does not fit between the rest")]
    Place {
        /// Where it begins.
        at: u64,
        /// How long it is.
        len: u64,
    },
}

fn of_version(version: &u32) -> String {
    match version {
        5 => "a clustered one (version 5)".to_owned(),
        6 => "a lockless one (version 6)".to_owned(),
        other => format!("of the unknown version {other}"),
    }
}

impl Bitmap {
    /// A new one for an array with that superblock, with `chunk` bytes for each bit. `None`: such an array has
    /// none (RAID 0, linear).
    #[must_use]
    pub fn of(superblock: &Superblock, chunk: u32) -> Option<Self> {
        Some(Self {
            version: VERSION,
            array: array_in(superblock),
            events: superblock.events,
            events_cleared: superblock.events,
            size: covered(superblock)?,
            chunk,
            stale: false,
            daemon_sleep: DAEMON_SLEEP,
            write_behind: 0,
        })
    }

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
            stale: fields.u32(48) & STALE != 0,
            daemon_sleep: fields.u32(56),
            write_behind: fields.u32(60),
        })
    }

    /// The bytes of a header. `before`: as it was read; zeroes for a new one. Unknown fields stay.
    #[must_use]
    pub fn encode(&self, before: &[u8; HEADER_LEN_USIZE]) -> [u8; HEADER_LEN_USIZE] {
        let mut bytes = *before;
        let state = Fields::of(before).u32(48) & !STALE;
        let b = &mut bytes;
        put(b, 0, *MAGIC);
        put(b, 4, self.version.to_le_bytes());
        put(b, 8, self.array);
        put(b, 24, self.events.to_le_bytes());
        put(b, 32, self.events_cleared.to_le_bytes());
        put(b, 40, (self.size / SECTOR).to_le_bytes());
        let stale = if self.stale { STALE } else { 0 };
        put(b, 48, (state | stale).to_le_bytes());
        put(b, 52, self.chunk.to_le_bytes());
        put(b, 56, self.daemon_sleep.to_le_bytes());
        put(b, 60, self.write_behind.to_le_bytes());
        bytes
    }

    /// Whether it can be used with the array of that superblock, and how its bits lie.
    ///
    /// # Errors
    /// Why not.
    pub fn shape(&self, superblock: &Superblock) -> Result<Shape, Problem> {
        match (self.version, superblock.version) {
            (HOST_ENDIAN, Version::V0_90 { big_endian: true }) => return Err(Problem::Order),
            (HOST_ENDIAN | VERSION, _) => {}
            (other, _) => return Err(Problem::Version(other)),
        }
        if self.array != array_in(superblock) {
            return Err(Problem::Array);
        }
        let size = covered(superblock).ok_or(Problem::Chunks(u64::MAX))?;
        Shape::new(size, self.chunk)
    }

    /// Whether its bits are valid for an array with superblocks at `events`. If not, all of them
    /// count as set.
    #[must_use]
    pub const fn is_stale(&self, events: u64) -> bool {
        self.stale || self.events < events
    }

    /// From which byte on set bits mean that copies may differ; `None`: nowhere. `synced_to` and `events` are
    /// the superblock's.
    ///
    /// While members are missing set bits are kept for them, unless all was cleared with the newest events.
    #[must_use]
    pub const fn counts_from(
        &self,
        synced_to: Option<u64>,
        events: u64,
        degraded: bool,
    ) -> Option<u64> {
        if !degraded || self.events_cleared == events || self.is_stale(events) {
            return synced_to;
        }
        Some(0)
    }
}

/// The UUID of an array as its bitmap has it: in 0.90 the words as they lie in memory.
#[must_use]
pub fn array_in(superblock: &Superblock) -> [u8; 16] {
    let mut array = superblock.array;
    if superblock.version == (Version::V0_90 { big_endian: false }) {
        array.chunks_exact_mut(4).for_each(<[u8]>::reverse);
    }
    array
}

/// What a bitmap of that array covers: all of it for RAID 10, a member's part else. `None`: it has none.
#[must_use]
pub fn covered(superblock: &Superblock) -> Option<u64> {
    match superblock.level {
        Level::Raid10 => superblock.array_size(),
        Level::Raid1 | Level::Raid4 | Level::Raid5 | Level::Raid6 => Some(superblock.member_size),
        Level::Linear | Level::Raid0 | Level::Other(_) => None,
    }
}

/// Where the bitmap of a member is that has its superblock at byte `at`, on a disk of `disk` bytes in blocks of
/// `block`: whole blocks (sectors, at least). `None`: the superblock says that there is none.
///
/// # Errors
/// It would lie on the superblock, on data, on the log of bad blocks, or behind the end.
pub fn place(
    superblock: &Superblock,
    at: u64,
    shape: &Shape,
    disk: u64,
    block: u32,
) -> Result<Option<Range>, Problem> {
    let Some(start) = superblock.bitmap_at else {
        return Ok(None);
    };
    let unit = u64::from(block).clamp(SECTOR, PAGE);
    let len = shape.len_on_disk().next_multiple_of(unit);
    let problem = Problem::Place { at: start, len };
    let end = start.checked_add(len).filter(|end| *end <= disk);
    let place = Range::new(start, len);
    let roles = superblock.roles.len() as u64;
    let own = match superblock.version {
        Version::V0_90 { .. } => super::PLACE_LEN,
        Version::DmRaid => SECTOR,
        _ => (256 + 2 * roles).next_multiple_of(SECTOR),
    };
    let mut taken = [Some(Range::new(at, own)), None, None];
    // What 0.90 calls data ends where the superblock begins.
    taken[1] = Some(superblock.data);
    taken[2] = superblock.bad_blocks;
    let mut taken = taken.iter().flatten();
    // Data that claims more than can be is reported elsewhere; here it must not overflow.
    let overlaps = |other: &Range| match other.offset.checked_add(other.len) {
        Some(_) => place.overlaps(other),
        None => true,
    };
    match end {
        Some(_) if !taken.any(overlaps) => Ok(Some(place)),
        _ => Err(problem),
    }
}
