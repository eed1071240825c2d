//! [`relocate`]: data objects of which the volume uses little are vacated, so that a collection deletes them.
//!
//! ```text
//! log into tables ──► index, checkpoints, objects ──► plan ──► request ──► server: moves the blocks ──► request gone: done
//!                                                                 │ no answer, and permitted
//!                                                                 └──► volume opened here: moves the blocks
//! ```
//!
//! # Invariants
//!
//! * The writer alone moves blocks (`volume/relocate.rs`). No server is fenced, unless `take_over` permits that and none answers.
//! * The request is removed, however this ends; one of a command that was killed is carried out with the next one, and removed.
//!
//! # What it does not do
//!
//! It deletes nothing: both copies are in the store until a collection has deleted the objects.

use std::time::Duration;

use engine::clock;
use object_store::Error;
use object_store::path::Path;
use serde::Serialize;

use super::gc::reach_log;
use super::references::{ListedData, VolumeReferences};
use super::{delete_object, get, on_runtime, put};
use crate::error::BucketError;
use crate::format::{RelocationProgress, RelocationRequest, VolumeHeader, random_bytes};
use crate::relocation_plan::{RelocatedPart, RelocationPlan};
use crate::store::{StoreAccess, StoreOptions, read_header};
use crate::uri::BucketUri;
use crate::volume::{IndexCheckpoints, VolumeOptions, open_on, open_tables};

/// How long a server may show no progress: it polls its index each 15 s, and writes its log into tables first.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
const ANSWER_POLL: Duration = Duration::from_secs(2);

/// How data is relocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RelocateOptions {
    /// Of which objects.
    pub part: RelocatedPart,
    /// Report what would be done, and write nothing.
    pub dry_run: bool,
    /// Open the volume for writing if no server answers: a server that has it open loses it.
    pub take_over: bool,
}

/// What was relocated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RelocationReport {
    /// Where.
    pub uri: String,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Objects of which less than this part was used, in percent, were vacated.
    pub percent: u8,
    /// Data objects that were vacated; in a dry run those that would be.
    pub objects: u64,
    /// Their bytes, which a later collection frees.
    pub bytes: u64,
    /// The bytes of them that were used, and written again.
    pub used_bytes: u64,
}

/// Vacates the data objects of which the volume uses little, and nothing else any.
///
/// # Errors
/// There is none, no server answers, a block could not be read, or the store fails; the same command continues.
pub async fn relocate(
    uri: &BucketUri,
    options: &StoreOptions,
    how: RelocateOptions,
) -> Result<RelocationReport, BucketError> {
    let access = StoreAccess::connect(uri, options, false)?;
    on_runtime(async move { Box::pin(relocate_on(&access, how)).await }).await
}

pub(crate) async fn relocate_on(
    access: &StoreAccess,
    how: RelocateOptions,
) -> Result<RelocationReport, BucketError> {
    let header = read_header(access).await?.header;
    let access = &access.unlock(&header)?;
    if !how.dry_run {
        // What was overwritten in the log alone is found then.
        reach_log(access).await?;
    }
    let tables = Box::pin(open_tables(access, &header)).await?;
    let found = Box::pin(VolumeReferences::find(access, &header, tables)).await?;
    let listed = ListedData::list(access).await?.objects;
    let used_bytes = |object: &_| found.volume.objects.get(object).map(|used| used.bytes);
    let is_held = |object: &_| found.held.objects.contains_key(object);
    let plan = RelocationPlan::of(&listed, used_bytes, is_held, how.part);
    let report = RelocationReport {
        uri: access.uri.clone(),
        dry_run: how.dry_run,
        percent: how.part.percent(),
        objects: plan.objects.len() as u64,
        bytes: plan.bytes,
        used_bytes: plan.used,
    };
    if !how.dry_run && !plan.objects.is_empty() {
        carry_out(access, &header, &plan, how.take_over).await?;
    }
    Ok(report)
}

async fn carry_out(
    access: &StoreAccess,
    header: &VolumeHeader,
    plan: &RelocationPlan,
    take_over: bool,
) -> Result<(), BucketError> {
    let path = Path::from(access.names.relocation(u128::from_be_bytes(random_bytes())));
    let is_done = request(access, header, plan, &path).await;
    delete_object(access, &path).await?;
    if is_done? {
        return Ok(());
    }
    let uri = access.uri.clone();
    if !take_over {
        let seconds = ANSWER_LIMIT.as_secs();
        return Err(BucketError::NoRelocation { uri, seconds });
    }
    let runtime = tokio::runtime::Handle::current();
    let volume = open_on(access.clone(), &VolumeOptions::default(), runtime).await?;
    let relocated = volume.relocate(&plan.objects).await;
    volume.close().await?;
    match relocated.map_err(|error| error.to_string()) {
        Ok(None) => Ok(()),
        Ok(Some(why)) | Err(why) => Err(BucketError::Relocation { uri, why }),
    }
}

/// Requests it of the server, and waits. Whether one has done it.
async fn request(
    access: &StoreAccess,
    header: &VolumeHeader,
    plan: &RelocationPlan,
    path: &Path,
) -> Result<bool, BucketError> {
    let request = RelocationRequest {
        objects: plan.objects.clone(),
        ..RelocationRequest::default()
    };
    put(access, path, request.encode()).await?;
    // A command that deletes the volume removes the header first: it lists the request behind this, or has listed the requests before.
    let now = read_header(access).await?.header;
    if now.id != header.id {
        let uri = access.uri.clone();
        return Err(BucketError::NoVolume { uri });
    }
    let checkpoints = IndexCheckpoints::of(access);
    let signal = checkpoints.request_flush().await?;
    let done = wait(access, path).await;
    if let Err(error) = checkpoints.remove(&signal).await {
        tracing::debug!("{}: a request is left for hours: {error}", access.uri);
    }
    done
}

/// Waits while the server makes progress. Whether it has ended.
async fn wait(access: &StoreAccess, path: &Path) -> Result<bool, BucketError> {
    let mut last = (clock::now(), RelocationProgress::default());
    loop {
        clock::sleep(ANSWER_POLL).await;
        let bytes = match get(access, path).await {
            Ok(bytes) => bytes,
            Err(BucketError::Store { source, .. }) if matches!(*source, Error::NotFound { .. }) => {
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let uri = access.uri.clone();
        let request = RelocationRequest::decode(&bytes).map_err(|error| {
            let why = error.to_string();
            BucketError::Relocation { uri, why }
        })?;
        if let Some(why) = request.problem {
            let uri = access.uri.clone();
            return Err(BucketError::Relocation { uri, why });
        }
        let now = clock::now();
        if request.progress != last.1 {
            last = (now, request.progress);
        }
        if now.saturating_duration_since(last.0) >= ANSWER_LIMIT {
            return Ok(false);
        }
    }
}
