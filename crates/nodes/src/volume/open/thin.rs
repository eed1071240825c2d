//! Thin volumes and cached volumes: both are only read.

use std::sync::Arc;

use block::Node;

use super::disk::VolumeDisk;
use super::segments::VolumeOpener;
use crate::linear::Linear;
use crate::parts::Segment;
use crate::volume::VolumeError;
use crate::volume::format::{LogicalVolume, SegmentLayout, VolumeSegment};
use crate::volume::thin::{CacheMode, ThinError, ThinPool, ThinPoolSpec, cache_is_clean};

/// The mode of a cache that records none.
const DEFAULT_MODE: &str = "writethrough";

impl VolumeOpener<'_> {
    /// A thin volume.
    pub(super) async fn thin(
        &mut self,
        volume: &LogicalVolume,
        segment: &VolumeSegment,
    ) -> Result<Node, VolumeError> {
        let SegmentLayout::Thin {
            pool,
            device_id,
            external_origin,
            ..
        } = &segment.layout
        else {
            unreachable!("the caller has matched the layout");
        };
        if let Some(successor) = self.successor(volume) {
            return Err(VolumeError::State {
                volume: volume.name.clone(),
                what: format!(
                    "is to be replaced by its snapshot {successor} when it is activated next"
                ),
                next: "open the snapshot; or activate the volume once with LVM",
            });
        }
        let opened = self.pool(volume, pool).await?;
        let external = match external_origin {
            Some(name) => {
                let origin = self.volume(name).await?;
                Some(Arc::new(VolumeDisk::read_only(origin)) as Node)
            }
            None => None,
        };
        let size = self.group.group.bytes(segment.extents);
        let opened = Box::pin(opened.volume(*device_id, size, external)).await;
        opened.map_err(|source| failed(volume, source))
    }

    /// The thin snapshot that `volume` is being merged with.
    fn successor(&self, volume: &LogicalVolume) -> Option<String> {
        let mut volumes = self.group.group.volumes.iter();
        let is_it = |other: &&LogicalVolume| {
            other.segments.iter().any(|segment| {
                matches!(&segment.layout, SegmentLayout::Thin { merge_into: Some(name), .. } if *name == volume.name)
            })
        };
        volumes.find(is_it).map(|found| found.name.clone())
    }

    /// The pool `name`, opened once for all its volumes.
    async fn pool(
        &mut self,
        user: &LogicalVolume,
        name: &str,
    ) -> Result<Arc<ThinPool>, VolumeError> {
        if let Some(known) = self.parts.pools.get(name) {
            return Ok(known.clone());
        }
        let group = &self.group.group;
        let volume = group.volume(name);
        let first = volume.and_then(|pool| pool.segments.first());
        let Some(SegmentLayout::ThinPool {
            metadata,
            data,
            transaction_id,
            chunk_size,
            pending_messages,
            ..
        }) = first.map(|segment| &segment.layout)
        else {
            return Err(not_a_pool(user, name));
        };
        let metadata = self.volume(metadata).await?;
        let data = self.volume(data).await?;
        let spec = ThinPoolSpec {
            transaction_id: *transaction_id,
            chunk_size: *chunk_size,
            pending_messages: *pending_messages,
        };
        let [metadata, data] = [metadata, data].map(VolumeDisk::read_only);
        let opened = Box::pin(ThinPool::open(Arc::new(metadata), Arc::new(data), spec)).await;
        let pool = opened.map_err(|source| failed(user, source))?;
        self.parts.pools.insert(name.to_owned(), pool.clone());
        Ok(pool)
    }

    /// A cached volume: its origin, if that has every byte.
    pub(super) async fn cached(
        &mut self,
        volume: &LogicalVolume,
        segment: &VolumeSegment,
    ) -> Result<Node, VolumeError> {
        let SegmentLayout::Cache {
            origin,
            pool,
            ranges,
            mode,
            ..
        } = &segment.layout
        else {
            unreachable!("the caller has matched the layout");
        };
        let (metadata, pool_mode) = match ranges {
            Some(ranges) => {
                let disk = self.volume(pool).await?;
                let range = ranges.metadata;
                let window = Linear::new(vec![Segment { disk, range }]);
                let window = window.map_err(|source| VolumeError::Part {
                    volume: volume.name.clone(),
                    source,
                })?;
                (Arc::new(window) as Node, None)
            }
            None => {
                let group = &self.group.group;
                let found = group.volume(pool);
                let first = found.and_then(|pool| pool.segments.first());
                let Some(SegmentLayout::CachePool { metadata, mode, .. }) =
                    first.map(|segment| &segment.layout)
                else {
                    return Err(not_a_pool(volume, pool));
                };
                (self.volume(metadata).await?, mode.as_deref())
            }
        };
        let mode = mode.as_deref().or(pool_mode).unwrap_or(DEFAULT_MODE);
        let mode = CacheMode::parse(mode).ok_or_else(|| VolumeError::Lacks {
            volume: volume.name.clone(),
            kind: segment.kind.clone(),
            field: "cache_mode",
        })?;
        let state = Box::pin(cache_is_clean(&metadata)).await;
        let state = state.and_then(|state| state.check_origin(mode));
        state.map_err(|source| failed(volume, source))?;
        let origin = self.volume(origin).await?;
        Ok(Arc::new(VolumeDisk::read_only(origin)))
    }
}

fn failed(volume: &LogicalVolume, source: ThinError) -> VolumeError {
    let volume = volume.name.clone();
    VolumeError::Thin { volume, source }
}

fn not_a_pool(user: &LogicalVolume, pool: &str) -> VolumeError {
    VolumeError::Metadata {
        volume: user.name.clone(),
        what: format!("its pool {pool} is no pool"),
    }
}
