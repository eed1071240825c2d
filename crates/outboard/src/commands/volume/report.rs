//! A group as `volume` prints it: for programs, as a tree, and as a table of segments. Pure.

use std::collections::HashMap;

use indicatif::HumanBytes;
use nodes::volume::edit::{ExtentRun, free_runs};
use nodes::volume::format::{LogicalVolume, VolumeGroup, VolumeSegment};
use serde::Serialize;

use crate::output::columns;
use crate::snapshots::report::SnapshotReport;

/// What the disks are called, by the names that the metadata give them (`pv0`).
pub(super) type DiskNames = HashMap<String, String>;

/// A group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct GroupReport {
    pub(super) name: String,
    id: String,
    sequence: u64,
    /// Bytes.
    extent_size: u64,
    /// Bytes.
    size: u64,
    /// Bytes; `None` if a volume is not understood.
    free: Option<u64>,
    disks: Vec<DiskReport>,
    volumes: Vec<VolumeReport>,
    /// How full the stores of its snapshots are, where that was read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    snapshots: Vec<SnapshotReport>,
}

/// A physical volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct DiskReport {
    /// What the metadata call it.
    name: String,
    /// What the user calls it, or where it was last.
    disk: String,
    id: String,
    missing: bool,
    extents: u64,
    free: Vec<RunReport>,
}

/// Extents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct RunReport {
    start: u64,
    count: u64,
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct VolumeReport {
    name: String,
    id: String,
    kind: String,
    /// Whether users see it.
    visible: bool,
    /// Bytes.
    size: u64,
    extents: u64,
    segments: Vec<SegmentReport>,
}

/// A segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct SegmentReport {
    start: u64,
    count: u64,
    kind: String,
    areas: Vec<AreaReport>,
}

/// What a part of a segment lies on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct AreaReport {
    /// A disk or a volume.
    on: String,
    /// Extents there, if they are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    extents: Option<RunReport>,
}

impl GroupReport {
    /// Of a group on disks with these names; a disk without one is missing.
    pub(super) fn of(group: &VolumeGroup, names: &DiskNames) -> Self {
        let free = free_runs(group).ok();
        let of_disk = |member: &nodes::volume::format::Member| DiskReport {
            name: member.name.clone(),
            disk: disk_name(names, group, &member.name),
            id: member.id.clone(),
            missing: !names.contains_key(&member.name),
            extents: member.extents,
            free: free
                .iter()
                .flatten()
                .filter(|run| run.member == member.name)
                .map(RunReport::of)
                .collect(),
        };
        let all_free = free
            .as_ref()
            .map(|free| free.iter().map(|run| run.count).sum());
        Self {
            name: group.name.clone(),
            id: group.id.clone(),
            sequence: group.sequence,
            extent_size: group.extent,
            size: group.size(),
            free: all_free.map(|free| group.bytes(free)),
            disks: group.members.iter().map(of_disk).collect(),
            volumes: group
                .volumes
                .iter()
                .map(|volume| VolumeReport::of(group, volume, names))
                .collect(),
            snapshots: Vec::new(),
        }
    }

    /// The group with its snapshots.
    pub(super) fn with_snapshots(self, snapshots: Vec<SnapshotReport>) -> Self {
        Self { snapshots, ..self }
    }

    /// The group with everything in it.
    pub(super) fn tree(&self) -> String {
        let extent = HumanBytes(self.extent_size);
        let free = match self.free {
            Some(free) => format!("{} free", HumanBytes(free)),
            None => "free extents unknown".to_owned(),
        };
        let mut lines = vec![format!(
            "{}: {} in extents of {extent}, {free}",
            self.name,
            HumanBytes(self.size)
        )];
        let disks: Vec<[String; 4]> = self.disks.iter().map(|disk| self.disk_row(disk)).collect();
        lines.extend(columns(&disks).lines().map(|line| format!("  {line}")));
        for volume in &self.volumes {
            let (name, kind, size) = (&volume.name, &volume.kind, HumanBytes(volume.size));
            let hidden = if volume.visible { "" } else { ", hidden" };
            let mut snapshots = self.snapshots.iter();
            lines.push(match snapshots.find(|one| one.name == *name) {
                Some(one) => format!("  snapshot {name} of {}: {}", one.origin, one.fill()),
                None => format!("  volume {name}: {kind}, {size}{hidden}"),
            });
            let segments: Vec<[String; 3]> =
                volume.segments.iter().map(SegmentReport::row).collect();
            lines.extend(columns(&segments).lines().map(|line| format!("    {line}")));
        }
        lines.join("\n")
    }

    fn disk_row(&self, disk: &DiskReport) -> [String; 4] {
        let size = HumanBytes(self.extent_size.saturating_mul(disk.extents)).to_string();
        let count: u64 = disk.free.iter().map(|run| run.count).sum();
        let runs: Vec<String> = disk.free.iter().map(RunReport::text).collect();
        let free = match (self.free, disk.missing, count) {
            (_, true, _) => "missing".to_owned(),
            (None, ..) => String::new(),
            (_, _, 0) => "no extent free".to_owned(),
            (_, _, 1) => format!("1 extent free: {}", runs.join(", ")),
            (_, _, count) => format!("{count} extents free: {}", runs.join(", ")),
        };
        ["disk".to_owned(), disk.disk.clone(), size, free]
    }

    /// A line for each segment and each run of free extents.
    pub(super) fn table(&self) -> String {
        let segments = self.volumes.iter().flat_map(|volume| {
            volume.segments.iter().map(|segment| {
                let [extents, kind, on] = segment.row();
                [volume.name.clone(), extents, kind, on]
            })
        });
        let free = self.disks.iter().flat_map(|disk| {
            disk.free.iter().map(|run| {
                let place = format!("{} {}", disk.disk, run.text());
                [
                    "-".to_owned(),
                    run.count.to_string(),
                    "free".to_owned(),
                    place,
                ]
            })
        });
        let rows: Vec<[String; 4]> = segments.chain(free).collect();
        let lines: Vec<String> = columns(&rows)
            .lines()
            .map(|line| format!("  {line}"))
            .collect();
        lines.join("\n")
    }
}

impl VolumeReport {
    fn of(group: &VolumeGroup, volume: &LogicalVolume, names: &DiskNames) -> Self {
        let segments = volume.segments.iter();
        Self {
            name: volume.name.clone(),
            id: volume.id.clone(),
            kind: volume.kind().to_owned(),
            visible: volume.is_visible(),
            size: group.bytes(volume.extents()),
            extents: volume.extents(),
            segments: segments
                .map(|segment| SegmentReport::of(group, segment, names))
                .collect(),
        }
    }
}

impl SegmentReport {
    fn of(group: &VolumeGroup, segment: &VolumeSegment, names: &DiskNames) -> Self {
        let linear = segment.linear_area().is_some();
        let stripes = match segment.kind.as_str() {
            "striped" => (segment.areas().len() as u64).max(1),
            _ => 1,
        };
        let areas = segment.areas().iter().map(|area| AreaReport {
            on: disk_name(names, group, &area.on),
            extents: Some(RunReport {
                start: area.extent,
                count: segment.extents / stripes,
            }),
        });
        let mut areas: Vec<AreaReport> = areas.collect();
        if areas.is_empty() {
            let references = segment.references().into_iter();
            areas.extend(references.map(|on| AreaReport {
                on: on.to_owned(),
                extents: None,
            }));
        }
        Self {
            start: segment.start,
            count: segment.extents,
            kind: if linear { "linear" } else { &segment.kind }.to_owned(),
            areas,
        }
    }

    /// Extents of the volume, type, and where they are.
    fn row(&self) -> [String; 3] {
        let run = RunReport {
            start: self.start,
            count: self.count,
        };
        let areas = self.areas.iter().map(|area| match &area.extents {
            Some(run) => format!("{} {}", area.on, run.text()),
            None => area.on.clone(),
        });
        let areas: Vec<String> = areas.collect();
        [run.text(), self.kind.clone(), areas.join(", ")]
    }
}

impl RunReport {
    const fn of(run: &ExtentRun) -> Self {
        Self {
            start: run.start,
            count: run.count,
        }
    }

    /// First and last extent.
    fn text(&self) -> String {
        match self.count {
            0 | 1 => self.start.to_string(),
            count => format!("{}-{}", self.start, self.start.saturating_add(count - 1)),
        }
    }
}

/// What a disk, or a volume, is called.
fn disk_name(names: &DiskNames, group: &VolumeGroup, name: &str) -> String {
    match (names.get(name), group.member(name)) {
        (Some(disk), _) => disk.clone(),
        (None, Some(member)) if !member.device.is_empty() => member.device.clone(),
        _ => name.to_owned(),
    }
}
