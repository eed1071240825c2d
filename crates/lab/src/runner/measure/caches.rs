//! The caches around a measurement: dropped before it, looked into before and after it.

use super::ToolExecutor;
use crate::checks::cache::{Dropped, Server};
use crate::checks::direct::Residency;
use crate::host::residency;
use crate::plan::{Direction, Workload};
use crate::runner::prepare::ReadyTarget;

/// What was seen of the caches around it.
pub(super) struct Caches {
    pub(super) dropped: Option<Dropped>,
    pub(super) before: Option<Residency>,
}

impl ToolExecutor<'_> {
    /// Both before a read and before a write: dirty pages of the one before would be flushed at the
    /// cost of this one. Nothing of a small run.
    pub(super) fn drop_caches(&self, workload: &Workload, target: &ReadyTarget) -> Caches {
        let reads = workload.direction() != Some(Direction::Write);
        let everywhere = target.facts.server == Server::Here;
        let none = Caches {
            dropped: None,
            before: None,
        };
        let file = target.ground.file().filter(|_| !self.request.small);
        let Some(file) = file else {
            return none;
        };
        let dropped = residency::drop_caches(file, self.prepared.size, everywhere, &mut |_| {
            !self.cancel.is_cancelled()
        });
        // Nothing is looked for on a disk that was abandoned.
        if !reads || self.cancel.is_cancelled() {
            return none;
        }
        Caches {
            dropped: Some(dropped),
            before: self.look(workload, target),
        }
    }

    /// What is in memory of the test file, where that can be seen and is of any use.
    pub(super) fn look(&self, workload: &Workload, target: &ReadyTarget) -> Option<Residency> {
        let looks = target.shows_cache && workload.fio().is_some();
        let file = target.ground.file().filter(|_| looks)?;
        residency::look(file, self.prepared.size)
    }
}
