//! How a volume is opened with a local journal, or refused without the one that it has.
//!
//! # Invariants
//!
//! * What can be refused is refused before another server loses the volume: a mark next to the header, which costs no request of its own,
//!   states that there may be a journal, and then the index is read first.
//! * The mark is a hint: the record of the index decides, and is read again by the only writer.

use object_store::path::Path;
use object_store::{Error, ObjectStoreExt as _};

use super::VolumeOptions;
use super::journal::{Replay, VolumeJournal};
use super::open::{FoundMeta, open_reader};
use crate::error::BucketError;
use crate::format::{JournalHeader, JournalPosition, JournalRecord, VolumeHeader};
use crate::journal_plan::JournalPlan;
use crate::store::{FoundHeader, RetryPolicy, StoreAccess, write_object};

/// The journal of a writer that has a generation.
pub(super) struct BegunJournal {
    pub(super) journal: VolumeJournal,
    pub(super) header: JournalHeader,
    /// What is to be committed before any request.
    pub(super) replay: Option<Replay>,
}

impl BegunJournal {
    /// Prepares it for the writer of this generation, and what the volume is to record of it.
    pub(super) async fn prepare(
        access: &StoreAccess,
        (journal, volume): (&VolumeJournal, &VolumeHeader),
        (found, generation): (&FoundMeta, u32),
    ) -> Result<(Self, JournalRecord), BucketError> {
        let plan = journal.plan(access, (volume.id, found)).await?;
        let mut header = match (plan, &found.journal) {
            (JournalPlan::Replay(header), Some(record)) => {
                let from = (&header, record.next);
                let replay = journal.replay(access, from, volume.size).await?;
                let begun = Self {
                    journal: journal.clone(),
                    header,
                    replay: Some(replay),
                };
                return Ok((begun, record.clone()));
            }
            (JournalPlan::Reuse(header) | JournalPlan::Replay(header), _) => header,
            (JournalPlan::Create, _) => journal.create(volume.id).await?,
        };
        write_mark(access).await?;
        header.opening.generation = generation;
        header.is_open = true;
        let record = journal.record(header.opening, JournalPosition::START);
        let begun = Self {
            journal: journal.clone(),
            header,
            replay: None,
        };
        Ok((begun, record))
    }

    /// The volume records it: from now on it may have changes that are not in the store.
    pub(super) async fn open(&self) -> Result<(), BucketError> {
        match self.replay {
            // When that is committed.
            Some(_) => Ok(()),
            None => self.journal.write_header(&self.header).await,
        }
    }
}

/// Refuses what can be refused without being the writer.
pub(super) async fn refuse_early(
    access: &StoreAccess,
    found: &FoundHeader,
    options: &VolumeOptions,
) -> Result<(), BucketError> {
    let mut has_reason = found.has_journal_mark && !options.discards_journal;
    if let Some(journal) = &options.journal {
        let header = journal.header(access).await?;
        has_reason |=
            header.is_some_and(|header| header.is_open || header.volume != found.header.id);
    }
    if !has_reason {
        return Ok(());
    }
    let (index, meta) = open_reader(access, &found.header).await?;
    index.close(&access.uri).await;
    match &options.journal {
        Some(journal) => {
            let plan = journal.plan(access, (found.header.id, &meta)).await;
            plan.map(drop)
        }
        None => refuse_without(access, &meta),
    }
}

/// Refuses a volume with an open journal, which is opened without.
pub(super) fn refuse_without(access: &StoreAccess, found: &FoundMeta) -> Result<(), BucketError> {
    let refused = JournalPlan::without(found.journal.as_ref());
    refused.map_err(|source| BucketError::NoJournal {
        uri: access.uri.clone(),
        source,
    })
}

async fn write_mark(access: &StoreAccess) -> Result<(), BucketError> {
    let path = Path::from(access.names.journal_mark());
    let put = write_object(access, RetryPolicy::OPEN, (&path, "{}\n".into())).await;
    put.map_err(|error| BucketError::store(&access.uri, "write the mark of a journal", error))
}

/// Removes the mark of a volume that has no journal. A mark that stays costs each open a little time.
pub(super) async fn remove_mark(access: &StoreAccess) {
    let path = Path::from(access.names.journal_mark());
    match access.store.delete(&path).await {
        Ok(()) | Err(Error::NotFound { .. }) => {}
        Err(error) => tracing::debug!("{}: a mark of no journal stays: {error}", access.uri),
    }
}
