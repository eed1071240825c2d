//! How changes get into the store: a flush, a commit by itself when there is enough, or when changes are old.
//!
//! ```text
//! freeze ──► plan ──► data objects, encoded, several at once ──► one batch of the index ──► flush of the index ──► durable
//! ```
//!
//! # Invariants
//!
//! * The index points at an object only after the store has acknowledged all of it.
//! * With a journal the batch has the first record that it does not cover: the store has all of a commit and that, or nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::clock;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, PutPayload};
use slatedb::{Db, WriteBatch};

use super::VolumeShared;
use super::index::IndexHandle;
use crate::committer::{CommitPlan, Committer};
use crate::dirty::DirtyMap;
use crate::error::VolumeFailure;
use crate::flush_plan::{ObjectLayout, ObjectPlan};
use crate::format::{DataObject, JournalPosition, META_KEY};
use crate::store::retry;

/// Objects that are written at a time.
const PUTS_MAX: usize = 8;
/// Blocks that are encoded without a pause: about a millisecond.
const ENCODED_AT_ONCE: usize = 64;
/// Changes that no flush has made durable are committed after this time.
const WRITE_BACK_AFTER: Duration = Duration::from_secs(5);

impl VolumeShared {
    /// Makes every change before this call durable: in the journal if there is one. Runs to its end also if the caller drops it.
    pub(super) async fn flush(self: &Arc<Self>) -> Result<(), VolumeFailure> {
        if self.journal.is_some() {
            return self.flush_to_journal().await;
        }
        let flushed = {
            let memory = self.memory();
            memory.flushed(memory.flush_target())
        };
        if let Some(flushed) = flushed {
            return flushed;
        }
        self.in_task(|shared| async move { shared.flush_here().await })
            .await
    }

    pub(super) async fn flush_here(self: &Arc<Self>) -> Result<(), VolumeFailure> {
        let target = self.memory().flush_target();
        let mut committer = self.committer.lock().await;
        let flushed = self.memory().flushed(target);
        if let Some(flushed) = flushed {
            return flushed;
        }
        let Some((changes, next)) = self.memory().freeze() else {
            return Ok(());
        };
        match self.commit(&mut committer, (&changes, next)).await {
            Ok(()) => {
                self.memory().committed();
                self.space.notify_waiters();
                self.count_log();
                Ok(())
            }
            Err(failure) => {
                self.fail(failure.clone());
                Err(failure)
            }
        }
    }

    /// Commits without a flush: only later requests get its failure.
    pub(super) fn begin_write_back(self: &Arc<Self>) {
        let shared = self.clone();
        drop(self.runtime.spawn(async move {
            // A failure is the volume's, and logged.
            drop(shared.flush_here().await);
        }));
    }

    /// Commits the changes of `epoch` when they are old, if no flush has done so.
    pub(super) fn schedule_write_back(self: &Arc<Self>, epoch: u64) {
        let shared = Arc::downgrade(self);
        drop(self.runtime.spawn(async move {
            clock::sleep(WRITE_BACK_AFTER).await;
            let Some(shared) = shared.upgrade() else {
                return;
            };
            let is_due = shared.memory().is_active(epoch);
            if is_due {
                drop(shared.flush_here().await);
            }
        }));
    }

    pub(super) async fn commit(
        &self,
        committer: &mut Committer,
        (changes, next): (&DirtyMap, Option<JournalPosition>),
    ) -> Result<(), VolumeFailure> {
        let IndexHandle::Writer(db) = &self.index else {
            return Err(VolumeFailure::Commit("the volume is read-only".into()));
        };
        let commit = committer.begin(changes);
        let layouts = self.write_objects(&commit).await?;
        let mut batch = WriteBatch::new();
        let objects = (commit.first_object, &layouts[..]);
        for (key, entry) in commit.plan.entries(commit.sequence, objects) {
            batch.put(key.encode(), entry.encode(key));
        }
        if next.is_some() {
            batch.put(META_KEY, self.meta(next).encode());
        }
        let written = clock::timeout(self.policy.limit, write_durably(db, batch)).await;
        match written {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(VolumeFailure::of_index(&error)),
            Err(_) => {
                let limit = self.policy.limit.as_secs();
                let why = format!("the store has not answered for {limit} s");
                return Err(VolumeFailure::Commit(why.into()));
            }
        }
        committer.finish(changes, &commit);
        Ok(())
    }

    /// Writes the objects of a commit, and returns the layout of each, in order.
    async fn write_objects(&self, commit: &CommitPlan) -> Result<Vec<ObjectLayout>, VolumeFailure> {
        let generation = commit.sequence.generation;
        let objects = commit.plan.objects.iter().zip(commit.first_object..);
        let puts = objects.map(|(object, number)| async move {
            let name = DataObject { generation, number };
            let written = self.write_object(name, object).await;
            written.map(|layout| (number, layout))
        });
        // A list: the stream would need its futures for any lifetime of their objects.
        let puts: Vec<_> = puts.collect();
        let puts = stream::iter(puts).buffer_unordered(PUTS_MAX);
        let written: BTreeMap<u64, ObjectLayout> = puts.try_collect().await?;
        Ok(written.into_values().collect())
    }

    async fn write_object(
        &self,
        name: DataObject,
        object: &ObjectPlan,
    ) -> Result<ObjectLayout, VolumeFailure> {
        let path = Path::from(self.access.names.object(name));
        let (payload, layout) = self.encode_object(name, object).await;
        let put = || async { self.access.store.put(&path, payload.clone()).await };
        let written = retry(self.policy, &self.access.uri, put).await;
        written.map(|_| layout).map_err(|error| {
            let why = format!("the object {path}: {error}");
            VolumeFailure::Commit(why.into())
        })
    }

    /// The bytes of an object, which are put again if that fails, and where its blocks are.
    async fn encode_object(
        &self,
        name: DataObject,
        object: &ObjectPlan,
    ) -> (PutPayload, ObjectLayout) {
        if self.access.codec().is_plain() {
            let payload = object.blocks.iter().cloned().collect();
            return (payload, ObjectLayout::whole(false));
        }
        let codec = self.access.object_codec(name);
        let mut encoder = codec.encoder(object.blocks.len());
        let mut blocks = object.numbers.iter().zip(&object.blocks);
        loop {
            for (number, block) in blocks.by_ref().take(ENCODED_AT_ONCE) {
                encoder.push(*number, block);
            }
            if blocks.len() == 0 {
                break;
            }
            // Other requests have the thread in between.
            tokio::task::yield_now().await;
        }
        let (bytes, layout) = encoder.finish();
        (bytes.into(), layout)
    }
}

/// Writes a batch of the index and waits until it is in the store.
pub(super) async fn write_durably(db: &Db, batch: WriteBatch) -> Result<(), slatedb::Error> {
    db.write(batch).await?;
    db.flush().await
}
