//! Changes of the snapshots of volumes that are served.
//!
//! # Invariants
//!
//! * A group is named by its id, and a change by the metadata that it is based on.
//! * One change at a time, and none during a reload.
//! * The extents of a store that grows are claimed as those of an export are.

use std::sync::Arc;

use nodes::volume::open::VolumeSet;
use nodes::volume::update::CommitReport;

use super::live::{ActiveConfig, Live};
use crate::control::{ControlAnswer, ServedGroup, SnapshotChanged, SnapshotRequest, SnapshotStep};

impl Live {
    /// The groups of which volumes are open for writing.
    pub(super) fn volume_groups(&self) -> Vec<ServedGroup> {
        let sets = self.snapshots.sets().into_iter();
        let writable = sets.filter(|set| set.is_writable());
        writable.map(|set| served_group(&set)).collect()
    }

    /// The group with this id, of which volumes are open for writing.
    pub(super) fn volume_group(&self, id: &str) -> Result<Arc<VolumeSet>, String> {
        let mut sets = self.snapshots.sets();
        sets.retain(|set| set.is_writable() && set.group().group.id == *id);
        match (sets.pop(), sets.is_empty()) {
            (Some(only), true) => Ok(only),
            (None, _) => Err("no volume of this group is served for writing now".to_owned()),
            (Some(_), false) => Err(
                "volumes of this group are served over disks that are written in several ways: \
                 write them in one, and restart the server"
                    .to_owned(),
            ),
        }
    }

    /// Applies a requested change.
    pub(super) async fn snapshot(&self, request: SnapshotRequest) -> Result<ControlAnswer, String> {
        let mut running = self.running.lock().await;
        let set = &self.volume_group(&request.group)?;
        let name = set.group().group.name.clone();
        let step = &request.step;
        tracing::info!("snapshots of {name}: {step} requested");
        let report = match step {
            SnapshotStep::Merge { name } => {
                let begun = self.begin_merge(&mut running, set, name, &request);
                Box::pin(begun).await?
            }
            _ => change(set, &request).await?,
        };
        if let Some(store) = step.grows() {
            claim(&mut running, set, store);
        }
        for failed in &report.failed {
            let (disk, why) = (&failed.name, &failed.source);
            tracing::error!(
                "{disk} did not take the metadata of {name}: {why}; outboard volume repair"
            );
        }
        let failed = report.failed.iter();
        let failed = failed.map(|failed| (failed.name.clone(), failed.source.to_string()));
        Ok(ControlAnswer::Snapshot(Box::new(SnapshotChanged {
            text: set.group().group.text.print(),
            failed: failed.collect(),
        })))
    }
}

/// Applies the change to the group, and to what of it is open.
pub(super) async fn change(
    set: &VolumeSet,
    request: &SnapshotRequest,
) -> Result<CommitReport, String> {
    let (change, stamp) = (request.change(), request.stamp());
    let changed = set.change_snapshots(request.sequence, &change, &stamp);
    Box::pin(changed).await.map_err(|error| error.to_string())
}

fn served_group(set: &VolumeSet) -> ServedGroup {
    let assembled = set.group();
    let group = &assembled.group;
    let disks = group.members.iter().enumerate();
    let disks = disks.filter_map(|(index, member)| {
        let disk = assembled.disk_of(index)?;
        Some((member.name.clone(), assembled.names[disk].clone()))
    });
    ServedGroup {
        name: group.name.clone(),
        id: group.id.clone(),
        text: group.text.print(),
        disks: disks.collect(),
    }
}

/// The store's bytes of files are taken, as long as an export of its group is open.
fn claim(running: &mut ActiveConfig, set: &Arc<VolumeSet>, store: &str) {
    let uses = set.store_uses(store).unwrap_or_default();
    let claimed = running.open.iter_mut().any(|open| open.claim(set, &uses));
    if !claimed {
        tracing::warn!("the bytes of {store} are not claimed: no export has its group");
    }
}
