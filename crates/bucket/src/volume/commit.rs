//! How changes get into the store: a flush, a commit by itself when there is enough, or when changes are old.
//!
//! ```text
//! freeze ──► plan ──► data objects, encoded, several at once ──► one batch of the index ──► flush of the index ──► durable
//! └───────────────────── first turn ────────────────────────────┘   └────────────────── last turn ───────────────────┘
//! ```
//!
//! The objects of a commit are written while the index of the one before is.
//!
//! # Invariants
//!
//! * Commits are in the index in the order in which they were frozen: a commit has the last turn before the next one has the first. One
//!   behind a failed commit is not written.
//! * What compares changes with the index has both turns. A journal frees the space of one commit at a time, so a volume with one does not
//!   begin a second.
//! * The index points at an object only after the store has acknowledged all of it.
//! * With a journal the batch has the first record that it does not cover: the store has all of a commit and that, or nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::clock;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use object_store::PutPayload;
use object_store::path::Path;
use slatedb::{Db, WriteBatch};
use tokio::sync::MutexGuard;

use super::VolumeShared;
use super::index::IndexHandle;
use crate::committer::{CommitPlan, Committer};
use crate::dirty::DirtyMap;
use crate::error::VolumeFailure;
use crate::flush_plan::{ObjectLayout, ObjectPlan};
use crate::format::{DataObject, JournalPosition, META_KEY};
use crate::store::write_object;

/// Objects that are written at a time.
const PUTS_MAX: usize = 8;
/// Blocks that are encoded without a pause: about a millisecond.
const ENCODED_AT_ONCE: usize = 64;
/// Changes that no flush has made durable are committed after this time.
const WRITE_BACK_AFTER: Duration = Duration::from_secs(5);

/// The place of a commit among the others: the first turn, the last one, or both.
pub(super) struct CommitTurn<'a> {
    first: Option<MutexGuard<'a, Committer>>,
    last: Option<MutexGuard<'a, ()>>,
}

impl<'a> CommitTurn<'a> {
    /// Waits for the commit before to have the last turn.
    pub(super) async fn first(shared: &'a VolumeShared) -> Self {
        Self {
            first: Some(shared.committer.lock().await),
            last: None,
        }
    }

    /// Waits for the commit before to end.
    pub(super) async fn last(&mut self, shared: &'a VolumeShared) {
        if self.last.is_none() {
            self.last = Some(shared.index_turn.lock().await);
        }
    }

    /// Waits for all commits before to end, and keeps the next one from beginning.
    pub(super) async fn only(shared: &'a VolumeShared) -> Self {
        let mut turn = Self::first(shared).await;
        turn.last(shared).await;
        turn
    }

    /// The next commit may begin.
    fn admit_next(&mut self) {
        self.first = None;
    }

    fn committer(&mut self) -> &mut Committer {
        self.first.as_mut().expect("a commit begins with this turn")
    }
}

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
        let mut turn = CommitTurn::first(self).await;
        // What is written meanwhile is in a commit that waits. One with data objects has more to do than to wait.
        if !self.memory().has_objects_to_write() {
            turn.last(self).await;
        }
        let flushed = self.memory().flushed(target);
        if let Some(flushed) = flushed {
            return flushed;
        }
        let frozen = self.memory().freeze();
        let Some((changes, next)) = frozen else {
            // They are in a commit that is under way.
            turn.last(self).await;
            return self.memory().flushed(target).unwrap_or(Ok(()));
        };
        // A failure is noted before the next commit has a turn.
        match self.commit(&mut turn, (&changes, next)).await {
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

    /// Writes changes: the objects, then the index behind the commit before. The caller has the turn until it has noted the result.
    pub(super) async fn commit<'a>(
        &'a self,
        turn: &mut CommitTurn<'a>,
        (changes, next): (&DirtyMap, Option<JournalPosition>),
    ) -> Result<(), VolumeFailure> {
        let IndexHandle::Writer(db) = &self.index else {
            return Err(VolumeFailure::Commit("the volume is read-only".into()));
        };
        let commit = turn.committer().begin(changes);
        let layouts = self.write_objects(&commit).await?;
        turn.last(self).await;
        if self.journal.is_none() {
            turn.admit_next();
        }
        // That of the commit before is this one's.
        let failure = self.memory().failure().cloned();
        if let Some(failure) = failure {
            return Err(failure);
        }
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
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(VolumeFailure::of_index(&error)),
            Err(_) => {
                let limit = self.policy.limit.as_secs();
                let why = format!("the store has not answered for {limit} s");
                Err(VolumeFailure::Commit(why.into()))
            }
        }
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
        let written = write_object(&self.access, self.policy, (&path, payload)).await;
        written.map(|()| layout).map_err(|error| {
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
