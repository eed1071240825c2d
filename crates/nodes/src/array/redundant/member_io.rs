//! [`MemberIoCounters`]: how many requests a member answered, and how long they took. Pure, but for the counters.
//!
//! # Invariants
//!
//! * A request counts once, when it is done or dropped, with all of its time; a try on the fast path only where it is done: the sum over a time is the mean number of
//!   requests that were in flight (Little's law).
//! * Bytes that the kernel sends from a member's file to a socket pass the member by, and are not counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use engine::clock;

use super::super::status::{MemberIo, OperationIo};

/// Requests of one kind.
#[derive(Debug, Default)]
pub(super) struct OperationCounters {
    requests: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
}

/// What a member answered.
#[derive(Debug, Default)]
pub(super) struct MemberIoCounters {
    pub(super) read: OperationCounters,
    pub(super) write: OperationCounters,
}

/// A request that counts when this is dropped.
#[derive(Debug)]
pub(super) struct CountedRequest<'a> {
    /// `None`: it does not count.
    counters: Option<&'a OperationCounters>,
    bytes: u64,
    begun: Instant,
}

impl OperationCounters {
    /// Counts a request for so many bytes.
    pub(super) fn begin(&self, bytes: u64) -> CountedRequest<'_> {
        CountedRequest {
            counters: Some(self),
            bytes,
            begun: clock::now(),
        }
    }

    fn figures(&self) -> OperationIo {
        OperationIo {
            requests: self.requests.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            nanos: self.nanos.load(Ordering::Relaxed),
        }
    }
}

impl MemberIoCounters {
    /// The current figures.
    pub(super) fn figures(&self) -> MemberIo {
        MemberIo {
            read: self.read.figures(),
            write: self.write.figures(),
        }
    }
}

impl CountedRequest<'_> {
    /// It was not carried out, and does not count.
    pub(super) fn cancel(mut self) {
        self.counters = None;
    }
}

impl Drop for CountedRequest<'_> {
    fn drop(&mut self) {
        let Some(counters) = self.counters else {
            return;
        };
        let time = clock::now().saturating_duration_since(self.begun);
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        counters.requests.fetch_add(1, Ordering::Relaxed);
        counters.bytes.fetch_add(self.bytes, Ordering::Relaxed);
        counters.nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}
