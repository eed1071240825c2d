//! [`IndexHandle`]: the index of a volume, open for writing or for reading.

use std::ops::Range as RunRange;
use std::sync::Arc;
use std::time::Duration;

use engine::clock;
use slatedb::config::{
    CompactionWorkerOptions, CompactorOptions, CompressionCodec, DbReaderOptions,
    GarbageCollectorDirectoryOptions, GarbageCollectorOptions, GarbageCollectorScheduleOptions,
    ScanOptions, Settings,
};
use slatedb::db_cache::moka::{MokaCache, MokaCacheOptions};
use slatedb::{Db, DbIterator, DbReader, DbReaderMode};

use super::index_clock::IndexClock;
use crate::error::BucketError;
use crate::format::{IndexKey, META_KEY};
use crate::run_map::{RunMap, RunMapBuilder};
use crate::store::StoreAccess;

/// The only user of a cache of its own.
const OWN_CACHE: u64 = 0;
/// Memory for blocks of the index, bytes.
const CACHE_MAX: u64 = 32 << 20;
/// Bytes of the index in memory until they are written as a table, and until changes wait for that.
const TABLE_LEN: usize = 16 << 20;
const UNFLUSHED_MAX: usize = 64 << 20;
/// How often the index polls for another writer, and for tables to merge: each poll is a request that costs money.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(15);
const COMPACTION_POLL: Duration = Duration::from_secs(30);
/// How often the index deletes what it does not use: of its log, and of the rest, which grows slowly. Each costs a few requests, also when
/// nothing is found.
const LOG_COLLECTION: Duration = Duration::from_secs(600);
const COLLECTION: Duration = Duration::from_secs(3600);
/// Bytes of the index that a scan reads ahead.
const SCAN_AHEAD: usize = 256 << 10;

/// The index of a volume.
#[derive(Clone)]
pub(crate) enum IndexHandle {
    /// Its only writer.
    Writer(Db),
    /// One of any number of readers.
    Reader(Arc<DbReader>),
}

/// Settings of the writer: nothing becomes durable but by a flush, and memory is bounded.
fn settings() -> Settings {
    let worker = CompactionWorkerOptions {
        compactions_poll_interval: COMPACTION_POLL,
        compression_codec: Some(CompressionCodec::Lz4),
        ..CompactionWorkerOptions::default()
    };
    Settings {
        flush_interval: None,
        manifest_poll_interval: POLL_INTERVAL,
        l0_sst_size_bytes: TABLE_LEN,
        max_unflushed_bytes: UNFLUSHED_MAX,
        compression_codec: Some(CompressionCodec::Lz4),
        compactor_options: Some(CompactorOptions {
            poll_interval: COMPACTION_POLL,
            worker: Some(worker),
            ..CompactorOptions::default()
        }),
        garbage_collector_options: Some(collections()),
        ..Settings::default()
    }
}

/// The index's own collections: what they delete, and at which age, is as SlateDB has it.
fn collections() -> GarbageCollectorOptions {
    let with = |interval| {
        move |options: GarbageCollectorDirectoryOptions| GarbageCollectorDirectoryOptions {
            interval: Some(interval),
            ..options
        }
    };
    let default = GarbageCollectorOptions::default();
    GarbageCollectorOptions {
        manifest_options: default.manifest_options.map(with(COLLECTION)),
        wal_options: default.wal_options.map(with(LOG_COLLECTION)),
        wal_fence_options: default.wal_fence_options.map(with(COLLECTION)),
        compacted_options: default.compacted_options.map(with(COLLECTION)),
        compactions_options: default.compactions_options.map(with(COLLECTION)),
        detach_options: default
            .detach_options
            .map(|_| GarbageCollectorScheduleOptions {
                interval: Some(COLLECTION),
            }),
        ..default
    }
}

fn cache() -> Arc<MokaCache> {
    Arc::new(MokaCache::new_with_opts(MokaCacheOptions {
        max_capacity: CACHE_MAX,
        ..MokaCacheOptions::default()
    }))
}

/// Opens the index for writing: from now on no other writer's flush succeeds.
pub(crate) async fn writer_of(
    access: &StoreAccess,
    clock: IndexClock,
) -> Result<Db, slatedb::Error> {
    let builder = Db::builder(access.names.index(), access.store.clone())
        .with_settings(settings())
        .with_system_clock(Arc::new(clock))
        .with_db_cache(cache(), OWN_CACHE);
    match access.codec().transformer() {
        Some(seal) => builder.with_block_transformer(seal).build().await,
        None => builder.build().await,
    }
}

/// Does `work` on the index, which may take so long. `what` it is, for the error.
pub(super) async fn limited<T>(
    access: &StoreAccess,
    limit: Duration,
    what: &'static str,
    work: impl Future<Output = Result<T, slatedb::Error>>,
) -> Result<T, BucketError> {
    let done = clock::timeout(limit, Box::pin(work)).await;
    let done = done.map_err(|_| BucketError::Timeout {
        uri: access.uri.clone(),
        seconds: limit.as_secs(),
    })?;
    done.map_err(|error| BucketError::index(&access.uri, what, error))
}

/// Opens the index for reading, as it is now and becomes, or at a checkpoint: nothing is written. Without its log it has what the
/// manifest has.
pub(crate) async fn reader_of(
    access: &StoreAccess,
    mode: DbReaderMode,
    with_log: bool,
) -> Result<DbReader, slatedb::Error> {
    let options = DbReaderOptions {
        manifest_poll_interval: POLL_INTERVAL,
        skip_wal_replay: !with_log,
        ..DbReaderOptions::default()
    };
    let builder = DbReader::builder(access.names.index(), access.store.clone())
        .with_reader_mode(mode)
        .with_options(options)
        .with_db_cache(cache(), OWN_CACHE);
    match access.codec().transformer() {
        Some(seal) => builder.with_block_transformer(seal).build().await,
        None => builder.build().await,
    }
}

/// A scan of the index by run.
pub(crate) struct RunScan {
    entries: DbIterator,
    builder: RunMapBuilder,
    is_done: bool,
}

/// Why a scan failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScanError {
    /// The index.
    #[error(transparent)]
    Index(#[from] slatedb::Error),
    /// An entry that is not understood.
    #[error(transparent)]
    Entry(#[from] crate::format::EntryFormatError),
}

impl RunScan {
    /// The next run that has entries.
    pub(crate) async fn next(&mut self) -> Result<Option<(u64, RunMap)>, ScanError> {
        while !self.is_done {
            match self.entries.next().await? {
                Some(entry) => {
                    if let Some(run) = self.builder.push(&entry.key, &entry.value)? {
                        return Ok(Some(run));
                    }
                }
                None => self.is_done = true,
            }
        }
        Ok(std::mem::take(&mut self.builder).finish())
    }
}

impl IndexHandle {
    /// The record of the index.
    pub(crate) async fn meta(&self) -> Result<Option<bytes::Bytes>, slatedb::Error> {
        match self {
            Self::Writer(db) => db.get(META_KEY).await,
            Self::Reader(db) => db.get(META_KEY).await,
        }
    }

    /// That of this writer, of an index that was opened just now.
    pub(super) fn writer_epoch(&self) -> Option<u64> {
        match self {
            Self::Writer(db) => Some(db.status().current_manifest.writer_epoch()),
            Self::Reader(_) => None,
        }
    }

    /// What the index has of these runs, in order.
    pub(crate) async fn scan(&self, runs: RunRange<u64>) -> Result<RunScan, slatedb::Error> {
        let begin = IndexKey::Run(runs.start).encode();
        let end = IndexKey::Run(runs.end).encode();
        let options = ScanOptions {
            cache_blocks: true,
            read_ahead_bytes: match runs.end - runs.start {
                0..=64 => 1,
                _ => SCAN_AHEAD,
            },
            ..ScanOptions::default()
        };
        let entries = match self {
            Self::Writer(db) => db.scan_with_options(begin..end, &options).await?,
            Self::Reader(db) => db.scan_with_options(begin..end, &options).await?,
        };
        Ok(RunScan {
            entries,
            builder: RunMapBuilder::default(),
            is_done: false,
        })
    }

    /// Closes the index of the volume at `uri`. What was flushed is durable without, so a failure is logged alone.
    pub(crate) async fn close(&self, uri: &str) {
        let closed = match self {
            Self::Writer(db) => db.close().await,
            Self::Reader(db) => db.close().await,
        };
        if let Err(error) = closed {
            tracing::debug!("{uri}: the index was not closed: {error}");
        }
    }
}

impl ScanError {
    /// The same, of the volume at `uri`.
    pub(crate) fn about(self, uri: &str) -> BucketError {
        match self {
            Self::Index(error) => BucketError::index(uri, "read", error),
            Self::Entry(source) => BucketError::Entry {
                uri: uri.to_owned(),
                source,
            },
        }
    }
}
