//! Two plans -> the changes that lead from the first to the second.

use super::{ExportPlan, ServerPlan};

/// The changes from one plan to another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Changes {
    /// Exports that end.
    pub(crate) remove: Vec<String>,
    /// Exports that get another disk; their clients are disconnected.
    pub(crate) replace: Vec<ExportPlan>,
    /// Exports whose new clients get overlays over another image, or with other options; connected clients keep their
    /// overlays.
    pub(crate) renew: Vec<ExportPlan>,
    /// Exports with other rules or another description. Clients that the new rules admit stay connected.
    pub(crate) update: Vec<ExportPlan>,
    /// New exports.
    pub(crate) add: Vec<ExportPlan>,
    /// The names in the new order, where that or their number changed.
    pub(crate) order: Option<Vec<String>>,
    /// Keys whose change takes effect at the next start.
    pub(crate) later: Vec<&'static str>,
}

/// What leads from `old` to `new`.
pub(crate) fn changes(old: &ServerPlan, new: &ServerPlan) -> Changes {
    let find = |plan: &ServerPlan, name: &str| plan.exports.iter().position(|e| e.name == name);
    let mut changes = Changes {
        later: later(old, new),
        ..Changes::default()
    };
    let gone = old.exports.iter().filter(|e| find(new, &e.name).is_none());
    changes.remove = gone.map(|export| export.name.clone()).collect();
    for export in &new.exports {
        match find(old, &export.name).map(|at| &old.exports[at]) {
            None => changes.add.push(export.clone()),
            Some(before) if has_other_disk(before, export) => {
                if before.overlay.is_some() && export.overlay.is_some() {
                    changes.renew.push(export.clone());
                } else {
                    changes.replace.push(export.clone());
                }
            }
            Some(before) if before != export => changes.update.push(export.clone()),
            Some(_) => {}
        }
    }
    let names = |plan: &ServerPlan| -> Vec<String> {
        plan.exports.iter().map(|e| e.name.clone()).collect()
    };
    changes.order = Some(names(new)).filter(|order| *order != names(old));
    changes
}

fn has_other_disk(before: &ExportPlan, after: &ExportPlan) -> bool {
    before.disk.disk != after.disk.disk
        || before.read_only != after.read_only
        || before.overlay != after.overlay
        || before.is_standby != after.is_standby
}

fn later(old: &ServerPlan, new: &ServerPlan) -> Vec<&'static str> {
    let differ = [
        ("listen", old.listen != new.listen),
        ("insecure", old.insecure != new.insecure),
        ("limits", old.limits != new.limits),
        ("tls", old.tls != new.tls),
        ("control", old.control != new.control),
        ("metrics", old.metrics != new.metrics),
        ("http", old.http != new.http),
        ("user", old.user != new.user),
        ("on_event", old.on_event != new.on_event),
        ("store_prices", old.store_prices != new.store_prices),
    ];
    let differ = differ.into_iter().filter(|(_, differs)| *differs);
    differ.map(|(key, _)| key).collect()
}
