//! [`OpenGroup`]: a group of which a command has opened the disks.
//!
//! # Invariants
//!
//! * A group that is changed has all of its disks here, each once, and every one of them has good metadata.

use std::collections::HashMap;
use std::path::PathBuf;

use block::Node;
use nodes::volume::VolumeError;
use nodes::volume::edit::{EditError, FreeCount, GroupEdit};
use nodes::volume::format::VolumeGroup;
use nodes::volume::group::{AssembledGroup, FoundPhysicalVolume, MemberPlace, assemble, select};
use nodes::volume::scan::{AreaText, DiskScan, scan};
use nodes::volume::update::MetadataArea;

use super::report::DiskNames;
use crate::commands::inspect::unnamed;
use crate::failure::Failure;
use crate::graph::builder::Builder;
use crate::graph::{Disk, NamedDisk};

/// Most disks of one command.
const DISKS_MAX: usize = 1024;

/// A physical volume that is open.
#[derive(Debug, Clone)]
pub(super) struct OpenDisk {
    /// As the user wrote it.
    pub(super) name: String,
    pub(super) node: Node,
    pub(super) scan: DiskScan,
}

/// A group with its disks.
#[derive(Debug)]
pub(super) struct OpenGroup {
    pub(super) assembled: AssembledGroup,
    /// All disks of the command, in the order of `assembled`'s names.
    pub(super) disks: Vec<OpenDisk>,
}

/// Opens a disk that is, or becomes, a physical volume.
pub(super) async fn open_disk(
    builder: &mut Builder,
    text: &str,
) -> Result<(Node, NamedDisk), Failure> {
    let named = unnamed(text)?;
    let node = builder.build(&named).await.map_err(|error| {
        let holder = error.in_use_by();
        let failure = Failure::from(error);
        match holder {
            Some(_) => failure.next("stop what uses it, and try again"),
            None => failure,
        }
    })?;
    Ok((node, named))
}

/// Where a disk is, as the metadata record it: the absolute path of a file.
pub(super) fn device_hint(named: &NamedDisk) -> String {
    let absolute = match &named.disk {
        Disk::File { path, .. } => std::path::absolute(path).ok(),
        _ => None,
    };
    let absolute = absolute.map(PathBuf::into_os_string);
    let absolute = absolute.and_then(|path| path.into_string().ok());
    absolute.unwrap_or_else(|| named.text.clone())
}

/// What the command line alone shows to be wrong with a list of disks.
pub(super) fn check_disks(disks: &[String]) -> Result<(), Failure> {
    if disks.len() > DISKS_MAX {
        return Err(Failure::usage(format!("more than {DISKS_MAX} disks")));
    }
    for (n, disk) in disks.iter().enumerate() {
        if disks[..n].contains(disk) {
            let what = format!("{disk} is named twice");
            return Err(Failure::usage(what).next("each physical volume is a disk of its own"));
        }
    }
    Ok(())
}

/// Opens physical volumes.
pub(super) async fn open_disks(
    builder: &mut Builder,
    texts: &[String],
) -> Result<Vec<OpenDisk>, Failure> {
    check_disks(texts)?;
    let mut disks = Vec::with_capacity(texts.len());
    for text in texts {
        let (node, _) = Box::pin(open_disk(builder, text)).await?;
        disks.push(scan_disk(text, node).await?);
    }
    Ok(disks)
}

async fn scan_disk(name: &str, node: Node) -> Result<OpenDisk, Failure> {
    let scanned = scan(&node).await;
    let scanned =
        scanned.map_err(|error| Failure::because(format!("{name} cannot be read"), &error))?;
    let name = name.to_owned();
    match scanned {
        Some(Ok(scan)) => Ok(OpenDisk { name, node, scan }),
        Some(Err(problem)) => Err(Failure::because(
            format!("{name} has a damaged LVM label"),
            &problem,
        )),
        None => {
            let failure = Failure::new(format!("{name} is no physical volume of LVM"));
            Err(failure.next(format!("outboard inspect {name} shows what is on it")))
        }
    }
}

/// The groups that disks are of.
pub(super) fn assemble_disks(disks: &[OpenDisk]) -> Vec<AssembledGroup> {
    let found = disks.iter().map(|disk| FoundPhysicalVolume {
        name: disk.name.clone(),
        size: disk.node.geometry().size,
        volume: disk.scan.physical_volume(),
    });
    let found: Vec<FoundPhysicalVolume> = found.collect();
    assemble(&found)
}

impl OpenGroup {
    /// Opens the group `name` of these disks, in any state.
    pub(super) async fn open(
        builder: &mut Builder,
        name: &str,
        texts: &[String],
    ) -> Result<Self, Failure> {
        let disks = open_disks(builder, texts).await?;
        let groups = assemble_disks(&disks);
        let assembled = select(&groups, Some(name)).map_err(|error| unopened(&error))?;
        Ok(Self {
            assembled: assembled.clone(),
            disks,
        })
    }

    /// The same for a change: all of its disks are there and no other, and none has damaged metadata.
    pub(super) async fn open_whole(
        builder: &mut Builder,
        name: &str,
        texts: &[String],
    ) -> Result<Self, Failure> {
        let open = Self::open(builder, name, texts).await?;
        open.refuse_incomplete()?;
        open.refuse_damaged()?;
        Ok(open)
    }

    /// The same where disks may be missing; the names of these in the metadata.
    pub(super) async fn open_partial(
        builder: &mut Builder,
        name: &str,
        texts: &[String],
    ) -> Result<(Self, Vec<String>), Failure> {
        let open = Self::open(builder, name, texts).await?;
        open.refuse_conflict()?;
        let members = open.group().members.iter().zip(&open.assembled.places);
        let missing = members.filter(|(_, place)| **place == MemberPlace::Missing);
        let missing: Vec<String> = missing.map(|(member, _)| member.name.clone()).collect();
        open.refuse_places(true)?;
        open.refuse_damaged()?;
        Ok((open, missing))
    }

    /// Refuses a group of which a disk has damaged metadata.
    fn refuse_damaged(&self) -> Result<(), Failure> {
        let mut disks = self.disks.iter();
        let damaged = disks.find_map(|disk| {
            let mut areas = disk.scan.areas.iter();
            areas.find_map(|area| Some((disk, area.text.as_ref().err()?)))
        });
        match damaged {
            None => Ok(()),
            Some((disk, problem)) => {
                let what = format!("{} has a damaged copy of the metadata", disk.name);
                let failure = Failure::because(what, problem);
                Err(failure.next("outboard volume repair writes it again from another"))
            }
        }
    }

    /// Refuses a group of which a disk is missing, there twice, or contradicts another one; and disks of other groups.
    pub(super) fn refuse_incomplete(&self) -> Result<(), Failure> {
        self.refuse_conflict()?;
        self.refuse_places(false)
    }

    /// Refuses disks with different metadata of one age.
    fn refuse_conflict(&self) -> Result<(), Failure> {
        let group = self.group();
        let name = &group.name;
        if let Some((first, second)) = self.assembled.conflict {
            let names = &self.assembled.names;
            let (first, second) = (&names[first], &names[second]);
            let what = format!(
                "{first} and {second} have different metadata of {name} with one sequence number, {}",
                group.sequence
            );
            return Err(Failure::new(what).next("outboard volume repair --restore FILE sets one"));
        }
        Ok(())
    }

    /// Refuses a group of which a disk is there twice or missing, unless that is allowed, and disks of other groups.
    fn refuse_places(&self, allow_missing: bool) -> Result<(), Failure> {
        let group = self.group();
        let name = &group.name;
        for (member, place) in group.members.iter().zip(&self.assembled.places) {
            match place {
                MemberPlace::Found(_) => {}
                MemberPlace::Missing if allow_missing => {}
                MemberPlace::MarkedMissing(disk) if allow_missing => {
                    let disk = &self.disks[*disk].name;
                    let what = format!("{disk} is here, but {name} has marked it as missing");
                    return Err(Failure::new(what)
                        .next("leave it away, or take it back with vgextend --restoremissing"));
                }
                MemberPlace::MarkedMissing(_) | MemberPlace::Missing => {
                    let (pv, device, id) = (&member.name, &member.device, &member.id);
                    let what = format!(
                        "the disk {pv} of the group {name} is missing: {id}, last seen as {device}"
                    );
                    return Err(Failure::new(what).next("name all disks of the group"));
                }
                MemberPlace::Duplicate(disks) => {
                    let names = disks.iter().map(|disk| self.disks[*disk].name.as_str());
                    let names: Vec<&str> = names.collect();
                    let what = format!(
                        "{} are the same physical volume, {}",
                        names.join(" and "),
                        member.id
                    );
                    return Err(Failure::new(what).next("name one of them: the others are copies"));
                }
            }
        }
        let ours = |index: usize| self.assembled.places.contains(&MemberPlace::Found(index));
        let mut disks = self.disks.iter().enumerate();
        match disks.find(|(index, _)| !ours(*index)) {
            None => Ok(()),
            Some((_, other)) => {
                let what = format!("{} is no physical volume of the group {name}", other.name);
                let inspect = format!("outboard inspect {} shows of which", other.name);
                Err(Failure::new(what).next(inspect))
            }
        }
    }

    /// Reads the group from its disks again, after a change.
    pub(super) async fn reread(&mut self) -> Result<(), Failure> {
        for disk in &mut self.disks {
            *disk = scan_disk(&disk.name, disk.node.clone()).await?;
        }
        let id = self.group().id.clone();
        let groups = assemble_disks(&self.disks);
        let assembled = select(&groups, Some(&id)).map_err(|error| unopened(&error))?;
        self.assembled = assembled.clone();
        Ok(())
    }

    /// As the metadata describe it.
    pub(super) const fn group(&self) -> &VolumeGroup {
        &self.assembled.group
    }

    /// The newest text itself.
    pub(super) fn text(&self) -> Option<&AreaText> {
        let group = self.group();
        let mut texts = self.disks.iter().filter_map(|disk| disk.scan.newest());
        texts.find(|text| text.group.id == group.id && text.group.sequence == group.sequence)
    }

    /// What users call the disks, by their names in the metadata.
    pub(super) fn names(&self) -> DiskNames {
        let members = self.group().members.iter().enumerate();
        let names = members.filter_map(|(index, member)| {
            Some((member.name.clone(), self.member_disk(index)?.name.clone()))
        });
        names.collect()
    }

    /// What the disks of members are called, and the disks, by the members' names in the metadata.
    pub(super) fn member_nodes(&self) -> HashMap<String, (String, Node)> {
        let members = self.group().members.iter().enumerate();
        let nodes = members.filter_map(|(index, member)| {
            let disk = self.member_disk(index)?;
            Some((member.name.clone(), (disk.name.clone(), disk.node.clone())))
        });
        nodes.collect()
    }

    /// The disk of a member, by its place in the group.
    fn member_disk(&self, index: usize) -> Option<&OpenDisk> {
        Some(&self.disks[self.assembled.disk_of(index)?])
    }

    /// The disk with that name in the metadata.
    pub(super) fn disk(&self, member: &str) -> Option<&OpenDisk> {
        let mut members = self.group().members.iter();
        let index = members.position(|found| found.name == member)?;
        self.member_disk(index)
    }

    /// The names in the metadata of disks as the user wrote them.
    pub(super) fn member_names(&self, disks: &[String]) -> Result<Vec<String>, Failure> {
        let names = self.names();
        let name = |disk: &String| {
            let mut names = names.iter();
            let found = names.find(|(_, name)| *name == disk);
            let found = found.map(|(member, _)| member.clone());
            found.ok_or_else(|| {
                let what = format!(
                    "{disk} is none of the disks of the group {}",
                    self.group().name
                );
                Failure::usage(what).next("write it as it stands among them")
            })
        };
        disks.iter().map(name).collect()
    }

    /// Begins a change.
    pub(super) fn edit(&self) -> Result<GroupEdit, Failure> {
        GroupEdit::open(self.group().clone()).map_err(|error| refused(error, &self.names()))
    }

    /// The metadata areas of all disks of `group`, which may have fewer than this.
    pub(super) fn areas(&self, group: &VolumeGroup) -> Vec<MetadataArea> {
        let mut areas = Vec::new();
        for disk in &self.disks {
            let id = &disk.scan.header.id;
            if !group.members.iter().any(|member| member.id == *id) {
                continue;
            }
            areas.extend(disk.scan.areas.iter().map(|area| MetadataArea {
                name: disk.name.clone(),
                disk: disk.node.clone(),
                area: area.area,
                reset: area.header.is_err(),
            }));
        }
        areas
    }
}

/// Why a group is not found among disks.
pub(super) fn unopened(error: &VolumeError) -> Failure {
    let failure = Failure::from_error(error);
    match error.next() {
        Some(next) => failure.next(next),
        None => failure,
    }
}

/// Why a change is not possible, with the user's names of disks.
pub(super) fn refused(error: EditError, names: &DiskNames) -> Failure {
    let name = |member: &String| names.get(member).unwrap_or(member).clone();
    match error {
        EditError::NoSpace { wanted, free } => {
            let free = free.into_iter().map(|free| FreeCount {
                member: name(&free.member),
                extents: free.extents,
            });
            let error = EditError::NoSpace {
                wanted,
                free: free.collect(),
            };
            let next = "take less, or add a disk with outboard volume add-disk";
            Failure::from_error(&error).next(next)
        }
        EditError::NothingToMove { member, volume } => {
            let member = name(&member);
            Failure::from_error(&EditError::NothingToMove { member, volume })
        }
        EditError::Unmovable { .. } => Failure::from_error(&error).next("LVM itself can change it"),
        EditError::Exists(_) => Failure::from_error(&error).next("choose another name"),
        EditError::InUse { .. } | EditError::Kind { .. } | EditError::FixedSize { .. } => {
            Failure::from_error(&error).next("LVM itself can change it")
        }
        EditError::SnapshotOf { .. } => {
            let next = "outboard volume snapshot extends, merges or removes it; it has no snapshots of its own";
            Failure::from_error(&error).next(next)
        }
        EditError::HasSnapshots { .. } => {
            let next = "outboard volume snapshot merges or removes them";
            Failure::from_error(&error).next(next)
        }
        EditError::NoSnapshot(_) => Failure::from_error(&error)
            .next("outboard volume snapshot list shows those of the group"),
        EditError::Merging { .. } => {
            Failure::from_error(&error).next("outboard volume snapshot merge finishes that")
        }
        EditError::OriginKind { .. } => {
            let next = "LVM may have another kind of snapshot for it; or serve it with an overlay: overlay(BASE, TOP)";
            Failure::from_error(&error).next(next)
        }
        EditError::OnMissing { .. } => Failure::from_error(&error).next("name that disk, too"),
        EditError::MemberInUse { .. } => {
            Failure::from_error(&error).next("outboard volume move moves them away")
        }
        EditError::Flag { ref flag, .. } if flag == "LOCKED" || flag == "PVMOVE" => {
            let next = "its extents are being moved: outboard volume move finishes that";
            Failure::from_error(&error).next(next)
        }
        _ => Failure::from_error(&error),
    }
}
