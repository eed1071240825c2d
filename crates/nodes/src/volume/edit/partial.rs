//! [`PartialGroupEdit`]: what may be changed of a group while physical volumes are missing. Pure.
//!
//! # Invariants
//!
//! * A volume that has an extent on a missing physical volume stays, as does everything that is made of it or needs it.
//! * Only a missing physical volume without volumes is taken out of the group.

use super::extents::used_runs;
use super::{EditError, EditStamp, GroupEdit, why_locked};
use crate::volume::format::VolumeGroup;

/// Changes of a group of which physical volumes are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartialGroupEdit {
    edit: GroupEdit,
    /// Names of the missing ones (`pv0`).
    missing: Vec<String>,
}

impl PartialGroupEdit {
    /// Begins changes of `group`, of which the physical volumes `missing` are not there; those that the text marks as missing
    /// are not, either.
    ///
    /// # Errors
    /// As of [`GroupEdit::open`], but for the physical volumes.
    pub fn open(group: VolumeGroup, mut missing: Vec<String>) -> Result<Self, EditError> {
        if let Some(why) = why_locked(&group) {
            let group = group.name;
            return Err(EditError::Locked { group, why });
        }
        let marked = group.members.iter().filter(|member| member.missing);
        missing.extend(marked.map(|member| member.name.clone()));
        missing.sort();
        missing.dedup();
        let edit = GroupEdit::open_readable(group)?;
        Ok(Self { edit, missing })
    }

    /// The group as it is now.
    #[must_use]
    pub const fn group(&self) -> &VolumeGroup {
        self.edit.group()
    }

    /// Removes a volume that does not lie on a missing physical volume.
    ///
    /// # Errors
    /// As of [`GroupEdit::remove`], or [`EditError::OnMissing`].
    pub fn remove(&mut self, name: &str) -> Result<(), EditError> {
        let before = self.edit.clone();
        self.edit.remove(name)?;
        let used = used_runs(before.group())?;
        let after = self.edit.group();
        let mut lost = used.iter().filter(|used| {
            after.volume(used.volume).is_none() && self.missing.contains(&used.run.member)
        });
        let Some(lost) = lost.next() else {
            return Ok(());
        };
        let member = before.group().member(&lost.run.member);
        let refused = EditError::OnMissing {
            name: name.to_owned(),
            member: lost.run.member.clone(),
            device: member.map_or_else(String::new, |member| member.device.clone()),
        };
        self.edit = before;
        Err(refused)
    }

    /// Takes all missing physical volumes out of the group, and returns their names.
    ///
    /// # Errors
    /// [`EditError`]: none is missing, or volumes lie on one.
    pub fn remove_missing(&mut self) -> Result<Vec<String>, EditError> {
        if self.missing.is_empty() {
            return Err(EditError::NoneMissing(self.group().name.clone()));
        }
        let before = self.edit.clone();
        for member in &self.missing {
            if let Err(refused) = self.edit.remove_member(member) {
                self.edit = before;
                return Err(refused);
            }
        }
        Ok(self.missing.clone())
    }

    /// As [`GroupEdit::finish`].
    ///
    /// # Errors
    /// As there.
    pub fn finish(self, stamp: &EditStamp) -> Result<String, EditError> {
        self.edit.finish(stamp)
    }

    /// The edit, for what writes one.
    #[must_use]
    pub fn into_edit(self) -> GroupEdit {
        self.edit
    }
}
