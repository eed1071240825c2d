//! Moves of extents of volumes that this process serves: how far they are, and what became of them.
//!
//! ```text
//! groups of the exports ─► reports ─► control socket, status, metrics
//! a move that ends ─► log, the program of `on_event`
//! ```

pub(crate) mod report;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use nodes::volume::open::{LiveMove, VolumeSet};

use self::report::{MoveProgress, MoveReport};
use crate::arrays::hook::{Hook, HookEvent};
use crate::snapshots::Snapshots;

impl Snapshots {
    /// Reports of the last move of each group that had one.
    pub(crate) fn moves(&self) -> Vec<MoveReport> {
        let sets = self.sets();
        let reports = sets.iter().filter_map(|set| {
            let last = set.last_move()?;
            Some(MoveReport::of(&set.group().group.name, &last))
        });
        reports.collect()
    }

    /// Interrupts the moves that are running.
    pub(crate) async fn stop_moves(&self) {
        for set in self.sets() {
            set.stop_move().await;
        }
    }
}

/// Runs a move to its end, and reports that.
pub(crate) async fn run(set: Arc<VolumeSet>, live: Arc<LiveMove>, hook: Option<Hook>) {
    set.run_move(&live).await;
    let report = MoveReport::of(&set.group().group.name, &live);
    let (group, text) = (&report.group, report.progress());
    match report.state {
        MoveProgress::Failed => tracing::error!("move of {group}: {text}"),
        _ => tracing::info!("move of {group}: {text}"),
    }
    if let (Some(hook), Some(event)) = (hook, hook_event(&report)) {
        hook.send(event);
    }
}

/// The event for the program of the user's. The end of the server is none.
fn hook_event(report: &MoveReport) -> Option<HookEvent> {
    let event = match report.state {
        MoveProgress::Running | MoveProgress::Stopped => return None,
        MoveProgress::Done => "VolumeMoveFinished",
        MoveProgress::Aborted => "VolumeMoveAborted",
        MoveProgress::Failed => "VolumeMoveFailed",
    };
    Some(HookEvent {
        event,
        array: report.group.clone(),
        member: Some(report.from.clone()),
        more: vec![("OUTBOARD_TEXT", report.progress())],
    })
}
