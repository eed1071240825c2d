//! [`check`]: whether everything that the index and its snapshots refer to is in the store. Nothing is written.
//!
//! # Invariants
//!
//! * The index is read before the objects are listed: a commit under way has written its objects before its entries.
//! * A collection may delete what the index referred to when it was read: an object that is missing is a problem only if something refers
//!   to it still.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt as _};
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt as _};
use serde::Serialize;

use super::on_runtime;
use super::references::{ListedData, References, VolumeReferences};
use crate::error::BucketError;
use crate::format::{BLOCK, DataObject, RUN_BLOCKS, VolumeHeader};
use crate::read_plan::{Fetch, ReadPlan};
use crate::run_map::RunMap;
use crate::snapshot_name::SnapshotName;
use crate::store::{RetryPolicy, StoreAccess, StoreOptions, read_header, retry};
use crate::uri::BucketUri;
use crate::volume::{IndexCheckpoints, IndexHandle, ScanError, open_reader, open_snapshot};

/// Problems that are listed; more are counted.
const PROBLEMS_MAX: usize = 20;
/// Requests for data at a time.
const FETCHES_MAX: usize = 16;

/// What is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckOptions {
    /// Read all data, and compare it with its checksums.
    pub data: bool,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CheckReport {
    /// Where.
    pub uri: String,
    /// Snapshots that were checked with it.
    pub snapshots: u64,
    /// Blocks with data, of the volume and each snapshot.
    pub blocks: u64,
    /// Blocks with data that was compared.
    pub compared: u64,
    /// Data objects that the index or a snapshot refers to; of a clone with those of its origins.
    pub objects: u64,
    /// Data objects that nothing refers to: overwritten, or of interrupted commits.
    pub unreferenced: u64,
    /// Their bytes.
    pub unreferenced_bytes: u64,
    /// Problems.
    pub problem_count: u64,
    /// The first of them.
    pub problems: Vec<String>,
}

/// Checks a volume.
///
/// # Errors
/// There is none, it is not understood, or the store fails. What is wrong with it is in the report.
pub async fn check(
    uri: &BucketUri,
    options: &StoreOptions,
    what: CheckOptions,
) -> Result<CheckReport, BucketError> {
    let access = StoreAccess::connect(uri, options, false)?;
    on_runtime(async move { check_on(&access, what).await }).await
}

/// What is known while a volume is checked.
struct Checker<'a> {
    access: &'a StoreAccess,
    /// What is checked now, if that is a snapshot.
    snapshot: Option<SnapshotName>,
    /// Of that, bytes.
    size: u64,
    report: CheckReport,
    references: References,
}

pub(crate) async fn check_on(
    access: &StoreAccess,
    what: CheckOptions,
) -> Result<CheckReport, BucketError> {
    let header = read_header(access).await?.header;
    let access = &access.unlock(&header)?;
    let (index, _) = open_reader(access, &header).await?;
    let mut checker = Checker {
        access,
        snapshot: None,
        size: header.size,
        report: CheckReport {
            uri: access.uri.clone(),
            ..CheckReport::default()
        },
        references: References::default(),
    };
    let added = checker.add_index(&index, what).await;
    index.close(&access.uri).await;
    added.map_err(|error| error.about(&access.uri))?;
    for snapshot in IndexCheckpoints::of(access).snapshots().await? {
        let (index, _) = open_snapshot(access, &header, &snapshot).await?;
        checker.size = snapshot.record.size;
        checker.snapshot = Some(snapshot.record.name);
        checker.report.snapshots += 1;
        let added = checker.add_index(&index, what).await;
        index.close(&access.uri).await;
        added.map_err(|error| error.about(&access.uri))?;
    }
    checker.snapshot = None;
    checker.compare_with_store(&header).await?;
    Ok(checker.report)
}

impl Checker<'_> {
    fn problem(&mut self, what: String) {
        self.report.problem_count += 1;
        if self.report.problems.len() < PROBLEMS_MAX {
            self.report.problems.push(match &self.snapshot {
                Some(name) => format!("the snapshot {name}: {what}"),
                None => what,
            });
        }
    }

    /// Adds all runs, and compares their data if that is wanted: what lies together is read together, also across runs.
    async fn add_index(
        &mut self,
        index: &IndexHandle,
        what: CheckOptions,
    ) -> Result<(), ScanError> {
        let mut scan = index.scan(0..u64::MAX).await?;
        let mut plan = ReadPlan::default();
        while let Some((run, map)) = scan.next().await? {
            self.add_run(run, &map);
            if !what.data {
                continue;
            }
            for (block, source) in (run * RUN_BLOCKS as u64..).zip(map.sources()) {
                plan.push(block, source);
            }
            // The last one may get more blocks.
            if let Some(complete) = plan.fetches.len().checked_sub(1)
                && complete >= FETCHES_MAX
            {
                let last = plan.fetches.split_off(complete);
                self.compare(&plan.fetches).await;
                plan.fetches = last;
            }
        }
        self.compare(&plan.fetches).await;
        Ok(())
    }

    fn add_run(&mut self, run: u64, map: &RunMap) {
        self.references.add_run(map);
        for (block, source) in (run * RUN_BLOCKS as u64..).zip(map.sources()) {
            if !source.is_data() {
                continue;
            }
            self.report.blocks += 1;
            let offset = block.saturating_mul(BLOCK);
            if offset >= self.size {
                self.problem(format!(
                    "the block at {offset} is behind the end of the volume"
                ));
            }
        }
    }

    async fn compare(&mut self, fetches: &[Fetch]) {
        let access = self.access;
        let fetches = fetches.iter();
        let fetches = fetches.map(|fetch| async move { (fetch, problems(access, fetch).await) });
        let fetches: Vec<_> = fetches.collect();
        let mut fetched = stream::iter(fetches).buffer_unordered(FETCHES_MAX);
        while let Some((fetch, problems)) = fetched.next().await {
            // An object that is missing is found by name.
            let Some(problems) = problems else {
                continue;
            };
            self.report.compared += fetch.block_count();
            for (block, why) in problems {
                let offset = (fetch.first + block) * BLOCK;
                self.problem(format!("the data at {offset}: {why}"));
            }
        }
    }

    /// The objects of the volume, and those of its origins that it refers to, with their sizes.
    async fn list_objects(&mut self) -> Result<BTreeMap<DataObject, u64>, BucketError> {
        let access = self.access;
        let ListedData {
            mut objects,
            foreign,
        } = ListedData::list(access).await?;
        for path in foreign {
            self.problem(format!("{path} is no object of a volume"));
        }
        let used = &self.references.objects;
        let names = &access.names;
        for origin in names.origins() {
            let is_of = |object: &DataObject| names.origin_of(object.generation) == Some(origin);
            if !used.keys().any(is_of) {
                continue;
            }
            let of_origin = ListedData::list(&access.of_origin(origin)).await?.objects;
            // What its writers wrote since is not the clone's.
            let shared = of_origin.into_iter();
            objects.extend(shared.filter(|(name, _)| is_of(name) && used.contains_key(name)));
        }
        Ok(objects)
    }

    async fn compare_with_store(&mut self, header: &VolumeHeader) -> Result<(), BucketError> {
        let mut found = self.list_objects().await?;
        let mut missing = Vec::new();
        for (object, used) in std::mem::take(&mut self.references).objects {
            let (path, end) = (self.access.names.object(object), used.end);
            self.report.objects += 1;
            match found.remove(&object) {
                Some(size) if size >= end => {}
                Some(size) => self.problem(format!("{path} has {size} bytes and needs {end}")),
                None => missing.push(object),
            }
        }
        self.report.unreferenced = found.len() as u64;
        self.report.unreferenced_bytes = found.values().sum();
        if missing.is_empty() {
            return Ok(());
        }
        let index = open_reader(self.access, header).await?;
        let now = VolumeReferences::find(self.access, header, index).await?;
        for object in missing {
            let path = self.access.names.object(object);
            match now.contains(&object) {
                true => self.problem(format!("{path} is missing")),
                false => self.report.objects -= 1,
            }
        }
        Ok(())
    }
}

/// The blocks of a fetch that are not in the store as they were written, and why. `None` if their object is missing.
async fn problems(access: &StoreAccess, fetch: &Fetch) -> Option<Vec<(u64, String)>> {
    let path = Path::from(access.names.object(fetch.object));
    let get = || async { access.store.get_range(&path, fetch.range()).await };
    let found = match retry(RetryPolicy::OPEN, &access.uri, get).await {
        Ok(bytes) => fetch.problems(&bytes, &access.object_codec(fetch.object)),
        Err(Error::NotFound { .. }) => return None,
        Err(error) => return Some(vec![(0, error.to_string())]),
    };
    let found = found.into_iter();
    let found = found.map(|(block, why)| (block, format!("{path}: {why}")));
    Some(found.collect())
}
