//! [`Record`]: what happened in a world, in order, and the first invariant that was broken.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use engine::clock;

/// What must hold in every world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Invariant {
    /// A write that was acknowledged is read back until a failure was reported to a caller.
    AcknowledgedWritesAreReadBack,
    /// What a successful flush or a durable write covered survives every later fault.
    FlushedDataSurvive,
    /// After a failed flush, or requests that were failed without an answer, no flush succeeds.
    NoFlushSucceedsAfterAFailure,
    /// No byte of a request is sent after it was reported failed, or after the past was dropped.
    FailedRequestsAreNotSent,
    /// No byte is written to a disk that is not the one attached.
    OnlyTheAttachedDiskIsWritten,
    /// Only requests of callers are sent, with their data.
    OnlyRequestsOfCallersAreSent,
    /// No server carries a change out after another server of the disk received one.
    OneServerAtATime,
    /// Every request ends.
    EveryRequestEnds,
    /// A request fails only where the disk, the network or the configuration gave a reason.
    FailuresHaveAReason,
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AcknowledgedWritesAreReadBack => "an acknowledged write is not read back",
            Self::FlushedDataSurvive => "flushed data are lost",
            Self::NoFlushSucceedsAfterAFailure => "a flush succeeded after a failure",
            Self::FailedRequestsAreNotSent => "a request was sent after it failed",
            Self::OnlyTheAttachedDiskIsWritten => "another disk is written",
            Self::OnlyRequestsOfCallersAreSent => "a request that no caller made is sent",
            Self::OneServerAtATime => "a server writes after another one was written to",
            Self::EveryRequestEnds => "a request never ends",
            Self::FailuresHaveAReason => "a request failed without a reason",
        })
    }
}

/// An invariant that was broken, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) invariant: Invariant,
    pub(super) detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.detail)
    }
}

/// What happened in one world.
#[derive(Debug)]
pub(super) struct Record {
    begun: Mutex<Option<Instant>>,
    stamps: AtomicU64,
    events: Mutex<Vec<String>>,
    violation: Mutex<Option<Violation>>,
}

impl Record {
    pub(super) const fn new() -> Self {
        Self {
            begun: Mutex::new(None),
            stamps: AtomicU64::new(1),
            events: Mutex::new(Vec::new()),
            violation: Mutex::new(None),
        }
    }

    /// A number larger than every one before: the order of events.
    pub(super) fn stamp(&self) -> u64 {
        self.stamps.fetch_add(1, Ordering::Relaxed)
    }

    /// Appends an event, with the time since the first one. Nothing matters behind a violation.
    pub(super) fn log(&self, event: impl fmt::Display) {
        if self.is_violated() {
            return;
        }
        let now = clock::now();
        let begun = *lock(&self.begun).get_or_insert(now);
        let after = now.duration_since(begun).as_secs_f64();
        lock(&self.events).push(format!("{after:9.3} {event}"));
    }

    /// Keeps the first violation.
    pub(super) fn violate(&self, invariant: Invariant, detail: impl fmt::Display) {
        let violation = Violation {
            invariant,
            detail: detail.to_string(),
        };
        self.log(format_args!("VIOLATION {violation}"));
        lock(&self.violation).get_or_insert(violation);
    }

    pub(super) fn violation(&self) -> Option<Violation> {
        lock(&self.violation).clone()
    }

    pub(super) fn is_violated(&self) -> bool {
        lock(&self.violation).is_some()
    }

    pub(super) fn events(&self) -> Vec<String> {
        lock(&self.events).clone()
    }
}

/// The worlds have one thread: a poisoned lock is that of a world that panicked.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
