//! [`SyncState`]: the background work that is under way, was requested, and has ended. Pure.

use std::time::Duration;

use block::Range;

use super::super::{PLACES_MAX, Scrubbed, SyncKind, SyncStatus};
use super::job::Job;
use super::progress::Progress;

/// What is being done now.
#[derive(Debug)]
struct Running {
    kind: SyncKind,
    progress: Progress,
    mismatches: u64,
}

/// What is done in the background of one array.
#[derive(Debug, Default)]
pub(super) struct SyncState {
    running: Option<Running>,
    /// A scrub that was requested.
    pub(super) requested: Option<SyncKind>,
    scrubbed: Option<Scrubbed>,
    /// Nothing is begun any more.
    pub(super) stopped: bool,
    /// Partial parity logs that a reshape has dropped could not be made again: it is not tried before members change.
    pub(super) lacks_logs: bool,
    /// Jobs that ended badly and are not tried again before members change, and why.
    failed: Vec<(Job, String)>,
}

impl SyncState {
    /// `job` begins.
    pub(super) fn begin(&mut self, job: Job, now: Duration, done: u64, of: u64) {
        self.running = Some(Running {
            kind: job.kind(),
            progress: Progress::new(now, done, of),
            mismatches: 0,
        });
        if let Job::Scrub { repair } = job {
            self.scrubbed = Some(Scrubbed {
                repaired: repair,
                ..Scrubbed::default()
            });
        }
    }

    /// A window has ended.
    pub(super) fn advance(&mut self, now: Duration, worked: u64, done: u64) {
        if let Some(running) = &mut self.running {
            running.progress.advance(now, worked, done);
        }
    }

    /// Copies differed.
    pub(super) fn differed(&mut self, sectors: u64, places: &[Range]) {
        let (Some(running), Some(scrubbed)) = (&mut self.running, &mut self.scrubbed) else {
            return;
        };
        running.mismatches += sectors;
        scrubbed.mismatches += sectors;
        let room = PLACES_MAX - scrubbed.places.len();
        scrubbed.places.extend(places.iter().take(room));
    }

    /// A scrub wrote `bytes` again that members had noted as bad.
    pub(super) fn rewrote(&mut self, bytes: u64) {
        if let Some(scrubbed) = &mut self.scrubbed {
            scrubbed.rewritten += bytes;
        }
    }

    /// What was running has ended; the differences that it found. `well`: it came to its end.
    pub(super) fn end(&mut self, job: Job, well: bool) -> u64 {
        let running = self.running.take();
        if let (Job::Scrub { .. }, Some(scrubbed)) = (job, &mut self.scrubbed) {
            scrubbed.finished = well;
            scrubbed.places.sort_unstable();
            self.requested = None;
        }
        running.map_or(0, |running| running.mismatches)
    }

    /// `job` ended badly: it is left until members change.
    pub(super) fn record_failure(&mut self, job: Job, why: String) {
        self.failed.push((job, why));
    }

    /// Members changed: what ended badly is tried again.
    pub(super) fn try_again(&mut self) {
        self.lacks_logs = false;
        self.failed.clear();
    }

    /// `job` is tried again.
    pub(super) fn forget_failure(&mut self, job: Job) {
        self.failed.retain(|(other, _)| *other != job);
    }

    /// Whether it ended badly, as far as the same would be done again.
    pub(super) fn has_failed(&self, job: Job) -> bool {
        let same = |other: &Job| match (job, *other) {
            (Job::Recovery { part, .. }, Job::Recovery { part: other, .. })
            | (Job::Replacement { part, .. }, Job::Replacement { part: other, .. }) => {
                part == other
            }
            (job, other) => job == other,
        };
        self.failed.iter().any(|(other, _)| same(other))
    }

    /// Why `job` ended badly, if it did.
    pub(super) fn why_of(&self, job: Job) -> Option<String> {
        let mut failed = self.failed.iter();
        let found = failed.find(|(other, _)| *other == job);
        found.map(|(_, why)| why.clone())
    }

    /// Why something ended badly.
    pub(super) fn why(&self) -> Option<&str> {
        self.failed.first().map(|(_, why)| why.as_str())
    }

    /// Its status at `now`.
    pub(super) fn status(&self, now: Duration) -> (Option<SyncStatus>, Option<Scrubbed>) {
        let sync = self.running.as_ref().map(|running| SyncStatus {
            kind: running.kind,
            done: running.progress.done(),
            of: running.progress.of(),
            speed: running.progress.speed(now),
            left: running.progress.left(now),
            mismatches: running.mismatches,
        });
        (sync, self.scrubbed.clone())
    }
}
