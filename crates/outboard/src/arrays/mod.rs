//! [`Arrays`]: the md arrays of this process: which there are, what happens to them, and their end.
//!
//! ```text
//! export "media" ─► Arc<Array> ─┬─► reports   control socket, status, metrics   (report, show)
//!                               ├─► events    log, a program of the user's      (watch, hook)
//!                               └─► stop      when the export ends, or the process
//! ```
//!
//! # Invariants
//!
//! * An array is stopped after the disk that stands on it was flushed, never before.
//! * Nothing here is on the way of a request.
//!
//! # What it does not do
//!
//! It opens no array: those of an export are opened with its disk.

pub(crate) mod attached_arrays;
pub(crate) mod backup_file;
pub(crate) mod change;
pub(crate) mod hook;
pub(crate) mod loss_report;
pub(crate) mod member_checks;
pub(crate) mod report;
pub(crate) mod show;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod untrusted_report;
mod watch;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::clock;
use nodes::array::Array;

use crate::failure::Failure;

use self::hook::Hook;
use self::report::ArrayReport;

/// Timeout for marking the members of one array clean.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// An array and the export that is backed by it.
#[derive(Debug, Clone)]
struct ExportArray {
    export: String,
    array: Arc<Array>,
}

/// The arrays of a process.
#[derive(Debug, Default)]
pub(crate) struct Arrays {
    served: Mutex<Vec<ExportArray>>,
    hook: Option<Hook>,
}

impl Arrays {
    /// No arrays yet; `hook` gets the events of those that are added.
    pub(crate) fn new(hook: Option<Hook>) -> Self {
        Self {
            served: Mutex::default(),
            hook,
        }
    }

    /// Adds the arrays of an export and starts to watch them. Call on the engine.
    pub(crate) fn add(&self, export: &str, arrays: Vec<Arc<Array>>) {
        for array in arrays {
            watch::start(export, &array, self.hook.clone());
            let export = export.to_owned();
            self.served().push(ExportArray { export, array });
        }
    }

    /// Reports of all arrays.
    pub(crate) fn reports(&self) -> Vec<ArrayReport> {
        // The lock is released before the arrays are queried.
        let served = self.served().clone();
        let report = |one: &ExportArray| ArrayReport::of(Some(&one.export), &one.array.status());
        served.iter().map(report).collect()
    }

    /// The array of this UUID (as [`report::uuid`] writes it) of this export.
    pub(crate) fn find(&self, export: &str, uuid: &str) -> Option<Arc<Array>> {
        let served = self.served();
        let mut of_export = served.iter().filter(|one| one.export == export);
        let found = of_export.find(|one| report::uuid(&one.array.status().uuid) == uuid)?;
        Some(found.array.clone())
    }

    /// Removes the arrays of an export without stopping them: its disk stays in use.
    pub(crate) fn forget(&self, export: &str) {
        self.served().retain(|one| one.export != export);
    }

    /// Marks the arrays of an export clean and removes them, after its disk was flushed. Returns the failures. Those for which
    /// there is an `heir`, another export that keeps them open, are that one's from here on.
    pub(crate) async fn stop(
        &self,
        export: &str,
        heir: impl Fn(&Arc<Array>) -> Option<String>,
    ) -> Vec<String> {
        let leaving = {
            let mut served = self.served();
            for one in served.iter_mut().filter(|one| one.export == export) {
                if let Some(heir) = heir(&one.array) {
                    one.export = heir;
                }
            }
            let heirless = |one: &ExportArray| one.export == export && heir(&one.array).is_none();
            let (leaving, staying) = served.drain(..).partition(heirless);
            *served = staying;
            leaving
        };
        stop(leaving).await
    }

    /// Stops all arrays at shutdown, then waits for the queued events.
    pub(crate) async fn stop_all(&self) -> Vec<String> {
        let all = std::mem::take(&mut *self.served());
        let problems = stop(all).await;
        if let Some(hook) = &self.hook {
            hook.finish().await;
        }
        problems
    }

    fn served(&self) -> MutexGuard<'_, Vec<ExportArray>> {
        // A list of names and pointers is right at every moment.
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stops arrays one by one, last opened first: an array of arrays writes its members until it is stopped. Returns
/// the failures.
async fn stop(arrays: Vec<ExportArray>) -> Vec<String> {
    let mut problems = Vec::new();
    for ExportArray { array, .. } in arrays.into_iter().rev() {
        if let Err(why) = stop_one(&array).await {
            tracing::error!("{why}");
            problems.push(why);
        }
    }
    problems
}

/// Ends a command that opened arrays for itself: they are stopped, and the command fails if one of them could not be marked clean.
/// What failed before has precedence.
///
/// # Errors
/// That of the command, or that of the first array.
pub(crate) async fn finish<T>(
    result: Result<T, Failure>,
    arrays: &[Arc<Array>],
) -> Result<T, Failure> {
    crate::caches::close_all().await;
    let stopped = stop_opened(arrays).await;
    crate::caches::close_all().await;
    crate::buckets::close_all().await;
    match (result, stopped) {
        (Ok(done), Ok(())) => Ok(done),
        (Ok(_), Err(why)) => Err(Failure::new(why)),
        (Err(failure), Ok(())) => Err(failure),
        (Err(failure), Err(why)) => {
            tracing::error!("{why}");
            Err(failure)
        }
    }
}

/// Stops the arrays that a command opened for itself, the one that was opened last first.
///
/// # Errors
/// The first array that could not be marked clean; the others are stopped all the same.
pub(crate) async fn stop_opened(arrays: &[Arc<Array>]) -> Result<(), String> {
    let mut stopped = Ok(());
    for array in arrays.iter().rev() {
        stopped = stopped.and(stop_one(array).await);
    }
    stopped
}

/// Marks an array clean and ends its background work. On failure the array is resynced at its next start; the
/// error says so.
pub(crate) async fn stop_one(array: &Array) -> Result<(), String> {
    let name = report::short_name(&array.status().name).to_owned();
    let why = match clock::timeout(STOP_TIMEOUT, array.stop()).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!(
            "a member did not answer within {} s",
            STOP_TIMEOUT.as_secs()
        ),
    };
    Err(format!(
        "the array {name} could not be marked clean: {why}; what was written is there, and it is resynced at the \
         next start"
    ))
}
