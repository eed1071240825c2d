//! [`Snapshots`]: the classic snapshots of the volumes that this process serves: how full their stores are, and what happens
//! to them.
//!
//! ```text
//! groups of the exports ─► reports ─┬─► control socket, status, metrics
//!                                   └─► events: log, the program of `on_event`   (watch)
//! groups of the exports ─► merges that are to be made, in the background         (merges)
//! ```
//!
//! # Invariants
//!
//! * Nothing here is on the way of a request, and nothing but merges reads or writes a disk.

mod merges;
pub(crate) mod report;
#[cfg(test)]
mod tests;
mod watch;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nodes::volume::open::VolumeSet;

use self::report::SnapshotReport;
use crate::arrays::hook::Hook;
use crate::graph::builder::OpenGroups;

/// The snapshots of the volumes that are served.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    groups: Mutex<Vec<OpenGroups>>,
    hook: Option<Hook>,
    /// Held while a snapshot is being merged.
    merging: tokio::sync::Mutex<()>,
    is_stopping: AtomicBool,
}

impl Snapshots {
    /// None yet. `hook` gets the events of those that are added.
    pub(crate) fn watched(hook: Option<Hook>) -> Arc<Self> {
        let snapshots = Arc::new(Self {
            hook,
            ..Self::default()
        });
        watch::start(&snapshots);
        merges::start(&snapshots);
        snapshots
    }

    /// Adds the groups of an export.
    pub(crate) fn add(&self, groups: &OpenGroups) {
        let mut known = self.groups();
        if !known.iter().any(|one| one.is_same(groups)) {
            known.push(groups.clone());
        }
    }

    /// What runs the program of the user's.
    pub(crate) fn hook(&self) -> Option<Hook> {
        self.hook.clone()
    }

    /// No merge goes on from here.
    fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// The groups that are open.
    pub(crate) fn sets(&self) -> Vec<Arc<VolumeSet>> {
        let groups = self.groups().clone();
        groups.iter().flat_map(OpenGroups::sets).collect()
    }

    /// Reports of all snapshots of origins that are open.
    pub(crate) fn reports(&self) -> Vec<SnapshotReport> {
        let mut reports: Vec<SnapshotReport> = Vec::new();
        for set in self.sets() {
            let assembled = set.group();
            let group = &assembled.group;
            for (owner, status) in set.open_snapshots() {
                let is_known =
                    |one: &SnapshotReport| one.group == group.name && one.name == owner.name;
                if !reports.iter().any(is_known) {
                    reports.push(SnapshotReport::of(group, &owner, &Ok(status)));
                }
            }
        }
        reports
    }

    fn groups(&self) -> MutexGuard<'_, Vec<OpenGroups>> {
        // The list is right at every moment.
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
