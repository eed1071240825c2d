//! Where data, bitmap and log of a new array lie: mdadm's own rules. Pure.
//!
//! ```text
//! 1.2   |4 KiB|superblock|bitmap|log|    room for a reshape    |data …            |
//! 1.1   |superblock|bitmap|log|       room for a reshape       |data …            |
//! 1.0   |data …                                  |bitmap|log|superblock, at the end
//! 0.90  |data …                                            |superblock|bitmap|
//! ```

use block::Range;

use crate::array::format::bitmap::{HEADER_LEN, Problem, Shape};
use crate::array::format::{PLACE_LEN, Version, places};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Bytes of a log of bad blocks.
const LOG_LEN: u64 = 4 * KIB;
/// Bytes behind a superblock 0.90.
const ROOM_0_90: u64 = 60 * KIB;
/// Least and usual bytes for each bit.
const BITMAP_CHUNK_MIN: u64 = 4 * KIB;
const BITMAP_CHUNK: u64 = 64 * MIB;

/// Bytes of a partial parity log, as mdadm makes it.
pub(in crate::array) const PPL_LEN: u64 = MIB;

/// What space is kept for next to a superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reserve {
    /// A bitmap, also where there is none yet.
    Bitmap,
    /// A partial parity log.
    Ppl,
}

impl Reserve {
    /// Bytes kept on a disk (or for a member) of so many.
    const fn room(self, bytes: u64) -> u64 {
        match self {
            Self::Bitmap => bitmap_room(bytes),
            Self::Ppl => PPL_LEN,
        }
    }
}

/// Bytes kept for a bitmap on a disk (or for a part) of so many.
const fn bitmap_room(bytes: u64) -> u64 {
    if bytes < 64 * KIB {
        0
    } else if bytes - 64 * KIB >= 200 * GIB {
        128 * KIB
    } else if bytes - 4 * KIB > 8 * GIB {
        64 * KIB
    } else {
        4 * KIB
    }
}

/// Where the data of an array begin if its first disk has `disk` bytes: behind superblock, bitmap and room for a
/// later reshape, of which a thousandth of the disk is wanted.
pub(super) fn data_offset(version: Version, disk: u64, chunk: u64, reserve: Reserve) -> u64 {
    match version {
        Version::V0_90 { .. } | Version::V1_0 | Version::DmRaid => return 0,
        Version::V1_1 | Version::V1_2 => {}
    }
    let mut headroom = 128 * MIB;
    while headroom * 1024 > disk && (chunk == 0 || headroom / 2 >= chunk * 2) {
        headroom /= 2;
    }
    (12 * KIB + reserve.room(disk) + headroom).next_multiple_of(MIB)
}

/// Where the superblock is on a disk. `None`: it is too small for one.
pub(super) fn superblock(version: Version, disk: u64) -> Option<u64> {
    let mut places = places(disk).into_iter();
    let is_it = |found: Version| match (found, version) {
        (Version::V0_90 { .. }, Version::V0_90 { .. }) => true,
        _ => found == version,
    };
    places.find(|(found, _)| is_it(*found)).map(|(_, at)| at)
}

/// How many bytes of a disk there are for data; 0: it is too small.
pub(super) fn free(version: Version, disk: u64, data_offset: u64, reserve: Reserve) -> u64 {
    let free = match version {
        Version::V0_90 { .. } => superblock(version, disk),
        // Superblock, logs and bitmap.
        Version::V1_0 => {
            (disk / PLACE_LEN * PLACE_LEN).checked_sub(8 * KIB + LOG_LEN + reserve.room(disk))
        }
        Version::V1_1 | Version::V1_2 => disk.checked_sub(data_offset),
        Version::DmRaid => None,
    };
    free.unwrap_or(0) / KIB * KIB
}

/// Where everything of one member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Places {
    /// Its superblock.
    pub(super) superblock: u64,
    /// What it says that there is for data.
    pub(super) data: Range,
    /// Its bitmap.
    pub(super) bitmap: Option<Range>,
    /// Its partial parity log.
    pub(super) ppl: Option<Range>,
    /// Its log of bad blocks.
    pub(super) log: Option<Range>,
}

/// Where everything is on a disk of `disk` bytes, of which `size` are used (0: all that can be). `None`: it is
/// too small.
pub(super) fn of(
    version: Version,
    disk: u64,
    data_offset: u64,
    size: u64,
    (reserve, bitmap): (Reserve, Option<&Shape>),
) -> Option<Places> {
    let at = superblock(version, disk)?;
    let bitmap_len = bitmap.map(|shape| shape.len_on_disk().next_multiple_of(PLACE_LEN));
    match version {
        Version::V0_90 { .. } => Some(Places {
            superblock: at,
            data: Range::new(0, at),
            bitmap: bitmap_len.map(|len| Range::new(at + PLACE_LEN, len)),
            ppl: None,
            log: None,
        }),
        Version::V1_0 => at_the_end(at, size, (reserve, bitmap)),
        // LVM lays these out.
        Version::DmRaid => None,
        Version::V1_1 | Version::V1_2 => {
            let start = at + PLACE_LEN;
            let taken = bitmap_len.unwrap_or_else(|| reserve.room(size));
            let ppl = (reserve == Reserve::Ppl).then(|| Range::new(start, taken));
            if ppl.is_some_and(|ppl| ppl.end() > data_offset) {
                return None;
            }
            let log = match start + taken + LOG_LEN <= data_offset {
                true => start + taken,
                false => data_offset.checked_sub(LOG_LEN)?,
            };
            Some(Places {
                superblock: at,
                data: Range::new(data_offset, disk.checked_sub(data_offset)?),
                bitmap: bitmap_len.map(|len| Range::new(start, len)),
                ppl,
                log: (log >= start).then(|| Range::new(log, LOG_LEN)),
            })
        }
    }
}

/// Of a superblock 1.0 at byte `at`.
fn at_the_end(at: u64, size: u64, (reserve, bitmap): (Reserve, Option<&Shape>)) -> Option<Places> {
    let len = |shape: &Shape| shape.len_on_disk().next_multiple_of(PLACE_LEN);
    let wanted = bitmap.map_or_else(|| reserve.room(size), len) + LOG_LEN;
    let room = wanted.min(at.checked_sub(size)?);
    let place = match bitmap {
        // Room for one bit more, as mdadm computes it.
        Some(shape) => {
            let bits = shape.size() / shape.chunk() + 1;
            let len = (bits.div_ceil(8) + HEADER_LEN).next_multiple_of(PLACE_LEN);
            let start = at.checked_sub(LOG_LEN + len)?;
            (start >= size).then_some(())?;
            Some(Range::new(start, len))
        }
        None => None,
    };
    let ppl = match reserve {
        Reserve::Ppl if room < wanted => return None,
        Reserve::Ppl => Some(Range::new(at - wanted, PPL_LEN)),
        Reserve::Bitmap => None,
    };
    Some(Places {
        superblock: at,
        data: Range::new(0, at - room),
        bitmap: place,
        ppl,
        log: (room >= LOG_LEN).then(|| Range::new(at - LOG_LEN, LOG_LEN)),
    })
}

/// How the bits of a new bitmap lie: `covered` bytes by an array that uses `size` of each member, with `asked`
/// for each bit if that is given.
///
/// # Errors
/// The least that could be requested.
pub(super) fn bitmap_shape(
    version: Version,
    size: u64,
    covered: u64,
    asked: Option<u64>,
) -> Result<Shape, u64> {
    let room = match version {
        Version::V0_90 { .. } => ROOM_0_90,
        // There is always a page.
        _ => bitmap_room(size).max(PLACE_LEN),
    };
    let bits_max = room.saturating_sub(HEADER_LEN) * 8;
    let (mut least, mut bits) = (BITMAP_CHUNK_MIN, covered / BITMAP_CHUNK_MIN + 1);
    while bits > bits_max && least < 1 << 62 {
        least *= 2;
        bits = bits.div_ceil(2);
    }
    let chunk = match asked {
        Some(asked) if asked < least || !asked.is_power_of_two() => return Err(least),
        Some(asked) => asked,
        None => least.max(BITMAP_CHUNK),
    };
    let chunk = u32::try_from(chunk).map_err(|_| least)?;
    Shape::new(covered, chunk).map_err(|_: Problem| least)
}
