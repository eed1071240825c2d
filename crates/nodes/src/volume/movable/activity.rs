//! [`UserActivity`]: how many requests users sent to the volumes of a group, counted while extents of it are moved.
//!
//! # Invariants
//!
//! * Nothing is written while no extents are moved: requests on several cores share no cache line that changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Requests of users to the volumes of one group.
#[derive(Debug, Default)]
pub(in crate::volume) struct UserActivity {
    watchers: AtomicUsize,
    requests: AtomicU64,
}

/// Counts requests while it lives.
#[derive(Debug)]
pub(super) struct ActivityWatch(Arc<UserActivity>);

impl UserActivity {
    /// A user has sent a request.
    #[inline]
    pub(super) fn count(&self) {
        if self.watchers.load(Ordering::Relaxed) > 0 {
            self.requests.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn watch(self: &Arc<Self>) -> ActivityWatch {
        self.watchers.fetch_add(1, Ordering::Relaxed);
        ActivityWatch(self.clone())
    }
}

impl ActivityWatch {
    /// Requests so far.
    pub(super) fn requests(&self) -> u64 {
        self.0.requests.load(Ordering::Relaxed)
    }
}

impl Drop for ActivityWatch {
    fn drop(&mut self) {
        self.0.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}
