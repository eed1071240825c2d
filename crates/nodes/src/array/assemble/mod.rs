//! `assemble`: superblocks to holders, or why that is no array that can be opened. Pure.
//!
//! ```text
//! witnesses ──► single_member ──► consistency ──► picture ──► completeness ──► verdict
//!               each by itself    what all        which       which are
//!                                 agree on        is fresh    missing
//! ```
//!
//! # Invariants
//!
//! * A member is used only if its superblock, its table and the freshest member's agree that it holds its
//!   part now ([`Picture`]).
//! * What is not understood is refused by name, with what to do next. Reading is refused less than writing,
//!   and only where nothing is read that may be wrong.
//!
//! # What it does not do
//!
//! It reads nothing and knows no disks: members are named by their place among the witnesses.

mod catch_up;
mod comeback;
mod completeness;
mod consistency;
mod facts;
mod picture;
mod single_member;
#[cfg(test)]
mod tests;
mod verdict;

use super::assembly::{Facts, OtherKind};
use super::format::bitmap::{self, Bitmap};
use super::format::{Level, Superblock, features};
use super::{ArrayError, Raid0Layout};

pub(super) use self::catch_up::caught_up;
pub(super) use self::comeback::by_bitmap;
pub use self::picture::{Membership, Picture};

/// What is known of a member.
#[derive(Debug, Clone)]
pub(super) struct Witness {
    /// What it is called.
    pub(super) name: String,
    /// Size of its disk, bytes.
    pub(super) size: u64,
    /// What it says.
    pub(super) superblock: Superblock,
    /// Its bitmap, or what is wrong with it; `None` where it has none.
    pub(super) bitmap: Option<Result<Bitmap, bitmap::Problem>>,
}

/// The options of the caller, and what is known from outside.
#[derive(Debug, Clone, Default)]
pub(super) struct Rules {
    /// Nothing will be written.
    pub(super) read_only: bool,
    /// Start although members are missing that worked when it was used last.
    pub(super) run: bool,
    /// So many of them are known to be missing.
    pub(super) missing: usize,
    /// The witness with the side that counts.
    pub(super) prefer: Option<usize>,
    /// How RAID 0 begins its zones, where the superblocks do not say.
    pub(super) raid0_layout: Option<Raid0Layout>,
    /// Open RAID 4, 5, 6 although it is dirty and degraded.
    pub(super) force_dirty_degraded: bool,
    /// Names of members that cannot be reached.
    pub(super) unreachable: Vec<String>,
}

/// The holders. Members are named by their place among the witnesses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    /// What all agree on.
    pub(super) facts: Facts,
    /// The member with the superblock that counts.
    pub(super) freshest: usize,
    /// The holder of each part, and up to where.
    pub(super) parts: Vec<Option<(usize, Option<u64>)>>,
    /// Members that hold none. A stale member is listed as one that cannot come back by the bitmap: that is for the code
    /// has read the bits.
    pub(super) others: Vec<(usize, OtherKind)>,
    /// The member with the bitmap that counts, if one can be used; whether it is behind the superblocks.
    pub(super) bitmap: Option<UsedBitmap>,
    /// What the caller should know.
    pub(super) remarks: Vec<String>,
}

/// A bitmap that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UsedBitmap {
    /// The member's.
    pub(super) of: usize,
    /// It is older than the superblocks, or says itself that it is not to be trusted: all its bits count
    /// as set.
    pub(super) stale: bool,
}

/// The layout, where it means something: that of RAID 0 only if a bit says so.
const fn layout_of(superblock: &Superblock) -> u32 {
    match superblock.level {
        Level::Raid0 if superblock.features & features::RAID0_LAYOUT == 0 => 0,
        _ => superblock.layout,
    }
}

/// Puts an array together of `witnesses`.
pub(super) fn assemble(witnesses: &[Witness], rules: &Rules) -> Result<Verdict, ArrayError> {
    let Some(first) = witnesses.first() else {
        return Err(none(rules));
    };
    for witness in witnesses {
        consistency::same_array(first, witness)?;
        single_member::check(witness, rules)?;
    }
    consistency::no_copies(witnesses)?;
    let superblocks: Vec<&Superblock> = witnesses.iter().map(|w| &w.superblock).collect();
    let picture = Picture::of(&superblocks, rules.prefer).expect("there is a first one");
    consistency::agreement(witnesses, &picture)?;
    consistency::one_for_each_part(witnesses, &picture)?;
    consistency::no_split(witnesses, &picture, rules)?;
    let facts = facts::of(witnesses, &picture, rules)?;
    completeness::check(witnesses, &picture, rules)?;
    Ok(verdict::of(witnesses, &picture, facts, rules))
}

fn none(rules: &Rules) -> ArrayError {
    match rules.unreachable.as_slice() {
        [] => ArrayError::refused("no member is named", "name the disks of the array"),
        [only] => ArrayError::refused(
            format!("the only member that is named, {only}, cannot be reached"),
            "see that its server runs",
        ),
        several => ArrayError::refused(
            format!("none of the members can be reached: {}", several.join(", ")),
            "see that their servers run",
        ),
    }
}
