//! A volume group as its text describes it.

use std::collections::HashSet;

use block::Range;

use super::segment::VolumeSegment;
use super::text::{self, Section};
use super::{MEMBERS_MAX, SECTOR, VolumeProblem};

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
    /// The physical volumes it is made of.
    pub members: Vec<Member>,
    /// Its volumes, those included that only serve others.
    pub volumes: Vec<LogicalVolume>,
}

/// A physical volume of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// What the text calls it: `pv0`.
    pub name: String,
    /// Its id, which its own header has too.
    pub id: String,
    /// Where it was when the text was written.
    pub device: String,
    /// Size of its disk, if recorded.
    pub size: u64,
    /// Where its extents begin.
    pub start: u64,
    /// How many there are.
    pub extents: u64,
    /// LVM has marked it as missing.
    pub missing: bool,
}

/// A logical volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogicalVolume {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: String,
    /// `READ`, `WRITE`, `VISIBLE`…
    pub status: Vec<String>,
    /// What it is made of, in order.
    pub segments: Vec<VolumeSegment>,
}

/// A run of bytes of a physical volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhysicalRange {
    /// Id of the physical volume.
    pub member: String,
    /// Where on its disk.
    pub range: Range,
}

fn lacks(what: impl Into<String>) -> VolumeProblem {
    VolumeProblem::Lacks(what.into())
}

/// A size of `sectors` that fits a disk.
fn size(sectors: u64) -> Option<u64> {
    let bytes = sectors.checked_mul(SECTOR)?;
    i64::try_from(bytes).is_ok().then_some(bytes)
}

impl VolumeGroup {
    /// Understands the text of a group.
    ///
    /// # Errors
    /// [`VolumeProblem`] if it is none.
    pub fn of(text: &str) -> Result<Self, VolumeProblem> {
        let root = text::parse(text)?;
        if root.text("contents") != Some("Text Format Volume Group") {
            return Err(lacks("contents"));
        }
        let (name, group) = root.sections().next().ok_or_else(|| lacks("group"))?;
        let number = |name: &str| group.number(name).ok_or_else(|| lacks(name));
        let extent = number("extent_size")?;
        let extent = size(extent).filter(|size| *size > 0);
        let inner = |name: &str| group.section(name).cloned().unwrap_or_default();
        let members = inner("physical_volumes");
        let volumes = inner("logical_volumes");
        if members.sections().count() > MEMBERS_MAX {
            return Err(lacks("physical_volumes"));
        }
        Ok(Self {
            name: name.to_owned(),
            id: group.text("id").ok_or_else(|| lacks("id"))?.to_owned(),
            sequence: number("seqno")?,
            extent: extent.ok_or_else(|| lacks("extent_size"))?,
            status: group.texts("status"),
            members: members
                .sections()
                .map(|(name, section)| Member::of(name, section))
                .collect::<Result<_, _>>()?,
            volumes: volumes
                .sections()
                .map(|(name, section)| LogicalVolume::of(name, section))
                .collect::<Result<_, _>>()?,
        })
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
            let member = self.members.iter().find(|member| member.name == area.on)?;
            let end = area.extent.checked_add(segment.extents)?;
            if end > member.extents {
                return None;
            }
            let offset = member
                .start
                .checked_add(area.extent.checked_mul(self.extent)?)?;
            let len = segment.extents.checked_mul(self.extent)?;
            offset.checked_add(len)?;
            Some(PhysicalRange {
                member: member.id.clone(),
                range: Range::new(offset, len),
            })
        };
        let pieces: Option<Vec<PhysicalRange>> = volume.segments.iter().map(piece).collect();
        pieces.filter(|pieces| !pieces.is_empty())
    }
}

impl Member {
    fn of(name: &str, section: &Section) -> Result<Self, VolumeProblem> {
        let number = |field: &str| {
            let number = section.number(field);
            number.ok_or_else(|| lacks(format!("{name}/{field}")))
        };
        let id = section
            .text("id")
            .ok_or_else(|| lacks(format!("{name}/id")))?;
        let start = size(number("pe_start")?).ok_or_else(|| lacks(format!("{name}/pe_start")))?;
        let marked = |list: &str| section.texts(list).iter().any(|flag| flag == "MISSING");
        Ok(Self {
            name: name.to_owned(),
            id: id.to_owned(),
            device: section.text("device").unwrap_or_default().to_owned(),
            size: section.number("dev_size").and_then(size).unwrap_or(0),
            start,
            extents: number("pe_count")?,
            missing: marked("flags") || marked("status"),
        })
    }
}

impl LogicalVolume {
    fn of(name: &str, section: &Section) -> Result<Self, VolumeProblem> {
        let segments = section
            .sections()
            .filter(|(found, _)| found.starts_with("segment"));
        let segments = segments.map(|(found, segment)| {
            VolumeSegment::parse(segment).ok_or_else(|| lacks(format!("{name}/{found}")))
        });
        Ok(Self {
            name: name.to_owned(),
            id: section.text("id").unwrap_or_default().to_owned(),
            status: section.texts("status"),
            segments: segments.collect::<Result<_, _>>()?,
        })
    }

    /// Extents of all segments.
    #[must_use]
    pub fn extents(&self) -> u64 {
        let extents = self.segments.iter().map(|segment| segment.extents);
        extents.fold(0, u64::saturating_add)
    }

    /// Whether users see it.
    #[must_use]
    pub fn is_visible(&self) -> bool {
        self.status.iter().any(|status| status == "VISIBLE")
    }

    /// What it is: `linear`, `striped`, `raid5_ls`, `thin-pool`…, of several kinds of segments the
    /// first one's.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self.segments.first() {
            Some(first) if first.linear_area().is_some() => "linear",
            Some(first) => &first.kind,
            None => "empty",
        }
    }
}
