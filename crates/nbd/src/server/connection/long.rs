//! Requests that may concern a whole disk of terabytes: trimming, zeroing, fetching.
//!
//! They go to the disk piece by piece, and between two pieces the job checks whether it
//! was cancelled: a client that is gone, or a server that stops, does not wait for hours of zeroing.
//! Pieces grow while the disk is quick, so that a sparse terabyte takes a few calls.
//!
//! # Invariants
//!
//! * What fits into the first piece is handed on as it came.
//! * Under FUA nothing is answered before all pieces are durable: one flush behind the last covers
//!   them.

use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use block::{Errno, FileRegion, IoError, Node, Operation, Range, WriteFlags};
use tokio::sync::Notify;

/// Bytes fetched at once for the cache command where a disk has no file to advise on.
pub(super) const CACHE_PIECE: u64 = 1 << 20;
/// Bytes fetched for one cache command. Fetching more is as likely to evict what was
/// fetched before.
const CACHE_MAX: u64 = 1 << 30;
/// Advice on more than this is given by a thread that may block, so much at once: the kernel begins all the reads
/// within the call.
const ADVICE_IN_LINE_MAX: u64 = 1 << 20;
/// The first piece of a trim or a zeroing.
const PIECE_FIRST: u64 = 1 << 30;
/// Pieces become no smaller and no larger.
const PIECE_MIN: u64 = 16 << 20;
const PIECE_MAX: u64 = 1 << 42;
/// A piece that was done within this is followed by one of twice its size, one that took…
const QUICK: Duration = Duration::from_millis(50);
/// …longer than this by one of half.
const SLOW: Duration = Duration::from_millis(500);

/// Whether the requests of a connection are cancelled. Shared by its jobs.
#[derive(Debug, Clone, Default)]
pub(super) struct CancelFlag(Arc<Cancel>);

#[derive(Debug, Default)]
struct Cancel {
    is_set: AtomicBool,
    news: Notify,
}

impl CancelFlag {
    /// Cancels the jobs.
    pub(super) fn set(&self) {
        if !self.0.is_set.swap(true, Ordering::SeqCst) {
            self.0.news.notify_waiters();
        }
    }

    /// Resolves when the jobs are cancelled.
    pub(super) async fn cancelled(&self) {
        let news = self.0.news.notified();
        // What is set from here on notifies `news`, polled or not.
        if !self.0.is_set.load(Ordering::SeqCst) {
            news.await;
        }
    }

    fn check(&self, operation: Operation, rest: Range) -> Result<(), IoError> {
        if self.0.is_set.load(Ordering::Relaxed) {
            let given_up = IoError::new(Errno::ShuttingDown, operation, Some(rest));
            return Err(given_up.because("the connection ends before all of it is done"));
        }
        Ok(())
    }
}

/// Cuts a range into pieces of a size that follows how long they take.
#[derive(Debug)]
pub(super) struct Cutter {
    rest: Range,
    size: u64,
}

impl Cutter {
    pub(super) const fn new(range: Range) -> Self {
        Self {
            rest: range,
            size: PIECE_FIRST,
        }
    }

    /// What is left.
    pub(super) const fn rest(&self) -> Range {
        self.rest
    }

    /// The next piece. All but the last end at a multiple of a piece's size.
    pub(super) fn next(&mut self) -> Option<Range> {
        if self.rest.is_empty() {
            return None;
        }
        let limit = (self.rest.offset / self.size + 1).saturating_mul(self.size);
        let end = limit.min(self.rest.end());
        let piece = Range::new(self.rest.offset, end - self.rest.offset);
        self.rest = Range::new(end, self.rest.end() - end);
        Some(piece)
    }

    /// The last piece took so long.
    pub(super) fn took(&mut self, time: Duration) {
        if time < QUICK {
            self.size = (self.size * 2).min(PIECE_MAX);
        } else if time > SLOW {
            self.size = (self.size / 2).max(PIECE_MIN);
        }
    }
}

pub(super) async fn trim(
    disk: &Node,
    range: Range,
    fua: bool,
    cancel: &CancelFlag,
) -> Result<(), IoError> {
    let mut cutter = Cutter::new(range);
    while let Some(piece) = cutter.next() {
        let start = engine::clock::now();
        disk.trim(piece).await?;
        if !cutter.rest().is_empty() {
            cutter.took(engine::clock::now() - start);
            cancel.check(Operation::Trim, cutter.rest())?;
        }
    }
    if fua {
        disk.flush().await?;
    }
    Ok(())
}

pub(super) async fn zero(
    disk: &Node,
    range: Range,
    mut flags: WriteFlags,
    cancel: &CancelFlag,
) -> Result<(), IoError> {
    let mut cutter = Cutter::new(range);
    let is_long = Cutter::new(range)
        .next()
        .is_some_and(|piece| piece != range);
    let flushes = is_long && flags.contains(WriteFlags::FUA) && disk.geometry().flush.any();
    flags.set(WriteFlags::FUA, flags.contains(WriteFlags::FUA) && !flushes);
    while let Some(piece) = cutter.next() {
        let start = engine::clock::now();
        disk.write_zeroes(piece, flags).await?;
        if !cutter.rest().is_empty() {
            cutter.took(engine::clock::now() - start);
            cancel.check(Operation::WriteZeroes, cutter.rest())?;
        }
    }
    if flushes {
        disk.flush().await?;
    }
    Ok(())
}

/// Has the kernel read ahead where the bytes are in a file, else reads and forgets them.
pub(super) async fn cache(disk: &Node, range: Range, cancel: &CancelFlag) -> Result<(), IoError> {
    let range = Range::new(range.offset, range.len.min(CACHE_MAX));
    let (leaf, at) = block::resolve(&**disk, range);
    if let Some(region) = leaf.file_region(at) {
        let is_advised = if range.len <= ADVICE_IN_LINE_MAX {
            advise(&region, 0, at.len)
        } else {
            let mut done = 0;
            engine::long_work(move || {
                let len = ADVICE_IN_LINE_MAX.min(at.len - done);
                let is_advised = advise(&region, done, len);
                done += len;
                if is_advised && done < at.len {
                    return ControlFlow::Continue(());
                }
                ControlFlow::Break(is_advised)
            })
            .await
        };
        if is_advised {
            return Ok(());
        }
    }
    let mut offset = range.offset;
    while offset < range.end() {
        let len = CACHE_PIECE.min(range.end() - offset);
        drop(disk.read(Range::new(offset, len)).await?);
        offset += len;
        cancel.check(Operation::Read, Range::new(offset, range.end() - offset))?;
    }
    Ok(())
}

/// Has the kernel read `len` bytes ahead, from `offset` in `region`. False: it cannot.
fn advise(region: &FileRegion, offset: u64, len: u64) -> bool {
    let advice = rustix::fs::Advice::WillNeed;
    let (offset, len) = (region.offset + offset, NonZeroU64::new(len));
    rustix::fs::fadvise(&region.file, offset, len, advice).is_ok()
}
