//! [`SurroundingsQuery`]: what is attached on this machine, and what the lab found, queried now and then.
//!
//! # Invariants
//!
//! * One query at a time, on a thread of the blocking pool, and at most one in [`QUERY_EVERY`]: attachments are queried at
//!   their processes, which may not answer.
//! * The lab's store is read only after its file has changed.
//!
//! # What it does not do
//!
//! It makes no store, and reports no error but to the log: the page shows what there is.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use attach::AttachmentStatus;
use lab::report::{PlaceVerdict, place_verdicts};
use tokio::task::JoinHandle;

use super::status::AttachmentLine;
use super::verdicts;

/// Time between two queries.
const QUERY_EVERY: Duration = Duration::from_secs(5);
/// Runs of the lab that are looked at, the latest ones.
const RUNS_MAX: u32 = 50;

/// What the last query found.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) attachments: Vec<AttachmentLine>,
    pub(super) verdicts: Arc<Vec<PlaceVerdict>>,
}

/// Queries, and keeps the answers.
#[derive(Debug, Default)]
pub(super) struct SurroundingsQuery {
    known: Arc<Mutex<QueryState>>,
    running: Mutex<Option<(Instant, JoinHandle<()>)>>,
}

#[derive(Debug, Default)]
struct QueryState {
    known: Known,
    /// When the store was changed, at the time at which it was read.
    store: Option<SystemTime>,
}

impl SurroundingsQuery {
    /// What the last query found; starts another one if that was long ago.
    pub(super) fn known(&self, now: Instant) -> Known {
        let mut running = locked(&self.running);
        let is_due = running.as_ref().is_none_or(|(at, query)| {
            query.is_finished() && now.saturating_duration_since(*at) >= QUERY_EVERY
        });
        if is_due {
            let state = self.known.clone();
            let query = tokio::task::spawn_blocking(move || refresh(&state));
            *running = Some((now, query));
        }
        locked(&self.known).known.clone()
    }
}

/// What is locked is right at every moment.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refresh(state: &Mutex<QueryState>) {
    if let Some((changed, verdicts)) = lab_verdicts(locked(state).store) {
        let mut state = locked(state);
        state.store = Some(changed);
        state.known.verdicts = Arc::new(verdicts);
    }
    let found = attach::status().unwrap_or_else(|error| {
        tracing::debug!("live page: attachments: {error}");
        Vec::new()
    });
    let verdicts = locked(state).known.verdicts.clone();
    let line = |attachment| {
        let line = line(attachment);
        let verdict = verdicts::of_attachment(&line, &verdicts);
        AttachmentLine { verdict, ..line }
    };
    let lines = found.iter().map(line).collect();
    locked(state).known.attachments = lines;
}

/// The verdicts in the user's store, if that was changed since `read`.
fn lab_verdicts(read: Option<SystemTime>) -> Option<(SystemTime, Vec<PlaceVerdict>)> {
    let path = lab::store::default_path().ok()?;
    let changed = std::fs::metadata(&path).ok()?.modified().ok()?;
    if read == Some(changed) {
        return None;
    }
    match read_verdicts(&path) {
        Ok(verdicts) => Some((changed, verdicts)),
        Err(error) => {
            // What is known stays: the store may be in use.
            tracing::debug!("live page: {error}");
            None
        }
    }
}

fn read_verdicts(path: &Path) -> Result<Vec<PlaceVerdict>, lab::LabError> {
    let store = lab::Store::peek(path)?;
    place_verdicts(&store, RUNS_MAX)
}

fn line(attachment: &AttachmentStatus) -> AttachmentLine {
    let mount = attachment.mount.as_ref();
    AttachmentLine {
        device: attachment.device.clone(),
        mounted_on: mount.map(|place| place.dir.clone()),
        size: attachment.size,
        via: attachment.via.to_string(),
        disk: attachment.source.clone(),
        read_only: attachment.read_only,
        state: attachment.health.to_string(),
        verdict: None,
    }
}
