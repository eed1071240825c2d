//! What was encoded is read again, and changes touch what they name and nothing else.

use block::Range;
use proptest::prelude::*;

use super::encode::superblock;
use super::{VERSIONS, mirror, place};
use crate::array::format::{
    Changes, Form, Level, MEMBERS_MAX, PLACE_LEN, PolicyPlace, Role, Superblock, Version,
    awaits_ppl, decode, encode, features, numbers_max, patch, written,
};

fn is_old(version: Version) -> bool {
    matches!(version, Version::V0_90 { .. })
}

fn read(version: Version, bytes: &[u8]) -> Superblock {
    let read = decode(version, place(version), bytes).expect("it is right");
    read.expect("there is one")
}

/// Bytes that differ.
fn differences(before: &[u8], after: &[u8]) -> Vec<usize> {
    let pairs = before.iter().zip(after).enumerate();
    pairs
        .filter(|(_, (a, b))| a != b)
        .map(|(at, _)| at)
        .collect()
}

#[test]
fn a_superblock_is_the_one_of_the_tests_byte_for_byte() {
    for version in VERSIONS {
        let of = mirror(version, 1);
        let mut by_tests = superblock(&of, place(version));
        by_tests.resize(4096, 0);
        let mut bytes = encode(&of, place(version));
        assert_eq!(read(version, &bytes), of);
        if is_old(version) {
            // What the tests leave out: removed parts, the checkpoint of a clean array.
            continue;
        }
        // Microseconds of the time of creation.
        assert_eq!(bytes[69], 0);
        bytes[69] = 77;
        bytes[216..220].copy_from_slice(&by_tests[216..220]);
        assert_eq!(differences(&by_tests, &bytes), [] as [usize; 0]);
    }
}

#[test]
fn an_array_that_becomes_dirty_changes_its_events_its_time_and_its_checkpoint() {
    for version in VERSIONS {
        let of = mirror(version, 0);
        let before = encode(&of, place(version));
        let changes = Changes {
            events: Some(19),
            updated: Some(of.updated + 1),
            synced_to: Some(Some(0)),
            ..Changes::default()
        };
        let after = patch(&before, version, &changes);
        let expected = Superblock {
            events: 19,
            updated: of.updated + 1,
            synced_to: Some(0),
            ..of.clone()
        };
        assert_eq!(read(version, &after), expected);
        for at in differences(&before, &after) {
            let is_allowed = match is_old(version) {
                true => (128..136).contains(&at) || (152..176).contains(&at),
                false => (192..220).contains(&at),
            };
            assert!(is_allowed, "{version}: byte {at}");
        }
    }
}

#[test]
fn a_checkpoint_is_kept_when_only_the_events_change() {
    for version in VERSIONS {
        for synced_to in [None, Some(0), Some(3 << 20)] {
            let mut of = mirror(version, 0);
            of.synced_to = synced_to;
            let changes = Changes {
                events: Some(u64::from(u32::MAX) + 7),
                ..Changes::default()
            };
            let after = patch(&encode(&of, place(version)), version, &changes);
            of.events = u64::from(u32::MAX) + 7;
            assert_eq!(read(version, &after), of);
        }
    }
}

#[test]
fn a_failed_member_is_taken_out_of_the_roles_of_the_others() {
    for version in VERSIONS {
        let mut of = mirror(version, 0);
        of.roles[1] = Role::Faulty;
        let changes = Changes {
            roles: Some(&of.roles),
            ..Changes::default()
        };
        let before = encode(&mirror(version, 0), place(version));
        let after = patch(&before, version, &changes);
        assert_eq!(read(version, &after), of);
        assert_eq!(read(version, &after).working(), [true, false]);
    }
}

#[test]
fn an_old_superblock_counts_its_members() {
    let version = VERSIONS[0];
    let mut of = mirror(version, 0);
    of.roles[1] = Role::Faulty;
    of.roles[2] = Role::Spare;
    let bytes = encode(&of, place(version));
    let word = |index: usize| bytes[index * 4];
    let counts = [9, 34, 35, 36, 37].map(word);
    assert_eq!(
        counts,
        [2, 1, 2, 1, 1],
        "all, active, working, failed, spare"
    );
    assert_eq!(word(128 + 32 + 4), 0b1001, "part 1 is faulty and removed");
    assert_eq!([0, 3, 4].map(|at| word(128 + 64 + at)), [2, 2, 0]);
    assert_eq!(read(version, &bytes), of);
}

/// mdadm aborts an assembly when word 8 differs from member to member: in a linear array, which has members that may
/// be of any size, it is 0.
#[test]
fn members_of_an_old_linear_array_say_the_same_size_of_each_other() {
    for level in [Level::Linear, Level::Raid0] {
        let version = Version::V0_90 { big_endian: false };
        for data_len in [8 << 20, 10 << 20] {
            let mut of = mirror(version, 0);
            of.level = level;
            of.member_size = 0;
            of.data = Range::new(0, data_len);
            let bytes = encode(&of, place(version));
            assert_eq!(bytes[8 * 4..9 * 4], [0; 4], "{level:?}");
        }
    }
}

#[test]
fn a_member_of_an_old_array_has_the_number_of_its_part() {
    let version = VERSIONS[0];
    let before = encode(&mirror(version, 0), place(version));
    // What was spare 2 holds part 1 now, and says so itself.
    let roles = [Role::Active(0), Role::Faulty, Role::Active(1), Role::Spare];
    let changes = Changes {
        roles: Some(&roles),
        number: Some(2),
        write_mostly: Some(true),
        ..Changes::default()
    };
    let after = read(version, &patch(&before, version, &changes));
    assert_eq!((after.number, after.role), (1, Role::Active(1)));
    assert_eq!(
        after.roles[..3],
        [Role::Active(0), Role::Active(1), Role::Spare]
    );
    assert!(after.write_mostly);
    // The same numbers again find the same member.
    let again = patch(&patch(&before, version, &changes), version, &changes);
    assert_eq!(read(version, &again), after);
}

#[test]
fn a_rebuilt_member_says_how_far_until_it_is_whole() {
    let version = Version::V1_2;
    let before = encode(&mirror(version, 1), place(version));
    let changes = Changes {
        rebuilt_to: Some(Some(5 << 20)),
        rebuilt_by_bitmap: Some(true),
        ..Changes::default()
    };
    let half = patch(&before, version, &changes);
    let read_half = read(version, &half);
    assert_eq!(read_half.rebuilt_to, Some(5 << 20));
    assert_eq!(
        read_half.features,
        features::RECOVERY_OFFSET | features::RECOVERY_BITMAP
    );
    let changes = Changes {
        rebuilt_to: Some(None),
        ..Changes::default()
    };
    assert_eq!(patch(&half, version, &changes), before);
}

#[test]
fn a_bitmap_comes_and_goes() {
    for version in VERSIONS {
        let mut of = mirror(version, 0);
        let before = encode(&of, place(version));
        let beside = match version {
            Version::V1_0 => place(version) - 8192,
            _ => place(version) + 4096,
        };
        let bitmap = |at| Changes {
            bitmap_at: Some(at),
            ..Changes::default()
        };
        let with = patch(&before, version, &bitmap(Some(beside)));
        of.bitmap_at = Some(beside);
        if !is_old(version) {
            of.features = features::BITMAP;
        }
        assert_eq!(read(version, &with), of);
        assert_eq!(patch(&with, version, &bitmap(None)), before);
    }
}

#[test]
fn a_superblock_says_that_logs_are_awaited_until_it_names_some_or_has_another_level() {
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        let at = place(version);
        let of = Superblock {
            level: Level::Raid5,
            layout: 2,
            chunk: 4096,
            ..mirror(version, 1)
        };
        let with = |bytes: &[u8], policy| {
            let changes = Changes {
                policy: Some(policy),
                ..Changes::default()
            };
            patch(bytes, version, &changes)
        };
        let form = |bytes: &[u8], level| {
            let form = Form {
                level,
                layout: 2,
                chunk: 4096,
                data: of.data,
                member_size: of.member_size,
                drops_ppl: true,
                reshape: None,
            };
            let changes = Changes {
                form: Some(form),
                ..Changes::default()
            };
            patch(bytes, version, &changes)
        };
        let log = Range::new(at + 8192, 1 << 20);
        let logs = with(&encode(&of, at), PolicyPlace::Ppl(log));
        assert_eq!(read(version, &logs).ppl, Some(log));
        assert!(!awaits_ppl(version, &logs));
        let awaiting = with(&logs, PolicyPlace::AwaitsPpl);
        // A length without a place.
        assert_eq!(awaiting[96..100], [0, 0, 0, 8]);
        assert!(awaits_ppl(version, &awaiting));
        let found = read(version, &awaiting);
        assert_eq!((found.ppl, found.bitmap_at), (None, None));
        assert!(!found.keeps_ppl());
        // Commits while rows are moved leave it as it is.
        assert!(awaits_ppl(version, &form(&awaiting, Level::Raid5)));
        for last in [PolicyPlace::None, PolicyPlace::Bitmap(at + 8192)] {
            assert!(!awaits_ppl(version, &with(&awaiting, last)));
        }
        assert!(!awaits_ppl(
            version,
            &with(&awaiting, PolicyPlace::Ppl(log))
        ));
        let six = form(&awaiting, Level::Raid6);
        assert!(!awaits_ppl(version, &form(&six, Level::Raid5)));
        // Logs that a level drops are not awaited.
        assert!(!awaits_ppl(version, &form(&logs, Level::Raid5)));
    }
}

#[test]
fn more_roles_than_there_were_make_the_superblock_longer() {
    let version = Version::V1_2;
    let mut of = mirror(version, 0);
    of.roles.truncate(2);
    let before = encode(&of, place(version));
    assert_eq!(written(&before, version, 512).len(), 512);
    of.roles.resize(200, Role::Spare);
    let changes = Changes {
        roles: Some(&of.roles),
        members: Some(3),
        ..Changes::default()
    };
    let after = patch(&before, version, &changes);
    of.members = 3;
    assert_eq!(read(version, &after), of);
    assert_eq!(written(&after, version, 512).len(), 1024);
    assert_eq!(written(&after, version, 4096).len(), 4096);
    assert_eq!(
        written(&encode(&mirror(VERSIONS[1], 0), 0), VERSIONS[1], 512).len(),
        4096
    );
}

/// Any change of version 1; the roles that it names.
fn change() -> impl Strategy<Value = (Changes<'static>, Option<Vec<Role>>)> {
    let bytes = || prop::option::of(prop::option::of((0_u64..1 << 40).prop_map(|n| n * 512)));
    let role = prop_oneof![
        (0_u16..0xff00).prop_map(Role::Active),
        Just(Role::Spare),
        Just(Role::Faulty),
        Just(Role::Journal),
    ];
    let max = MEMBERS_MAX as usize;
    let roles = prop::option::of(prop::collection::vec(role, 1..=max));
    let numbers = (
        any::<Option<u64>>(),
        prop::option::of(0_u64..1 << 40),
        bytes(),
        bytes(),
        any::<Option<u32>>(),
    );
    let flags = any::<[Option<bool>; 4]>();
    (numbers, flags, roles).prop_map(|(numbers, flags, roles)| {
        let (events, updated, synced_to, rebuilt_to, corrected) = numbers;
        let [rebuilt_by_bitmap, has_bad_blocks, write_mostly, fail_fast] = flags;
        let changes = Changes {
            events,
            updated,
            synced_to,
            rebuilt_to,
            rebuilt_by_bitmap,
            has_bad_blocks,
            corrected,
            write_mostly,
            fail_fast,
            ..Changes::default()
        };
        (changes, roles)
    })
}

proptest! {
    #[test]
    fn a_change_keeps_every_byte_that_it_does_not_name(
        unknown in prop::collection::vec(any::<u8>(), 32),
        behind in any::<u8>(),
        (changes, roles) in change(),
    ) {
        let version = Version::V1_2;
        let of = mirror(version, 1);
        let mut bytes = encode(&of, place(version));
        // The newest kernels' field lies here, and all later ones.
        bytes[224..256].copy_from_slice(&unknown);
        bytes[512..].fill(behind);
        super::encode::seal(&mut bytes[..512]);
        let changes = Changes { roles: roles.as_deref(), ..changes };
        let after = patch(&bytes, version, &changes);
        prop_assert_eq!(after.len(), bytes.len());
        prop_assert_eq!(&after[224..256], unknown.as_slice());
        let len = 256 + 2 * roles.as_ref().map_or(128, |roles| roles.len().max(128));
        prop_assert!(after[len..].iter().all(|byte| *byte == behind));
        let found = read(version, &after);
        prop_assert_eq!(found.events, changes.events.unwrap_or(of.events));
        prop_assert_eq!(found.updated, changes.updated.unwrap_or(of.updated));
        prop_assert_eq!(found.synced_to, changes.synced_to.unwrap_or(of.synced_to));
        // The member with the journal has something else there.
        if found.role != Role::Journal {
            prop_assert_eq!(found.rebuilt_to, changes.rebuilt_to.unwrap_or(of.rebuilt_to));
        }
        prop_assert_eq!(found.corrected, changes.corrected.unwrap_or(of.corrected));
        prop_assert_eq!(found.write_mostly, changes.write_mostly.unwrap_or(false));
        prop_assert_eq!(found.fail_fast, changes.fail_fast.unwrap_or(false));
        if let Some(roles) = roles {
            prop_assert_eq!(&found.roles[..roles.len()], roles.as_slice());
        }
        prop_assert_eq!((found.array, found.data, found.device), (of.array, of.data, of.device));
        // Nothing to change changes nothing.
        prop_assert_eq!(patch(&after, version, &Changes::default()), after);
    }

    #[test]
    fn an_old_superblock_of_any_members_is_read_again(
        big_endian: bool,
        roles in prop::collection::vec(prop_oneof![
            (0_u16..27).prop_map(Role::Active), Just(Role::Spare), Just(Role::Faulty),
        ], 0..=27),
        members in 0_u32..=27,
        own in 0_u32..40,
    ) {
        let version = Version::V0_90 { big_endian };
        let bytes = encode(&mirror(version, 0), place(version));
        let changes = Changes {
            roles: Some(&roles),
            members: Some(members),
            number: Some(own),
            ..Changes::default()
        };
        let after = patch(&bytes, version, &changes);
        let found = read(version, &after);
        let has = |part: u16| roles.contains(&Role::Active(part));
        for (number, role) in found.roles.iter().enumerate() {
            let part = u16::try_from(number).expect("few");
            prop_assert_eq!(*role == Role::Active(part), has(part));
        }
        prop_assert_eq!(numbers_max(version), found.roles.len());
        prop_assert_eq!(patch(&after, version, &Changes::default()), after);
    }

    #[test]
    fn any_superblock_that_is_encoded_is_read_again(
        kind in 2_usize..5,
        numbers: (u32, u32, u64, u64, u64),
        name in "[a-z0-9:]{0,32}",
        level in -1_i32..12,
        bitmap: bool,
        shift: u8,
        synced in prop::option::of((0_u64..1 << 40).prop_map(|n| n * 512)),
    ) {
        let version = VERSIONS[kind];
        let (layout, chunk, events, size, seconds) = numbers;
        let of = Superblock {
            name,
            level: Level::of(level),
            layout,
            chunk: u64::from(chunk) * 512,
            events,
            member_size: size >> 10 << 9,
            created: seconds & 0xff_ffff_ffff,
            synced_to: synced,
            bitmap_at: bitmap.then(|| place(version) + 4096),
            features: u32::from(bitmap),
            bad_blocks: Some(Range::new(place(version) + 8192, 4096)),
            bad_blocks_shift: shift,
            ..mirror(version, 1)
        };
        let bytes = encode(&of, place(version));
        prop_assert_eq!(bytes.len() as u64, PLACE_LEN);
        prop_assert_eq!(read(version, &bytes), of);
    }
}
