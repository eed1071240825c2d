//! New arrays of level 5 with partial parity logs: where these lie, what they begin with, and what a power cut leaves.

use std::sync::Arc;

use block::{BlockDevice as _, Node, Range};
use testkit::block_on;

use super::parity::{CHUNK, all_of, assert_fits, opened, opened_with, options, used_of, write};
use super::{MIB, NewMember, disks, found, made, missing, usual};
use crate::array::create::ConsistencyChoice::{self, Bitmap, Ppl, Resync};
use crate::array::create::{ConsistencyPolicy, CreateOptions};
use crate::array::format::ppl::{HEADER_LEN, PplHeader, PplProblem, signature};
use crate::array::format::{Level, Version, features};
use crate::array::parity_writer::layouts;
use crate::{Memory, read_within};

const VERSIONS: [Version; 3] = [Version::V1_0, Version::V1_1, Version::V1_2];
const DEFAULT: ConsistencyChoice = ConsistencyChoice::Default;
/// Disks with room for a log.
const DISK: u64 = 4 * MIB;

fn with_logs(version: Version) -> CreateOptions {
    CreateOptions {
        consistency: Ppl,
        ..options((Level::Raid5, 2), version)
    }
}

/// The first header of a member's log.
fn header(member: &NewMember) -> Result<PplHeader, PplProblem> {
    let superblock = found(member).1;
    let place = Range::new(superblock.ppl.expect("it has a log").offset, HEADER_LEN);
    let disk = member.disk.as_ref().expect("it is there");
    let bytes = block_on(read_within(disk, place)).unwrap();
    PplHeader::decode(&bytes, signature(&superblock.array))
}

/// As mdadm has it: 1 MiB behind the superblock, or before it and the log of bad blocks.
#[test]
fn logs_lie_where_mdadm_puts_them() {
    // Sectors from the superblock to log, to bad blocks and to the data, and how much there is of these.
    for (version, expected) in [
        (Version::V1_2, [8, 2056, 6136, 124_928]),
        (Version::V1_1, [8, 2056, 6144, 124_928]),
        (Version::V1_0, [-2056, -8, -131_056, 129_000]),
    ] {
        let members = disks(&[64 * MIB; 3]);
        let of = CreateOptions {
            consistency: Ppl,
            ..usual(Level::Raid5, version)
        };
        let created = made(&members, &[], &of).expect("it can be made");
        assert_eq!(created.policy, ConsistencyPolicy::Ppl);
        let (found, superblock) = found(&members[2]);
        let log = superblock.ppl.expect("it has one");
        assert_eq!(log.len, MIB);
        let from = |at: u64| (at / 512).cast_signed() - (found.at / 512).cast_signed();
        let bad = superblock.bad_blocks.expect("it has such a log").offset;
        let data = superblock.data;
        let len = (data.len / 512).cast_signed();
        let places = [from(log.offset), from(bad), from(data.offset), len];
        assert_eq!(places, expected, "{version}");
        assert!(superblock.bitmap_at.is_none());
        assert_eq!(superblock.features, features::PPL);
    }
}

#[test]
fn each_layout_is_synced_and_logged_and_replayed_without_a_member() {
    let kinds = layouts();
    let fives = kinds.iter().filter(|kind| kind.0 == Level::Raid5);
    for (kind, version) in fives.zip(VERSIONS.iter().cycle()) {
        let members = used_of(DISK, 4);
        let of = CreateOptions {
            consistency: Ppl,
            ..options(*kind, *version)
        };
        made(&members, &[], &of).expect("it can be made");
        let data = block_on(async {
            let array = opened(&members).await.expect("it can be opened");
            assert!(array.status().resync_pending);
            write(&array, Range::new(3 * CHUNK - 512, 5 * CHUNK), 1).await;
            array.work().await;
            write(&array, Range::new(9 * CHUNK, CHUNK + 512), 2).await;
            array.flush().await.unwrap();
            all_of(&array).await
        });
        assert_fits(&members, &of, data.clone());
        // It was not stopped: dirty, and now without a member.
        let mut here = members.clone();
        here[1] = missing();
        block_on(async {
            let array = opened_with(&here, true)
                .await
                .expect("its logs are replayed");
            assert!(all_of(&array).await == data, "{version} {kind:?}");
            array.stop().await.unwrap();
        });
    }
}

/// The story: mdadm begins each log with a header. Linux then takes an array for resynced that logged anything and was cut in
/// its first resync. With zeroes there that begins again, here and in Linux.
#[test]
fn logs_are_paused_until_parity_was_resynced() {
    for version in VERSIONS {
        let members = used_of(DISK, 3);
        made(&members, &[], &with_logs(version)).expect("it can be made");
        for member in &members {
            assert_eq!(header(member), Err(PplProblem::Blank));
        }
        let mut here = members.clone();
        here[2] = missing();
        block_on(async {
            let refused = opened_with(&here, true)
                .await
                .expect_err("it was not resynced");
            let refused = refused.to_string();
            assert!(refused.contains("was being written"), "{refused}");
        });
        let clean = CreateOptions {
            assume_clean: true,
            ..with_logs(version)
        };
        made(&members, &[], &clean).expect("it can be made");
        for member in &members {
            let empty = PplHeader::empty(signature(&found(member).1.array));
            assert_eq!(header(member), Ok(empty));
        }
    }
}

#[test]
fn a_spare_of_it_is_rebuilt_and_has_a_log() {
    let all = used_of(DISK, 4);
    let of = with_logs(Version::V1_2);
    made(&all[..3], &all[3..], &of).expect("it can be made");
    let data = block_on(async {
        let array = opened(&all).await.expect("it can be opened");
        array.work().await;
        array.fail("b").await.unwrap();
        array.work().await;
        write(&array, Range::new(512, 3 * CHUNK), 3).await;
        let data = all_of(&array).await;
        array.stop().await.unwrap();
        data
    });
    let held = [all[0].clone(), all[3].clone(), all[2].clone()];
    assert_fits(&held, &of, data);
    assert!(header(&all[3]).is_ok());
}

/// What a choice results in, of three disks of that size.
fn policy(level: Level, version: Version, (size, choice): (u64, ConsistencyChoice)) -> String {
    let of = CreateOptions {
        consistency: choice,
        ..usual(level, version)
    };
    match made(&disks(&[size; 4]), &[], &of) {
        Ok(created) => created.policy.name().to_owned(),
        Err(refused) => refused.to_string(),
    }
}

#[test]
fn level_5_has_logs_by_default_where_there_is_room() {
    let old = Version::V0_90 { big_endian: false };
    for version in VERSIONS {
        assert_eq!(policy(Level::Raid5, version, (16 * MIB, DEFAULT)), "ppl");
    }
    for (level, version, size, choice, expected) in [
        (Level::Raid5, Version::V1_2, 15 * MIB, DEFAULT, "bitmap"),
        (Level::Raid5, old, 16 * MIB, DEFAULT, "bitmap"),
        (
            Level::Raid5,
            Version::V1_2,
            16 * MIB,
            Bitmap(None),
            "bitmap",
        ),
        (Level::Raid5, Version::V1_2, 16 * MIB, Resync, "resync"),
        (Level::Raid4, Version::V1_2, 64 * MIB, DEFAULT, "bitmap"),
        (Level::Raid6, Version::V1_2, 64 * MIB, DEFAULT, "bitmap"),
        (Level::Raid1, Version::V1_2, 64 * MIB, DEFAULT, "bitmap"),
        (Level::Raid0, Version::V1_2, 64 * MIB, DEFAULT, "none"),
        (Level::Raid0, Version::V1_2, 64 * MIB, Resync, "none"),
    ] {
        assert_eq!(policy(level, version, (size, choice)), expected, "{level}");
    }
}

#[test]
fn logs_that_linux_does_not_start_are_refused() {
    let old = Version::V0_90 { big_endian: false };
    let printed = |level, version| policy(level, version, (64 * MIB, Ppl));
    for level in [Level::Raid0, Level::Raid1, Level::Raid4, Level::Raid6] {
        assert_eq!(
            printed(level, Version::V1_2),
            format!("{level} has no partial parity logs: they are of raid5")
        );
    }
    assert_eq!(
        printed(Level::Raid5, old),
        "superblocks 0.90 have no partial parity logs"
    );
    let disk = |_| -> Node { Arc::new(Memory::new(16 * MIB)) };
    let many: Vec<NewMember> = (0..65)
        .map(disk)
        .map(|disk| super::member("a", disk))
        .collect();
    let usual = usual(Level::Raid5, Version::V1_2);
    let of = CreateOptions {
        consistency: Ppl,
        ..usual.clone()
    };
    let refused = made(&many, &[], &of).expect_err("there are too many");
    assert_eq!(
        refused.to_string(),
        "an array with partial parity logs has at most 64 members, 65 given"
    );
    let created = made(&many, &[], &usual).expect("it can be made");
    assert_eq!(created.policy, ConsistencyPolicy::Bitmap);
    assert!(made(&many[..64], &[], &of).is_ok());
    let small = disks(&[MIB; 3]);
    let refused = made(&small, &[], &of).expect_err("there is no room");
    assert!(refused.to_string().contains("is too small"), "{refused}");
}
