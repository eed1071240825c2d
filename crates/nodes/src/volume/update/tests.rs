//! Tests of writing metadata: where texts go, failing disks, and power cuts at every step.

use std::sync::Arc;

use block::{Errno, Node, Operation, Range};
use proptest::prelude::*;
use testkit::{CrashDisk, Effect, Fault, FaultDisk, MemDisk, block_on};

use super::*;
use crate::array::format::{Level, Version};
use crate::array::{ConsistencyChoice, CreateOptions, NewMember, create, examine};
use crate::volume::edit::{EditStamp, GroupEdit, NewGroup, NewGroupMember, NewVolume};
use crate::volume::format::tests::FIXTURES;
use crate::volume::format::{Header, NewLabel, mark_used};
use crate::volume::random_id;
use crate::volume::scan::{DiskScan, scan};

const DISK_LEN: u64 = 2 << 20;
/// Extents are as small as they can be.
const EXTENT: u64 = 4096;

fn stamp() -> EditStamp {
    EditStamp {
        seconds: 1_795_288_091,
        host: "test".to_owned(),
        description: "a \"test\"".to_owned(),
    }
}

fn new_volume(name: &str, extents: u64) -> NewVolume {
    NewVolume {
        name: name.to_owned(),
        id: random_id(),
        extents,
        stripes: 1,
        stripe_size: 64 << 10,
        on: Vec::new(),
        seconds: 1,
        host: "test".to_owned(),
    }
}

/// Labels on disks, and the text of a group of them.
fn make_group(disks: &[Node]) -> (GroupEdit, Vec<MetadataArea>) {
    let members: Vec<NewGroupMember> = (0..disks.len())
        .map(|number| NewGroupMember {
            id: random_id(),
            device: format!("disk{number}"),
            size: DISK_LEN,
        })
        .collect();
    let labels: Vec<NewLabel> = members
        .iter()
        .map(|member| NewLabel::new(&member.id, DISK_LEN).unwrap())
        .collect();
    let named: Vec<_> = disks
        .iter()
        .zip(&labels)
        .map(|(disk, label)| ("disk", disk, label))
        .collect();
    block_on(write_labels(&named)).unwrap();
    let group = NewGroup {
        name: "vg0".to_owned(),
        id: random_id(),
        extent: EXTENT,
    };
    let edit = GroupEdit::create_group(&group, &members).unwrap();
    let areas = disks.iter().enumerate().map(|(number, disk)| MetadataArea {
        name: format!("disk{number}"),
        disk: disk.clone(),
        area: NewLabel::METADATA_AREA,
        reset: false,
    });
    (edit, areas.collect())
}

fn next_text(text: &str, name: &str) -> String {
    let mut edit = GroupEdit::open(VolumeGroup::of(text).unwrap()).unwrap();
    edit.create_volume(&new_volume(name, 1)).unwrap();
    edit.finish(&stamp()).unwrap()
}

/// The newest text on these disks.
fn newest(disks: &[Node]) -> Option<String> {
    let scans = disks
        .iter()
        .filter_map(|disk| block_on(scan(disk)).unwrap());
    let scans: Vec<DiskScan> = scans.map(Result::unwrap).collect();
    let texts = scans.iter().filter_map(DiskScan::newest);
    let newest = texts.max_by_key(|text| text.group.sequence);
    newest.map(|text| text.text.clone())
}

fn mem_disks(count: usize) -> Vec<Node> {
    (0..count)
        .map(|_| Arc::new(MemDisk::new(DISK_LEN)) as Node)
        .collect()
}

#[test]
fn a_new_group_is_read_from_each_of_its_disks() {
    let disks = mem_disks(2);
    let (edit, areas) = make_group(&disks);
    assert_eq!(newest(&disks), None, "the disks are empty physical volumes");
    let text = edit.finish(&stamp()).unwrap();
    assert_eq!(block_on(commit(&areas, &text)).unwrap().written, 2);
    for disk in &disks {
        assert_eq!(newest(std::slice::from_ref(disk)).as_ref(), Some(&text));
        let scan = block_on(scan(disk)).unwrap().unwrap().unwrap();
        assert_eq!(scan.header.used, Some(false));
        block_on(mark_disk_used("disk", disk, true)).unwrap();
        let found = block_on(crate::volume::examine(disk))
            .unwrap()
            .unwrap()
            .unwrap();
        assert_eq!(found.header.used, Some(true));
        assert_eq!(found.problems, []);
    }
}

#[test]
fn labels_and_headers_are_those_that_lvm_writes() {
    for start in FIXTURES {
        let found = Header::decode(start).unwrap().unwrap();
        let label = NewLabel::new(&found.id, found.size).unwrap();
        assert_eq!(label.encode(true).bytes, start[..2048]);
        let header = &start[4096..4096 + 512];
        let decoded = AreaHeader::decode(NewLabel::METADATA_AREA, header).unwrap();
        assert_eq!(decoded.encode(), header);
        let marked = mark_used(start, false).unwrap().unwrap();
        assert_eq!(marked.offset, 512);
        assert_eq!(marked.bytes, label.encode(false).bytes[512..1024]);
        assert_eq!(mark_used(start, true), Ok(None));
    }
    assert!(NewLabel::new("short", DISK_LEN).is_err());
}

#[test]
fn the_old_text_stays_until_the_change_after_the_next() {
    let disks = mem_disks(1);
    let (edit, areas) = make_group(&disks);
    let first = edit.finish(&stamp()).unwrap();
    block_on(commit(&areas, &first)).unwrap();
    let second = next_text(&first, "a");
    block_on(commit(&areas, &second)).unwrap();
    let area = NewLabel::METADATA_AREA;
    let ring = Range::new(area.offset + 512, first.len() as u64);
    let kept = block_on(read_within(&disks[0], ring)).unwrap();
    assert_eq!(String::from_utf8(kept).unwrap(), first);
}

#[test]
fn texts_go_round_the_ring_many_times() {
    let disks = mem_disks(1);
    let (edit, areas) = make_group(&disks);
    let mut text = edit.finish(&stamp()).unwrap();
    for number in 0..14 {
        block_on(commit(&areas, &text)).unwrap();
        text = next_text(&text, &format!("v{number}"));
    }
    // About 7 KiB a text: 1 MiB is gone round in the loop below.
    for _ in 0..180 {
        block_on(commit(&areas, &text)).unwrap();
        assert_eq!(newest(&disks).unwrap(), text);
        let edit = GroupEdit::open(VolumeGroup::of(&text).unwrap()).unwrap();
        text = edit.finish(&stamp()).unwrap();
    }
}

#[test]
fn a_text_without_room_is_refused_before_anything_is_written() {
    let disks = mem_disks(2);
    let (edit, mut areas) = make_group(&disks);
    let text = edit.finish(&stamp()).unwrap();
    // The second disk has a small area.
    areas[1].area = Range::new(NewLabel::METADATA_AREA.offset, 2048);
    areas[1].reset = true;
    let refused = block_on(commit(&areas, &text));
    assert!(matches!(refused, Err(UpdateError::Plan { disk, .. }) if disk == "disk1"));
    assert_eq!(newest(&disks), None);
}

#[test]
fn a_text_that_makes_no_sense_is_not_written() {
    let disks = mem_disks(1);
    let (_, areas) = make_group(&disks);
    let refused = block_on(commit(&areas, "vg0 {"));
    assert!(matches!(refused, Err(UpdateError::Text(_))));
    assert_eq!(newest(&disks), None);
}

#[test]
fn a_disk_that_fails_is_reported_and_the_others_go_on() {
    for (operation, after) in [
        (Operation::Write, 0),
        (Operation::Write, 1),
        (Operation::Write, 2),
        (Operation::Flush, 0),
        (Operation::Flush, 1),
        (Operation::Flush, 2),
    ] {
        let good = Arc::new(MemDisk::new(DISK_LEN));
        let bad = Arc::new(MemDisk::new(DISK_LEN));
        let disks: Vec<Node> = vec![good, bad];
        let (edit, mut areas) = make_group(&disks);
        let first = edit.finish(&stamp()).unwrap();
        block_on(commit(&areas, &first)).unwrap();
        let fault = Fault::new(Effect::Fail(Errno::Io))
            .on(operation)
            .after(after);
        areas[1].disk = FaultDisk::new(disks[1].clone(), 1, vec![fault]);
        let second = next_text(&first, "a");
        let report = block_on(commit(&areas, &second)).unwrap();
        assert_eq!(report.written, 1);
        assert_eq!(report.failed.len(), 1);
        assert_eq!(report.failed[0].name, "disk1");
        assert_eq!(newest(&disks).unwrap(), second, "the first disk has it");
    }
}

#[test]
fn no_disk_is_an_error() {
    let disks = mem_disks(1);
    let (edit, mut areas) = make_group(&disks);
    let text = edit.finish(&stamp()).unwrap();
    let fault = Fault::new(Effect::Fail(Errno::Io)).on(Operation::Write);
    areas[0].disk = FaultDisk::new(disks[0].clone(), 1, vec![fault]);
    assert!(matches!(
        block_on(commit(&areas, &text)),
        Err(UpdateError::Write { .. })
    ));
    assert!(matches!(
        block_on(commit(&[], &text)),
        Err(UpdateError::NoArea)
    ));
}

#[test]
fn an_area_that_lvm_ignores_stays_as_it_is() {
    let disks = mem_disks(2);
    let (edit, areas) = make_group(&disks);
    let mut header = AreaHeader::new(NewLabel::METADATA_AREA);
    header.ignored = true;
    block_on(put(&disks[1], header.area.offset, &header.encode())).unwrap();
    let text = edit.finish(&stamp()).unwrap();
    assert_eq!(block_on(commit(&areas, &text)).unwrap().written, 1);
    assert_eq!(newest(&disks[1..]), None);
}

#[test]
fn a_disk_with_large_blocks_takes_texts_too() {
    let large = Blocks::new(mem_disks(1).remove(0), 4096).unwrap();
    let disks: Vec<Node> = vec![Arc::new(large)];
    let (edit, areas) = make_group(&disks);
    let first = edit.finish(&stamp()).unwrap();
    block_on(commit(&areas, &first)).unwrap();
    let second = next_text(&first, "a");
    block_on(commit(&areas, &second)).unwrap();
    assert_eq!(newest(&disks).unwrap(), second);
}

/// Which images a cut may leave is chosen by so many seeds at each cut.
const SEEDS: u64 = 4;

#[test]
fn a_power_cut_leaves_the_old_or_the_new_text() {
    // Two disks, the second fails no request: the change has three writes and three flushes on each.
    let start = mem_disks(2);
    let (edit, areas) = make_group(&start);
    let mut old = edit.finish(&stamp()).unwrap();
    // A text of several sectors, so that it can be torn.
    for number in 0..4 {
        old = next_text(&old, &format!("v{number}"));
    }
    block_on(commit(&areas, &old)).unwrap();
    let new = next_text(&old, "new");
    let image = |disk: &Node| block_on(read_within(disk, Range::new(0, DISK_LEN))).unwrap();
    let images: Vec<Vec<u8>> = start.iter().map(image).collect();
    let mut found_old = 0;
    let mut found_new = 0;
    // The power is cut by failing all requests from one on; of the second disk some earlier.
    for (cut, skew) in (0..=7_u64).flat_map(|cut| (0..3).map(move |skew| (cut, skew))) {
        let crash: Vec<Arc<CrashDisk>> = images
            .iter()
            .map(|image| Arc::new(CrashDisk::from_bytes(image.clone())))
            .collect();
        let mut cut_areas = areas.clone();
        for ((area, disk), number) in cut_areas.iter_mut().zip(&crash).zip(0..) {
            let cut = cut.saturating_sub(skew * number);
            let fault = |operation| {
                let fault = Fault::new(Effect::Fail(Errno::Io)).on(operation);
                fault.after(cut / 2 + u64::from(operation == Operation::Write) * (cut % 2))
            };
            let faults = vec![fault(Operation::Write), fault(Operation::Flush)];
            area.disk = FaultDisk::new(disk.clone(), cut, faults);
        }
        let done = block_on(commit(&cut_areas, &new)).is_ok();
        for seed in 0..SEEDS {
            let left: Vec<Node> = crash
                .iter()
                .zip(0..)
                .map(|(disk, number)| {
                    Arc::new(MemDisk::from_bytes(disk.crash(seed * 31 + number))) as Node
                })
                .collect();
            // Each area on its own is whole, also where it is not the newest of the group.
            for disk in &left {
                let scan = block_on(scan(disk)).unwrap().unwrap().unwrap();
                assert!(
                    scan.areas.iter().all(|area| area.text.is_ok()),
                    "cut {cut}, seed {seed}"
                );
            }
            let text = newest(&left).unwrap();
            assert!(text == old || text == new, "cut {cut}, seed {seed}");
            assert!(
                !done || text == new,
                "cut {cut}, seed {seed}: it was acknowledged"
            );
            found_old += u32::from(text == old);
            found_new += u32::from(text == new);
        }
    }
    assert!(found_old > 0 && found_new > 0, "both were left by some cut");
}

#[test]
fn a_power_cut_while_labels_are_written_leaves_no_half_physical_volume() {
    let label = NewLabel::new(&random_id(), DISK_LEN).unwrap();
    for cut in 0..8 {
        let crash = Arc::new(CrashDisk::new(DISK_LEN));
        let fault = |operation| {
            Fault::new(Effect::Fail(Errno::Io))
                .on(operation)
                .after(cut / 2)
        };
        let faults = vec![fault(Operation::Write), fault(Operation::Flush)];
        let disk: Node = FaultDisk::new(crash.clone(), cut, faults);
        let done = block_on(write_labels(&[("disk", &disk, &label)])).is_ok();
        for seed in 0..SEEDS {
            let left: Node = Arc::new(MemDisk::from_bytes(crash.crash(seed)));
            match block_on(scan(&left)).unwrap() {
                None => assert!(!done),
                Some(scan) => assert!(scan.unwrap().areas.iter().all(|area| area.text.is_ok())),
            }
        }
    }
}

#[test]
fn a_new_physical_volume_is_no_member_of_an_array() {
    let versions = [
        Version::V0_90 { big_endian: false },
        Version::V1_0,
        Version::V1_1,
        Version::V1_2,
    ];
    for version in versions {
        let disks: Vec<Node> = (0..2)
            .map(|_| Arc::new(MemDisk::new(8 << 20)) as Node)
            .collect();
        let member = |(name, disk): (&str, &Node)| NewMember {
            name: name.to_owned(),
            disk: Some(disk.clone()),
            write_mostly: false,
            fail_fast: false,
        };
        let members = ["a", "b"].into_iter().zip(&disks).map(member);
        let options = CreateOptions {
            journal: None,
            level: Level::Raid1,
            layout: None,
            chunk: None,
            version,
            name: "nas:photos".to_owned(),
            consistency: ConsistencyChoice::Default,
            assume_clean: true,
            size: None,
        };
        block_on(async {
            create(members.collect(), Vec::new(), options)
                .await
                .unwrap();
            let disk = &disks[0];
            assert_eq!(examine(disk).await.unwrap().len(), 1, "{version}");
            let label = NewLabel::new(&random_id(), 8 << 20).unwrap();
            write_labels(&[("disk", disk, &label)]).await.unwrap();
            assert_eq!(examine(disk).await.unwrap(), [], "{version}");
            assert!(scan(disk).await.unwrap().unwrap().is_ok());
        });
    }
}

proptest! {
    #[test]
    fn a_new_text_never_touches_the_old_one(
        sectors in 4_u64..64, old_len in 1_u64..16_384, new_len in 1_usize..16_384, at in 0_u64..64,
    ) {
        let area = Range::new(4096, sectors * 512);
        let mut header = AreaHeader::new(area);
        let offset = 512 + at % (sectors - 1) * 512;
        let old = TextSlot { offset, len: old_len.min(area.len - 512), checksum: 0 };
        header.committed = Some(old);
        let text = PaddedText::of(&"x".repeat(new_len));
        let Ok(plan) = place_text(&header, &text) else { return Ok(()) };
        prop_assert!(text.len <= (area.len - 512) / 2 - 512);
        let at = |n: u64| area.offset + 512 + (offset - 512 + n) % (area.len - 512);
        let mut total = 0;
        for (piece, span) in &plan.pieces {
            prop_assert_eq!(piece.len_usize(), span.len());
            prop_assert!(piece.offset >= area.offset + 512 && piece.end() <= area.end());
            // A byte of each sector, and the last.
            let bytes = (0..old.len).step_by(512).chain([old.len - 1]);
            for byte in bytes.map(at) {
                prop_assert!(!(piece.offset..piece.end()).contains(&byte));
            }
            total += piece.len;
        }
        prop_assert_eq!(total, text.bytes.len() as u64);
        let first = plan.pieces[0].0.offset - area.offset;
        prop_assert_eq!(plan.slot.offset, first);
    }

    #[test]
    fn headers_are_read_as_they_were_written(
        sectors in 4_u64..4096, slots: [(u16, u16, u32); 2], ignored: bool,
    ) {
        let area = Range::new(4096, sectors * 512);
        let slot = |(offset, len, checksum): (u16, u16, u32)| {
            let offset = 512 + u64::from(offset) % (area.len - 512);
            let len = u64::from(len) % (area.len - 511);
            Some(TextSlot { offset, len, checksum })
        };
        let header = AreaHeader {
            area,
            committed: slot(slots[0]),
            precommitted: slot(slots[1]),
            ignored,
        };
        prop_assert_eq!(AreaHeader::decode(area, &header.encode()), Ok(header));
    }
}
