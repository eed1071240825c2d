//! Volume groups put together from the physical volumes that were found. Pure.
//!
//! # Invariants
//!
//! * The text with the highest sequence number counts, whichever disk has it. A disk with an older one keeps its place if the
//!   newest text lists it; one that is not listed is ignored.
//! * A group is distinguished by its id, not by its name.
//! * A disk that LVM marked as missing is not used, also if it is back: its data may be outdated.
//! * Two disks with one id are used by nothing that writes or serves: no rule can say which one is the copy.
//!
//! # What it does not do
//!
//! It repairs no outdated metadata.

mod access;
mod remark;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use block::Node;

pub use self::access::VolumeAccess;
pub use self::remark::GroupRemark;
use super::format::VolumeGroup;
use super::{PhysicalVolume, VolumeError};

/// A disk that is a physical volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPhysicalVolume {
    /// What the disk is called.
    pub name: String,
    /// Its size, bytes.
    pub size: u64,
    /// What is on it.
    pub volume: PhysicalVolume,
}

/// Where a member of a group is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberPlace {
    /// The disk at this place among those that were found.
    Found(usize),
    /// It is there, but the group has marked it as missing.
    MarkedMissing(usize),
    /// Not among the disks.
    Missing,
    /// Several disks have its id.
    Duplicate(Vec<usize>),
}

/// A volume group, as far as the disks show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssembledGroup {
    /// Its newest description.
    pub group: VolumeGroup,
    /// Where each of its members is.
    pub places: Vec<MemberPlace>,
    /// What the disks are called.
    pub names: Vec<String>,
    /// Two disks with different descriptions of the same sequence number.
    pub conflict: Option<(usize, usize)>,
    /// What is not as it should be.
    pub remarks: Vec<GroupRemark>,
}

/// Puts the groups together that `found` are of, in the order in which they are found.
#[must_use]
pub fn assemble(found: &[FoundPhysicalVolume]) -> Vec<AssembledGroup> {
    let mut newest: Vec<usize> = Vec::new();
    let text = |index: usize| found[index].volume.group.as_ref();
    for (index, physical) in found.iter().enumerate() {
        let Some(group) = &physical.volume.group else {
            continue;
        };
        let is_same = |known: &&mut usize| text(**known).is_some_and(|text| text.id == group.id);
        match newest.iter_mut().find(is_same) {
            Some(known) if text(*known).is_some_and(|text| text.sequence < group.sequence) => {
                *known = index;
            }
            Some(_) => {}
            None => newest.push(index),
        }
    }
    let groups = newest.into_iter().filter_map(|index| {
        let group = text(index)?.clone();
        Some(AssembledGroup::of(group, index, found))
    });
    groups.collect()
}

impl AssembledGroup {
    /// The group that the disk at `newest` describes.
    fn of(group: VolumeGroup, newest: usize, found: &[FoundPhysicalVolume]) -> Self {
        let is_ours = |physical: &FoundPhysicalVolume| {
            let own = physical.volume.group.as_ref();
            own.is_none_or(|own| own.id == group.id)
        };
        let places = group.members.iter().map(|member| {
            let with_id = found
                .iter()
                .enumerate()
                .filter(|(_, physical)| physical.volume.header.id == member.id)
                .filter(|(_, physical)| is_ours(physical))
                .map(|(index, _)| index);
            let with_id: Vec<usize> = with_id.collect();
            match with_id.as_slice() {
                [] => MemberPlace::Missing,
                [only] if member.missing => MemberPlace::MarkedMissing(*only),
                [only] => MemberPlace::Found(*only),
                _ => MemberPlace::Duplicate(with_id),
            }
        });
        let places: Vec<MemberPlace> = places.collect();
        let differs = |physical: &FoundPhysicalVolume| {
            let own = physical.volume.group.as_ref();
            own.is_some_and(|own| {
                own.id == group.id && own.sequence == group.sequence && *own != group
            })
        };
        let conflict = found.iter().position(differs).map(|other| (newest, other));
        let remarks = remark::remarks(&group, &places, found);
        Self {
            places,
            names: found.iter().map(|physical| physical.name.clone()).collect(),
            conflict,
            remarks,
            group,
        }
    }

    /// The disk of the member at `index` of the group's members, if it may be used.
    #[must_use]
    pub fn disk_of(&self, index: usize) -> Option<usize> {
        match self.places.get(index)? {
            MemberPlace::Found(disk) => Some(*disk),
            MemberPlace::MarkedMissing(_) | MemberPlace::Missing | MemberPlace::Duplicate(_) => {
                None
            }
        }
    }

    /// The disks of the members that may be used, by the member's id, as a [`VolumeSet`](super::open::VolumeSet) takes
    /// them. `disk` returns the disk at an index of those that the group was assembled from.
    pub fn disks(&self, disk: impl Fn(usize) -> Node) -> HashMap<String, Node> {
        let members = self.group.members.iter().enumerate();
        members
            .filter_map(|(index, member)| Some((member.id.clone(), disk(self.disk_of(index)?))))
            .collect()
    }

    /// The names of the volumes that users open, in the order of the text.
    #[must_use]
    pub fn volume_names(&self) -> Vec<String> {
        let volumes = self.group.volumes.iter();
        let volumes = volumes.filter(|volume| self.group.is_for_users(volume));
        volumes.map(|volume| volume.name.clone()).collect()
    }
}

/// The group that is called `name` or has that id; without a name the only one.
///
/// # Errors
/// If it is not there, or not the only one.
pub fn select<'a>(
    groups: &'a [AssembledGroup],
    name: Option<&str>,
) -> Result<&'a AssembledGroup, VolumeError> {
    let found = || {
        let names = groups.iter().map(|found| found.group.name.clone());
        names.collect::<Vec<_>>()
    };
    let Some(name) = name else {
        return match groups {
            [only] => Ok(only),
            _ => Err(VolumeError::SeveralGroups { found: found() }),
        };
    };
    if let Some(group) = groups.iter().find(|found| found.group.id == name) {
        return Ok(group);
    }
    let named: Vec<_> = groups
        .iter()
        .filter(|found| found.group.name == name)
        .collect();
    match named.as_slice() {
        [only] => Ok(only),
        [] => Err(VolumeError::NoGroup {
            name: name.to_owned(),
            found: found(),
        }),
        _ => Err(VolumeError::SameName {
            name: name.to_owned(),
            ids: named.iter().map(|found| found.group.id.clone()).collect(),
        }),
    }
}
