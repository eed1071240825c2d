//! Extending and reducing volumes of RAID: all images equally, and their metadata where the bitmap needs more room. Pure.
//!
//! ```text
//! media            raid5, 8 extents ─► 12 extents
//! media_rimage_0   4 extents ─► 6 extents, on the same physical volume where that has room
//! media_rmeta_0    as before, unless its bitmap outgrows it; never smaller
//! ```
//!
//! # Invariants
//!
//! * All images have the same number of extents before and after, and no two lie on one physical volume.
//! * Only types of which the data stay where they are get another size: with far copies, or while images have room for a
//!   reshape, they would not.
//!
//! # What it does not do
//!
//! It does not touch the metadata of device-mapper, which say what of the volume is in sync: they follow when the volume is
//! opened for writing, here or by the kernel.

use std::collections::HashSet;

use super::allocate::{AllocatedRun, AllocationRequest, allocate};
use super::extents::{ExtentRun, free_counts};
use super::raid::{REGIONS_MAX, metadata_extents};
use super::volumes::{Striping, append_runs, checked_extents, last_stripes, reduce_segments};
use super::{EditError, GroupEdit, volume_section};
use crate::volume::format::text::Section;
use crate::volume::format::{LogicalVolume, RaidImage, SegmentLayout, VolumeSegment};

/// Fields of a segment of RAID that say nothing about where data are.
const KNOWN_FIELDS: [&str; 14] = [
    "start_extent",
    "extent_count",
    "type",
    "tags",
    "device_count",
    "stripe_count",
    "data_copies",
    "region_size",
    "stripe_size",
    "raids",
    "raid0_lvs",
    "writebehind",
    "min_recovery_rate",
    "max_recovery_rate",
];
/// Striping of the images: they are linear.
const LINEAR: Striping = Striping {
    stripes: 1,
    stripe_size: 0,
};

/// A volume of RAID of which the size can be changed.
struct ResizableRaid {
    images: Vec<RaidImage>,
    /// Extents of the volume for each extent of an image.
    stripes: u64,
    /// Extents of the volume.
    extents: u64,
    /// Bytes for each bit of the bitmaps; 0: there are none.
    region_size: u64,
}

/// Extents that a hidden volume gets.
struct PartGrowth<'a> {
    part: &'a str,
    runs: Vec<AllocatedRun>,
}

impl GroupEdit {
    /// Makes a volume of RAID larger by `extents`, rounded up to whole stripes; `false` if it is no volume of RAID. `on`: as
    /// of [`NewVolume`](super::NewVolume). What its metadata get is to be cleared before the text counts.
    pub(super) fn extend_raid(
        &mut self,
        name: &str,
        extents: u64,
        on: &[String],
    ) -> Result<bool, EditError> {
        let Some(raid) = self.resizable_raid(name)? else {
            return Ok(false);
        };
        let extents = checked_extents(extents.checked_next_multiple_of(raid.stripes))?;
        let after = checked_extents(raid.extents.checked_add(extents))?;
        self.check_regions(name, &raid, after)?;
        let metadata = metadata_extents(after, self.group.extent, raid.region_size);
        let growth = self.place_growth(&raid, extents / raid.stripes, metadata, on)?;
        self.change_extents(|root| {
            for PartGrowth { part, runs } in growth {
                append_runs(volume_section(root, part)?, runs)?;
            }
            set_raid_extents(volume_section(root, name)?, after);
            Ok(())
        })?;
        Ok(true)
    }

    /// Makes a volume of RAID smaller: `extents` are left, rounded up to whole stripes; `false` if it is no volume of RAID.
    pub(super) fn reduce_raid(&mut self, name: &str, extents: u64) -> Result<bool, EditError> {
        let Some(raid) = self.resizable_raid(name)? else {
            return Ok(false);
        };
        let after = checked_extents(extents.checked_next_multiple_of(raid.stripes))?;
        let after = after.min(raid.extents);
        self.check_regions(name, &raid, after)?;
        let left = after / raid.stripes;
        let mut kept = Vec::with_capacity(raid.images.len());
        for image in &raid.images {
            kept.push((image.data.as_str(), self.volume(&image.data)?.clone()));
        }
        self.change_extents(|root| {
            for (part, before) in kept {
                reduce_segments(volume_section(root, part)?, &before, left);
            }
            set_raid_extents(volume_section(root, name)?, after);
            Ok(())
        })?;
        Ok(true)
    }

    /// The most extents by which a volume of RAID can be extended; `None` if it is something else.
    ///
    /// # Errors
    /// [`EditError`]: its size cannot be changed.
    pub fn largest_raid_extension(
        &self,
        name: &str,
        on: &[String],
    ) -> Result<Option<u64>, EditError> {
        let Some(raid) = self.resizable_raid(name)? else {
            return Ok(None);
        };
        let free = self.allowed_runs(on)?;
        let free: u64 = free.iter().map(|run| run.count).sum();
        // Rows of extents that have room, and that have none.
        let (mut room, mut none) = (0, free / raid.images.len() as u64 + 1);
        while none - room > 1 {
            let rows = room + (none - room) / 2;
            match self.clone().extend_raid(name, rows * raid.stripes, on) {
                Ok(_) => room = rows,
                Err(EditError::NoSpace { .. } | EditError::Size(_)) => none = rows,
                Err(other) => return Err(other),
            }
        }
        Ok(Some(room * raid.stripes))
    }

    /// A volume of RAID of which the size can be changed; `None` if it is something else.
    fn resizable_raid(&self, name: &str) -> Result<Option<ResizableRaid>, EditError> {
        let volume = self.volume(name)?;
        let [segment] = volume.segments.as_slice() else {
            return Ok(None);
        };
        let SegmentLayout::Raid {
            images,
            region_size,
            data_copies,
            ..
        } = &segment.layout
        else {
            return Ok(None);
        };
        if let Some(refusal) = self.snapshot_refusal(name) {
            return Err(refusal);
        }
        self.raid_parts(name)?;
        let Some(stripes) = data_images(segment, images.len() as u64, *data_copies) else {
            let kind = &segment.kind;
            return Err(fixed_size(name, format!("it is {kind}")));
        };
        let raid = ResizableRaid {
            images: images.clone(),
            stripes,
            extents: segment.extents,
            region_size: *region_size,
        };
        self.check_images(name, &raid)?;
        Ok(Some(raid))
    }

    /// Refuses images that are not linear, lack a disk, or have room for a reshape.
    fn check_images(&self, name: &str, raid: &ResizableRaid) -> Result<(), EditError> {
        let sections = super::group_section_of(&self.group.text)
            .and_then(|group| group.section("logical_volumes")?.section(name));
        let segments = sections.into_iter().flat_map(Section::sections);
        let mut fields = segments.flat_map(|(_, segment)| segment.names());
        if let Some(field) = fields.find(|field| !KNOWN_FIELDS.contains(field)) {
            return Err(fixed_size(name, format!("it has `{field}`")));
        }
        for image in &raid.images {
            let data = self.volume(&image.data)?;
            if data.extents().checked_mul(raid.stripes) != Some(raid.extents) {
                let (has, of) = (data.extents(), &image.data);
                return Err(fixed_size(name, format!("{of} has {has} extents")));
            }
            let metadata = image.metadata.as_ref().map(|name| self.volume(name));
            for part in std::iter::once(data).chain(metadata.transpose()?) {
                if part
                    .segments
                    .iter()
                    .any(|segment| segment.linear_area().is_none())
                {
                    return Err(fixed_size(name, format!("{} is not linear", part.name)));
                }
                if part.has_flag("REBUILD") {
                    return Err(fixed_size(name, format!("{} is to be rebuilt", part.name)));
                }
            }
        }
        Ok(())
    }

    /// Refuses a size for which the regions of the bitmaps are too many, or larger than the volume.
    fn check_regions(&self, name: &str, raid: &ResizableRaid, after: u64) -> Result<(), EditError> {
        let (region, size) = (raid.region_size, after.saturating_mul(self.group.extent));
        if region == 0 || (region <= size && size / region <= REGIONS_MAX) {
            return Ok(());
        }
        Err(EditError::Size(format!(
            "the bitmaps of {name} have regions of {region} bytes, which do not fit {size} bytes: lvconvert --regionsize sets others"
        )))
    }

    /// Free extents for all images: `data` more for each, and as many as its metadata lack.
    fn place_growth<'a>(
        &self,
        raid: &'a ResizableRaid,
        data: u64,
        metadata: u64,
        on: &[String],
    ) -> Result<Vec<PartGrowth<'a>>, EditError> {
        let free = self.allowed_runs(on)?;
        let mut taken: HashSet<String> = HashSet::new();
        for image in &raid.images {
            taken.extend(self.members_of(image)?.into_iter().map(str::to_owned));
        }
        let mut growth = Vec::with_capacity(raid.images.len() * 2);
        for image in &raid.images {
            let own = self.members_of(image)?;
            let mut needs = vec![(image.data.as_str(), data)];
            if let Some(name) = &image.metadata {
                let lacks = metadata.saturating_sub(self.volume(name)?.extents());
                needs.push((name.as_str(), lacks));
            }
            let others = free_counts(&free).into_iter().map(|count| count.member);
            let others = others.filter(|member| !taken.contains(member));
            let candidates = own.iter().map(|member| (*member).to_owned()).chain(others);
            let placed = candidates.into_iter().find_map(|member| {
                let grown = self.place_parts(&free, &member, &needs)?;
                Some((member, grown))
            });
            let Some((member, grown)) = placed else {
                let needed: u64 = needs.iter().map(|(_, extents)| extents).sum();
                let images = raid.images.len();
                return Err(EditError::NoSpace {
                    wanted: format!(
                        "{needed} extents on each of {images} physical volumes are needed, those of the images or others"
                    ),
                    free: free_counts(&free),
                });
            };
            taken.insert(member);
            growth.extend(grown);
        }
        Ok(growth)
    }

    /// Extents of one physical volume for the parts of an image; `None`: it has too few.
    fn place_parts<'a>(
        &self,
        free: &[ExtentRun],
        member: &str,
        needs: &[(&'a str, u64)],
    ) -> Option<Vec<PartGrowth<'a>>> {
        let own = free.iter().filter(|run| run.member == member);
        let mut own: Vec<ExtentRun> = own.cloned().collect();
        let mut growth = Vec::with_capacity(needs.len());
        for (part, extents) in needs.iter().filter(|(_, extents)| *extents > 0) {
            let (_, behind) = last_stripes(self.group.volume(part)?).ok()?;
            let request = AllocationRequest {
                extents: *extents,
                stripes: LINEAR.stripes,
                behind: Some(behind).filter(|behind| behind[0].0 == member),
            };
            let runs = allocate(own.clone(), &request).ok()?;
            for run in &runs {
                super::allocate::take(&mut own, run.areas.clone(), run.extents);
            }
            growth.push(PartGrowth { part, runs });
        }
        Some(growth)
    }

    /// The physical volumes that an image lies on, that of its last extents first.
    fn members_of(&self, image: &RaidImage) -> Result<Vec<&str>, EditError> {
        let mut parts = vec![self.volume(&image.data)?];
        if let Some(metadata) = &image.metadata {
            parts.push(self.volume(metadata)?);
        }
        let segments = |part: &&LogicalVolume| part.segments.len();
        let mut members: Vec<&str> = Vec::with_capacity(parts.iter().map(segments).sum());
        let areas = parts.iter().flat_map(|part| part.segments.iter().rev());
        for area in areas.flat_map(VolumeSegment::areas) {
            if !members.contains(&area.on.as_str()) {
                members.push(&area.on);
            }
        }
        Ok(members)
    }
}

/// How many images of a segment hold other data, if those stay where they are when images grow; `None`: they do not.
fn data_images(segment: &VolumeSegment, images: u64, copies: Option<u64>) -> Option<u64> {
    let data = match segment.kind.as_str() {
        "raid0" | "raid0_meta" => images,
        "raid1" => 1,
        "raid4" => images.checked_sub(1)?,
        "raid10" | "raid10_near" => {
            let copies = copies.unwrap_or(2);
            (copies > 0 && images.is_multiple_of(copies)).then(|| images / copies)?
        }
        kind if kind.starts_with("raid5") => images.checked_sub(1)?,
        kind if kind.starts_with("raid6") => images.checked_sub(2)?,
        _ => return None,
    };
    (data > 0).then_some(data)
}

fn fixed_size(name: &str, why: String) -> EditError {
    EditError::FixedSize {
        name: name.to_owned(),
        why,
    }
}

/// Sets the extents of the only segment of a volume.
fn set_raid_extents(volume: &mut Section, extents: u64) {
    for (_, segment) in volume.sections_mut() {
        segment.set("extent_count", super::number(extents));
    }
}
