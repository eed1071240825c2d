//! Superblocks of md and of device-mapper's `raid`: where they are and what they say. Pure; little-endian but for old 0.90
//! ones of md.
//!
//! ```text
//! 0.90   4096 bytes at the last 64 KiB boundary that is at least 64 KiB before the end
//! 1.0    256 bytes + 2 for each role, 8 KiB before the end, at a multiple of 4 KiB
//! 1.1    the same at byte 0
//! 1.2    the same at byte 4096
//! dm     148 bytes at byte 0 of metadata that LVM keeps apart from the data (`dm_raid`)
//! ```
//!
//! All of them are read as a [`Superblock`] and changed by [`patch`]: the engines of arrays know no format.
//!
//! # Invariants
//!
//! * No input panics, and nothing is allocated beyond [`MEMBERS_MAX`] roles.
//! * A superblock is returned only if its checksum is right and it says itself that it belongs where it is.
//!
//! # What it does not do
//!
//! It judges no set of superblocks, and refuses no feature: [`Superblock::unknown_features`] returns
//! what must be refused when an array is opened.

pub mod bad_blocks;
pub mod bitmap;
mod changes;
pub mod dm_raid;
mod names;
pub mod ppl;
pub mod r5l;
pub(in crate::array) mod reshape_backup;
#[cfg(test)]
pub(crate) mod tests;
mod v0;
mod v1;

use block::Range;

pub use self::changes::{Changes, Form, PolicyPlace, numbers_max, patch, written};
pub use self::names::{Level, layout_name, parity_layout};

/// Bytes of a disk that one superblock can take.
pub const PLACE_LEN: u64 = 4096;
/// Most roles that a superblock has.
pub const MEMBERS_MAX: u32 = 1920;
/// Most members, spares included, that a superblock 0.90 has places for.
const NUMBERS_MAX_0_90: usize = 27;
/// Unit of offsets and lengths in superblocks, bytes.
pub(in crate::array) const SECTOR: u64 = 512;
/// First word of every superblock.
const MAGIC: u32 = 0xa92b_4efc;

/// Which superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// 0.90, at the end, in the byte order of the machine that made it.
    V0_90 {
        /// Most significant byte first: machines with PowerPC or old MIPS.
        big_endian: bool,
    },
    /// 1.0, at the end.
    V1_0,
    /// 1.1, at the beginning.
    V1_1,
    /// 1.2, 4 KiB behind the beginning.
    V1_2,
    /// That of device-mapper's `raid`, at the beginning of metadata that LVM keeps apart from the data.
    DmRaid,
}

impl Version {
    /// Whether it is one of the superblocks 1.x, which differ in their places alone.
    #[must_use]
    pub const fn is_v1(self) -> bool {
        matches!(self, Self::V1_0 | Self::V1_1 | Self::V1_2)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V0_90 { big_endian: false } => "0.90",
            Self::V0_90 { big_endian: true } => "0.90, big-endian",
            Self::V1_0 => "1.0",
            Self::V1_1 => "1.1",
            Self::V1_2 => "1.2",
            Self::DmRaid => "dm-raid",
        })
    }
}

/// What a member is to its array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// It holds this part, counted from 0.
    Active(u16),
    /// It waits for a member to fail.
    Spare,
    /// It failed, or there is none of this number.
    Faulty,
    /// It keeps the journal of the array.
    Journal,
}

/// A reshape that was going on: what [`Superblock::layout`] and [`chunk`](Superblock::chunk) say holds behind its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reshape {
    /// How far it has come, bytes of the array.
    pub position: u64,
    /// Members more (or fewer) afterwards.
    pub members_added: i32,
    /// Level afterwards.
    pub level: Level,
    /// Layout afterwards.
    pub layout: u32,
    /// Chunk afterwards, bytes.
    pub chunk: u64,
    /// Bytes by which this member's data begin further behind afterwards; negative: before. Not kept in 0.90.
    pub data_moved: i64,
    /// It goes from the end to the beginning.
    pub backwards: bool,
}

impl Reshape {
    /// Members before, of an array that has `members` afterwards.
    #[must_use]
    pub fn parts_before(&self, members: u32) -> u32 {
        members.saturating_add_signed(self.members_added.saturating_neg())
    }
}

/// What a superblock says. Offsets and sizes are bytes, times seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Which kind.
    pub version: Version,
    /// The array's UUID, in the order in which mdadm prints it.
    pub array: [u8; 16],
    /// `HOST:NAME` or `NAME`; 0.90 has the number of the device instead.
    pub name: String,
    /// When the array was made.
    pub created: u64,
    /// When this superblock was written.
    pub updated: u64,
    /// RAID level.
    pub level: Level,
    /// How data and parity lie, by the level's own numbers.
    pub layout: u32,
    /// Chunk; 0 where the level has none.
    pub chunk: u64,
    /// Members of the complete array, spares not counted.
    pub members: u32,
    /// Bytes of each member that the array uses; 0 where members may differ (RAID 0, linear).
    pub member_size: u64,
    /// Where the member keeps data.
    pub data: Range,
    /// Counts changes of the array's state.
    pub events: u64,
    /// Up to where the array is in sync, bytes of a member; `None`: all of it is.
    pub synced_to: Option<u64>,
    /// Up to where this member is rebuilt; `None`: all of it is.
    pub rebuilt_to: Option<u64>,
    /// This member's UUID; 0.90 has none.
    pub device: Option<[u8; 16]>,
    /// This member's number, its place in [`roles`](Self::roles).
    pub number: u32,
    /// What this member is, by its own table.
    pub role: Role,
    /// The roles of all members by their number, as this superblock knows them.
    pub roles: Vec<Role>,
    /// Where the write-intent bitmap is, byte of the member.
    pub bitmap_at: Option<u64>,
    /// Where the partial parity log is.
    pub ppl: Option<Range>,
    /// Where the log of bad blocks is.
    pub bad_blocks: Option<Range>,
    /// Units of that log: sectors, shifted left by this.
    pub bad_blocks_shift: u8,
    /// Read errors of this member that were corrected; not counted in 0.90.
    pub corrected: u32,
    /// Bits of what this array uses; 0 in 0.90.
    pub features: u32,
    /// Reads prefer other members.
    pub write_mostly: bool,
    /// Errors fail this member at once.
    pub fail_fast: bool,
    /// The change of form that was going on.
    pub reshape: Option<Reshape>,
}

/// Bits of [`Superblock::features`].
pub mod features {
    /// There is a bitmap.
    pub const BITMAP: u32 = 1;
    /// This member is rebuilt up to [`rebuilt_to`](super::Superblock::rebuilt_to).
    pub const RECOVERY_OFFSET: u32 = 2;
    /// A reshape was going on.
    pub const RESHAPE: u32 = 4;
    /// The log of bad blocks is not empty.
    pub const BAD_BLOCKS: u32 = 8;
    /// This member stands in for one that still works.
    pub const REPLACEMENT: u32 = 0x10;
    /// The reshape goes from the end to the beginning.
    pub const RESHAPE_BACKWARDS: u32 = 0x20;
    /// The data begins elsewhere after a reshape.
    pub const NEW_OFFSET: u32 = 0x40;
    /// The bitmap has what of this member is still to be copied.
    pub const RECOVERY_BITMAP: u32 = 0x80;
    /// Several machines use the array at once.
    pub const CLUSTERED: u32 = 0x100;
    /// One member keeps a journal.
    pub const JOURNAL: u32 = 0x200;
    /// Each member keeps partial parity.
    pub const PPL: u32 = 0x400;
    /// More than one piece of it.
    pub const MULTIPLE_PPLS: u32 = 0x800;
    /// The layout of RAID 0 means something.
    pub const RAID0_LAYOUT: u32 = 0x1000;
    /// All that have a meaning.
    pub const KNOWN: u32 = 0x1fff;
}

/// What is wrong with a superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It is damaged.
    #[error("its checksum is wrong: {stored:08x} is stored, {computed:08x} would be right")]
    Checksum {
        /// What it says.
        stored: u32,
        /// What its bytes add up to.
        computed: u32,
    },
    /// It belongs to a disk that begins or ends elsewhere.
    #[error("it belongs at byte {expected} of its disk")]
    Elsewhere {
        /// Where it says that it is.
        expected: u64,
    },
    /// A number in it cannot be.
    #[error("its {field} cannot be {value}")]
    Field {
        /// Which.
        field: &'static str,
        /// What it says.
        value: u64,
    },
}

impl Superblock {
    /// Bits of features that are not known here.
    #[must_use]
    pub const fn unknown_features(&self) -> u32 {
        self.features & !features::KNOWN
    }

    /// Which parts are held by a working member, by this superblock.
    #[must_use]
    pub fn working(&self) -> Vec<bool> {
        let parts = 0..self.members;
        let held = |part: u32| {
            let mut roles = self.roles.iter();
            roles.any(|role| matches!(role, Role::Active(held) if u32::from(*held) == part))
        };
        parts.map(held).collect()
    }

    /// Bytes that the whole array holds, where one superblock says so: not for RAID 0 and linear, whose
    /// members may differ.
    #[must_use]
    pub fn array_size(&self) -> Option<u64> {
        // Until a reshape has ended the array is as large as it was.
        let before = |reshape: &Reshape| reshape.parts_before(self.members);
        let members = u64::from(self.reshape.as_ref().map_or(self.members, before));
        let whole = self.member_size - self.member_size.checked_rem(self.chunk).unwrap_or(0);
        let parts = match self.level {
            Level::Raid1 => 1,
            Level::Raid4 | Level::Raid5 | Level::Raid6 => {
                members.checked_sub(self.level.parities() as u64)?
            }
            Level::Raid10 => {
                let (near, far) = (self.layout & 0xff, self.layout >> 8 & 0xff);
                let rows = self.member_size.checked_div(self.chunk)?;
                let rows = rows.checked_div(far.into())?;
                let chunks = rows.checked_mul(members)?.checked_div(near.into())?;
                return chunks.checked_mul(self.chunk);
            }
            _ => return None,
        };
        whole.checked_mul(parts)
    }

    /// Where the member's data begin, byte of the disk; while a reshape moves them, those that are nearest to its beginning.
    #[must_use]
    pub fn first_data_at(&self) -> u64 {
        let moved = self.reshape.as_ref().map_or(0, |of| of.data_moved.min(0));
        self.data.offset.saturating_add_signed(moved)
    }

    /// Whether members keep partial parity logs.
    #[must_use]
    pub const fn keeps_ppl(&self) -> bool {
        self.features & (features::PPL | features::MULTIPLE_PPLS) != 0
    }

    /// Whether data and metadata lie within a disk of `size` bytes.
    #[must_use]
    pub fn fits(&self, size: u64) -> bool {
        let end = self.data.offset.checked_add(self.data.len);
        end.is_some_and(|end| end <= size)
    }
}

/// Where a disk of `size` bytes may have a superblock, in the order in which they are looked for.
#[must_use]
pub fn places(size: u64) -> Vec<(Version, u64)> {
    let v1 = (size / SECTOR).checked_sub(16).map(|at| (at & !7) * SECTOR);
    let v0 = ((size / SECTOR) & !127).checked_sub(128);
    let v0 = v0.map(|at| at * SECTOR);
    let mut places = vec![(Version::V1_1, 0), (Version::V1_2, 4096)];
    places.extend(v1.map(|at| (Version::V1_0, at)));
    places.extend(v0.map(|at| (Version::V0_90 { big_endian: false }, at)));
    places.retain(|(_, at)| at.checked_add(PLACE_LEN).is_some_and(|end| end <= size));
    places
}

/// Whether a superblock, which `bytes` begin with, says that a reshape has dropped the partial parity logs of its array: members get them
/// again once it has ended.
#[must_use]
pub fn awaits_ppl(version: Version, bytes: &[u8]) -> bool {
    version.is_v1() && v1::awaits_ppl(bytes)
}

/// Whether bytes begin as a superblock does, of any version and however damaged.
#[must_use]
pub fn is_superblock(bytes: &[u8]) -> bool {
    let magic = MAGIC.to_le_bytes();
    let swapped = MAGIC.to_be_bytes();
    bytes.starts_with(&magic) || bytes.starts_with(&swapped)
}

/// Reads the superblock at byte `at` of a disk, where one of `version` would be. `None`: there is
/// none.
///
/// # Errors
/// [`Problem`]: there is one that is damaged, or that belongs elsewhere.
pub fn decode(version: Version, at: u64, bytes: &[u8]) -> Result<Option<Superblock>, Problem> {
    match version {
        Version::V0_90 { .. } => v0::decode(at, bytes),
        Version::V1_0 | Version::V1_1 | Version::V1_2 => v1::decode(version, at, bytes),
        Version::DmRaid => Ok(dm_raid::DmRaid::decode(bytes)?.map(|own| own.superblock())),
    }
}

/// The bytes of a whole superblock that belongs at byte `at` of its disk, [`PLACE_LEN`] of them: zeroes are behind it.
///
/// Fields that a [`Superblock`] does not have are 0.
///
/// # Panics
/// If there are more roles than [`numbers_max`], or a bitmap or log lies further away than a superblock can say.
#[must_use]
pub fn encode(of: &Superblock, at: u64) -> Vec<u8> {
    match of.version {
        Version::V0_90 { big_endian } => v0::encode(of, big_endian),
        Version::DmRaid => {
            let place = vec![0; usize::try_from(PLACE_LEN).expect("small")];
            dm_raid::DmRaid::of(of).encode(&place)
        }
        _ => v1::encode(of, at),
    }
}

/// md's checksum: the words added up, the carry folded in once.
fn fold_sum(words: impl Iterator<Item = u32>) -> u32 {
    let sum = words.map(u64::from).fold(0_u64, u64::wrapping_add);
    let [a, b, c, d, e, f, g, h] = sum.to_le_bytes();
    u32::from_le_bytes([a, b, c, d]).wrapping_add(u32::from_le_bytes([e, f, g, h]))
}

/// `sectors` as bytes; what cannot be is a problem of `field`.
fn bytes_of(sectors: u64, field: &'static str) -> Result<u64, Problem> {
    let value = sectors;
    sectors
        .checked_mul(SECTOR)
        .filter(|bytes| i64::try_from(*bytes).is_ok())
        .ok_or(Problem::Field { field, value })
}
