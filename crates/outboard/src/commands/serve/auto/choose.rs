//! Which parts of a disk are served under which names, and why others are not. Pure.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::commands::inspect::DiskContent;
use crate::failure::Failure;
use crate::graph::{Disk, NamedDisk, Span};

/// A disk to be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChosenDisk {
    /// With its export's name.
    pub(super) disk: NamedDisk,
    /// What it holds.
    pub(super) content: String,
}

/// Something that is not served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct LeftOut {
    /// The name it would have.
    pub(super) what: String,
    /// Why not.
    pub(super) why: String,
}

/// What becomes of one disk.
#[derive(Debug, Default)]
pub(super) struct Choice {
    pub(super) chosen: Vec<ChosenDisk>,
    pub(super) left_out: Vec<LeftOut>,
}

impl ChosenDisk {
    /// Its export's name.
    pub(super) fn name(&self) -> &str {
        self.disk.name.as_deref().unwrap_or_default()
    }
}

/// What is before the names of each disk's exports: nothing where there is one disk without a name.
pub(super) fn prefixes(disks: &[NamedDisk]) -> Result<Vec<String>, Failure> {
    if let [NamedDisk { name: None, .. }] = disks {
        return Ok(vec![String::new()]);
    }
    let mut known = BTreeSet::new();
    let prefix = |disk: &NamedDisk| {
        let Some(name) = disk.name.clone().or_else(|| own_name(&disk.disk)) else {
            let failure = Failure::usage(format!("the disk `{}` has no name", disk.text));
            return Err(failure.next("write NAME=DISK"));
        };
        if !known.insert(name.clone()) {
            let failure = Failure::usage(format!("two disks are named `{name}`"));
            return Err(failure.next("write NAME=DISK for one of them"));
        }
        Ok(format!("{name}/"))
    };
    disks.iter().map(prefix).collect()
}

/// A file's name without its ending, or an export's.
fn own_name(disk: &Disk) -> Option<String> {
    let name = match disk {
        Disk::File { path, .. } => path.file_stem()?.to_string_lossy().into_owned(),
        Disk::Remote { target, .. } => target.export.clone(),
        _ => return None,
    };
    Some(name).filter(|name| !name.is_empty())
}

/// Chooses what of a disk is served; `prefix` is before its names.
pub(super) fn choose(disk: &NamedDisk, prefix: &str, content: &DiskContent) -> Choice {
    let whole = format!("{prefix}whole");
    chosen_of(disk, (&whole, prefix), content, None)
}

/// What of a disk is served: all of it under the name `whole`, or its partitions. `kind` is the kind of the disk
/// itself, regardless of its content.
pub(super) fn chosen_of(
    disk: &NamedDisk,
    (whole, prefix): (&str, &str),
    content: &DiskContent,
    kind: Option<&str>,
) -> Choice {
    let mut choice = Choice::default();
    let Some(table) = &content.table else {
        choice.add(whole.to_owned(), disk.disk.clone(), disk, content, kind);
        return choice;
    };
    for partition in &table.partitions {
        let name = format!("{prefix}{}", partition.name());
        if partition.extended {
            let why = "it is the frame of the logical partitions";
            choice.leave_out(name, why);
            continue;
        }
        let inner = Disk::Partition {
            disk: Box::new(disk.disk.clone()),
            number: partition.number,
            span: Span {
                start: 0,
                end: disk.text.len(),
            },
        };
        let kind = partition.type_name.as_ref().unwrap_or(&partition.kind);
        choice.add(name, inner, disk, &partition.content, Some(kind));
    }
    choice
}

impl Choice {
    /// Nothing but `what`, which is not served.
    pub(super) fn without(what: String, why: impl Into<String>) -> Self {
        let mut choice = Self::default();
        choice.leave_out(what, why);
        choice
    }

    pub(super) fn leave_out(&mut self, what: String, why: impl Into<String>) {
        let why = why.into();
        self.left_out.push(LeftOut { what, why });
    }

    /// Adds `disk` as the export `name`, or a remark why not; `kind` is the kind that its container records.
    fn add(
        &mut self,
        name: String,
        disk: Disk,
        written: &NamedDisk,
        content: &DiskContent,
        kind: Option<&str>,
    ) {
        if let Some(why) = hurdle(content, kind.is_some()) {
            return self.leave_out(name, why);
        }
        let content = match (content.is_empty(), kind) {
            (true, Some(kind)) => kind.to_owned(),
            _ => content.in_words(),
        };
        self.chosen.push(ChosenDisk {
            disk: NamedDisk {
                text: written.text.clone(),
                name: Some(name),
                disk,
            },
            content,
        });
    }
}

/// Why something is not served. A partition is something even if nothing is known to be on it.
fn hurdle(content: &DiskContent, is_partition: bool) -> Option<String> {
    if let Some(member) = &content.member {
        let (level, name) = (&member.level, &member.name);
        return Some(format!("a member of the {level} array {name}"));
    }
    if let Some(volume) = &content.physical_volume {
        return Some(match &volume.group {
            Some(group) => format!("a physical volume of {group}"),
            None => "a physical volume of no group".to_owned(),
        });
    }
    if content.image.is_some() {
        return Some(content.in_words());
    }
    let contradicts = content
        .signature
        .iter()
        .any(|found| !found.several.is_empty());
    if contradicts {
        return Some(format!("it contradicts itself: {}", content.in_words()));
    }
    if !is_partition && content.is_empty() {
        return Some("nothing known is on it".to_owned());
    }
    content
        .remarks
        .first()
        .filter(|_| content.is_empty())
        .cloned()
}
