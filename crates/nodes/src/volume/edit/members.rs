//! Making groups, and adding and removing their physical volumes. Pure.

use super::extents::used_runs;
use super::names::check_group_name;
use super::{COUNT_MAX, EditError, GroupEdit, SECTOR, list_section};
use crate::volume::format::text::{Section, TextValue};
use crate::volume::format::{MEMBERS_MAX, NewLabel, VolumeGroup};

/// Bounds of the size of an extent, bytes.
const EXTENT_MIN: u64 = 4096;
const EXTENT_MAX: u64 = 16 << 30;

/// A group to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewGroup {
    /// Its name.
    pub name: String,
    /// Its id, with dashes.
    pub id: String,
    /// Bytes of an extent.
    pub extent: u64,
}

/// A disk that becomes a physical volume of a group, with the layout of [`NewLabel`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewGroupMember {
    /// Its id, with dashes.
    pub id: String,
    /// Where it is: a hint to readers of the text.
    pub device: String,
    /// Size of the disk, bytes.
    pub size: u64,
}

impl GroupEdit {
    /// A group of these physical volumes, without volumes. Its first text has the sequence number 1.
    ///
    /// # Errors
    /// [`EditError`]: a bad name or size of extents, or a disk that is too small.
    pub fn create_group(new: &NewGroup, members: &[NewGroupMember]) -> Result<Self, EditError> {
        check_group_name(&new.name)?;
        let extent = new.extent;
        if !extent.is_power_of_two() || !(EXTENT_MIN..=EXTENT_MAX).contains(&extent) {
            let what = format!(
                "an extent is a power of two from {EXTENT_MIN} to {EXTENT_MAX} bytes, {extent} is none"
            );
            return Err(EditError::Size(what));
        }
        let status = TextValue::texts(["RESIZEABLE", "READ", "WRITE"]);
        let group = Section::default()
            .with_text("id", &new.id)
            .with_number("seqno", 0)
            .with_text("format", "lvm2")
            .with("status", status)
            .with("flags", TextValue::List(Vec::new()))
            .with_number("extent_size", extent / SECTOR)
            .with_number("max_lv", 0)
            .with_number("max_pv", 0)
            .with_number("metadata_copies", 0);
        let mut root = Section::default();
        root.set_section(&new.name, group);
        let root = root
            .with_text("contents", "Text Format Volume Group")
            .with_number("version", 1)
            .with_text("description", "")
            .with_text("creation_host", "")
            .with_number("creation_time", 0);
        let group = VolumeGroup::of_section(root)?;
        let mut edit = Self { group };
        if members.is_empty() {
            let what = "a group has at least one physical volume".to_owned();
            return Err(EditError::Size(what));
        }
        for member in members {
            edit.add_member(member)?;
        }
        Ok(edit)
    }

    /// Adds a physical volume.
    ///
    /// # Errors
    /// [`EditError`]: it is one already, it is too small, or the group may not grow.
    pub fn add_member(&mut self, new: &NewGroupMember) -> Result<(), EditError> {
        self.refuse_fixed()?;
        if self.group.members.iter().any(|member| member.id == new.id) {
            return Err(EditError::MemberExists(new.device.clone()));
        }
        self.refuse_too_many("max_pv", self.group.members.len(), "physical volumes")?;
        if self.group.members.len() == MEMBERS_MAX {
            let what = format!("a group takes at most {MEMBERS_MAX} physical volumes here");
            return Err(EditError::Size(what));
        }
        let extent = self.group.extent;
        let extents = new.size.saturating_sub(NewLabel::DATA_START) / extent;
        if extents == 0 {
            let what = format!(
                "{} is too small: {} bytes have no room for metadata (1 MiB) and an extent ({extent} bytes)",
                new.device, new.size
            );
            return Err(EditError::Size(what));
        }
        if extents > COUNT_MAX {
            let what = format!(
                "{} is too large for extents of {extent} bytes: at most {COUNT_MAX} are possible",
                new.device
            );
            return Err(EditError::Size(what));
        }
        let member = Section::default()
            .with_text("id", &new.id)
            .with_text("device", &new.device)
            .with("status", TextValue::texts(["ALLOCATABLE"]))
            .with("flags", TextValue::List(Vec::new()))
            .with_number("dev_size", new.size / SECTOR)
            .with_number("pe_start", NewLabel::DATA_START / SECTOR)
            .with_number("pe_count", extents);
        let name = self.free_member_name();
        self.change_extents(|root| {
            list_section(root, "physical_volumes")?.set_section(&name, member);
            Ok(())
        })
    }

    /// Removes the physical volume `name` (`pv0`), which no volume uses.
    ///
    /// # Errors
    /// [`EditError`]: it is used, or the last one.
    pub fn remove_member(&mut self, name: &str) -> Result<(), EditError> {
        self.refuse_fixed()?;
        let member = self.group.member(name);
        let member = member.ok_or_else(|| EditError::NoMember(name.to_owned()))?;
        if self.group.members.len() == 1 {
            return Err(EditError::LastMember(member.device.clone()));
        }
        let used = used_runs(&self.group)?;
        let here = used.iter().filter(|used| used.run.member == name);
        let mut volumes: Vec<String> = here.map(|used| used.volume.to_owned()).collect();
        volumes.sort();
        volumes.dedup();
        if !volumes.is_empty() {
            return Err(EditError::MemberInUse {
                member: member.device.clone(),
                volumes,
            });
        }
        self.change_extents(|root| {
            list_section(root, "physical_volumes")?.remove(name);
            Ok(())
        })
    }

    fn refuse_fixed(&self) -> Result<(), EditError> {
        match self.group.has_flag("RESIZEABLE") {
            true => Ok(()),
            false => Err(EditError::Locked {
                group: self.group.name.clone(),
                why: "is not resizeable: vgchange --resizeable y allows it".to_owned(),
            }),
        }
    }

    /// The first `pvN` that neither a physical volume nor a volume is called.
    fn free_member_name(&self) -> String {
        let is_free =
            |name: &String| self.group.member(name).is_none() && self.group.volume(name).is_none();
        let mut names = (0_u32..).map(|number| format!("pv{number}"));
        let name = names.find(is_free);
        name.expect("a group has fewer names than there are numbers")
    }
}
