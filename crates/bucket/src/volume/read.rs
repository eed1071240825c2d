//! Reads: changes in memory, else what the index has, else the bytes of objects.
//!
//! # Invariants
//!
//! * Memory is searched before the index: a change leaves it only when the index has it.
//! * Bytes of an object are decoded and compared with their checksums, and read once more if they do not match.
//! * An object that is missing may have been deleted by a collection since the index was scanned: what overwrote it is in the index then,
//!   which is scanned again. A reader that was suspended has an index as old as that, and polls it again first. A writer's index is always
//!   the last one, so it meets this only with a read that took 15 minutes; that of a snapshot never changes, and refers to
//!   nothing that is collected while the snapshot is there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use block::{Errno, IoBufs, IoError, Operation, Range};
use bytes::Bytes;
use engine::{Buffer, clock};
use futures_util::stream::{self, Stream, StreamExt as _};
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt as _};
use smallvec::smallvec;

use super::VolumeShared;
use super::index::{IndexHandle, POLL_INTERVAL, ScanError};
use crate::dirty::{DirtyBlock, RunPart};
use crate::format::{BLOCK_LEN, RUN};
use crate::read_plan::{Fetch, FetchError, ReadPlan};
use crate::run_map::{BlockSource, RunMap};
use crate::store::retry;

/// Requests of one read to the store at a time.
const READ_FETCHES_MAX: usize = 16;

/// Why stored bytes were not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Index(#[from] ScanError),
    #[error(transparent)]
    Store(#[from] Error),
    #[error("{path}: {source}")]
    Content { path: Path, source: FetchError },
}

impl ReadError {
    /// Whether an object is not there.
    const fn is_missing(&self) -> bool {
        matches!(self, Self::Store(Error::NotFound { .. }))
    }
}

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
        let mut scans = 0;
        loop {
            let error = match self.scan_and_fetch(range, changed).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => error,
            };
            let pause = self.pause_before_scan(scans);
            let Some(pause) = pause.filter(|_| error.is_missing()) else {
                return Err(match error {
                    ReadError::Index(error) => self.scan_error(error, Operation::Read, range),
                    error => {
                        let failed = IoError::new(Errno::Io, Operation::Read, Some(range));
                        failed.because(error)
                    }
                });
            };
            tracing::debug!("{}: {error}: scanning the index again", self.access.uri);
            scans += 1;
            clock::sleep(pause).await;
        }
    }

    /// How long after a scan whose pointers were to nothing the index is scanned again, if `scans` of these found nothing else.
    fn pause_before_scan(&self, scans: usize) -> Option<Duration> {
        let is_reader = matches!(self.index, IndexHandle::Reader(_));
        match scans {
            _ if self.snapshot.is_some() => None,
            0 => Some(Duration::ZERO),
            1 if is_reader => Some(2 * POLL_INTERVAL),
            _ => None,
        }
    }

    async fn scan_and_fetch(
        &self,
        range: Range,
        changed: &[Option<DirtyBlock>],
    ) -> Result<IoBufs, ReadError> {
        let maps = self.runs_of(range).await?;
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
        // All of it, and nothing to be put next to it: the bytes are those that the store sent, decoded.
        if let [fetch] = &plan.fetches[..]
            && fetch.len() == range.len
        {
            return Ok(smallvec![self.fetch(fetch).await?]);
        }
        let mut fetched = std::pin::pin!(self.fetches_of(&plan));
        while let Some((fetch, bytes)) = fetched.next().await {
            let bytes = bytes?;
            let begin = usize::try_from(fetch.first).expect("a read is in memory") * BLOCK_LEN;
            buffer[begin..begin + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(smallvec![buffer.freeze()])
    }

    /// Each fetch of `plan` with its outcome, several at once, in any order.
    pub(super) fn fetches_of<'a>(
        &'a self,
        plan: &'a ReadPlan,
    ) -> impl Stream<Item = (&'a Fetch, Result<Bytes, ReadError>)> {
        let fetches = plan.fetches.iter();
        let fetches = fetches.map(move |fetch| async move { (fetch, self.fetch(fetch).await) });
        // A list: the stream would need its futures for any lifetime of their fetches.
        let fetches: Vec<_> = fetches.collect();
        stream::iter(fetches).buffer_unordered(READ_FETCHES_MAX)
    }

    /// What the index has of the runs of `range`.
    async fn runs_of(&self, range: Range) -> Result<BTreeMap<u64, RunMap>, ScanError> {
        let runs = range.offset / RUN..range.end().div_ceil(RUN);
        let mut scan = self.index.scan(runs).await?;
        let mut maps = BTreeMap::new();
        while let Some((run, map)) = scan.next().await? {
            maps.insert(run, map);
        }
        Ok(maps)
    }

    async fn fetch(&self, fetch: &Fetch) -> Result<Bytes, ReadError> {
        let path = Path::from(self.access.names.object(fetch.object));
        let get = || async { self.access.store.get_range(&path, fetch.range()).await };
        let permit = self.fetches.acquire().await;
        let codec = self.access.object_codec(fetch.object);
        let bytes = retry(self.policy, &self.access.uri, get).await?;
        let bytes = match fetch.decode(bytes, &codec) {
            Ok(bytes) => bytes,
            // It may have been changed on its way.
            Err(error) => {
                tracing::warn!("{}: {path}: {error}: reading again", self.access.uri);
                let bytes = retry(self.policy, &self.access.uri, get).await?;
                match fetch.decode(bytes, &codec) {
                    Ok(bytes) => bytes,
                    Err(source) => return Err(ReadError::Content { path, source }),
                }
            }
        };
        drop(permit);
        Ok(bytes)
    }
}
