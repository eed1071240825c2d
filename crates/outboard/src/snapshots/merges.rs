//! Merges of snapshots into origins that are served: made in the background, also those that were begun elsewhere.
//!
//! # Invariants
//!
//! * One merge at a time, and only of an origin that is open; one that was cut off goes on when its origin is opened again.
//! * The snapshot is removed from the metadata once all of it is in the origin.
//! * A merge that fails is reported once, and goes on at the next start.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use engine::clock;
use nodes::volume::open::VolumeSet;
use nodes::volume::snapshot::SnapshotState;

use super::Snapshots;
use crate::arrays::hook::HookEvent;
use crate::stamp::stamp;

/// Time between two looks for a merge. They read memory only.
const INTERVAL: Duration = Duration::from_millis(500);

/// What is to be merged.
#[derive(Debug)]
struct PendingMerge {
    set: Arc<VolumeSet>,
    origin: String,
    snapshot: String,
}

/// Merges until the snapshots are dropped. Call on the engine.
pub(super) fn start(snapshots: &Arc<Snapshots>) {
    drop(engine::spawn(merge_all(Arc::downgrade(snapshots))));
}

async fn merge_all(snapshots: Weak<Snapshots>) {
    let mut failed = HashSet::new();
    while let Some(snapshots) = snapshots.upgrade() {
        if let Some(pending) = snapshots.next_merge(&failed) {
            let name = pending.name();
            let merged = snapshots.merge(&pending).await;
            if let Err(why) = &merged {
                failed.insert(name.clone());
                tracing::error!(
                    "merge of {name}: {why}; it goes on when the server is started again"
                );
            }
            if let (Some(hook), Some(event)) = (&snapshots.hook, event(&pending, &merged)) {
                hook.send(event);
            }
        }
        drop(snapshots);
        clock::sleep(INTERVAL).await;
    }
}

impl PendingMerge {
    fn name(&self) -> String {
        format!("{}/{}", self.set.group().group.name, self.snapshot)
    }
}

impl Snapshots {
    fn next_merge(&self, failed: &HashSet<String>) -> Option<PendingMerge> {
        let sets = self.sets().into_iter();
        let mut pending = sets.filter(|set| set.is_writable()).flat_map(|set| {
            let snapshots = set.open_snapshots().into_iter();
            let merging = snapshots.filter(|(_, status)| status.state == SnapshotState::Merging);
            let pending = merging.map(move |(owner, _)| PendingMerge {
                set: set.clone(),
                origin: owner.origin,
                snapshot: owner.name,
            });
            pending.collect::<Vec<_>>()
        });
        pending.find(|one| one.set.is_open(&one.origin) && !failed.contains(&one.name()))
    }

    /// Merges to the end, whether it came to that.
    async fn merge(&self, pending: &PendingMerge) -> Result<bool, String> {
        let PendingMerge { set, origin, .. } = pending;
        let _turn = self.merging.lock().await;
        tracing::info!("merging {} into {origin}", pending.name());
        let goes_on = |_left| !self.is_stopping() && set.is_open(origin);
        let left = set.merge(origin, goes_on).await;
        let left = left.map_err(|error| error.to_string())?;
        if left > 0 || !goes_on(0) {
            return Ok(false);
        }
        let finished = set.finish_merge(origin, &stamp()).await;
        let report = finished.map_err(|error| error.to_string())?;
        for failed in report.failed {
            let (disk, why) = (failed.name, failed.source);
            tracing::error!("{disk} did not take the metadata: {why}; outboard volume repair");
        }
        tracing::info!("{} is merged into {origin}, and removed", pending.name());
        Ok(true)
    }

    /// Interrupts a merge, and begins none any more.
    pub(crate) async fn stop_merges(&self) {
        self.stop();
        drop(self.merging.lock().await);
    }
}

/// The event for the program of the user's; none where it was interrupted.
fn event(pending: &PendingMerge, merged: &Result<bool, String>) -> Option<HookEvent> {
    let (event, text) = match merged {
        Ok(true) => (
            "SnapshotMerged",
            format!("it is merged into {}", pending.origin),
        ),
        Ok(false) => return None,
        Err(why) => ("SnapshotMergeFailed", why.clone()),
    };
    let group = &pending.set.group().group.name;
    Some(HookEvent {
        event,
        array: pending.name(),
        member: None,
        more: vec![
            ("OUTBOARD_ORIGIN", format!("{group}/{}", pending.origin)),
            ("OUTBOARD_TEXT", text),
        ],
    })
}
