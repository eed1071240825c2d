//! Moves of extents in Prometheus' text format. Pure.

use super::text::{Metric, Text, escaped};
use crate::volume_moves::report::{MoveProgress, MoveReport};

const METRICS: [Metric<MoveReport>; 4] = [
    (
        "outboard_volume_move_bytes",
        "gauge",
        "Bytes of the group's last move of extents.",
        |one| one.bytes,
    ),
    (
        "outboard_volume_move_copied_bytes",
        "gauge",
        "Bytes of it that were copied.",
        |one| one.copied,
    ),
    (
        "outboard_volume_move_running",
        "gauge",
        "Whether it is running.",
        |one| u64::from(one.state == MoveProgress::Running),
    ),
    (
        "outboard_volume_move_failed",
        "gauge",
        "Whether it ended by an error.",
        |one| u64::from(one.state == MoveProgress::Failed),
    ),
];

/// Writes the metrics of moves.
pub(super) fn write(text: &mut Text, moves: &[MoveReport]) {
    if moves.is_empty() {
        return;
    }
    let label = |one: &MoveReport| format!("group=\"{}\"", escaped(&one.group));
    let rows: Vec<_> = moves.iter().map(|one| (label(one), one)).collect();
    text.families(&METRICS, &rows);
}
