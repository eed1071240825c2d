//! [`PieceCache`]: readers and pieces under one lock, and the guards that record what has ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{BlockDevice, IoBufs, IoError, Node, Range};
use tokio::sync::{Notify, watch};

use super::pieces::{AheadPieces, ChangeId, KnownPiece, PieceId};
use super::plan::AheadWindow;
use super::streams::{Streams, WantedPieces};
use crate::blocks::slice;

/// Windows that are kept in memory at once. More readers take turns.
pub(super) const WINDOWS_MAX: u64 = 4;

/// What has become of a piece.
#[derive(Debug, Clone)]
pub(super) enum PieceOutcome {
    UnderWay,
    There(IoBufs),
    Failed,
}

/// Where a piece is waited for.
pub(super) type OutcomeReceiver = watch::Receiver<PieceOutcome>;

#[derive(Debug)]
struct AheadState {
    streams: Streams,
    pieces: AheadPieces<OutcomeReceiver>,
    /// A request waits for the disk below to settle.
    settling: bool,
}

/// What is to be read ahead along with a read.
#[derive(Debug, Default)]
pub(super) struct Todo {
    pub(super) jobs: Vec<PieceRead>,
    pub(super) settling: Option<Settling>,
}

/// What all requests share.
#[derive(Debug)]
pub(super) struct PieceCache {
    state: Mutex<AheadState>,
    ended: Notify,
}

/// A piece to be read; it is recorded as failed if this is dropped before its end.
#[derive(Debug)]
pub(super) struct PieceRead {
    cache: Arc<PieceCache>,
    id: PieceId,
    range: Range,
    slot: watch::Sender<PieceOutcome>,
    well: bool,
}

impl PieceRead {
    /// Reads the piece.
    pub(super) async fn run(mut self, child: Node) {
        if let Ok(data) = child.read(self.range).await {
            self.well = true;
            self.slot.send_replace(PieceOutcome::There(data));
        }
    }
}

impl Drop for PieceRead {
    fn drop(&mut self) {
        if !self.well {
            self.slot.send_replace(PieceOutcome::Failed);
        }
        self.cache.state().pieces.ended(self.id, self.well);
        self.cache.ended.notify_waiters();
    }
}

/// A wait for changes that were dropped, where nothing is read ahead until they have ended.
#[derive(Debug)]
pub(super) struct Settling(Arc<PieceCache>);

impl Settling {
    /// Waits.
    pub(super) async fn run(self, child: Node) {
        let moment = self.0.state().pieces.now();
        // A disk that cannot settle is not read ahead there; the next reader gets its error.
        if child.settle().await.is_ok() {
            self.0.state().pieces.settled(moment);
        }
    }
}

impl Drop for Settling {
    fn drop(&mut self) {
        self.0.state().settling = false;
    }
}

/// A change that is in flight; abandoned if it is dropped before [`ChangeGuard::ended`].
#[derive(Debug)]
pub(super) struct ChangeGuard<'a> {
    cache: &'a PieceCache,
    id: Option<ChangeId>,
}

impl ChangeGuard<'_> {
    /// It has ended, well or not.
    pub(super) fn ended(mut self) {
        if let Some(id) = self.id.take() {
            self.cache.state().pieces.changed(id);
        }
    }
}

impl Drop for ChangeGuard<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.cache.state().pieces.abandon(id);
        }
    }
}

impl PieceCache {
    pub(super) fn new(window: &AheadWindow) -> Self {
        let bytes_max = WINDOWS_MAX * (window.len() + 2 * window.piece);
        Self {
            state: Mutex::new(AheadState {
                streams: Streams::default(),
                pieces: AheadPieces::new(bytes_max),
                settling: false,
            }),
            ended: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, AheadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A read of `range` comes: the pieces that hold it, and what is to be read ahead along with it.
    pub(super) fn observe(
        self: &Arc<Self>,
        range: Range,
        window: &AheadWindow,
    ) -> (Option<Vec<KnownPiece<OutcomeReceiver>>>, Todo) {
        let mut state = self.state();
        let found = state.pieces.find(range, window.piece);
        let wanted = state.streams.observe(range, window);
        let begin = |wanted| self.begin(&mut state, wanted, window);
        (found, wanted.map(begin).unwrap_or_default())
    }

    /// Begins the pieces that are wanted and may be had.
    fn begin(
        self: &Arc<Self>,
        state: &mut AheadState,
        wanted: WantedPieces,
        window: &AheadWindow,
    ) -> Todo {
        let AheadState {
            streams,
            pieces,
            settling,
        } = state;
        // Requests that were overtaken may still come for the piece before.
        pieces.pass(wanted.stream, wanted.next.saturating_sub(window.piece));
        pieces.retain(|stream| streams.knows(stream));
        let mut todo = Todo::default();
        for index in wanted.first..wanted.end {
            let range = window.part(index, wanted.next);
            if pieces.is_blocked_by_abandoned(range) && !*settling {
                *settling = true;
                todo.settling = Some(Settling(self.clone()));
            }
            if !pieces.may_begin(index, range) {
                continue;
            }
            while !pieces.has_room(range.len) {
                let Some(idle) = streams.idlest(wanted.stream, |s| pieces.holds(s)) else {
                    return todo;
                };
                pieces.retain(|stream| stream != idle);
            }
            let (slot, receiver) = watch::channel(PieceOutcome::UnderWay);
            todo.jobs.push(PieceRead {
                cache: self.clone(),
                id: pieces.begin(index, range, wanted.stream, receiver),
                range,
                slot,
                well: false,
            });
        }
        todo
    }

    /// Copies `range` if it is there and its reader wants nothing new; `None` if it is not there.
    pub(super) fn try_copy(
        &self,
        range: Range,
        window: &AheadWindow,
        into: &mut [u8],
    ) -> Option<bool> {
        let mut state = self.state();
        let found = state.pieces.find(range, window.piece)?;
        if state.streams.would_move(range, window) {
            return Some(false);
        }
        let mut at = 0;
        for piece in found {
            let PieceOutcome::There(data) = piece.slot.borrow().clone() else {
                return Some(false);
            };
            for part in cut(&data, piece.range, range) {
                into[at..at + part.len()].copy_from_slice(&part);
                at += part.len();
            }
        }
        // Nothing is wanted that was not wanted before.
        let _ = state.streams.observe(range, window);
        Some(true)
    }

    /// A change of `range` begins.
    pub(super) fn change(&self, range: Range) -> ChangeGuard<'_> {
        let id = Some(self.state().pieces.change(range));
        ChangeGuard { cache: self, id }
    }

    /// Waits for what was dropped, and for the pieces that were in flight.
    pub(super) async fn settle(&self, child: &dyn BlockDevice) -> Result<(), IoError> {
        let moment = self.state().pieces.now();
        child.settle().await?;
        self.state().pieces.settled(moment);
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.state().pieces.has_ended(moment) {
                return Ok(());
            }
            ended.await;
        }
    }

    /// Bytes that are kept or in flight.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.state().pieces.bytes()
    }
}

/// Waits for the pieces that hold `range`; `None` if one could not be read.
pub(super) async fn gather(
    found: Vec<KnownPiece<OutcomeReceiver>>,
    range: Range,
) -> Option<IoBufs> {
    let mut data = IoBufs::new();
    for KnownPiece {
        range: piece,
        mut slot,
    } in found
    {
        let ended = slot.wait_for(|outcome| !matches!(outcome, PieceOutcome::UnderWay));
        let outcome = ended.await.ok()?.clone();
        let PieceOutcome::There(bytes) = outcome else {
            return None;
        };
        data.extend(cut(&bytes, piece, range));
    }
    Some(data)
}

/// The part of `data` of `piece` that is in `range`.
fn cut(data: &IoBufs, piece: Range, range: Range) -> IoBufs {
    let start = piece.offset.max(range.offset);
    let end = piece.end().min(range.end()).max(start);
    let skip = Range::new(0, start - piece.offset).len_usize();
    slice(data, skip, Range::new(start, end - start).len_usize())
}
