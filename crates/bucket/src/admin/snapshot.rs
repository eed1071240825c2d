//! Snapshots: created, listed and deleted.
//!
//! ```text
//! last log ──► manifest behind it? ──► pending checkpoint ──► same header? ──► snapshot ──► header still there? ──► done
//!                   │ no
//!                   └──► request to the writer, wait
//! ```
//!
//! With a local journal the request is made in any case, and what is waited for is the writer's record that it has carried one out.
//!
//! # Invariants
//!
//! * A snapshot has everything that a flush acknowledged before its command began: the log of each such flush is listed first, and the
//!   checkpoint is made only when the manifest of the index is behind the last of them. It is the state between two commits.
//! * No writer is fenced, unless `take_over` permits that and no writer answers.
//! * The size of a snapshot is that of the volume when the checkpoint was made.
//! * A snapshot that is reported is not deleted with its volume: its command finds the header behind it, or `delete` finds the snapshot
//!   behind the header (`delete.rs`).

use std::time::Duration;

use chrono::SecondsFormat;
use engine::clock;
use object_store::ObjectMeta;
use serde::Serialize;
use slatedb::Checkpoint;

use super::{list, on_runtime, take_over};
use crate::error::BucketError;
use crate::format::{JournalRecord, SnapshotRecord, VolumeHeader};
use crate::snapshot_name::SnapshotName;
use crate::store::{StoreAccess, StoreOptions, read_header};
use crate::uri::BucketUri;
use crate::volume::{FoundSnapshot, IndexCheckpoints, open_reader};

/// Tries, while others grow the volume at the same time.
const TRIES: usize = 5;
/// How long a server may take to write its changes: it polls its index each 15 s.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
const ANSWER_POLL: Duration = Duration::from_secs(2);

/// How a snapshot is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SnapshotOptions {
    /// Open the volume for writing if it was not closed and no server answers: a server that has it open loses it.
    pub take_over: bool,
}

/// A snapshot of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BucketSnapshot {
    /// Where it is read: `URI@NAME`.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// The size that the volume had, bytes.
    pub size: u64,
    /// When it was made, as RFC 3339 has it.
    pub created: String,
}

impl BucketSnapshot {
    fn of(access: &StoreAccess, found: &FoundSnapshot) -> Self {
        let name = found.record.name.to_string();
        let created = found.checkpoint.create_time;
        Self {
            uri: format!("{}@{name}", access.uri),
            name,
            size: found.record.size,
            created: created.to_rfc3339_opts(SecondsFormat::Secs, true),
        }
    }
}

/// Makes a snapshot of a volume, which may be open for writing meanwhile.
///
/// # Errors
/// There is one of this name, no server wrote its changes in time, or the store fails. `list_snapshots` shows whether a snapshot was
/// made in spite of an error of the store.
pub async fn create_snapshot(
    uri: &BucketUri,
    options: &StoreOptions,
    name: &SnapshotName,
    how: SnapshotOptions,
) -> Result<BucketSnapshot, BucketError> {
    let access = StoreAccess::connect(uri, options, false)?;
    let name = name.clone();
    on_runtime(async move { create_snapshot_on(&access, &name, how).await }).await
}

/// The snapshots of a volume, in the order in which they were made.
///
/// # Errors
/// There is no volume, or the store fails.
pub async fn list_snapshots(
    uri: &BucketUri,
    options: &StoreOptions,
) -> Result<Vec<BucketSnapshot>, BucketError> {
    let access = StoreAccess::connect(uri, options, false)?;
    on_runtime(async move { list_snapshots_on(&access).await }).await
}

/// Deletes a snapshot. What reads it fails from some time on.
///
/// # Errors
/// There is none of this name, it has clones, or the store fails; the same command continues.
pub async fn delete_snapshot(
    uri: &BucketUri,
    options: &StoreOptions,
    name: &SnapshotName,
) -> Result<BucketSnapshot, BucketError> {
    let access = StoreAccess::connect(uri, options, false)?;
    let name = name.clone();
    on_runtime(async move { delete_snapshot_on(&access, &name).await }).await
}

/// The names of the volume that is there. The manifest of its index needs no key; one that is given has to be the volume's.
async fn of_volume(access: &StoreAccess) -> Result<StoreAccess, BucketError> {
    let header = read_header(access).await?.header;
    match access.key {
        Some(_) => access.unlock(&header),
        None => Ok(access.of(&header)),
    }
}

pub(crate) async fn list_snapshots_on(
    access: &StoreAccess,
) -> Result<Vec<BucketSnapshot>, BucketError> {
    let access = of_volume(access).await?;
    let found = IndexCheckpoints::of(&access).snapshots().await?;
    Ok(found
        .iter()
        .map(|one| BucketSnapshot::of(&access, one))
        .collect())
}

pub(crate) async fn delete_snapshot_on(
    access: &StoreAccess,
    name: &SnapshotName,
) -> Result<BucketSnapshot, BucketError> {
    let access = of_volume(access).await?;
    let checkpoints = IndexCheckpoints::of(&access);
    checkpoints.find(name).await?;
    refuse_clones(&access, &checkpoints, name).await?;
    let removed = checkpoints.remove_snapshot(name).await?;
    Ok(BucketSnapshot::of(&access, &removed))
}

/// Refuses to delete a snapshot with clones.
async fn refuse_clones(
    access: &StoreAccess,
    checkpoints: &IndexCheckpoints<'_>,
    name: &SnapshotName,
) -> Result<(), BucketError> {
    let clones = checkpoints.clones().await?.into_iter();
    let clones = clones.filter(|clone| clone.snapshot == *name);
    let clones: Vec<String> = clones.map(|clone| access.uri_of(&clone.path)).collect();
    match clones.is_empty() {
        true => Ok(()),
        false => Err(BucketError::HasClones {
            uri: format!("{}@{name}", access.uri),
            clones: clones.join(", "),
        }),
    }
}

pub(crate) async fn create_snapshot_on(
    access: &StoreAccess,
    name: &SnapshotName,
    how: SnapshotOptions,
) -> Result<BucketSnapshot, BucketError> {
    let access = access.unlock(&read_header(access).await?.header)?;
    let checkpoints = IndexCheckpoints::of(&access);
    if checkpoints.find(name).await.is_ok() {
        return Err(BucketError::SnapshotExists {
            uri: access.uri.clone(),
            name: name.clone(),
        });
    }
    reach_journal(&access, &checkpoints, ANSWER_LIMIT).await?;
    reach_last_log(&access, &checkpoints, how, ANSWER_LIMIT).await?;
    for _ in 0..TRIES {
        let header = read_header(&access).await?.header;
        let pending = checkpoints.create_pending().await?;
        let made = match is_header(&access, &header).await {
            Ok(true) => make(&access, &checkpoints, name, (&header, &pending)).await,
            // Its size is another one now.
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        if let Err(error) = checkpoints.remove(&pending).await {
            tracing::debug!("{}: a checkpoint is left for hours: {error}", access.uri);
        }
        if let Some(found) = made? {
            return Ok(BucketSnapshot::of(&access, &found));
        }
    }
    Err(BucketError::Contended {
        uri: access.uri.clone(),
    })
}

/// Whether `header` is in force.
async fn is_header(access: &StoreAccess, header: &VolumeHeader) -> Result<bool, BucketError> {
    Ok(read_header(access).await?.header == *header)
}

/// Makes a pending checkpoint a snapshot, of a volume that is there then.
async fn make(
    access: &StoreAccess,
    checkpoints: &IndexCheckpoints<'_>,
    name: &SnapshotName,
    (header, pending): (&VolumeHeader, &Checkpoint),
) -> Result<Option<FoundSnapshot>, BucketError> {
    let record = SnapshotRecord {
        name: name.clone(),
        size: header.size,
    };
    let found = checkpoints.create_snapshot(&record, pending).await?;
    // A volume that is being deleted has no header any more; one that grows is another matter.
    let is_there = read_header(access).await.and_then(|now| {
        let uri = access.uri.clone();
        let is_it = now.header.id == header.id;
        is_it.then_some(()).ok_or(BucketError::NoVolume { uri })
    });
    match is_there {
        Ok(()) => Ok(Some(found)),
        Err(error) => {
            checkpoints.remove(&found.checkpoint).await?;
            Err(error)
        }
    }
}

/// The journal that the index records as open.
async fn open_journal(
    access: &StoreAccess,
    header: &VolumeHeader,
) -> Result<Option<JournalRecord>, BucketError> {
    let (index, meta) = open_reader(access, header).await?;
    index.close(&access.uri).await;
    Ok(meta.journal)
}

/// Waits until the store has what flushes acknowledged in a local journal before, for `limit` at most.
async fn reach_journal(
    access: &StoreAccess,
    checkpoints: &IndexCheckpoints<'_>,
    limit: Duration,
) -> Result<(), BucketError> {
    let found = read_header(access).await?;
    if !found.has_journal_mark {
        return Ok(());
    }
    let Some(before) = open_journal(access, &found.header).await? else {
        return Ok(());
    };
    // Of another opening, or of none: that had all of it in the store first.
    let has_answered = |now: Option<JournalRecord>| {
        let now = now.map(|record| (record.opening, record.publishes));
        now != Some((before.opening, before.publishes))
    };
    let request = checkpoints.request_flush().await?;
    let reached = async {
        let begin = clock::now();
        while clock::now().saturating_duration_since(begin) < limit {
            clock::sleep(ANSWER_POLL).await;
            if has_answered(open_journal(access, &found.header).await?) {
                return Ok(());
            }
        }
        Err(BucketError::NoAnswer {
            uri: access.uri.clone(),
            seconds: limit.as_secs(),
        })
    };
    let reached = reached.await;
    if let Err(error) = checkpoints.remove(&request).await {
        tracing::debug!("{}: a request is left for hours: {error}", access.uri);
    }
    reached
}

/// Waits until the manifest of the index has every log that is there now, for `limit` at most.
pub(super) async fn reach_last_log(
    access: &StoreAccess,
    checkpoints: &IndexCheckpoints<'_>,
    how: SnapshotOptions,
    limit: Duration,
) -> Result<(), BucketError> {
    let logs = list(access, &access.names.index_logs()).await?;
    let Some(last) = logs.iter().map(log_number).max() else {
        return Ok(());
    };
    if checkpoints.next_log().await? > last {
        return Ok(());
    }
    let request = checkpoints.request_flush().await?;
    let reached = wait_for_log(checkpoints, last, limit).await;
    if let Err(error) = checkpoints.remove(&request).await {
        tracing::debug!("{}: a request is left for hours: {error}", access.uri);
    }
    if reached? {
        return Ok(());
    }
    let no_answer = || BucketError::NoAnswer {
        uri: access.uri.clone(),
        seconds: limit.as_secs(),
    };
    if !how.take_over {
        return Err(no_answer());
    }
    take_over(access, false).await?;
    match checkpoints.next_log().await? > last {
        true => Ok(()),
        false => Err(no_answer()),
    }
}

async fn wait_for_log(
    checkpoints: &IndexCheckpoints<'_>,
    last: u64,
    limit: Duration,
) -> Result<bool, BucketError> {
    let begin = clock::now();
    while clock::now().saturating_duration_since(begin) < limit {
        clock::sleep(ANSWER_POLL).await;
        if checkpoints.next_log().await? > last {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The number of a log; of what has none one that no manifest reaches, so that it is not overlooked.
fn log_number(object: &ObjectMeta) -> u64 {
    let name = object.location.filename().unwrap_or_default();
    let number = name.strip_suffix(".sst").and_then(|name| name.parse().ok());
    number.unwrap_or(u64::MAX)
}
