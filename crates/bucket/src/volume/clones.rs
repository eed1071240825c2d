//! The clones of a volume, in the manifest of its index; and the index of a clone, which SlateDB makes of a checkpoint.
//!
//! ```text
//! snapshot ──► record: a checkpoint of the same ──► manifest of the clone ──► SlateDB's checkpoints in each index of which it has tables
//! ```
//!
//! # Invariants
//!
//! * The record of a clone is a checkpoint with that of the snapshot as its source: the manifest has both, or the record is refused. It
//!   keeps the tables also when the snapshot is deleted at the same time, or by a program that knows no clones.
//! * The index of a clone names SlateDB's checkpoints before they are made: [`IndexCheckpoints::unpin_origins`] finds all of them.

use slatedb::admin::Admin;
use slatedb::config::CheckpointOptions;
use slatedb::{Checkpoint, CloneSourceSpec};

use super::checkpoints::{FoundSnapshot, IndexCheckpoints};
use crate::error::BucketError;
use crate::format::{CloneRecord, VolumeId};
use crate::store::{RetryPolicy, StoreAccess, retry};

impl IndexCheckpoints<'_> {
    /// The clones, in the order in which they were made.
    pub(crate) async fn clones(&self) -> Result<Vec<CloneRecord>, BucketError> {
        let retained = self.retained().await?;
        let names = retained.iter().filter_map(|one| one.name.as_deref());
        Ok(names.filter_map(CloneRecord::decode).collect())
    }

    /// Records a clone of a snapshot.
    ///
    /// # Errors
    /// The snapshot is gone, or the store fails.
    pub(crate) async fn record_clone(
        &self,
        record: &CloneRecord,
        snapshot: &FoundSnapshot,
    ) -> Result<Checkpoint, BucketError> {
        let options = CheckpointOptions {
            source: Some(snapshot.checkpoint.id),
            name: Some(record.encode()),
            lifetime: None,
        };
        let created = self.create(options).await;
        if created.is_err() {
            // Its error is that of a snapshot that was deleted meanwhile.
            self.find(&record.snapshot).await?;
        }
        created
    }

    /// Makes the index of a clone, which `clone` has the names of, of the checkpoint with its record.
    pub(crate) async fn clone_index(
        &self,
        record: &Checkpoint,
        clone: &StoreAccess,
    ) -> Result<(), BucketError> {
        let source = CloneSourceSpec::with_checkpoint(self.access.names.index(), record.id);
        let admin = Admin::builder(clone.names.index(), clone.store.clone()).build();
        let build = admin.create_clone_builder_from_source(source).build();
        self.limited("clone", build).await
    }

    /// Removes SlateDB's checkpoints of this index, that of a clone, from the indexes of its origins. There may be no index.
    pub(crate) async fn unpin_origins(&self) -> Result<(), BucketError> {
        let manifest = self.manifest().await?;
        let origins = manifest.iter().flat_map(|found| found.external_dbs());
        for origin in origins {
            let Some(checkpoint) = origin.final_checkpoint_id else {
                continue;
            };
            let admin = Admin::builder(origin.path.as_str(), self.access.store.clone()).build();
            let unpin = || async {
                // Without its manifest it has no checkpoint.
                match admin.read_manifest(None).await? {
                    Some(_) => admin.delete_checkpoint(checkpoint).await,
                    None => Ok(()),
                }
            };
            let unpin = retry(RetryPolicy::OPEN, &self.access.uri, unpin);
            self.limited("remove a checkpoint of an origin of", unpin)
                .await?;
        }
        Ok(())
    }

    /// The clones with their checkpoints, and all checkpoints. There may be no index.
    async fn read_clones(
        &self,
    ) -> Result<(Vec<(CloneRecord, Checkpoint)>, Vec<Checkpoint>), BucketError> {
        let manifest = self.manifest().await?;
        let all = manifest.map_or_else(Vec::new, |found| found.checkpoints().clone());
        let clones = all.iter().filter_map(|checkpoint| {
            let record = CloneRecord::decode(checkpoint.name.as_deref()?)?;
            Some((record, checkpoint.clone()))
        });
        Ok((clones.collect(), all))
    }

    /// Whether it has the record of a clone.
    pub(crate) async fn has_clone(&self, clone: VolumeId) -> Result<bool, BucketError> {
        let (clones, _) = self.read_clones().await?;
        Ok(clones.iter().any(|(record, _)| record.id == clone))
    }

    /// Removes the record of a clone, if it is there; and SlateDB's checkpoints of the same, if no other clone has it, which a command
    /// that made the clone at the same time may have left.
    pub(crate) async fn remove_clone(&self, clone: VolumeId) -> Result<(), BucketError> {
        let (clones, all) = self.read_clones().await?;
        let (own, others): (Vec<_>, Vec<_>) =
            clones.iter().partition(|(record, _)| record.id == clone);
        let is_of = |clones: &[&(CloneRecord, Checkpoint)], checkpoint: &Checkpoint| {
            let mut clones = clones.iter();
            clones.any(|(_, record)| record.manifest_id == checkpoint.manifest_id)
        };
        let is_left = |checkpoint: &&Checkpoint| {
            let is_unnamed = checkpoint.name.is_none() && checkpoint.expire_time.is_none();
            is_unnamed && is_of(&own, checkpoint) && !is_of(&others, checkpoint)
        };
        for checkpoint in all.iter().filter(is_left) {
            self.remove(checkpoint).await?;
        }
        for (_, record) in &own {
            self.remove(record).await?;
        }
        Ok(())
    }
}
