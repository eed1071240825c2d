//! Snapshots in Prometheus' text format. Pure.

use super::text::{Metric, Text, escaped};
use crate::snapshots::report::{SnapshotHealth, SnapshotReport};

const METRICS: [Metric<SnapshotReport>; 4] = [
    (
        "outboard_snapshot_store_size_bytes",
        "gauge",
        "Size of the snapshot's store.",
        |one| one.store_size,
    ),
    (
        "outboard_snapshot_store_used_bytes",
        "gauge",
        "Bytes of the store that are used, its tables among them.",
        |one| one.used,
    ),
    (
        "outboard_snapshot_valid",
        "gauge",
        "Whether the snapshot reads as its origin was; not one that is invalid or being merged.",
        |one| u64::from(one.state == SnapshotHealth::Valid),
    ),
    (
        "outboard_snapshot_invalid",
        "gauge",
        "Whether the snapshot is lost, because its store was full or failed.",
        |one| u64::from(one.state == SnapshotHealth::Invalid),
    ),
];

/// Writes the metrics of snapshots.
pub(super) fn write(text: &mut Text, snapshots: &[SnapshotReport]) {
    if snapshots.is_empty() {
        return;
    }
    let labels = |one: &SnapshotReport| {
        format!(
            "group=\"{}\",snapshot=\"{}\",origin=\"{}\"",
            escaped(&one.group),
            escaped(&one.name),
            escaped(&one.origin)
        )
    };
    let rows: Vec<_> = snapshots.iter().map(|one| (labels(one), one)).collect();
    text.families(&METRICS, &rows);
}
