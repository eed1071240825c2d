//! Moves of extents of volumes that are served.
//!
//! # Invariants
//!
//! * The new places are claimed as the bytes of an export are, before anything is copied there.
//! * A move outlives the request that began it; it ends with the server, which leaves it to be resumed.

use std::sync::Arc;

use nodes::volume::open::VolumeSet;

use super::live::{ActiveConfig, Live};
use crate::control::{ControlAnswer, MoveChanged, MoveExtents, MoveStep};
use crate::volume_moves::report::MoveReport;
use crate::volume_moves::run;

impl Live {
    /// Begins, resumes or ends a move.
    pub(super) async fn move_extents(&self, request: MoveExtents) -> Result<ControlAnswer, String> {
        let set = self.volume_group(&request.group)?;
        let name = set.group().group.name.clone();
        if request.step == MoveStep::Abort {
            tracing::info!("move of {name}: to be ended, requested");
            let aborted = set.abort_move(&request.stamp()).await;
            aborted.map_err(|error| error.to_string())?;
            return Ok(changed(&set));
        }
        let mut running = self.running.lock().await;
        let wanted = request.request();
        let begun = set.begin_move(request.sequence, wanted.as_ref(), request.options());
        let live = Box::pin(begun).await.map_err(|error| error.to_string())?;
        claim(&mut running, &set);
        tracing::info!("{}", MoveReport::of(&name, &live).line());
        drop(engine::spawn(run(set.clone(), live, self.snapshots.hook())));
        Ok(changed(&set))
    }
}

fn changed(set: &Arc<VolumeSet>) -> ControlAnswer {
    let group = set.group();
    let last = set.last_move();
    ControlAnswer::MoveExtents(Box::new(MoveChanged {
        text: group.group.text.print(),
        report: last.map(|last| MoveReport::of(&group.group.name, &last)),
    }))
}

/// The new places are taken, as long as an export of the group is open.
fn claim(running: &mut ActiveConfig, set: &Arc<VolumeSet>) {
    let uses = set.move_uses();
    let claimed = running.open.iter_mut().any(|open| open.claim(set, &uses));
    if !claimed {
        tracing::warn!(
            "the bytes that extents are moved to are not claimed: no export has their group"
        );
    }
}
