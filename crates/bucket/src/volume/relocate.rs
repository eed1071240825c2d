//! Relocation: the blocks of data objects of which little is used are written again, as a commit with the same data, so that nothing
//! refers to those objects any more and a collection deletes them. By the writer alone, on request of a command.
//!
//! ```text
//! request ──► index, part by part ──► blocks in these objects ──► their data ──► both turns of commits ──► still there? ──► commit
//! ```
//!
//! # Invariants
//!
//! * A block is written only with the data that it has: with both turns of commits its place is compared with the one that was read, and
//!   one that was overwritten meanwhile is left out. Changes in memory are of later commits.
//! * It is a commit as any other: one that fails leaves the volume failed.
//! * A block that cannot be read stays where it is, and the others of its object too, as far as they were fetched with it. The volume goes
//!   on.
//! * A request that was removed ends the work.
//!
//! # What it does not do
//!
//! It decides on no object, and deletes none: the command does one (`relocation_plan.rs`), a collection the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::clock;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{Error, ObjectStore as _, ObjectStoreExt as _, PutPayload};

use super::commit::CommitTurn;
use super::index::{IndexHandle, ScanError};
use super::publish::write_tables;
use super::{BucketVolume, VolumeShared};
use crate::dirty::{DirtyBlock, DirtyMap};
use crate::error::VolumeFailure;
use crate::format::{
    BLOCK_LEN, DataObject, RUN, RUN_BLOCKS, RelocationProgress, RelocationRequest,
};
use crate::read_plan::ReadPlan;
use crate::run_map::{BlockSource, StoredBlock};
use crate::store::{delete_object, read_header, read_object, retry};

/// Blocks that are moved with one commit: what flushes wait for is one request for 4 MiB and the log of the index.
const BATCH: usize = 1024;
/// Runs of a scan: what a merge of tables replaces meanwhile is kept for longer than one takes.
const SCAN_RUNS: u64 = 1 << 16;
/// How often a command reads how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Why blocks were not moved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RelocationError {
    /// The volume is out of use.
    #[error(transparent)]
    Failed(#[from] VolumeFailure),
    /// The index was not read.
    #[error(transparent)]
    Index(#[from] ScanError),
    /// The request was not read, or not written.
    #[error("the request of the relocation: {0}")]
    Store(#[from] Error),
    /// It was removed.
    #[error("the command has removed its request")]
    Removed,
}

/// A block in an object that is to be vacated.
#[derive(Debug, Clone, Copy)]
struct PlacedBlock {
    run: u64,
    block: usize,
    place: StoredBlock,
}

/// What is known while objects are vacated.
struct Relocation<'a> {
    shared: &'a VolumeShared,
    objects: &'a BTreeSet<DataObject>,
    /// Where the command reads how far it is.
    request: Option<&'a Path>,
    reported: std::time::Instant,
    progress: RelocationProgress,
    problem: Option<String>,
}

impl VolumeShared {
    /// Carries out the requests of commands. Errors are logged: the command finds no progress.
    pub(super) async fn relocate_on_request(self: &Arc<Self>) {
        let _one_at_a_time = self.relocations.lock().await;
        let folder = Path::from(self.access.names.relocations());
        let list = || async {
            let found = self.access.store.list(Some(&folder));
            found.try_collect::<Vec<_>>().await
        };
        let requests = match retry(self.policy, &self.access.uri, list).await {
            Ok(requests) => requests,
            Err(error) => {
                tracing::warn!("{}: requests are not listed: {error}", self.access.uri);
                return;
            }
        };
        for found in requests {
            let carried_out = self.carry_out(&found.location).await;
            if let Err(error) = carried_out {
                let (uri, path) = (&self.access.uri, &found.location);
                tracing::warn!("{uri}: {path} was not carried out: {error}");
            }
        }
    }

    async fn carry_out(&self, path: &Path) -> Result<(), RelocationError> {
        let Some(request) = self.read_request(path).await? else {
            return Ok(());
        };
        let problem = self.relocate(&request.objects, Some(path)).await?;
        match problem {
            None => self.remove_request(path).await?,
            Some(problem) => {
                let ended = RelocationRequest {
                    problem: Some(problem),
                    ..request
                };
                self.replace_request(path, &ended).await?;
            }
        }
        Ok(())
    }

    /// The request, if it is to be carried out. One that ended with a problem is removed: its command is gone.
    async fn read_request(&self, path: &Path) -> Result<Option<RelocationRequest>, Error> {
        let bytes = match read_object(&self.access, self.policy, path).await {
            Ok(bytes) => bytes,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        match RelocationRequest::decode(&bytes) {
            Ok(request) if request.problem.is_none() => Ok(Some(request)),
            Ok(_) => {
                self.remove_request(path).await?;
                Ok(None)
            }
            Err(error) => {
                tracing::warn!("{}: {path}: {error}", self.access.uri);
                Ok(None)
            }
        }
    }

    async fn remove_request(&self, path: &Path) -> Result<(), Error> {
        delete_object(&self.access, self.policy, path).await
    }

    /// Writes how far it is, if the request is still there.
    async fn replace_request(
        &self,
        path: &Path,
        request: &RelocationRequest,
    ) -> Result<(), RelocationError> {
        let payload = PutPayload::from(request.encode());
        let replace = || async {
            self.access.store.head(path).await?;
            self.access.store.put(path, payload.clone()).await
        };
        match retry(self.policy, &self.access.uri, replace).await {
            Ok(_) => Ok(()),
            Err(Error::NotFound { .. }) => Err(RelocationError::Removed),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves the blocks of these objects into others, and writes the index into tables, which a collection reads. Why some blocks were not
    /// moved, if there are any.
    ///
    /// # Errors
    /// The volume failed, or its index.
    async fn relocate(
        &self,
        objects: &BTreeSet<DataObject>,
        request: Option<&Path>,
    ) -> Result<Option<String>, RelocationError> {
        let mut relocation = Relocation {
            shared: self,
            objects,
            request,
            reported: clock::now(),
            progress: RelocationProgress::default(),
            problem: None,
        };
        relocation.move_all().await?;
        if let IndexHandle::Writer(db) = &self.index {
            write_tables(db).await.map_err(ScanError::from)?;
        }
        Ok(relocation.problem)
    }
}

impl BucketVolume {
    /// Moves the blocks of these objects into others. Why some blocks were not moved, if there are any.
    ///
    /// # Errors
    /// The volume failed, or its index.
    pub(crate) async fn relocate(
        &self,
        objects: &BTreeSet<DataObject>,
    ) -> Result<Option<String>, RelocationError> {
        self.shared.relocate(objects, None).await
    }
}

impl Relocation<'_> {
    async fn move_all(&mut self) -> Result<(), RelocationError> {
        let size = match read_header(&self.shared.access).await {
            Ok(found) => found.header.size,
            Err(error) => return Err(VolumeFailure::Commit(error.to_string().into()).into()),
        };
        let runs = size.div_ceil(RUN);
        let mut batch = Vec::with_capacity(BATCH + RUN_BLOCKS);
        while self.progress.runs < runs {
            let end = (self.progress.runs + SCAN_RUNS).min(runs);
            let scanned = self.progress.runs..end;
            let index = &self.shared.index;
            let mut scan = index.scan(scanned).await.map_err(ScanError::from)?;
            while let Some((run, map)) = scan.next().await? {
                self.progress.runs = run;
                for (block, source) in map.sources().enumerate() {
                    let place = match source {
                        BlockSource::Stored(place) if self.objects.contains(&place.object) => {
                            *place
                        }
                        _ => continue,
                    };
                    batch.push(PlacedBlock { run, block, place });
                }
                if batch.len() >= BATCH {
                    self.move_blocks(&batch).await?;
                    batch.clear();
                }
                self.report().await?;
            }
            self.progress.runs = end;
        }
        self.move_blocks(&batch).await
    }

    /// Lets the command know, from time to time.
    async fn report(&mut self) -> Result<(), RelocationError> {
        let now = clock::now();
        let Some(path) = self.request else {
            return Ok(());
        };
        if now.saturating_duration_since(self.reported) < PROGRESS_INTERVAL {
            return Ok(());
        }
        self.reported = now;
        let request = RelocationRequest {
            objects: self.objects.clone(),
            progress: self.progress,
            problem: None,
        };
        self.shared.replace_request(path, &request).await
    }

    async fn move_blocks(&mut self, blocks: &[PlacedBlock]) -> Result<(), RelocationError> {
        let data = self.fetch(blocks).await;
        let mut turn = CommitTurn::only(self.shared).await;
        if let Some(failure) = self.shared.memory().failure() {
            return Err(failure.clone().into());
        }
        let changes = self.unchanged(blocks, &data).await?;
        if changes.is_empty() {
            return Ok(());
        }
        if let Err(failure) = self.shared.commit(&mut turn, (&changes, None)).await {
            self.shared.fail(failure.clone());
            return Err(failure.into());
        }
        self.progress.blocks += changes.data_len() / BLOCK_LEN as u64;
        Ok(())
    }

    /// The data of those blocks that can be read, by their number in `blocks`.
    async fn fetch(&mut self, blocks: &[PlacedBlock]) -> BTreeMap<usize, bytes::Bytes> {
        let mut plan = ReadPlan::default();
        for (nth, block) in (0..).zip(blocks) {
            plan.push(nth, &BlockSource::Stored(block.place));
        }
        let mut data = BTreeMap::new();
        let mut fetches = std::pin::pin!(self.shared.fetches_of(&plan));
        while let Some((fetch, fetched)) = fetches.next().await {
            let bytes = match fetched {
                Ok(bytes) => bytes,
                Err(error) => {
                    let (uri, error) = (&self.shared.access.uri, error.to_string());
                    tracing::warn!("{uri}: blocks are not relocated: {error}");
                    self.problem.get_or_insert(error);
                    continue;
                }
            };
            let first = usize::try_from(fetch.first).expect("few blocks");
            for nth in 0..bytes.len() / BLOCK_LEN {
                let block = bytes.slice(nth * BLOCK_LEN..(nth + 1) * BLOCK_LEN);
                data.insert(first + nth, block);
            }
        }
        data
    }

    /// The blocks that are still where they were read, with their data. With both turns of commits.
    async fn unchanged(
        &self,
        blocks: &[PlacedBlock],
        data: &BTreeMap<usize, bytes::Bytes>,
    ) -> Result<DirtyMap, ScanError> {
        let mut changes = DirtyMap::default();
        let mut at = 0;
        for of_run in blocks.chunk_by(|one, other| one.run == other.run) {
            let run = of_run[0].run;
            let mut scan = self.shared.index.scan(run..run + 1).await?;
            let now = scan.next().await?;
            for block in of_run {
                let is_there = now.as_ref().is_some_and(|(_, map)| {
                    *map.block(block.block) == BlockSource::Stored(block.place)
                });
                if let Some(bytes) = data.get(&at).filter(|_| is_there) {
                    changes.set(run, block.block, DirtyBlock::Data(bytes.clone()));
                }
                at += 1;
            }
        }
        Ok(changes)
    }
}
