//! Makes a new array: superblocks, bitmaps or partial parity logs, and logs of bad blocks, as mdadm would.
//!
//! ```text
//! spec, disks ──► checked ─────────────────► superblocks, bitmap ──► written
//!                 create_spec.rs, check.rs   initial.rs, plan.rs,    write.rs
//!                                            places.rs
//! ```
//!
//! # Invariants
//!
//! * Nothing is written before all of it was found possible.
//! * What was on the disks before is gone first, then come bitmaps, logs and the journal, then superblocks: an array that was
//!   half made when the power went has not all of its members, and is not opened unasked.
//! * Where everything lies is what mdadm chooses for the same disks.
//!
//! # What it does not do
//!
//! It neither resyncs copies nor writes parity: the first process that opens the array does, unless the spec says that
//! they fit already.

mod check;
mod consistency;
mod create_spec;
mod initial;
pub(super) mod join;
mod journal;
mod places;
mod plan;
#[cfg(test)]
mod tests;
pub(super) mod write;

use block::Node;

pub use self::consistency::{ConsistencyChoice, ConsistencyPolicy};
pub(in crate::array) use self::places::PPL_LEN;
use super::ArrayError;
use super::external_input::{random_uuid, seconds};
use super::format::bitmap::{self, Bitmap};
use super::format::{Level, Superblock, Version};

/// Bytes of an array's name, at most.
pub const NAME_MAX: usize = 32;

/// How a new array is made. The defaults are mdadm's.
#[derive(Debug, Clone)]
pub struct CreateOptions {
    /// Level: linear, 0, 1, 4, 5, 6 or 10.
    pub level: Level,
    /// Layout of RAID 5, 6 and 10, and of RAID 0 with unequal members; md's number.
    pub layout: Option<u32>,
    /// Chunk, bytes.
    pub chunk: Option<u64>,
    /// Kind of superblock.
    pub version: Version,
    /// Name, with the host's before a colon if it is to have one. Superblocks 0.90 keep none.
    pub name: String,
    /// What keeps it consistent over a power cut.
    pub consistency: ConsistencyChoice,
    /// The copies are identical already, or parity fits (or shall be taken for it).
    pub assume_clean: bool,
    /// Bytes of each member to use, if not all.
    pub size: Option<u64>,
    /// The disk that keeps the journal of an array with parity.
    pub journal: Option<NewMember>,
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
    /// What keeps it consistent over a power cut.
    pub policy: ConsistencyPolicy,
    /// What the caller should know: that much of a disk is not used.
    pub remarks: Vec<String>,
}

/// What no two arrays have in common: random numbers and the time.
#[derive(Debug, Clone)]
struct Stamp {
    /// Of the array.
    uuid: [u8; 16],
    /// Of its members.
    devices: Vec<[u8; 16]>,
    /// Seconds since 1970.
    now: u64,
}

/// Writes the superblocks (and bitmaps) of a new array; `parts` by role, then spares. Nothing is
/// written before all of it was found possible; whether the disks hold something else is the
/// caller's to ask.
///
/// # Errors
/// [`ArrayError`]: what is wrong with the spec or with a disk; or a disk failed in the middle, and the array is
/// not whole.
pub async fn create(
    parts: Vec<NewMember>,
    spares: Vec<NewMember>,
    options: CreateOptions,
) -> Result<Created, ArrayError> {
    let stamp = Stamp {
        uuid: random_uuid(),
        devices: (0..=parts.len() + spares.len())
            .map(|_| random_uuid())
            .collect(),
        now: seconds(),
    };
    make(&parts, &spares, &options, &stamp).await
}

/// The bitmap that a member with that superblock would have, as mdadm makes it. `None`: it has none.
pub(in crate::array) fn bitmap_for(of: &Superblock) -> Option<Bitmap> {
    let covered = bitmap::covered(of)?;
    let shape = places::bitmap_shape(of.version, of.member_size, covered, None).ok()?;
    Bitmap::of(of, u32::try_from(shape.chunk()).ok()?)
}

async fn make(
    parts: &[NewMember],
    spares: &[NewMember],
    options: &CreateOptions,
    stamp: &Stamp,
) -> Result<Created, ArrayError> {
    let journal = options.journal.as_ref();
    check::disks(parts, spares, journal)?;
    if options.version == Version::DmRaid {
        let what = "arrays of md have no superblocks of device-mapper";
        return Err(ArrayError::refused(what, "make a volume of LVM"));
    }
    let spec = create_spec::CreateSpec::of(parts, spares, options);
    let plan = plan::plan(&spec, stamp)?;
    let all = parts.iter().chain(spares).chain(journal);
    let disks = all.filter_map(|member| Some((member.name.as_str(), member.disk.as_ref()?)));
    write::write(disks.zip(&plan.members).collect()).await?;
    Ok(Created {
        uuid: stamp.uuid,
        size: plan.size,
        policy: plan.policy,
        remarks: plan.remarks,
    })
}
