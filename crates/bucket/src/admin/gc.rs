//! [`gc`]: deletes the data objects that neither the index nor a snapshot refers to any more, in two steps. Servers that have the volume open
//! are not disturbed.
//!
//! ```text
//! index ──► checkpoints ──► each of them ──► objects ──► candidates ──► record ──► volume still there? ──► deletes ──► record
//! ```
//!
//! # Invariants
//!
//! * The tables of the index are read first, then all its checkpoints, then the objects are listed: what is made meanwhile refers to no
//!   candidate (`collection_plan.rs` has the reasons). The log is not read: a checkpoint that is made later has the tables, and any part of
//!   the log that is in tables until then. So what was overwritten in the log alone is no candidate.
//! * An object is deleted only if an earlier collection recorded it, at least 15 minutes before, and this one found it unused again.
//! * The times of two collections are of clocks that agree with the store's: each of them probes that first.
//! * The record has every object that is deleted until it is deleted: an interrupted collection is continued by the next one.
//! * What an interrupted probe left is deleted at the same age, by the store's time of it.

use std::time::{Duration, SystemTime};

use engine::clock;
use object_store::Error;
use object_store::path::Path;
use serde::Serialize;

use super::references::{ListedData, VolumeReferences};
use super::snapshot::{SnapshotOptions, reach_last_log};
use super::{delete_object, delete_objects, get, list, on_runtime, put};
use crate::collection_plan::{AGE, CollectionPlan, UnusedObject, candidates};
use crate::error::BucketError;
use crate::format::{CollectionRecord, VolumeHeader};
use crate::store::{StoreAccess, StoreOptions, probe, read_header};
use crate::uri::BucketUri;
use crate::volume::{IndexCheckpoints, open_tables};

/// The generation of the first writer of a volume.
const FIRST_GENERATION: u32 = 1;
/// The age at which a manifest of the index is deleted in a folder: no program is suspended for longer in the middle of a change.
const MANIFEST_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long a server may take to write its log into tables: it polls its index each 15 s.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// How objects are collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GcOptions {
    /// Report what would be done, and write nothing.
    pub dry_run: bool,
}

/// A data object that nothing refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CollectedObject {
    /// Its name in the folder of the data.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Seconds until it may be deleted, from the collection on that recorded it; 0: it was deleted, or would be.
    pub wait_s: u64,
    /// Whether an earlier collection recorded it.
    pub recorded: bool,
}

/// What was found, and deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GcReport {
    /// Where.
    pub uri: String,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Data objects that were deleted; in a dry run those that would be.
    pub deleted: u64,
    /// Their bytes.
    pub deleted_bytes: u64,
    /// Data objects that nothing refers to either, and that a later collection deletes.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// Seconds until all of these may be deleted.
    pub wait_s: u64,
    /// Seconds until the last checkpoint of the index expires that does: of a server that only reads, or of a command that is at work or was
    /// interrupted. What only these refer to is listed once they are gone. 0: there is none.
    pub held_s: u64,
    /// Old manifests of the index that were deleted: of a volume in a folder only, elsewhere its writer deletes them.
    pub manifests: u64,
    /// Objects of interrupted probes of the store that were deleted; in a dry run those that would be.
    pub probes: u64,
    /// Both kinds of data objects, by name.
    pub objects: Vec<CollectedObject>,
}

/// Deletes the data objects of a volume that nothing refers to.
///
/// # Errors
/// There is none, it is not understood, the clock differs from the store's, or the store fails; the same command continues.
pub async fn gc(
    uri: &BucketUri,
    options: &StoreOptions,
    how: GcOptions,
) -> Result<GcReport, BucketError> {
    let access = StoreAccess::connect(uri, options, false)?;
    let is_folder = matches!(uri, BucketUri::File(_));
    let run = GcRun {
        dry_run: how.dry_run,
        manifest_age: is_folder.then_some(MANIFEST_AGE),
        clock: clock::wall,
    };
    on_runtime(async move { Box::pin(gc_on(&access, &run)).await }).await
}

/// One collection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GcRun<C> {
    /// Nothing is written.
    pub(crate) dry_run: bool,
    /// The age of manifests that are deleted, if any are.
    pub(crate) manifest_age: Option<Duration>,
    /// The time.
    pub(crate) clock: C,
}

pub(crate) async fn gc_on(
    access: &StoreAccess,
    run: &GcRun<impl Fn() -> SystemTime>,
) -> Result<GcReport, BucketError> {
    let header = read_header(access).await?.header;
    let access = &access.unlock(&header)?;
    if !run.dry_run {
        probe(access).await?;
    }
    let record = read_record(access).await?;
    if !run.dry_run {
        reach_log(access).await?;
    }
    let tables = Box::pin(open_tables(access, &header)).await?;
    let found = Box::pin(VolumeReferences::find(access, &header, tables)).await?;
    let listed = ListedData::list(access).await?;
    let own = FIRST_GENERATION..=found.last_generation;
    let unused = candidates(&listed.objects, &found.all(), &own);
    let now = (run.clock)();
    let millis = now.duration_since(SystemTime::UNIX_EPOCH);
    let millis = u64::try_from(millis.unwrap_or_default().as_millis()).unwrap_or(u64::MAX);
    let plan = CollectionPlan::of(&unused, &record.clone().unwrap_or_default(), millis);
    let mut report = report_of(&access.uri, &plan, run.dry_run);
    report.held_s = seconds(found.expires.map_or(Duration::ZERO, |expires| {
        expires.duration_since(now).unwrap_or_default()
    }));
    let probes = old_probes(access, now).await?;
    report.probes = probes.len() as u64;
    if run.dry_run {
        return Ok(report);
    }
    carry_out(access, &header, &plan, record).await?;
    delete_objects(access, probes).await?;
    if let Some(age) = run.manifest_age {
        report.manifests = delete_manifests(access, age).await?;
    }
    Ok(report)
}

/// Requests that a server writes the log into tables, and waits for a short time: what was overwritten since is found then.
pub(super) async fn reach_log(access: &StoreAccess) -> Result<(), BucketError> {
    let checkpoints = IndexCheckpoints::of(access);
    let how = SnapshotOptions::default();
    match reach_last_log(access, &checkpoints, how, ANSWER_LIMIT).await {
        Err(BucketError::NoAnswer { .. }) => Ok(()),
        reached => reached,
    }
}

/// Whole seconds, at least so long.
fn seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

fn report_of(uri: &str, plan: &CollectionPlan, dry_run: bool) -> GcReport {
    let objects = plan.unused.iter().map(|one| CollectedObject {
        name: one.object.to_string(),
        bytes: one.len,
        wait_s: seconds(one.wait),
        recorded: one.found.is_some(),
    });
    let bytes = |one: &UnusedObject| one.len;
    GcReport {
        uri: uri.to_owned(),
        dry_run,
        deleted: plan.due().count() as u64,
        deleted_bytes: plan.due().map(bytes).sum(),
        waiting: plan.waiting().count() as u64,
        waiting_bytes: plan.waiting().map(bytes).sum(),
        wait_s: plan
            .waiting()
            .map(|one| seconds(one.wait))
            .max()
            .unwrap_or(0),
        held_s: 0,
        manifests: 0,
        probes: 0,
        objects: objects.collect(),
    }
}

/// Writes the record and deletes what has waited long enough.
async fn carry_out(
    access: &StoreAccess,
    header: &VolumeHeader,
    plan: &CollectionPlan,
    before: Option<CollectionRecord>,
) -> Result<(), BucketError> {
    let record = plan.record();
    let is_there = before.is_some();
    if before.unwrap_or_default() != record {
        replace_record(access, header, &record, is_there).await?;
    }
    let paths = plan
        .due()
        .map(|one| Path::from(access.names.object(one.object)));
    let paths: Vec<Path> = paths.collect();
    if paths.is_empty() {
        return Ok(());
    }
    delete_objects(access, paths).await?;
    replace_record(access, header, &plan.record_behind(), true).await
}

/// The record of earlier collections, if there is one.
async fn read_record(access: &StoreAccess) -> Result<Option<CollectionRecord>, BucketError> {
    let path = Path::from(access.names.collection());
    let bytes = match get(access, &path).await {
        Ok(bytes) => Some(bytes),
        Err(BucketError::Store { source, .. }) if matches!(*source, Error::NotFound { .. }) => None,
        Err(error) => return Err(error),
    };
    let record = bytes.map(|bytes| CollectionRecord::decode(&bytes));
    record
        .transpose()
        .map_err(|source| BucketError::Collection {
            uri: access.uri.clone(),
            source,
        })
}

/// Writes the record of a volume. An empty one is none, and deletes the one that is there.
async fn replace_record(
    access: &StoreAccess,
    header: &VolumeHeader,
    record: &CollectionRecord,
    is_there: bool,
) -> Result<(), BucketError> {
    let path = Path::from(access.names.collection());
    if record.found.is_empty() {
        return match is_there {
            true => delete_object(access, &path).await,
            false => Ok(()),
        };
    }
    put(access, &path, record.encode()).await?;
    // A command that deletes the volume removes the header first: it lists the record behind this, or has listed the records before.
    let uri = access.uri.clone();
    match read_header(access).await {
        Ok(now) if now.header.id == header.id => Ok(()),
        Ok(_) | Err(BucketError::NoVolume { .. }) => {
            delete_object(access, &path).await?;
            Err(BucketError::NoVolume { uri })
        }
        Err(error) => Err(error),
    }
}

/// What interrupted probes left. A probe at work is minutes old at most, unless its program was suspended: it fails then, and is repeated.
async fn old_probes(access: &StoreAccess, now: SystemTime) -> Result<Vec<Path>, BucketError> {
    let mut probes = list(access, &access.names.probes()).await?;
    probes.retain(|probe| {
        let age = now.duration_since(probe.last_modified.into());
        age.is_ok_and(|age| age >= AGE)
    });
    Ok(probes.into_iter().map(|probe| probe.location).collect())
}

/// Deletes the old manifests of the index, and returns how many.
async fn delete_manifests(access: &StoreAccess, age: Duration) -> Result<u64, BucketError> {
    let count = async || {
        let mut count = 0;
        for folder in ["manifest", "compactions"] {
            let folder = format!("{}/{folder}", access.names.index());
            count += list(access, &folder).await?.len() as u64;
        }
        Ok::<u64, BucketError>(count)
    };
    let before = count().await?;
    IndexCheckpoints::of(access)
        .delete_old_manifests(age)
        .await?;
    // A writer may make others meanwhile.
    Ok(before.saturating_sub(count().await?))
}
