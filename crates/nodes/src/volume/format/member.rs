//! [`Member`]: a physical volume as the text of its group describes it. Pure; sizes are bytes.

use block::Range;

use super::text::Section;
use super::{VolumeProblem, lacks, sectors};

/// The flag of a physical volume that LVM did not find when it wrote the text.
const MISSING: &str = "MISSING";

/// A physical volume of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// What the text calls it: `pv0`.
    pub name: String,
    /// Its id, which its own header has too.
    pub id: String,
    /// Where it was when the text was written.
    pub device: String,
    /// `ALLOCATABLE`, `EXPORTED`.
    pub status: Vec<String>,
    /// Flags that another version may ignore: `MISSING`.
    pub flags: Vec<String>,
    /// Words that a user put on it.
    pub tags: Vec<String>,
    /// Size of its disk, if recorded; else 0.
    pub size: u64,
    /// Where its extents begin.
    pub start: u64,
    /// How many there are.
    pub extents: u64,
    /// LVM has marked it as missing.
    pub missing: bool,
}

impl Member {
    /// Understands a section of `physical_volumes`.
    ///
    /// # Errors
    /// [`VolumeProblem::Lacks`] says what is missing.
    pub(super) fn of(name: &str, section: &Section) -> Result<Self, VolumeProblem> {
        let lacks = |field: &str| lacks(format!("{name}/{field}"));
        let number = |field: &str| section.number(field).ok_or_else(|| lacks(field));
        let id = section.text("id").ok_or_else(|| lacks("id"))?;
        let start = sectors(number("pe_start")?).ok_or_else(|| lacks("pe_start"))?;
        let (status, flags) = (section.texts("status"), section.texts("flags"));
        let missing = status.iter().chain(&flags).any(|flag| flag == MISSING);
        Ok(Self {
            name: name.to_owned(),
            id: id.to_owned(),
            device: section.text("device").unwrap_or_default().to_owned(),
            status,
            flags,
            tags: section.texts("tags"),
            size: section.number("dev_size").and_then(sectors).unwrap_or(0),
            start,
            extents: number("pe_count")?,
            missing,
        })
    }

    /// Where on its disk `count` extents from `first` on are, with extents of `extent` bytes. `None`: it has no such
    /// extents, or no disk can have them.
    #[must_use]
    pub fn place(&self, first: u64, count: u64, extent: u64) -> Option<Range> {
        let end = first.checked_add(count)?;
        if end > self.extents {
            return None;
        }
        let offset = self.start.checked_add(first.checked_mul(extent)?)?;
        let len = count.checked_mul(extent)?;
        i64::try_from(offset.checked_add(len)?).ok()?;
        Some(Range::new(offset, len))
    }
}
