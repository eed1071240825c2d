//! Drawing what disks hold as a tree. Pure.
//!
//! ```text
//! a.img      2.00 GiB    GPT, 2 partitions
//! ├─part/1   512.00 MiB  EFI System "esp": vfat "ESP" 4A1B-22F0
//! └─part/2   1.50 GiB    Linux LVM: physical volume of vg0
//!                        ! begins at an odd place
//! ```

use indicatif::{BinaryBytes, HumanBytes};

use super::content::arrays::{
    Array, ArrayCompleteness, FoundMember, FoundMemberState, MissingSlot,
};
use super::content::groups::{Group, GroupMember, Volume};
use super::content::{DiskContent, Partition};
use super::report::Report;
use super::visible;
use crate::output::columns;

/// A line of the tree, and those below it.
#[derive(Debug, Default)]
struct Branch {
    name: String,
    size: Option<u64>,
    what: String,
    remarks: Vec<String>,
    children: Vec<Self>,
}

/// Draws it all.
pub(super) fn draw(disks: &[Report], arrays: &[Array], groups: &[Group]) -> String {
    let mut rows = Vec::new();
    let empty = || std::array::from_fn(|_| String::new());
    for disk in disks {
        let content = disk.content.clone().unwrap_or_default();
        let branch = Branch::holding(disk.disk.clone(), Some(disk.size), "", &content);
        branch.rows("", &mut rows);
    }
    for branch in arrays.iter().map(Branch::array) {
        rows.push(empty());
        branch.rows("", &mut rows);
    }
    for branch in groups.iter().map(Branch::group) {
        rows.push(empty());
        branch.rows("", &mut rows);
    }
    // Sizes of one unit are compared digit by digit.
    let width = rows.iter().map(|[_, size, _]| size.len()).max();
    for [_, size, _] in &mut rows {
        *size = format!("{size:>width$}", width = width.unwrap_or(0));
    }
    columns(&rows)
}

impl Branch {
    /// A line for each, those below a branch hanging from it.
    fn rows(&self, stem: &str, rows: &mut Vec<[String; 3]>) {
        let size = self
            .size
            .map_or_else(String::new, |size| HumanBytes(size).to_string());
        rows.push([
            format!("{stem}{}", visible(&self.name)),
            size,
            visible(&self.what),
        ]);
        let below = stem.replace("├─", "│ ").replace("└─", "  ");
        let beside = if self.children.is_empty() {
            "  "
        } else {
            "│ "
        };
        for remark in &self.remarks {
            let remark = format!("! {}", visible(remark));
            rows.push([format!("{below}{beside}"), String::new(), remark]);
        }
        for (number, child) in self.children.iter().enumerate() {
            let last = number + 1 == self.children.len();
            let branch = if last { "└─" } else { "├─" };
            child.rows(&format!("{below}{branch}"), rows);
        }
    }

    /// A line for something that holds something; `role` is what its frame calls it.
    fn holding(name: String, size: Option<u64>, role: &str, content: &DiskContent) -> Self {
        let held = content.in_words();
        let what = match (role.is_empty(), content.is_empty()) {
            (true, _) => held,
            (false, true) => role.to_owned(),
            (false, false) => format!("{role}: {held}"),
        };
        let partitions = content.table.iter().flat_map(|table| &table.partitions);
        Self {
            name,
            size,
            what,
            remarks: content.remarks.clone(),
            children: partitions.map(Self::partition).collect(),
        }
    }

    fn partition(partition: &Partition) -> Self {
        let name = partition.type_name.as_ref().unwrap_or(&partition.kind);
        let role = match &partition.label {
            Some(label) => format!("{name} \"{label}\""),
            None => name.clone(),
        };
        Self::holding(
            partition.name(),
            Some(partition.size),
            &role,
            &partition.content,
        )
    }

    fn array(array: &Array) -> Self {
        let here = array.parts as usize - array.missing.len();
        let state = match array.state {
            ArrayCompleteness::Complete => "complete",
            ArrayCompleteness::Degraded => "degraded",
            ArrayCompleteness::Incomplete => "too many are missing",
        };
        let layout = array.layout.as_ref();
        let layout = layout.map_or_else(String::new, |layout| format!(" {layout}"));
        let chunk = match array.chunk {
            0 => String::new(),
            chunk => format!(", chunk {}", BinaryBytes(chunk)),
        };
        let clean = match (array.clean, array.resync_pending) {
            (true, false) => "clean",
            (true, true) => "resync pending",
            (false, false) => "not clean",
            (false, true) => "not clean, resync pending",
        };
        let policy = match (array.bitmap.is_some(), array.ppl, array.journal) {
            (_, _, true) => ", consistency policy: journal",
            (_, true, _) => ", consistency policy: ppl",
            (true, ..) => ", bitmap",
            _ => "",
        };
        let mut children: Vec<Self> = array.members.iter().map(Self::member).collect();
        children.extend(array.missing.iter().map(Self::missing));
        children.extend(
            array.content.iter().map(|content| {
                Self::holding(format!("md/{}", array.name), array.size, "", content)
            }),
        );
        Self {
            name: format!("array {}", array.name),
            size: array.size,
            what: format!(
                "{}{layout}{chunk}, {here} of {} members, {state}, {clean}{policy}, {} events, md {}",
                array.level, array.parts, array.events, array.version
            ),
            remarks: array.remarks.clone(),
            children,
        }
    }

    fn member(seen: &FoundMember) -> Self {
        let state = match seen.state {
            FoundMemberState::InSync => "in sync",
            FoundMemberState::Rebuilding => "being rebuilt",
            FoundMemberState::Stale => "stale",
            FoundMemberState::Split => "written without the others",
            FoundMemberState::Replacement => "to replace another member",
            FoundMemberState::Spare => "spare",
            FoundMemberState::Faulty => "faulty",
            FoundMemberState::Journal => "journal",
        };
        Self {
            name: seen.disk.clone(),
            what: match seen.role.parse::<u16>() {
                Ok(part) => format!("member {part}, {state}"),
                Err(_) => state.to_owned(),
            },
            ..Self::default()
        }
    }

    fn missing(missing: &MissingSlot) -> Self {
        let why = if missing.failed {
            "the array went on without it"
        } else {
            "not among these disks"
        };
        Self {
            name: "missing".to_owned(),
            what: format!("member {}, {why}", missing.part),
            ..Self::default()
        }
    }

    fn group(group: &Group) -> Self {
        let found = group
            .physical_volumes
            .iter()
            .filter(|part| part.disk.is_some());
        let (found, all) = (found.count(), group.physical_volumes.len());
        // Those that are missing have a remark each.
        let parts = group.physical_volumes.iter().filter_map(Self::part);
        let mut children: Vec<Self> = parts.collect();
        let shown = group.volumes.iter().filter(|volume| volume.visible);
        children.extend(shown.map(|volume| Self::volume(&group.name, volume)));
        Self {
            name: format!("group {}", group.name),
            size: Some(group.size),
            what: format!(
                "{found} of {all} physical volumes, {} free",
                HumanBytes(group.free)
            ),
            remarks: group.remarks.clone(),
            children,
        }
    }

    fn part(part: &GroupMember) -> Option<Self> {
        Some(Self {
            name: part.disk.clone()?,
            size: Some(part.size),
            what: "physical volume".to_owned(),
            ..Self::default()
        })
    }

    fn volume(group: &str, volume: &Volume) -> Self {
        let mut role = volume.kind.clone();
        if let Some(origin) = &volume.origin {
            role = format!("{role} of {origin}");
        }
        if let Some(store) = &volume.store {
            role = format!("{role}, {}", store.fill());
        }
        if let Some(pool) = &volume.pool {
            role = format!("{role} in {pool}");
        }
        if volume.partial {
            role.push_str(", a part is missing");
        }
        let empty = DiskContent::default();
        let content = volume.content.as_ref().unwrap_or(&empty);
        let name = format!("{group}/{}", volume.name);
        let mut branch = Self::holding(name, Some(volume.size), &role, content);
        branch.remarks.extend(volume.problem.clone());
        branch
    }
}

impl DiskContent {
    /// What it is, in one line.
    pub(in crate::commands) fn in_words(&self) -> String {
        let mut parts = Vec::new();
        if let Some(member) = &self.member {
            let role = match member.role.parse::<u16>() {
                Ok(part) => format!("member {part}"),
                Err(_) => member.role.clone(),
            };
            parts.push(format!("{role} of {} array {}", member.level, member.name));
        }
        if let Some(volume) = &self.physical_volume {
            parts.push(match &volume.group {
                Some(group) => format!("physical volume of {group}"),
                None => "physical volume of no group".to_owned(),
            });
        }
        if let Some(table) = &self.table {
            let count = table.partitions.len();
            let plural = if count == 1 { "" } else { "s" };
            parts.push(format!(
                "{}, {count} partition{plural}",
                table.kind.to_uppercase()
            ));
        }
        let other = self
            .signature
            .as_ref()
            .and_then(|found| found.table.as_ref());
        if let Some(kind) = other.filter(|_| self.table.is_none()) {
            parts.push(format!("a partition table ({kind}), not read"));
        }
        parts.extend(
            self.signature
                .as_ref()
                .and_then(super::signature::Signature::in_words),
        );
        if let Some(cache) = &self.cache {
            let state = if cache.is_dropped { ", dropped" } else { "" };
            parts.push(format!(
                "cache of a disk of {}, holds {} at most{state}",
                BinaryBytes(cache.disk_size),
                BinaryBytes(cache.capacity)
            ));
        }
        if let Some(image) = &self.image {
            let way = if image.compressed {
                "packed"
            } else {
                "an image"
            };
            parts.push(format!(
                "{way}: {} ({}), not opened",
                image.name, image.format
            ));
        }
        if parts.is_empty() {
            return "nothing known".to_owned();
        }
        parts.join("; ")
    }
}
