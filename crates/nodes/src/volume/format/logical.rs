//! [`LogicalVolume`]: a volume as the text of its group describes it. Pure.

use super::group::UnknownFlag;
use super::segment::VolumeSegment;
use super::text::Section;
use super::{VolumeProblem, lacks};

/// The status flags of volumes that LVM 2.03 has.
const VOLUME_STATUS: [&str; 9] = [
    "READ",
    "WRITE",
    "FIXED_MINOR",
    "VISIBLE",
    "PVMOVE",
    "LOCKED",
    "NOTSYNCED",
    "REBUILD",
    "WRITEMOSTLY",
];

/// A logical volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogicalVolume {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: String,
    /// `READ`, `WRITE`, `VISIBLE`, `LOCKED`, `PVMOVE`, `NOTSYNCED`, `REBUILD`…
    pub status: Vec<String>,
    /// Flags that another version may ignore: `ACTIVATION_SKIP`, `CACHE_VOL`…
    pub flags: Vec<String>,
    /// Words that a user put on it.
    pub tags: Vec<String>,
    /// When it was made, seconds since 1970, if recorded.
    pub created: Option<u64>,
    /// What it is made of, in order.
    pub segments: Vec<VolumeSegment>,
}

impl LogicalVolume {
    /// Understands a section of `logical_volumes`.
    ///
    /// # Errors
    /// [`VolumeProblem::Lacks`] says what is missing.
    pub(in crate::volume) fn of(name: &str, section: &Section) -> Result<Self, VolumeProblem> {
        let segments = section
            .sections()
            .filter(|(found, _)| found.starts_with("segment"));
        let segments = segments.map(|(found, segment)| {
            VolumeSegment::parse(segment).ok_or_else(|| lacks(format!("{name}/{found}")))
        });
        let mut segments: Vec<VolumeSegment> = segments.collect::<Result<_, _>>()?;
        segments.sort_by_key(|segment| segment.start);
        Ok(Self {
            name: name.to_owned(),
            id: section.text("id").unwrap_or_default().to_owned(),
            status: section.texts("status"),
            flags: section.texts("flags"),
            tags: section.texts("tags"),
            created: section.number("creation_time"),
            segments,
        })
    }

    /// Extents of all segments.
    #[must_use]
    pub fn extents(&self) -> u64 {
        let extents = self.segments.iter().map(|segment| segment.extents);
        extents.fold(0, u64::saturating_add)
    }

    /// Whether `flag` is in its status or its flags.
    #[must_use]
    pub fn has_flag(&self, flag: &str) -> bool {
        let mut all = self.status.iter().chain(&self.flags);
        all.any(|found| found == flag)
    }

    /// The first status flag that this version does not know.
    #[must_use]
    pub fn unknown_flag(&self) -> Option<UnknownFlag> {
        let owner = format!("the volume {}", self.name);
        UnknownFlag::find(owner, &self.status, &VOLUME_STATUS)
    }

    /// Whether users see it.
    #[must_use]
    pub fn is_visible(&self) -> bool {
        self.has_flag("VISIBLE")
    }

    /// Whether it may be written: its status says so.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.has_flag("WRITE") && !self.has_flag("WRITE_LOCKED")
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
