//! [`Faults`]: what went wrong on the way to a disk, for `status`, for the log and for `detach`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use block::{IoError, Operation};

/// Counts failed requests. A run of failures is logged once, not request by request.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Failed writes, flushes and zeroings: data that may not be there.
    unwritten: AtomicU64,
    failing: AtomicBool,
    last: Mutex<Option<String>>,
}

impl Faults {
    /// A failed request.
    pub(crate) fn note(&self, error: &IoError) {
        if error.operation != Operation::Read {
            self.unwritten.fetch_add(1, Ordering::AcqRel);
        }
        if !self.failing.swap(true, Ordering::AcqRel) {
            tracing::warn!("requests fail: {error}");
        }
        if let Ok(mut last) = self.last.lock() {
            *last = Some(error.to_string());
        }
    }

    /// A request that changed the disk went well.
    pub(crate) fn passed(&self) {
        if self.failing.load(Ordering::Acquire) && self.failing.swap(false, Ordering::AcqRel) {
            tracing::info!("requests succeed again");
        }
    }

    /// Failed writes, flushes and zeroings so far.
    pub(crate) fn unwritten(&self) -> u64 {
        self.unwritten.load(Ordering::Acquire)
    }

    /// The last failure, while requests fail.
    pub(crate) fn failing(&self) -> Option<String> {
        self.last().filter(|_| self.failing.load(Ordering::Acquire))
    }

    /// The last failure.
    pub(crate) fn last(&self) -> Option<String> {
        self.last.lock().ok().and_then(|last| last.clone())
    }
}
