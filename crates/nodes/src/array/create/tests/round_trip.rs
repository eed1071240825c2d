//! What was made is examined again.

use std::sync::Arc;

use block::{Node, Range, WriteFlags};
use testkit::{MemDisk, block_on, single};

use super::{MIB, disks, found, made, member, missing, stamp, usual};
use crate::array::create::{ConsistencyChoice, CreateOptions, create};
use crate::array::format::bitmap::Bits;
use crate::array::format::tests::VERSIONS;
use crate::array::format::{self, Level, Role, Version, encode, features};
use crate::array::open::assembled;
use crate::array::{ArrayOptions, Candidate};
use crate::read_within;

const LEVELS: [Level; 4] = [Level::Linear, Level::Raid0, Level::Raid1, Level::Raid10];

#[test]
fn an_array_of_each_level_and_version_is_put_together_again() {
    for version in VERSIONS {
        for level in LEVELS {
            let parts = disks(&[64 * MIB, 64 * MIB, 64 * MIB]);
            let made = made(&parts, &[], &usual(level, version)).expect("it can be made");
            let candidate =
                |member: &super::NewMember| Candidate::local(&member.name, member.disk.clone());
            let candidates = parts.iter().map(candidate).collect();
            let options = ArrayOptions {
                // Linux here could not write it either.
                read_only: version == (Version::V0_90 { big_endian: true }),
                ..ArrayOptions::default()
            };
            let assembly = block_on(assembled(candidates, &options));
            let assembly = assembly.expect("it can be opened");
            let facts = &assembly.facts;
            assert_eq!((facts.level, facts.version), (level, version));
            assert_eq!(
                (facts.uuid, facts.size, facts.parts),
                (made.uuid, made.size, 3),
                "{version} {level}"
            );
            let held = assembly.parts.iter().enumerate().all(|(part, held)| {
                let member = held.member.as_ref().expect("none is missing");
                member.name == parts[part].name && held.rebuilt_to.is_none()
            });
            assert!(held && assembly.others.is_empty());
            assert_eq!(assembly.events, 0);
            let copies = matches!(level, Level::Raid1 | Level::Raid10);
            assert_eq!(assembly.synced_to, copies.then_some(0));
            assert_eq!(assembly.bitmap.is_some(), copies);
            assert!(made.remarks.is_empty() && assembly.remarks.is_empty());
        }
    }
}

#[test]
fn a_new_bitmap_has_all_bits_and_a_new_log_has_no_entries() {
    for version in VERSIONS {
        let parts = disks(&[64 * MIB, 64 * MIB]);
        let options = CreateOptions {
            consistency: ConsistencyChoice::Bitmap(Some(64 << 10)),
            ..usual(Level::Raid1, version)
        };
        made(&parts, &[], &options).expect("it can be made");
        for part in &parts {
            let (found, superblock) = found(part);
            let disk = part.disk.as_ref().expect("it is there");
            let bitmap = found.bitmap.expect("it has one").expect("it is good");
            assert!(!bitmap.is_stale(superblock.events));
            let shape = bitmap.shape(&superblock).expect("it is its own");
            let size = disk.geometry().size;
            let place = format::bitmap::place(&superblock, found.at, &shape, size, 512);
            let place = place.expect("there is room").expect("it has one");
            let bytes = block_on(read_within(disk, place)).expect("it can be read");
            assert_eq!(Bits::decode(shape, &bytes, bitmap.size), Bits::full(shape));
            if let Some(log) = superblock.bad_blocks {
                let log = block_on(read_within(disk, log)).expect("it can be read");
                assert!(log.len() == 4096 && log.iter().all(|byte| *byte == 0xff));
                let data = superblock.data.offset..superblock.data.end();
                let log = superblock.bad_blocks.expect("it has one");
                assert!(!log.overlaps(&place) && !data.contains(&log.offset));
            }
        }
    }
}

#[test]
fn no_superblock_of_an_earlier_array_is_left() {
    let size = 64 * MIB;
    for version in VERSIONS {
        let parts = disks(&[size, size]);
        for part in &parts {
            let disk = part.disk.as_ref().expect("it is there");
            for old in VERSIONS {
                let mut of = format::tests::mirror(old, 0);
                // It would count before the new one.
                of.created += 1_000_000;
                let at = format::tests::place(old);
                let bytes = encode(&of, at);
                let range = Range::new(at, bytes.len() as u64);
                block_on(disk.write(range, single(bytes), WriteFlags::empty())).unwrap();
            }
        }
        made(&parts, &[], &usual(Level::Raid1, version)).expect("it can be made");
        for part in &parts {
            assert_eq!(found(part).0.version, version);
        }
    }
}

#[test]
fn what_is_beside_the_metadata_is_left_alone() {
    let disk: Node = Arc::new(MemDisk::from_bytes(vec![0x77; 64 << 20]));
    let other: Node = Arc::new(MemDisk::from_bytes(vec![0x77; 64 << 20]));
    let parts = [member("a", disk.clone()), member("b", other)];
    made(&parts, &[], &usual(Level::Raid1, Version::V1_2)).expect("it can be made");
    let bytes = block_on(read_within(&disk, Range::new(0, 64 << 20))).unwrap();
    // Superblock, a block of bitmap, a log.
    let untouched = |range: std::ops::Range<usize>| bytes[range].iter().all(|byte| *byte == 0x77);
    assert!(untouched(0..4096) && untouched(4096 + 512..8192));
    assert!(untouched(16_384 + 4096..64 << 20));
    assert!(!untouched(4096..4608) && !untouched(8192..12_288));
}

#[test]
fn slots_that_are_missing_and_spares_are_distinguished() {
    for version in VERSIONS {
        let parts = disks(&[64 * MIB, 64 * MIB, 64 * MIB]);
        let listed = [parts[0].clone(), missing(), parts[1].clone()];
        made(&listed, &parts[2..], &usual(Level::Raid1, version)).expect("it can be made");
        let (_, first) = found(&parts[0]);
        assert_eq!(first.working(), [true, false, true]);
        assert_eq!(found(&parts[1]).1.role, Role::Active(2));
        let (_, spare) = found(&parts[2]);
        assert_eq!((spare.role, spare.number), (Role::Spare, 3));
        assert_eq!(spare.roles, first.roles);
    }
}

#[test]
fn options_of_members_are_on_their_own_superblocks() {
    for version in VERSIONS {
        let mut parts = disks(&[64 * MIB, 64 * MIB]);
        parts[1].write_mostly = true;
        parts[0].fail_fast = true;
        made(&parts, &[], &usual(Level::Raid1, version)).expect("it can be made");
        let flags = |index: usize| {
            let (_, superblock) = found(&parts[index]);
            (superblock.write_mostly, superblock.fail_fast)
        };
        assert_eq!((flags(0), flags(1)), ((false, true), (true, false)));
    }
}

#[test]
fn an_array_that_is_taken_for_clean_is_clean() {
    for version in VERSIONS {
        let parts = disks(&[64 * MIB, 64 * MIB]);
        let options = CreateOptions {
            assume_clean: true,
            ..usual(Level::Raid1, version)
        };
        made(&parts, &[], &options).expect("it can be made");
        assert_eq!(found(&parts[0]).1.synced_to, None);
    }
}

#[test]
fn so_much_is_used_of_each_member_as_is_asked_for() {
    let asked = |level, size| {
        let parts = disks(&[64 * MIB, 64 * MIB]);
        let options = CreateOptions {
            size: Some(size),
            ..usual(level, Version::V1_2)
        };
        let made = made(&parts, &[], &options).expect("it can be made");
        (made.size, found(&parts[0]).1.member_size)
    };
    assert_eq!(asked(Level::Raid1, 10 * MIB), (10 * MIB, 10 * MIB));
    assert_eq!(asked(Level::Raid1, 10_000), (9216, 9216), "whole KiB");
    // n2 of two: a mirror in chunks.
    assert_eq!(asked(Level::Raid10, 10 * MIB + 5), (10 * MIB, 10 * MIB));
}

#[test]
fn a_much_larger_member_is_remarked() {
    let remarks = |sizes: &[u64], level| {
        let parts = disks(sizes);
        let made = made(&parts, &[], &usual(level, Version::V1_2)).expect("it can be made");
        made.remarks
    };
    let printed = remarks(&[64 * MIB, 66 * MIB], Level::Raid1);
    assert_eq!(
        printed,
        ["2097152 bytes of b are not used: the array takes 66060288 of each member"]
    );
    assert!(remarks(&[1000 * MIB, 1009 * MIB], Level::Raid1).is_empty());
    assert!(remarks(&[64 * MIB, 90 * MIB], Level::Linear).is_empty());
}

#[test]
fn unequal_members_of_raid_0_say_how_it_lies() {
    let of = |sizes: &[u64], layout| {
        let parts = disks(sizes);
        let options = CreateOptions {
            layout,
            ..usual(Level::Raid0, Version::V1_2)
        };
        let size = made(&parts, &[], &options).expect("it can be made").size;
        let (_, superblock) = found(&parts[0]);
        (size, superblock.layout, superblock.features)
    };
    assert_eq!(of(&[64 * MIB, 64 * MIB], None), (124 * MIB, 1, 0));
    let printed = features::RAID0_LAYOUT;
    assert_eq!(of(&[64 * MIB, 80 * MIB], None), (140 * MIB, 1, printed));
    assert_eq!(of(&[64 * MIB, 80 * MIB], Some(2)), (140 * MIB, 2, printed));
}

#[test]
fn a_disk_of_large_blocks_can_be_a_member() {
    for version in VERSIONS {
        for block in [4096, 65_536] {
            let disk = || -> Node {
                let disk = MemDisk::new(64 * MIB);
                Arc::new(disk.with_geometry(|geometry| geometry.block_size = block))
            };
            let parts = [member("a", disk()), member("b", disk())];
            made(&parts, &[], &usual(Level::Raid1, version)).expect("it can be made");
            assert_eq!(found(&parts[1]).1.role, Role::Active(1));
        }
    }
}

#[test]
fn two_arrays_have_uuids_of_their_own() {
    let make = || {
        let parts = disks(&[64 * MIB, 64 * MIB]);
        let options = usual(Level::Raid1, Version::V1_2);
        let created = block_on(create(parts.clone(), Vec::new(), options));
        let devices = [0, 1].map(|index: usize| found(&parts[index]).1.device);
        (created.expect("it can be made").uuid, devices)
    };
    let (first, devices) = make();
    assert_ne!(first, make().0);
    assert_ne!(devices[0], devices[1]);
    assert!(!devices.contains(&Some(stamp(1).devices[0])));
}
