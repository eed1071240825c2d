//! Volumes of RAID and mirrors: their images may be missing.

use std::sync::Arc;

use block::Node;

use super::segments::VolumeOpener;
use crate::volume::VolumeError;
use crate::volume::format::{LogicalVolume, RaidImage, SegmentArea, SegmentLayout, VolumeSegment};
use crate::volume::raid::{self, MirrorOptions, MirrorSpec, RaidImageDisks, RaidOptions, RaidSpec};

/// The status of an image that is to be rebuilt.
const REBUILD: &str = "REBUILD";
/// The status of a volume with images that were declared equal when it was made.
const NOT_SYNCED: &str = "NOTSYNCED";

/// How the images of a segment lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct ImageLayout<'a> {
    pub(super) images: &'a [RaidImage],
    pub(super) stripe_size: u64,
    pub(super) region_size: u64,
}

impl VolumeOpener<'_> {
    /// A segment of RAID.
    pub(super) async fn raid(
        &mut self,
        volume: &LogicalVolume,
        segment: &VolumeSegment,
        layout: ImageLayout<'_>,
    ) -> Result<Node, VolumeError> {
        let mut images = Vec::with_capacity(layout.images.len());
        for image in layout.images {
            let metadata = match &image.metadata {
                Some(name) => self.optional(volume, name).await?,
                None => None,
            };
            let data = self.optional(volume, &image.data).await?;
            images.push(RaidImageDisks { metadata, data });
        }
        let spec = RaidSpec {
            kind: segment.kind.clone(),
            size: self.group.group.bytes(segment.extents),
            stripe_size: layout.stripe_size,
            region_size: layout.region_size,
            images,
        };
        let options = RaidOptions {
            read_only: self.set.access.read_only || self.is_only_read,
            name: volume.name.clone(),
            force: self.set.access.force,
            assume_synced: volume.has_flag(NOT_SYNCED),
            ..RaidOptions::default()
        };
        let opened = Box::pin(raid::open(spec, &options)).await;
        let array = opened.map_err(|source| VolumeError::Raid {
            volume: volume.name.clone(),
            source,
        })?;
        self.remarks.extend_from_slice(array.remarks());
        self.parts.arrays.push(array.clone());
        Ok(array)
    }

    /// A mirror of device-mapper's `mirror` target.
    pub(super) async fn mirror(
        &mut self,
        volume: &LogicalVolume,
        segment: &VolumeSegment,
        (areas, log, region_size): (&[SegmentArea], Option<&str>, u64),
    ) -> Result<Node, VolumeError> {
        let mut legs = Vec::with_capacity(areas.len());
        for area in areas {
            let leg = match self.area(volume, area, segment.extents, None).await {
                Ok(leg) => Some(super::segments::join(volume, vec![leg])?),
                Err(VolumeError::Missing { .. }) => None,
                Err(error) => return Err(error),
            };
            legs.push(leg);
        }
        let log = match log {
            Some(name) => self.optional(volume, name).await?,
            None => None,
        };
        let spec = MirrorSpec {
            size: self.group.group.bytes(segment.extents),
            region_size,
            legs,
            log,
        };
        let options = MirrorOptions {
            name: volume.name.clone(),
            assume_synced: volume.has_flag(NOT_SYNCED),
            force: self.set.access.force,
        };
        let opened = Box::pin(raid::open_mirror(spec, &options)).await;
        let mirror = opened.map_err(|source| VolumeError::Raid {
            volume: volume.name.clone(),
            source,
        })?;
        self.remarks.extend_from_slice(mirror.remarks());
        Ok(Arc::new(mirror))
    }

    /// A volume that `user` can do without; `None` if a disk of it is missing, LVM has replaced it by errors, or it is yet to
    /// be rebuilt.
    async fn optional(
        &mut self,
        user: &LogicalVolume,
        name: &str,
    ) -> Result<Option<Node>, VolumeError> {
        let part = self.group.group.volume(name);
        let is_lost = part.is_none_or(|part| {
            let mut segments = part.segments.iter();
            segments.any(|segment| segment.layout == SegmentLayout::Error) || part.has_flag(REBUILD)
        });
        if is_lost || self.plan.is_missing(name) {
            let user = &user.name;
            self.remarks.push(format!("{name} of {user} is missing"));
            return Ok(None);
        }
        self.volume(name).await.map(Some)
    }
}
