//! Tests of what is pure: forms that lead to each other.

use super::super::format::Level;
use super::super::format::{Role, Superblock, Version, features};
use super::{LevelForm, takeover, with_level};

const KIB: u64 = 1 << 10;

const fn form(level: Level, layout: u32, parts: u32) -> LevelForm {
    LevelForm {
        level,
        layout,
        chunk: match level {
            Level::Raid1 => 0,
            _ => 64 * KIB,
        },
        parts,
        member_size: 640 * KIB,
    }
}

#[test]
fn a_level_and_the_way_back_give_the_same_form() {
    let [zero, four, five, six] = [Level::Raid0, Level::Raid4, Level::Raid5, Level::Raid6];
    let mut pairs: Vec<_> = (0..=4)
        .map(|layout| (form(five, layout, 5), form(six, 16 + layout, 6)))
        .collect();
    pairs.extend([
        (form(five, 5, 3), form(six, 5, 4)),
        (form(four, 0, 3), form(five, 5, 3)),
        (form(zero, 0, 2), form(five, 5, 3)),
        (form(zero, 0, 2), form(four, 0, 3)),
        (form(Level::Raid1, 0, 2), form(five, 2, 2)),
    ]);
    for (one, other) in pairs {
        assert_eq!(takeover(one, other.level).unwrap(), other);
        assert_eq!(takeover(other, one.level).unwrap(), one);
    }
}

#[test]
fn the_chunk_of_a_mirror_is_the_largest_that_divides_it() {
    let sizes = [(640, 64), (648, 8), (652, 4), (32, 32), (1 << 30, 64)];
    for (size, chunk) in sizes {
        let mirror = LevelForm {
            member_size: size * KIB,
            ..form(Level::Raid1, 0, 2)
        };
        let after = takeover(mirror, Level::Raid5).unwrap();
        assert_eq!((after.chunk, after.member_size), (chunk * KIB, size * KIB));
    }
    for size in [0, 512, 650 * KIB] {
        let mirror = LevelForm {
            member_size: size,
            ..form(Level::Raid1, 0, 2)
        };
        assert!(takeover(mirror, Level::Raid5).is_err(), "{size}");
    }
}

#[test]
fn a_level_without_parity_uses_whole_chunks() {
    let odd = LevelForm {
        member_size: 700 * KIB,
        ..form(Level::Raid5, 5, 2)
    };
    for to in [Level::Raid0, Level::Raid1] {
        assert_eq!(takeover(odd, to).unwrap().member_size, 640 * KIB, "{to}");
    }
}

/// A member of level 5 with parity on the last of three, which has seen 10 events.
fn member(number: u16) -> Superblock {
    let mut of = super::super::format::tests::mirror(Version::V1_2, number);
    let roles = (0..3).map(Role::Active);
    (of.level, of.layout, of.chunk, of.members) = (Level::Raid5, 5, 64 * KIB, 3);
    of.roles = roles.chain([Role::Spare]).collect();
    of.role = of.roles[usize::from(number)];
    (of.number, of.member_size, of.events) = (number.into(), 640 * KIB, 10);
    of
}

/// The same once it has a level, one event later.
fn after(number: u16, level: Level) -> Superblock {
    let old = member(number);
    let new = takeover(LevelForm::of(&old), level).unwrap();
    let mut of = Superblock {
        level,
        layout: new.layout,
        chunk: new.chunk,
        members: new.parts,
        events: 11,
        ..old
    };
    if level == Level::Raid6 {
        of.roles[3] = Role::Active(3);
        of.role = of.roles[usize::from(number)];
    }
    of
}

#[test]
fn a_member_left_behind_gets_the_level_and_a_spare_its_part() {
    let fresh = after(0, Level::Raid6);
    let known = with_level(&member(1), &fresh).unwrap();
    assert_eq!((known.level, known.layout), (Level::Raid6, 5));
    assert_eq!((known.role, known.rebuilt_to), (Role::Active(1), None));
    let known = with_level(&member(3), &fresh).unwrap();
    assert_eq!((known.role, known.rebuilt_to), (Role::Active(3), Some(0)));
    assert_ne!(known.features & features::RECOVERY_OFFSET, 0);
}

#[test]
fn what_does_not_lead_to_the_level_of_the_others_stays_as_it_is() {
    let fresh = after(0, Level::Raid4);
    assert!(with_level(&member(1), &fresh).is_some());
    let two_behind = Superblock {
        events: 9,
        ..member(1)
    };
    assert_eq!(with_level(&two_behind, &fresh), None);
    // A spare holds nothing.
    let lagging = Superblock {
        events: 3,
        ..member(3)
    };
    assert!(with_level(&lagging, &fresh).is_some());
    let other_layout = Superblock {
        layout: 2,
        ..member(1)
    };
    assert_eq!(with_level(&other_layout, &fresh), None);
    assert_eq!(with_level(&fresh, &fresh), None);
    assert_eq!(with_level(&fresh, &member(1)), None, "it is not behind");
}

#[test]
fn members_that_were_used_without_each_other_are_not_made_one_array() {
    let fresh = after(0, Level::Raid4);
    // It was used without the fresh one.
    let mut alone = member(1);
    alone.roles[0] = Role::Faulty;
    assert_eq!(with_level(&alone, &fresh), None);
    // The fresh one was used without it.
    let mut without = fresh.clone();
    without.roles[1] = Role::Spare;
    assert_eq!(with_level(&member(1), &without), None);
}

#[test]
fn superblocks_0_90_keep_their_level() {
    let old = Superblock {
        version: Version::V0_90 { big_endian: false },
        ..member(1)
    };
    assert_eq!(with_level(&old, &after(0, Level::Raid4)), None);
}

#[test]
fn forms_that_no_array_has_lead_nowhere() {
    for (layout, parts) in [(u32::MAX, 4), (18, 0), (5, 0)] {
        for level in [Level::Raid4, Level::Raid5, Level::Raid6] {
            for to in [Level::Raid0, Level::Raid4, Level::Raid5, Level::Raid6] {
                drop(takeover(form(level, layout, parts), to));
            }
        }
    }
}
