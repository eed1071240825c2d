//! Volumes on object stores: opened where this program has the feature `bucket`, else refused by name.

use super::built_disk::BuiltDisk;
use super::{BuildPlace, Builder, Result};
use crate::graph::disk::BucketDisk;
#[cfg(feature = "bucket")]
use crate::graph::disk::BucketJournal;

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

        let journal = match &disk.journal {
            Some(journal) => Some(self.journal(journal, disk, place).await?),
            None => None,
        };
        let options = bucket::VolumeOptions {
            store: bucket::StoreOptions {
                ca_file: disk.ca.clone(),
                key_file: disk.key.clone(),
            },
            read_only: disk.read_only || place.read_only,
            is_standby: self.is_standby,
            snapshot: disk.uri.snapshot.clone(),
            journal,
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

    /// Opens the journal of a volume, or makes it.
    #[cfg(feature = "bucket")]
    async fn journal(
        &self,
        journal: &BucketJournal,
        disk: &BucketDisk,
        place: &BuildPlace<'_>,
    ) -> Result<bucket::VolumeJournal> {
        use nodes::{File, FileOptions};

        let refused = |source: JournalError| place.refused(disk.span, source);
        if self.is_standby || place.read_only {
            return Err(refused(JournalError::NotWritten));
        }
        let path = &journal.file;
        let failed = |source: std::io::Error| {
            let path = path.clone();
            refused(JournalError::Make { path, source })
        };
        match engine::DiskFile::create_new(path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(failed(error));
            }
            _ => {}
        }
        let file = File::open(path, FileOptions::default()).await;
        let file = file.map_err(|source| place.refused(disk.span, source))?;
        let node = sized(file, journal.size).await.map_err(failed)?;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let host = rustix::system::uname();
        Ok(bucket::VolumeJournal {
            disk: node,
            host: host.nodename().to_string_lossy().into_owned(),
            path: path.display().to_string(),
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

/// An empty file gets this size, of zeroes: also one that was made before, and got none.
#[cfg(feature = "bucket")]
async fn sized(file: nodes::File, size: u64) -> std::io::Result<block::Node> {
    use block::BlockDevice as _;

    let file = std::sync::Arc::new(file);
    let region = file.file_region(block::Range::new(0, 0));
    if let (0, Some(region)) = (file.geometry().size, region) {
        rustix::fs::ftruncate(&region.file, size)?;
        let measured = file.revalidate().await.map_err(std::io::Error::other)?;
        if let Some(node) = measured {
            return Ok(node);
        }
    }
    Ok(file)
}

/// Why a volume has no journal.
#[cfg(feature = "bucket")]
#[derive(Debug, thiserror::Error)]
enum JournalError {
    #[error("a volume that is only read, or in standby, has no journal")]
    NotWritten,
    #[error("cannot make the journal {}: {source}", path.display())]
    Make {
        path: std::path::PathBuf,
        source: std::io::Error,
    },
}

/// A volume, for a program that has none.
#[cfg(not(feature = "bucket"))]
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot open {0}: this outboard was built without volumes on object stores (the feature `bucket`)"
)]
struct NoBucket(String);
