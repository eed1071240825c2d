//! Commit back: the changes of a store go into its base, and the store is empty afterwards.
//!
//! # Invariants
//!
//! * Until everything is in the base, and durable there, the store stays what it was: base and store
//!   together read the same at every moment, and a commit that ended early is restarted.
//! * The store is emptied from the back of its first table to the front, so that a power cut in
//!   between leaves fewer exceptions, and none that is torn.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use block::{IoError, Node, Range, Support, WriteFlags};
use futures_util::stream::{self, TryStreamExt};

use super::map::{ChunkRun, Map};
use super::open::{self, StoreRequest};
use super::plan::sections;
use super::store::Store;
use super::{Overlay, OverlayError, OverlayOptions};
use crate::guard::flush;
use crate::zeroes::{is_zero, zeroes};

/// Bytes copied together.
const PIECE: u64 = 1 << 20;
/// Pieces in flight.
const PIECES_IN_FLIGHT: usize = 16;
/// What a power cut leaves whole, bytes.
const SECTOR: u64 = 512;

/// How far a commit is, to be looked at while it goes on.
#[derive(Debug, Default)]
pub struct Committing {
    done: AtomicU64,
    total: AtomicU64,
}

impl Committing {
    /// Bytes that are in the base.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Bytes of all changes; 0 before they are known.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

impl Overlay {
    /// Writes the changes in the store at `top` into `base`, and empties the store. Returns how many
    /// bytes were changed.
    ///
    /// It may be aborted at any moment, and restarted.
    ///
    /// # Errors
    /// [`OverlayError`]; the store is what it was then.
    pub async fn commit(
        base: &Node,
        top: &Path,
        progress: &Committing,
    ) -> Result<u64, OverlayError> {
        let store = open::at_path(top, wanted(base)).await?;
        commit_store(base, store, progress).await
    }

    /// The same with a store that is a disk already.
    ///
    /// # Errors
    /// [`OverlayError`]; the store is what it was then.
    pub async fn commit_disk(
        base: &Node,
        store: Node,
        progress: &Committing,
    ) -> Result<u64, OverlayError> {
        let store = open::on_disk(store, wanted(base)).await?;
        commit_store(base, store, progress).await
    }
}

fn wanted(base: &Node) -> StoreRequest<'_> {
    StoreRequest {
        options: OverlayOptions {
            create: false,
            ..OverlayOptions::default()
        },
        base: base.geometry(),
        grows: false,
    }
}

async fn commit_store(
    base: &Node,
    store: Store,
    progress: &Committing,
) -> Result<u64, OverlayError> {
    if base.geometry().read_only {
        return Err(OverlayError::ReadOnlyBase);
    }
    let size = base.geometry().size;
    let map = Map::of_sorted(&store.exceptions);
    let chunk = store.layout.chunk();
    let changed = |run: &ChunkRun| run.new.is_some();
    let runs = || map.runs(0..size.div_ceil(chunk)).filter(changed);
    let pieces = || runs().flat_map(|run| MergedPiece::of(run, chunk, size));
    let total = pieces().map(|piece| piece.base.len).sum();
    progress.total.store(total, Ordering::Relaxed);
    stream::iter(pieces().map(Ok::<_, OverlayError>))
        .try_for_each_concurrent(PIECES_IN_FLIGHT, async |piece| {
            copy(base, &store, piece).await?;
            progress.done.fetch_add(piece.base.len, Ordering::Relaxed);
            Ok(())
        })
        .await?;
    flush(base).await.map_err(OverlayError::Base)?;
    let emptied = empty(&store, map.count()).await;
    emptied.map_err(store.failed())?;
    Ok(total)
}

/// Neighbouring bytes of both disks.
#[derive(Debug, Clone, Copy)]
struct MergedPiece {
    base: Range,
    store: Range,
}

impl MergedPiece {
    /// The pieces of a run on a base of `size` bytes.
    fn of(run: ChunkRun, chunk: u64, size: u64) -> impl Iterator<Item = Self> {
        let start = run.old * chunk;
        let end = ((run.old + run.len) * chunk).min(size);
        let there = run.new.unwrap_or_default() * chunk;
        sections(Range::new(start, end - start), PIECE).map(move |base| Self {
            base,
            store: Range::new(there + (base.offset - start), base.len),
        })
    }
}

async fn copy(base: &Node, store: &Store, piece: MergedPiece) -> Result<(), OverlayError> {
    let data = store.node.read(piece.store).await;
    let data = data.map_err(store.failed())?;
    let plain = WriteFlags::empty();
    let native = base.geometry().write_zeroes == Support::Native;
    let zeroed = native && data.iter().all(|slice| is_zero(slice));
    let written = if zeroed {
        base.write_zeroes(piece.base, plain).await
    } else {
        base.write(piece.base, data, plain).await
    };
    written.map_err(OverlayError::Base)
}

/// Makes a store that lists `count` exceptions list none, and gives its space back.
async fn empty(store: &Store, count: u64) -> Result<(), IoError> {
    if count == 0 {
        return Ok(());
    }
    let chunk = store.layout.chunk();
    let table = Range::new(store.layout.table(0) * chunk, chunk);
    let unit = SECTOR.max(store.node.geometry().block_size.into());
    let rest = Range::new(table.offset + unit.min(chunk), chunk - unit.min(chunk));
    for part in [rest, Range::new(table.offset, unit.min(chunk))] {
        if part.is_empty() {
            continue;
        }
        let data = zeroes(part.len_usize());
        store.node.write(part, data, WriteFlags::empty()).await?;
        flush(&store.node).await?;
    }
    let data = Range::new(table.end(), store.chunks() * chunk - table.end());
    if store.node.geometry().trim.any() && !data.is_empty() {
        // The changes are gone from the tables: that their space stays taken is no failure.
        if let Err(error) = store.node.trim(data).await {
            tracing::warn!("{}: its space cannot be given back: {error}", store.name);
        }
    }
    Ok(())
}
