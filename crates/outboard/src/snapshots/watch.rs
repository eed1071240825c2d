//! What happens to snapshots: into the log, and to the program of `on_event`.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use engine::clock;

use super::Snapshots;
use super::report::{SnapshotHealth, SnapshotReport};
use crate::arrays::hook::HookEvent;

/// Time between two looks. They read memory only.
const INTERVAL: Duration = Duration::from_secs(1);
/// A store that is as full as this is reported, in tenths of a percent.
const NEARLY_FULL: u64 = 800;

/// How far the reports about a snapshot are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FillLevel {
    Room,
    NearlyFull,
    Invalid,
}

/// What happens to a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SnapshotEvent {
    /// Its store is 80 % full.
    NearlyFull,
    /// It is lost; its origin goes on.
    Invalid,
}

/// The levels that were reported, by group and name.
pub(super) type ReportedLevels = HashMap<(String, String), FillLevel>;

/// Watches until the snapshots are dropped. Call on the engine.
pub(super) fn start(snapshots: &Arc<Snapshots>) {
    drop(engine::spawn(watch(Arc::downgrade(snapshots))));
}

async fn watch(snapshots: Weak<Snapshots>) {
    let mut levels = ReportedLevels::new();
    while let Some(snapshots) = snapshots.upgrade() {
        for (event, report) in events(&mut levels, snapshots.reports()) {
            log(event, &report);
            if let Some(hook) = &snapshots.hook {
                hook.send(hook_event(event, &report));
            }
        }
        drop(snapshots);
        clock::sleep(INTERVAL).await;
    }
}

/// What has happened since the levels of the last look. A store that was extended may become nearly full again. Pure.
pub(super) fn events(
    levels: &mut ReportedLevels,
    reports: Vec<SnapshotReport>,
) -> Vec<(SnapshotEvent, SnapshotReport)> {
    let mut now = ReportedLevels::new();
    let mut found = Vec::new();
    for report in reports {
        let key = (report.group.clone(), report.name.clone());
        let level = level(&report);
        let before = levels.get(&key).copied().unwrap_or(FillLevel::Room);
        now.insert(key, level);
        let event = match level {
            FillLevel::Room => continue,
            FillLevel::NearlyFull => SnapshotEvent::NearlyFull,
            FillLevel::Invalid => SnapshotEvent::Invalid,
        };
        if level > before {
            found.push((event, report));
        }
    }
    *levels = now;
    found
}

fn level(report: &SnapshotReport) -> FillLevel {
    match (report.state, report.per_mille) {
        (SnapshotHealth::Invalid, _) => FillLevel::Invalid,
        (SnapshotHealth::Valid, Some(tenths)) if tenths >= NEARLY_FULL => FillLevel::NearlyFull,
        _ => FillLevel::Room,
    }
}

fn text(event: SnapshotEvent, report: &SnapshotReport) -> String {
    match event {
        SnapshotEvent::NearlyFull => format!(
            "its store is {} full, and it becomes invalid when that is full; outboard volume snapshot extend",
            report.full()
        ),
        SnapshotEvent::Invalid => format!("it is {}; {} goes on", report.health(), report.origin),
    }
}

fn log(event: SnapshotEvent, report: &SnapshotReport) {
    let (group, name, text) = (&report.group, &report.name, text(event, report));
    match event {
        SnapshotEvent::NearlyFull => tracing::warn!("snapshot {group}/{name}: {text}"),
        SnapshotEvent::Invalid => tracing::error!("snapshot {group}/{name}: {text}"),
    }
}

/// The event for the program of the user's.
pub(super) fn hook_event(event: SnapshotEvent, report: &SnapshotReport) -> HookEvent {
    let SnapshotReport {
        group,
        name,
        origin,
        ..
    } = report;
    HookEvent {
        event: match event {
            SnapshotEvent::NearlyFull => "SnapshotNearlyFull",
            SnapshotEvent::Invalid => "SnapshotInvalid",
        },
        array: format!("{group}/{name}"),
        member: None,
        more: vec![
            ("OUTBOARD_ORIGIN", format!("{group}/{origin}")),
            ("OUTBOARD_TEXT", text(event, report)),
        ],
    }
}
