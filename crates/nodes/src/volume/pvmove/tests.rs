//! Moves of extents: where they end, disks that fail, and power cuts at every request of each disk, after which the move is
//! resumed or ended.

use std::collections::HashMap;
use std::sync::Arc;

use block::{Errno, Node, Range, WriteFlags};
use testkit::{CrashDisk, Effect, Fault, FaultDisk, MemDisk, block_on, pattern, single};

use super::*;
use crate::read::read_within;
use crate::volume::edit::{
    EditError, MoveRequest, NewGroup, NewGroupMember, NewRaidLevel, NewRaidVolume, NewVolume,
    used_runs,
};
use crate::volume::format::NewLabel;
use crate::volume::group::{
    AssembledGroup, FoundPhysicalVolume, MemberPlace, VolumeAccess, assemble,
};
use crate::volume::open::open_volume;
use crate::volume::random_id;
use crate::volume::scan::scan;
use crate::volume::update::write_labels;

const EXTENT: u64 = 4096;
/// Extents of each disk.
const EXTENTS: u64 = 24;
const DISK_LEN: u64 = NewLabel::DATA_START + EXTENTS * EXTENT;
/// Which images a cut may leave is chosen by so many seeds at each cut.
const SEEDS: u64 = 2;

fn stamp() -> EditStamp {
    EditStamp {
        seconds: 1,
        host: "test".to_owned(),
        description: "test".to_owned(),
    }
}

fn volume(name: &str, extents: u64, stripes: usize) -> NewVolume {
    NewVolume {
        name: name.to_owned(),
        id: random_id(),
        extents,
        stripes,
        stripe_size: 4096,
        on: Vec::new(),
        seconds: 1,
        host: "test".to_owned(),
    }
}

/// The group on these disks, which are called disk0 and on.
fn assembled(disks: &[Node]) -> AssembledGroup {
    let found = disks.iter().enumerate().map(|(number, disk)| {
        let scanned = block_on(scan(disk)).unwrap().unwrap().unwrap();
        FoundPhysicalVolume {
            name: format!("disk{number}"),
            size: DISK_LEN,
            volume: scanned.physical_volume(),
        }
    });
    let found: Vec<FoundPhysicalVolume> = found.collect();
    assemble(&found).remove(0)
}

/// What a move works with.
fn pvmove_disks(group: &AssembledGroup, disks: &[Node]) -> PvmoveDisks {
    let members = group.group.members.iter().zip(&group.places);
    let members: HashMap<String, (String, Node)> = members
        .map(|(member, place)| {
            let MemberPlace::Found(disk) = place else {
                panic!("{place:?}")
            };
            let named = (format!("disk{disk}"), disks[*disk].clone());
            (member.name.clone(), named)
        })
        .collect();
    let areas = disks.iter().enumerate().map(|(number, disk)| MetadataArea {
        name: format!("disk{number}"),
        disk: disk.clone(),
        area: NewLabel::METADATA_AREA,
        reset: false,
    });
    PvmoveDisks {
        members,
        areas: areas.collect(),
        stamp: stamp(),
    }
}

/// What each volume that can be opened holds.
fn contents(disks: &[Node]) -> Vec<(String, Vec<u8>)> {
    let group = assembled(disks);
    let access = VolumeAccess {
        read_only: true,
        ..VolumeAccess::default()
    };
    let nodes = group.disks(|index| disks[index].clone());
    let visible = group.group.volumes.iter().filter(|one| one.is_visible());
    let read = visible.map(|volume| {
        let opened = block_on(open_volume(&group, &volume.name, &nodes, &access)).unwrap();
        let all = Range::new(0, opened.disk.geometry().size);
        (
            volume.name.clone(),
            block_on(read_within(&opened.disk, all)).unwrap(),
        )
    });
    read.collect()
}

/// A group of four disks. On the first one: `media` in two pieces with `gap` between them, a stripe of `fast` and an image
/// of `safe`. All hold a pattern.
fn start() -> Vec<Vec<u8>> {
    let mem: Vec<Arc<MemDisk>> = (0..4).map(|_| Arc::new(MemDisk::new(DISK_LEN))).collect();
    let disks: Vec<Node> = mem.iter().map(|disk| disk.clone() as Node).collect();
    let members = (0..disks.len()).map(|number| NewGroupMember {
        id: random_id(),
        device: format!("disk{number}"),
        size: DISK_LEN,
    });
    let members: Vec<NewGroupMember> = members.collect();
    let labels = members.iter();
    let labels: Vec<NewLabel> = labels
        .map(|member| NewLabel::new(&member.id, DISK_LEN).unwrap())
        .collect();
    let named: Vec<_> = (disks.iter().zip(&labels))
        .map(|(disk, label)| ("disk", disk, label))
        .collect();
    block_on(write_labels(&named)).unwrap();
    let group = NewGroup {
        name: "vg0".to_owned(),
        id: random_id(),
        extent: EXTENT,
    };
    let mut edit = GroupEdit::create_group(&group, &members).unwrap();
    edit.create_volume(&volume("media", 3, 1)).unwrap();
    edit.create_volume(&volume("gap", 1, 1)).unwrap();
    edit.extend("media", 4, &["pv0".to_owned()]).unwrap();
    edit.create_volume(&volume("fast", 6, 2)).unwrap();
    let safe = NewRaidVolume {
        volume: volume("safe", 2, 1),
        level: NewRaidLevel::Raid1,
        copies: 2,
        region_size: 4096,
        assume_synced: true,
    };
    edit.create_raid(&safe, random_id).unwrap();
    let text = edit.finish(&stamp()).unwrap();
    let areas = disks.iter().map(|disk| MetadataArea {
        name: "disk".to_owned(),
        disk: disk.clone(),
        area: NewLabel::METADATA_AREA,
        reset: false,
    });
    let areas: Vec<MetadataArea> = areas.collect();
    block_on(commit(&areas, &text)).unwrap();
    let group = assembled(&disks);
    let nodes = group.disks(|index| disks[index].clone());
    for (seed, name) in (1..).zip(["media", "gap", "fast", "safe"]) {
        block_on(async {
            let access = VolumeAccess::default();
            let opened = open_volume(&group, name, &nodes, &access).await.unwrap();
            let range = Range::new(0, opened.disk.geometry().size);
            let data = single(pattern(seed, range));
            let write = opened.disk.write(range, data, WriteFlags::empty());
            write.await.unwrap();
            opened.disk.flush().await.unwrap();
            for array in &opened.arrays {
                array.stop().await.unwrap();
            }
        });
    }
    mem.iter().map(|disk| disk.snapshot()).collect()
}

fn mem_disks(images: &[Vec<u8>]) -> Vec<Node> {
    let disks = images.iter().cloned();
    disks
        .map(|image| Arc::new(MemDisk::from_bytes(image)) as Node)
        .collect()
}

fn request(from: &str) -> MoveRequest {
    MoveRequest {
        from: from.to_owned(),
        to: Vec::new(),
        volume: None,
        id: random_id(),
        seconds: 1,
        host: "test".to_owned(),
    }
}

/// Moves all that is on the first disk, or resumes that.
fn move_all(disks: &[Node]) -> Result<(), PvmoveError> {
    block_on(move_group(assembled(disks), disks))
}

/// The same of a group that is on these disks.
async fn move_group(assembled: AssembledGroup, disks: &[Node]) -> Result<(), PvmoveError> {
    let mover = pvmove_disks(&assembled, disks);
    let mut group = assembled.group;
    let mut edit = GroupEdit::open(group.clone())?;
    let begun = edit.moves()?.pop();
    let name = match begun {
        Some(begun) => begun.name,
        None => {
            let name = match edit.begin_move(&request("pv0")) {
                // It was done before the cut.
                Err(EditError::NothingToMove { .. }) => return Ok(()),
                begun => begun?,
            };
            group = mover.commit(edit).await?;
            name
        }
    };
    mover.run(group, &name, &CopyProgress::default()).await?;
    Ok(())
}

fn assert_all_moved(disks: &[Node], before: &[(String, Vec<u8>)], what: &str) {
    assert!(contents(disks) == before, "{what}: other data");
    let group = assembled(disks).group;
    let used = used_runs(&group).unwrap();
    let left = used.iter().find(|used| used.run.member == "pv0");
    assert_eq!(left, None, "{what}: not all is moved");
    assert_eq!(used.iter().map(|used| used.run.count).sum::<u64>(), 24);
    for volume in &group.volumes {
        assert!(!volume.has_flag("LOCKED"), "{what}: {}", volume.name);
        assert!(!volume.has_flag("PVMOVE"), "{what}: {}", volume.name);
    }
}

#[test]
fn all_extents_of_a_disk_are_moved() {
    let disks = mem_disks(&start());
    let before = contents(&disks);
    move_all(&disks).unwrap();
    assert_all_moved(&disks, &before, "at once");
    // Copies are on disks of their own, and so are stripes; what lies in one piece is one segment.
    let group = assembled(&disks).group;
    let on = |name: &str| {
        let segments = &group.volume(name).unwrap().segments;
        let areas = segments.iter().flat_map(|segment| segment.areas());
        areas.map(|area| area.on.clone()).collect::<Vec<_>>()
    };
    assert_ne!(on("safe_rimage_0"), on("safe_rimage_1"));
    let fast = on("fast");
    assert!(fast.len() == 2 && fast[0] != fast[1], "{fast:?}");
    assert_eq!(group.volume("media").unwrap().segments.len(), 1);
}

#[test]
fn a_disk_that_fails_interrupts_the_move_and_loses_nothing() {
    let images = start();
    let before = contents(&mem_disks(&images));
    let mut interrupted = 0;
    for number in 0..images.len() {
        for after in (0..60).step_by(3) {
            let good = mem_disks(&images);
            let mut disks = good.clone();
            let fault = Fault::new(Effect::Fail(Errno::Io)).after(after);
            disks[number] = FaultDisk::new(good[number].clone(), after, vec![fault]);
            let moved = block_on(move_group(assembled(&good), &disks));
            interrupted += u32::from(moved.is_err());
            assert!(contents(&good) == before, "disk{number} after {after}");
            move_all(&good).unwrap();
            assert_all_moved(&good, &before, "resumed");
        }
    }
    assert!(interrupted > 10, "{interrupted} moves were interrupted");
}

/// Ends the move on these disks, where it is: nothing is lost, and no extent is used twice.
fn assert_ended(disks: &[Node], before: &[(String, Vec<u8>)], what: &str) {
    let assembled = assembled(disks);
    let mover = pvmove_disks(&assembled, disks);
    let mut edit = GroupEdit::open(assembled.group).unwrap();
    let Some(begun) = edit.moves().unwrap().pop() else {
        return;
    };
    edit.end_move(&begun.name).unwrap();
    let group = block_on(mover.commit(edit)).unwrap();
    assert!(contents(disks) == before, "{what}: other data");
    let used = used_runs(&group).unwrap();
    assert_eq!(used.iter().map(|used| used.run.count).sum::<u64>(), 24);
}

#[test]
fn a_power_cut_at_any_request_leaves_all_data_and_a_move_that_goes_on() {
    let images = start();
    let before = contents(&mem_disks(&images));
    let (mut begun, mut done) = (0, 0);
    for number in 0..images.len() {
        for cut in 0.. {
            let crash = images.iter().cloned();
            let crash: Vec<Arc<CrashDisk>> = crash
                .map(|image| Arc::new(CrashDisk::from_bytes(image)))
                .collect();
            let mut disks: Vec<Node> = crash.iter().map(|disk| disk.clone() as Node).collect();
            let fault = Fault::new(Effect::Fail(Errno::Io)).after(cut);
            disks[number] = FaultDisk::new(disks[number].clone(), cut, vec![fault]);
            let group = assembled(&mem_disks(&images));
            let is_done = block_on(move_group(group, &disks)).is_ok();
            for seed in 0..SEEDS {
                let what = format!("disk{number}, cut {cut}, seed {seed}");
                let left = (0..).zip(&crash);
                let left: Vec<Vec<u8>> = left.map(|(n, disk)| disk.crash(seed * 31 + n)).collect();
                let disks = mem_disks(&left);
                assert!(contents(&disks) == before, "{what}: other data");
                let edit = GroupEdit::open(assembled(&disks).group).unwrap();
                begun += u32::from(!edit.moves().unwrap().is_empty());
                assert_ended(&mem_disks(&left), &before, &what);
                move_all(&disks).unwrap();
                assert_all_moved(&disks, &before, &what);
            }
            if is_done {
                done += 1;
                break;
            }
        }
    }
    assert_eq!(done, images.len());
    assert!(begun > 100, "{begun} cuts left a move that was begun");
}
