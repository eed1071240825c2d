//! Volumes on object stores: opened where this program has the feature `bucket`, else refused by name.

use super::built_disk::BuiltDisk;
use super::{BuildPlace, Builder, Result};
use crate::graph::disk::BucketDisk;

#[cfg(feature = "bucket")]
impl Builder {
    /// A builder of a disk that may be lost to another server, and is opened again then.
    pub(crate) const fn in_standby(mut self) -> Self {
        self.is_standby = true;
        self
    }

    /// The volumes that were opened.
    pub(crate) fn bucket_volumes(&self) -> &[bucket::BucketVolume] {
        &self.bucket_volumes
    }
}

impl Builder {
    /// Opens a volume. For writing, this takes it over from a server that has it open.
    #[cfg(feature = "bucket")]
    pub(super) async fn bucket(
        &mut self,
        disk: &BucketDisk,
        place: &BuildPlace<'_>,
    ) -> Result<BuiltDisk> {
        use std::sync::Arc;

        let options = bucket::VolumeOptions {
            store: bucket::StoreOptions {
                ca_file: disk.ca.clone(),
            },
            read_only: disk.read_only || place.read_only,
            is_standby: self.is_standby,
            snapshot: disk.uri.snapshot.clone(),
            ..bucket::VolumeOptions::default()
        };
        let opened = Box::pin(bucket::BucketVolume::open(&disk.uri.volume, &options)).await;
        let volume = opened.map_err(|source| {
            let next = source.next();
            place.refused_with(disk.span, source, next)
        })?;
        self.bucket_volumes.push(volume.clone());
        Ok(BuiltDisk {
            read_only: disk.read_only || place.kept,
            ..BuiltDisk::leaf("bucket", disk.uri.to_string(), Arc::new(volume))
        })
    }

    /// Refuses: this program was built without.
    #[cfg(not(feature = "bucket"))]
    #[expect(
        clippy::unused_async,
        reason = "it opens one where the feature is there"
    )]
    pub(super) async fn bucket(
        &mut self,
        disk: &BucketDisk,
        place: &BuildPlace<'_>,
    ) -> Result<BuiltDisk> {
        Err(place.refused(disk.span, NoBucket(disk.uri.to_string())))
    }
}

/// A volume, for a program that has none.
#[cfg(not(feature = "bucket"))]
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot open {0}: this outboard was built without volumes on object stores (the feature `bucket`)"
)]
struct NoBucket(String);
