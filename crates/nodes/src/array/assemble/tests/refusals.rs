//! What is no array that can be opened: one line each, with what to do next.

use super::{MIB, Set, bitmap};
use crate::array::Raid0Layout;
use crate::array::format::bitmap::Problem;
use crate::array::format::{Level, Reshape, Role, Version, features};

/// Changes a set.
type Change = fn(&mut Set);
/// Why it is refused, and what to do.
type Expectation = (&'static str, &'static str);

fn refused(level: Level, parts: u16, cases: &[(Change, Expectation)]) {
    for (number, (change, (why, next))) in cases.iter().enumerate() {
        let mut set = Set::whole(level, parts);
        change(&mut set);
        let (found, found_next) = set.refusal();
        assert!(found.contains(why), "case {number}: {found}");
        assert!(found_next.contains(next), "case {number}: {found_next}");
        assert!(!found.contains('\n'), "one line");
    }
}

/// What is refused for writing, and read all the same.
fn only_read(level: Level, parts: u16, cases: &[(Change, Expectation)]) {
    refused(level, parts, cases);
    for (number, (change, _)) in cases.iter().enumerate() {
        let mut set = Set::whole(level, parts);
        change(&mut set);
        set.rules.read_only = true;
        if let Err(error) = set.judged() {
            panic!("case {number}: {error}");
        }
    }
}

#[test]
fn members_of_different_arrays() {
    refused(
        Level::Raid1,
        2,
        &[(
            |set| {
                set.of(1).array[0] = 0;
                set.of(1).name = "nas:films".to_owned();
            },
            (
                "a belongs to array nas:photos (3aaa0122:29827cfa:5331ad66:ca767371), b to array \
                 nas:films (00aa0122:",
                "name the members of one array",
            ),
        )],
    );
}

#[test]
fn a_member_that_is_given_twice() {
    refused(
        Level::Raid1,
        2,
        &[
            (
                |set| set.members.push(set.members[0].clone()),
                ("a is named twice", "name one of them"),
            ),
            (
                |set| {
                    let mut copy = set.members[0].clone();
                    copy.name = "copy".to_owned();
                    copy.superblock.events -= 9;
                    set.members.push(copy);
                },
                (
                    "a and copy are the same member: one is a copy",
                    "name one of them",
                ),
            ),
            (
                |set| {
                    set.of(1).role = Role::Active(0);
                    set.of(0).roles[1] = Role::Active(0);
                },
                ("a and b both hold part 0", "leave one of them out"),
            ),
        ],
    );
}

#[test]
fn an_old_member_0_90_whose_number_another_has_now() {
    let mut set = Set::whole(Level::Raid1, 2);
    for member in 0..2 {
        set.of(member).version = Version::V0_90 { big_endian: false };
        set.of(member).device = None;
    }
    let mut old = set.members[0].clone();
    old.name = "old".to_owned();
    old.superblock.events -= 9;
    set.members.push(old);
    assert_eq!(set.holders(), [Some(0), Some(1)]);
    set.of(2).events += 9;
    let (why, _) = set.refusal();
    assert!(why.contains("a and old are the same member"), "{why}");
}

#[test]
fn members_that_differ_in_form() {
    refused(
        Level::Raid5,
        3,
        &[
            (
                |set| set.of(2).level = Level::Raid4,
                ("by a the array is raid5, by c raid4", "leave the one out"),
            ),
            (
                |set| set.of(2).layout = 3,
                (
                    "by a the array has layout 0x2, by c 0x3",
                    "leave the one out",
                ),
            ),
            (
                |set| set.of(2).chunk = 4096,
                ("chunks of 65536 bytes, by c of 4096", "leave the one out"),
            ),
            (
                |set| set.of(2).member_size -= MIB,
                (
                    "by a the array uses 33554432 bytes of each member, by c 32505856",
                    "leave the one out",
                ),
            ),
        ],
    );
}

/// What was wrong: an array that was reshaped after a member had failed was refused as long as that member was named.
#[test]
fn a_stale_member_of_another_form_holds_nothing() {
    let changes: [Change; 4] = [
        |set| set.of(2).level = Level::Raid4,
        |set| set.of(2).layout = 3,
        |set| set.of(2).chunk = 4096,
        |set| set.of(2).member_size -= MIB,
    ];
    for change in changes {
        let mut set = Set::whole(Level::Raid5, 3);
        let events = set.of(0).events;
        set.goes_on_without(2, events + 9);
        change(&mut set);
        assert_eq!(set.holders(), [Some(0), Some(1), None]);
        let remarks = set.verdict().remarks.join("; ");
        assert!(remarks.contains("c is stale"), "{remarks}");
    }
}

#[test]
fn a_member_that_is_too_small() {
    refused(
        Level::Raid1,
        2,
        &[
            (
                |set| set.members[1].size /= 2,
                (
                    "b has 33554432 bytes, its superblock records 67108864",
                    "cut short",
                ),
            ),
            (
                |set| {
                    set.of(0).data.len = MIB;
                },
                (
                    "a has room for 1048576 bytes of data, the array needs 33554432",
                    "wrong partition",
                ),
            ),
        ],
    );
}

#[test]
fn what_this_program_does_not_do() {
    refused(
        Level::Raid1,
        2,
        &[
            (
                |set| set.of(0).features |= 0x4000,
                ("a has features that are not known here: 0x4000", "kernel"),
            ),
            (
                |set| set.of(0).features |= features::CLUSTERED,
                ("the array of a is a cluster's", "one of them"),
            ),
            (
                |set| set.of(0).features |= features::JOURNAL,
                (
                    "the array of a cannot have a journal: its level has none",
                    "mdadm",
                ),
            ),
            (
                |set| set.of(1).role = Role::Journal,
                (
                    "the array of b cannot have a journal: its other members say that they have none",
                    "mdadm",
                ),
            ),
            (
                |set| {
                    set.of(1).reshape = Some(Reshape {
                        position: 0,
                        members_added: 1,
                        level: Level::Raid5,
                        layout: 2,
                        chunk: 0,
                        data_moved: 0,
                        backwards: false,
                    });
                },
                ("the array of b was being reshaped, half done", "mdadm"),
            ),
            (
                |set| set.of(0).features |= features::NEW_OFFSET,
                ("was being reshaped", "mdadm"),
            ),
            (
                |set| set.of(0).level = Level::Other(-4),
                ("the array of a is of multipath", "kernel"),
            ),
            (
                |set| set.of(0).level = Level::Other(-100),
                ("a is of a container", "mdadm"),
            ),
            (
                |set| set.of(0).level = Level::Other(77),
                ("the array of a is of level 77", "kernel"),
            ),
        ],
    );
}

#[test]
fn forms_that_cannot_be() {
    refused(
        Level::Raid10,
        4,
        &[
            (
                |set| set.of(0).layout = 0x2_0201,
                ("first variant of far sets", "kernel"),
            ),
            (
                |set| set.of(0).layout = 0x8_0201,
                ("cannot be raid10 of 4 members", "inspect"),
            ),
            (
                |set| set.of(0).layout = 0x303,
                ("cannot be raid10 of 4 members", "inspect"),
            ),
            (|set| set.of(0).layout = 0, ("cannot be raid10", "inspect")),
            (
                |set| set.of(0).chunk = 0,
                ("has chunks of 0 bytes", "inspect"),
            ),
            (
                |set| set.of(0).chunk = 700,
                ("has chunks of 700 bytes", "inspect"),
            ),
            (
                |set| set.of(0).members = 0,
                ("cannot be raid10 of 0 members", "inspect"),
            ),
        ],
    );
    refused(
        Level::Raid6,
        4,
        &[
            (
                |set| set.of(0).layout = 7,
                (
                    "cannot be raid6 of 4 members, unknown layout 0x7",
                    "inspect",
                ),
            ),
            (
                |set| set.of(0).members = 2,
                ("cannot be raid6 of 2 members", "inspect"),
            ),
            (
                |set| (0..4).for_each(|member| set.of(member).member_size = 4096),
                ("an array of an impossible size", "inspect"),
            ),
        ],
    );
}

#[test]
fn what_is_only_read() {
    only_read(
        Level::Raid5,
        3,
        &[
            (
                |set| set.of(0).features |= features::PPL,
                (
                    "a keeps a partial parity log (PPL) that cannot be: there is no room for it",
                    "read-only",
                ),
            ),
            (
                |set| {
                    set.members[2].bitmap = Some(Ok(bitmap(&set.members[2].superblock)));
                    if let Some(Ok(bitmap)) = &mut set.members[2].bitmap {
                        bitmap.version = 6;
                    }
                },
                (
                    "c: its bitmap is a lockless one (version 6)",
                    "mdadm --grow --bitmap=none",
                ),
            ),
            (
                |set| (0..3).for_each(|m| set.of(m).version = Version::V0_90 { big_endian: true }),
                (
                    "a was made by a machine of the other byte order",
                    "read-only",
                ),
            ),
        ],
    );
}

#[test]
fn members_that_are_missing() {
    refused(
        Level::Raid5,
        3,
        &[
            (
                |set| drop(set.members.remove(1)),
                (
                    "part 1 is missing of array photos, and it worked when it was used last",
                    "run=true",
                ),
            ),
            (
                |set| drop(set.members.drain(1..)),
                (
                    "array photos (raid5) needs more than the 1 of its 3 members that are here",
                    "inspect",
                ),
            ),
            (
                |set| {
                    set.goes_on_without(1, 40);
                    set.members.remove(2);
                    set.rules.run = true;
                },
                (
                    "that are here (b is stale: it has seen 18 events, the array 40)",
                    "prefer=MEMBER",
                ),
            ),
            (
                |set| {
                    set.members.truncate(1);
                    set.rules.unreachable = vec!["nbd://far".to_owned()];
                    set.rules.run = true;
                },
                (
                    "that are here (nbd://far cannot be reached)",
                    "servers of the other members run",
                ),
            ),
        ],
    );
    refused(
        Level::Raid0,
        2,
        &[(
            |set| {
                set.members.pop();
                set.rules.run = true;
            },
            ("(raid0) needs more than the 1 of its 2 members", "inspect"),
        )],
    );
}

#[test]
fn an_array_starts_without_what_it_lost_before_or_is_known_to_be_missing() {
    let mut set = Set::whole(Level::Raid5, 3);
    set.goes_on_without(1, 40);
    set.members.remove(1);
    assert_eq!(set.holders(), [Some(0), None, Some(1)]);
    let mut set = Set::whole(Level::Raid5, 3);
    set.members.remove(1);
    set.rules.missing = 1;
    assert_eq!(set.holders(), [Some(0), None, Some(1)]);
    set.rules.missing = 0;
    set.rules.run = true;
    assert_eq!(set.holders(), [Some(0), None, Some(1)]);
}

#[test]
fn parity_that_may_not_fit() {
    let mut set = Set::whole(Level::Raid5, 3);
    (0..3).for_each(|member| set.of(member).synced_to = Some(0));
    assert_eq!(set.holders(), [Some(0), Some(1), Some(2)]);
    set.members.remove(1);
    set.rules.run = true;
    set.rules.read_only = true;
    let (why, next) = set.refusal();
    assert!(why.contains("was being written when it stopped"), "{why}");
    assert!(next.contains("force-dirty-degraded=true"), "{next}");
    set.rules.force_dirty_degraded = true;
    assert_eq!(set.holders(), [Some(0), None, Some(1)]);
}

#[test]
fn raid0_of_unequal_members_that_does_not_say_how() {
    let mut set = Set::whole(Level::Raid0, 2);
    set.of(1).data.len /= 2;
    assert!(set.judged().is_ok());
    for member in 0..2 {
        set.of(member).features &= !features::RAID0_LAYOUT;
    }
    let (why, next) = set.refusal();
    assert!(why.contains("differ in size"), "{why}");
    assert!(next.contains("raid0-layout=original"), "{next}");
    set.rules.raid0_layout = Some(Raid0Layout::Original);
    let size = set.members[0].superblock.data.len + set.members[1].superblock.data.len;
    assert_eq!(set.verdict().facts.size, size / 65_536 * 65_536);
    // Equal members need not say it.
    set.rules.raid0_layout = None;
    set.of(1).data = set.members[0].superblock.data;
    assert!(set.judged().is_ok());
}

#[test]
fn no_members() {
    let mut set = Set::whole(Level::Raid1, 2);
    set.members.clear();
    assert!(set.refusal().0.contains("no member is named"));
    set.rules.unreachable = vec!["nbd://x".to_owned()];
    assert!(set.refusal().0.contains("nbd://x, cannot be reached"));
    set.rules.unreachable.push("nbd://y".to_owned());
    assert!(
        set.refusal()
            .0
            .contains("none of the members can be reached: nbd://x, nbd://y")
    );
}

#[test]
fn a_bitmap_that_cannot_be_used_is_reported_and_left() {
    let mut set = Set::whole(Level::Raid1, 2);
    let good = bitmap(&set.members[0].superblock);
    let used = |set: &mut Set, bitmap| {
        set.members[0].bitmap = Some(bitmap);
        let verdict = set.verdict();
        (verdict.bitmap.map(|used| used.stale), verdict.remarks)
    };
    assert_eq!(used(&mut set, Ok(good)), (Some(false), vec![]));
    let mut old = good;
    old.events -= 1;
    assert_eq!(used(&mut set, Ok(old)).0, Some(true));
    let mut foreign = good;
    foreign.array = [9; 16];
    let (none, remarks) = used(&mut set, Ok(foreign));
    assert_eq!(none, None);
    assert!(remarks[0].contains("another array"), "{remarks:?}");
    let (none, remarks) = used(&mut set, Err(Problem::Missing));
    assert_eq!(none, None);
    assert!(
        remarks[0].starts_with("a: its bitmap is not where"),
        "{remarks:?}"
    );
}
