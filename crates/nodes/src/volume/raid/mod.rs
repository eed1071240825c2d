//! Volumes of RAID: images of LVM with device-mapper's metadata (`raid`), and old mirrors with a log of regions
//! (`mirror`).
//!
//! ```text
//! rmeta 0 │ rimage 0   one member: metadata, then data ─┐
//! rmeta 1 │ rimage 1   one member                       ├─► picture ─► Assembly ─► engine of arrays
//! rmeta 2 │ rimage 2   one member                       ┘   (pure)                 (array::redundant, parity, striped)
//! ```
//!
//! There is one engine for each level. An image and its metadata, joined, are a member as md has it: a superblock in front of
//! the data. `docs/formats/dm-raid.md` describes both formats and which image is used.
//!
//! # Invariants
//!
//! * Nothing is written before all metadata were read and understood; a volume that is opened read-only is never written. One
//!   that was never in use, or got another size, gets its metadata when it is first opened for writing.
//! * A volume with parity that is not in sync everywhere, and lacks an image, is not opened for writing: so does Linux.
//! * Bits of the bitmap that are set count as regions in which copies may differ: device-mapper does not say in its
//!   superblocks that a volume was not shut down, and starts it without a resync.
//! * What is unknown (features, flags, a reshape, a type of segment) is refused by name.
//!
//! # What it does not do
//!
//! It does not write old mirrors; it neither adds nor replaces images. It knows nothing of LVM's text: the caller gives it disks.

mod bitmap;
mod error;
mod initialize;
mod kind;
mod mirror;
mod open;
mod picture;
mod resize;
#[cfg(test)]
mod tests;

use std::time::Duration;

use block::Node;

pub use self::error::RaidError;
pub use self::mirror::log;
pub use self::mirror::{MirrorOptions, MirrorSpec, MirrorVolume, open_mirror};
pub use self::open::open;
use crate::array::MEMBER_TIMEOUT;

/// A volume of RAID, as LVM's metadata describes it. Sizes are bytes.
#[derive(Debug, Clone)]
pub struct RaidSpec {
    /// The type of its segment: `raid1`, `raid5_ls`, `raid6`, `raid10`, `raid0_meta`…
    pub kind: String,
    /// Its size.
    pub size: u64,
    /// Its stripe size: the chunk of md. Of no meaning for RAID 1.
    pub stripe_size: u64,
    /// What a bit of a new bitmap is for; a bitmap that is there has its own.
    pub region_size: u64,
    /// Its images, in order.
    pub images: Vec<RaidImageDisks>,
}

/// The disks of one image. Both must be there for it to be used, but for RAID 0, which needs no metadata.
#[derive(Debug, Clone, Default)]
pub struct RaidImageDisks {
    /// Its metadata; `None`: they cannot be had.
    pub metadata: Option<Node>,
    /// Its data; `None`: they cannot be had.
    pub data: Option<Node>,
}

/// How a volume of RAID is opened.
#[derive(Debug, Clone)]
pub struct RaidOptions {
    /// Write nothing at all.
    pub read_only: bool,
    /// What the volume is called in messages; images are `NAME_rimage_0` and so on.
    pub name: String,
    /// Take what the freshest metadata say although another image was written without it; where nothing is written, also
    /// compute from parity although it may be out of date.
    pub force: bool,
    /// How long a request to an image may take before that image has failed.
    pub image_timeout: Duration,
    /// Resync, and mark the volume clean, in the background.
    pub background: bool,
    /// The images of a volume that was never in use count as equal, or its parity as right: it is not resynced. Parity that
    /// was never computed is not changed, but computed from all data of a row.
    pub assume_synced: bool,
}

impl Default for RaidOptions {
    fn default() -> Self {
        Self {
            read_only: true,
            name: "volume".to_owned(),
            force: false,
            image_timeout: MEMBER_TIMEOUT,
            background: true,
            assume_synced: false,
        }
    }
}
