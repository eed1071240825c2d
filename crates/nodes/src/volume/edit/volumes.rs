//! Creating, extending, reducing and removing volumes; those of RAID: [`super::raid`], [`super::raid_resize`]. Pure.

use super::allocate::{AllocatedRun, AllocationRequest, allocate};
use super::extents::{ExtentRun, free_runs};
use super::names::check_volume_name;
use super::{COUNT_MAX, EditError, GroupEdit, SECTOR, list_section, number, volume_section};
use crate::volume::format::text::{Section, TextValue};
use crate::volume::format::{LogicalVolume, SegmentArea, SegmentLayout};

/// Most stripes of a volume, as with LVM.
const STRIPES_MAX: usize = 128;
/// Bounds of the size of a stripe, bytes; LVM takes powers of two of at least a page.
const STRIPE_SIZE_MIN: u64 = 4096;

/// A volume to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVolume {
    /// Its name.
    pub name: String,
    /// Its id, with dashes.
    pub id: String,
    /// Extents. Of a striped volume they are rounded up to whole stripes.
    pub extents: u64,
    /// On how many physical volumes at once it lies; 1 for linear.
    pub stripes: usize,
    /// Bytes of one stripe; of no meaning with one.
    pub stripe_size: u64,
    /// Names of the physical volumes (`pv0`) that may be used; all if empty.
    pub on: Vec<String>,
    /// When it is created, in seconds since 1970.
    pub seconds: u64,
    /// On which machine.
    pub host: String,
}

/// What the stripes of a segment are like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Striping {
    pub(super) stripes: usize,
    /// Bytes.
    pub(super) stripe_size: u64,
}

impl GroupEdit {
    /// Creates a linear or striped volume.
    ///
    /// # Errors
    /// [`EditError`]: a bad name or size, or no space.
    pub fn create_volume(&mut self, new: &NewVolume) -> Result<(), EditError> {
        check_volume_name(&self.group.name, &new.name)?;
        self.refuse_existing(&new.name)?;
        self.refuse_too_many("max_lv", self.group.volumes.len(), "volumes")?;
        let striping = Striping {
            stripes: new.stripes,
            stripe_size: new.stripe_size,
        };
        self.check_striping(striping)?;
        let stripes = new.stripes as u64;
        let extents = checked_extents(new.extents.checked_next_multiple_of(stripes))?;
        let request = AllocationRequest {
            extents,
            stripes: new.stripes,
            behind: None,
        };
        let runs = self.allocate(&request, &new.on)?;
        let mut section = new_section(&new.id, &["READ", "WRITE", "VISIBLE"], new);
        push_segments(&mut section, 0, striping, &runs);
        self.change_extents(|root| {
            list_section(root, "logical_volumes")?.set_section(&new.name, section);
            Ok(())
        })
    }

    /// Makes a volume larger by `extents`, in the stripes of its last segment, or in all images of RAID; they are rounded up
    /// to whole stripes. `on`: as of [`NewVolume`]. What the metadata of images get has to read as zeroes once the text
    /// counts.
    ///
    /// # Errors
    /// [`EditError`]: the volume may not be changed, or no space.
    pub fn extend(&mut self, name: &str, extents: u64, on: &[String]) -> Result<(), EditError> {
        if self.extend_raid(name, extents, on)? {
            return Ok(());
        }
        self.changeable(name)?;
        self.grow(name, extents, on)
    }

    /// The same for a volume of which the caller has found that it may be changed.
    pub(super) fn grow(
        &mut self,
        name: &str,
        extents: u64,
        on: &[String],
    ) -> Result<(), EditError> {
        let volume = self.volume(name)?;
        let (striping, behind) = last_stripes(volume)?;
        let start = volume.extents();
        let stripes = striping.stripes as u64;
        let extents = checked_extents(extents.checked_next_multiple_of(stripes))?;
        checked_extents(start.checked_add(extents))?;
        let allowed = |member: &String| on.is_empty() || on.contains(member);
        let request = AllocationRequest {
            extents,
            stripes: striping.stripes,
            behind: behind
                .iter()
                .all(|(member, _)| allowed(member))
                .then(|| behind.clone()),
        };
        let runs = self.allocate(&request, on)?;
        self.change_extents(|root| append_runs(volume_section(root, name)?, runs))
    }

    /// Makes a volume smaller: `extents` are left. In a striped segment, and of RAID, they are rounded up to whole stripes.
    ///
    /// # Errors
    /// [`EditError`]: the volume may not be changed, or is not larger.
    pub fn reduce(&mut self, name: &str, extents: u64) -> Result<(), EditError> {
        let has = self.volume(name)?.extents();
        if extents == 0 {
            let what = format!("the volume {name} cannot have no extent: remove it");
            return Err(EditError::Size(what));
        }
        if extents >= has {
            let what =
                format!("the volume {name} has {has} extents, it cannot be reduced to {extents}");
            return Err(EditError::Size(what));
        }
        if self.reduce_raid(name, extents)? {
            return Ok(());
        }
        let before = self.changeable(name)?.clone();
        self.change_extents(|root| {
            reduce_segments(volume_section(root, name)?, &before, extents);
            Ok(())
        })
    }

    /// Removes a volume, of RAID with its images: its extents are free.
    ///
    /// # Errors
    /// [`EditError`]: the volume may not be changed.
    pub fn remove(&mut self, name: &str) -> Result<(), EditError> {
        let parts = match self.raid_parts(name)? {
            Some(parts) => parts,
            None => self.changeable(name).map(|_| Vec::new())?,
        };
        let parts = parts.iter().map(String::as_str);
        let names: Vec<&str> = std::iter::once(name).chain(parts).collect();
        self.change_extents(|root| remove_volumes(root, &names))
    }

    /// A volume that may be changed: linear or striped, and no other is made of it.
    pub(super) fn changeable(&self, name: &str) -> Result<&LogicalVolume, EditError> {
        let volume = self.volume(name)?;
        self.refuse_moving(volume)?;
        if let Some(refusal) = self.snapshot_refusal(name) {
            return Err(refusal);
        }
        let user = self.users(name).next();
        if let Some(user) = user {
            return Err(EditError::InUse {
                name: name.to_owned(),
                user: user.name.clone(),
            });
        }
        self.refuse_kind(volume)?;
        self.refuse_flags(volume)?;
        Ok(volume)
    }

    /// Refuses a volume that is not linear or striped on physical volumes.
    pub(super) fn refuse_kind(&self, volume: &LogicalVolume) -> Result<(), EditError> {
        let on_member = |area: &SegmentArea| self.group.member(&area.on).is_some();
        let mut segments = volume.segments.iter();
        let other = segments.find(|segment| match &segment.layout {
            SegmentLayout::Striped { areas, .. } => !areas.iter().all(on_member),
            SegmentLayout::Error | SegmentLayout::Zero => false,
            _ => true,
        });
        match other {
            None => Ok(()),
            Some(other) => Err(EditError::Kind {
                name: volume.name.clone(),
                kind: other.kind.clone(),
            }),
        }
    }

    /// Volumes that are made of the volume `name`, or are its snapshots.
    pub(super) fn users<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a LogicalVolume> {
        let volumes = self.group.volumes.iter();
        volumes.filter(move |volume| {
            let mut segments = volume.segments.iter();
            segments.any(|segment| {
                segment.references().contains(&name) || segment.origin() == Some(name)
            })
        })
    }

    /// Refuses a volume that is hidden, or that LVM is changing.
    pub(super) fn refuse_flags(&self, volume: &LogicalVolume) -> Result<(), EditError> {
        self.refuse_moving(volume)?;
        match volume.is_visible() {
            true => Ok(()),
            false => Err(flag_error(volume, "hidden")),
        }
    }

    /// Refuses a volume that LVM is changing: its extents are being moved.
    pub(super) fn refuse_moving(&self, volume: &LogicalVolume) -> Result<(), EditError> {
        let mut flags = ["LOCKED", "PVMOVE"].into_iter();
        match flags.find(|flag| volume.has_flag(flag)) {
            Some(flag) => Err(flag_error(volume, flag)),
            None => Ok(()),
        }
    }

    pub(super) fn refuse_existing(&self, name: &str) -> Result<(), EditError> {
        let mut sections = self.group.text.sections().map(|(_, section)| section);
        let group = sections.next();
        let removed = group.and_then(|group| group.section("historical_logical_volumes"));
        let was = removed.is_some_and(|removed| removed.section(name).is_some());
        // A physical volume of the same name would be taken for it in segments.
        let is_member = self.group.member(name).is_some();
        match self.group.volume(name).is_some() || was || is_member {
            true => Err(EditError::Exists(name.to_owned())),
            false => Ok(()),
        }
    }

    /// Refuses one more where the group has a limit.
    pub(super) fn refuse_too_many(
        &self,
        limit: &str,
        count: usize,
        what: &str,
    ) -> Result<(), EditError> {
        let mut sections = self.group.text.sections().map(|(_, section)| section);
        let max = sections.next().and_then(|group| group.number(limit));
        match max.unwrap_or(0) {
            0 => Ok(()),
            max if (count as u64) < max => Ok(()),
            max => {
                let what = format!("the group takes at most {max} {what}");
                Err(EditError::Size(what))
            }
        }
    }

    pub(super) fn check_striping(&self, striping: Striping) -> Result<(), EditError> {
        let Striping {
            stripes,
            stripe_size,
        } = striping;
        if stripes == 0 || stripes > STRIPES_MAX {
            let what = format!("a volume has 1 to {STRIPES_MAX} stripes, not {stripes}");
            return Err(EditError::Size(what));
        }
        let is_good = stripe_size.is_power_of_two()
            && (STRIPE_SIZE_MIN..=self.group.extent).contains(&stripe_size);
        if stripes > 1 && !is_good {
            let what = format!(
                "a stripe is a power of two from {STRIPE_SIZE_MIN} bytes to an extent ({}), {stripe_size} is none",
                self.group.extent
            );
            return Err(EditError::Size(what));
        }
        Ok(())
    }

    /// Chooses free extents of the physical volumes that may be used.
    fn allocate(
        &self,
        request: &AllocationRequest,
        on: &[String],
    ) -> Result<Vec<AllocatedRun>, EditError> {
        allocate(self.allowed_runs(on)?, request)
    }

    /// Free extents of the physical volumes that may be used, in the order of `on` if that names any.
    pub(super) fn allowed_runs(&self, on: &[String]) -> Result<Vec<ExtentRun>, EditError> {
        if let Some(unknown) = on.iter().find(|name| self.group.member(name).is_none()) {
            return Err(EditError::NoMember(unknown.clone()));
        }
        let may_use = |run: &ExtentRun| {
            let member = self.group.member(&run.member);
            let is_allocatable = member
                .is_some_and(|member| member.status.iter().any(|status| status == "ALLOCATABLE"));
            is_allocatable && (on.is_empty() || on.contains(&run.member))
        };
        let mut free = free_runs(&self.group)?;
        free.retain(may_use);
        // In the order of `on`, which is the user's.
        let rank = |run: &ExtentRun| on.iter().position(|name| *name == run.member);
        free.sort_by_key(rank);
        Ok(free)
    }
}

/// Takes the sections of these volumes out.
pub(super) fn remove_volumes(root: &mut Section, names: &[&str]) -> Result<(), EditError> {
    let list = list_section(root, "logical_volumes")?;
    for name in names {
        list.remove(name);
    }
    // LVM writes no empty list.
    let group = super::group_section(root)?;
    let volumes = group.section("logical_volumes");
    if volumes.is_some_and(|volumes| volumes.entries().next().is_none()) {
        group.remove("logical_volumes");
    }
    Ok(())
}

pub(super) fn checked_extents(extents: Option<u64>) -> Result<u64, EditError> {
    match extents {
        Some(0) => Err(EditError::Size(
            "a volume has at least one extent".to_owned(),
        )),
        Some(extents) if extents <= COUNT_MAX => Ok(extents),
        _ => {
            let what = format!("a volume has at most {COUNT_MAX} extents");
            Err(EditError::Size(what))
        }
    }
}

fn flag_error(volume: &LogicalVolume, flag: &str) -> EditError {
    EditError::Flag {
        name: volume.name.clone(),
        flag: flag.to_owned(),
    }
}

/// The stripes of the last segment, and the extents behind it.
pub(super) fn last_stripes(
    volume: &LogicalVolume,
) -> Result<(Striping, Vec<(String, u64)>), EditError> {
    let last = volume.segments.last();
    let Some((last, SegmentLayout::Striped { stripe_size, areas })) =
        last.map(|last| (last, &last.layout))
    else {
        return Err(EditError::Kind {
            name: volume.name.clone(),
            kind: volume.kind().to_owned(),
        });
    };
    let each = last.extents / (areas.len() as u64).max(1);
    let behind = areas
        .iter()
        .map(|area| (area.on.clone(), area.extent + each));
    let striping = Striping {
        stripes: areas.len(),
        stripe_size: *stripe_size,
    };
    Ok((striping, behind.collect()))
}

/// The section of a new volume, or of a part of one, with this id and no segments.
pub(super) fn new_section(id: &str, status: &[&str], new: &NewVolume) -> Section {
    Section::default()
        .with_text("id", id)
        .with("status", TextValue::texts(status.iter().copied()))
        .with("flags", TextValue::List(Vec::new()))
        .with_number("creation_time", new.seconds)
        .with_text("creation_host", &new.host)
        .with_number("segment_count", 0)
}

fn segments(volume: &Section) -> impl Iterator<Item = (&str, &Section)> {
    let sections = volume.sections();
    sections.filter(|(name, _)| name.starts_with("segment"))
}

/// The segment of a volume that is behind the others.
fn last_segment(volume: &mut Section) -> Option<&mut Section> {
    let start = |section: &Section| section.number("start_extent");
    let last = segments(volume).max_by_key(|(_, section)| start(section));
    let name = last.map(|(name, _)| name.to_owned())?;
    volume.section_mut(&name)
}

/// Adds segments from extent `start` of the volume on.
pub(super) fn push_segments(
    volume: &mut Section,
    start: u64,
    striping: Striping,
    runs: &[AllocatedRun],
) {
    let mut start = start;
    for run in runs {
        let mut segment = Section::default()
            .with_number("start_extent", start)
            .with_number("extent_count", run.extents)
            .with_text("type", "striped")
            .with_number("stripe_count", run.areas.len() as u64);
        if striping.stripes > 1 {
            let sectors = striping.stripe_size / SECTOR;
            segment = segment.with_number("stripe_size", sectors);
        }
        let areas = run.areas.iter().flat_map(|(member, extent)| {
            [TextValue::Text(member.clone()), TextValue::number(*extent)]
        });
        let segment = segment.with("stripes", TextValue::List(areas.collect()));
        volume.set_section(&free_segment_name(volume), segment);
        start += run.extents;
    }
    count_segments(volume);
}

/// The first name that no segment of the volume has.
fn free_segment_name(volume: &Section) -> String {
    let mut names = (1_u32..).map(|number| format!("segment{number}"));
    let free = names.find(|name| volume.section(name).is_none());
    free.expect("a volume has fewer segments than there are numbers")
}

/// Adds extents at the end of a volume that is linear or striped. What begins where the last segment ends is part of it.
pub(super) fn append_runs(
    volume: &mut Section,
    mut runs: Vec<AllocatedRun>,
) -> Result<(), EditError> {
    let parsed = LogicalVolume::of("", volume)?;
    let (striping, behind) = last_stripes(&parsed)?;
    let mut start = parsed.extents();
    if runs.first().is_some_and(|run| run.areas == behind) {
        let run = runs.remove(0);
        start += run.extents;
        let last = last_segment(volume).ok_or_else(|| super::lacks("segment1"))?;
        let count = last.number("extent_count").unwrap_or(0) + run.extents;
        last.set("extent_count", number(count));
    }
    push_segments(volume, start, striping, &runs);
    Ok(())
}

/// Leaves the first `extents` of a volume that is linear or striped, in its text before.
pub(super) fn reduce_segments(volume: &mut Section, before: &LogicalVolume, extents: u64) {
    for segment in &before.segments {
        let stripes = (segment.areas().len() as u64).max(1);
        let left = extents.saturating_sub(segment.start).min(segment.extents);
        set_segment_extents(volume, segment.start, left.next_multiple_of(stripes));
    }
    count_segments(volume);
}

/// Gives the segment that begins at `start` so many extents; with none it is removed.
fn set_segment_extents(volume: &mut Section, start: u64, count: u64) {
    let is_it = |section: &Section| section.number("start_extent") == Some(start);
    let found = segments(volume).find(|(_, section)| is_it(section));
    let Some(name) = found.map(|(name, _)| name.to_owned()) else {
        return;
    };
    match (count, volume.section_mut(&name)) {
        (0, _) => {
            volume.remove(&name);
        }
        (count, Some(segment)) => segment.set("extent_count", number(count)),
        (_, None) => {}
    }
}

pub(super) fn count_segments(volume: &mut Section) {
    let count = segments(volume).count() as u64;
    volume.set("segment_count", number(count));
}
