//! Makes a new array: plain data of how, and the superblocks.

use block::Node;

use super::ArrayError;
use super::format::{Level, Version};

/// How a new array is made. What is not said is as mdadm has it.
#[derive(Debug, Clone)]
pub struct CreateOptions {
    /// Level: linear, 0, 1 or 10.
    pub level: Level,
    /// Layout of RAID 10, md's number.
    pub layout: Option<u32>,
    /// Chunk, bytes.
    pub chunk: Option<u64>,
    /// Kind of superblock.
    pub version: Version,
    /// Name, with the host's before a colon if it is to have one.
    pub name: String,
    /// Whether there is a bitmap, and its chunk in bytes where that is said.
    pub bitmap: BitmapChoice,
    /// The members are alike already (or shall be taken for it).
    pub assume_clean: bool,
    /// Bytes of each member to use, if not all.
    pub size: Option<u64>,
}

/// Whether a new array has a bitmap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BitmapChoice {
    /// Where the level can use one.
    Usual,
    /// None.
    None,
    /// With so many bytes for each bit.
    Chunk(u64),
}

/// A disk for a new array.
#[derive(Debug, Clone)]
pub struct NewMember {
    /// What it is called in messages.
    pub name: String,
    /// The disk. `None`: the part is `missing`.
    pub disk: Option<Node>,
    /// Reads prefer others.
    pub write_mostly: bool,
    /// Errors fail it at once.
    pub fail_fast: bool,
}

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// The new array's UUID.
    pub uuid: [u8; 16],
    /// Its size, bytes.
    pub size: u64,
}

/// Writes the superblocks (and bitmaps) of a new array; `parts` by role, then spares. Nothing is
/// written before all of it was found possible; whether the disks hold something else is the
/// caller's to ask.
///
/// # Errors
/// [`ArrayError`]: what is wrong with the wish or with a disk.
pub async fn create(
    _parts: Vec<NewMember>,
    _spares: Vec<NewMember>,
    _options: CreateOptions,
) -> Result<Created, ArrayError> {
    Err(ArrayError::refused("arrays are not made yet", None))
}
