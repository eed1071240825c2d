//! Which members are fresh, which are stale, which diverged.

use block::Range;
use proptest::prelude::*;

use super::{MIB, Set, superblock};
use crate::array::assembly::OtherKind;
use crate::array::format::{Level, Role, Superblock, features};
use crate::array::{Membership, Picture};

fn picture(members: &[Superblock]) -> Picture {
    let members: Vec<&Superblock> = members.iter().collect();
    Picture::of(&members, None).expect("there are members")
}

#[test]
fn a_whole_array_is_its_members_by_their_parts_whatever_their_order() {
    let mut set = Set::whole(Level::Raid5, 4);
    set.members.reverse();
    assert_eq!(set.holders(), [Some(3), Some(2), Some(1), Some(0)]);
    let verdict = set.verdict();
    assert_eq!(verdict.facts.size, 3 * 32 * MIB);
    assert_eq!(verdict.remarks, Vec::<String>::new());
    assert_eq!(verdict.others, []);
}

#[test]
fn a_superblock_that_was_about_to_be_written_is_up_to_date() {
    let mut set = Set::whole(Level::Raid1, 2);
    set.of(0).events += 1;
    assert_eq!(set.holders(), [Some(0), Some(1)]);
    assert_eq!(set.verdict().freshest, 0);
    set.of(0).events += 1;
    set.rules.run = true;
    assert_eq!(set.holders(), [Some(0), None]);
}

/// What was wrong: a spare that was absent came back when another disk had got its number, and its part, and was absent in turn. The spare was
/// rebuilt as that part, so that both held it, one change apart.
#[test]
fn of_two_members_with_one_number_the_later_one_holds_the_part() {
    let mut set = Set::whole(Level::Raid6, 5);
    let mut earlier = set.of(2).clone();
    for member in 0..5 {
        set.of(member).events += 1;
    }
    set.of(2).rebuilt_to = Some(0);
    // A disk of its own.
    earlier.device = Some([7; 16]);
    let mut members: Vec<Superblock> = (0..5).map(|at| set.of(at).clone()).collect();
    members.push(earlier);
    let found = picture(&members).memberships;
    assert_eq!(found[2], Membership::Rebuilding { part: 2, to: 0 });
    assert_eq!(found[5], Membership::Stale { part: 2 });
    // As new as it: nothing says which.
    members[5].events += 1;
    let found = picture(&members).memberships;
    assert_eq!(found[5], Membership::InSync { part: 2 });
}

/// A mirror of two, and a member that is to take the place of the second one.
fn replacing() -> Set {
    let mut set = Set::whole(Level::Raid1, 3);
    set.of(2).features |= features::REPLACEMENT;
    set.of(2).role = Role::Active(1);
    set.of(2).rebuilt_to = Some(4 * MIB);
    for member in 0..3 {
        set.of(member).members = 2;
        set.of(member).roles[2] = Role::Active(1);
    }
    set
}

#[test]
fn a_replacement_holds_nothing_as_long_as_its_member_does() {
    let set = replacing();
    assert_eq!(set.holders(), [Some(0), Some(1)]);
    let kind = OtherKind::Replacement {
        part: 1,
        to: Some(4 * MIB),
    };
    assert_eq!(set.verdict().others, [(2, kind)]);
}

#[test]
fn a_replacement_of_a_member_that_is_missing_or_stale_holds_the_part() {
    let mut missing = replacing();
    drop(missing.members.remove(1));
    missing.rules.run = true;
    let of_part = |set: &Set| set.verdict().parts[1];
    assert_eq!(of_part(&missing), Some((1, Some(4 * MIB))));

    let mut stale = replacing();
    (stale.of(0).events, stale.of(2).events) = (40, 40);
    stale.rules.run = true;
    assert_eq!(of_part(&stale), Some((2, Some(4 * MIB))));

    // One that is a whole copy lacks nothing.
    let mut whole = replacing();
    whole.of(2).rebuilt_to = None;
    drop(whole.members.remove(1));
    assert_eq!(of_part(&whole), Some((1, None)));
}

/// Logs are the members' own. After an unclean end the one of the member that is missing has what repairs parity, unless others know
/// that its place is taken: then no row was being written.
#[test]
fn with_partial_parity_logs_a_whole_replacement_counts_once_others_know_that_it_takes_the_place() {
    let mut set = Set::whole(Level::Raid5, 4);
    for member in 0..4 {
        let superblock = set.of(member);
        (superblock.synced_to, superblock.features) = (Some(0), features::PPL);
        superblock.ppl = Some(Range::new(8192, 8192));
        superblock.members = 3;
        superblock.roles[3] = Role::Active(1);
    }
    set.of(3).features |= features::REPLACEMENT;
    set.of(3).role = Role::Active(1);
    drop(set.members.remove(1));
    set.rules.run = true;
    let of_part = |set: &Set| set.verdict().parts[1];
    assert_eq!(of_part(&set), Some((2, Some(0))), "none knows of it");

    set.of(0).roles[1] = Role::Faulty;
    set.of(0).events += 1;
    assert_eq!(of_part(&set), Some((2, None)));

    // A part of it is not a copy.
    set.of(2).rebuilt_to = Some(4 * MIB);
    assert_eq!(of_part(&set), Some((2, Some(0))));
}

#[test]
fn a_member_that_was_left_behind_is_stale() {
    let mut set = Set::whole(Level::Raid1, 2);
    set.goes_on_without(0, 40);
    assert_eq!(set.holders(), [None, Some(1)]);
    let verdict = set.verdict();
    let kind = OtherKind::Stale {
        part: 0,
        by_bitmap: false,
    };
    assert_eq!(verdict.others, [(0, kind)]);
    assert_eq!(
        verdict.remarks,
        ["a is stale: it has seen 18 events, the array 40"]
    );
}

#[test]
fn a_member_that_the_freshest_says_failed_is_stale_with_the_same_events() {
    let mut set = Set::whole(Level::Raid1, 2);
    set.one_goes_on_without(0, 1, 19);
    assert_eq!(set.holders(), [Some(0), None]);
}

#[test]
fn the_freshest_decides_which_slot_a_member_has() {
    let mut set = Set::whole(Level::Raid1, 2);
    // What was number 1 has the first part now, and does not know it yet.
    set.of(0).roles[1] = Role::Active(0);
    set.of(0).roles[0] = Role::Active(1);
    set.of(0).role = Role::Active(1);
    set.of(0).events += 1;
    assert_eq!(set.holders(), [Some(1), Some(0)]);
}

#[test]
fn spares_do_not_count_for_who_is_freshest() {
    let mut set = Set::whole(Level::Raid1, 3);
    for member in 0..3 {
        set.of(member).members = 2;
        set.of(member).roles[2] = Role::Spare;
    }
    set.of(2).role = Role::Spare;
    set.of(2).events = 900;
    assert_eq!(set.holders(), [Some(0), Some(1)]);
    assert_eq!(set.verdict().others, [(2, OtherKind::Spare)]);
}

/// The whole array was refused for a spare that holds nothing.
#[test]
fn a_spare_that_was_absent_while_the_form_changed_has_failed_and_the_others_are_the_array() {
    let changes: [fn(&mut Superblock); 4] = [
        |spare| spare.chunk *= 2,
        |spare| spare.layout = 1,
        |spare| spare.member_size /= 2,
        |spare| spare.level = Level::Raid4,
    ];
    for change in changes {
        let mut set = Set::whole(Level::Raid5, 4);
        for member in 0..4 {
            set.of(member).members = 3;
            set.of(member).roles[3] = Role::Spare;
        }
        set.of(3).role = Role::Spare;
        set.of(3).events -= 3;
        assert_eq!(set.verdict().others, [(3, OtherKind::Spare)]);
        change(set.of(3));
        assert_eq!(set.holders(), [Some(0), Some(1), Some(2)]);
        assert_eq!(set.verdict().others, [(3, OtherKind::Failed)]);
    }
}

#[test]
fn a_member_that_is_being_rebuilt_is_valid_up_to_there() {
    let mut set = Set::whole(Level::Raid1, 2);
    set.of(1).features |= features::RECOVERY_OFFSET;
    set.of(1).rebuilt_to = Some(MIB);
    let verdict = set.verdict();
    assert_eq!(verdict.parts, [Some((0, None)), Some((1, Some(MIB)))]);
}

#[test]
fn a_member_that_fails_while_another_is_being_rebuilt_leaves_no_array() {
    let mut set = Set::whole(Level::Raid1, 2);
    set.of(1).rebuilt_to = Some(MIB);
    set.members.remove(0);
    set.rules.run = true;
    let (why, _) = set.refusal();
    assert!(why.contains("b is only partly rebuilt"), "{why}");
}

#[test]
fn two_halves_that_were_each_used_alone_are_distinguished() {
    for (events, freshest) in [((40, 40), 0), ((40, 41), 1), ((60, 20), 0)] {
        let mut set = Set::whole(Level::Raid1, 2);
        set.one_goes_on_without(0, 1, events.0);
        set.one_goes_on_without(1, 0, events.1);
        let members: Vec<_> = set.members.iter().map(|m| m.superblock.clone()).collect();
        let picture = picture(&members);
        assert_eq!(picture.freshest, freshest);
        let other = 1 - freshest;
        let part = u16::try_from(other).unwrap();
        assert_eq!(picture.memberships[other], Membership::Split { part });
    }
}

#[test]
fn a_whole_side_that_was_used_alone_went_its_own_way() {
    // Four copies: 0 and 1 without the others, 2 and 3 without the others.
    let mut set = Set::whole(Level::Raid1, 4);
    for (one, gone) in [
        (0, 2),
        (0, 3),
        (1, 2),
        (1, 3),
        (2, 0),
        (2, 1),
        (3, 0),
        (3, 1),
    ] {
        set.one_goes_on_without(one, gone, 40);
    }
    let (why, next) = set.refusal();
    assert!(why.contains("a and b without the rest (40 events"), "{why}");
    assert!(why.contains("c and d without the rest (40 events"), "{why}");
    assert!(next.contains("prefer=a or prefer=c"), "{next}");
    set.rules.prefer = Some(3);
    assert_eq!(set.holders(), [None, None, Some(2), Some(3)]);
    let lost = [(0, OtherKind::Failed), (1, OtherKind::Failed)];
    assert_eq!(set.verdict().others, lost);
}

#[test]
fn the_side_that_is_preferred_counts_though_the_other_has_seen_more() {
    let mut set = Set::whole(Level::Raid1, 2);
    set.one_goes_on_without(0, 1, 90);
    set.one_goes_on_without(1, 0, 20);
    set.rules.prefer = Some(1);
    assert_eq!(set.holders(), [None, Some(1)]);
    assert_eq!(set.verdict().others, [(0, OtherKind::Failed)]);
    let remark = &set.verdict().remarks[0];
    assert!(remark.contains("a is to be rebuilt completely"), "{remark}");
}

#[test]
fn a_member_whose_place_another_has_taken_is_only_stale() {
    // Number 0 failed, and number 2 took its part. They do not know each other.
    let mut set = Set::whole(Level::Raid1, 2);
    set.goes_on_without(0, 40);
    let mut new = set.members[1].clone();
    new.name = "c".to_owned();
    new.superblock.number = 2;
    new.superblock.device = Some([2; 16]);
    new.superblock.role = Role::Active(0);
    set.members.push(new);
    for member in [1, 2] {
        set.of(member).roles[2] = Role::Active(0);
    }
    assert_eq!(set.holders(), [Some(2), Some(1)]);
    assert!(matches!(
        set.verdict().others[..],
        [(0, OtherKind::Stale { part: 0, .. })]
    ));
}

#[test]
fn a_member_that_left_a_degraded_array_before_another_came_is_only_stale() {
    // Of three copies the third was missing; number 0 left, then number 3 became the third.
    let mut set = Set::whole(Level::Raid1, 3);
    set.members.pop();
    for member in 0..2 {
        set.of(member).roles[2] = Role::Faulty;
    }
    set.goes_on_without(0, 40);
    let mut new = set.members[1].clone();
    new.superblock.number = 3;
    new.superblock.device = Some([3; 16]);
    new.superblock.role = Role::Active(2);
    set.members.push(new);
    for member in [1, 2] {
        set.of(member).roles[3] = Role::Active(2);
    }
    assert_eq!(set.holders(), [None, Some(1), Some(2)]);
}

/// What one machine does with the members that it has.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// It writes with all members that work, and updates them.
    Write,
    /// A member fails; the others are updated.
    Fail(usize),
    /// A member that was away comes back and is copied in full.
    Return(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        Just(Step::Write),
        (0..3_usize).prop_map(Step::Fail),
        (0..3_usize).prop_map(Step::Return),
    ];
    prop::collection::vec(step, 0..20)
}

proptest! {
    /// One machine alone never splits an array, in any order of failures: those that work at the end
    /// hold their parts, and all others are stale.
    #[test]
    fn one_machine_never_splits_an_array(steps in steps()) {
        let mut members: Vec<Superblock> =
            (0..3).map(|number| superblock(Level::Raid1, 3, number)).collect();
        let mut works = [true; 3];
        let mut events = 18;
        for step in steps {
            match step {
                Step::Fail(gone) if works.iter().filter(|w| **w).count() > 1 => works[gone] = false,
                Step::Return(back) => works[back] = true,
                Step::Fail(_) | Step::Write => {}
            }
            events += 1;
            for (member, _) in members.iter_mut().zip(works).filter(|(_, works)| *works) {
                member.events = events;
                for (number, works) in works.iter().enumerate() {
                    let part = u16::try_from(number).unwrap();
                    member.roles[number] = if *works { Role::Active(part) } else { Role::Faulty };
                }
            }
        }
        let picture = picture(&members);
        for (number, works) in (0..).zip(works) {
            let expected = match works {
                true => Membership::InSync { part: number },
                false => Membership::Stale { part: number },
            };
            prop_assert_eq!(picture.memberships[usize::from(number)], expected);
        }
    }

    /// Two machines that each go on with one half, and write, are always found out.
    #[test]
    fn two_machines_that_each_write_are_found_out(
        before in 0..5_u64, one in 1..9_u64, two in 1..9_u64,
    ) {
        let mut set = Set::whole(Level::Raid1, 2);
        set.one_goes_on_without(0, 1, 18 + before + one);
        set.one_goes_on_without(1, 0, 18 + before + two);
        prop_assert!(set.refusal().0.contains("used in two ways"));
        set.rules.run = true;
        prop_assert!(set.refusal().0.contains("used in two ways"));
    }
}

#[test]
fn parity_that_only_logs_vouch_for() {
    let with_logs = |synced_to| {
        let mut set = Set::whole(Level::Raid5, 3);
        for member in 0..3 {
            let of = set.of(member);
            (of.synced_to, of.features) = (Some(synced_to), features::PPL);
            of.ppl = Some(Range::new(8192, 8192));
        }
        set.members.remove(1);
        set.rules.run = true;
        set
    };
    let mut set = with_logs(0);
    assert_eq!(
        set.holders(),
        [Some(0), None, Some(1)],
        "what they say decides"
    );
    set.rules.read_only = true;
    let (why, next) = set.refusal();
    assert!(why.contains("was being written when it stopped"), "{why}");
    assert!(next.contains("open it for writing once"), "{next}");
    let (why, next) = with_logs(4096).refusal();
    assert!(why.contains("was being written when it stopped"), "{why}");
    assert!(next.contains("name all members"), "{next}");
}
