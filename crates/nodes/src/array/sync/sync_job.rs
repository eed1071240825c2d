//! [`SyncJob`]: a job that is under way: how far it is, and what it could not do.

use std::time::Duration;

use block::{Errno, IoError, Operation, Range};

use super::super::parity::unreadable::Ranges;
use super::super::redundant::RedundantArray;
use super::job::Job;
use super::plan::Walk;
use super::rate::Rate;
use super::window::Stop;

/// Places that cannot be read, after which a job ends: nothing is gained by the rest.
const LOST_MAX: usize = 1000;

/// A job that is under way.
pub(super) struct SyncJob {
    pub(super) job: Job,
    pub(super) walk: Walk,
    pub(super) rate: Rate,
    pub(super) end: u64,
    /// Up to where it is known to be done.
    pub(super) told: u64,
    /// What was written down, and when.
    pub(super) noted: (u64, Duration),
    /// How often copies were found to differ when it began.
    pub(super) needs: u64,
    /// Where parity is not known to fit, since data cannot be read.
    pub(super) lost: Ranges,
}

impl SyncJob {
    /// Notes where data cannot be read. `Err`: these are too many places.
    pub(super) fn add_lost(&mut self, places: &[Range]) -> Result<(), Stop> {
        places.iter().for_each(|place| self.lost.add(*place));
        match self.partial() {
            Some(partial) if self.lost.len() > LOST_MAX => Err(partial),
            _ => Ok(()),
        }
    }

    /// Reports what of `range` is resynced: all but what is lost.
    pub(super) fn mark_synced(&self, array: &RedundantArray, range: Range) {
        for range in self.lost.outside(range) {
            array.synced(range);
        }
    }

    /// Why not all of it could be done, if so.
    pub(super) fn partial(&self) -> Option<Stop> {
        let first = self.lost.first()?;
        let what = match self.lost.len() {
            1 => "it cannot be read".to_owned(),
            count => format!("it is the first of {count} places that cannot be read"),
        };
        let error = IoError::new(Errno::Io, Operation::Read, Some(first));
        Some(Stop::Partial(error.because(what)))
    }
}
