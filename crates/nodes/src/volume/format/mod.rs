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
//! It writes nothing, and it judges no set of physical volumes: that one is missing or outdated is
//! decided by the caller, which has them all.

mod area;
mod checksum;
mod group;
mod label;
mod segment;
#[cfg(test)]
pub(crate) mod tests;
pub mod text;

pub use self::area::{TextPlace, text_place};
pub use self::checksum::checksum;
pub use self::group::{LogicalVolume, Member, PhysicalRange, VolumeGroup};
pub use self::label::Header;
pub use self::segment::{SegmentArea, VolumeSegment};

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
}
