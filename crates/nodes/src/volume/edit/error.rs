//! [`EditError`]: why a group cannot be changed as requested.

use crate::volume::format::VolumeProblem;

/// Why a group cannot be changed as requested. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The group may not be changed here at all.
    #[error("the group {group} {why}")]
    Locked {
        /// Its name.
        group: String,
        /// Why.
        why: String,
    },
    /// A name that LVM does not take.
    #[error("`{name}` is no name of a {what}: {why}")]
    Name {
        /// The name.
        name: String,
        /// `volume` or `group`.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// There is a volume of this name.
    #[error("there is a volume {0} already")]
    Exists(String),
    /// There is no volume of this name.
    #[error("there is no volume {name} in the group {group}")]
    NoVolume {
        /// The name.
        name: String,
        /// The group.
        group: String,
    },
    /// The group has no such physical volume.
    #[error("{0} is no physical volume of the group")]
    NoMember(String),
    /// A physical volume is part of the group already.
    #[error("{0} is a physical volume of the group already")]
    MemberExists(String),
    /// The volume is of a kind that is not changed here.
    #[error(
        "the volume {name} is {kind}: this change is only made to linear, striped and RAID volumes"
    )]
    Kind {
        /// The volume.
        name: String,
        /// What it is.
        kind: String,
    },
    /// The size of the volume is not changed here.
    #[error("the size of the volume {name} is not changed here: {why}")]
    FixedSize {
        /// The volume.
        name: String,
        /// What keeps it.
        why: String,
    },
    /// Another volume needs this one as it is.
    #[error("the volume {name} is used by {user}")]
    InUse {
        /// The volume.
        name: String,
        /// A volume that is made of it.
        user: String,
    },
    /// A snapshot, where a volume of its own is needed.
    #[error("the volume {name} is a snapshot of {origin}")]
    SnapshotOf {
        /// The snapshot.
        name: String,
        /// Its origin.
        origin: String,
    },
    /// A volume with snapshots is not changed.
    #[error("the volume {name} has snapshots: {}", snapshots.join(", "))]
    HasSnapshots {
        /// The volume.
        name: String,
        /// Their names.
        snapshots: Vec<String>,
    },
    /// A volume that is no classic snapshot.
    #[error("the volume {0} is no snapshot, or not a classic one")]
    NoSnapshot(String),
    /// A snapshot is being merged.
    #[error("the snapshot {name} is being merged into {origin}")]
    Merging {
        /// The snapshot.
        name: String,
        /// Its origin.
        origin: String,
    },
    /// A volume that can have no classic snapshot here.
    #[error(
        "the volume {name} is {kind}: classic snapshots are of linear, striped and RAID volumes"
    )]
    OriginKind {
        /// The volume.
        name: String,
        /// What it is.
        kind: String,
    },
    /// The volume is being changed by LVM, or is hidden.
    #[error("the volume {name} has the status {flag}")]
    Flag {
        /// The volume.
        name: String,
        /// Its flag.
        flag: String,
    },
    /// There are too few free extents.
    #[error("no space: {wanted}, but {}", free_in_words(free))]
    NoSpace {
        /// What was needed.
        wanted: String,
        /// Free extents of each physical volume that may be used.
        free: Vec<FreeCount>,
    },
    /// What a size comes to cannot be.
    #[error("{0}")]
    Size(String),
    /// A physical volume holds volumes.
    #[error("{member} is not empty: the volumes {} use it", volumes.join(", "))]
    MemberInUse {
        /// What it is called.
        member: String,
        /// Volumes with extents on it.
        volumes: Vec<String>,
    },
    /// A volume lies on a physical volume that is missing.
    #[error("the volume {name} lies on the missing disk {member}, last seen as {device}")]
    OnMissing {
        /// The volume.
        name: String,
        /// The physical volume.
        member: String,
        /// Where it was.
        device: String,
    },
    /// No physical volume is missing.
    #[error("no disk of the group {0} is missing")]
    NoneMissing(String),
    /// A group has at least one physical volume.
    #[error("{0} is the last physical volume of the group")]
    LastMember(String),
    /// It cannot be found out which extents are free.
    #[error(
        "the volume {volume} has segments of the unknown type {kind}: which extents are free is not known"
    )]
    UnknownSegment {
        /// The volume.
        volume: String,
        /// The type.
        kind: String,
    },
    /// There is nothing to move.
    #[error("{} on {member}", nothing_in_words(volume.as_deref()))]
    NothingToMove {
        /// The physical volume.
        member: String,
        /// The volume, if extents of only one are to be moved.
        volume: Option<String>,
    },
    /// The extents of a volume cannot be moved: it is part of something that is not known well enough.
    #[error("the volume {volume} cannot be moved: {user} is {kind}")]
    Unmovable {
        /// The volume.
        volume: String,
        /// What it is part of.
        user: String,
        /// What that is.
        kind: String,
    },
    /// The metadata contradict themselves.
    #[error("the metadata are damaged: {0}")]
    Damaged(String),
    /// The new text would not be understood.
    #[error("the new metadata would make no sense: {0}")]
    Text(#[from] VolumeProblem),
}

/// How many extents of a physical volume are free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreeCount {
    /// What it is called.
    pub member: String,
    /// Its free extents.
    pub extents: u64,
}

fn nothing_in_words(volume: Option<&str>) -> String {
    match volume {
        Some(volume) => format!("the volume {volume} has no extent"),
        None => "no volume has an extent".to_owned(),
    }
}

fn free_in_words(free: &[FreeCount]) -> String {
    let all: u64 = free.iter().map(|free| free.extents).sum();
    let each = free.iter().filter(|free| free.extents > 0);
    let each: Vec<String> = each
        .map(|free| format!("{} on {}", free.extents, free.member))
        .collect();
    match (all, each.as_slice()) {
        (0, _) => "no extent is free".to_owned(),
        (1, each) => format!("1 is free ({})", each.join(", ")),
        (all, each) => format!("{all} are free ({})", each.join(", ")),
    }
}
