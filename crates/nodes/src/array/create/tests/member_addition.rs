//! A disk becomes a member of an array that is there.

use super::{MIB, disks, found, made, usual};
use crate::array::create::join::{Joining, join};
use crate::array::format::bitmap::{Bitmap, Shape};
use crate::array::format::tests::VERSIONS;
use crate::array::format::{Level, Role, Superblock, decode, encode, numbers_max};

const NEW: Joining<'_> = Joining {
    name: "c",
    size: 80 * MIB,
    block: 512,
    number: 2,
    device: [9; 16],
    write_mostly: true,
    fail_fast: false,
};

/// A member of a new mirror, where its superblock is, and how the bits of its bitmap lie.
fn survivor(version: crate::array::format::Version) -> (Superblock, u64, Shape) {
    let parts = disks(&[64 * MIB, 64 * MIB]);
    made(&parts, &[], &usual(Level::Raid1, version)).expect("it can be made");
    let (found, superblock) = found(&parts[0]);
    let bitmap: Bitmap = found.bitmap.expect("it has one").expect("it is good");
    let shape = bitmap.shape(&superblock).expect("it is its own");
    (superblock, found.at, shape)
}

#[test]
fn a_spare_says_what_the_others_say_with_everything_at_the_same_distances() {
    for version in VERSIONS {
        let (of, at, shape) = survivor(version);
        let (new, place) = join(&of, at, Some(&shape), &NEW).expect("there is room");
        let distance = |to: Option<u64>, at: u64| to.map(|to| to.wrapping_sub(at));
        assert_eq!(distance(new.bitmap_at, place), distance(of.bitmap_at, at));
        assert_eq!(new.data.offset, of.data.offset);
        assert_eq!((new.role, new.number), (Role::Spare, 2));
        assert!(new.write_mostly && !of.write_mostly);
        assert_eq!(
            (new.array, new.member_size, new.events),
            (of.array, of.member_size, of.events)
        );
        // It can be recorded, and is read so.
        let read = decode(version, place, &encode(&new, place)).expect("it is right");
        assert_eq!(read, Some(new));
    }
}

#[test]
fn a_disk_that_is_too_small_is_refused() {
    for version in VERSIONS {
        let (of, at, shape) = survivor(version);
        let short = |size| {
            let refused = join(&of, at, Some(&shape), &Joining { size, ..NEW });
            let refused = refused.expect_err("it is too small");
            assert!(
                refused.to_string().starts_with("c is too small: "),
                "{refused}"
            );
        };
        short(60 * MIB);
        short(0);
        // One of the same size is large enough.
        let size = 64 * MIB;
        assert!(join(&of, at, Some(&shape), &Joining { size, ..NEW }).is_ok());
    }
}

#[test]
fn a_number_that_superblocks_do_not_have_is_refused() {
    for version in VERSIONS {
        let (of, at, shape) = survivor(version);
        let number = u32::try_from(numbers_max(version)).expect("few");
        let refused = join(&of, at, Some(&shape), &Joining { number, ..NEW });
        let refused = refused.expect_err("there is no room");
        let expected = format!("superblocks {version} have room for {number} members");
        assert_eq!(refused.to_string(), expected);
        let number = number - 1;
        let (new, place) = join(&of, at, Some(&shape), &Joining { number, ..NEW }).expect("room");
        let read = decode(version, place, &encode(&new, place)).expect("it is right");
        assert_eq!(read.expect("it is there").role, Role::Spare);
    }
}
