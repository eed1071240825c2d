//! A member that a power cut left one commit behind, where that commit changed the form of the array. Pure.
//!
//! The commit was the last one of a reshape, or the one with which the array got larger, or another level: each is durable on all members before
//! anything depends on it. What was left behind has the form that the others have, and says so with the next commit.

use block::Range;

use crate::array::format::{Role, Superblock, features};
use crate::array::level::with_level;

/// What `member` says once it knows what `fresh` does of the form, if it is one commit behind; on a disk of `size` bytes.
pub(in crate::array) fn caught_up(
    member: &Superblock,
    fresh: &Superblock,
    size: u64,
) -> Option<Superblock> {
    if member.level != fresh.level {
        return with_level(member, fresh);
    }
    if member.events.checked_add(1) != Some(fresh.events) || member.role == Role::Journal {
        return None;
    }
    let mut known = member.clone();
    let form = |of: &Superblock| (of.layout, of.chunk, of.members);
    if let (Some(reshape), None) = (member.reshape, fresh.reshape)
        && (reshape.layout, reshape.chunk, member.members) == form(fresh)
    {
        let start = member.data.offset.checked_add_signed(reshape.data_moved)?;
        let end = member.data.offset.checked_add(member.data.len)?;
        known.data = Range::new(start, end.checked_sub(start)?);
        (known.layout, known.chunk, known.reshape) = (reshape.layout, reshape.chunk, None);
        known.features &= !(features::RESHAPE | features::NEW_OFFSET | features::RESHAPE_BACKWARDS);
    }
    let end = known.data.offset.checked_add(fresh.member_size)?;
    if known.member_size < fresh.member_size && form(&known) == form(fresh) && end <= size {
        known.member_size = fresh.member_size;
        known.data.len = known.data.len.max(fresh.member_size);
    }
    (known != *member).then_some(known)
}
