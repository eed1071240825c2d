//! Reads: changes in memory, else what the index has, else the bytes of objects.
//!
//! # Invariants
//!
//! * Memory is searched before the index: a change leaves it only when the index has it.
//! * Bytes of an object are compared with their checksums, and read once more if they do not match.

use std::collections::BTreeMap;
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
use crate::store::retry;

/// Requests of one read to the store at a time.
const READ_FETCHES_MAX: usize = 16;

impl DirtyBlock {
    fn copy_to(&self, block: &mut [u8]) {
        match self {
            Self::Zero => block.fill(0),
            Self::Data(data) => block.copy_from_slice(data),
        }
    }
}

impl BlockSource {
    /// Leaves a block of an object as it is: a fetch has its bytes.
    fn copy_to(&self, block: &mut [u8]) {
        match self {
            Self::Hole | Self::Zero => block.fill(0),
            Self::Inline(data) => block.copy_from_slice(data),
            Self::Stored(_) => {}
        }
    }
}

/// Copies the changes of all blocks of `into`. False, and only some are copied, if one of them did not change.
fn copy_changed(into: &mut [u8], changed: &[Option<DirtyBlock>]) -> bool {
    let mut blocks = into.chunks_exact_mut(BLOCK_LEN).zip(changed);
    blocks.all(|(block, changed)| match changed {
        Some(changed) => {
            changed.copy_to(block);
            true
        }
        None => false,
    })
}

impl VolumeShared {
    /// The bytes of `range`.
    pub(super) async fn read(self: &Arc<Self>, range: Range) -> Result<IoBufs, IoError> {
        self.refuse_lost(Operation::Read, Some(range))?;
        let changed = self.memory().lookup(range);
        if changed.iter().all(Option::is_some) {
            let mut buffer = Buffer::take(range.len_usize());
            copy_changed(&mut buffer, &changed);
            return Ok(smallvec![buffer.freeze()]);
        }
        let read = |shared: Arc<Self>| async move { shared.read_stored(range, &changed).await };
        self.in_task(read).await
    }

    /// Reads into `into` if all of it is in memory.
    pub(super) fn try_read(&self, range: Range, into: &mut [u8]) -> bool {
        let memory = self.memory();
        if memory.failure().is_some() || memory.cost() == 0 {
            return false;
        }
        let changed = memory.lookup(range);
        drop(memory);
        copy_changed(into, &changed)
    }

    async fn read_stored(
        &self,
        range: Range,
        changed: &[Option<DirtyBlock>],
    ) -> Result<IoBufs, IoError> {
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
            IoError::new(Errno::Io, Operation::Read, Some(range)).because(error)
        };
        let maps = self.runs_of(range).await.map_err(failed)?;
        let mut plan = ReadPlan::default();
        let mut buffer = Buffer::take(range.len_usize());
        let blocks = (0..).zip(buffer.chunks_exact_mut(BLOCK_LEN));
        let mut blocks = blocks.zip(changed);
        for part in RunPart::all(range) {
            let map = maps.get(&part.run);
            for (block, ((nth, into), changed)) in part.blocks().zip(&mut blocks) {
                if let Some(changed) = changed {
                    changed.copy_to(into);
                    continue;
                }
                let source = map.map_or(&BlockSource::Hole, |map| map.block(block));
                plan.push(nth, source);
                source.copy_to(into);
            }
        }
        // All of it, and nothing to be put next to it: the bytes are those that the store sent.
        if let [fetch] = &plan.fetches[..]
            && fetch.len() == range.len
        {
            return Ok(smallvec![self.fetch(fetch).await.map_err(failed)?]);
        }
        let fetches = plan.fetches.iter();
        let fetches = fetches.map(|fetch| async move { Ok((fetch, self.fetch(fetch).await?)) });
        let fetches: Vec<_> = fetches.collect();
        let mut fetched = stream::iter(fetches).buffer_unordered(READ_FETCHES_MAX);
        while let Some((fetch, bytes)) = fetched.try_next().await.map_err(failed)? {
            let begin = usize::try_from(fetch.first).expect("a read is in memory") * BLOCK_LEN;
            buffer[begin..begin + bytes.len()].copy_from_slice(&bytes);
        }
        drop(fetched);
        Ok(smallvec![buffer.freeze()])
    }

    /// What the index has of the runs of `range`.
    async fn runs_of(
        &self,
        range: Range,
    ) -> Result<BTreeMap<u64, RunMap>, Box<dyn std::error::Error + Send + Sync>> {
        let runs = range.offset / RUN..range.end().div_ceil(RUN);
        let mut scan = self.index.scan(runs).await?;
        let mut maps = BTreeMap::new();
        while let Some((run, map)) = scan.next().await? {
            maps.insert(run, map);
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
