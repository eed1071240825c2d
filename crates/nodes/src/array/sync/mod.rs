//! `sync`: what keeps the copies of a redundant array identical, and parity fitting its data: resync after a crash, recovery of members, scrub, members that
//! come and come back, and the driver that does all of it in the background.
//!
//! ```text
//! driver ─► manager ─► job: what is to be done ─► plan: which window next ─► window: copies, compares
//!   │         └─ rate: how fast                                               └─► redundant
//!   └─► absent: members that are away ─► members: come back, by the bitmap or in full
//! ```
//!
//! `plan`, `rate`, `progress`, `doing` and `absent` are pure.
//!
//! # Invariants
//!
//! * Users read and write meanwhile; what they wait for is one window at most, or, where they have much under way, so
//!   many that the smallest rate is reached (`rate`).
//! * All work goes on where it was after a restart: superblocks and bitmap record how far it came.

mod absent;
mod candidate;
mod choice;
mod divergence;
mod driver;
mod job;
mod level;
mod manager;
mod members;
mod newcomer;
mod plan;
mod policy;
mod probe;
mod progress;
pub(crate) mod rate;
mod reshape;
mod resize;
mod sync_job;
mod sync_state;
#[cfg(test)]
mod tests;
mod window;

use std::ops::Deref;
use std::sync::Arc;

pub(super) use self::manager::SyncManager;
pub(super) use self::probe::Expected;
use super::ArrayOptions;
use super::redundant::RedundantArray;

/// A redundant array that is kept in sync, until this is dropped.
#[derive(Debug)]
pub(super) struct Kept(Arc<SyncManager>);

impl Kept {
    /// Keeps `redundant` in sync: by the clock, if the options say so.
    pub(super) fn new(
        array: Arc<RedundantArray>,
        expected: Expected,
        options: &ArrayOptions,
    ) -> Self {
        let manager = Arc::new(SyncManager::new(array, options));
        manager.expect(expected);
        if options.background && !options.read_only {
            driver::start(&manager);
        }
        Self(manager)
    }
}

impl Deref for Kept {
    type Target = SyncManager;

    fn deref(&self) -> &SyncManager {
        &self.0
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.leave();
    }
}
