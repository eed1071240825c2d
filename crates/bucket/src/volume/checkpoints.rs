//! [`IndexCheckpoints`]: the checkpoints of an index, which its manifest has. None of it needs the writer, and nothing fences it.
//!
//! # Invariants
//!
//! * The manifest alone decides which snapshots exist, and each change of it is a conditional PUT of its next version. Of two snapshots
//!   of one name, which two commands made at the same time, the first in the manifest is the snapshot; the other command
//!   removes its own.
//! * SlateDB's collection keeps the tables and logs of each checkpoint that is in the manifest.

use std::time::Duration;

use slatedb::admin::Admin;
use slatedb::config::{
    CheckpointOptions, GarbageCollectorDirectoryOptions, GarbageCollectorOptions,
};
use slatedb::{Checkpoint, VersionedManifest};

use super::index::limited;
use crate::error::BucketError;
use crate::format::{FLUSH_REQUEST, PENDING, SnapshotRecord};
use crate::snapshot_name::SnapshotName;
use crate::store::{RetryPolicy, StoreAccess, retry};

/// How long a change of the manifest may take.
const CHANGE_LIMIT: Duration = Duration::from_secs(120);
/// How long a checkpoint of a command that makes a snapshot stays, if that is interrupted. The clock of the writer, which removes it, is
/// at most an hour ahead.
const COMMAND_LIFETIME: Duration = Duration::from_secs(3 * 3600);

/// The checkpoints of an index.
pub(crate) struct IndexCheckpoints<'a> {
    pub(super) access: &'a StoreAccess,
    pub(super) admin: Admin,
}

/// A snapshot.
#[derive(Debug, Clone)]
pub(crate) struct FoundSnapshot {
    /// Its name, and the size of the volume.
    pub(crate) record: SnapshotRecord,
    /// The checkpoint of the index.
    pub(crate) checkpoint: Checkpoint,
}

impl<'a> IndexCheckpoints<'a> {
    /// Those of the volume that `access` has the names of. No request is made.
    pub(crate) fn of(access: &'a StoreAccess) -> Self {
        let admin = Admin::builder(access.names.index(), access.store.clone()).build();
        Self { access, admin }
    }

    pub(super) fn limited<T>(
        &self,
        what: &'static str,
        work: impl Future<Output = Result<T, slatedb::Error>>,
    ) -> impl Future<Output = Result<T, BucketError>> {
        limited(self.access, CHANGE_LIMIT, what, work)
    }

    /// All checkpoints, also those that expire.
    pub(crate) async fn all(&self) -> Result<Vec<Checkpoint>, BucketError> {
        let list = || self.admin.list_checkpoints(None);
        let list = retry(RetryPolicy::OPEN, &self.access.uri, list);
        self.limited("list the checkpoints of", list).await
    }

    /// Those that something reads, or a snapshot may be made of. A request that the writer writes tables is neither: one that its command
    /// could not remove would keep for hours what it refers to.
    pub(crate) async fn in_use(&self) -> Result<Vec<Checkpoint>, BucketError> {
        let mut all = self.all().await?;
        all.retain(|checkpoint| checkpoint.name.as_deref() != Some(FLUSH_REQUEST));
        Ok(all)
    }

    /// All checkpoints that never expire: snapshots, clones, and those of later versions. The checkpoints that SlateDB makes for clones have
    /// no name, and are there only with those of the clones.
    pub(crate) async fn retained(&self) -> Result<Vec<Checkpoint>, BucketError> {
        let mut all = self.all().await?;
        all.retain(|checkpoint| checkpoint.expire_time.is_none() && checkpoint.name.is_some());
        Ok(all)
    }

    /// The snapshots, in the order in which they were made.
    pub(crate) async fn snapshots(&self) -> Result<Vec<FoundSnapshot>, BucketError> {
        let mut found: Vec<FoundSnapshot> = Vec::new();
        for snapshot in self.records().await? {
            let is_first = found
                .iter()
                .all(|one| one.record.name != snapshot.record.name);
            found.extend(is_first.then_some(snapshot));
        }
        Ok(found)
    }

    /// The same, with those that a command has yet to remove because another one was first.
    async fn records(&self) -> Result<Vec<FoundSnapshot>, BucketError> {
        let retained = self.retained().await?.into_iter();
        let records = retained.filter_map(|checkpoint| {
            let record = SnapshotRecord::decode(checkpoint.name.as_deref()?)?;
            Some(FoundSnapshot { record, checkpoint })
        });
        Ok(records.collect())
    }

    /// The snapshot of this name.
    pub(crate) async fn find(&self, name: &SnapshotName) -> Result<FoundSnapshot, BucketError> {
        let mut snapshots = self.snapshots().await?.into_iter();
        let found = snapshots.find(|snapshot| snapshot.record.name == *name);
        found.ok_or_else(|| BucketError::NoSnapshot {
            uri: self.access.uri.clone(),
            name: name.clone(),
        })
    }

    /// The first log of the index that its manifest does not have.
    pub(crate) async fn next_log(&self) -> Result<u64, BucketError> {
        let manifest = self.manifest().await?;
        Ok(manifest.map_or(0, |manifest| manifest.next_wal_sst_id()))
    }

    /// The manifest of the index, if there is one.
    pub(crate) async fn manifest(&self) -> Result<Option<VersionedManifest>, BucketError> {
        let read = || self.admin.read_manifest(None);
        let read = retry(RetryPolicy::OPEN, &self.access.uri, read);
        self.limited("read the manifest of", read).await
    }

    /// Deletes the manifests and the states of compactions that are older than `age` and no checkpoint needs. For a store without
    /// conditional overwrites, where the writer deletes none: nothing but their age keeps a program that was suspended in the middle of a
    /// change from making it under the number of one that is gone, and from taking that for a success.
    pub(crate) async fn delete_old_manifests(&self, age: Duration) -> Result<(), BucketError> {
        let old = GarbageCollectorDirectoryOptions {
            interval: None,
            min_age: age,
            dry_run: false,
        };
        let options = GarbageCollectorOptions {
            manifest_options: Some(old),
            compactions_options: Some(old),
            wal_options: None,
            wal_fence_options: None,
            compacted_options: None,
            detach_options: None,
            boundary_files_enabled: false,
            ..GarbageCollectorOptions::default()
        };
        let collect = self.admin.run_gc_once(options);
        let what = "delete the old manifests of";
        self.limited(what, collect).await
    }

    pub(super) async fn create(
        &self,
        options: CheckpointOptions,
    ) -> Result<Checkpoint, BucketError> {
        let create = self.admin.create_detached_checkpoint(&options);
        let created = self.limited("create a checkpoint of", create).await?;
        let mut all = self.all().await?.into_iter();
        let found = all.find(|one| one.id == created.id);
        found.ok_or_else(|| BucketError::Contended {
            uri: self.access.uri.clone(),
        })
    }

    /// A checkpoint of what the manifest has, which expires.
    pub(crate) async fn create_pending(&self) -> Result<Checkpoint, BucketError> {
        self.create_expiring(PENDING).await
    }

    /// Requests that the writer writes all its changes into tables. It expires.
    pub(crate) async fn request_flush(&self) -> Result<Checkpoint, BucketError> {
        self.create_expiring(FLUSH_REQUEST).await
    }

    async fn create_expiring(&self, name: &str) -> Result<Checkpoint, BucketError> {
        self.create(CheckpointOptions {
            lifetime: Some(COMMAND_LIFETIME),
            name: Some(name.to_owned()),
            ..CheckpointOptions::default()
        })
        .await
    }

    /// Makes a snapshot of what the checkpoint `pending` has.
    ///
    /// # Errors
    /// There is one of this name, also if it was made at the same time.
    pub(crate) async fn create_snapshot(
        &self,
        record: &SnapshotRecord,
        pending: &Checkpoint,
    ) -> Result<FoundSnapshot, BucketError> {
        let options = CheckpointOptions {
            source: Some(pending.id),
            name: Some(record.encode()),
            lifetime: None,
        };
        let checkpoint = self.create(options).await?;
        let first = self.find(&record.name).await?;
        if first.checkpoint.id == checkpoint.id {
            return Ok(first);
        }
        self.remove(&checkpoint).await?;
        Err(BucketError::SnapshotExists {
            uri: self.access.uri.clone(),
            name: record.name.clone(),
        })
    }

    /// Removes a snapshot. The first of its name is removed last, so that none takes its place.
    pub(crate) async fn remove_snapshot(
        &self,
        name: &SnapshotName,
    ) -> Result<FoundSnapshot, BucketError> {
        let found = self.find(name).await?;
        let mut records = self.records().await?;
        records.retain(|snapshot| snapshot.record.name == *name);
        for snapshot in records.iter().rev() {
            self.remove(&snapshot.checkpoint).await?;
        }
        Ok(found)
    }

    /// Removes a checkpoint, if it is there.
    pub(crate) async fn remove(&self, checkpoint: &Checkpoint) -> Result<(), BucketError> {
        let remove = || self.admin.delete_checkpoint(checkpoint.id);
        let remove = retry(RetryPolicy::OPEN, &self.access.uri, remove);
        self.limited("remove a checkpoint of", remove).await
    }
}
