//! [`VolumeError`]: why a volume is not opened. One line each: what failed, on what; [`VolumeError::next`] is what to do.

use block::IoError;

use super::format::{UnknownFlag, VolumeProblem};
use super::group::FoundPhysicalVolume;
use super::raid::RaidError;
use super::snapshot::SnapshotError;
use super::thin::{ThinError, unsupported};
use crate::parts::PartError;
use crate::stripe::StripeError;

/// Names that an error lists, at most.
const NAMES_MAX: usize = 12;

/// Why a volume is not opened. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// A disk cannot be read.
    #[error("{disk} cannot be read: {source}")]
    Read {
        /// Which.
        disk: String,
        /// Why.
        source: IoError,
    },
    /// A disk is no physical volume.
    #[error("{disk} is no LVM physical volume: it has no label")]
    NoLabel {
        /// Which.
        disk: String,
    },
    /// The label of a disk is damaged.
    #[error("the LVM physical volume {disk} cannot be used: {problem}")]
    Label {
        /// Which.
        disk: String,
        /// What is wrong.
        problem: VolumeProblem,
    },
    /// No disk has the metadata of a group.
    #[error("no volume group is on these disks: {why}")]
    NoMetadata {
        /// What is wrong with their metadata.
        why: String,
    },
    /// Another group is wanted.
    #[error("there is no volume group `{name}` on these disks: they have {}", listed(.found))]
    NoGroup {
        /// The wanted one.
        name: String,
        /// Those that are there.
        found: Vec<String>,
    },
    /// Several groups, and none is named.
    #[error("these disks have several volume groups: {}", listed(.found))]
    SeveralGroups {
        /// Their names.
        found: Vec<String>,
    },
    /// Two groups of one name.
    #[error("there are several volume groups `{name}` on these disks, with the ids {}", listed(.ids))]
    SameName {
        /// Their name.
        name: String,
        /// Their ids.
        ids: Vec<String>,
    },
    /// No volume of that name.
    #[error("there is no volume `{name}` in the group {group}: it has {}", listed(.found))]
    NoVolume {
        /// The group.
        group: String,
        /// The wanted one.
        name: String,
        /// Those that are there.
        found: Vec<String>,
    },
    /// Two disks with one id.
    #[error("{} say that they are the one physical volume {id} of the group {group}", listed(.disks))]
    Duplicate {
        /// The group.
        group: String,
        /// Their id.
        id: String,
        /// The disks.
        disks: Vec<String>,
    },
    /// Two descriptions of one group that were written independently.
    #[error(
        "the group {group} is described in two ways after the same number of changes ({sequence}): by {first}, and by {second}"
    )]
    Conflict {
        /// The group.
        group: String,
        /// The changes.
        sequence: u64,
        /// A disk with one description.
        first: String,
        /// A disk with the other.
        second: String,
    },
    /// The group is another system's.
    #[error("the group {group} {state}")]
    Owned {
        /// The group.
        group: String,
        /// `is exported`, `is shared by several systems (lock type sanlock)`, `belongs to the system nas`.
        state: String,
        /// What to do next.
        next: &'static str,
    },
    /// A status that this version does not know.
    #[error("the group {group} cannot be used: {flag}")]
    Unknown {
        /// The group.
        group: String,
        /// Which, and of what.
        flag: UnknownFlag,
    },
    /// A disk is missing.
    #[error("the volume {volume} needs {}", missing(.members))]
    Missing {
        /// The volume.
        volume: String,
        /// What is missing.
        members: Vec<MissingMember>,
    },
    /// A part of another volume.
    #[error("{volume} is a part of the volume {owner}, and not to be used alone")]
    Hidden {
        /// The part.
        volume: String,
        /// The volume that users use.
        owner: String,
    },
    /// Something that is no disk.
    #[error("{volume} is {what}, and no disk")]
    NoDisk {
        /// Its name.
        volume: String,
        /// `a thin pool`.
        what: &'static str,
        /// What to do next.
        next: &'static str,
    },
    /// A type of segment that is not supported.
    #[error("the volume {volume} has a segment of the type {kind}, which is not supported: {why}")]
    Unsupported {
        /// The volume.
        volume: String,
        /// The type.
        kind: String,
        /// Why not.
        why: &'static str,
        /// What to do next.
        next: &'static str,
    },
    /// A segment of a known type with a field that is missing or cannot be.
    #[error(
        "the volume {volume} has a segment of the type {kind} whose `{field}` is missing or cannot be"
    )]
    Lacks {
        /// The volume.
        volume: String,
        /// The type.
        kind: String,
        /// The field.
        field: &'static str,
    },
    /// Metadata that contradict themselves.
    #[error("the metadata of the volume {volume} cannot be right: {what}")]
    Metadata {
        /// The volume.
        volume: String,
        /// What is wrong.
        what: String,
    },
    /// A disk is shorter than its metadata say.
    #[error("{disk} has {size} bytes, and the volume {volume} lies on it up to byte {end}")]
    Short {
        /// The volume.
        volume: String,
        /// The disk.
        disk: String,
        /// Its size.
        size: u64,
        /// How far the volume reaches.
        end: u64,
    },
    /// The state of a volume forbids what is wanted.
    #[error("the volume {volume} {what}")]
    State {
        /// The volume.
        volume: String,
        /// `is being merged…`
        what: String,
        /// What to do next.
        next: &'static str,
    },
    /// RAID, or a mirror.
    #[error("the volume {volume} cannot be opened: {source}")]
    Raid {
        /// The volume.
        volume: String,
        /// Why.
        source: RaidError,
    },
    /// A snapshot, or its origin.
    #[error("the volume {volume} cannot be opened: {source}")]
    Snapshot {
        /// The volume.
        volume: String,
        /// Why.
        source: SnapshotError,
    },
    /// A thin or a cached volume.
    #[error("the volume {volume} cannot be opened: {source}")]
    Thin {
        /// The volume.
        volume: String,
        /// Why.
        source: ThinError,
    },
    /// Parts that make no disk.
    #[error("the volume {volume} cannot be composed: {source}")]
    Part {
        /// The volume.
        volume: String,
        /// Why.
        source: PartError,
    },
    /// Stripes that make no disk.
    #[error("the volume {volume} cannot be composed: {source}")]
    Stripe {
        /// The volume.
        volume: String,
        /// Why.
        source: StripeError,
    },
}

/// A physical volume that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingMember {
    /// Its id.
    pub id: String,
    /// Where it was once.
    pub device: String,
    /// It is there, but LVM marked it as missing: its data may be outdated.
    pub is_marked: bool,
}

impl VolumeError {
    /// The error for a segment of a type that is not supported.
    pub(super) fn unsupported(volume: &str, kind: &str) -> Self {
        let known = unsupported(kind);
        Self::Unsupported {
            volume: volume.to_owned(),
            kind: kind.to_owned(),
            why: known.map_or("it is not known here", |known| known.why),
            next: known.map_or("use it with LVM", |known| known.next),
        }
    }

    /// The error for physical volumes of which none has the metadata of a group.
    #[must_use]
    pub fn no_metadata(found: &[FoundPhysicalVolume]) -> Self {
        let why = found.iter().map(|physical| {
            let name = &physical.name;
            match physical.volume.problems.first() {
                Some(problem) => format!("{name}: {problem}"),
                None => format!("{name} has no metadata"),
            }
        });
        let why: Vec<String> = why.collect();
        Self::NoMetadata { why: listed(&why) }
    }

    /// What to do next, if the message does not say so.
    #[must_use]
    pub fn next(&self) -> Option<&str> {
        match self {
            Self::NoLabel { .. } => Some("`outboard inspect DISK` shows what is on a disk"),
            Self::SeveralGroups { .. } => Some("write the group, too: name=GROUP/VOLUME"),
            Self::SameName { .. } => Some("write the id in place of the group's name"),
            Self::Duplicate { .. } => {
                Some("one of them is a copy, or another way to the other: name only one of them")
            }
            Self::Conflict { .. } => {
                Some("the disks were changed without each other: name only those of one side")
            }
            Self::Missing { members, .. } if members.iter().all(|member| member.is_marked) => Some(
                "its data may be older than the others': `vgextend --restoremissing` takes it back after a check",
            ),
            Self::Missing { .. } => Some("name the disk that is missing, too"),
            Self::Hidden { .. } => Some("open that volume"),
            Self::Owned { next, .. }
            | Self::NoDisk { next, .. }
            | Self::State { next, .. }
            | Self::Unsupported { next, .. } => Some(next),
            Self::Raid { source, .. } => source.next(),
            Self::Unknown { .. } => Some("use it with the version of LVM that made it"),
            Self::Short { .. } => Some("give the whole disk, not a copy that was cut off"),
            Self::NoMetadata { .. } => Some(
                "name the other disks of the group, too: some physical volumes have no metadata of their own",
            ),
            Self::Read { .. }
            | Self::Label { .. }
            | Self::NoGroup { .. }
            | Self::NoVolume { .. }
            | Self::Lacks { .. }
            | Self::Metadata { .. }
            | Self::Snapshot { .. }
            | Self::Thin { .. }
            | Self::Part { .. }
            | Self::Stripe { .. } => None,
        }
    }

    /// What is there instead of the name that is wrong, with that name.
    #[must_use]
    pub fn wrong_name(&self) -> Option<(&str, &[String])> {
        match self {
            Self::NoGroup { name, found } | Self::NoVolume { name, found, .. } => {
                Some((name, found))
            }
            _ => None,
        }
    }

    /// Whether it is about the name of the group or the volume, and not about the disks.
    #[must_use]
    pub const fn is_about_name(&self) -> bool {
        matches!(
            self,
            Self::NoGroup { .. }
                | Self::NoVolume { .. }
                | Self::SeveralGroups { .. }
                | Self::SameName { .. }
                | Self::Hidden { .. }
                | Self::NoDisk { .. }
        )
    }
}

/// Names in a row, as many as a line takes.
fn listed(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        _ if names.len() <= NAMES_MAX => names.join(", "),
        _ => {
            let first = names[..NAMES_MAX].join(", ");
            format!("{first} and {} more", names.len() - NAMES_MAX)
        }
    }
}

fn missing(members: &[MissingMember]) -> String {
    let named = members.iter().map(|member| {
        let MissingMember {
            id,
            device,
            is_marked,
        } = member;
        let was = if device.is_empty() {
            String::new()
        } else {
            format!(", which was {device}")
        };
        let why = if *is_marked {
            "marked as missing by LVM"
        } else {
            "not among these disks"
        };
        format!("the physical volume {id}{was} ({why})")
    });
    let named: Vec<String> = named.collect();
    listed(&named)
}
