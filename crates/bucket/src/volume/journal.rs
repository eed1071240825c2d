//! [`OpenJournal`]: the local journal of an open volume, a file or a device in front of its store.
//!
//! ```text
//! flush ──► what is not in the journal, as one record ──► one durable write ──► acknowledged        commits go on in the background
//! ```
//!
//! # Invariants
//!
//! * Nothing of a journal is changed before it was found to be empty, or the one that the volume records.
//! * The volume records a journal durably before that is open, and no flush is acknowledged before both. A journal is closed when all of
//!   it is in the store, and only then does the volume record none. So a crash at any moment leaves a pair that is opened again.
//! * A record is written behind a durable one alone: of a power cut at most the last record is not whole.
//! * Without space for a record a flush waits for the store, and does not fail.
//!
//! # What it does not do
//!
//! It cannot distinguish damage to the last record from a power cut that interrupted it. It has changes for a replay alone: they stay in memory
//! until they are in the store, so at most the memory of changes is ever behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block::{IoBufs, IoError, Node, Range, WriteFlags};
use bytes::Bytes;
use slatedb::WriteBatch;

use super::VolumeShared;
use super::index::IndexHandle;
use super::journal_open::{BegunJournal, remove_mark};
use super::open::FoundMeta;
use crate::dirty::DirtyMap;
use crate::error::{BucketError, VolumeFailure};
use crate::format::{
    BLOCK, BLOCK_LEN, IndexMeta, JournalHeader, JournalId, JournalOpening, JournalPosition,
    JournalRecord, META_KEY, RING_MIN, RecordHeader, VolumeId,
};
use crate::journal_plan::{JournalPlan, JournalRefusal};
use crate::journal_ring::{Append, JournalQueue, JournalRing};
use crate::store::StoreAccess;

/// Bytes that are read or zeroed together.
const STEP: u64 = 1 << 20;

/// A local journal for a volume: a flush returns when it is durable there, and the store gets it later.
#[derive(Clone)]
pub struct VolumeJournal {
    /// Where it is.
    pub disk: Node,
    /// This machine, for messages to those who open the volume elsewhere.
    pub host: String,
    /// Where `disk` is on this machine, for messages.
    pub path: String,
}

impl std::fmt::Debug for VolumeJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VolumeJournal({} on {})", self.path, self.host)
    }
}

/// What is to be replayed.
pub(super) struct Replay {
    pub(super) changes: DirtyMap,
    /// Where the next record would be.
    pub(super) end: JournalPosition,
}

/// The journal of an open volume.
pub(super) struct OpenJournal {
    journal: VolumeJournal,
    header: JournalHeader,
    /// One record is appended at a time.
    append: tokio::sync::Mutex<()>,
    /// Requests of snapshots that were carried out.
    publishes: AtomicU64,
}

impl VolumeJournal {
    /// An error about it.
    fn refused(&self, access: &StoreAccess, source: JournalRefusal) -> BucketError {
        let uri = access.uri.clone();
        let path = self.path.clone();
        BucketError::Journal { uri, path, source }
    }

    fn failed(&self) -> impl Fn(IoError) -> BucketError {
        |source| BucketError::JournalIo {
            path: self.path.clone(),
            source,
        }
    }

    async fn read(&self, range: Range) -> Result<Bytes, BucketError> {
        let bufs = self.disk.read(range).await.map_err(self.failed())?;
        if let [one] = &bufs[..] {
            return Ok(one.clone());
        }
        Ok(bufs.iter().flatten().copied().collect::<Vec<u8>>().into())
    }

    fn blocks(&self) -> u64 {
        self.disk.geometry().size / BLOCK
    }

    /// Its header; `None` if all of it is zeroes.
    pub(super) async fn header(
        &self,
        access: &StoreAccess,
    ) -> Result<Option<JournalHeader>, BucketError> {
        if self.blocks() <= RING_MIN {
            return Err(self.refused(access, JournalRefusal::Small));
        }
        let block = self.read(Range::new(0, BLOCK)).await?;
        if is_zero(&block) && self.is_blank().await? {
            return Ok(None);
        }
        let header =
            JournalHeader::decode(&block).map_err(|source| BucketError::JournalFormat {
                path: self.path.clone(),
                source,
            })?;
        if header.blocks >= self.blocks() {
            return Err(self.refused(access, JournalRefusal::Truncated));
        }
        Ok(Some(header))
    }

    async fn is_blank(&self) -> Result<bool, BucketError> {
        for part in steps(0..self.blocks()) {
            if !is_zero(&self.read(part).await?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What is done with it. Nothing of it is changed.
    pub(super) async fn plan(
        &self,
        access: &StoreAccess,
        (volume, found): (VolumeId, &FoundMeta),
    ) -> Result<JournalPlan, BucketError> {
        let header = self.header(access).await?;
        let recorded = (found.journal.as_ref(), found.generation);
        let plan = JournalPlan::of(header.as_ref(), volume, recorded);
        plan.map_err(|source| self.refused(access, source))
    }

    /// Makes it, closed. It is written whole, so that no later write allocates space.
    pub(super) async fn create(&self, volume: VolumeId) -> Result<JournalHeader, BucketError> {
        let zeroes = Bytes::from(vec![0; usize::try_from(STEP).expect("1 MiB")]);
        for part in steps(0..self.blocks()) {
            let data = zeroes.slice(..part.len_usize());
            self.write(part, data, WriteFlags::empty()).await?;
        }
        let header = JournalHeader {
            volume,
            opening: JournalOpening {
                id: JournalId::random(),
                generation: 0,
            },
            is_open: false,
            blocks: self.blocks() - 1,
        };
        self.disk.flush().await.map_err(self.failed())?;
        self.write_header(&header).await?;
        Ok(header)
    }

    async fn write(&self, range: Range, data: Bytes, flags: WriteFlags) -> Result<(), BucketError> {
        let written = self
            .disk
            .write(range, IoBufs::from_iter([data]), flags)
            .await;
        written.map_err(self.failed())
    }

    /// Makes `header` durable.
    pub(super) async fn write_header(&self, header: &JournalHeader) -> Result<(), BucketError> {
        let data = Bytes::from(header.encode());
        self.write(Range::new(0, BLOCK), data, WriteFlags::FUA)
            .await
    }

    /// What the volume records of it.
    pub(super) fn record(&self, opening: JournalOpening, next: JournalPosition) -> JournalRecord {
        JournalRecord {
            opening,
            next,
            publishes: 0,
            host: self.host.clone(),
            path: self.path.clone(),
        }
    }

    /// Reads the records from `from` on, of a volume of `size` bytes.
    pub(super) async fn replay(
        &self,
        access: &StoreAccess,
        (header, from): (&JournalHeader, JournalPosition),
        size: u64,
    ) -> Result<Replay, BucketError> {
        let mut replay = Replay {
            changes: DirtyMap::default(),
            end: from,
        };
        while let Some(record) = self.record_at(header, replay.end).await? {
            let bytes = self.record_bytes(header, &record).await?;
            if !record.replay(&bytes, size, &mut replay.changes) {
                break;
            }
            replay.end = record.next();
        }
        match self.has_later(header, replay.end).await? {
            true => Err(self.refused(access, JournalRefusal::Damaged(replay.end.sequence))),
            false => Ok(replay),
        }
    }

    /// The header of the record at this position, if one is there.
    async fn record_at(
        &self,
        header: &JournalHeader,
        at: JournalPosition,
    ) -> Result<Option<RecordHeader>, BucketError> {
        let mut parts = JournalRing::parts(header.blocks, at, 1);
        let block = self.read(parts.next().expect("it is a block")).await?;
        let record = RecordHeader::decode(&block, header.opening);
        Ok(record.filter(|record| record.at == at && record.blocks() <= header.blocks))
    }

    async fn record_bytes(
        &self,
        header: &JournalHeader,
        record: &RecordHeader,
    ) -> Result<Bytes, BucketError> {
        let mut bytes = Vec::new();
        for part in JournalRing::parts(header.blocks, record.at, record.blocks()) {
            bytes.extend_from_slice(&self.read(part).await?);
        }
        Ok(bytes.into())
    }

    /// Whether a record behind `end` is there, which was written only when that at `end` was durable.
    async fn has_later(
        &self,
        header: &JournalHeader,
        end: JournalPosition,
    ) -> Result<bool, BucketError> {
        for part in steps(1..1 + header.blocks) {
            let bytes = self.read(part).await?;
            let mut places = (part.offset / BLOCK - 1..).zip(bytes.chunks_exact(BLOCK_LEN));
            let is_later = |(place, block): (u64, &[u8])| {
                let record = RecordHeader::decode(block, header.opening);
                record.is_some_and(|record| {
                    record.at.sequence > end.sequence && record.at.block % header.blocks == place
                })
            };
            if places.any(is_later) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Parts of up to [`STEP`] of these blocks.
fn steps(blocks: std::ops::Range<u64>) -> impl Iterator<Item = Range> {
    let (begin, end) = (blocks.start * BLOCK, blocks.end * BLOCK);
    (begin..end)
        .step_by(usize::try_from(STEP).expect("1 MiB"))
        .map(move |at| Range::new(at, STEP.min(end - at)))
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

impl OpenJournal {
    /// That of a writer, and what is to be committed before any request.
    pub(super) fn of(begun: BegunJournal) -> (Self, Option<Replay>) {
        let open = Self {
            journal: begun.journal,
            header: begun.header,
            append: tokio::sync::Mutex::default(),
            publishes: AtomicU64::default(),
        };
        (open, begun.replay)
    }

    /// What is in it of the changes in memory: nothing, with the next record at `at`.
    pub(super) fn queue(&self, at: JournalPosition) -> JournalQueue {
        JournalQueue::new(JournalRing::new(self.header.blocks, at))
    }

    /// What the volume records of it, with the first record that is not in the store.
    pub(super) fn record(&self, next: JournalPosition) -> JournalRecord {
        JournalRecord {
            publishes: self.publishes.load(Ordering::Relaxed),
            ..self.journal.record(self.header.opening, next)
        }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &str {
        &self.journal.path
    }

    async fn write(&self, bytes: Bytes, at: JournalPosition) -> Result<(), BucketError> {
        let count = bytes.len() as u64 / BLOCK;
        let parts: Vec<Range> = JournalRing::parts(self.header.blocks, at, count).collect();
        if let [part] = parts[..] {
            return self.journal.write(part, bytes, WriteFlags::FUA).await;
        }
        let mut rest = bytes;
        for part in parts {
            let data = rest.split_to(part.len_usize());
            let flags = WriteFlags::empty();
            self.journal.write(part, data, flags).await?;
        }
        let flushed = self.journal.disk.flush().await;
        flushed.map_err(self.journal.failed())
    }
}

impl VolumeShared {
    /// Makes every change before this call durable in the journal, or in the store. Runs to its end also if the caller drops it.
    pub(super) async fn flush_to_journal(self: &Arc<Self>) -> Result<(), VolumeFailure> {
        let journaled = self.memory().journaled();
        if let Some(journaled) = journaled {
            return journaled;
        }
        // On the caller's core: a change of threads twice would take as long as the write.
        let shared = self.clone();
        engine::join(engine::spawn(async move { shared.append().await })).await
    }

    async fn append(self: &Arc<Self>) -> Result<(), VolumeFailure> {
        let journal = self.journal.as_ref().expect("it has a journal");
        let turn = journal.append.lock().await;
        let append = self.memory().begin_append()?;
        let (plan, at) = match append {
            Append::Nothing => return Ok(()),
            Append::Record(plan, at) => (plan, at),
            Append::Full => {
                drop(turn);
                let commit = |shared: Arc<Self>| async move { shared.flush_here().await };
                return self.in_task(commit).await;
            }
        };
        let bytes = Bytes::from(plan.encode(journal.header.opening, at));
        match journal.write(bytes, at).await {
            Ok(()) => {
                let is_due = self.memory().appended();
                if is_due {
                    self.begin_write_back();
                }
                Ok(())
            }
            Err(error) => {
                let failure = VolumeFailure::Journal(error.to_string().into());
                self.fail(failure.clone());
                Err(failure)
            }
        }
    }

    /// The record of the index, with the journal that is open.
    pub(super) fn meta(&self, next: Option<JournalPosition>) -> IndexMeta {
        let journal = self.journal.as_ref().zip(next);
        IndexMeta {
            id: self.id,
            generation: self.generation,
            journal: journal.map(|(journal, next)| journal.record(next)),
        }
    }

    /// Makes the record of the index durable.
    async fn write_meta(&self, next: Option<JournalPosition>) -> Result<(), BucketError> {
        let IndexHandle::Writer(db) = &self.index else {
            return Ok(());
        };
        let mut batch = WriteBatch::new();
        batch.put(META_KEY, self.meta(next).encode());
        let limit = self.policy.limit;
        let work = super::commit::write_durably(db, batch);
        super::index::limited(&self.access, limit, "write", work).await
    }

    /// Records that all changes were committed behind a request of a snapshot: without a change to commit there is no other sign of that.
    pub(super) async fn record_publish(&self) -> Result<(), BucketError> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        // No commit has another position meanwhile.
        let committer = self.committer.lock().await;
        if self.memory().failure().is_some() {
            return Ok(());
        }
        journal.publishes.fetch_add(1, Ordering::Relaxed);
        let next = self.memory().journal().map(JournalQueue::tail);
        let recorded = self.write_meta(next).await;
        drop(committer);
        recorded
    }

    /// Commits what was replayed, and begins an opening of the journal behind it. Before all requests.
    pub(super) async fn commit_replay(
        self: &mut Arc<Self>,
        replay: Replay,
    ) -> Result<(), BucketError> {
        {
            let journal = self.journal.as_ref().expect("it has a journal");
            let queue = journal.queue(replay.end);
            let mut memory = self.memory();
            memory.set_journal(queue);
            memory.replay(replay.changes);
        }
        self.flush_here()
            .await
            .map_err(|source| BucketError::Failed {
                uri: self.access.uri.clone(),
                source,
            })?;
        let shared = Arc::get_mut(self).expect("nothing else has the volume yet");
        let generation = shared.generation;
        let journal = shared.journal.as_mut().expect("it has a journal");
        journal.header.is_open = false;
        journal.journal.write_header(&journal.header).await?;
        journal.header.opening.generation = generation;
        journal.header.is_open = true;
        shared.write_meta(Some(JournalPosition::START)).await?;
        let journal = shared.journal.as_ref().expect("it has a journal");
        journal.journal.write_header(&journal.header).await?;
        let queue = journal.queue(JournalPosition::START);
        shared.memory().set_journal(queue);
        Ok(())
    }

    /// Closes the journal of a closed volume, if all changes are in the store. What fails is logged: the journal is replayed then.
    pub(super) async fn close_journal(&self) {
        let Some(journal) = &self.journal else {
            return;
        };
        let turn = journal.append.lock().await;
        // No request of a snapshot records the journal behind this.
        let committer = self.committer.lock().await;
        if !self.memory().is_stored() {
            tracing::warn!(
                "{}: the journal {} stays open: it has changes that are not in the store",
                self.access.uri,
                journal.path()
            );
            return;
        }
        let header = JournalHeader {
            is_open: false,
            ..journal.header
        };
        let closed = async {
            journal.journal.write_header(&header).await?;
            self.write_meta(None).await?;
            remove_mark(&self.access).await;
            Ok::<(), BucketError>(())
        };
        if let Err(error) = closed.await {
            tracing::warn!("{}: its journal stays open: {error}", self.access.uri);
        }
        drop((turn, committer));
    }
}
