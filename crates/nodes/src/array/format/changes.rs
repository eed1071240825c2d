//! [`Changes`]: what a running array rewrites in the superblock of a member. Pure.
//!
//! # Invariants
//!
//! * Unknown fields, and what does not change, stay as they were read: [`patch`] starts from the bytes.
//! * The checksum is right afterwards.
//!
//! # What it does not do
//!
//! It does not move a superblock, nor make one ([`encode`](super::encode)).

use block::Range;

use super::{Level, NUMBERS_MAX_0_90, Reshape, Role, Superblock, Version, dm_raid, v0, v1};
use crate::array::format::MEMBERS_MAX;

/// What of a superblock changes; `None`: it stays as it is. Offsets are bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes<'a> {
    /// Changes of the array's state.
    pub events: Option<u64>,
    /// When it is written, seconds since 1970.
    pub updated: Option<u64>,
    /// Up to where copies are identical; `Some(None)`: the array is clean.
    pub synced_to: Option<Option<u64>>,
    /// The roles of members by their numbers; what lies behind the last one stays as it is. In 0.90, which
    /// does not know how far a member is rebuilt, one that is not in sync is a [`Role::Spare`].
    pub roles: Option<&'a [Role]>,
    /// This member's number.
    pub number: Option<u32>,
    /// Members of the complete array.
    pub members: Option<u32>,
    /// Up to where this member is rebuilt; `Some(None)`: all of it is. Not kept in 0.90.
    pub rebuilt_to: Option<Option<u64>>,
    /// Whether the bitmap has what of this member is still to be copied. Not kept in 0.90.
    pub rebuilt_by_bitmap: Option<bool>,
    /// Whether it is to take the place of another member, which still works. Not kept in 0.90.
    pub replacement: Option<bool>,
    /// Whether its log of bad blocks has entries. Not kept in 0.90.
    pub has_bad_blocks: Option<bool>,
    /// Where a reader of the journal begins, byte of it, for the member that keeps it. Of 1.x only.
    pub journal_tail: Option<u64>,
    /// Read errors that were corrected. Not kept in 0.90.
    pub corrected: Option<u32>,
    /// Where its bitmap is, byte of the disk; `Some(None)`: there is none. In 0.90 only whether there is one.
    pub bitmap_at: Option<Option<u64>>,
    /// Reads prefer other members.
    pub write_mostly: Option<bool>,
    /// Errors fail it at once.
    pub fail_fast: Option<bool>,
    /// How data and parity lie. Where a member's data begin is not kept in 0.90, and is not changed.
    pub form: Option<Form>,
    /// Its bitmap or partial parity log. Only of superblocks 1.x.
    pub policy: Option<PolicyPlace>,
}

/// Where a member keeps what its array's consistency policy needs, bytes of the disk. The three exclude each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyPlace {
    /// Neither.
    None,
    /// Neither while a reshape is going on, which has dropped partial parity logs: members get these again
    /// ([`awaits_ppl`](super::awaits_ppl)).
    AwaitsPpl,
    /// A bitmap, from this byte on.
    Bitmap(u64),
    /// A partial parity log of one header.
    Ppl(Range),
}

/// How data and parity lie, and the reshape that changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// RAID level.
    pub level: Level,
    /// Layout, by the level's own numbers.
    pub layout: u32,
    /// Chunk, bytes.
    pub chunk: u64,
    /// Where the member keeps data.
    pub data: Range,
    /// Bytes of each member that are used.
    pub member_size: u64,
    /// There are no partial parity logs any more.
    pub drops_ppl: bool,
    /// `None`: none is going on.
    pub reshape: Option<Reshape>,
}

impl<'a> Changes<'a> {
    /// All that a superblock says of what can change later. What features say, and the superblock does not have, stays.
    pub(super) fn all_of(of: &'a Superblock) -> Self {
        Self {
            events: Some(of.events),
            updated: Some(of.updated),
            synced_to: Some(of.synced_to),
            roles: Some(&of.roles),
            number: Some(of.number),
            members: Some(of.members),
            rebuilt_to: of.rebuilt_to.map(Some),
            rebuilt_by_bitmap: None,
            replacement: None,
            has_bad_blocks: None,
            journal_tail: None,
            corrected: Some(of.corrected),
            bitmap_at: of.bitmap_at.map(Some),
            write_mostly: Some(of.write_mostly),
            fail_fast: Some(of.fail_fast),
            form: None,
            policy: None,
        }
    }
}

/// Most members, spares included, that the superblocks of an array can number.
#[must_use]
pub const fn numbers_max(version: Version) -> usize {
    match version {
        Version::V0_90 { .. } => NUMBERS_MAX_0_90,
        Version::DmRaid => dm_raid::IMAGES_MAX,
        _ => MEMBERS_MAX as usize,
    }
}

/// The bytes of a superblock with some changes. `bytes` begin with it, as they were read or as they were patched
/// before, and are as many as its place has; as many come back. What is to be written of them is [`written`].
///
/// # Panics
/// If the bytes hold no superblock of `version` (they were decoded before), or more roles are given than
/// [`numbers_max`].
#[must_use]
pub fn patch(bytes: &[u8], version: Version, changes: &Changes<'_>) -> Vec<u8> {
    let roles = changes.roles.map_or(0, <[Role]>::len);
    assert!(
        roles <= numbers_max(version),
        "{roles} roles in a superblock"
    );
    match version {
        Version::V0_90 { .. } => v0::patch(bytes, changes),
        Version::DmRaid => dm_raid::patch(bytes, changes),
        _ => v1::patch(bytes, changes),
    }
}

/// What is to be written of the bytes of a superblock, on a disk with blocks of `block` bytes: the rest of the
/// last block goes with it.
#[must_use]
pub fn written(bytes: &[u8], version: Version, block: u32) -> &[u8] {
    let len = match version {
        Version::V0_90 { .. } => v0::LEN,
        Version::DmRaid => dm_raid::LEN,
        _ => v1::len(bytes),
    };
    let block = usize::try_from(block.max(512)).unwrap_or(bytes.len());
    &bytes[..len.next_multiple_of(block).min(bytes.len())]
}
