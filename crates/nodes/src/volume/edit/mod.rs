//! Changing a group: its text before, its text after. Pure.
//!
//! ```text
//! group as read ─► GroupEdit::open ─► create_volume, extend, add_member, … ─► finish ─► the text to commit
//! ```
//!
//! # Invariants
//!
//! * Every field that is not changed is kept, also what is not known here.
//! * After each change the text was parsed again, no extent is used twice, and every segment lies on extents there are.
//!   A change that fails leaves the group as it was.
//! * A group that another system may be using is not opened for changes; one that is not complete only for those of
//!   [`PartialGroupEdit`].
//! * Volumes of kinds other than linear, striped and RAID are not touched, nor those that others are made of; those of RAID
//!   are created, renamed, removed and get other sizes with their images, classic snapshots with their linear or striped stores.
//!
//! # What it does not do
//!
//! It writes nothing ([`super::update`] does), and it moves no data ([`super::pvmove`] does): volumes change size at their end only.

mod allocate;
mod error;
mod extents;
mod members;
mod names;
mod partial;
mod pvmove;
mod raid;
mod raid_resize;
mod rename;
mod snapshots;
#[cfg(test)]
mod tests;
mod volumes;

pub use self::error::{EditError, FreeCount};
pub use self::extents::{ExtentRun, UsedRun, free_runs, used_runs};
pub use self::members::{NewGroup, NewGroupMember};
pub use self::names::{check_group_name, check_volume_name};
pub use self::partial::PartialGroupEdit;
pub use self::pvmove::{ExtentMove, MoveRequest, MoveSegment};
pub use self::raid::{NewRaidLevel, NewRaidVolume};
pub use self::snapshots::NewSnapshot;
pub use self::volumes::NewVolume;
use super::format::text::Section;
use super::format::{LogicalVolume, VolumeGroup};

/// Largest sequence number, and most extents of anything: LVM keeps them in 32 bits.
const COUNT_MAX: u64 = u32::MAX as u64;
/// Unit of sizes in the text, bytes.
const SECTOR: u64 = 512;

/// A group that is being changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupEdit {
    group: VolumeGroup,
}

/// What a new text says about its writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditStamp {
    /// When, in seconds since 1970.
    pub seconds: u64,
    /// The machine.
    pub host: String,
    /// By which command.
    pub description: String,
}

impl GroupEdit {
    /// Begins changes of `group`.
    ///
    /// # Errors
    /// [`EditError`] if it may not be changed: it is exported, shared, another system's, read-only, or a physical volume
    /// is missing; or it cannot be kept as it is.
    pub fn open(group: VolumeGroup) -> Result<Self, EditError> {
        if let Some(why) = why_locked(&group).or_else(|| why_incomplete(&group)) {
            return Err(EditError::Locked {
                group: group.name,
                why,
            });
        }
        Self::open_readable(group)
    }

    /// The same where it was found that the group may be changed.
    fn open_readable(group: VolumeGroup) -> Result<Self, EditError> {
        if group.text.sections().count() != 1 {
            let what = "there is more than one group in it".to_owned();
            return Err(EditError::Damaged(what));
        }
        if group.text.print().contains(char::REPLACEMENT_CHARACTER) {
            let what = "there are bytes in it that are not UTF-8".to_owned();
            return Err(EditError::Damaged(what));
        }
        Ok(Self { group })
    }

    /// The same change of a group with metadata that have reached `sequence` meanwhile: its text will have a higher number.
    ///
    /// # Errors
    /// [`EditError`] if the text would not be understood.
    pub fn continue_from(mut self, sequence: u64) -> Result<Self, EditError> {
        let sequence = sequence.max(self.group.sequence);
        self.change(|root| {
            group_section(root)?.set("seqno", number(sequence));
            Ok(())
        })?;
        Ok(self)
    }

    /// The group as it is now.
    #[must_use]
    pub const fn group(&self) -> &VolumeGroup {
        &self.group
    }

    /// The text of the changed group, with the next sequence number.
    ///
    /// # Errors
    /// [`EditError`] if it would not be understood.
    pub fn finish(mut self, stamp: &EditStamp) -> Result<String, EditError> {
        let sequence = self.group.sequence + 1;
        if sequence > COUNT_MAX {
            let what = "its sequence number has reached its end".to_owned();
            return Err(EditError::Damaged(what));
        }
        self.change(|root| {
            group_section(root)?.set("seqno", number(sequence));
            root.remove("creation_host_system_id");
            let (description, host) = (stamp.description.clone(), stamp.host.clone());
            root.set("description", text(description));
            root.set("creation_host", text(host));
            root.set("creation_time", number(stamp.seconds));
            Ok(())
        })?;
        let printed = self.group.text.print();
        if VolumeGroup::of(&printed)? != self.group {
            let what = "it reads differently from what was written".to_owned();
            return Err(EditError::Damaged(what));
        }
        Ok(printed)
    }

    /// Changes the text, or leaves it as it was.
    fn change(
        &mut self,
        change: impl FnOnce(&mut Section) -> Result<(), EditError>,
    ) -> Result<(), EditError> {
        let mut root = self.group.text.clone();
        change(&mut root)?;
        self.group = VolumeGroup::of_section(root)?;
        Ok(())
    }

    /// The same, where extents change.
    fn change_extents(
        &mut self,
        change: impl FnOnce(&mut Section) -> Result<(), EditError>,
    ) -> Result<(), EditError> {
        let before = self.clone();
        let changed = self.change(change).and_then(|()| {
            used_runs(&self.group)?;
            Ok(())
        });
        if changed.is_err() {
            *self = before;
        }
        changed
    }

    fn volume(&self, name: &str) -> Result<&LogicalVolume, EditError> {
        self.group.volume(name).ok_or_else(|| EditError::NoVolume {
            name: name.to_owned(),
            group: self.group.name.clone(),
        })
    }
}

/// Why a group may not be changed as it has a physical volume that is marked as missing.
fn why_incomplete(group: &VolumeGroup) -> Option<String> {
    let missing = group.members.iter().find(|member| member.missing)?;
    let (name, device) = (&missing.name, &missing.device);
    Some(format!(
        "has a missing physical volume: {name}, last seen as {device}"
    ))
}

/// Why a group may not be changed here at all.
fn why_locked(group: &VolumeGroup) -> Option<String> {
    if group.has_flag("EXPORTED") {
        Some("is exported: vgimport takes it in".to_owned())
    } else if let Some(kind) = &group.lock_type {
        Some(format!("is shared by several machines (lock type {kind})"))
    } else if group.has_flag("CLUSTERED") || group.has_flag("SHARED") {
        Some("is shared by several machines".to_owned())
    } else if let Some(system) = &group.system_id {
        Some(format!("belongs to the system {system}"))
    } else if !group.has_flag("WRITE") || group.has_flag("WRITE_LOCKED") {
        Some("is read-only".to_owned())
    } else {
        let unknown = group.unknown_flag()?;
        Some(format!("is not understood: {unknown}"))
    }
}

/// The same of a text that is not changed.
fn group_section_of(root: &Section) -> Option<&Section> {
    root.sections().map(|(_, section)| section).next()
}

/// The section of the group in the whole text.
fn group_section(root: &mut Section) -> Result<&mut Section, EditError> {
    let mut sections = root.sections_mut().map(|(_, section)| section);
    sections.next().ok_or_else(|| lacks("group"))
}

/// The section `name` of the group, which is added if there is none.
fn list_section<'a>(root: &'a mut Section, name: &str) -> Result<&'a mut Section, EditError> {
    let group = group_section(root)?;
    if group.section(name).is_none() {
        group.insert_section_after("physical_volumes", name, Section::default());
    }
    group.section_mut(name).ok_or_else(|| lacks(name))
}

/// The section of a volume.
fn volume_section<'a>(root: &'a mut Section, name: &str) -> Result<&'a mut Section, EditError> {
    let volumes = list_section(root, "logical_volumes")?;
    volumes.section_mut(name).ok_or_else(|| lacks(name))
}

fn lacks(what: &str) -> EditError {
    EditError::Damaged(format!("it has no good `{what}`"))
}

fn number(number: u64) -> super::format::text::TextValue {
    super::format::text::TextValue::number(number)
}

fn text(text: String) -> super::format::text::TextValue {
    super::format::text::TextValue::Text(text)
}
