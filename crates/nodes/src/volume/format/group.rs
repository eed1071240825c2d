//! [`VolumeGroup`]: a volume group as its text describes it. Pure.
//!
//! # Invariants
//!
//! * [`VolumeGroup::text`] is the whole text, also what is not understood: a writer keeps it.
//! * No two members and no two volumes have one name.

use std::collections::HashSet;
use std::fmt;

use block::Range;

use super::logical::LogicalVolume;
use super::member::Member;
use super::segment::VolumeSegment;
use super::text::{self, Section};
use super::{MEMBERS_MAX, VolumeProblem, lacks, sectors};

/// The status flags of groups and members that LVM 2.03 has. One that is not among them may forbid what is about to be
/// done.
const GROUP_STATUS: [&str; 8] = [
    "EXPORTED",
    "RESIZEABLE",
    "PVMOVE",
    "READ",
    "WRITE",
    "CLUSTERED",
    "SHARED",
    "PARTIAL",
];
const MEMBER_STATUS: [&str; 3] = ["ALLOCATABLE", "EXPORTED", "MISSING"];

/// A volume group. Sizes are bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeGroup {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: String,
    /// Counts changes of this text.
    pub sequence: u64,
    /// Size of an extent.
    pub extent: u64,
    /// `RESIZEABLE`, `READ`, `WRITE`, `EXPORTED`, `CLUSTERED`…
    pub status: Vec<String>,
    /// Flags that another version may ignore.
    pub flags: Vec<String>,
    /// Words that a user put on it.
    pub tags: Vec<String>,
    /// The one system that uses it.
    pub system_id: Option<String>,
    /// How several systems share it: `sanlock`, `dlm`…
    pub lock_type: Option<String>,
    /// The physical volumes it is made of.
    pub members: Vec<Member>,
    /// Its volumes, those included that only serve others.
    pub volumes: Vec<LogicalVolume>,
    /// The whole text.
    pub text: Section,
}

/// A run of bytes of a physical volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhysicalRange {
    /// Id of the physical volume.
    pub member: String,
    /// Where on its disk.
    pub range: Range,
}

/// A status flag that this version does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownFlag {
    /// What has it: `the group`, `physical volume pv0`, `the volume media`.
    pub owner: String,
    /// The flag.
    pub flag: String,
}

impl UnknownFlag {
    /// The first flag of `status` that is not among `known`.
    pub(super) fn find(owner: String, status: &[String], known: &[&str]) -> Option<Self> {
        let flag = status.iter().find(|flag| !known.contains(&flag.as_str()))?;
        let flag = flag.clone();
        Some(Self { owner, flag })
    }
}

impl fmt::Display for UnknownFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has the unknown status {}", self.owner, self.flag)
    }
}

/// Refuses two of one name.
fn check_unique<'a>(
    list: &str,
    mut names: impl Iterator<Item = &'a str>,
) -> Result<(), VolumeProblem> {
    let mut found = HashSet::new();
    match names.find(|name| !found.insert(*name)) {
        Some(name) => Err(VolumeProblem::Duplicate(format!("{list}/{name}"))),
        None => Ok(()),
    }
}

impl VolumeGroup {
    /// Understands the text of a group.
    ///
    /// # Errors
    /// [`VolumeProblem`] if it is none.
    pub fn of(text: &str) -> Result<Self, VolumeProblem> {
        Self::of_section(text::parse(text)?)
    }

    /// Understands the text of a group that was parsed.
    ///
    /// # Errors
    /// [`VolumeProblem`] if it is none.
    pub fn of_section(root: Section) -> Result<Self, VolumeProblem> {
        if root.text("contents") != Some("Text Format Volume Group") {
            return Err(lacks("contents"));
        }
        let (name, group) = root.sections().next().ok_or_else(|| lacks("group"))?;
        let number = |name: &str| group.number(name).ok_or_else(|| lacks(name));
        let text = |name: &str| group.text(name).map(str::to_owned);
        let extent = sectors(number("extent_size")?).filter(|size| *size > 0);
        let empty = Section::default();
        let inner = |name: &str| group.section(name).unwrap_or(&empty);
        let (members, volumes) = (inner("physical_volumes"), inner("logical_volumes"));
        if members.sections().count() > MEMBERS_MAX {
            return Err(lacks("physical_volumes"));
        }
        check_unique("physical_volumes", members.sections().map(|(name, _)| name))?;
        check_unique("logical_volumes", volumes.sections().map(|(name, _)| name))?;
        let members = members
            .sections()
            .map(|(name, section)| Member::of(name, section));
        let volumes = volumes
            .sections()
            .map(|(name, section)| LogicalVolume::of(name, section));
        Ok(Self {
            name: name.to_owned(),
            id: text("id").ok_or_else(|| lacks("id"))?,
            sequence: number("seqno")?,
            extent: extent.ok_or_else(|| lacks("extent_size"))?,
            status: group.texts("status"),
            flags: group.texts("flags"),
            tags: group.texts("tags"),
            system_id: text("system_id").filter(|id| !id.is_empty()),
            lock_type: text("lock_type").filter(|kind| kind != "none" && !kind.is_empty()),
            members: members.collect::<Result<_, _>>()?,
            volumes: volumes.collect::<Result<_, _>>()?,
            text: root,
        })
    }

    /// The member that the text calls `name`.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }

    /// The volume `name`.
    #[must_use]
    pub fn volume(&self, name: &str) -> Option<&LogicalVolume> {
        self.volumes.iter().find(|volume| volume.name == name)
    }

    /// Whether `flag` is in its status or its flags.
    #[must_use]
    pub fn has_flag(&self, flag: &str) -> bool {
        let mut all = self.status.iter().chain(&self.flags);
        all.any(|found| found == flag)
    }

    /// The first status flag of the group and its members that this version does not know. Unknown flags that are not
    /// status may be ignored.
    #[must_use]
    pub fn unknown_flag(&self) -> Option<UnknownFlag> {
        let member = |member: &Member| {
            let owner = format!("physical volume {}", member.name);
            UnknownFlag::find(owner, &member.status, &MEMBER_STATUS)
        };
        UnknownFlag::find("the group".to_owned(), &self.status, &GROUP_STATUS)
            .or_else(|| self.members.iter().find_map(member))
    }

    /// Bytes of `extents`; as many as there can be where that is more.
    #[must_use]
    pub const fn bytes(&self, extents: u64) -> u64 {
        self.extent.saturating_mul(extents)
    }

    /// Bytes of all members.
    #[must_use]
    pub fn size(&self) -> u64 {
        let extents = self.members.iter().map(|member| member.extents);
        self.bytes(extents.fold(0, u64::saturating_add))
    }

    /// Bytes that no volume uses.
    #[must_use]
    pub fn free(&self) -> u64 {
        let segments = self.volumes.iter().flat_map(|volume| &volume.segments);
        let names: HashSet<&str> = self.members.iter().map(|m| m.name.as_str()).collect();
        let used = segments.map(|segment| segment.used_extents(|name| names.contains(name)));
        let used = self.bytes(used.fold(0, u64::saturating_add));
        self.size().saturating_sub(used)
    }

    /// Where the bytes of a volume are, in order, if they merely lie on physical volumes one run
    /// behind the other. `None`: they are striped, mirrored or made of other volumes.
    #[must_use]
    pub fn pieces(&self, volume: &LogicalVolume) -> Option<Vec<PhysicalRange>> {
        let mut next = 0;
        let piece = |segment: &VolumeSegment| {
            let area = segment.linear_area()?;
            if segment.start != next || segment.extents == 0 {
                return None;
            }
            next = segment.start.checked_add(segment.extents)?;
            let member = self.member(&area.on)?;
            Some(PhysicalRange {
                member: member.id.clone(),
                range: member.place(area.extent, segment.extents, self.extent)?,
            })
        };
        let pieces: Option<Vec<PhysicalRange>> = volume.segments.iter().map(piece).collect();
        pieces.filter(|pieces| !pieces.is_empty())
    }
}
