//! [`Record`]: all requests that the disks of a world got, and their answers, as one number.
//!
//! # Invariants
//!
//! * Two plays of a seed are the same world if their records are: every request of every disk is in it, in order, with
//!   all that it writes, and how it was answered.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

/// What happened to the disks of a world.
#[derive(Debug, Default)]
pub(super) struct Record(Mutex<DefaultHasher>);

impl Record {
    /// One thing more.
    pub(super) fn note(&self, what: impl Hash) {
        let mut record = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        what.hash(&mut *record);
    }

    /// All of it so far.
    pub(super) fn number(&self) -> u64 {
        let record = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        record.finish()
    }
}
