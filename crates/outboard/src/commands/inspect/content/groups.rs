//! [`Group`]: what several physical volumes say together. Pure, but for the places it names.

use std::collections::HashSet;

use nodes::volume::format::{LogicalVolume, VolumeGroup};
use serde::Serialize;

use super::DiskContent;
use super::scan::{NamedNode, Physical};

/// Volumes of one group that are looked into.
const VOLUMES_MAX: usize = 256;
/// Volumes within volumes: a thin one in a pool on a mirror of parts is the deepest.
const NESTING_MAX: usize = 8;

/// A volume group, as far as the disks show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Group {
    /// Its name.
    pub(crate) name: String,
    /// Its id.
    pub(crate) uuid: String,
    /// Changes of its metadata.
    pub(crate) sequence: u64,
    /// Bytes.
    pub(crate) size: u64,
    /// Bytes that no volume uses.
    pub(crate) free: u64,
    /// Bytes of an extent.
    pub(crate) extent: u64,
    /// `RESIZEABLE`, `EXPORTED`…
    pub(crate) status: Vec<String>,
    /// Its physical volumes.
    pub(crate) physical_volumes: Vec<GroupMember>,
    /// Its volumes; those that only serve others are marked.
    pub(crate) volumes: Vec<Volume>,
    /// What is not as it should be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) remarks: Vec<String>,
}

/// A physical volume of a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct GroupMember {
    /// Its id.
    pub(crate) uuid: String,
    /// On which disk it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disk: Option<String>,
    /// Where it was once.
    pub(crate) device: String,
    /// Bytes for volumes.
    pub(crate) size: u64,
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Volume {
    /// Its name.
    pub(crate) name: String,
    /// Its id.
    pub(crate) uuid: String,
    /// Bytes.
    pub(crate) size: u64,
    /// `linear`, `striped`, `raid1`, `snapshot`, `thin`…
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// Of what it is a snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<String>,
    /// The pool that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pool: Option<String>,
    /// Whether it is there to be used, and not only a part of another.
    pub(crate) visible: bool,
    /// Whether a part of it is on a disk that is not here.
    pub(crate) partial: bool,
    /// What it holds, where that can be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<DiskContent>,
}

/// The newest metadata of each group.
fn newest(physical: &[Physical]) -> Vec<&VolumeGroup> {
    let mut groups: Vec<&VolumeGroup> = Vec::new();
    for group in physical.iter().filter_map(|p| p.volume.group.as_ref()) {
        match groups.iter_mut().find(|known| known.id == group.id) {
            Some(known) if known.sequence < group.sequence => *known = group,
            Some(_) => {}
            None => groups.push(group),
        }
    }
    groups
}

/// The unique key of a volume.
fn key(group: &VolumeGroup, volume: &LogicalVolume) -> String {
    format!("{}/{}", group.id, volume.name)
}

fn found<'a>(physical: &'a [Physical], id: &str) -> Option<&'a Physical> {
    physical.iter().find(|p| p.volume.header.id == id)
}

/// The volumes whose content can be read: those that map linearly to physical volumes.
pub(super) fn places(physical: &[Physical]) -> Vec<NamedNode> {
    let of_group = |group: &VolumeGroup| {
        let visible = group.volumes.iter().filter(|volume| shown(group, volume));
        let places = visible.take(VOLUMES_MAX).filter_map(|volume| {
            let pieces = group.pieces(volume)?;
            let parts = pieces.iter().map(|piece| {
                let disk = found(physical, &piece.member)?;
                Some((&disk.place, piece.range))
            });
            let parts: Option<Vec<_>> = parts.collect();
            let name = format!("{}/{}", group.name, volume.name);
            NamedNode::made_of(name, key(group, volume), &parts?)
        });
        places.collect::<Vec<_>>()
    };
    let groups = newest(physical).into_iter();
    groups.flat_map(of_group).collect()
}

/// The segment that makes `volume` the store of a snapshot, if it is one.
fn snapshot_of<'a>(group: &'a VolumeGroup, volume: &LogicalVolume) -> Option<&'a str> {
    let snapshot = group.snapshot_with_store(&volume.name)?;
    Some(snapshot.origin)
}

/// Whether a volume is one to look into: to be used, and with bytes of its own.
fn shown(group: &VolumeGroup, volume: &LogicalVolume) -> bool {
    volume.is_visible() && volume.kind() != "snapshot" && snapshot_of(group, volume).is_none()
}

/// Puts groups together; `inner` is what was seen in their volumes.
pub(super) fn assemble(physical: &[Physical], inner: &[(String, DiskContent)]) -> Vec<Group> {
    let groups = newest(physical).into_iter();
    groups
        .map(|group| describe(group, physical, inner))
        .collect()
}

fn describe(group: &VolumeGroup, physical: &[Physical], inner: &[(String, DiskContent)]) -> Group {
    let parts = group.members.iter().map(|member| GroupMember {
        uuid: member.id.clone(),
        disk: found(physical, &member.id).map(|p| p.place.name.clone()),
        device: member.device.clone(),
        size: group.bytes(member.extents),
    });
    let gone: HashSet<&str> = {
        let gone = group.members.iter();
        let gone = gone.filter(|m| found(physical, &m.id).is_none());
        gone.map(|member| member.name.as_str()).collect()
    };
    let partial = partial(group, &gone);
    let volumes = group.volumes.iter().filter(|v| v.kind() != "snapshot");
    let volumes: Vec<Volume> = volumes
        .map(|volume| {
            let origin = snapshot_of(group, volume);
            let first = volume.segments.first();
            let key = key(group, volume);
            let content = inner.iter().find(|(found, _)| *found == key);
            Volume {
                name: volume.name.clone(),
                uuid: volume.id.clone(),
                size: group.bytes(volume.extents()),
                kind: match origin {
                    Some(_) => "snapshot".to_owned(),
                    None => volume.kind().to_owned(),
                },
                origin: origin.or_else(|| first?.origin()).map(str::to_owned),
                pool: first.and_then(|first| first.pool()).map(str::to_owned),
                visible: volume.is_visible() || origin.is_some(),
                partial: partial.contains(volume.name.as_str()),
                content: content.map(|(_, content)| content.clone()),
            }
        })
        .collect();
    Group {
        name: group.name.clone(),
        uuid: group.id.clone(),
        sequence: group.sequence,
        size: group.size(),
        free: group.free(),
        extent: group.extent,
        status: group.status.clone(),
        physical_volumes: parts.collect(),
        volumes,
        remarks: remarks(group, physical),
    }
}

/// Volumes of which a part is on one of `gone`, or on such a volume.
fn partial<'a>(group: &'a VolumeGroup, gone: &HashSet<&'a str>) -> HashSet<&'a str> {
    let mut bad: HashSet<&str> = gone.clone();
    for _ in 0..NESTING_MAX {
        for volume in &group.volumes {
            let mut segments = volume.segments.iter();
            let touches = segments.any(|segment| {
                let mut names = segment.references().into_iter();
                names.any(|name| bad.contains(name))
            });
            if touches {
                bad.insert(&volume.name);
            }
        }
    }
    bad
}

fn remarks(group: &VolumeGroup, physical: &[Physical]) -> Vec<String> {
    let mut remarks = Vec::new();
    for member in &group.members {
        match found(physical, &member.id) {
            None => {
                let (id, device) = (&member.id, &member.device);
                remarks.push(format!(
                    "physical volume {id} is not among these disks; it was {device}"
                ));
            }
            Some(_) if member.missing => {
                let id = &member.id;
                remarks.push(format!("LVM has marked physical volume {id} as missing"));
            }
            Some(_) => {}
        }
    }
    for seen in physical {
        let place = &seen.place.name;
        let id = &seen.volume.header.id;
        let used = found(physical, id).filter(|used| !std::ptr::eq(*used, seen));
        let is_ours = seen
            .volume
            .group
            .as_ref()
            .is_none_or(|own| own.id == group.id);
        let is_listed = group.members.iter().any(|member| member.id == *id);
        if let Some(used) = used.filter(|_| is_ours && is_listed) {
            remarks.push(format!(
                "{place} says that it is physical volume {id}, as {} does: one is a copy, or another way to the other; \
                 {place} is not used",
                used.place.name
            ));
            continue;
        }
        let is_member = group.members.iter().any(|m| m.id == seen.volume.header.id);
        let Some(own) = seen.volume.group.as_ref().filter(|own| own.id == group.id) else {
            continue;
        };
        if own.sequence < group.sequence {
            remarks.push(format!(
                "{place} has outdated metadata: {} changes, the group {}",
                own.sequence, group.sequence
            ));
        }
        if !is_member {
            remarks.push(format!("{place} was a part of it, and is none any more"));
        }
    }
    for flag in ["EXPORTED", "CLUSTERED", "SHARED"] {
        if group.status.iter().any(|status| status == flag) {
            remarks.push(format!("it is marked as {}", flag.to_lowercase()));
        }
    }
    remarks
}
