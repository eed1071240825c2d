//! [`discard_journal`]: gives up the local journal that a volume has open, and the changes in it that are not in the store.
//!
//! # Invariants
//!
//! * The volume is then what its last commit made it, whole. The server that has it open loses it, and its journal is refused from then on.

use serde::Serialize;

use super::{on_runtime, take_over};
use crate::error::BucketError;
use crate::format::JournalRecord;
use crate::store::{StoreAccess, StoreOptions, read_header};
use crate::uri::BucketUri;
use crate::volume::open_reader;

/// A local journal that a volume has open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BucketJournal {
    /// Its id.
    pub id: String,
    /// The machine that has it.
    pub host: String,
    /// Where it is there.
    pub path: String,
    /// Its last record that is in the store; later ones are in the journal alone.
    pub stored: u64,
}

impl BucketJournal {
    pub(super) fn of(record: &JournalRecord) -> Self {
        Self {
            id: record.opening.id.to_string(),
            host: record.host.clone(),
            path: record.path.clone(),
            stored: record.next.sequence.saturating_sub(1),
        }
    }
}

/// What was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiscardedJournal {
    /// The volume.
    pub uri: String,
    /// The journal.
    pub journal: BucketJournal,
}

/// Gives up the journal of a volume. A server that has the volume open loses it.
///
/// # Errors
/// It has no open journal, or the store fails.
pub async fn discard_journal(
    uri: &BucketUri,
    options: &StoreOptions,
) -> Result<DiscardedJournal, BucketError> {
    let access = StoreAccess::connect(uri, options, false)?;
    on_runtime(async move { discard_journal_on(&access).await }).await
}

pub(crate) async fn discard_journal_on(
    access: &StoreAccess,
) -> Result<DiscardedJournal, BucketError> {
    let header = read_header(access).await?.header;
    let (index, meta) = open_reader(&access.unlock(&header)?, &header).await?;
    index.close(&access.uri).await;
    let uri = access.uri.clone();
    let Some(record) = meta.journal else {
        return Err(BucketError::NothingToDiscard { uri });
    };
    take_over(access, true).await?;
    Ok(DiscardedJournal {
        uri,
        journal: BucketJournal::of(&record),
    })
}
