//! Beginning a move: which extents go where. Pure.
//!
//! # Invariants
//!
//! * Only free extents of other physical volumes are chosen. No two stripes of a segment, and no two images of a volume of
//!   RAID or a mirror, come to lie on one physical volume.
//! * A move that has no room for all of its extents is not begun.

use std::collections::HashSet;

use super::super::allocate::{AllocationRequest, allocate, take};
use super::super::extents::{ExtentRun, free_counts};
use super::super::volumes::{count_segments, new_section};
use super::super::{EditError, GroupEdit, NewVolume, SECTOR, list_section, number, volume_section};
use super::rewrite::rewrite_segments;
use super::{LOCKED, MoveSegment, PVMOVE, set_status};
use crate::volume::format::text::{Section, TextValue};
use crate::volume::format::{LogicalVolume, SegmentArea, SegmentLayout, VolumeSegment};

/// Most volumes within volumes: a group that has more contradicts itself.
const DEPTH_MAX: usize = 12;
/// Bytes that are moved in one step: as many are copied again after an interruption.
const STEP_LEN: u64 = 1 << 30;
/// Most steps of a move, but where free extents are in more pieces: each has room in the text.
const STEPS_MAX: u64 = 512;
/// What LVM records as the region of a move, and uses again when it resumes one: bytes.
const REGION: u64 = 2 << 20;

/// Extents to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveRequest {
    /// The physical volume to move them away from: `pv0`.
    pub from: String,
    /// Physical volumes that may be used, in this order; all others if empty.
    pub to: Vec<String>,
    /// Move only those of this volume, and of what it is made of.
    pub volume: Option<String>,
    /// Id of the volume that describes the move, with dashes.
    pub id: String,
    /// When it begins, in seconds since 1970.
    pub seconds: u64,
    /// On which machine.
    pub host: String,
}

/// A volume with segments that are split where their new places are.
#[derive(Debug)]
struct MovedVolume {
    name: String,
    /// By the first extent of each segment: extents of each stripe in each step, and the areas that replace the old ones.
    segments: Vec<(u64, Vec<SegmentStep>)>,
}

/// A part of a segment that is moved in one step.
#[derive(Debug)]
struct SegmentStep {
    /// Of each stripe.
    extents: u64,
    /// In the order of the stripes.
    areas: Vec<SegmentArea>,
}

/// A move that is being planned.
struct MovePlan<'a> {
    edit: &'a GroupEdit,
    request: &'a MoveRequest,
    layer: String,
    step_extents: u64,
    free: Vec<ExtentRun>,
    steps: Vec<MoveSegment>,
    volumes: Vec<MovedVolume>,
    /// Volumes, and the physical volumes that parts of them move to.
    destinations: Vec<(String, String)>,
}

impl GroupEdit {
    /// Begins a move; returns the name of the volume that describes it.
    ///
    /// # Errors
    /// [`EditError`]: nothing to move, no space, or volumes that cannot be moved.
    pub fn begin_move(&mut self, request: &MoveRequest) -> Result<String, EditError> {
        let (layer, steps, volumes) = self.plan_move(request)?;
        let section = layer_section(request, &steps, self.group.extent);
        self.change_extents(|root| {
            for moved in &volumes {
                let volume = volume_section(root, &moved.name)?;
                rewrite_segments(volume, |segment| Ok(moved.split(segment)))?;
                set_status(volume, LOCKED, true);
            }
            list_section(root, "logical_volumes")?.set_section(&layer, section);
            Ok(())
        })?;
        Ok(layer)
    }

    fn plan_move(
        &self,
        request: &MoveRequest,
    ) -> Result<(String, Vec<MoveSegment>, Vec<MovedVolume>), EditError> {
        let from = &request.from;
        for name in [from].into_iter().chain(&request.to) {
            if self.group.member(name).is_none() {
                return Err(EditError::NoMember(name.clone()));
            }
        }
        if let Some(name) = &request.volume {
            self.volume(name)?;
        }
        let volumes: Vec<&LogicalVolume> = (self.group.volumes.iter())
            .filter(|volume| self.is_wanted(request, volume))
            .collect();
        let extents: u64 = volumes
            .iter()
            .map(|volume| self.extents_on(volume, from))
            .sum();
        if extents == 0 {
            return Err(EditError::NothingToMove {
                member: from.clone(),
                volume: request.volume.clone(),
            });
        }
        let mut free = self.allowed_runs(&request.to)?;
        free.retain(|run| run.member != *from);
        let counts = free_counts(&free);
        if counts.iter().map(|count| count.extents).sum::<u64>() < extents {
            let wanted = format!("{extents} extents are needed");
            return Err(EditError::NoSpace {
                wanted,
                free: counts,
            });
        }
        let mut names = (0_u32..).map(|count| format!("pvmove{count}"));
        let layer = names.find(|name| self.refuse_existing(name).is_ok());
        let step = (STEP_LEN / self.group.extent).max(extents.div_ceil(STEPS_MAX));
        let mut plan = MovePlan {
            edit: self,
            request,
            layer: layer.expect("a group has fewer volumes than there are numbers"),
            step_extents: step.max(1),
            free,
            steps: Vec::new(),
            volumes: Vec::new(),
            destinations: Vec::new(),
        };
        for volume in volumes {
            plan.volume(volume)?;
        }
        Ok((plan.layer, plan.steps, plan.volumes))
    }

    /// Whether extents of a volume are to be moved.
    fn is_wanted(&self, request: &MoveRequest, volume: &LogicalVolume) -> bool {
        let named = request.volume.as_ref();
        self.extents_on(volume, &request.from) > 0
            && named.is_none_or(|name| {
                volume.name == *name || self.owners(volume).iter().any(|owner| owner.name == *name)
            })
    }

    /// Extents of a physical volume that a volume lies on by itself.
    fn extents_on(&self, volume: &LogicalVolume, member: &str) -> u64 {
        let on = |segment: &VolumeSegment| {
            let areas = segment.areas().iter().filter(|area| area.on == member);
            areas.count() as u64 * stripe_extents(segment)
        };
        volume.segments.iter().map(on).sum()
    }

    /// The volumes that a volume is part of, at any depth.
    fn owners<'a>(&'a self, volume: &'a LogicalVolume) -> Vec<&'a LogicalVolume> {
        let mut found: Vec<&LogicalVolume> = Vec::new();
        let mut names = vec![volume.name.as_str()];
        for _ in 0..DEPTH_MAX {
            let users = names.iter().flat_map(|name| self.users(name));
            let new: Vec<&LogicalVolume> = users
                .filter(|user| !found.iter().any(|known| known.name == user.name))
                .collect();
            names = new.iter().map(|user| user.name.as_str()).collect();
            found.extend(new);
        }
        found
    }

    /// Refuses a volume that cannot be moved: LVM is changing it, or something that it is part of is not known.
    fn check_movable(&self, volume: &LogicalVolume) -> Result<(), EditError> {
        self.refuse_moving(volume)?;
        for user in [volume].into_iter().chain(self.owners(volume)) {
            if let Some(flag) = user.unknown_flag() {
                return Err(EditError::Flag {
                    name: user.name.clone(),
                    flag: flag.flag,
                });
            }
            let mut segments = user.segments.iter();
            let other = segments.find(|segment| {
                matches!(
                    segment.layout,
                    SegmentLayout::Unsupported { .. }
                        | SegmentLayout::Snapshot { merging: true, .. }
                )
            });
            if let Some(other) = other {
                let merging = matches!(other.layout, SegmentLayout::Snapshot { .. });
                let kind = match merging {
                    true => "a snapshot that is being merged".to_owned(),
                    false => other.kind.clone(),
                };
                return Err(EditError::Unmovable {
                    volume: volume.name.clone(),
                    user: user.name.clone(),
                    kind,
                });
            }
        }
        Ok(())
    }

    /// Physical volumes that other images of the same mirror or volume of RAID lie on.
    fn sibling_members(
        &self,
        volume: &LogicalVolume,
        destinations: &[(String, String)],
    ) -> HashSet<String> {
        let mut found = HashSet::new();
        let segments = self.group.volumes.iter().flat_map(|user| &user.segments);
        for segment in segments {
            let images: Vec<Vec<&str>> = match &segment.layout {
                SegmentLayout::Raid { images, .. } => (images.iter())
                    .map(|image| {
                        image
                            .metadata
                            .as_deref()
                            .into_iter()
                            .chain([&*image.data])
                            .collect()
                    })
                    .collect(),
                SegmentLayout::Mirror { areas, .. } => {
                    areas.iter().map(|area| vec![area.on.as_str()]).collect()
                }
                _ => continue,
            };
            let is_own = |image: &&Vec<&str>| image.contains(&volume.name.as_str());
            if !images.iter().any(|image| is_own(&image)) {
                continue;
            }
            for part in images.iter().filter(|image| !is_own(image)).flatten() {
                let segments = self
                    .group
                    .volume(part)
                    .into_iter()
                    .flat_map(|part| &part.segments);
                let areas = segments.flat_map(|segment| segment.areas());
                found.extend(areas.map(|area| area.on.clone()));
                let moved = destinations.iter().filter(|(name, _)| name == part);
                found.extend(moved.map(|(_, member)| member.clone()));
            }
        }
        found
    }
}

impl MovePlan<'_> {
    fn volume(&mut self, volume: &LogicalVolume) -> Result<(), EditError> {
        self.edit.check_movable(volume)?;
        let mut moved = MovedVolume {
            name: volume.name.clone(),
            segments: Vec::new(),
        };
        for segment in &volume.segments {
            let is_here = |area: &SegmentArea| area.on == self.request.from;
            if !segment.areas().iter().any(is_here) {
                continue;
            }
            if !matches!(segment.layout, SegmentLayout::Striped { .. }) {
                return Err(EditError::Kind {
                    name: volume.name.clone(),
                    kind: segment.kind.clone(),
                });
            }
            let steps = self.segment(volume, segment)?;
            moved.segments.push((segment.start, steps));
        }
        self.volumes.push(moved);
        Ok(())
    }

    /// Plans the steps of one segment.
    fn segment(
        &mut self,
        volume: &LogicalVolume,
        segment: &VolumeSegment,
    ) -> Result<Vec<SegmentStep>, EditError> {
        let (areas, each) = (segment.areas(), stripe_extents(segment));
        let mut places: Vec<Option<Vec<(SegmentArea, u64)>>> = vec![None; areas.len()];
        let mut taken: HashSet<String> = areas.iter().map(|area| area.on.clone()).collect();
        taken.extend(self.edit.sibling_members(volume, &self.destinations));
        for (place, area) in places.iter_mut().zip(areas) {
            if area.on == self.request.from {
                let runs = self.allocate(&volume.name, each, &taken)?;
                for (area, _) in &runs {
                    let to = (volume.name.clone(), area.on.clone());
                    self.destinations.push(to);
                }
                // Two stripes of one segment stay apart.
                taken.extend(runs.iter().map(|(area, _)| area.on.clone()));
                *place = Some(runs);
            }
        }
        let mut steps = Vec::new();
        let mut at = 0;
        while at < each {
            let ends = places.iter().flatten().map(|runs| run_at(runs, at).1);
            let extents = ends.min().unwrap_or(each).min(self.step_extents);
            let mut new = Vec::with_capacity(areas.len());
            for (area, place) in areas.iter().zip(&places) {
                let extent = area.extent + at;
                let on = area.on.clone();
                let from = SegmentArea { on, extent };
                new.push(match place {
                    None => from,
                    Some(runs) => self.step(extents, from, run_at(runs, at).0),
                });
            }
            steps.push(SegmentStep {
                extents,
                areas: new,
            });
            at += extents;
        }
        Ok(steps)
    }

    /// Adds a step; returns where it is in the volume that describes the move.
    fn step(&mut self, extents: u64, from: SegmentArea, to: SegmentArea) -> SegmentArea {
        let last = self.steps.last();
        let start = last.map_or(0, |last| last.start + last.extents);
        self.steps.push(MoveSegment {
            start,
            extents,
            from,
            to,
            moved: false,
        });
        SegmentArea {
            on: self.layer.clone(),
            extent: start,
        }
    }

    /// Free extents for one area of a volume, on none of the physical volumes in `taken`.
    fn allocate(
        &mut self,
        volume: &str,
        extents: u64,
        taken: &HashSet<String>,
    ) -> Result<Vec<(SegmentArea, u64)>, EditError> {
        let free = self.free.iter().filter(|run| !taken.contains(&run.member));
        let request = AllocationRequest {
            extents,
            stripes: 1,
            behind: None,
        };
        let runs = allocate(free.cloned().collect(), &request);
        let runs = runs.map_err(|error| match error {
            EditError::NoSpace { wanted, free } => EditError::NoSpace {
                wanted: format!("for {volume}, apart from its other stripes and images, {wanted}"),
                free,
            },
            other => other,
        })?;
        let mut areas = Vec::with_capacity(runs.len());
        for run in runs {
            for (on, extent) in &run.areas {
                let area = SegmentArea {
                    on: on.clone(),
                    extent: *extent,
                };
                areas.push((area, run.extents));
            }
            take(&mut self.free, run.areas, run.extents);
        }
        Ok(areas)
    }
}

impl MovedVolume {
    /// A segment of the volume as the parts that it is moved in.
    fn split(&self, segment: &Section) -> Vec<Section> {
        let start = segment.number("start_extent");
        let mut moved = self.segments.iter();
        let Some((start, steps)) = moved.find(|(moved, _)| Some(*moved) == start) else {
            return vec![segment.clone()];
        };
        let mut start = *start;
        let parts = steps.iter().map(|step| {
            let mut part = segment.clone();
            let extents = step.extents * step.areas.len() as u64;
            part.set("start_extent", number(start));
            part.set("extent_count", number(extents));
            part.set("stripes", pairs(&step.areas));
            start += extents;
            part
        });
        parts.collect()
    }
}

/// The place of the extent `at` of an area in `runs`, and how many follow it there.
fn run_at(runs: &[(SegmentArea, u64)], at: u64) -> (SegmentArea, u64) {
    let mut before = 0;
    for (area, extents) in runs {
        if at < before + extents {
            let within = at - before;
            let place = SegmentArea {
                on: area.on.clone(),
                extent: area.extent + within,
            };
            return (place, extents - within);
        }
        before += extents;
    }
    unreachable!("an area has as many new extents as old ones")
}

/// Extents of a segment on each of its areas.
fn stripe_extents(segment: &VolumeSegment) -> u64 {
    match segment.layout {
        SegmentLayout::Striped { .. } => segment.extents / (segment.areas().len() as u64).max(1),
        _ => segment.extents,
    }
}

fn pairs(areas: &[SegmentArea]) -> TextValue {
    let values = areas
        .iter()
        .flat_map(|area| [TextValue::Text(area.on.clone()), number(area.extent)]);
    TextValue::List(values.collect())
}

/// The volume that describes the move.
fn layer_section(request: &MoveRequest, steps: &[MoveSegment], extent: u64) -> Section {
    let extents: u64 = steps.iter().map(|step| step.extents).sum();
    let region = REGION.min(1 << extents.saturating_mul(extent).max(1).ilog2());
    let new = NewVolume {
        name: String::new(),
        id: request.id.clone(),
        extents: 0,
        stripes: 1,
        stripe_size: 0,
        on: Vec::new(),
        seconds: request.seconds,
        host: request.host.clone(),
    };
    let mut layer = new_section(&request.id, &["READ", "WRITE", PVMOVE, LOCKED], &new);
    layer.remove("segment_count");
    let mut layer = layer
        .with_text("allocation_policy", "contiguous")
        .with_number("segment_count", 0);
    for (index, step) in steps.iter().enumerate() {
        let segment = Section::default()
            .with_number("start_extent", step.start)
            .with_number("extent_count", step.extents)
            .with_text("type", "mirror")
            .with_number("mirror_count", 2)
            .with_number("extents_moved", 0)
            .with_number("region_size", region / SECTOR)
            .with("mirrors", pairs(&[step.from.clone(), step.to.clone()]));
        layer.set_section(&format!("segment{}", index + 1), segment);
    }
    count_segments(&mut layer);
    layer
}
