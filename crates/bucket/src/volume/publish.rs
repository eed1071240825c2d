//! When a writer writes tables of the index: where another server takes the volume over soon, after some flushes, so that it has few logs
//! to read; and on request: it writes all its changes into tables of the index, so that a checkpoint which another program makes
//! has them. The request is a checkpoint in the manifest, which the writer polls anyway: it costs no request to the store.
//!
//! # Invariants
//!
//! * A request is carried out once, and changes nothing of what a flush acknowledges: a table that cannot be written is logged, and the
//!   command that waits for it ends by its own timeout.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slatedb::config::{FlushOptions, FlushType};
use slatedb::{Db, DbStatus};

use super::VolumeShared;
use super::index::IndexHandle;
use crate::format::FLUSH_REQUEST;

/// Logs until a table is written: a client waits while the next writer reads them, 6 ms each.
const LOGS_MAX: u64 = 128;

/// Counts the logs of a volume that another server takes over soon.
#[derive(Debug, Default)]
pub(super) struct TableWrites(AtomicU64);

/// Requests that this writer has found.
#[derive(Debug, Default)]
pub(super) struct FlushRequests(BTreeSet<[u8; 16]>);

impl FlushRequests {
    /// Whether there is one that was not there before. Those that are gone are forgotten.
    pub(super) fn has_new(&mut self, status: &DbStatus) -> bool {
        let checkpoints = status.current_manifest.checkpoints().iter();
        let requests = checkpoints.filter(|one| one.name.as_deref() == Some(FLUSH_REQUEST));
        let found: BTreeSet<[u8; 16]> = requests.map(|one| *one.id.as_bytes()).collect();
        let has_new = !found.is_subset(&self.0);
        self.0 = found;
        has_new
    }
}

impl VolumeShared {
    /// A log was written.
    pub(super) fn count_log(self: &Arc<Self>) {
        let Some(TableWrites(logs)) = &self.table_writes else {
            return;
        };
        if (logs.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(LOGS_MAX) {
            self.begin_table();
        }
    }

    /// Writes what is in logs into a table, in a task, if another server takes the volume over soon.
    pub(super) fn begin_table(self: &Arc<Self>) {
        let IndexHandle::Writer(db) = &self.index else {
            return;
        };
        if self.table_writes.is_none() {
            return;
        }
        let (db, uri) = (db.clone(), self.access.uri.clone());
        drop(self.runtime.spawn(async move {
            if let Err(error) = write_tables(&db).await {
                // A failure of the volume is found by its next flush.
                tracing::debug!("{uri}: no table was written: {error}");
            }
        }));
    }

    /// Commits all changes and writes them into tables, in a task.
    pub(super) fn begin_publish(self: &Arc<Self>) {
        let shared = self.clone();
        drop(self.runtime.spawn(async move {
            let IndexHandle::Writer(db) = &shared.index else {
                return;
            };
            // A failure is the volume's, and logged.
            if shared.flush_here().await.is_err() {
                return;
            }
            if let Err(error) = shared.record_publish().await {
                tracing::warn!("no snapshot has the journal: {error}");
                return;
            }
            if let Err(error) = write_tables(db).await {
                let uri = &shared.access.uri;
                tracing::warn!("{uri}: the tables for a snapshot were not written: {error}");
            }
            shared.relocate_on_request().await;
        }));
    }
}

pub(super) async fn write_tables(db: &Db) -> Result<(), slatedb::Error> {
    db.flush_with_options(FlushOptions {
        flush_type: FlushType::MemTable,
    })
    .await
}
