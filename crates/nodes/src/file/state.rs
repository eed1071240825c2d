//! What a file node remembers: whether a sync failed, whether in-line writes stall. Pure.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use block::{Errno, IoError, Operation, Range};

/// A sync that failed. The kernel reports each failure once and may drop the data: what was not
/// durable before may never be, and no later success means anything.
#[derive(Debug, Clone)]
pub(super) struct SyncFailure {
    errno: Errno,
    cause: Arc<str>,
}

impl SyncFailure {
    fn new(error: io::Error) -> Self {
        let cause = error.to_string().into();
        let errno = IoError::from_os(error, Operation::Flush, None).errno;
        Self { errno, cause }
    }

    /// What a request answers after the failure.
    pub(super) fn answer(&self, operation: Operation, range: Option<Range>) -> IoError {
        let why = format!("a sync failed and data may be lost: {}", self.cause);
        IoError::new(self.errno, operation, range).because(why)
    }
}

impl fmt::Display for SyncFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)
    }
}

/// Name of one sync, rising.
pub(super) type SyncId = u64;

/// Syncs in flight, and the first that failed.
///
/// The kernel reports a failure to *one* of the syncs in flight. The success of another one means
/// something only when all that were in flight at the same time have ended without failure.
#[derive(Debug, Default)]
pub(super) struct SyncState {
    running: BTreeSet<SyncId>,
    next: SyncId,
    failure: Option<SyncFailure>,
}

impl SyncState {
    /// A sync starts, unless one has failed.
    pub(super) fn begin(&mut self) -> Result<SyncId, SyncFailure> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let id = self.next;
        self.next += 1;
        self.running.insert(id);
        Ok(id)
    }

    /// It ended. Gives the failure, if it is the first.
    pub(super) fn end(&mut self, id: SyncId, result: io::Result<()>) -> Option<SyncFailure> {
        self.running.remove(&id);
        let failure = SyncFailure::new(result.err()?);
        if self.failure.is_some() {
            return None;
        }
        self.failure = Some(failure.clone());
        Some(failure)
    }

    /// Syncs that start from now on have names from here on.
    pub(super) const fn horizon(&self) -> SyncId {
        self.next
    }

    /// Whether all syncs before `horizon` were good: `None` while one of them runs.
    pub(super) fn verdict(&self, horizon: SyncId) -> Option<Result<(), SyncFailure>> {
        if let Some(failure) = &self.failure {
            return Some(Err(failure.clone()));
        }
        let oldest = self.running.first();
        oldest.is_none_or(|&id| id >= horizon).then_some(Ok(()))
    }
}

/// An in-line write that takes this long, and [`STALL_PER_MIB`] more for its copying, has waited
/// for the disk. Less may only be another thread's turn on the processor, and the other way is
/// several times dearer: many writes of one file queue for its lock.
const STALL: Duration = Duration::from_millis(8);
const STALL_PER_MIB: Duration = Duration::from_millis(1);
/// How long requests on the fast path pause after a stall: from…
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// …doubling, while they stall again, to…
const PAUSE_MAX: Duration = Duration::from_millis(160);

/// How long an in-line write of `len` bytes may take.
pub(super) fn try_write_allowed(len: usize) -> Duration {
    let mib = u32::try_from(len >> 20).unwrap_or(u32::MAX);
    STALL + STALL_PER_MIB.saturating_mul(mib)
}

/// Keeps requests of one kind off the caller's thread for a while when one of them had to wait. Others
/// of the thread would wait with it. A write waits where too much of the page cache is dirty, or old
/// data must be read first; a search for holes, where the file's map must be read.
#[derive(Debug)]
pub(super) struct Pace {
    born: Instant,
    /// Nanoseconds after `born`.
    paused_until: AtomicU64,
    /// Nanoseconds of the next pause.
    pause: AtomicU64,
}

impl Pace {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            born: now,
            paused_until: AtomicU64::new(0),
            pause: AtomicU64::new(nanos(PAUSE_MIN)),
        }
    }

    /// Whether a request may be tried on the fast path.
    pub(super) fn allows(&self, now: Instant) -> bool {
        self.since_birth(now) >= self.paused_until.load(Ordering::Relaxed)
    }

    /// A request that may take as long as `allowed` lasted from `start` to `end`.
    pub(super) fn took(&self, allowed: Duration, start: Instant, end: Instant) {
        if end.saturating_duration_since(start) <= allowed {
            if self.pause.load(Ordering::Relaxed) != nanos(PAUSE_MIN) {
                self.pause.store(nanos(PAUSE_MIN), Ordering::Relaxed);
            }
            return;
        }
        let pause = self.pause.load(Ordering::Relaxed);
        let until = self.since_birth(end).saturating_add(pause);
        self.paused_until.store(until, Ordering::Relaxed);
        let longer = pause.saturating_mul(2).min(nanos(PAUSE_MAX));
        self.pause.store(longer, Ordering::Relaxed);
    }

    fn since_birth(&self, now: Instant) -> u64 {
        let age = now.saturating_duration_since(self.born);
        u64::try_from(age.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// For durations of this file, which are short.
#[expect(clippy::cast_possible_truncation, reason = "constants of milliseconds")]
const fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}
