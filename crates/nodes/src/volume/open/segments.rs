//! Nodes made of the segments of a volume, and of the volumes that those lie on.
//!
//! # Invariants
//!
//! * Only what the plan has checked is opened; each volume once.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use block::{Node, Range};

use super::VolumeSet;
use super::areas::VolumeAreas;
use super::plan::{SnapshotRole, VolumePlan, missing_members};
use super::raid::ImageLayout;
use super::visit::{current_area, stripe_extents};
use crate::array::Array;
use crate::linear::Linear;
use crate::parts::{Segment, is_same};
use crate::stripe::Stripe;
use crate::volume::VolumeError;
use crate::volume::format::{LogicalVolume, SegmentArea, SegmentLayout, VolumeSegment};
use crate::volume::group::AssembledGroup;
use crate::volume::thin::ThinPool;
use crate::{ErrorDisk, Zero};

/// What is open of a group.
#[derive(Debug, Default)]
pub(super) struct OpenParts {
    /// Volumes without their snapshots, by name.
    volumes: HashMap<String, Node>,
    /// Thin pools, by name.
    pub(super) pools: HashMap<String, Arc<ThinPool>>,
    /// Whether the buffers of origins are drained by the clock.
    pub(super) is_draining: bool,
    /// A change of the metadata failed, so that it is not known which text counts.
    pub(super) has_failed_change: bool,
    /// An origin of which a merge was begun in the metadata, or may have been, and not in memory.
    pub(super) broken_merge: Option<String>,
    /// Extents are being moved: nothing else is changed meanwhile.
    pub(super) is_moving: bool,
    /// The arrays of RAID volumes that were opened since the last volume was returned.
    pub(super) arrays: Vec<Arc<Array>>,
}

impl OpenParts {
    /// Forgets a volume that is gone, or has other extents now. Its users keep their disk.
    pub(super) fn forget(&mut self, name: &str) {
        self.volumes.remove(name);
    }
}

type OpenFuture<'a> = Pin<Box<dyn Future<Output = Result<Node, VolumeError>> + Send + 'a>>;

/// Opens what `plan` describes.
pub(super) async fn open(
    set: &VolumeSet,
    group: &AssembledGroup,
    plan: &VolumePlan<'_>,
    parts: &mut OpenParts,
    remarks: &mut Vec<String>,
) -> Result<Node, VolumeError> {
    let mut opener = VolumeOpener {
        is_only_read: plan.is_only_read(&group.group),
        set,
        group,
        plan,
        parts,
        remarks,
    };
    match &plan.snapshots {
        // It may get snapshots while it is open.
        None if opener.may_get_snapshots() => {
            let role = SnapshotRole {
                origin: &plan.volume.name,
                stores: Vec::new(),
                opens: None,
            };
            opener.snapshots(&role).await
        }
        None => opener.volume(&plan.volume.name).await,
        Some(role) => opener.snapshots(role).await,
    }
}

/// Opens volumes.
pub(super) struct VolumeOpener<'a> {
    pub(super) set: &'a VolumeSet,
    /// As the metadata describe it at this moment.
    pub(super) group: &'a AssembledGroup,
    pub(super) plan: &'a VolumePlan<'a>,
    pub(super) parts: &'a mut OpenParts,
    pub(super) remarks: &'a mut Vec<String>,
    /// The volume is not to be written, on any disks.
    pub(super) is_only_read: bool,
}

impl VolumeOpener<'_> {
    /// Whether the volume may get snapshots: it may be written, and is of a type that can have some.
    fn may_get_snapshots(&self) -> bool {
        let mut segments = self.plan.volume.segments.iter();
        !self.set.access.read_only
            && !self.is_only_read
            && segments.all(|segment| {
                matches!(
                    segment.layout,
                    SegmentLayout::Striped { .. } | SegmentLayout::Raid { .. }
                )
            })
    }

    /// The volume `name` itself, without its snapshots.
    pub(super) fn volume<'a>(&'a mut self, name: &'a str) -> OpenFuture<'a> {
        Box::pin(async move {
            if let Some(known) = self.parts.volumes.get(name) {
                return Ok(known.clone());
            }
            let volume = self.group.group.volume(name);
            let volume = volume.expect("the plan has found every volume that is referred to");
            missing_members(self.group, name, &self.plan.missing[name])?;
            let areas = self.areas(volume)?;
            let mut segments = Vec::with_capacity(volume.segments.len());
            for segment in &volume.segments {
                let opened = self.segment(volume, segment, areas.as_ref()).await;
                segments.push(opened?);
            }
            let disk = join(volume, segments)?;
            self.parts.volumes.insert(name.to_owned(), disk.clone());
            Ok(disk)
        })
    }

    async fn segment(
        &mut self,
        volume: &LogicalVolume,
        segment: &VolumeSegment,
        laid: Option<&VolumeAreas>,
    ) -> Result<Segment, VolumeError> {
        let group = &self.group.group;
        let len = group.bytes(segment.extents);
        let whole = |disk: Node| Segment {
            disk,
            range: Range::new(0, len),
        };
        match &segment.layout {
            SegmentLayout::Striped { areas, stripe_size } => {
                let each = stripe_extents(volume, segment, areas)?;
                if let [only] = areas.as_slice() {
                    return self.area(volume, only, each, laid).await;
                }
                let mut stripes = Vec::with_capacity(areas.len());
                for area in areas {
                    stripes.push(self.area(volume, area, each, laid).await?);
                }
                let stripe = Stripe::new(stripes, *stripe_size);
                let stripe = stripe.map_err(|source| VolumeError::Stripe {
                    volume: volume.name.clone(),
                    source,
                })?;
                Ok(whole(Arc::new(stripe)))
            }
            SegmentLayout::Mirror {
                areas,
                log,
                region_size,
                moved,
            } => match current_area(areas, *moved, segment.extents) {
                Some(area) => self.area(volume, area, segment.extents, laid).await,
                None => {
                    let mirror = (areas.as_slice(), log.as_deref(), *region_size);
                    self.mirror(volume, segment, mirror).await.map(whole)
                }
            },
            SegmentLayout::Raid {
                images,
                stripe_size,
                region_size,
                ..
            } => {
                let layout = ImageLayout {
                    images,
                    stripe_size: *stripe_size,
                    region_size: *region_size,
                };
                self.raid(volume, segment, layout).await.map(whole)
            }
            SegmentLayout::Thin { .. } => self.thin(volume, segment).await.map(whole),
            SegmentLayout::Cache { .. } => self.cached(volume, segment).await.map(whole),
            SegmentLayout::Error => Ok(whole(Arc::new(ErrorDisk::new(len)))),
            SegmentLayout::Zero => Ok(whole(Arc::new(Zero::new(len)))),
            SegmentLayout::Snapshot { .. }
            | SegmentLayout::ThinPool { .. }
            | SegmentLayout::CachePool { .. }
            | SegmentLayout::Unsupported { .. } => {
                Err(VolumeError::unsupported(&volume.name, &segment.kind))
            }
        }
    }

    /// `count` extents of a member or a volume; those of a member are where they are `laid`, if they are.
    pub(super) async fn area(
        &mut self,
        volume: &LogicalVolume,
        area: &SegmentArea,
        count: u64,
        laid: Option<&VolumeAreas>,
    ) -> Result<Segment, VolumeError> {
        let group = &self.group.group;
        let index = group
            .members
            .iter()
            .position(|member| member.name == area.on);
        let Some(index) = index else {
            let disk = self.volume(&area.on).await?;
            let range = Range::new(group.bytes(area.extent), group.bytes(count));
            return Ok(Segment { disk, range });
        };
        let range = group.members[index].place(area.extent, count, group.extent);
        let range = range.expect("the plan has checked that the member has these extents");
        if let Some(segment) = laid.and_then(|laid| laid.find(index, area.extent, range.len)) {
            return Ok(segment);
        }
        let Some(disk) = self.set.disk(index) else {
            missing_members(self.group, &volume.name, &[index].into())?;
            unreachable!("a disk that is not there is an error");
        };
        Ok(Segment { disk, range })
    }
}

/// The disk of which these segments are all bytes, in order.
fn joined(segments: &[Segment]) -> Option<Node> {
    let disk = &segments.first()?.disk;
    let mut end = 0;
    for segment in segments {
        if !is_same(disk, &segment.disk) || segment.range.offset != end {
            return None;
        }
        end = segment.range.end();
    }
    (end == disk.geometry().size).then(|| disk.clone())
}

/// Segments in a row; those that are a whole disk are that disk.
pub(super) fn join(volume: &LogicalVolume, segments: Vec<Segment>) -> Result<Node, VolumeError> {
    if let Some(disk) = joined(&segments) {
        return Ok(disk);
    }
    let linear = Linear::new(segments).map_err(|source| VolumeError::Part {
        volume: volume.name.clone(),
        source,
    })?;
    Ok(Arc::new(linear))
}
