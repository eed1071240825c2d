//! [`ContentScanner`]: looks into disks, and into what lies in them, until there is nothing new.
//!
//! # Invariants
//!
//! * Disks are only read. How deep and how often is bounded.
//! * Each disk is reported, and what is wrong on it becomes a remark.

use std::fmt::Display;
use std::sync::Arc;

use block::{Node, Range};
use nodes::array::{self, format::Superblock};
use nodes::partition;
use nodes::read_within;
use nodes::volume::{self, PhysicalVolume, VolumeError};

use super::arrays::{self, Array, OpenedArray};
use super::groups::{self, Group, SeenVolumes};
use super::open_volumes;
use super::partitions::TableReport;
use super::{BitmapOf, CacheOf, DiskContent, MemberOf, VolumeOf, array_uuid};
use crate::commands::inspect::signature::{HEAD_LEN, Probe, image_of};

/// Disks within disks.
const DEPTH_MAX: u32 = 8;
/// Parts of disks that are looked into, in all.
const LOOKS_MAX: usize = 2048;
/// Volumes and arrays that are looked into, one after the other has shown it.
const ROUNDS_MAX: usize = 4;

/// A disk, and what it is called.
#[derive(Debug, Clone)]
pub(crate) struct NamedNode {
    /// `a.img part/2`
    pub(crate) name: String,
    /// The disk.
    pub(crate) disk: Node,
    /// Where it is among the disks that were named, and the arrays and volumes on them.
    pub(super) source: Option<ContentSource>,
    /// How many disks it lies in.
    depth: u32,
}

/// A disk that was named, an array or a volume, or a partition of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContentSource {
    /// What the partitions are on.
    pub(crate) base: SourceBase,
    /// Numbers of partitions, the outermost first.
    pub(crate) partitions: Vec<u32>,
}

/// What holds a [`ContentSource`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SourceBase {
    /// The disk at this place among those that were named.
    Disk(usize),
    /// The array of this UUID.
    Array(String),
    /// A volume.
    Volume {
        /// The id of its group.
        group: String,
        /// Its name.
        name: String,
    },
}

/// A member of an array.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    /// Where it is.
    pub(crate) place: NamedNode,
    /// What it says.
    pub(crate) superblock: Superblock,
    /// Its bitmap.
    pub(crate) bitmap: Option<BitmapOf>,
}

/// A physical volume.
#[derive(Debug, Clone)]
pub(crate) struct Physical {
    /// Where it is.
    pub(crate) place: NamedNode,
    /// What it says.
    pub(crate) volume: PhysicalVolume,
}

/// Looks into disks.
#[derive(Debug)]
pub(crate) struct ContentScanner {
    probe: Probe,
    /// Disks that were named so far.
    disks: usize,
    looks: usize,
    members: Vec<Member>,
    physical: Vec<Physical>,
}

impl ContentScanner {
    pub(crate) const fn new(probe: Probe) -> Self {
        Self {
            probe,
            disks: 0,
            looks: 0,
            members: Vec::new(),
            physical: Vec::new(),
        }
    }

    /// Looks into a disk that is called `name`.
    pub(crate) async fn look(&mut self, name: &str, disk: &Node) -> DiskContent {
        let source = ContentSource {
            base: SourceBase::Disk(self.disks),
            partitions: Vec::new(),
        };
        self.disks += 1;
        let place = NamedNode {
            name: name.to_owned(),
            disk: disk.clone(),
            source: Some(source),
            depth: 0,
        };
        self.look_into(&place).await
    }

    /// Puts the arrays and volume groups together that were seen, and looks into them, too.
    pub(crate) async fn together(&mut self) -> (Vec<Array>, Vec<Group>) {
        let mut seen = SeenVolumes::new();
        let mut opened: Vec<OpenedArray> = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let mut news = Box::pin(arrays::open(&self.members, &opened)).await;
            let known = |key: &str| matches!(seen.get(key), Some(Ok(_)));
            let volumes = Box::pin(open_volumes::open(&self.physical, known)).await;
            if volumes.iter().all(|volume| volume.place.is_err()) && news.is_empty() {
                seen.extend(volumes.into_iter().filter_map(problem_of));
                break;
            }
            for array in &mut news {
                if let Some(place) = array.place() {
                    array.holds(self.look_into(&place).await);
                }
            }
            opened.append(&mut news);
            for volume in volumes {
                match &volume.place {
                    Ok(place) => {
                        let content = self.look_into(place).await;
                        seen.insert(volume.key, Ok(content));
                    }
                    Err(_) => seen.extend(problem_of(volume)),
                }
            }
        }
        let arrays = arrays::assemble(&self.members, &opened);
        let stores = Box::pin(open_volumes::read_stores(&self.physical)).await;
        (arrays, groups::assemble(&self.physical, &seen, &stores))
    }

    /// Looks into one place and those within it.
    async fn look_into(&mut self, place: &NamedNode) -> DiskContent {
        let mut content = DiskContent::default();
        self.looks += 1;
        if self.looks > LOOKS_MAX || place.depth > DEPTH_MAX {
            content.remark("it is not looked into: there is too much in these disks");
            return content;
        }
        let table = match partition::PartitionTable::read(&place.disk).await {
            Ok(table) => table,
            Err(e) => content.remark_none(e),
        };
        self.member(place, table.as_ref(), &mut content).await;
        if content.member.is_some() {
            return content;
        }
        self.physical(place, &mut content).await;
        if content.physical_volume.is_some() {
            return content;
        }
        content.cache = cache_of(&place.disk, &mut content).await;
        if content.cache.is_some() {
            return content;
        }
        match self.probe.signature(&place.disk).await {
            Ok(signature) => content.signature = signature,
            Err(e) => content.remark(e),
        }
        if let Some(table) = table.filter(|table| is_table(table, &content)) {
            self.table(place, &table, &mut content).await;
        }
        if content.is_empty() {
            let head = Range::new(0, HEAD_LEN);
            match read_within(&place.disk, head).await {
                Ok(head) => content.image = image_of(&head),
                Err(e) => content.remark(e),
            }
        }
        let several = content
            .signature
            .as_ref()
            .map(|found| found.several.join(", "));
        if let Some(several) = several.filter(|several| !several.is_empty()) {
            content.remark(format!("it has signatures of several things: {several}"));
        }
        content
    }

    async fn table(
        &mut self,
        place: &NamedNode,
        table: &partition::PartitionTable,
        content: &mut DiskContent,
    ) {
        for remark in table.remarks() {
            content.remark(remark);
        }
        let mut report = TableReport::of(table);
        for partition in &mut report.partitions {
            if partition.extended {
                continue;
            }
            let number = partition.number;
            let opened = partition::Partition::of(place.disk.clone(), table, number);
            partition.content = match opened {
                Ok(opened) => {
                    let inner = NamedNode {
                        name: format!("{} {}", place.name, partition.name()),
                        source: place.source.as_ref().map(|source| source.within(number)),
                        disk: Arc::new(opened),
                        depth: place.depth + 1,
                    };
                    Box::pin(self.look_into(&inner)).await
                }
                Err(e) => DiskContent {
                    remarks: vec![e.to_string()],
                    ..DiskContent::default()
                },
            };
        }
        content.table = Some(report);
    }

    /// Looks for md superblocks.
    async fn member(
        &mut self,
        place: &NamedNode,
        table: Option<&partition::PartitionTable>,
        content: &mut DiskContent,
    ) {
        let found = match array::examine(&place.disk).await {
            Ok(found) => found,
            Err(e) => return content.remark(e),
        };
        // An old superblock at the end of the last partition is at the end of the disk, too.
        let in_partition = |at: u64| {
            let mut entries = table.iter().flat_map(|table| &table.partitions);
            entries.any(|entry| entry.range.offset <= at && at < entry.range.end())
        };
        let found: Vec<_> = found.into_iter().filter(|f| !in_partition(f.at)).collect();
        for bad in &found {
            if let Err(problem) = &bad.superblock {
                let version = bad.version;
                content.remark(format!(
                    "a damaged md superblock {version} at byte {}: {problem}",
                    bad.at
                ));
            }
        }
        let Some((newest, superblock)) = array::newest(&found) else {
            return;
        };
        for other in &found {
            if other.superblock.is_ok() && other.at != newest.at {
                let version = other.version;
                content.remark(format!(
                    "an older md superblock {version} at byte {} is left over",
                    other.at
                ));
            }
        }
        let bitmap = match &newest.bitmap {
            Some(Ok(bitmap)) => Some(BitmapOf {
                chunk: bitmap.chunk,
                events: bitmap.events,
                events_cleared: bitmap.events_cleared,
                version: bitmap.version,
            }),
            Some(Err(problem)) => content.remark_none(problem),
            None => None,
        };
        if !superblock.fits(place.disk.geometry().size) {
            content.remark("its superblock says that it is larger than this disk");
        }
        content.member = Some(member_of(superblock, bitmap.clone()));
        self.members.push(Member {
            place: place.clone(),
            superblock: superblock.clone(),
            bitmap,
        });
    }

    /// Looks for an LVM label.
    async fn physical(&mut self, place: &NamedNode, content: &mut DiskContent) {
        let volume = match volume::examine(&place.disk).await {
            Ok(None) => return,
            Ok(Some(Ok(volume))) => volume,
            Ok(Some(Err(problem))) => {
                return content.remark(format!("a damaged LVM physical volume: {problem}"));
            }
            Err(e) => return content.remark(e),
        };
        for problem in &volume.problems {
            content.remark(problem);
        }
        content.physical_volume = Some(VolumeOf {
            uuid: volume.header.id.clone(),
            size: volume.header.size,
            group: volume.group.as_ref().map(|group| group.name.clone()),
            group_uuid: volume.group.as_ref().map(|group| group.id.clone()),
        });
        self.physical.push(Physical {
            place: place.clone(),
            volume,
        });
    }
}

impl NamedNode {
    /// The array of the UUID `key`, over its members.
    pub(super) fn over(name: String, key: &str, disk: Node, below: &[&Self]) -> Self {
        Self::composed(name, SourceBase::Array(key.to_owned()), disk, below)
    }

    /// The volume of that name in the group of that id, over the disks of the group.
    pub(super) fn volume(
        name: String,
        (group, volume): (&str, &str),
        disk: Node,
        below: &[&Self],
    ) -> Self {
        let base = SourceBase::Volume {
            group: group.to_owned(),
            name: volume.to_owned(),
        };
        Self::composed(name, base, disk, below)
    }

    fn composed(name: String, base: SourceBase, disk: Node, below: &[&Self]) -> Self {
        let depth = below.iter().map(|place| place.depth).max();
        let source = ContentSource {
            base,
            partitions: Vec::new(),
        };
        Self {
            name,
            disk,
            source: Some(source),
            depth: depth.unwrap_or(0) + 1,
        }
    }
}

impl ContentSource {
    /// Partition `number` of it.
    fn within(&self, number: u32) -> Self {
        let mut partitions = self.partitions.clone();
        partitions.push(number);
        Self {
            base: self.base.clone(),
            partitions,
        }
    }
}

/// The key of a volume that cannot be opened, and why. Of a disk that is missing its group has a remark.
fn problem_of(volume: open_volumes::OpenedVolume) -> Option<(String, Result<DiskContent, String>)> {
    let error = volume.place.err()?;
    let why = match (&error, error.next()) {
        (VolumeError::Missing { .. }, _) => return None,
        (_, Some(next)) => format!("it cannot be opened: {error}; {next}"),
        (_, None) => format!("it cannot be opened: {error}"),
    };
    Some((volume.key, Err(why)))
}

/// A boot sector of FAT has the same signature as a partition table: libblkid distinguishes them.
fn is_table(table: &partition::PartitionTable, content: &DiskContent) -> bool {
    let is_filesystem = content
        .signature
        .as_ref()
        .is_some_and(|found| found.kind.is_some() && found.table.is_none());
    table.scheme != partition::Scheme::Mbr || !is_filesystem
}

fn member_of(superblock: &Superblock, bitmap: Option<BitmapOf>) -> MemberOf {
    MemberOf {
        array: array_uuid(&superblock.array),
        name: superblock.name.clone(),
        version: superblock.version.to_string(),
        level: superblock.level.to_string(),
        role: arrays::role(superblock.role),
        events: superblock.events,
        updated: superblock.updated,
        uuid: superblock.device.as_ref().map(array_uuid),
        data_offset: superblock.data.offset,
        data_size: superblock.data.len,
        bitmap,
    }
}

impl DiskContent {
    fn remark(&mut self, what: impl Display) {
        self.remarks.push(what.to_string());
    }

    fn remark_none<T>(&mut self, what: impl Display) -> Option<T> {
        self.remark(what);
        None
    }
}

/// The cache that is in `disk`, if it is a cache file.
async fn cache_of(disk: &Node, content: &mut DiskContent) -> Option<CacheOf> {
    let facts = match nodes::cache::inspect_cache(&**disk).await {
        Ok(facts) => facts?,
        Err(e) => return content.remark_none(e),
    };
    Some(CacheOf {
        disk_size: facts.disk_size,
        capacity: facts.capacity,
        identity: facts.identity,
        is_dropped: facts.is_dropped,
    })
}
