//! How a volume is opened: its header, the store's conditions, the index, and the writer's generation.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use block::Geometry;
use engine::InFlight;
use slatedb::{Checkpoint, CloseReason, Db, DbReaderMode, VersionedManifest};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};

use super::checkpoints::{FoundSnapshot, IndexCheckpoints};
use super::close::{CloseGuard, refuse_own};
use super::index::{IndexHandle, limited, reader_of, writer_of};
use super::index_clock::{IndexClock, last_tick};
use super::journal::{OpenJournal, Replay};
use super::journal_open::{BegunJournal, refuse_early, refuse_without, remove_mark};
use super::memory::VolumeMemory;
use super::publish::{FlushRequests, TableWrites};
use super::{BucketVolume, VolumeOptions, VolumeShared};
use crate::committer::Committer;
use crate::error::{BucketError, VolumeFailure};
use crate::format::{BLOCK, IndexMeta, JournalPosition, JournalRecord, META_KEY, VolumeHeader};
use crate::runtime;
use crate::store::{FoundHeader, RetryPolicy, StoreAccess, probe, read_header, retry};
use crate::uri::BucketUri;

/// How long the index may take to be opened: the log of the last writer is read.
const OPEN_LIMIT: Duration = Duration::from_secs(120);
/// How often the index is opened with a later clock, while another writer's is ahead.
const CLOCK_TRIES: usize = 8;
/// Requests of reads to the store at a time.
const FETCHES_MAX: usize = 64;

impl BucketVolume {
    /// Opens the volume at `uri`. For writing, this takes it over from a server that has it open.
    ///
    /// # Errors
    /// There is none, the store cannot be used, or does not answer.
    pub async fn open(uri: &BucketUri, options: &VolumeOptions) -> Result<Self, BucketError> {
        let access = StoreAccess::connect(uri, &options.store, false)?;
        if options.snapshot.is_none() && !options.read_only {
            refuse_own(&access.uri).await?;
        }
        let options = options.clone();
        let runtime = runtime::handle();
        let open = async move { open_on(access, &options, runtime::handle()).await };
        engine::join(runtime.spawn(open)).await
    }
}

/// Opens a volume with its work on `runtime`, where this runs, too.
pub(crate) async fn open_on(
    access: StoreAccess,
    options: &VolumeOptions,
    runtime: Handle,
) -> Result<BucketVolume, BucketError> {
    let found = read_header(&access).await?;
    let header = found.header.clone();
    let mut access = access.unlock(&header)?;
    let snapshot = match &options.snapshot {
        Some(name) => Some(IndexCheckpoints::of(&access).find(name).await?),
        None => None,
    };
    if let Some(snapshot) = &snapshot {
        // Messages before this are about the volume.
        access.uri = format!("{}@{}", access.uri, snapshot.record.name);
    }
    let read_only = options.read_only || snapshot.is_some();
    let (index, generation, journal) =
        open_index(&access, (&found, options), snapshot.as_ref()).await?;
    let writer_epoch = index.writer_epoch();
    let size = snapshot.as_ref().map_or(header.size, |one| one.record.size);
    let policy = RetryPolicy {
        limit: options.outage_limit,
        retries_refusals: true,
    };
    let (open_journal, replay) = journal.map(OpenJournal::of).unzip();
    let mut shared = Arc::new(VolumeShared {
        access,
        id: header.id,
        snapshot: snapshot.map(|snapshot| *snapshot.checkpoint.id.as_bytes()),
        index,
        writer_epoch,
        generation,
        journal: open_journal,
        table_writes: options.is_standby.then(TableWrites::default),
        runtime,
        policy,
        memory: Mutex::new(VolumeMemory::default()),
        space: Notify::new(),
        committer: tokio::sync::Mutex::new(Committer::new(generation)),
        index_turn: tokio::sync::Mutex::new(()),
        fetches: Semaphore::new(FETCHES_MAX),
        relocations: tokio::sync::Mutex::new(()),
        changes: InFlight::new(),
    });
    if let Err(error) = shared.begin_journal(replay.flatten()).await {
        shared.index.close(&shared.access.uri).await;
        return Err(error);
    }
    shared.watch_index();
    // The log that was read.
    shared.begin_table();
    Ok(BucketVolume {
        geometry: geometry(size, read_only),
        guard: CloseGuard::register(&shared),
        shared,
    })
}

/// Opens the index: its generation, and the journal of a writer.
async fn open_index(
    access: &StoreAccess,
    (found, options): (&FoundHeader, &VolumeOptions),
    snapshot: Option<&FoundSnapshot>,
) -> Result<(IndexHandle, u32, Option<BegunJournal>), BucketError> {
    let is_read = snapshot.is_some() || options.read_only;
    if is_read && options.journal.is_some() {
        let uri = access.uri.clone();
        return Err(BucketError::JournalReadOnly { uri });
    }
    if !is_read {
        refuse_early(access, found, options).await?;
        probe(access).await?;
        return open_writer(access, (found, options)).await;
    }
    let (index, meta) = match snapshot {
        Some(snapshot) => open_snapshot(access, &found.header, snapshot).await?,
        None => {
            let opened = open_reader(access, &found.header).await?;
            warn_of_journal(access, &opened.1);
            opened
        }
    };
    Ok((index, meta.generation, None))
}

/// What is read may be older than what a flush acknowledged.
fn warn_of_journal(access: &StoreAccess, meta: &FoundMeta) {
    if let Some(journal) = &meta.journal {
        tracing::warn!(
            "{} has an open journal, {} on {}: its last changes may not be in the store yet",
            access.uri,
            journal.path,
            journal.host
        );
    }
}

pub(super) const fn geometry(size: u64, read_only: bool) -> Geometry {
    let mut geometry = Geometry::native(size);
    #[expect(clippy::cast_possible_truncation, reason = "4096")]
    {
        geometry.block_size = BLOCK as u32;
    }
    geometry.read_only = read_only;
    geometry
}

fn opened<T>(
    access: &StoreAccess,
    work: impl Future<Output = Result<T, slatedb::Error>>,
) -> impl Future<Output = Result<T, BucketError>> {
    limited(access, OPEN_LIMIT, "open", work)
}

/// Opens the index, again after a request that failed: until it is open SlateDB repeats none, and what the client of the store repeats is
/// not enough where one in ten fails.
fn open_again<T, F: Future<Output = Result<T, slatedb::Error>>>(
    access: &StoreAccess,
    open: impl Fn() -> F,
) -> impl Future<Output = Result<T, BucketError>> {
    // Boxed: SlateDB's are large.
    let open = move || Box::pin(open());
    opened(access, retry(RetryPolicy::OPEN, &access.uri, open))
}

/// Opens the index for reading: the index of this volume, and its generation.
pub(crate) async fn open_reader(
    access: &StoreAccess,
    header: &VolumeHeader,
) -> Result<(IndexHandle, FoundMeta), BucketError> {
    open_reader_in(access, header, DbReaderMode::FollowLatest, true).await
}

/// Opens the tables of the index for reading, without the log behind them: what each checkpoint that is made from now on has, and more.
pub(crate) async fn open_tables(
    access: &StoreAccess,
    header: &VolumeHeader,
) -> Result<(IndexHandle, FoundMeta), BucketError> {
    open_reader_in(access, header, DbReaderMode::FollowLatest, false).await
}

/// Opens the index as a snapshot has it.
pub(crate) async fn open_snapshot(
    access: &StoreAccess,
    header: &VolumeHeader,
    snapshot: &FoundSnapshot,
) -> Result<(IndexHandle, FoundMeta), BucketError> {
    open_checkpoint(access, header, &snapshot.checkpoint).await
}

/// Opens the index as a checkpoint has it.
pub(crate) async fn open_checkpoint(
    access: &StoreAccess,
    header: &VolumeHeader,
    checkpoint: &Checkpoint,
) -> Result<(IndexHandle, FoundMeta), BucketError> {
    let mode = DbReaderMode::Checkpoint(checkpoint.id);
    open_reader_in(access, header, mode, true).await
}

async fn open_reader_in(
    access: &StoreAccess,
    header: &VolumeHeader,
    mode: DbReaderMode,
    with_log: bool,
) -> Result<(IndexHandle, FoundMeta), BucketError> {
    let reader = open_again(access, || reader_of(access, mode, with_log)).await?;
    let index = IndexHandle::Reader(Arc::new(reader));
    match check_meta(access, &index, header).await {
        Ok(meta) => Ok((index, meta)),
        Err(error) => {
            index.close(&access.uri).await;
            Err(error)
        }
    }
}

/// Opens the index and makes another generation durable. Both were this writer's alone when it returns.
async fn open_writer(
    access: &StoreAccess,
    of: (&FoundHeader, &VolumeOptions),
) -> Result<(IndexHandle, u32, Option<BegunJournal>), BucketError> {
    let mut clock = IndexClock::new();
    // Before the index is opened: a server that has it open would lose it to one that cannot write it.
    if let Some(manifest) = IndexCheckpoints::of(access).manifest().await?
        && let Some(behind) = behind_tables(access, &clock, &manifest)?
    {
        clock = behind;
    }
    for _ in 0..CLOCK_TRIES {
        let db = match open_again(access, || writer_of(access, clock.clone())).await {
            Ok(db) => db,
            Err(error) => {
                clock = behind_change(access, &clock, error)?;
                continue;
            }
        };
        let index = IndexHandle::Writer(db.clone());
        // The last writer may have written another table until then.
        let behind = behind_tables(access, &clock, &db.status().current_manifest);
        match behind {
            Ok(None) => {}
            behind => {
                index.close(&access.uri).await;
                clock = behind?.unwrap_or(clock);
                continue;
            }
        }
        match begin_generation(access, (&index, &db), of).await {
            Ok((generation, journal)) => return Ok((index, generation, journal)),
            Err(error) => {
                index.close(&access.uri).await;
                clock = behind_change(access, &clock, error)?;
            }
        }
    }
    Err(BucketError::Contended {
        uri: access.uri.clone(),
    })
}

/// A clock behind the last change of the index, if `error` is that this one is before it.
fn behind_change(
    access: &StoreAccess,
    clock: &IndexClock,
    error: BucketError,
) -> Result<IndexClock, BucketError> {
    let BucketError::Index { source, .. } = &error else {
        return Err(error);
    };
    let Some(last) = last_tick(source) else {
        return Err(error);
    };
    let behind = clock.set_behind(last).ok_or(error)?;
    warn_of_clock(access);
    Ok(behind)
}

fn warn_of_clock(access: &StoreAccess) {
    tracing::warn!(
        "{}: the clock of the last writer was ahead of this machine's",
        access.uri
    );
}

/// A clock behind the tables of the index, where this one is before them.
fn behind_tables(
    access: &StoreAccess,
    clock: &IndexClock,
    manifest: &VersionedManifest,
) -> Result<Option<IndexClock>, BucketError> {
    let Some(behind) = clock.behind_tables(manifest) else {
        return Ok(None);
    };
    let behind = behind.map_err(|seconds| BucketError::TablesAhead {
        uri: access.uri.clone(),
        seconds,
    })?;
    warn_of_clock(access);
    Ok(Some(behind))
}

async fn begin_generation(
    access: &StoreAccess,
    (index, db): (&IndexHandle, &Db),
    (volume, options): (&FoundHeader, &VolumeOptions),
) -> Result<(u32, Option<BegunJournal>), BucketError> {
    let header = &volume.header;
    let last = check_meta(access, index, header).await?;
    let generation = last.generation.max(header.origin_generation()) + 1;
    let (journal, record) = match &options.journal {
        Some(journal) => {
            let of = (journal, header);
            let prepared = BegunJournal::prepare(access, of, (&last, generation)).await?;
            (Some(prepared.0), Some(prepared.1))
        }
        None if options.discards_journal => (None, None),
        None => {
            refuse_without(access, &last)?;
            (None, None)
        }
    };
    let meta = IndexMeta {
        id: header.id,
        generation,
        journal: record,
    };
    let work = async {
        db.put(META_KEY, meta.encode()).await?;
        db.flush().await
    };
    opened(access, work).await?;
    match &journal {
        Some(journal) => journal.open().await?,
        None if volume.has_journal_mark => remove_mark(access).await,
        None => {}
    }
    Ok((generation, journal))
}

/// What an index records of its writers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FoundMeta {
    /// The last generation.
    pub(crate) generation: u32,
    /// The journal that is open.
    pub(crate) journal: Option<JournalRecord>,
}

/// The last generation; 0 where none has written yet. That of a clone is its origin's until its first writer.
async fn check_meta(
    access: &StoreAccess,
    index: &IndexHandle,
    header: &VolumeHeader,
) -> Result<FoundMeta, BucketError> {
    let Some(bytes) = opened(access, index.meta()).await? else {
        if header.origins.is_empty() {
            return Ok(FoundMeta::default());
        }
        let uri = access.uri.clone();
        return Err(BucketError::NoRecord { uri });
    };
    let meta = IndexMeta::decode(&bytes).map_err(|source| BucketError::Meta {
        uri: access.uri.clone(),
        source,
    })?;
    let is_origin = meta.generation == header.origin_generation()
        && header.origins.iter().any(|origin| origin.id == meta.id);
    if meta.id != header.id && !is_origin {
        let uri = access.uri.clone();
        return Err(BucketError::Foreign { uri });
    }
    Ok(FoundMeta {
        generation: meta.generation,
        // That of an origin is no matter of the clone.
        journal: meta.journal.filter(|_| meta.id == header.id),
    })
}

impl VolumeShared {
    /// Begins to use the journal, with what is to be committed first.
    async fn begin_journal(
        self: &mut Arc<Self>,
        replay: Option<Replay>,
    ) -> Result<(), BucketError> {
        if let Some(replay) = replay {
            return Box::pin(self.commit_replay(replay)).await;
        }
        if let Some(journal) = &self.journal {
            let queue = journal.queue(JournalPosition::START);
            self.memory().set_journal(queue);
        }
        Ok(())
    }

    /// Marks the volume as lost as soon as the index finds another writer, and carries out the requests of snapshots.
    fn watch_index(self: &Arc<Self>) {
        let IndexHandle::Writer(db) = &self.index else {
            return;
        };
        let mut status = db.subscribe();
        let shared = Arc::downgrade(self);
        let watch = async move {
            let mut requests = FlushRequests::default();
            loop {
                let (reason, is_requested) = {
                    let status = status.borrow_and_update();
                    (status.close_reason, requests.has_new(&status))
                };
                if is_requested && reason.is_none() {
                    let Some(shared) = shared.upgrade() else {
                        return;
                    };
                    shared.begin_publish();
                }
                let failure = match reason {
                    None => None,
                    Some(CloseReason::Fenced) => Some(VolumeFailure::Fenced),
                    Some(CloseReason::Clean) => Some(VolumeFailure::Closed),
                    Some(_) => Some(VolumeFailure::Commit("the index stopped".into())),
                };
                if let Some(failure) = failure {
                    if let Some(shared) = shared.upgrade() {
                        shared.fail(failure);
                    }
                    return;
                }
                if status.changed().await.is_err() {
                    return;
                }
            }
        };
        drop(self.runtime.spawn(watch));
    }
}
