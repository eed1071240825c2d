//! The beginning of a merge into the origin of a snapshot that is served.
//!
//! ```text
//! no client on the exports of the origin ─► these end ─► the metadata: merging ─► they are opened again: the origin reads
//!                                                                                 as the snapshot
//! ```
//!
//! # Invariants
//!
//! * A client never sees its disk become another one: with a client connected a merge is refused.
//! * A writer that was disconnected before, and returns with what it has not flushed, is refused.
//! * Also where no merge begins, the exports are opened again.
//! * A cache above the origin is closed with its export, and dropped before the metadata is changed: what it holds is the
//!   content of before the merge, and a sample of blocks need not show that.
//!
//! # What it does not do
//!
//! It copies nothing: that goes on in the background (`crate::snapshots`).

use std::sync::Arc;

use nodes::array::Array;
use nodes::volume::open::VolumeSet;
use nodes::volume::update::CommitReport;

use super::live::{ActiveConfig, Live, offer};
use super::open_export::{OpenExport, Opening};
use super::snapshots::change;
use crate::caches;
use crate::config::ExportPlan;
use crate::control::{Reloaded, SnapshotRequest};
use crate::failure::Failure;
use crate::graph::builder::OpenedVolume;

/// Which name refused writers read.
const BY: &str = "outboard volume snapshot merge";

impl Live {
    /// Begins the merge that is requested, of the snapshot `name`.
    pub(super) async fn begin_merge(
        &self,
        running: &mut ActiveConfig,
        set: &Arc<VolumeSet>,
        name: &str,
        request: &SnapshotRequest,
    ) -> Result<CommitReport, String> {
        let exports = origin_exports(running, set, name);
        self.refuse_clients(&exports, name)?;
        let mut done = Reloaded::default();
        let files = exports.iter();
        let files = files.flat_map(|export| export.disk.disk.cache_files_over_volumes());
        let above = caches::open_at(&files.collect());
        for export in &exports {
            // The group stays open, and its arrays with it.
            let heir = |array: &Arc<Array>| set.has_array(array).then(|| export.name.clone());
            let ending = self.control.remove(&export.name);
            self.end_with_heirs((&export.name, heir), running, ending, &mut done)
                .await;
        }
        // Before the metadata: a power cut between the two must not leave a cache of another content.
        let dropped = caches::discard(&above, "a snapshot is merged into its disk").await;
        drop(above);
        let changed = match dropped {
            Ok(()) => change(set, request).await,
            Err(why) => Err(why),
        };
        for export in &exports {
            let reopened = Box::pin(self.reopen(running, export, changed.is_ok())).await;
            if let Err(why) = reopened {
                let why = format!("export {:?} is not served: {why}", export.name);
                tracing::error!("{why}");
                done.warnings.push(why);
                // The next reload tries again.
                running.plan.exports.retain(|one| one.name != export.name);
            }
        }
        let names = running.plan.exports.iter().map(|e| e.name.clone());
        self.control.arrange(&names.collect::<Vec<_>>());
        match (changed, done.warnings.is_empty()) {
            (Ok(report), true) => Ok(report),
            (Ok(_), false) => Err(done.warnings.join("; ")),
            (Err(error), _) => {
                done.warnings.insert(0, error);
                Err(done.warnings.join("; "))
            }
        }
    }

    fn refuse_clients(&self, exports: &[ExportPlan], snapshot: &str) -> Result<(), String> {
        for export in exports {
            let name = &export.name;
            let clients = self.control.clients(name).unwrap_or(0);
            if clients > 0 {
                let what = if clients == 1 {
                    "connection"
                } else {
                    "connections"
                };
                return Err(format!(
                    "export {name:?} has {clients} {what}: a merge of {snapshot} changes what they read; end them, and what \
                     is mounted there, first: outboard detach there, or outboard client disconnect here"
                ));
            }
        }
        Ok(())
    }

    /// Opens an export again, and serves it; `is_changed`: its content is not what its clients have left.
    async fn reopen(
        &self,
        running: &mut ActiveConfig,
        export: &ExportPlan,
        is_changed: bool,
    ) -> Result<(), String> {
        let leaving = [export.name.clone()];
        let mut opening = Opening::with_claims_of(&running.open, &leaving);
        let at = running
            .open
            .iter()
            .position(|open| open.name == export.name);
        let before = at.map(|at| running.open.remove(at));
        let opened = Box::pin(opening.open(export)).await;
        opened.map_err(|error| Failure::from(error).text())?;
        let mut opened = opening.done();
        if let (Some(one), Some(before)) = (opened.first_mut(), &before) {
            one.keep_claims(before);
        }
        self.watch(&mut opened);
        let disk = opened.first_mut().and_then(OpenExport::take);
        running.open.append(&mut opened);
        let Some(disk) = disk else {
            return Err("it has no disk".to_owned());
        };
        let (served, rules) = offer(export, disk);
        let added = match is_changed {
            true => self.control.add_changed(served, rules, BY).await,
            false => self.control.add(served, rules),
        };
        added.map_err(|error| error.to_string())
    }
}

/// The exports that the origin of the snapshot `name` is in.
fn origin_exports(running: &ActiveConfig, set: &VolumeSet, name: &str) -> Vec<ExportPlan> {
    let group = set.group();
    let Some(relation) = group.group.snapshot_with_store(name) else {
        return Vec::new();
    };
    let origin = OpenedVolume {
        group: group.group.id.clone(),
        name: relation.origin.to_owned(),
    };
    let has_it = |export: &&ExportPlan| {
        let mut open = running.open.iter();
        open.any(|open| open.name == export.name && open.has(&origin))
    };
    running
        .plan
        .exports
        .iter()
        .filter(has_it)
        .cloned()
        .collect()
}
