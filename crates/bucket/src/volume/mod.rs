//! [`BucketVolume`]: an open volume as a disk.
//!
//! ```text
//! write ──► memory, acknowledged        flush ──► data objects, several at once ──► one batch of the index ──► its log: durable
//! read  ──► memory, else the index ──► an object
//! ```
//!
//! # Invariants
//!
//! * A flush returns when every change before it is in the store, or with a journal is durable there (`journal.rs`). A commit that failed, for any reason, leaves the volume failed:
//!   no later flush reports success.
//! * Commits are made one at a time, and to their end: a caller that drops its flush stops nothing.
//! * A data object is never written twice, and never before its name is the writer's alone: the generation in it was made durable in
//!   the index, which has one writer.
//! * All work of the store runs on threads of its own (`runtime.rs`); the cores wait for answers.
//!
//! # What it does not do
//!
//! It keeps no data in memory once that is in the store: `cache(…)` in front of it does.

mod checkpoints;
mod clones;
mod close;
mod commit;
mod device;
mod extents;
mod index;
mod index_clock;
mod journal;
mod journal_open;
mod memory;
mod open;
mod ownership;
mod publish;
mod read;
mod relocate;
mod zero;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use block::{Geometry, IoError, Operation, Range};
use engine::InFlight;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};

pub(crate) use self::checkpoints::{FoundSnapshot, IndexCheckpoints};
use self::close::CloseGuard;
pub use self::close::{close_all, volume_figures};
pub(crate) use self::index::{IndexHandle, ScanError};
use self::journal::OpenJournal;
pub use self::journal::VolumeJournal;
use self::memory::VolumeMemory;
pub(crate) use self::open::{
    FoundMeta, open_checkpoint, open_on, open_reader, open_snapshot, open_tables,
};
use self::publish::TableWrites;
use crate::committer::Committer;
use crate::error::VolumeFailure;
use crate::format::VolumeId;
use crate::snapshot_name::SnapshotName;
use crate::store::{RetryPolicy, StoreAccess};

/// How a volume is opened.
#[derive(Debug, Clone)]
pub struct VolumeOptions {
    /// How its store is reached.
    pub store: crate::StoreOptions,
    /// Never written: it fences no other server.
    pub read_only: bool,
    /// Another server takes it over soon, which is no failure and is logged as none. It is opened sooner then.
    pub is_standby: bool,
    /// The snapshot of the volume that is read instead, and never written.
    pub snapshot: Option<SnapshotName>,
    /// How long a request to the store is retried before it fails.
    pub outage_limit: Duration,
    /// A local journal: a flush returns when it is durable there. Not for a volume that is only read.
    pub journal: Option<VolumeJournal>,
    /// The journal that the volume may have open is given up, with the changes in it that are not in the store.
    pub discards_journal: bool,
}

impl Default for VolumeOptions {
    fn default() -> Self {
        Self {
            store: crate::StoreOptions::default(),
            read_only: false,
            is_standby: false,
            snapshot: None,
            outage_limit: Duration::from_secs(600),
            journal: None,
            discards_journal: false,
        }
    }
}

/// An open volume.
#[derive(Debug, Clone)]
pub struct BucketVolume {
    shared: Arc<VolumeShared>,
    geometry: Geometry,
    guard: Arc<CloseGuard>,
}

/// What the requests and the tasks of a volume share.
struct VolumeShared {
    access: StoreAccess,
    id: VolumeId,
    /// The id of the checkpoint of a snapshot.
    snapshot: Option<[u8; 16]>,
    index: IndexHandle,
    /// That of a writer in the manifest of the index: a later one there is another writer's.
    writer_epoch: Option<u64>,
    /// That of this writer, or the last one's of a volume that is only read.
    generation: u32,
    /// The local journal, if it has one.
    journal: Option<OpenJournal>,
    /// Of a volume that another server takes over soon.
    table_writes: Option<TableWrites>,
    runtime: Handle,
    policy: RetryPolicy,
    memory: Mutex<VolumeMemory>,
    /// Notified when a commit has ended.
    space: Notify,
    /// The first turn of commits, and the last one.
    committer: tokio::sync::Mutex<Committer>,
    index_turn: tokio::sync::Mutex<()>,
    /// Requests of reads to the store.
    fetches: Semaphore,
    /// Requests to vacate objects are carried out one at a time.
    relocations: tokio::sync::Mutex<()>,
    /// Changes that go on although their futures were dropped.
    changes: InFlight,
}

impl fmt::Debug for VolumeShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VolumeShared").field(&self.access).finish()
    }
}

impl VolumeShared {
    fn memory(&self) -> MutexGuard<'_, VolumeMemory> {
        // Every change of it is whole, or a panic in an assertion that ends its connection.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The volume is out of use: requests that wait for space fail, too.
    fn fail(&self, failure: VolumeFailure) {
        let text = failure.to_string();
        let is_quiet = match failure {
            VolumeFailure::Closed => true,
            VolumeFailure::Fenced => self.table_writes.is_some(),
            VolumeFailure::Commit(_) | VolumeFailure::Journal(_) => false,
        };
        let is_news = self.memory().fail(failure);
        if is_news && !is_quiet {
            tracing::error!("{}: {text}", self.access.uri);
        }
        self.space.notify_waiters();
    }

    /// Runs `work` on the threads of the volumes, to its end also if the caller drops it.
    async fn in_task<F>(self: &Arc<Self>, work: impl FnOnce(Arc<Self>) -> F + Send) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let task = self.runtime.spawn(work(self.clone()));
        engine::join(task).await
    }

    fn error(
        &self,
        failure: &VolumeFailure,
        operation: Operation,
        range: Option<Range>,
    ) -> IoError {
        failure.to_io(&self.access.uri, operation, range)
    }

    /// An error if no request is answered any more: of a volume that was taken over or closed.
    fn refuse_lost(&self, operation: Operation, range: Option<Range>) -> Result<(), IoError> {
        match self.memory().failure() {
            Some(failure @ (VolumeFailure::Fenced | VolumeFailure::Closed)) => {
                Err(self.error(failure, operation, range))
            }
            _ => Ok(()),
        }
    }

    /// An error if no change is taken any more.
    fn refuse_failed(&self, operation: Operation, range: Option<Range>) -> Result<(), IoError> {
        match self.memory().failure() {
            Some(failure) => Err(self.error(failure, operation, range)),
            None => Ok(()),
        }
    }
}
