//! [`check`]: whether everything that the index refers to is in the store. Nothing is written.
//!
//! # Invariants
//!
//! * The index is read before the objects are listed: a commit under way has written its objects before its entries.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt as _};
use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use serde::Serialize;

use super::{list, on_runtime};
use crate::error::BucketError;
use crate::format::{BLOCK, DataObject, RUN_BLOCKS, data_object};
use crate::read_plan::{Fetch, ReadPlan};
use crate::run_map::{BlockSource, RunMap};
use crate::store::{RetryPolicy, StoreAccess, StoreOptions, read_header, retry};
use crate::uri::BucketUri;
use crate::volume::{check_meta, open_reader};

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
    /// Blocks with data.
    pub blocks: u64,
    /// Blocks with data that was compared.
    pub compared: u64,
    /// Data objects that the index refers to.
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
    report: CheckReport,
    /// The end of the last block that is referred to, by object.
    ends: BTreeMap<DataObject, u64>,
}

pub(crate) async fn check_on(
    access: &StoreAccess,
    what: CheckOptions,
) -> Result<CheckReport, BucketError> {
    let header = read_header(access).await?.header;
    let access = &access.of(header.id);
    let index = open_reader(access).await?;
    check_meta(access, &index, &header).await?;
    let mut checker = Checker {
        access,
        report: CheckReport {
            uri: access.uri.clone(),
            ..CheckReport::default()
        },
        ends: BTreeMap::new(),
    };
    let scan = index.scan(0..u64::MAX).await;
    let mut scan = scan.map_err(|error| BucketError::index(&access.uri, "read", error))?;
    while let Some((run, map)) = scan
        .next()
        .await
        .map_err(|error| error.about(&access.uri))?
    {
        let plan = checker.add_run(run, &map, header.size);
        if what.data {
            checker.compare(run, &plan.fetches).await;
        }
    }
    drop(scan);
    if let Err(error) = index.close().await {
        tracing::debug!("{}: the index was not closed: {error}", access.uri);
    }
    checker.compare_with_store().await?;
    Ok(checker.report)
}

impl Checker<'_> {
    fn problem(&mut self, what: String) {
        self.report.problem_count += 1;
        if self.report.problems.len() < PROBLEMS_MAX {
            self.report.problems.push(what);
        }
    }

    fn add_run(&mut self, run: u64, map: &RunMap, size: u64) -> ReadPlan {
        let mut plan = ReadPlan::default();
        for block in 0..RUN_BLOCKS {
            let source = map.block(block);
            plan.push(block, source);
            let offset = (run * RUN_BLOCKS as u64 + block as u64).saturating_mul(BLOCK);
            match source {
                BlockSource::Hole | BlockSource::Zero => continue,
                BlockSource::Inline(_) => {}
                BlockSource::Stored(stored) => {
                    let end = self.ends.entry(stored.object).or_default();
                    *end = (*end).max(stored.offset + BLOCK);
                }
            }
            self.report.blocks += 1;
            if offset >= size {
                self.problem(format!(
                    "the block at {offset} is behind the end of the volume"
                ));
            }
        }
        plan
    }

    async fn compare(&mut self, run: u64, fetches: &[Fetch]) {
        let access = self.access;
        let fetches = fetches.iter();
        let fetches = fetches.map(|fetch| async move { (fetch, fetch_bytes(access, fetch).await) });
        let fetches: Vec<_> = fetches.collect();
        let mut fetched = stream::iter(fetches).buffer_unordered(FETCHES_MAX);
        while let Some((fetch, result)) = fetched.next().await {
            self.report.compared += (fetch.range().end - fetch.range().start) / BLOCK;
            if let Err(why) = result {
                let offset = run * RUN_BLOCKS as u64 * BLOCK + fetch.first as u64 * BLOCK;
                self.problem(format!("the data at {offset}: {why}"));
            }
        }
    }

    async fn compare_with_store(&mut self) -> Result<(), BucketError> {
        let mut found = BTreeMap::new();
        for object in list(self.access, &self.access.names.data()).await? {
            match object.location.filename().and_then(data_object) {
                Some(name) => {
                    found.insert(name, object.size);
                }
                None => self.problem(format!("{} is no object of a volume", object.location)),
            }
        }
        for (object, end) in std::mem::take(&mut self.ends) {
            self.report.objects += 1;
            let path = self.access.names.object(object);
            match found.remove(&object) {
                Some(size) if size >= end => {}
                Some(size) => self.problem(format!("{path} has {size} bytes and needs {end}")),
                None => self.problem(format!("{path} is missing")),
            }
        }
        self.report.unreferenced = found.len() as u64;
        self.report.unreferenced_bytes = found.values().sum();
        Ok(())
    }
}

async fn fetch_bytes(access: &StoreAccess, fetch: &Fetch) -> Result<(), String> {
    let path = Path::from(access.names.object(fetch.object));
    let get = || async { access.store.get_range(&path, fetch.range()).await };
    let bytes = retry(RetryPolicy::OPEN, &access.uri, get).await;
    let bytes = bytes.map_err(|error| error.to_string())?;
    fetch
        .verify(&bytes)
        .map_err(|error| format!("{path}: {error}"))
}
