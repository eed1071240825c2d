//! [`Group`]: what several physical volumes say together. [`nodes::volume::group`] assembles them, which volumes that are
//! opened are of, too; `open_volumes` opens these to look into them.

use std::collections::{HashMap, HashSet};

use nodes::volume::format::VolumeGroup;
use nodes::volume::group::{AssembledGroup, GroupRemark, VolumeAccess};
use serde::Serialize;

use super::DiskContent;
use super::open_volumes::{self, key, shown_disk};
use super::scan::{ContentSource, Physical};
use crate::snapshots::report::SnapshotReport;

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
    /// Why its volumes may not be read, and why they may not be written.
    #[serde(skip)]
    refusals: [Option<String>; 2],
}

impl Group {
    /// Why its volumes may not be read, or not be written.
    pub(crate) fn refusal(&self, writable: bool) -> Option<String> {
        self.refusals[usize::from(writable)].clone()
    }
}

/// A physical volume of a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct GroupMember {
    /// Its id.
    pub(crate) uuid: String,
    /// On which disk it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disk: Option<String>,
    /// Where that is among the disks that were named.
    #[serde(skip)]
    pub(crate) source: Option<ContentSource>,
    /// Whether volumes on it can be opened: it is here, and no copy of it is.
    #[serde(skip)]
    pub(crate) is_usable: bool,
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
    /// Of a snapshot: its store and how full it is, if it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) store: Option<SnapshotReport>,
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
    /// Why it cannot be opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

/// What was seen in volumes, by their keys: content, or why they cannot be opened.
pub(super) type SeenVolumes = HashMap<String, Result<DiskContent, String>>;

/// Puts groups together; `seen` is what was seen in their volumes.
pub(super) fn assemble(
    physical: &[Physical],
    seen: &SeenVolumes,
    stores: &HashMap<String, SnapshotReport>,
) -> Vec<Group> {
    let groups = open_volumes::assemble(physical);
    let groups = groups.iter().map(|group| Group {
        volumes: volumes(group, seen, stores),
        ..describe(group, physical)
    });
    groups.collect()
}

/// The volumes of a group.
fn volumes(
    assembled: &AssembledGroup,
    seen: &SeenVolumes,
    stores: &HashMap<String, SnapshotReport>,
) -> Vec<Volume> {
    let group = &assembled.group;
    let gone: HashSet<&str> = {
        let members = group.members.iter().zip(&assembled.places);
        let gone = members.filter(|(_, place)| shown_disk(place).is_none());
        gone.map(|(member, _)| member.name.as_str()).collect()
    };
    let partial = partial(group, &gone);
    let volumes = group.volumes.iter().filter(|v| v.kind() != "snapshot");
    let volumes = volumes.map(|volume| {
        let snapshot = group.snapshot_with_store(&volume.name);
        let origin = snapshot.map(|snapshot| snapshot.origin);
        let first = volume.segments.first();
        let key = key(assembled, &volume.name);
        let seen = seen.get(&key);
        // A snapshot is as large as its origin; the volume of its name is the store.
        let disk = origin.and_then(|origin| group.volume(origin));
        Volume {
            name: volume.name.clone(),
            uuid: volume.id.clone(),
            size: group.bytes(disk.unwrap_or(volume).extents()),
            kind: match origin {
                Some(_) => "snapshot".to_owned(),
                None => volume.kind().to_owned(),
            },
            origin: origin.or_else(|| first?.origin()).map(str::to_owned),
            store: stores.get(&key).cloned(),
            pool: first.and_then(|first| first.pool()).map(str::to_owned),
            visible: volume.is_visible() || origin.is_some(),
            partial: partial.contains(volume.name.as_str()),
            content: seen.and_then(|seen| seen.as_ref().ok()).cloned(),
            problem: seen.and_then(|seen| seen.as_ref().err()).cloned(),
        }
    });
    volumes.collect()
}

/// A group without its volumes.
fn describe(assembled: &AssembledGroup, physical: &[Physical]) -> Group {
    let group = &assembled.group;
    let members = group.members.iter().zip(&assembled.places).enumerate();
    let parts = members.map(|(index, (member, place))| {
        let disk = shown_disk(place).map(|disk| &physical[disk].place);
        GroupMember {
            uuid: member.id.clone(),
            disk: disk.map(|disk| disk.name.clone()),
            source: disk.and_then(|disk| disk.source.clone()),
            is_usable: assembled.disk_of(index).is_some(),
            device: member.device.clone(),
            size: group.bytes(member.extents),
        }
    });
    Group {
        name: group.name.clone(),
        uuid: group.id.clone(),
        sequence: group.sequence,
        size: group.size(),
        free: group.free(),
        extent: group.extent,
        status: group.status.clone(),
        physical_volumes: parts.collect(),
        volumes: Vec::new(),
        remarks: remarks(assembled),
        refusals: [true, false].map(|read_only| {
            let access = VolumeAccess {
                read_only,
                ..VolumeAccess::default()
            };
            let refused = assembled.check_access(&access).err();
            refused.map(|error| error.to_string())
        }),
    }
}

/// The remarks about the group; those about a disk are with the disk.
fn remarks(assembled: &AssembledGroup) -> Vec<String> {
    let remarks = assembled.remarks.iter();
    let remarks = remarks.filter(|remark| !matches!(remark, GroupRemark::Damaged { .. }));
    let mut remarks: Vec<String> = remarks.map(ToString::to_string).collect();
    if let Some((first, second)) = assembled.conflict {
        let (first, second) = (&assembled.names[first], &assembled.names[second]);
        remarks.push(format!(
            "{first} and {second} were changed without each other: each describes the group in its own way"
        ));
    }
    remarks
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
