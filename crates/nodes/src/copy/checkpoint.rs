//! [`checkpoints`]: learns again and again up to where a copy is durable at its target.
//!
//! # Invariants
//!
//! * A position is recorded after a flush that began when all below it was written. So it holds after a loss of power, too.
//! * Flushes and records take at most one part in [`PAUSE_FACTOR`] of the time.
//!
//! # What it does not do
//!
//! It does not decide where the position is kept, and does not end by itself.

use std::time::Duration;

use block::Node;
use engine::clock;

use super::{CopyError, CopyProgress};

/// The pause after a checkpoint is so many times as long as the checkpoint took, at least.
const PAUSE_FACTOR: u32 = 10;

/// Makes checkpoints of the copy to `target` with this progress, with a pause of `interval` or more before each, until it is
/// dropped. `pause` waits; `record` keeps the position up to which all is durable.
///
/// # Errors
/// Returns only when a flush or `record` fails, with that error.
pub async fn checkpoints(
    target: &Node,
    progress: &CopyProgress,
    interval: Duration,
    mut pause: impl AsyncFnMut(Duration),
    mut record: impl AsyncFnMut(u64) -> Result<(), CopyError>,
) -> CopyError {
    let mut recorded = progress.position();
    let mut wait = interval;
    loop {
        pause(wait).await;
        let start = clock::now();
        let position = progress.position();
        if position <= recorded {
            continue;
        }
        if let Err(error) = target.flush().await {
            return CopyError::Target(error);
        }
        if let Err(error) = record(position).await {
            return error;
        }
        recorded = position;
        let took = clock::now().saturating_duration_since(start);
        wait = interval.max(took * PAUSE_FACTOR);
    }
}
