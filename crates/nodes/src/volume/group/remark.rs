//! [`GroupRemark`]: what is not as it should be with the disks of a group, and does not keep all of it from being used. Pure.

use std::fmt;

use super::{FoundPhysicalVolume, MemberPlace, VolumeGroup};
use crate::volume::format::VolumeProblem;

/// Status flags of a group that keep it from being used as any other.
const NOTABLE: [&str; 3] = ["EXPORTED", "CLUSTERED", "SHARED"];

/// What is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupRemark {
    /// A member is not there.
    Missing {
        /// Its id.
        id: String,
        /// Where it was once.
        device: String,
    },
    /// A member is there that LVM did not find once.
    MarkedMissing {
        /// Its id.
        id: String,
    },
    /// A second disk of one id.
    Duplicate {
        /// The second.
        disk: String,
        /// The first.
        first: String,
        /// Their id.
        id: String,
    },
    /// A disk's metadata are older than the group's.
    Outdated {
        /// The disk.
        disk: String,
        /// Its number of changes.
        own: u64,
        /// The group's.
        newest: u64,
    },
    /// A disk that the group has given up.
    Former {
        /// The disk.
        disk: String,
    },
    /// A member with the metadata of another group.
    OtherGroup {
        /// The disk.
        disk: String,
        /// The other group.
        group: String,
    },
    /// One of several copies of the metadata is damaged; the others are used.
    Damaged {
        /// The disk.
        disk: String,
        /// What is wrong.
        problem: VolumeProblem,
    },
    /// A disk that is shorter than the group has recorded.
    Short {
        /// The disk.
        disk: String,
        /// Its size, bytes.
        size: u64,
        /// What is recorded, bytes.
        recorded: u64,
    },
    /// A status of the group.
    Status(&'static str),
    /// Several systems share the group.
    LockType(String),
    /// A system uses the group alone.
    SystemId(String),
}

impl fmt::Display for GroupRemark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { id, device } => write!(
                f,
                "physical volume {id} is not among these disks; it was {device}"
            ),
            Self::MarkedMissing { id } => {
                write!(f, "LVM has marked physical volume {id} as missing")
            }
            Self::Duplicate { disk, first, id } => write!(
                f,
                "{disk} says that it is physical volume {id}, as {first} does: one is a copy, or another way to the other; \
                 {disk} is not used"
            ),
            Self::Outdated { disk, own, newest } => write!(
                f,
                "{disk} has outdated metadata: {own} changes, the group {newest}"
            ),
            Self::Former { disk } => {
                write!(f, "{disk} was a part of it, and is none any more")
            }
            Self::OtherGroup { disk, group } => write!(
                f,
                "{disk} is listed as a part of it, and its own metadata are those of the group {group}"
            ),
            Self::Damaged { disk, problem } => {
                write!(f, "{disk} has a damaged copy of the metadata: {problem}")
            }
            Self::Short {
                disk,
                size,
                recorded,
            } => write!(f, "{disk} has {size} bytes, {recorded} are recorded"),
            Self::Status(flag) => write!(f, "it is marked as {}", flag.to_lowercase()),
            Self::LockType(kind) => {
                write!(f, "several systems share it (lock type {kind})")
            }
            Self::SystemId(id) => write!(f, "it belongs to the system {id}"),
        }
    }
}

/// All remarks about a group.
pub(super) fn remarks(
    group: &VolumeGroup,
    places: &[MemberPlace],
    found: &[FoundPhysicalVolume],
) -> Vec<GroupRemark> {
    let mut remarks = Vec::new();
    for (member, place) in group.members.iter().zip(places) {
        let id = member.id.clone();
        match place {
            MemberPlace::Missing => {
                let device = member.device.clone();
                remarks.push(GroupRemark::Missing { id, device });
            }
            MemberPlace::MarkedMissing(_) => remarks.push(GroupRemark::MarkedMissing { id }),
            MemberPlace::Duplicate(disks) => {
                let copies = disks.iter().skip(1).map(|copy| GroupRemark::Duplicate {
                    disk: found[*copy].name.clone(),
                    first: found[disks[0]].name.clone(),
                    id: id.clone(),
                });
                remarks.extend(copies);
            }
            MemberPlace::Found(disk) if found[*disk].size < member.size => {
                remarks.push(GroupRemark::Short {
                    disk: found[*disk].name.clone(),
                    size: found[*disk].size,
                    recorded: member.size,
                });
            }
            MemberPlace::Found(_) => {}
        }
    }
    for (index, physical) in found.iter().enumerate() {
        let is_copy = places.iter().any(
            |place| matches!(place, MemberPlace::Duplicate(disks) if disks[1..].contains(&index)),
        );
        if !is_copy {
            remarks.extend(of_disk(group, physical));
        }
    }
    for flag in NOTABLE {
        if group.has_flag(flag) {
            remarks.push(GroupRemark::Status(flag));
        }
    }
    remarks.extend(group.lock_type.clone().map(GroupRemark::LockType));
    remarks.extend(group.system_id.clone().map(GroupRemark::SystemId));
    remarks
}

/// Remarks about a disk's own metadata.
fn of_disk(group: &VolumeGroup, physical: &FoundPhysicalVolume) -> Vec<GroupRemark> {
    let disk = || physical.name.clone();
    let id = &physical.volume.header.id;
    let is_listed = group.members.iter().any(|member| member.id == *id);
    let mut remarks = Vec::new();
    match &physical.volume.group {
        Some(own) if own.id == group.id => {
            if own.sequence < group.sequence {
                remarks.push(GroupRemark::Outdated {
                    disk: disk(),
                    own: own.sequence,
                    newest: group.sequence,
                });
            }
            if !is_listed {
                remarks.push(GroupRemark::Former { disk: disk() });
            }
        }
        Some(other) if is_listed => remarks.push(GroupRemark::OtherGroup {
            disk: disk(),
            group: other.name.clone(),
        }),
        Some(_) | None => {}
    }
    if is_listed {
        let damaged = physical.volume.problems.iter();
        remarks.extend(damaged.map(|problem| GroupRemark::Damaged {
            disk: disk(),
            problem: problem.clone(),
        }));
    }
    remarks
}
