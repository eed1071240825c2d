//! Which stale member may come back by what the bitmap says. Pure.
//!
//! # The rule
//!
//! Stricter than Linux, which lets in a member that was written on its own, and copies only what the other
//! side has written (see `docs/formats/md.md`). All of this must hold:
//!
//! * the array's bitmap is as new as its superblocks, and was not cleared since the member left;
//! * the member's own table has every member that holds a part now as a working one: it never went on
//!   without them;
//! * it was whole when it left, or was being brought up to date by the bitmap;
//! * its own bitmap is for the same chunks. Bits that only it has are what was being written when it left: md
//!   clears them in the array's without it, once they are written everywhere else. Taking it back sets
//!   them in the array's too, so that they are copied with the rest.

use super::picture::{lists, own_part};
use crate::array::format::bitmap::{Bitmap, Bits};
use crate::array::format::{Superblock, features};

/// A bitmap: its header and its bits.
pub(in crate::array) type Read<'a> = (&'a Bitmap, &'a Bits);

/// Whether the array's bitmap has all that `member` lacks. `holders` are the members that hold a part; their
/// freshest is `fresh`.
pub(in crate::array) fn by_bitmap(
    (member, own): (&Superblock, Read<'_>),
    (fresh, bitmap): (&Superblock, Read<'_>),
    holders: &[&Superblock],
) -> bool {
    let (header, bits) = bitmap;
    let (own_header, own_bits) = own;
    let Some(part) = own_part(member) else {
        return false;
    };
    let is_free = !holders.iter().any(|holder| own_part(holder) == Some(part));
    let was_whole = member.rebuilt_to.is_none() || member.features & features::RECOVERY_BITMAP != 0;
    let told = !header.is_stale(fresh.events)
        && member.events >= header.events_cleared
        && member.events <= fresh.events
        && own_header.events_cleared <= header.events_cleared;
    let never_alone = holders.iter().all(|holder| lists(member, holder));
    // Where a reshape moved data since, bits say nothing of the places where they were.
    let form = |of: &Superblock| (of.layout, of.chunk, of.members, of.reshape.is_none());
    let same_form = form(member) == form(fresh) && fresh.reshape.is_none();
    let is_whole = is_free && was_whole && same_form;
    is_whole && told && never_alone && own_bits.shape() == bits.shape()
}
