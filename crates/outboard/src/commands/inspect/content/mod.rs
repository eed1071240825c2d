//! The contents of disks, as plain data. Filled by [`scan`], combined by [`arrays`] and [`groups`], rendered by
//! [`super::tree`].

pub(crate) mod arrays;
pub(crate) mod groups;
mod open_volumes;
mod partitions;
pub(crate) mod scan;

use serde::Serialize;

pub(crate) use self::arrays::Array;
pub(crate) use self::groups::Group;
pub(crate) use self::partitions::{Partition, TableReport};
use super::signature::{ForeignImage, Signature};

/// What a run of bytes holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct DiskContent {
    /// What libblkid knows it as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signature: Option<Signature>,
    /// Its partition table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) table: Option<TableReport>,
    /// What it is to an array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) member: Option<MemberOf>,
    /// What it is to a volume group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) physical_volume: Option<VolumeOf>,
    /// The form of the disk that it is an image of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<ForeignImage>,
    /// The cache that is in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache: Option<CacheOf>,
    /// What is not as it should be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) remarks: Vec<String>,
}

/// The header of a cache file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct CacheOf {
    /// Size of its disk, bytes.
    pub(crate) disk_size: u64,
    /// Bytes that it may hold.
    pub(crate) capacity: u64,
    /// Identity of its disk, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<String>,
    /// It failed, and its content is not used any more.
    pub(crate) is_dropped: bool,
}

/// A member's own superblock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct MemberOf {
    /// UUID of the array.
    pub(crate) array: String,
    /// Name of the array.
    pub(crate) name: String,
    /// Kind of superblock.
    pub(crate) version: String,
    /// Level of the array.
    pub(crate) level: String,
    /// `0`, `spare`, `faulty` or `journal`, by its own superblock.
    pub(crate) role: String,
    /// Counts changes of the array's state.
    pub(crate) events: u64,
    /// When the superblock was written, seconds since 1970.
    pub(crate) updated: u64,
    /// UUID of the member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uuid: Option<String>,
    /// Where its data begin, bytes.
    pub(crate) data_offset: u64,
    /// How much of it there is room for, bytes.
    pub(crate) data_size: u64,
    /// Its bitmap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bitmap: Option<BitmapOf>,
}

/// A member's write-intent bitmap.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct BitmapOf {
    /// Bytes for each bit.
    pub(crate) chunk: u32,
    /// Events when it was written.
    pub(crate) events: u64,
    /// Events when it was cleared the last time.
    pub(crate) events_cleared: u64,
    /// Version of its format.
    pub(crate) version: u32,
}

/// A physical volume's own label.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct VolumeOf {
    /// Its id.
    pub(crate) uuid: String,
    /// Size of its disk when it was made, bytes.
    pub(crate) size: u64,
    /// Name of its group, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<String>,
    /// Id of its group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group_uuid: Option<String>,
}

impl DiskContent {
    /// Whether nothing was found.
    pub(crate) fn is_empty(&self) -> bool {
        let Self {
            signature,
            table,
            member,
            physical_volume,
            image,
            cache,
            remarks: _,
        } = self;
        signature.is_none()
            && table.is_none()
            && member.is_none()
            && physical_volume.is_none()
            && image.is_none()
            && cache.is_none()
    }
}

/// md's way of writing a UUID: `3aaa0122:29827cfa:5331ad66:ca767371`.
pub(crate) fn array_uuid(bytes: &[u8; 16]) -> String {
    let words = bytes.chunks_exact(4).map(|word| {
        let bytes = word.iter().map(|byte| format!("{byte:02x}"));
        bytes.collect::<String>()
    });
    words.collect::<Vec<_>>().join(":")
}
