//! Creating, renaming and taking apart volumes of RAID: a volume, and the hidden ones with its images. Pure.
//!
//! ```text
//! media            raid1, raids = [ media_rmeta_0, media_rimage_0, media_rmeta_1, media_rimage_1 ]
//! media_rmeta_0    superblock and bitmap of image 0, directly before its data where there is room
//! media_rimage_0   its data
//! ```
//!
//! # Invariants
//!
//! * Each image with its metadata lies on one physical volume, and no two images on the same.
//! * Names, fields and their order are those that LVM 2.03 writes.
//!
//! # What it does not do
//!
//! It clears no metadata: the caller does, before the text is committed ([`super::super::update::clear_raid_metadata`]).
//! Sizes are changed in [`super::raid_resize`].

use std::ops::RangeInclusive;

use super::allocate::{AllocatedRun, AllocationRequest, allocate};
use super::extents::free_counts;
use super::names::{check_part_name, check_volume_name};
use super::volumes::{Striping, checked_extents, count_segments, new_section, push_segments};
use super::{EditError, FreeCount, GroupEdit, NewVolume, SECTOR, list_section};
use crate::volume::format::text::{Section, TextValue};
use crate::volume::format::{LogicalVolume, SegmentLayout};

/// Images of a volume of RAID 1, at most: as with LVM.
const MIRRORS_MAX: usize = 10;
/// Images of a volume of the other levels, at most: as with LVM.
const IMAGES_MAX: usize = 64;
/// Copies of each byte in RAID 10.
const RAID10_COPIES: usize = 2;
/// Regions of a bitmap, at most: device-mapper refuses more.
pub(super) const REGIONS_MAX: u64 = 1 << 21;
/// Bytes of an image's metadata without the bits of its bitmap.
const METADATA_MIN: u64 = 8192;

/// A level of RAID that is created here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewRaidLevel {
    /// Stripes without redundancy.
    Raid0,
    /// All images the same.
    Raid1,
    /// Stripes of which each has two copies.
    Raid10,
    /// Stripes with parity on the first image.
    Raid4,
    /// Stripes with parity, which goes around the images (left-symmetric).
    Raid5,
    /// Stripes with P and Q, which go around the images (zero-restart, as LVM's default is).
    Raid6,
}

/// A volume of RAID to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRaidVolume {
    /// Its name, size and place. Stripes are of no meaning for RAID 1.
    pub volume: NewVolume,
    /// Its level.
    pub level: NewRaidLevel,
    /// Copies of each byte: images of RAID 1, 2 of RAID 10, 1 of the others.
    pub copies: usize,
    /// Bytes for each bit of the bitmaps; less where the volume is smaller, more where it has too many.
    pub region_size: u64,
    /// The images are declared equal, or parity to fit: they are not resynced before the first use.
    pub assume_synced: bool,
}

/// Where an image lies.
#[derive(Debug)]
struct ImagePlace {
    metadata: Vec<AllocatedRun>,
    data: Vec<AllocatedRun>,
}

impl NewRaidLevel {
    /// LVM's name of the type of its segment.
    const fn name(self) -> &'static str {
        match self {
            Self::Raid0 => "raid0",
            Self::Raid1 => "raid1",
            Self::Raid10 => "raid10",
            Self::Raid4 => "raid4",
            Self::Raid5 => "raid5",
            Self::Raid6 => "raid6",
        }
    }

    /// Images with parity.
    const fn parities(self) -> usize {
        match self {
            Self::Raid0 | Self::Raid1 | Self::Raid10 => 0,
            Self::Raid4 | Self::Raid5 => 1,
            Self::Raid6 => 2,
        }
    }

    /// How many copies of each byte there may be.
    const fn copies(self) -> RangeInclusive<usize> {
        match self {
            Self::Raid1 => 2..=MIRRORS_MAX,
            Self::Raid10 => RAID10_COPIES..=RAID10_COPIES,
            Self::Raid0 | Self::Raid4 | Self::Raid5 | Self::Raid6 => 1..=1,
        }
    }

    /// Stripes of a volume, at least: as with LVM. So many it has where nothing says how many.
    #[must_use]
    pub const fn stripes_min(self) -> usize {
        match self {
            Self::Raid1 => 1,
            Self::Raid0 | Self::Raid10 | Self::Raid4 | Self::Raid5 => 2,
            Self::Raid6 => 3,
        }
    }
}

impl NewRaidVolume {
    /// Images of which each holds other data.
    const fn data_images(&self) -> usize {
        match self.level {
            NewRaidLevel::Raid1 => 1,
            _ => self.volume.stripes,
        }
    }

    const fn images(&self) -> usize {
        self.data_images() * self.copies + self.level.parities()
    }

    const fn has_metadata(&self) -> bool {
        !matches!(self.level, NewRaidLevel::Raid0)
    }

    fn check(&self) -> Result<(), EditError> {
        let (level, copies, stripes) = (self.level, self.copies, self.data_images());
        let name = level.name();
        let refused = |what: String| Err(EditError::Size(what));
        if !level.copies().contains(&copies) {
            return refused(match level {
                NewRaidLevel::Raid1 => {
                    format!("{name} has 2 to {MIRRORS_MAX} images, not {copies}")
                }
                NewRaidLevel::Raid10 => {
                    format!("{name} has {RAID10_COPIES} copies of each stripe, not {copies}")
                }
                _ => format!("{name} has no copies, {copies} are wanted"),
            });
        }
        let (min, max) = (
            level.stripes_min(),
            (IMAGES_MAX - level.parities()) / copies,
        );
        if level != NewRaidLevel::Raid1 && !(min..=max).contains(&stripes) {
            return refused(format!("{name} has {min} to {max} stripes, not {stripes}"));
        }
        if level == NewRaidLevel::Raid6 && self.assume_synced {
            return refused(format!(
                "{name} needs its first resync, which computes P and Q"
            ));
        }
        if self.has_metadata() && !self.is_good_region() {
            return refused(format!(
                "a region is a power of two of at least 4096 bytes and a stripe, {} is none",
                self.region_size
            ));
        }
        Ok(())
    }

    fn is_good_region(&self) -> bool {
        let stripe_size = match self.level {
            NewRaidLevel::Raid1 => 0,
            _ => self.volume.stripe_size,
        };
        self.region_size.is_power_of_two()
            && self.region_size >= 4096
            && self.region_size >= stripe_size
    }

    /// The size of a region in a volume of `size` bytes: at most the volume, and not more of them than possible.
    fn region_for(&self, size: u64) -> u64 {
        let mut region = self.region_size;
        if region > size {
            region = 1 << size.max(1).ilog2();
        }
        while size / region > REGIONS_MAX {
            region *= 2;
        }
        region
    }

    /// Extents of each image's metadata in a volume of `extents`.
    fn metadata_extents(&self, extents: u64, extent: u64) -> u64 {
        if !self.has_metadata() {
            return 0;
        }
        let region = self.region_for(extents.saturating_mul(extent));
        metadata_extents(extents, extent, region)
    }
}

/// Extents of an image's metadata in a volume of `extents`, with a bit for each `region_size` bytes; none without regions.
pub(super) const fn metadata_extents(extents: u64, extent: u64, region_size: u64) -> u64 {
    if region_size == 0 {
        return 0;
    }
    let regions = extents.saturating_mul(extent).div_ceil(region_size);
    (METADATA_MIN + regions.div_ceil(8)).div_ceil(extent)
}

impl GroupEdit {
    /// Creates a volume of RAID. `new_id` makes ids for its images. Their metadata have to read as zeroes once the
    /// text counts.
    ///
    /// # Errors
    /// [`EditError`]: a bad name, size or number of images, or no space.
    pub fn create_raid(
        &mut self,
        new: &NewRaidVolume,
        mut new_id: impl FnMut() -> String,
    ) -> Result<(), EditError> {
        new.check()?;
        let volume = &new.volume;
        let name = &volume.name;
        check_volume_name(&self.group.name, name)?;
        self.refuse_existing(name)?;
        self.refuse_too_many("max_lv", self.group.volumes.len(), "volumes")?;
        if new.data_images() > 1 {
            self.check_striping(Striping {
                stripes: volume.stripes,
                stripe_size: volume.stripe_size,
            })?;
        }
        let stripes = new.data_images() as u64;
        let extents = checked_extents(volume.extents.checked_next_multiple_of(stripes))?;
        let metadata = new.metadata_extents(extents, self.group.extent);
        let places = self.place_images(new, metadata, extents / stripes)?;
        let mut parts = Vec::with_capacity(places.len() * 2);
        for (position, place) in places.iter().enumerate() {
            let kinds = [("rimage", &place.data), ("rmeta", &place.metadata)];
            for (kind, runs) in kinds.into_iter().filter(|(_, runs)| !runs.is_empty()) {
                let part = format!("{name}_{kind}_{position}");
                check_part_name(&self.group.name, &part)?;
                self.refuse_existing(&part)?;
                let mut section = new_section(&new_id(), &["READ", "WRITE"], volume);
                let striping = Striping {
                    stripes: 1,
                    stripe_size: 0,
                };
                push_segments(&mut section, 0, striping, runs);
                parts.push((part, section));
            }
        }
        let top = self.raid_section(new, extents);
        self.change_extents(|root| {
            let volumes = list_section(root, "logical_volumes")?;
            volumes.set_section(name, top);
            for (part, section) in parts {
                volumes.set_section(&part, section);
            }
            Ok(())
        })
    }

    /// Extents of the largest volume like `new` that there is room for; 0 if there is none.
    ///
    /// # Errors
    /// [`EditError`]: free extents are not known.
    pub fn largest_raid(&self, new: &NewRaidVolume) -> Result<u64, EditError> {
        let free = self.allowed_runs(&new.volume.on)?;
        let mut counts = free_counts(&free);
        counts.sort_by_key(|count| std::cmp::Reverse(count.extents));
        let smallest = counts.get(new.images().saturating_sub(1));
        let room = smallest.map_or(0, |count| count.extents);
        let stripes = new.data_images() as u64;
        let metadata = new.metadata_extents(room.saturating_mul(stripes), self.group.extent);
        Ok(room.saturating_sub(metadata).saturating_mul(stripes))
    }

    /// A place for each image: of the physical volumes with enough free extents the first.
    fn place_images(
        &self,
        new: &NewRaidVolume,
        metadata: u64,
        data: u64,
    ) -> Result<Vec<ImagePlace>, EditError> {
        let free = self.allowed_runs(&new.volume.on)?;
        let counts = free_counts(&free);
        let needed = metadata + data;
        let enough = counts.iter().filter(|count| count.extents >= needed);
        let members: Vec<&FreeCount> = enough.take(new.images()).collect();
        if members.len() < new.images() {
            let images = new.images();
            return Err(EditError::NoSpace {
                wanted: format!("{needed} extents on each of {images} physical volumes are needed"),
                free: counts,
            });
        }
        let place = |member: &FreeCount| {
            let own = free.iter().filter(|run| run.member == member.member);
            let request = AllocationRequest {
                extents: needed,
                stripes: 1,
                behind: None,
            };
            let runs = allocate(own.cloned().collect(), &request)?;
            let (metadata, data) = split(runs, metadata);
            Ok(ImagePlace { metadata, data })
        };
        members.into_iter().map(place).collect()
    }

    /// The section of the volume itself.
    fn raid_section(&self, new: &NewRaidVolume, extents: u64) -> Section {
        let (name, images) = (&new.volume.name, new.images());
        let mut segment = Section::default()
            .with_number("start_extent", 0)
            .with_number("extent_count", extents)
            .with_text("type", new.level.name());
        let stripe_size = new.volume.stripe_size / SECTOR;
        let names = (0..images).flat_map(|position| {
            let metadata = new
                .has_metadata()
                .then(|| format!("{name}_rmeta_{position}"));
            let data = format!("{name}_rimage_{position}");
            metadata.into_iter().chain([data]).map(TextValue::Text)
        });
        let names = TextValue::List(names.collect());
        let region = new.region_for(extents.saturating_mul(self.group.extent)) / SECTOR;
        segment = match new.level {
            NewRaidLevel::Raid0 => segment
                .with_number("stripe_count", images as u64)
                .with_number("stripe_size", stripe_size)
                .with("raid0_lvs", names),
            NewRaidLevel::Raid1 => segment
                .with_number("device_count", images as u64)
                .with_number("region_size", region)
                .with("raids", names),
            NewRaidLevel::Raid10 => segment
                .with_number("device_count", images as u64)
                .with_number("data_copies", new.copies as u64)
                .with_number("region_size", region)
                .with_number("stripe_size", stripe_size)
                .with("raids", names),
            NewRaidLevel::Raid4 | NewRaidLevel::Raid5 | NewRaidLevel::Raid6 => segment
                .with_number("device_count", images as u64)
                .with_number("region_size", region)
                .with_number("stripe_size", stripe_size)
                .with("raids", names),
        };
        let mut status = vec!["READ", "WRITE", "VISIBLE"];
        if new.assume_synced && new.has_metadata() {
            status.push("NOTSYNCED");
        }
        let mut section = new_section(&new.volume.id, &status, &new.volume);
        section.set_section("segment1", segment);
        count_segments(&mut section);
        section
    }

    /// The volumes with the images of a volume of RAID; `None` if it is something else.
    ///
    /// # Errors
    /// [`EditError`]: it may not be taken apart: something else uses it or an image, LVM is changing one, or an image is no
    /// linear volume.
    pub(super) fn raid_parts(&self, name: &str) -> Result<Option<Vec<String>>, EditError> {
        let volume = self.volume(name)?;
        let [segment] = volume.segments.as_slice() else {
            return Ok(None);
        };
        let SegmentLayout::Raid { images, .. } = &segment.layout else {
            return Ok(None);
        };
        self.refuse_users(name, None)?;
        self.refuse_flags(volume)?;
        let names = images
            .iter()
            .flat_map(|image| image.metadata.iter().chain([&image.data]));
        let names: Vec<String> = names.cloned().collect();
        for part in &names {
            self.check_part(self.volume(part)?, name)?;
        }
        Ok(Some(names))
    }

    /// Refuses an image that is more than a linear volume of `owner`.
    fn check_part(&self, part: &LogicalVolume, owner: &str) -> Result<(), EditError> {
        self.refuse_users(&part.name, Some(owner))?;
        self.refuse_moving(part)?;
        let mut segments = part.segments.iter();
        let other = segments.find(|segment| match &segment.layout {
            SegmentLayout::Striped { areas, .. } => areas
                .iter()
                .any(|area| self.group.member(&area.on).is_none()),
            layout => *layout != SegmentLayout::Error,
        });
        match other {
            None => Ok(()),
            Some(other) => Err(EditError::Kind {
                name: part.name.clone(),
                kind: other.kind.clone(),
            }),
        }
    }

    /// Refuses a volume that others than `owner` are made of.
    fn refuse_users(&self, name: &str, owner: Option<&str>) -> Result<(), EditError> {
        let mut users = self.users(name);
        match users.find(|user| Some(user.name.as_str()) != owner) {
            None => Ok(()),
            Some(user) => Err(EditError::InUse {
                name: name.to_owned(),
                user: user.name.clone(),
            }),
        }
    }

    /// Gives a volume of RAID another name, and its images theirs after it.
    pub(super) fn rename_raid(
        &mut self,
        name: &str,
        new: &str,
        parts: &[String],
    ) -> Result<(), EditError> {
        check_volume_name(&self.group.name, new)?;
        self.refuse_existing(new)?;
        let mut names = Vec::with_capacity(parts.len());
        for part in parts {
            // Parts with other names keep them: LVM finds them by what the segment lists.
            let Some(rest) = part.strip_prefix(name) else {
                continue;
            };
            let renamed = format!("{new}{rest}");
            check_part_name(&self.group.name, &renamed)?;
            self.refuse_existing(&renamed)?;
            names.push((part.clone(), renamed));
        }
        self.change(|root| {
            let volumes = list_section(root, "logical_volumes")?;
            for (old, renamed) in &names {
                volumes.rename(old, renamed);
            }
            volumes.rename(name, new);
            let top = volumes.section_mut(new).ok_or_else(|| super::lacks(new))?;
            for (_, segment) in top.sections_mut() {
                for list in ["raids", "raid0_lvs"] {
                    rename_in_list(segment, list, &names);
                }
            }
            Ok(())
        })
    }
}

/// The first `count` extents of `runs`, and the others.
fn split(runs: Vec<AllocatedRun>, count: u64) -> (Vec<AllocatedRun>, Vec<AllocatedRun>) {
    let (mut first, mut rest, mut left) = (Vec::new(), Vec::new(), count);
    for run in runs {
        let head = run.extents.min(left);
        left -= head;
        let piece = |from: u64, extents: u64| AllocatedRun {
            extents,
            areas: (run.areas.iter())
                .map(|(member, extent)| (member.clone(), extent + from))
                .collect(),
        };
        if head > 0 {
            first.push(piece(0, head));
        }
        if run.extents > head {
            rest.push(piece(head, run.extents - head));
        }
    }
    (first, rest)
}

fn rename_in_list(segment: &mut Section, list: &str, names: &[(String, String)]) {
    let Some(values) = segment.list(list) else {
        return;
    };
    let renamed = values.iter().map(|value| match value {
        TextValue::Text(text) => {
            let new = names.iter().find(|(old, _)| old == text);
            TextValue::Text(new.map_or_else(|| text.clone(), |(_, new)| new.clone()))
        }
        other => other.clone(),
    });
    let renamed = TextValue::List(renamed.collect());
    segment.set(list, renamed);
}
