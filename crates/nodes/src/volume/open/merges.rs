//! Merges of snapshots into origins that are open: their steps, and their end in the metadata.
//!
//! # Invariants
//!
//! * A snapshot leaves the metadata when all of it is durable in the origin.
//! * A merge goes on wherever it was cut off: with the next call, or when its group is opened again.
//!
//! # What it does not do
//!
//! It makes no step by itself: its caller decides when, and how many. The beginning is a change of the metadata
//! ([`super::SnapshotChange::Merge`]).

use super::snapshots::failed;
use super::{OpenChangeError, VolumeSet};
use crate::volume::VolumeError;
use crate::volume::edit::{EditStamp, GroupEdit};
use crate::volume::snapshot::{Origin, SnapshotError};
use crate::volume::update::CommitReport;

impl VolumeSet {
    /// Merges the snapshot that the metadata say is being merged into the volume `origin`, which is open. After each step
    /// `goes_on` gets how many chunks are left, and says whether to go on. Returns how many are left at the end. It may be
    /// aborted at any moment, and goes on with the next call.
    ///
    /// # Errors
    /// Why it is not merged. What was not is still in the store, and the origin reads the same.
    pub async fn merge(
        &self,
        origin: &str,
        mut goes_on: impl FnMut(u64) -> bool,
    ) -> Result<u64, VolumeError> {
        let (_, open) = self.merging(origin)?;
        loop {
            let left = open.merge_step().await;
            let left = left.map_err(|source| failed(origin, source))?;
            if !goes_on(left) || left == 0 {
                return Ok(left);
            }
        }
    }

    /// Takes the snapshot that was merged into the volume `origin` out of the metadata; its extents are free.
    ///
    /// # Errors
    /// [`OpenChangeError`]. Unless it is `Unfinished` the metadata are as before, and the call may be repeated.
    pub async fn finish_merge(
        &self,
        origin: &str,
        stamp: &EditStamp,
    ) -> Result<CommitReport, OpenChangeError> {
        let mut parts = self.parts.lock().await;
        let group = self.group();
        self.check_change(&group, group.group.sequence, &parts)?;
        let (name, open) = self.merging(origin)?;
        let left = open.merge_step().await?;
        if left > 0 {
            return Err(SnapshotError::Merging { name }.into());
        }
        let mut edit = GroupEdit::open(group.group.clone())?;
        edit.finish_merge(&name)?;
        let report = self.write_edit(edit, stamp, &mut parts).await?;
        open.finish_merge()?;
        parts.forget(&name);
        Ok(report)
    }

    /// The snapshot that is being merged into the volume `origin`, which is open.
    fn merging(&self, origin: &str) -> Result<(String, Origin), VolumeError> {
        let group = &self.group().group;
        let mut snapshots = group.snapshots();
        let merging = snapshots.find(|one| one.origin == origin && one.merging);
        let found = merging.and_then(|merging| {
            let open = self.open_origin_of(merging.store)?;
            Some((merging.store.to_owned(), open))
        });
        found.ok_or_else(|| failed(origin, SnapshotError::NothingToMerge))
    }
}
