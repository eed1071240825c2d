//! Reads: changes in memory, else what the index has, else the bytes of objects.
//!
//! # Invariants
//!
//! * Memory is searched before the index: a change leaves it only when the index has it.
//! * Bytes of an object are compared with their checksums, and read once more if they do not match.

use std::sync::Arc;

use block::{Errno, IoBufs, IoError, Operation, Range};
use bytes::Bytes;
use engine::Buffer;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use smallvec::smallvec;

use super::VolumeShared;
use crate::dirty::{DirtyBlock, RunPart};
use crate::format::{BLOCK_LEN, RUN};
use crate::read_plan::{Fetch, ReadPlan};
use crate::run_map::{BlockSource, RunMap};
use crate::runtime;
use crate::store::retry;

/// Requests of one read to the store at a time.
const READ_FETCHES_MAX: usize = 16;

/// What is read of a block before a request to the store.
#[derive(Debug, Clone)]
enum KnownBlock {
    Zero,
    Data(Bytes),
    /// A fetch has it.
    Fetched,
}

impl From<&DirtyBlock> for KnownBlock {
    fn from(block: &DirtyBlock) -> Self {
        match block {
            DirtyBlock::Zero => Self::Zero,
            DirtyBlock::Data(data) => Self::Data(data.clone()),
        }
    }
}

impl From<&BlockSource> for KnownBlock {
    fn from(source: &BlockSource) -> Self {
        match source {
            BlockSource::Hole | BlockSource::Zero => Self::Zero,
            BlockSource::Inline(data) => Self::Data(data.clone()),
            BlockSource::Stored(_) => Self::Fetched,
        }
    }
}

/// Puts the blocks into `into`, but for those that are fetched.
fn fill(into: &mut [u8], known: &[KnownBlock]) {
    for (target, block) in into.chunks_exact_mut(BLOCK_LEN).zip(known) {
        match block {
            KnownBlock::Zero => target.fill(0),
            KnownBlock::Data(data) => target.copy_from_slice(data),
            KnownBlock::Fetched => {}
        }
    }
}

impl VolumeShared {
    /// The bytes of `range`.
    pub(super) async fn read(self: &Arc<Self>, range: Range) -> Result<IoBufs, IoError> {
        self.refuse_lost(Operation::Read, Some(range))?;
        let changed = self.memory().lookup(range);
        let buffer = if changed.iter().all(Option::is_some) {
            let known: Vec<KnownBlock> = changed.iter().flatten().map(KnownBlock::from).collect();
            let mut buffer = Buffer::take(range.len_usize());
            fill(&mut buffer, &known);
            buffer
        } else {
            let shared = self.clone();
            let task = async move { shared.read_stored(range, &changed).await };
            runtime::join(self.runtime.spawn(task)).await?
        };
        Ok(smallvec![buffer.freeze()])
    }

    /// Reads into `into` if all of it is in memory.
    pub(super) fn try_read(&self, range: Range, into: &mut [u8]) -> bool {
        let memory = self.memory();
        if memory.failure().is_some() || memory.cost() == 0 {
            return false;
        }
        let changed = memory.lookup(range);
        drop(memory);
        let is_known = changed.iter().all(Option::is_some);
        if is_known {
            let known: Vec<KnownBlock> = changed.iter().flatten().map(KnownBlock::from).collect();
            fill(into, &known);
        }
        is_known
    }

    async fn read_stored(
        &self,
        range: Range,
        changed: &[Option<DirtyBlock>],
    ) -> Result<Buffer, IoError> {
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
            IoError::new(Errno::Io, Operation::Read, Some(range)).because(error)
        };
        let maps = self.runs_of(range).await.map_err(failed)?;
        let mut plan = ReadPlan::default();
        let mut known = Vec::with_capacity(changed.len());
        let mut changed = changed.iter();
        for part in RunPart::all(range) {
            let map = maps.iter().find(|(run, _)| *run == part.run);
            for (block, changed) in part.blocks().zip(&mut changed) {
                let source = map.map_or(&BlockSource::Hole, |(_, map)| map.block(block));
                match changed {
                    Some(changed) => known.push(changed.into()),
                    None => {
                        plan.push(known.len(), source);
                        known.push(source.into());
                    }
                }
            }
        }
        let mut buffer = Buffer::take(range.len_usize());
        fill(&mut buffer, &known);
        let fetches = plan.fetches.iter();
        let fetches = fetches.map(|fetch| async move { Ok((fetch, self.fetch(fetch).await?)) });
        let fetches: Vec<_> = fetches.collect();
        let mut fetched = stream::iter(fetches).buffer_unordered(READ_FETCHES_MAX);
        while let Some((fetch, bytes)) = fetched.try_next().await.map_err(failed)? {
            let begin = fetch.first * BLOCK_LEN;
            buffer[begin..begin + bytes.len()].copy_from_slice(&bytes);
        }
        drop(fetched);
        Ok(buffer)
    }

    /// What the index has of the runs of `range`.
    async fn runs_of(
        &self,
        range: Range,
    ) -> Result<Vec<(u64, RunMap)>, Box<dyn std::error::Error + Send + Sync>> {
        let runs = range.offset / RUN..range.end().div_ceil(RUN);
        let mut scan = self.index.scan(runs).await?;
        let mut maps = Vec::new();
        while let Some(run) = scan.next().await? {
            maps.push(run);
        }
        Ok(maps)
    }

    async fn fetch(
        &self,
        fetch: &Fetch,
    ) -> Result<Bytes, Box<dyn std::error::Error + Send + Sync>> {
        let path = Path::from(self.access.names.object(fetch.object));
        let get = || async { self.access.store.get_range(&path, fetch.range()).await };
        let permit = self.fetches.acquire().await;
        let bytes = retry(self.policy, &self.access.uri, get).await?;
        let bytes = match fetch.verify(&bytes) {
            Ok(()) => bytes,
            // It may have been changed on its way.
            Err(error) => {
                tracing::warn!("{}: {path}: {error}: reading again", self.access.uri);
                let bytes = retry(self.policy, &self.access.uri, get).await?;
                fetch
                    .verify(&bytes)
                    .map_err(|error| format!("{path}: {error}"))?;
                bytes
            }
        };
        drop(permit);
        Ok(bytes)
    }
}
