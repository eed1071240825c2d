//! [`Target`]: a member as requests reach it.
//!
//! # Invariants
//!
//! * No request to a member takes longer than its timeout. What was not answered by then may still land: the
//!   member has failed then, or what it may land on was cancelled ([`super::range_locks`]).
//! * Nothing is sent to a member once the array was taken over, and to a remote one only while it is known to be ours
//!   ([`MemberGuard`]).
//! * The only holder of a part is waited for as long as the disk itself waits: failing it would fail the array.
//! * A member of another machine that has to make something durable, which may take long, shows meanwhile that it is
//!   there: it is read a little, and has failed as soon as that is not answered.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use block::{Errno, IoBufs, IoError, IoFuture, Node, Operation, Range, Support, TryIo, WriteFlags};
use bytes::Bytes;
use engine::{Buffer, clock};

use super::super::member::Member;
use super::super::member_guard::{ArrayFence, MemberGuard, is_not_ours};
use super::close::Released;
use super::member_io::MemberIoCounters;
use super::read_balance::ReadLoad;
use crate::ErrorDisk;
use crate::lent_files::LentFiles;

/// Flushes, and all that members must make durable, may take so much longer than other requests, of a member that is
/// there; so may all requests to disks of this machine: their kernel gives up on a drive itself.
const LONG_TIMEOUT_FACTOR: u32 = 6;
/// Writes for which a member is not tried on the fast path again after it would have blocked.
const WAITS: u32 = 64;

/// A member's place in the table of all that the array has had since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::array) struct SlotId(pub(super) usize);

/// A member did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no answer for {} s", .0.as_secs_f32())]
pub(super) struct TimedOut(Duration);

/// Whether `error` is a member's silence.
pub(super) fn is_timeout(error: &IoError) -> bool {
    let source = error.source.as_deref();
    source.is_some_and(|source| source.is::<TimedOut>())
}

/// Whether `error` is no answer of a disk that works: it did not answer in time, or is not ours any more.
pub(super) fn is_over(error: &IoError) -> bool {
    is_timeout(error) || is_not_ours(error)
}

/// Whether `error` is the answer of a disk that works, and cannot read or write there.
pub(super) fn is_unreadable(error: &IoError) -> bool {
    error.errno == Errno::Io && !is_over(error)
}

/// A member as requests reach it. Ranges are of its data.
#[derive(Debug)]
pub(in crate::array) struct Target {
    pub(in crate::array) slot: SlotId,
    pub(in crate::array) name: String,
    pub(in crate::array) disk: Node,
    /// Where its data begins, the part of it that is nearest to the beginning.
    data_at: AtomicU64,
    pub(in crate::array) remote: bool,
    pub(in crate::array) write_mostly: bool,
    pub(in crate::array) fail_fast: bool,
    timeout: Duration,
    long_timeout: Duration,
    /// Whether the array may still be used.
    fence: Arc<ArrayFence>,
    /// Of a member on another machine: whether it is still ours.
    pub(super) guard: Option<Arc<MemberGuard>>,
    /// No other member holds what it does.
    alone: AtomicBool,
    /// Reads in flight.
    pub(super) load: ReadLoad,
    /// What it answered.
    pub(super) io: MemberIoCounters,
    /// Read errors that were repaired.
    pub(super) corrected: AtomicU64,
    /// Writes until the fast path is tried again.
    waits: AtomicU32,
    /// Notifies when no request uses it any more.
    pub(super) released: Released,
    /// Regions of its files that were handed out.
    pub(super) lent: LentFiles,
}

impl Target {
    /// `guard`: what sees whether it is still ours, for one that is written.
    pub(super) fn new(
        slot: SlotId,
        member: &Member,
        timeout: Duration,
        fence: Arc<ArrayFence>,
        guard: Option<Arc<MemberGuard>>,
    ) -> Self {
        let long = timeout.saturating_mul(LONG_TIMEOUT_FACTOR);
        Self {
            fence,
            guard,
            slot,
            name: member.name.clone(),
            disk: member.disk.clone(),
            data_at: AtomicU64::new(member.superblock.data.offset),
            remote: member.remote,
            write_mostly: member.superblock.write_mostly,
            fail_fast: member.superblock.fail_fast,
            timeout: if member.remote { timeout } else { long },
            long_timeout: long,
            alone: AtomicBool::new(false),
            load: ReadLoad::default(),
            io: MemberIoCounters::default(),
            corrected: AtomicU64::new(member.superblock.corrected.into()),
            waits: AtomicU32::new(0),
            released: Released::default(),
            lent: LentFiles::default(),
        }
    }

    /// The same member, its disk let go: for one that was forgotten.
    pub(super) fn closed(&self) -> Self {
        Self {
            slot: self.slot,
            name: self.name.clone(),
            disk: Arc::new(ErrorDisk::new(0)),
            fence: self.fence.clone(),
            guard: None,
            load: ReadLoad::default(),
            io: MemberIoCounters::default(),
            corrected: AtomicU64::new(self.corrected.load(Ordering::Relaxed)),
            alone: AtomicBool::new(false),
            waits: AtomicU32::new(0),
            released: Released::default(),
            lent: LentFiles::default(),
            data_at: AtomicU64::new(self.data_at.load(Ordering::Relaxed)),
            ..*self
        }
    }

    /// Its data begin so many bytes nearer to the beginning of the disk, and places count from there. Nothing may be under way.
    pub(super) fn move_data(&self, by: u64) {
        let before = self.data_at.fetch_sub(by, Ordering::Relaxed);
        assert!(before >= by, "there is room in front of the data");
    }

    /// Where bytes of its data are on the disk.
    pub(super) fn place(&self, within: Range) -> Range {
        let data_at = self.data_at.load(Ordering::Relaxed);
        Range::new(data_at + within.offset, within.len)
    }

    pub(super) async fn read(&self, within: Range) -> Result<IoBufs, IoError> {
        let below = self.place(within);
        let _counted = (self.load.begin(), self.io.read.begin(within.len));
        self.fence.check(Operation::Read, Some(below))?;
        if let Some(guard) = &self.guard {
            guard.admit_read(self.timeout()).await?;
        }
        let read = self.disk.read(below);
        let read = self
            .with_timeout(self.timeout, Operation::Read, Some(below), read)
            .await;
        self.checked_answer(read).await
    }

    /// Writes; durably where the flags say so, also if the disk must be flushed for that.
    pub(super) async fn write(
        &self,
        within: Range,
        data: IoBufs,
        flags: WriteFlags,
    ) -> Result<(), IoError> {
        self.write_at(self.place(within), data, flags).await
    }

    /// The same anywhere on the disk.
    pub(super) async fn write_at(
        &self,
        below: Range,
        data: IoBufs,
        flags: WriteFlags,
    ) -> Result<(), IoError> {
        let _counted = self.io.write.begin(below.len);
        self.admit_change(Operation::Write, below).await?;
        let written = self.send_write(below, data, flags).await;
        self.checked_answer(written).await
    }

    /// Writes on the fast path. Where that would block nothing of it can land late, and the same bytes are to be written again.
    pub(super) fn try_write(&self, within: Range, data: &IoBufs) -> TryIo {
        let block = self.disk.geometry().block_size as usize;
        let has_blocks = data.iter().all(|piece| piece.len().is_multiple_of(block));
        if self.fence.is_closed() || !has_blocks || !self.answers_now() {
            return TryIo::WouldBlock;
        }
        let counted = self.io.write.begin(within.len);
        let mut at = self.place(within).offset;
        for piece in data {
            let below = Range::new(at, piece.len() as u64);
            if self.disk.try_write(below, piece) == TryIo::WouldBlock {
                counted.cancel();
                self.would_wait();
                return TryIo::WouldBlock;
            }
            at = below.end();
        }
        TryIo::Done
    }

    /// Reads on the fast path; `None`: that would block.
    pub(super) fn try_read(&self, within: Range) -> Option<IoBufs> {
        if !self.may_try_read() {
            return None;
        }
        let counted = self.io.read.begin(within.len);
        let mut buffer = Buffer::take(within.len_usize());
        if self.disk.try_read(self.place(within), &mut buffer) == TryIo::WouldBlock {
            counted.cancel();
            return None;
        }
        Some(std::iter::once(buffer.freeze()).collect())
    }

    /// Sends a write, and the flush that makes it durable where the disk has no other way.
    async fn send_write(
        &self,
        below: Range,
        data: IoBufs,
        flags: WriteFlags,
    ) -> Result<(), IoError> {
        let (flags, flush) = self.durably(flags);
        let write = self.disk.write(below, data, flags);
        match flags.contains(WriteFlags::FUA) {
            true => {
                self.with_long_timeout(Operation::Write, Some(below), write)
                    .await?
            }
            false => {
                self.with_timeout(self.timeout, Operation::Write, Some(below), write)
                    .await?;
            }
        }
        self.flush_if(flush).await
    }

    pub(super) async fn write_zeroes(
        &self,
        within: Range,
        flags: WriteFlags,
    ) -> Result<(), IoError> {
        let (below, (flags, flush)) = (self.place(within), self.durably(flags));
        self.admit_change(Operation::WriteZeroes, below).await?;
        let zeroed = self.disk.write_zeroes(below, flags);
        let zeroed = async {
            self.with_long_timeout(Operation::WriteZeroes, Some(below), zeroed)
                .await?;
            self.flush_if(flush).await
        };
        self.checked_answer(zeroed.await).await
    }

    pub(super) async fn trim(&self, within: Range) -> Result<(), IoError> {
        let below = self.place(within);
        self.admit_change(Operation::Trim, below).await?;
        let trim = self.disk.trim(below);
        let trimmed = self
            .with_long_timeout(Operation::Trim, Some(below), trim)
            .await;
        self.checked_answer(trimmed).await
    }

    pub(super) async fn flush(&self) -> Result<(), IoError> {
        self.fence.check(Operation::Flush, None)?;
        let flushed = self.flush_if(true).await;
        self.checked_answer(flushed).await
    }

    pub(super) async fn settle(&self) -> Result<(), IoError> {
        let settled = self.disk.settle();
        self.with_long_timeout(Operation::Write, None, settled)
            .await
    }

    async fn flush_if(&self, wanted: bool) -> Result<(), IoError> {
        if !wanted || !self.disk.geometry().flush.any() {
            return Ok(());
        }
        let flushed = self.disk.flush();
        self.with_long_timeout(Operation::Flush, None, flushed)
            .await
    }

    /// Resolves once the disk may be changed.
    async fn admit_change(&self, operation: Operation, below: Range) -> Result<(), IoError> {
        self.fence.check(operation, Some(below))?;
        match &self.guard {
            None => Ok(()),
            Some(guard) => guard.admit_change(self.timeout()).await,
        }
    }

    /// An answer of the disk: what came over connections over which the superblock was not read counts only once it was. An
    /// error that says that another host took the disk over ends the array.
    async fn checked_answer<T>(&self, answer: Result<T, IoError>) -> Result<T, IoError> {
        let answer = answer.map_err(|error| self.fence.notice(&self.name, error))?;
        if let Some(guard) = &self.guard {
            guard.admit_read(self.timeout()).await?;
        }
        Ok(answer)
    }

    /// Reads the superblock of a remote member, and compares it with what the array wrote last.
    pub(super) async fn verify(&self) -> Result<(), IoError> {
        self.fence.check(Operation::Write, None)?;
        match &self.guard {
            None => Ok(()),
            Some(guard) => guard.verify(self.timeout()).await,
        }
    }

    /// Writes the superblock, durably.
    pub(super) async fn write_superblock(&self, place: Range, image: Bytes) -> Result<(), IoError> {
        let data = std::iter::once(image.clone()).collect();
        let Some(guard) = &self.guard else {
            return self.write_at(place, data, WriteFlags::FUA).await;
        };
        let written = async {
            self.fence.check(Operation::Write, Some(place))?;
            // A client keeps a durable write, too, until the next flush, and would write it again when its server comes back: over
            // an old copy, which would then pass for ours.
            let written = async {
                self.send_write(place, data, WriteFlags::FUA).await?;
                self.flush_if(true).await
            };
            let written = written.await;
            written.map_err(|error| self.fence.notice(&self.name, error))
        };
        guard.write(image, self.timeout(), written).await?;
        self.checked_answer(Ok(())).await
    }

    /// The flags that the disk knows, and whether it must be flushed behind the write instead.
    pub(super) fn durably(&self, flags: WriteFlags) -> (WriteFlags, bool) {
        if flags.contains(WriteFlags::FUA) && self.disk.geometry().fua == Support::None {
            return (flags - WriteFlags::FUA, true);
        }
        (flags, false)
    }

    /// Whether what it answered is for its log of bad blocks, if it has one: a disk that works cannot read or write there.
    pub(super) fn may_log(&self, error: &IoError) -> bool {
        !self.fail_fast && is_unreadable(error)
    }

    /// Notes whether no other member holds what it does.
    pub(super) fn set_alone(&self, alone: bool) {
        self.alone.store(alone, Ordering::Relaxed);
    }

    fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Relaxed)
    }

    /// How long a check of its superblock may take.
    fn timeout(&self) -> Duration {
        match self.is_alone() {
            true => Duration::MAX,
            false => self.timeout,
        }
    }

    /// Waits for an answer for so long, or for as long as no other member holds what it does: that is checked again each
    /// time, for another member may have come meanwhile. No clock is read where it answers at once.
    async fn with_timeout<T>(
        &self,
        limit: Duration,
        operation: Operation,
        range: Option<Range>,
        mut request: IoFuture<'_, T>,
    ) -> Result<T, IoError> {
        let first = poll_fn(|context| Poll::Ready(request.as_mut().poll(context))).await;
        if let Poll::Ready(answer) = first {
            return answer;
        }
        loop {
            match clock::timeout(limit, &mut request).await {
                Ok(answer) => return answer,
                Err(_) if self.is_alone() => {}
                Err(_) => return Err(timed_out(limit, operation, range)),
            }
        }
    }

    /// Sends a request that may take long.
    async fn with_long_timeout<T>(
        &self,
        operation: Operation,
        range: Option<Range>,
        mut request: IoFuture<'_, T>,
    ) -> Result<T, IoError> {
        if !self.remote || self.is_alone() || self.timeout == Duration::MAX {
            let limit = self.long_timeout;
            return self.with_timeout(limit, operation, range, request).await;
        }
        let first = poll_fn(|context| Poll::Ready(request.as_mut().poll(context))).await;
        if let Poll::Ready(answer) = first {
            return answer;
        }
        let half = self.timeout / 2;
        for _ in 0..LONG_TIMEOUT_FACTOR {
            if let Ok(answer) = clock::timeout(half, &mut request).await {
                return answer;
            }
            let is_there = clock::timeout(half, self.disk.read(self.place(self.first_block())));
            tokio::select! {
                biased;
                answer = &mut request => return answer,
                is_there = is_there => if !matches!(is_there, Ok(Ok(_))) {
                    return Err(timed_out(self.timeout, operation, range));
                }
            }
        }
        Err(timed_out(self.long_timeout, operation, range))
    }

    fn first_block(&self) -> Range {
        Range::new(0, self.disk.geometry().block_size.into())
    }

    /// Whether it is worth to ask it on the fast path. It is not where it would have waited lately.
    pub(super) fn answers_now(&self) -> bool {
        let may_change = |guard: &Arc<MemberGuard>| guard.may_try_change();
        if !self.guard.as_ref().is_none_or(may_change) {
            return false;
        }
        if self.waits.load(Ordering::Relaxed) == 0 {
            return true;
        }
        self.waits.fetch_sub(1, Ordering::Relaxed);
        false
    }

    /// Whether it may be read on the fast path.
    pub(super) fn may_try_read(&self) -> bool {
        let may_read = |guard: &Arc<MemberGuard>| guard.may_try_read();
        !self.fence.is_closed() && self.guard.as_ref().is_none_or(may_read)
    }

    /// It would have waited.
    pub(super) fn would_wait(&self) {
        self.waits.store(WAITS, Ordering::Relaxed);
    }
}

fn timed_out(timeout: Duration, operation: Operation, range: Option<Range>) -> IoError {
    IoError::new(Errno::Io, operation, range).because(TimedOut(timeout))
}
