//! [`OverlayState`]: which chunks are where, which write has claimed a new one, and what a flush has to commit. Pure.
//!
//! ```text
//! chunk of the disk:   base ──begin──► claimed ──publish──► fresh ──committed──► durable
//!                        ▲                │
//!                        └── give up ─────┘
//! ```
//!
//! # Invariants
//!
//! * A chunk is claimed by one write at a time; other writes of it wait. Until it is
//!   published it reads as the base.
//! * A fresh chunk reads as the store, but no table on the disk has it yet. They become durable in
//!   the order in which they were published.
//! * No claim is granted that its tables have no prepared room for: a flush needs no new space.

use std::ops;

use block::Range;
use smallvec::SmallVec;

use super::alloc::{Allocator, StoreRuns, StrandMark};
use super::format::StoreLayout;
pub(super) use super::map::{ChunkPiece, ChunkPieces};
use super::map::{ChunkRun, Exception, Map, chunks_of};

/// Chunks that wait for a flush. More are listed before the next one begins: 12 MiB of memory, and of
/// 4 KiB chunks the 4 GiB that a power cut may take from a caller that never flushes.
pub(super) const FRESH_MAX: usize = 1 << 20;

/// Name of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClaimId(u64);

/// Chunks that are written for the first time, and where to.
#[derive(Debug)]
struct ChunkClaim {
    id: ClaimId,
    runs: SmallVec<[ChunkRun; 1]>,
}

/// How a change is carried out.
#[derive(Debug)]
pub(super) struct ChunkWork {
    /// Some of its chunks are new in the store.
    pub(super) claim: Option<ClaimId>,
    /// What must be written: the request, and the rest of new chunks that it does not fill.
    pub(super) outer: Range,
    /// All of `outer` in the store.
    pub(super) pieces: ChunkPieces,
}

/// What a change must do first.
#[derive(Debug)]
pub(super) enum Begun {
    /// Nothing.
    Go(ChunkWork),
    /// Wait: another change writes one of its chunks for the first time.
    Claimed,
    /// Make room for so many tables.
    Prepare(u64),
    /// List what was published: a flush has been away for long.
    List,
    /// Wait until the store has settled; there is no free chunk before.
    Settle,
    /// Give up: the store is full.
    Full,
}

/// What a store's exceptions are when it is opened.
#[derive(Debug)]
pub(super) struct LoadedStore {
    pub(super) layout: StoreLayout,
    /// Size of the disk, bytes.
    pub(super) size: u64,
    pub(super) map: Map,
    pub(super) alloc: Allocator,
}

/// What an overlay knows.
#[derive(Debug)]
pub(super) struct OverlayState {
    layout: StoreLayout,
    size: u64,
    map: Map,
    alloc: Allocator,
    claims: Vec<ChunkClaim>,
    next_claim: u64,
    fresh: Vec<Exception>,
    /// Exceptions that became durable since the store was opened.
    durable: u64,
    /// Exceptions that are listed, fresh or claimed.
    promised: u64,
    /// Tables that may be written without asking for space.
    prepared: u64,
    /// Changes that wait for claims to end.
    pub(super) waiting: usize,
}

impl OverlayState {
    pub(super) fn new(found: LoadedStore) -> Self {
        let promised = found.map.count();
        Self {
            layout: found.layout,
            size: found.size,
            map: found.map,
            alloc: found.alloc,
            claims: Vec::new(),
            next_claim: 0,
            fresh: Vec::new(),
            durable: 0,
            promised,
            prepared: promised / found.layout.per_table() + 1,
            waiting: 0,
        }
    }

    pub(super) const fn map(&self) -> &Map {
        &self.map
    }

    pub(super) const fn alloc(&self) -> &Allocator {
        &self.alloc
    }

    /// Where the bytes of `range` are.
    pub(super) fn pieces(&self, range: Range) -> ChunkPieces {
        self.map.pieces(range, self.layout.chunk()).collect()
    }

    /// The first of the pieces, where it is all of `range`.
    pub(super) fn single(&self, range: Range) -> Option<ChunkPiece> {
        let first = self.map.pieces(range, self.layout.chunk()).next()?;
        (first.at == range).then_some(first)
    }

    /// The chunks that `range` touches.
    fn chunks(&self, range: Range) -> ops::Range<u64> {
        chunks_of(range, self.layout.chunk())
    }

    /// The part of `run` that lies in `within`.
    fn piece(&self, run: ChunkRun, within: Range) -> ChunkPiece {
        run.piece(self.layout.chunk(), within)
    }

    /// A change of `range`, which is not empty, wants to begin.
    pub(super) fn begin(&mut self, range: Range) -> Begun {
        let chunks = self.chunks(range);
        if self.is_claimed(&chunks) {
            return Begun::Claimed;
        }
        let runs: SmallVec<[ChunkRun; 2]> = self.map.runs(chunks).collect();
        let new = |run: &&ChunkRun| run.new.is_none();
        let wanted: u64 = runs.iter().filter(new).map(|run| run.len).sum();
        if wanted == 0 {
            let pieces = runs.iter().map(|&run| self.piece(run, range)).collect();
            return Begun::Go(ChunkWork {
                claim: None,
                outer: range,
                pieces,
            });
        }
        if self.fresh.len() >= FRESH_MAX {
            return Begun::List;
        }
        if self.alloc.must_settle() {
            return Begun::Settle;
        }
        let promised = self.promised + wanted;
        if promised > self.layout.count_max(self.alloc.end()) {
            return Begun::Full;
        }
        let tables = promised / self.layout.per_table() + 1;
        if tables > self.prepared {
            return Begun::Prepare(tables);
        }
        match self.alloc.take(wanted) {
            Some(places) => Begun::Go(self.claim(range, &runs, places)),
            None if self.alloc.has_stranded() => Begun::Settle,
            None => Begun::Full,
        }
    }

    /// Whether no write is the first one of a chunk of `range`.
    pub(super) fn is_free(&self, range: Range) -> bool {
        !self.is_claimed(&self.chunks(range))
    }

    fn is_claimed(&self, chunks: &ops::Range<u64>) -> bool {
        let mut claimed = self.claims.iter().flat_map(|claim| &claim.runs);
        claimed.any(|run| run.old < chunks.end && chunks.start < run.old + run.len)
    }

    /// Gives the new chunks of `runs` their `places`.
    fn claim(&mut self, range: Range, runs: &[ChunkRun], places: StoreRuns) -> ChunkWork {
        let outer = self.outer(range, runs);
        let mut places = places.into_iter();
        let mut place = 0..0;
        let mut claimed = SmallVec::new();
        let mut pieces = ChunkPieces::new();
        for run in runs {
            if run.new.is_some() {
                pieces.push(self.piece(*run, outer));
                continue;
            }
            let mut rest = *run;
            while rest.len > 0 {
                if place.is_empty() {
                    place = places.next().expect("as many places as new chunks");
                }
                let len = rest.len.min(place.end - place.start);
                let part = ChunkRun {
                    old: rest.old,
                    new: Some(place.start),
                    len,
                };
                pieces.push(self.piece(part, outer));
                claimed.push(part);
                place.start += len;
                rest.old += len;
                rest.len -= len;
            }
        }
        let id = ClaimId(self.next_claim);
        self.next_claim += 1;
        self.promised += runs_len(&claimed);
        self.claims.push(ChunkClaim { id, runs: claimed });
        ChunkWork {
            claim: Some(id),
            outer,
            pieces,
        }
    }

    /// `range` with the rest of the new chunks at its ends.
    fn outer(&self, range: Range, runs: &[ChunkRun]) -> Range {
        let chunk = self.layout.chunk();
        let is_new = |run: Option<&ChunkRun>| run.is_some_and(|run| run.new.is_none());
        let mut start = range.offset;
        let mut end = range.end();
        if is_new(runs.first()) {
            start = start / chunk * chunk;
        }
        if is_new(runs.last()) {
            end = end.next_multiple_of(chunk).min(self.size);
        }
        Range::new(start, end - start)
    }

    /// The chunks of a claim, whole, as far as the disk reaches.
    pub(super) fn claimed(&self, id: ClaimId) -> ChunkPieces {
        let claim = self.claims.iter().find(|claim| claim.id == id);
        let runs = claim.into_iter().flat_map(|claim| &claim.runs);
        let whole = Range::new(0, self.size);
        runs.map(|&run| self.piece(run, whole)).collect()
    }

    /// The chunks of a claim are written: from now on they are read from the store.
    pub(super) fn publish(&mut self, id: ClaimId) {
        for run in self.end(id) {
            let Some(new) = run.new else { continue };
            for n in 0..run.len {
                let exception = Exception::new(run.old + n, new + n);
                self.map.insert(exception);
                self.fresh.push(exception);
            }
        }
    }

    /// A claim is abandoned. `settled`: nothing of it can land any more.
    pub(super) fn give_up(&mut self, id: ClaimId, settled: bool) {
        let runs = self.end(id);
        self.promised -= runs_len(&runs);
        // From the back, as they were taken from the front.
        for run in runs.into_iter().rev() {
            let Some(new) = run.new else { continue };
            let place = new..new + run.len;
            if settled {
                self.alloc.give_back(place);
            } else {
                self.alloc.strand(place);
            }
        }
    }

    fn end(&mut self, id: ClaimId) -> SmallVec<[ChunkRun; 1]> {
        let at = self.claims.iter().position(|claim| claim.id == id);
        let at = at.expect("a claim ends once");
        self.claims.swap_remove(at).runs
    }

    /// Tables up to `count` may be written without asking for space.
    pub(super) fn prepared(&mut self, count: u64) {
        self.prepared = self.prepared.max(count);
    }

    /// How many there are of those.
    pub(super) const fn tables_prepared(&self) -> u64 {
        self.prepared
    }

    /// What was published since the last flush, in order.
    pub(super) fn fresh(&self) -> &[Exception] {
        &self.fresh
    }

    /// How many exceptions were published since the store was opened: as many are durable once
    /// [`Self::is_durable`] is true of it.
    pub(super) fn published(&self) -> u64 {
        self.durable + self.fresh.len() as u64
    }

    /// Whether the first `published` of the exceptions that were published are durable.
    pub(super) const fn is_durable(&self, published: u64) -> bool {
        self.durable >= published
    }

    /// The first `count` of the fresh exceptions are durable.
    pub(super) fn committed(&mut self, count: usize) {
        self.fresh.drain(..count);
        self.durable += count as u64;
        if self.fresh.is_empty() {
            self.fresh = Vec::new();
        }
    }

    /// Before the call to the store's `settle`.
    pub(super) fn mark(&mut self) -> StrandMark {
        self.alloc.mark()
    }

    /// The store has settled since.
    pub(super) fn settled(&mut self, mark: StrandMark) {
        self.alloc.settled(mark);
    }
}

fn runs_len(runs: &[ChunkRun]) -> u64 {
    runs.iter().map(|run| run.len).sum()
}
