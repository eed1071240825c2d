//! A group of volumes on disks of a test: made on empty disks, and found on them again.
//!
//! The disks are called disk0 and on, their physical volumes pv0 and on.

use std::sync::Arc;

use block::Node;
use testkit::MemDisk;

use super::edit::{EditStamp, GroupEdit, MoveRequest, NewGroup, NewGroupMember, NewVolume};
use super::format::NewLabel;
use super::group::{AssembledGroup, FoundPhysicalVolume, assemble};
use super::random_id;
use super::scan::scan;
use super::update::{MetadataArea, write_labels};

pub(super) fn stamp() -> EditStamp {
    EditStamp {
        seconds: 1,
        host: "test".to_owned(),
        description: "test".to_owned(),
    }
}

pub(super) fn new_volume(name: &str, extents: u64, stripes: usize) -> NewVolume {
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

/// To move all that is on a physical volume to any others.
pub(super) fn move_request(from: &str) -> MoveRequest {
    MoveRequest {
        from: from.to_owned(),
        to: Vec::new(),
        volume: None,
        id: random_id(),
        seconds: 1,
        host: "test".to_owned(),
    }
}

/// Disks in memory with these bytes.
pub(super) fn mem_disks(images: &[Vec<u8>]) -> Vec<Node> {
    let disks = images.iter().cloned();
    disks
        .map(|image| Arc::new(MemDisk::from_bytes(image)) as Node)
        .collect()
}

/// Labels the disks, and begins the group `vg0` on them, of which nothing is written yet.
pub(super) async fn begin_group(disks: &[Node], extent: u64) -> GroupEdit {
    let members = disks.iter().enumerate();
    let members: Vec<NewGroupMember> = members
        .map(|(number, disk)| NewGroupMember {
            id: random_id(),
            device: format!("disk{number}"),
            size: disk.geometry().size,
        })
        .collect();
    let labels = members.iter();
    let labels: Vec<NewLabel> = labels
        .map(|member| NewLabel::new(&member.id, member.size).unwrap())
        .collect();
    let named: Vec<_> = (disks.iter().zip(&labels))
        .map(|(disk, label)| ("disk", disk, label))
        .collect();
    write_labels(&named).await.unwrap();
    let group = NewGroup {
        name: "vg0".to_owned(),
        id: random_id(),
        extent,
    };
    GroupEdit::create_group(&group, &members).unwrap()
}

/// Where the metadata of the group are.
pub(super) fn areas(disks: &[Node]) -> Vec<MetadataArea> {
    let areas = disks.iter().enumerate().map(|(number, disk)| MetadataArea {
        name: format!("disk{number}"),
        disk: disk.clone(),
        area: NewLabel::METADATA_AREA,
        reset: false,
    });
    areas.collect()
}

/// The group that is found on these disks.
pub(super) async fn group_on(disks: &[Node]) -> AssembledGroup {
    let mut found = Vec::new();
    for (number, disk) in disks.iter().enumerate() {
        let scanned = scan(disk).await.unwrap().unwrap().unwrap();
        found.push(FoundPhysicalVolume {
            name: format!("disk{number}"),
            size: disk.geometry().size,
            volume: scanned.physical_volume(),
        });
    }
    assemble(&found).remove(0)
}
