//! Renaming groups and volumes. Pure.

use super::names::{check_group_name, check_volume_name};
use super::{EditError, GroupEdit, list_section};
use crate::volume::format::text::{Section, TextEntry, TextValue};
use crate::volume::format::{LogicalVolume, SegmentLayout, VolumeSegment};

/// Fields of a `snapshot` segment that name a volume.
const SNAPSHOT_FIELDS: [&str; 3] = ["origin", "cow_store", "merging_store"];

impl GroupEdit {
    /// Gives the group another name.
    ///
    /// # Errors
    /// [`EditError::Name`]
    pub fn rename_group(&mut self, new: &str) -> Result<(), EditError> {
        check_group_name(new)?;
        for volume in self
            .group
            .volumes
            .iter()
            .filter(|volume| volume.is_visible())
        {
            // Names that LVM reserves are its own here: only the length is of interest.
            if let Err(error @ EditError::Name { .. }) = check_volume_name(new, &volume.name)
                && check_volume_name("", &volume.name).is_ok()
            {
                return Err(error);
            }
        }
        let old = self.group.name.clone();
        self.change(|root| {
            root.rename(&old, new);
            Ok(())
        })
    }

    /// Gives a volume another name. Snapshots of it follow, and the images of a volume of RAID; it is refused where other
    /// volumes are made of it.
    ///
    /// # Errors
    /// [`EditError`]: a bad name, or the volume may not be changed.
    pub fn rename_volume(&mut self, name: &str, new: &str) -> Result<(), EditError> {
        if let Some(parts) = self.raid_parts(name)? {
            return self.rename_raid(name, new, &parts);
        }
        self.check_renamable(name)?;
        check_volume_name(&self.group.name, new)?;
        self.refuse_existing(new)?;
        self.change(|root| {
            let volumes = list_section(root, "logical_volumes")?;
            volumes.rename(name, new);
            for (_, volume) in volumes.sections_mut() {
                rename_in_snapshots(volume, name, new);
            }
            Ok(())
        })
    }

    /// Refuses a volume with a name that others have in theirs, or that are made of it in another way than a snapshot.
    fn check_renamable(&self, name: &str) -> Result<(), EditError> {
        let volume = self.volume(name)?;
        let is_snapshot = |user: &&LogicalVolume| {
            let mut segments = user.segments.iter();
            segments.all(|segment| matches!(segment.layout, SegmentLayout::Snapshot { .. }))
        };
        if let Some(other) = self.users(name).find(|user| !is_snapshot(user)) {
            return Err(EditError::InUse {
                name: name.to_owned(),
                user: other.name.clone(),
            });
        }
        // The names of the parts of other volumes begin with theirs.
        let is_plain = |segment: &&VolumeSegment| {
            let layout = &segment.layout;
            let is_striped = matches!(layout, SegmentLayout::Striped { .. });
            is_striped || matches!(layout, SegmentLayout::Error | SegmentLayout::Zero)
        };
        if let Some(parts) = volume.segments.iter().find(|segment| !is_plain(segment)) {
            return Err(EditError::Kind {
                name: name.to_owned(),
                kind: parts.kind.clone(),
            });
        }
        // The store of a snapshot is hidden, and is what users know as the snapshot.
        match self.users(name).next() {
            Some(_) => Ok(()),
            None => self.refuse_flags(volume),
        }
    }
}

fn rename_in_snapshots(volume: &mut Section, name: &str, new: &str) {
    for (_, segment) in volume.sections_mut() {
        if segment.text("type") != Some("snapshot") {
            continue;
        }
        for (field, entry) in segment.entries_mut() {
            if let TextEntry::Value(TextValue::Text(text)) = entry
                && SNAPSHOT_FIELDS.contains(&field)
                && text == name
            {
                new.clone_into(text);
            }
        }
    }
}
