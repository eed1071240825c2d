//! New arrays with parity: each layout by each kind of superblock is opened, made to fit, written, and opened again; and
//! how arrays begin of which members are missing.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, IoError, Node, Range, WriteFlags};
use proptest::prelude::*;
use testkit::{
    MemDisk, Op, OpSpace, block_on, check_crashes, first_difference, ops, pattern, single,
};

use super::{MIB, NewMember, found, made, member, missing, stamp, usual};
use crate::array::create::ConsistencyChoice::{self, Bitmap, Ppl, Resync};
use crate::array::create::{CreateOptions, Created, make};
use crate::array::format::tests::VERSIONS;
use crate::array::format::{Level, Role, Version};
use crate::array::parity_writer::{Sample, layouts};
use crate::array::{Array, ArrayError, ArrayOptions, Candidate, MemberState, SyncRates, open};
use crate::read_within;

const KIB: u64 = 1 << 10;
/// Bytes of each member that are used.
pub(super) const MEMBER: u64 = 64 * KIB;
pub(super) const CHUNK: u64 = 4 * KIB;
/// Disks that superblocks 1.2 have room on.
const DISK: u64 = 2 * MIB;

/// Disks that were used before: what they hold makes no parity.
fn used(count: u8) -> Vec<NewMember> {
    used_of(DISK, count)
}

pub(super) fn used_of(size: u64, count: u8) -> Vec<NewMember> {
    let disk = |n: u8| -> Node {
        let content = pattern(n.wrapping_mul(37) ^ 0x5a, Range::new(0, size));
        Arc::new(MemDisk::from_bytes(content))
    };
    let names = ["a", "b", "c", "d", "e", "f"].iter();
    names
        .zip(0..count)
        .map(|(name, n)| member(name, disk(n)))
        .collect()
}

pub(super) fn options((level, layout): (Level, u32), version: Version) -> CreateOptions {
    CreateOptions {
        layout: (level != Level::Raid4).then_some(layout),
        chunk: Some(CHUNK),
        size: Some(MEMBER),
        ..usual(level, version)
    }
}

fn five() -> CreateOptions {
    options((Level::Raid5, 2), Version::V1_2)
}

fn six() -> CreateOptions {
    options((Level::Raid6, 2), Version::V1_2)
}

/// The remarks on disks that begin as spares.
fn spares_of(created: &Created) -> Vec<&String> {
    let remarks = created.remarks.iter();
    remarks
        .filter(|remark| remark.contains(" begins as a spare, "))
        .collect()
}

pub(super) async fn opened(members: &[NewMember]) -> Result<Arc<Array>, ArrayError> {
    opened_with(members, false).await
}

/// `run`: also without members that worked when it was used last.
pub(super) async fn opened_with(
    members: &[NewMember],
    run: bool,
) -> Result<Arc<Array>, ArrayError> {
    let here = members.iter().filter(|member| member.disk.is_some());
    let candidates = here.map(|member| Candidate::local(&member.name, member.disk.clone()));
    let by_hand = ArrayOptions {
        run,
        background: false,
        member_timeout: Duration::MAX,
        rates: SyncRates {
            min: u64::MAX,
            max: u64::MAX,
        },
        ..ArrayOptions::default()
    };
    open(candidates.collect(), by_hand).await
}

pub(super) async fn write(array: &Array, range: Range, fill: u8) {
    let data = single(pattern(fill, range));
    array.write(range, data, WriteFlags::empty()).await.unwrap();
}

pub(super) async fn all_of(array: &Array) -> Vec<u8> {
    let whole = Range::new(0, array.geometry().size);
    array.read(whole).await.unwrap().concat()
}

/// Each member holds what the tables say of `data`.
pub(super) fn assert_fits(members: &[NewMember], of: &CreateOptions, data: Vec<u8>) {
    let sample = Sample {
        level: of.level,
        layout: of.layout.unwrap_or(0),
        parts: members.len(),
        chunk: usize::try_from(CHUNK).unwrap(),
        rows: usize::try_from(MEMBER / CHUNK).unwrap(),
        data,
    };
    for (member, ideal) in members.iter().zip(sample.members()) {
        let at = found(member).1.data.offset;
        let disk = member.disk.as_ref().expect("it is there");
        let held = block_on(read_within(disk, Range::new(at, MEMBER))).unwrap();
        let differs = first_difference(&ideal, &held);
        assert_eq!(differs, None, "{}", member.name);
    }
}

/// What each member's superblock says that it holds.
fn roles(members: &[NewMember]) -> Vec<Role> {
    let here = members.iter().filter(|member| member.disk.is_some());
    here.map(|member| found(member).1.role).collect()
}

#[test]
fn every_layout_by_every_kind_of_superblock_is_synced_written_and_opened_again() {
    let ours = |version: &&Version| !matches!(version, Version::V0_90 { big_endian: true });
    for version in VERSIONS.iter().filter(ours) {
        for kind in layouts() {
            let members = used(if kind.0 == Level::Raid6 { 5 } else { 4 });
            let of = options(kind, *version);
            let size = made(&members, &[], &of).expect("it can be made").size;
            assert_eq!(found(&members[3]).1.synced_to, Some(0));
            let data = block_on(async {
                let array = opened(&members).await.expect("it can be opened");
                assert_eq!(array.geometry().size, size);
                assert_eq!(size, MEMBER * 3, "three members' worth in each case");
                assert!(array.status().resync_pending);
                write(&array, Range::new(3 * CHUNK - 512, 5 * CHUNK), 1).await;
                array.work().await;
                write(&array, Range::new(9 * CHUNK, CHUNK + 512), 2).await;
                let data = all_of(&array).await;
                array.stop().await.unwrap();
                data
            });
            assert_fits(&members, &of, data.clone());
            let (_, superblock) = found(&members[0]);
            assert_eq!(superblock.synced_to, None, "{version} {kind:?}");
            block_on(async {
                let array = opened(&members).await.expect("it can be opened again");
                assert!(!array.status().resync_pending && array.remarks().is_empty());
                assert!(all_of(&array).await == data, "{version} {kind:?}");
                array.stop().await.unwrap();
            });
        }
    }
}

#[test]
fn the_defaults_are_mdadms() {
    for (level, layout) in [(Level::Raid4, 0), (Level::Raid5, 2), (Level::Raid6, 2)] {
        let members = super::disks(&[64 * MIB; 4]);
        let of = CreateOptions {
            consistency: Bitmap(None),
            ..usual(level, Version::V1_2)
        };
        made(&members, &[], &of).expect("it can be made");
        let (found, superblock) = found(&members[0]);
        assert_eq!((superblock.layout, superblock.chunk), (layout, 512 * KIB));
        let bitmap = found.bitmap.expect("it has one").expect("it is good");
        assert_eq!(
            (bitmap.chunk, bitmap.size),
            (64 << 20, superblock.member_size)
        );
        assert!(superblock.bad_blocks.is_some());
    }
}

#[test]
fn two_disks_are_enough_for_level_5_and_four_for_level_6() {
    for (of, count) in [(five(), 2), (six(), 4)] {
        let members = used(count);
        made(&members, &[], &of).expect("it can be made");
        let data = block_on(async {
            let array = opened(&members).await.expect("it can be opened");
            array.work().await;
            write(&array, Range::new(512, 3 * CHUNK), 1).await;
            let data = all_of(&array).await;
            array.stop().await.unwrap();
            data
        });
        assert_fits(&members, &of, data);
    }
}

#[test]
fn with_as_many_missing_as_there_are_parities_it_begins_clean_and_is_usable() {
    for (of, gone) in [
        (five(), vec![1]),
        (options((Level::Raid4, 0), Version::V1_0), vec![3]),
        (options((Level::Raid5, 0), VERSIONS[0]), vec![0]),
        (six(), vec![0, 2]),
    ] {
        let all = used(4);
        let mut members = all.clone();
        for part in gone {
            members[part] = missing();
        }
        let created = made(&members, &[], &of).expect("it can be made");
        assert!(spares_of(&created).is_empty());
        block_on(async {
            let array = opened(&members).await.expect("it can be opened");
            let status = array.status();
            assert!(!status.resync_pending && status.clean, "{status:?}");
            let range = Range::new(CHUNK / 2, 5 * CHUNK);
            write(&array, range, 1).await;
            array.stop().await.unwrap();
            let array = opened(&members).await.expect("it can be opened again");
            let held = array.read(range).await.unwrap().concat();
            assert_eq!(held, pattern(1, range));
            array.stop().await.unwrap();
        });
    }
}

#[test]
fn with_one_of_two_parities_missing_the_last_member_begins_as_a_spare_and_is_rebuilt() {
    for version in [
        Version::V1_2,
        Version::V1_0,
        Version::V0_90 { big_endian: false },
    ] {
        // By the place that is missing: the disk that begins as a spare.
        for (gone, spare) in [(0, 3), (3, 2)] {
            let mut members = used(4);
            members[gone] = missing();
            let of = options((Level::Raid6, 2), version);
            let created = made(&members, &[], &of).expect("it can be made");
            let name = &members[spare].name;
            let told = spares_of(&created);
            assert!(told.len() == 1 && told[0].starts_with(name), "{told:?}");
            let superblock = found(&members[spare]).1;
            assert_eq!((superblock.role, superblock.number), (Role::Spare, 4));
            assert_eq!(superblock.synced_to, None);
            let range = Range::new(CHUNK / 2, 5 * CHUNK);
            block_on(async {
                let array = opened(&members).await.expect("it can be opened");
                write(&array, range, 1).await;
                array.work().await;
                assert_eq!((array.status().working, array.status().parts), (3, 4));
                array.stop().await.unwrap();
            });
            assert!(
                roles(&members)
                    .iter()
                    .all(|role| matches!(role, Role::Active(_)))
            );
            // Two parities without a third member: what was written is there without any other.
            for without in (0..4).filter(|without| *without != gone) {
                let mut left = members.clone();
                left[without] = missing();
                block_on(async {
                    let here = left.iter().filter(|member| member.disk.is_some());
                    let here = here.map(|m| Candidate::local(&m.name, m.disk.clone()));
                    let read = ArrayOptions {
                        read_only: true,
                        member_timeout: Duration::MAX,
                        run: true,
                        ..ArrayOptions::default()
                    };
                    let array = open(here.collect(), read).await.expect("it can be read");
                    let held = array.read(range).await.unwrap().concat();
                    assert_eq!(held, pattern(1, range), "{version}, without {without}");
                });
            }
        }
    }
}

#[test]
fn parity_is_taken_to_fit_where_that_is_said() {
    for missing_too in [false, true] {
        let zeroes = |name: &str| member(name, Arc::new(MemDisk::new(DISK)));
        let mut members = ["a", "b", "c", "d"].map(zeroes).to_vec();
        if missing_too {
            members[1] = missing();
        }
        let of = CreateOptions {
            assume_clean: true,
            ..six()
        };
        let created = made(&members, &[], &of).expect("it can be made");
        assert!(spares_of(&created).is_empty());
        let held: Vec<Role> = (0..4)
            .filter(|part| !missing_too || *part != 1)
            .map(Role::Active)
            .collect();
        assert_eq!(roles(&members), held);
        block_on(async {
            let array = opened(&members).await.expect("it can be opened");
            assert!(!array.status().resync_pending);
            write(&array, Range::new(0, 512), 1).await;
            array.stop().await.unwrap();
        });
        let data = block_on(async {
            let array = opened(&members).await.expect("it can be opened again");
            let data = all_of(&array).await;
            array.stop().await.unwrap();
            data
        });
        if !missing_too {
            assert_fits(&members, &of, data);
        }
    }
}

#[test]
fn a_spare_of_a_complete_array_waits_and_takes_the_place_of_a_member_that_fails() {
    let all = used(5);
    let of = five();
    made(&all[..4], &all[4..], &of).expect("it can be made");
    let data = block_on(async {
        let array = opened(&all).await.expect("it can be opened");
        array.work().await;
        assert_eq!(array.status().members[4].state, MemberState::Spare);
        array.fail("b").await.unwrap();
        write(&array, Range::new(0, 5 * CHUNK), 1).await;
        array.work().await;
        assert_eq!(array.status().working, 4);
        let data = all_of(&array).await;
        array.stop().await.unwrap();
        data
    });
    let mut held = all;
    held.swap_remove(1);
    assert_fits(&held, &of, data);
}

/// The story of the choice: mdadm begins a level 5 with its last member as a spare. One that was cut from power while
/// that was rebuilt is dirty and degraded, and is refused, here and by Linux. One that began with a resync is opened.
#[test]
fn an_array_that_is_cut_during_its_first_sync_is_opened_again_with_what_was_flushed() {
    let range = Range::new(CHUNK / 2, 5 * CHUNK);
    let cut = async |members: &[NewMember]| {
        let array = opened(members).await.expect("it can be opened");
        write(&array, range, 1).await;
        array.flush().await.unwrap();
    };
    let members = used(4);
    made(&members, &[], &five()).expect("it can be made");
    block_on(async {
        cut(&members).await;
        let array = opened(&members).await.expect("it can be opened again");
        array.work().await;
        let held = array.read(range).await.unwrap().concat();
        assert_eq!(held, pattern(1, range));
        array.stop().await.unwrap();
    });
    // As mdadm has it.
    let members = used(4);
    let mut parts = members.clone();
    let spare = std::mem::replace(&mut parts[3], missing());
    made(&parts, &[spare], &five()).expect("it can be made");
    block_on(async {
        cut(&members).await;
        let refused = opened(&members).await.expect_err("it is refused");
        let refused = refused.to_string();
        assert!(
            refused.contains("was being written when it stopped"),
            "{refused}"
        );
    });
}

/// Bytes that every kind has.
const SPACE: OpSpace = OpSpace {
    size: 2 * MEMBER,
    block_size: 512,
    len_max: 24 << 10,
};

/// Disks without a superblock are made an array; else what is there is opened.
async fn open_or_make(of: CreateOptions, disks: Vec<Node>) -> Result<Node, IoError> {
    let name = |n: usize| format!("m{n}");
    let members = disks.iter().enumerate();
    let members: Vec<NewMember> = members
        .map(|(n, disk)| member(&name(n), disk.clone()))
        .collect();
    let head = disks[0].read(Range::new(4096, 4)).await?.concat();
    if head == [0; 4] {
        let stamp = stamp(members.len());
        make(&members, &[], &of, &stamp)
            .await
            .expect("it can be made");
    }
    Ok(opened(&members).await.expect("it can be opened"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_was_flushed_to_a_new_array_is_there_after_a_crash(
        list in ops(SPACE, 0..16),
        which in 0..21_usize,
        consistency in prop::sample::select(vec![Resync, Bitmap(None), Ppl]),
        seed: u64,
    ) {
        let kind = layouts().swap_remove(which);
        let mut of = options(kind, Version::V1_2);
        of.consistency = match (consistency, kind.0) {
            (Ppl, Level::Raid4 | Level::Raid6) => ConsistencyChoice::Default,
            (consistency, _) => consistency,
        };
        // Arrays with partial parity logs have no trims.
        let list = match of.consistency {
            Ppl => list.into_iter().filter(|op| !matches!(op, Op::Trim { .. })).collect(),
            _ => list,
        };
        let sizes = vec![2 * DISK; if kind.0 == Level::Raid6 { 4 } else { 3 }];
        let open = |disks: Vec<Node>| open_or_make(of.clone(), disks);
        block_on(check_crashes(open, &sizes, &list, seed)).unwrap();
    }
}
