//! Which member may come back by what the bitmap says.

use super::{Set, bitmap};
use crate::array::assemble::by_bitmap;
use crate::array::format::bitmap::{Bitmap, Bits};
use crate::array::format::{Level, Superblock, features};

/// A mirror of three that went on without its first member, and their bitmaps.
struct Left {
    members: Vec<Superblock>,
    bitmaps: Vec<(Bitmap, Bits)>,
}

fn left() -> Left {
    let mut set = Set::whole(Level::Raid1, 3);
    let before: Vec<_> = set.members.iter().map(|m| bitmap(&m.superblock)).collect();
    set.goes_on_without(0, 40);
    let members: Vec<Superblock> = set.members.into_iter().map(|m| m.superblock).collect();
    let read = |(index, of): (usize, &Superblock)| {
        // What was cleared before it left stays so; the rest is as new as the superblocks.
        let header = Bitmap {
            events: of.events,
            ..before[index]
        };
        let shape = header.shape(of).expect("they fit");
        let mut bits = Bits::clear(shape);
        bits.set(3);
        if index > 0 {
            bits.set(7);
        }
        (header, bits)
    };
    let bitmaps = members.iter().enumerate().map(read).collect();
    Left { members, bitmaps }
}

impl Left {
    fn may_come_back(&self) -> bool {
        let read = |index: usize| {
            let (header, bits) = &self.bitmaps[index];
            (&self.members[index], (header, bits))
        };
        let holders: Vec<&Superblock> = self.members[1..].iter().collect();
        by_bitmap(read(0), read(1), &holders)
    }
}

#[test]
fn a_member_that_was_away_comes_back_by_the_bitmap() {
    assert!(left().may_come_back());
}

#[test]
fn one_that_the_bitmap_was_cleared_without_does_not() {
    let mut left = left();
    left.bitmaps[1].0.events_cleared = left.members[0].events + 1;
    assert!(!left.may_come_back());
}

#[test]
fn one_that_was_written_alone_does_not() {
    // Finding 1 of the study: each half was used alone, and Linux copies only what one side has written.
    let mut left = left();
    left.members[0].roles[1] = crate::array::format::Role::Faulty;
    assert!(!left.may_come_back());
}

/// md clears bits without a member, of what was written everywhere before that failed: the member still has them.
#[test]
fn one_that_has_bits_of_its_own_comes_back_too() {
    let mut left = left();
    left.bitmaps[0].1.set(9);
    assert!(left.may_come_back());
}

#[test]
fn one_whose_bitmap_has_other_chunks_does_not() {
    let mut left = left();
    let mut header = left.bitmaps[0].0;
    header.chunk *= 2;
    let shape = header.shape(&left.members[0]).expect("they fit");
    left.bitmaps[0] = (header, Bits::clear(shape));
    assert!(!left.may_come_back());
}

#[test]
fn one_that_was_being_rebuilt_is_not() {
    let mut left = left();
    left.members[0].rebuilt_to = Some(1 << 20);
    left.members[0].features |= features::RECOVERY_OFFSET;
    assert!(!left.may_come_back());
    // By the bitmap, it goes on where it was.
    left.members[0].features |= features::RECOVERY_BITMAP;
    assert!(left.may_come_back());
}

#[test]
fn no_member_is_re_added_by_a_bitmap_that_is_older_than_the_superblocks() {
    let mut left = left();
    left.bitmaps[1].0.events -= 1;
    assert!(!left.may_come_back());
}

#[test]
fn one_whose_part_another_has_does_not() {
    let mut left = left();
    left.members[2].role = left.members[0].role;
    assert!(!left.may_come_back());
}

#[test]
fn one_that_has_seen_more_than_the_array_does_not() {
    let mut left = left();
    left.members[0].events = 41;
    assert!(!left.may_come_back());
    let mut cleared = self::left();
    cleared.bitmaps[0].0.events_cleared += 1;
    assert!(!cleared.may_come_back());
}
