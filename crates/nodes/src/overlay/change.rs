//! Changes: where they go, what they take along from the base, and how they end.

use block::{Errno, ExtentKind, IoBufs, IoError, Operation, Range, TryIo, WriteFlags};
use engine::Buffer;
use futures_util::future::try_join;
use futures_util::stream::{self, StreamExt};

use super::Overlay;
use super::plan::{self, Sides, StoreWrite, sections};
use super::state::{Begun, ChunkWork, OverlayState};
use crate::zeroes::zeroes;

/// Requests to the store, or the base, that one request makes at a time.
pub(super) const IN_FLIGHT: usize = 64;
/// Bytes zeroed at a time: so many exceptions are made at once.
const ZERO_LEN_MAX: u64 = 64 << 20;
/// Largest change on the fast path that takes something along from the base, bytes.
const COPY_NOW_MAX: u64 = 64 * 1024;

/// A change that has begun. What it claimed is given back when it is dropped before its end.
#[derive(Debug)]
pub(super) struct ChunkChange<'a> {
    overlay: &'a Overlay,
    pub(super) work: ChunkWork,
    /// A part of it may be on its way below.
    pub(super) in_flight: bool,
}

impl ChunkChange<'_> {
    /// Everything of it was written.
    pub(super) fn publish(&mut self) {
        if let Some(id) = self.work.claim.take() {
            self.overlay.end_claim(|state| state.publish(id));
        }
    }
}

impl Drop for ChunkChange<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.work.claim.take() {
            let settled = !self.in_flight;
            self.overlay.end_claim(|state| state.give_up(id, settled));
        }
    }
}

impl Overlay {
    /// Ends a claim, and wakes the writes that wait for it.
    fn end_claim(&self, end: impl FnOnce(&mut OverlayState)) {
        let mut state = self.state();
        end(&mut state);
        let waiting = state.waiting > 0;
        drop(state);
        if waiting {
            self.ended.notify_waiters();
        }
    }

    /// Waits until `range` may be changed.
    pub(super) async fn begin(
        &self,
        operation: Operation,
        range: Range,
    ) -> Result<ChunkChange<'_>, IoError> {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let begun = self.state().begin(range);
            match begun {
                Begun::Go(work) => return Ok(self.change(work)),
                Begun::Claimed => {
                    let _waiting = Waiting::enter(self);
                    // It may have ended before it could see that a write waits.
                    if self.state().is_free(range) {
                        continue;
                    }
                    ended.await;
                }
                Begun::Prepare(count) => self.prepare(count).await?,
                Begun::Settle => self.settle_store().await?,
                Begun::List => self.make_durable().await?,
                Begun::Full => return Err(self.full(operation, range)),
            }
        }
    }

    const fn change(&self, work: ChunkWork) -> ChunkChange<'_> {
        ChunkChange {
            overlay: self,
            work,
            in_flight: false,
        }
    }

    fn full(&self, operation: Operation, range: Range) -> IoError {
        let size = self.usage().size;
        let why = format!(
            "all {size} bytes that the store {} may have are used",
            self.name
        );
        IoError::new(Errno::NoSpace, operation, Some(range)).because(why)
    }

    pub(super) async fn change_data(
        &self,
        range: Range,
        data: IoBufs,
        flags: WriteFlags,
    ) -> Result<(), IoError> {
        let change = self.begin(Operation::Write, range).await?;
        let sides = Sides::of(change.work.outer, range);
        let (mut whole, tail) = self.around(sides).await?;
        whole.extend(data);
        whole.extend(tail);
        let steps = plan::writes(&change.work, &whole);
        self.finish(change, steps, flags).await
    }

    pub(super) async fn change_to_zeroes(
        &self,
        range: Range,
        flags: WriteFlags,
    ) -> Result<(), IoError> {
        let at_once = range.len <= ZERO_LEN_MAX;
        let fua = if at_once {
            flags
        } else {
            flags - WriteFlags::FUA
        };
        for section in sections(range, ZERO_LEN_MAX) {
            for part in self.not_yet_zero(section, flags).await? {
                let change = self.begin(Operation::WriteZeroes, part).await?;
                let sides = Sides::of(change.work.outer, part);
                let (head, tail) = self.around(sides).await?;
                let steps = plan::zeroes(&change.work, sides, &head, &tail);
                self.finish(change, steps, fua).await?;
            }
        }
        if fua == flags {
            return Ok(());
        }
        self.make_durable().await
    }

    /// The parts of `section` that have to be zeroed: what the base reports as zeroes and the store does
    /// not have is left alone, or zeroing an empty disk would list every chunk of it.
    async fn not_yet_zero(&self, section: Range, flags: WriteFlags) -> Result<Vec<Range>, IoError> {
        if flags.contains(WriteFlags::NO_HOLE) {
            return Ok(vec![section]);
        }
        let pieces = self.state().pieces(section);
        let mut data = Vec::new();
        for piece in pieces.iter().filter(|piece| piece.store.is_none()) {
            let extents = self.base.extents(piece.at).await?;
            let with_data = extents.iter().filter(|e| e.kind == ExtentKind::Data);
            data.extend(with_data.map(|extent| extent.range));
        }
        // What came into the store meanwhile: its base may have been zeroed since.
        let pieces = self.state().pieces(section);
        let wanted = plan::not_zero(&pieces, &data);
        Ok(plan::whole_chunks(&wanted, self.layout.chunk(), section))
    }

    /// The bytes of new chunks outside the request.
    async fn around(&self, sides: Sides) -> Result<(IoBufs, IoBufs), IoError> {
        let read = async |range: Range| {
            if range.is_empty() {
                return Ok(IoBufs::new());
            }
            self.base.read(range).await
        };
        try_join(read(sides.head), read(sides.tail)).await
    }

    /// Carries out the steps, and makes them seen.
    async fn finish(
        &self,
        mut change: ChunkChange<'_>,
        steps: Vec<StoreWrite>,
        flags: WriteFlags,
    ) -> Result<(), IoError> {
        let fua = flags.contains(WriteFlags::FUA);
        // Where all chunks are listed already, the data is all that there is to make durable.
        let listed = fua && change.work.claim.is_none() && self.state().fresh().is_empty();
        let mut below = flags;
        below.set(WriteFlags::FUA, listed && self.store.geometry().fua.any());
        change.in_flight = true;
        let written = stream::iter(steps)
            .map(|step| self.step(step, below))
            .buffer_unordered(IN_FLIGHT)
            .fold(Ok(()), async |all, one| all.and(one))
            .await;
        change.in_flight = false;
        written?;
        change.publish();
        if fua && !below.contains(WriteFlags::FUA) {
            return self.make_durable().await;
        }
        Ok(())
    }

    async fn step(&self, step: StoreWrite, flags: WriteFlags) -> Result<(), IoError> {
        match step.data {
            Some(data) => {
                let flags = flags & WriteFlags::FUA;
                self.store.write(step.at, data, flags).await
            }
            None if self.store.geometry().write_zeroes.any() => {
                self.store.write_zeroes(step.at, flags).await
            }
            None => {
                let flags = flags & WriteFlags::FUA;
                let data = zeroes(step.at.len_usize());
                self.store.write(step.at, data, flags).await
            }
        }
    }

    /// Writes without waiting, where the store and the base can.
    pub(super) fn try_change(&self, range: Range, data: &[u8]) -> TryIo {
        let begun = self.state().begin(range);
        let begun = match begun {
            Begun::Prepare(count) if self.try_prepare(count) == TryIo::Done => {
                self.state().begin(range)
            }
            begun => begun,
        };
        let Begun::Go(work) = begun else {
            return TryIo::WouldBlock;
        };
        let mut change = self.change(work);
        let outer = change.work.outer;
        let written = if outer == range {
            self.try_write_pieces(&change.work, data)
        } else if outer.len <= COPY_NOW_MAX {
            self.try_copy(&change.work, range, data)
        } else {
            TryIo::WouldBlock
        };
        if written == TryIo::Done {
            change.publish();
        }
        written
    }

    /// Writes `data` with what is around it in new chunks.
    fn try_copy(&self, work: &ChunkWork, range: Range, data: &[u8]) -> TryIo {
        let mut whole = Buffer::take(work.outer.len_usize());
        let Sides { head, tail, .. } = Sides::of(work.outer, range);
        let (before, rest) = whole.split_at_mut(head.len_usize());
        let (middle, behind) = rest.split_at_mut(range.len_usize());
        middle.copy_from_slice(data);
        for (side, into) in [(head, before), (tail, behind)] {
            if !side.is_empty() && self.base.try_read(side, into) == TryIo::WouldBlock {
                return TryIo::WouldBlock;
            }
        }
        self.try_write_pieces(work, &whole)
    }

    fn try_write_pieces(&self, work: &ChunkWork, data: &[u8]) -> TryIo {
        let mut rest = data;
        for piece in &work.pieces {
            let Some(at) = piece.store else {
                return TryIo::WouldBlock;
            };
            let (here, later) = rest.split_at(piece.at.len_usize());
            let at = Range::new(at, piece.at.len);
            if self.store.try_write(at, here) == TryIo::WouldBlock {
                return TryIo::WouldBlock;
            }
            rest = later;
        }
        TryIo::Done
    }

    /// Gives the chunks of the store that were trimmed back to what it is kept in.
    pub(super) async fn trim_store(&self, range: Range) -> Result<(), IoError> {
        for section in sections(range, super::SECTION) {
            let pieces = self.state().pieces(section);
            let stored = pieces.into_iter().filter_map(|piece| {
                let at = piece.store?;
                Some(Range::new(at, piece.at.len))
            });
            stream::iter(stored)
                .map(|at| self.store.trim(at))
                .buffer_unordered(IN_FLIGHT)
                .fold(Ok(()), async |all, one| all.and(one))
                .await?;
        }
        Ok(())
    }

    /// Waits for what was dropped, and frees the chunks that it was going to.
    pub(super) async fn settle_store(&self) -> Result<(), IoError> {
        let mark = self.state().mark();
        self.store.settle().await?;
        self.state().settled(mark);
        Ok(())
    }
}

/// A change that waits for a claim to end.
struct Waiting<'a>(&'a Overlay);

impl<'a> Waiting<'a> {
    fn enter(overlay: &'a Overlay) -> Self {
        overlay.state().waiting += 1;
        Self(overlay)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}
