//! Snapshots in Prometheus' text format. Pure.

use super::text::{Text, escaped};
use crate::snapshots::report::{SnapshotHealth, SnapshotReport};

/// A metric of each snapshot.
type OfSnapshot = (&'static str, &'static str, fn(&SnapshotReport) -> u64);

const METRICS: [OfSnapshot; 4] = [
    (
        "outboard_snapshot_store_size_bytes",
        "Size of the snapshot's store.",
        |one| one.store_size,
    ),
    (
        "outboard_snapshot_store_used_bytes",
        "Bytes of the store that are used, its tables among them.",
        |one| one.used,
    ),
    (
        "outboard_snapshot_valid",
        "Whether the snapshot reads as its origin was; not one that is invalid or being merged.",
        |one| u64::from(one.state == SnapshotHealth::Valid),
    ),
    (
        "outboard_snapshot_invalid",
        "Whether the snapshot is lost, because its store was full or failed.",
        |one| u64::from(one.state == SnapshotHealth::Invalid),
    ),
];

/// Writes the metrics of snapshots.
pub(super) fn write(text: &mut Text, snapshots: &[SnapshotReport]) {
    if snapshots.is_empty() {
        return;
    }
    for (name, help, value) in METRICS {
        text.head(name, "gauge", help);
        for one in snapshots {
            let labels = format!(
                "group=\"{}\",snapshot=\"{}\",origin=\"{}\"",
                escaped(&one.group),
                escaped(&one.name),
                escaped(&one.origin)
            );
            text.value(name, &labels, value(one));
        }
    }
}
