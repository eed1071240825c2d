//! Tests of looking for physical volumes on disks that LVM made: `fixtures/lvm`.

use std::sync::Arc;

use block::{BlockDevice, Node, Range, WriteFlags};
use testkit::{block_on, single};

use super::format::VolumeProblem;
use super::format::tests::{FIXTURES, seal_area};
use super::{PhysicalVolume, examine};
use crate::Memory;

/// Size of the disks that the fixtures are the beginning of.
const DISK_LEN: u64 = 64 << 20;

fn disk(start: &[u8]) -> Memory {
    let disk = Memory::new(DISK_LEN);
    put(&disk, 0, start.to_vec());
    disk
}

fn put(disk: &Memory, at: u64, bytes: Vec<u8>) {
    let range = Range::new(at, bytes.len() as u64);
    block_on(disk.write(range, single(bytes), WriteFlags::empty())).unwrap();
}

fn found(disk: Memory) -> Option<Result<PhysicalVolume, VolumeProblem>> {
    let disk: Node = Arc::new(disk);
    block_on(examine(&disk)).unwrap()
}

#[test]
fn a_physical_volume_names_its_group() {
    let ids = [
        "Ic6ORZ-QK43-QrJ7-eCsi-cbZ4-kVYL-e5Xpi4",
        "ARPQeC-wwXg-an69-IdEv-MOPz-oOg2-oa3Q5g",
        "4rczpz-WjYJ-a6ZQ-SqoQ-gyRy-GHIk-nxjqWc",
    ];
    for (start, id) in FIXTURES.into_iter().zip(ids) {
        let volume = found(disk(start)).unwrap().unwrap();
        assert_eq!(volume.header.id, id);
        assert_eq!(volume.header.size, DISK_LEN);
        assert_eq!(volume.header.used, Some(true));
        assert_eq!(volume.problems, []);
        let group = volume.group.unwrap();
        assert_eq!((group.name.as_str(), group.sequence), ("vg0", 4));
        assert!(group.members.iter().any(|member| member.id == id));
    }
}

#[test]
fn a_disk_without_a_label_is_none() {
    assert_eq!(found(Memory::new(DISK_LEN)), None);
    assert_eq!(found(Memory::new(512)), None);
}

#[test]
fn a_damaged_label_is_reported() {
    let disk = disk(FIXTURES[0]);
    put(&disk, 512 + 100, vec![0xff]);
    let damaged = found(disk).unwrap();
    assert!(matches!(
        damaged,
        Err(VolumeProblem::Checksum { what: "label", .. })
    ));
}

#[test]
fn damaged_metadata_leaves_the_physical_volume() {
    let disk = disk(FIXTURES[0]);
    put(&disk, 4096 + 5632 + 10, vec![0xff]);
    let volume = found(disk).unwrap().unwrap();
    assert_eq!(volume.group, None);
    let [
        VolumeProblem::Checksum {
            what: "metadata", ..
        },
    ] = volume.problems.as_slice()
    else {
        panic!("{:?}", volume.problems)
    };
}

#[test]
fn a_text_goes_on_at_the_beginning_of_its_ring() {
    let start = FIXTURES[0];
    let text = &start[4096 + 5632..4096 + 5632 + 1882];
    let mut header = start[4096..4096 + 512].to_vec();
    // 1044480 bytes of area: the last 1000 of them, then on behind the header.
    let offset = 1_044_480_u64 - 1000;
    header[40..48].copy_from_slice(&offset.to_le_bytes());
    seal_area(&mut header);
    let disk = disk(&start[..4096]);
    put(&disk, 4096, header);
    put(&disk, 4096 + offset, text[..1000].to_vec());
    put(&disk, 4096 + 512, text[1000..].to_vec());
    let volume = found(disk).unwrap().unwrap();
    assert_eq!(volume.problems, []);
    assert_eq!(volume.group.unwrap().name, "vg0");
}

#[test]
fn a_disk_that_ends_too_early_is_reported() {
    let disk = Memory::new(8192);
    put(&disk, 0, FIXTURES[0][..8192].to_vec());
    let volume = found(disk).unwrap().unwrap();
    assert_eq!(volume.problems, [VolumeProblem::Cut]);
}
