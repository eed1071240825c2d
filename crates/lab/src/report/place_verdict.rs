//! [`PlaceVerdict`]: what the last run at a place found, in one line, for those that show the disk and not the run.
//!
//! # What it does not do
//!
//! It does not judge: the line is the headline of the run's report.

use super::sentences::headline;
use super::summary::Summary;
use crate::LabError;
use crate::host::TargetPlace;
use crate::store::{RunId, Status, Store};

/// Runs that are loaded at most: each costs what its report costs.
const RUNS_MAX: usize = 16;

/// The last verdict about a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceVerdict {
    /// Where a target of the run was.
    pub place: TargetPlace,
    /// The run.
    pub run: RunId,
    /// Its plan's name.
    pub plan: String,
    /// When it began, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The headline of its report.
    pub text: String,
}

/// The last verdict about each place of the latest `runs`, of at most 16 runs. Runs that have not ended have none.
///
/// # Errors
/// Those of [`Store::load`].
pub fn place_verdicts(store: &Store, runs: u32) -> Result<Vec<PlaceVerdict>, LabError> {
    let mut verdicts: Vec<PlaceVerdict> = Vec::new();
    let mut loaded = 0;
    for (run, mut places) in store.places(runs)? {
        places.retain(|place| verdicts.iter().all(|known| known.place != *place));
        if places.is_empty() || loaded == RUNS_MAX {
            continue;
        }
        loaded += 1;
        let record = store.load(run)?;
        if record.elapsed.is_none() || record.status == Status::Running {
            continue;
        }
        let text = headline(&record, &Summary::of(&record));
        verdicts.extend(places.into_iter().map(|place| PlaceVerdict {
            place,
            run,
            plan: record.plan.name.clone(),
            started_unix_ms: record.started_unix_ms,
            text: text.clone(),
        }));
    }
    Ok(verdicts)
}
