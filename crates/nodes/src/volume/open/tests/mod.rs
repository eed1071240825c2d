//! Tests of volumes as disks.

mod hostile;
mod live_merges;
mod live_moves;
mod snapshot_changes;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use block::{Errno, Node, Range, WriteFlags};
use proptest::prelude::*;
use testkit::{MemDisk, OpSpace, block_on, check_in_batches, gather, ops, pattern, single};

use super::{OpenVolume, VolumeSet};
use crate::volume::format::{Header, VolumeGroup};
use crate::volume::group::{AssembledGroup, FoundPhysicalVolume, VolumeAccess, assemble};
use crate::volume::{PhysicalVolume, VolumeError};

/// Bytes of an extent, and of what is before the first.
const EXTENT: u64 = 4096;
const START: u64 = 8192;
/// Extents of each member.
const EXTENTS: u64 = 16;
const DISK_LEN: u64 = START + EXTENTS * EXTENT;
/// Members of the group.
const MEMBERS: usize = 3;

/// A volume of one segment for each of `segments`: extents, and the rest of the segment.
fn volume(name: &str, status: &str, segments: &[(u64, &str)]) -> String {
    let mut start = 0;
    let segments = segments.iter().enumerate().map(|(index, (extents, rest))| {
        let number = index + 1;
        let at = start;
        start += extents;
        format!("segment{number} {{ start_extent = {at} extent_count = {extents} {rest} }}\n")
    });
    let segments: String = segments.collect();
    format!("{name} {{ id = \"id-{name}\" status = [{status}] flags = []\n{segments} }}\n")
}

/// A place in memory.
fn index(at: u64) -> usize {
    usize::try_from(at).unwrap()
}

const VISIBLE: &str = "\"READ\", \"WRITE\", \"VISIBLE\"";
const PART: &str = "\"READ\", \"WRITE\"";

fn linear(on: &str, extent: u64) -> String {
    format!("type = \"striped\" stripe_count = 1 stripes = [\"{on}\", {extent}]")
}

fn striped(size_sectors: u64, areas: &[(&str, u64)]) -> String {
    let count = areas.len();
    let areas = areas
        .iter()
        .map(|(on, extent)| format!("\"{on}\", {extent}"));
    let areas: Vec<String> = areas.collect();
    let areas = areas.join(", ");
    format!(
        "type = \"striped\" stripe_count = {count} stripe_size = {size_sectors} stripes = [{areas}]"
    )
}

fn group(volumes: &str) -> VolumeGroup {
    let member = |index: usize| {
        format!(
            "pv{index} {{ id = \"p{index}\" device = \"/dev/sd{index}\" status = [\"ALLOCATABLE\"]
             dev_size = {} pe_start = {} pe_count = {EXTENTS} }}\n",
            DISK_LEN / 512,
            START / 512
        )
    };
    let members: String = (0..MEMBERS).map(member).collect();
    let text = format!(
        "contents = \"Text Format Volume Group\" vg {{ id = \"g\" seqno = 1 extent_size = {}
         status = [\"RESIZEABLE\", \"READ\", \"WRITE\"]
         physical_volumes {{ {members} }} logical_volumes {{ {volumes} }} }}",
        EXTENT / 512
    );
    VolumeGroup::of(&text).unwrap()
}

/// The group with those of its members that are not in `without`.
fn assembled(volumes: &str, without: &[usize]) -> AssembledGroup {
    let group = group(volumes);
    let there = (0..MEMBERS).filter(|index| !without.contains(index));
    let found = there.map(|index| FoundPhysicalVolume {
        name: format!("disk{index}"),
        size: DISK_LEN,
        volume: PhysicalVolume {
            header: Header {
                id: format!("p{index}"),
                size: DISK_LEN,
                data_areas: Vec::new(),
                metadata_areas: Vec::new(),
                used: None,
            },
            group: Some(group.clone()),
            problems: Vec::new(),
        },
    });
    let found: Vec<_> = found.collect();
    assemble(&found).pop().unwrap()
}

fn disks() -> Vec<Arc<MemDisk>> {
    let disk = |_| Arc::new(MemDisk::new(DISK_LEN));
    (0..MEMBERS).map(disk).collect()
}

fn by_id(disks: &[Arc<MemDisk>]) -> HashMap<String, Node> {
    let disks = disks.iter().enumerate();
    disks
        .map(|(index, disk)| (format!("p{index}"), disk.clone() as Node))
        .collect()
}

fn set(volumes: &str, without: &[usize], disks: &[Arc<MemDisk>]) -> Arc<VolumeSet> {
    let group = assembled(volumes, without);
    VolumeSet::new(group, by_id(disks), VolumeAccess::default()).unwrap()
}

fn open(volumes: &str, without: &[usize], name: &str) -> Result<OpenVolume, VolumeError> {
    block_on(set(volumes, without, &disks()).open(name))
}

fn refusal(volumes: &str, name: &str) -> String {
    open(volumes, &[], name).unwrap_err().to_string()
}

#[test]
fn a_linear_volume_lies_where_its_segments_say() {
    let volumes = volume(
        "media",
        VISIBLE,
        &[(2, &linear("pv1", 3)), (1, &linear("pv0", 15))],
    );
    let disks = disks();
    let opened = block_on(set(&volumes, &[], &disks).open("media")).unwrap();
    assert_eq!(opened.kind, "linear");
    let disk = opened.disk;
    assert_eq!(disk.geometry().size, 3 * EXTENT);
    assert!(!disk.geometry().read_only);
    let range = Range::new(0, 3 * EXTENT);
    let data = pattern(7, range);
    block_on(disk.write(range, single(data.clone()), WriteFlags::empty())).unwrap();
    let split = index(2 * EXTENT);
    let at = index(START + 3 * EXTENT);
    assert_eq!(disks[1].snapshot()[at..at + split], data[..split]);
    let at = index(START + 15 * EXTENT);
    assert_eq!(disks[0].snapshot()[at..], data[split..]);
    let places: Vec<_> = opened
        .uses
        .iter()
        .map(|used| (used.at, used.member))
        .collect();
    assert_eq!(places, [(Some(0), 1), (Some(2 * EXTENT), 0)]);
}

#[test]
fn stripes_take_turns() {
    let volumes = volume(
        "fast",
        VISIBLE,
        &[(4, &striped(2, &[("pv0", 0), ("pv2", 4)]))],
    );
    let disks = disks();
    let disk = block_on(set(&volumes, &[], &disks).open("fast"))
        .unwrap()
        .disk;
    assert_eq!(disk.geometry().size, 4 * EXTENT);
    let range = Range::new(0, 4096);
    let data = pattern(3, range);
    block_on(disk.write(range, single(data.clone()), WriteFlags::empty())).unwrap();
    let [first, second] = [(0, START), (2, START + 4 * EXTENT)].map(|(disk, at)| {
        let at = index(at);
        disks[disk].snapshot()[at..at + 2048].to_vec()
    });
    assert_eq!(first, [&data[..1024], &data[2048..3072]].concat());
    assert_eq!(second, [&data[1024..2048], &data[3072..]].concat());
}

#[test]
fn zero_and_error_segments_are_as_their_names_say() {
    let volumes = volume(
        "odd",
        VISIBLE,
        &[
            (1, "type = \"zero\""),
            (1, "type = \"error\""),
            (1, &linear("pv0", 0)),
        ],
    );
    let disk = open(&volumes, &[], "odd").unwrap().disk;
    let read = |extent: u64| block_on(disk.read(Range::new(extent * EXTENT, 512)));
    assert_eq!(gather(&read(0).unwrap()), [0; 512]);
    assert_eq!(read(1).unwrap_err().errno, Errno::Io);
    assert!(read(2).is_ok());
}

#[test]
fn a_volume_on_another_volume_reads_through() {
    let volumes = volume("media", VISIBLE, &[(2, &linear("pvmove0", 1))])
        + &volume("pvmove0", PART, &[(4, &linear("pv0", 8))]);
    let disks = disks();
    let set = set(&volumes, &[], &disks);
    let disk = block_on(set.open("media")).unwrap().disk;
    let range = Range::new(0, 512);
    let data = pattern(9, range);
    block_on(disk.write(range, single(data.clone()), WriteFlags::empty())).unwrap();
    let at = index(START + 9 * EXTENT);
    assert_eq!(disks[0].snapshot()[at..at + 512], data);
    let error = block_on(set.open("pvmove0")).unwrap_err();
    assert!(matches!(&error, VolumeError::Hidden { owner, .. } if owner == "media"));
}

#[test]
fn extents_that_are_being_moved_are_at_their_old_place_until_all_are_moved() {
    let moving = |moved: u64| {
        format!(
            "type = \"mirror\" mirror_count = 2 extents_moved = {moved} mirrors = [\"pv0\", 2, \"pv1\", 5]"
        )
    };
    for (moved, disk, extent) in [(0, 0, 2), (1, 0, 2), (2, 1, 5)] {
        let volumes = volume("media", VISIBLE, &[(2, &linear("pvmove0", 0))])
            + &volume(
                "pvmove0",
                "\"READ\", \"WRITE\", \"PVMOVE\", \"LOCKED\"",
                &[(2, &moving(moved))],
            );
        let disks = disks();
        let opened = block_on(set(&volumes, &[], &disks).open("media")).unwrap();
        let range = Range::new(0, 512);
        let data = pattern(1, range);
        block_on(
            opened
                .disk
                .write(range, single(data.clone()), WriteFlags::empty()),
        )
        .unwrap();
        let at = index(START + extent * EXTENT);
        assert_eq!(disks[disk].snapshot()[at..at + 512], data);
    }
}

#[test]
fn only_volumes_that_need_a_missing_disk_are_refused() {
    let volumes = volume("here", VISIBLE, &[(2, &linear("pv0", 0))])
        + &volume(
            "gone",
            VISIBLE,
            &[(1, &linear("pv0", 2)), (1, &linear("pv1", 0))],
        );
    assert!(open(&volumes, &[1], "here").is_ok());
    let error = open(&volumes, &[1], "gone").unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("p1, which was /dev/sd1 (not among these disks)"),
        "{text}"
    );
    assert_eq!(error.next(), Some("name the disk that is missing, too"));
}

#[test]
fn a_volume_without_the_status_write_is_only_read() {
    let volumes = volume("kept", "\"READ\", \"VISIBLE\"", &[(1, &linear("pv0", 0))]);
    let disk = open(&volumes, &[], "kept").unwrap().disk;
    assert!(disk.geometry().read_only);
    let write = disk.write(
        Range::new(0, 512),
        single(vec![1; 512]),
        WriteFlags::empty(),
    );
    assert_eq!(block_on(write).unwrap_err().errno, Errno::NotPermitted);
}

#[test]
fn each_volume_has_an_identity_of_its_own() {
    let volumes = volume("a", VISIBLE, &[(1, &linear("pv0", 0))])
        + &volume("b", VISIBLE, &[(1, &linear("pv0", 1))]);
    let set = set(&volumes, &[], &disks());
    let identity = |name: &str| block_on(set.open(name)).unwrap().disk.identity().unwrap();
    assert_ne!(identity("a"), identity("b"));
    assert_eq!(identity("a"), identity("a"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_volume_of_every_simple_segment_is_a_disk(
        ops in ops(OpSpace { size: 9 * EXTENT, block_size: 1, len_max: 4 * EXTENT }, 0..50),
        width in 1_usize..6,
    ) {
        let volumes = volume("v", VISIBLE, &[
            (2, &linear("pv2", 1)),
            (6, &striped(1, &[("pv0", 0), ("pv1", 7), ("part", 0)])),
            (1, &linear("part", 3)),
        ]) + &volume("part", PART, &[(1, &linear("pv2", 9)), (3, &linear("pv0", 10))]);
        let disk = open(&volumes, &[], "v").unwrap().disk;
        block_on(check_in_batches(&*disk, &ops, width)).unwrap();
    }
}

/// A volume `lin` on the first disk with a snapshot `snap`, which has its store on the second.
fn origin_and_snapshot() -> String {
    let snapshot = "type = \"snapshot\" chunk_size = 8 origin = \"lin\" cow_store = \"snap\"";
    volume("lin", VISIBLE, &[(4, &linear("pv0", 0))])
        + &volume("snap", PART, &[(8, &linear("pv1", 0))])
        + &volume("snapshot0", VISIBLE, &[(4, snapshot)])
}

#[test]
fn a_write_of_an_origin_reaches_its_disk_without_a_flush() {
    block_on(async {
        let disks = disks();
        let set = set(&origin_and_snapshot(), &[], &disks);
        let origin = set.open("lin").await.unwrap();
        let range = Range::new(0, 4096);
        let data = pattern(4, range);
        let write = origin
            .disk
            .write(range, single(data.clone()), WriteFlags::empty());
        write.await.unwrap();
        let at = index(START);
        let on_disk = || disks[0].snapshot()[at..at + 4096].to_vec();
        assert_ne!(on_disk(), data, "it is buffered first");
        engine::clock::sleep(Duration::from_secs(6)).await;
        assert_eq!(on_disk(), data);
    });
}

#[test]
fn an_origin_and_its_snapshot_stay_consistent_within_a_set() {
    let volumes = origin_and_snapshot();
    let set = set(&volumes, &[], &disks());
    let origin = block_on(set.open("lin")).unwrap();
    let snap = block_on(set.open("snap")).unwrap();
    assert_eq!(
        (origin.kind.as_str(), snap.kind.as_str()),
        ("linear", "snapshot")
    );
    assert_eq!(snap.disk.geometry().size, 4 * EXTENT);
    let members = |opened: &OpenVolume| -> Vec<usize> {
        opened.uses.iter().map(|used| used.member).collect()
    };
    assert_eq!(members(&origin), [0, 1], "its store is written, too");
    let range = Range::new(0, 8192);
    let data = pattern(4, range);
    let write = origin
        .disk
        .write(range, single(data.clone()), WriteFlags::empty());
    block_on(write).unwrap();
    assert_eq!(gather(&block_on(origin.disk.read(range)).unwrap()), data);
    assert_eq!(gather(&block_on(snap.disk.read(range)).unwrap()), [0; 8192]);
}
