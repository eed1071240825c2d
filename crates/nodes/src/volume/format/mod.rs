//! LVM2 on a physical volume: label, headers and the text of its metadata. Pure; little-endian.
//!
//! ```text
//! sector 0..3   "LABELONE", and in the same sector the physical volume's id and a list of areas
//! an area       512 bytes that say which part of the rest is the text that counts
//!               the rest, a ring: [ old text · · | newest text | · · ]
//! ```
//!
//! # Invariants
//!
//! * No input panics. Nothing is allocated beyond [`TEXT_MAX`], nor nested beyond [`text::DEPTH_MAX`].
//! * Everything it returns had the right checksums.
//!
//! # What it does not do
//!
//! It reads and writes no disk, and it judges no set of physical volumes: that one is missing or outdated is
//! decided by the caller, which has them all.

mod area;
mod area_header;
mod checksum;
mod group;
mod label;
mod logical;
mod member;
mod new_label;
mod print;
mod relations;
mod section_edit;
mod segment;
mod segment_fields;
#[cfg(test)]
pub(crate) mod tests;
pub mod text;

pub use self::area::{TextPlace, text_place};
pub use self::area_header::{AreaHeader, TextSlot};
pub use self::checksum::checksum;
pub use self::group::{PhysicalRange, UnknownFlag, VolumeGroup};
pub use self::label::Header;
pub use self::logical::LogicalVolume;
pub use self::member::Member;
pub use self::new_label::{NewLabel, PlacedBytes, mark_used};
pub use self::relations::SnapshotRelation;
pub use self::segment::{CacheRanges, RaidImage, SegmentArea, SegmentLayout, VolumeSegment};

/// Bytes at the beginning of a disk in which the label is.
pub const LABEL_PLACE_LEN: u64 = 4 * SECTOR;
/// Bytes of the header of a metadata area.
pub const AREA_HEADER_LEN: u64 = SECTOR;
/// Longest text that is read, bytes.
pub const TEXT_MAX: u64 = 4 << 20;
/// Most physical volumes of a group.
pub const MEMBERS_MAX: usize = 1024;
/// Unit of offsets and sizes in the text, bytes.
const SECTOR: u64 = 512;

/// What is wrong with a physical volume or its metadata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VolumeProblem {
    /// Bytes are damaged.
    #[error(
        "the checksum of its {what} is wrong: {stored:08x} is stored, {computed:08x} would be right"
    )]
    Checksum {
        /// Which.
        what: &'static str,
        /// What it says.
        stored: u32,
        /// What its bytes come to.
        computed: u32,
    },
    /// A number that cannot be.
    #[error("its {field} cannot be {value}")]
    Field {
        /// Which.
        field: &'static str,
        /// What it says.
        value: u64,
    },
    /// Something else is where its metadata should be.
    #[error("no metadata is at byte {at}, where its label says so")]
    NoArea {
        /// Where.
        at: u64,
    },
    /// The text ends too early.
    #[error("its metadata is cut off: the disk ends before it does")]
    Cut,
    /// The text cannot be understood.
    #[error("its metadata cannot be read: {0}")]
    Text(#[from] text::TextError),
    /// The text says too little, or something that cannot be.
    #[error("its metadata has no good `{0}`")]
    Lacks(String),
    /// Two things of one name.
    #[error("its metadata has `{0}` twice")]
    Duplicate(String),
}

fn lacks(what: impl Into<String>) -> VolumeProblem {
    VolumeProblem::Lacks(what.into())
}

/// The bytes of so many sectors, if a disk can have them.
fn sectors(sectors: u64) -> Option<u64> {
    let bytes = sectors.checked_mul(SECTOR)?;
    i64::try_from(bytes).is_ok().then_some(bytes)
}
