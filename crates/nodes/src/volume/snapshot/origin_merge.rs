//! Merges of an [`Origin`]: begun while nothing uses its disk, made step by step while it is served, and ended.
//!
//! ```text
//! begin_merge   all of the snapshot into its store ─► Origin::disk is the one that reads as the snapshot
//! merge_step    some chunks into the origin, again and again
//! finish_merge  Origin::disk is the origin itself
//! ```
//!
//! # Invariants
//!
//! * The snapshot stays one until all that the merge starts from is durable in its store: a merge that cannot begin leaves
//!   origin and snapshot as they were.
//!
//! # What it does not do
//!
//! It does not know what uses the disk of the origin: what was handed out before a merge reads the origin as it was, and its
//! opener has seen to it that nothing uses that any more.

use std::sync::{Arc, PoisonError};

use block::{BlockDevice, Node};

use super::merge::MergeDisk;
use super::{Origin, SnapshotError};

impl Origin {
    /// Begins to merge the snapshot `name`, which is in the store `cow`: from here on [`Self::disk`] reads as the snapshot.
    /// Neither the snapshot nor a disk of the origin that was handed out is in use.
    ///
    /// # Errors
    /// [`SnapshotError`]; origin and snapshot are as before.
    pub async fn begin_merge(&self, name: &str, cow: Node) -> Result<(), SnapshotError> {
        self.check_merging(name)?;
        if let Some(first) = self.merging() {
            return Err(SnapshotError::TwoMerging {
                first: first.name().to_owned(),
                second: name.to_owned(),
            });
        }
        if self.disk.geometry().read_only {
            return Err(SnapshotError::ReadOnly);
        }
        let snapshot = self.known_snapshot(name)?;
        let reopen = async || {
            let found = self.find_again(&snapshot, cow, true).await?;
            MergeDisk::open(name.to_owned(), self.disk.clone(), found).await
        };
        let merge = self.disk.take_out(&snapshot, reopen).await?;
        *self.merge.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(merge));
        Ok(())
    }

    /// Merges some more chunks of the snapshot that is being merged, while the origin is served, and returns how many are
    /// left. It may be aborted at any moment, and goes on after a restart.
    ///
    /// # Errors
    /// [`SnapshotError`]; what was not merged is still in the store, and the origin reads as before.
    pub async fn merge_step(&self) -> Result<u64, SnapshotError> {
        let Some(merge) = self.merging() else {
            return Err(SnapshotError::NothingToMerge);
        };
        if self.disk.geometry().read_only {
            return Err(SnapshotError::ReadOnly);
        }
        merge.step().await
    }

    /// Merges all that is left. The snapshot may be removed from the metadata afterwards.
    ///
    /// # Errors
    /// As [`Self::merge_step`].
    pub async fn merge(&self) -> Result<(), SnapshotError> {
        while self.merge_step().await? > 0 {}
        Ok(())
    }

    /// The merge is over, and the snapshot out of the metadata: [`Self::disk`] is the origin itself. A disk that was handed
    /// out during the merge goes on, and leaves the store alone.
    ///
    /// # Errors
    /// [`SnapshotError::NothingToMerge`]; [`SnapshotError::Merging`] where chunks are left.
    pub fn finish_merge(&self) -> Result<(), SnapshotError> {
        let mut merge = self.merge.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(disk) = &*merge else {
            return Err(SnapshotError::NothingToMerge);
        };
        if disk.left() > 0 {
            let name = disk.name().to_owned();
            return Err(SnapshotError::Merging { name });
        }
        *merge = None;
        Ok(())
    }

    /// The merge that is under way.
    pub(super) fn merging(&self) -> Option<Arc<MergeDisk>> {
        let merge = self.merge.lock();
        merge.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn check_merging(&self, name: &str) -> Result<(), SnapshotError> {
        match self.merging() {
            Some(merge) if merge.name() == name => Err(SnapshotError::Merging {
                name: name.to_owned(),
            }),
            _ => Ok(()),
        }
    }
}
