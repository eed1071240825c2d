//! Moves of extents in Prometheus' text format. Pure.

use super::text::{Text, escaped};
use crate::volume_moves::report::{MoveProgress, MoveReport};

/// A metric of each move.
type OfMove = (&'static str, &'static str, fn(&MoveReport) -> u64);

const METRICS: [OfMove; 4] = [
    (
        "outboard_volume_move_bytes",
        "Bytes of the group's last move of extents.",
        |one| one.bytes,
    ),
    (
        "outboard_volume_move_copied_bytes",
        "Bytes of it that were copied.",
        |one| one.copied,
    ),
    (
        "outboard_volume_move_running",
        "Whether it is running.",
        |one| u64::from(one.state == MoveProgress::Running),
    ),
    (
        "outboard_volume_move_failed",
        "Whether it ended by an error.",
        |one| u64::from(one.state == MoveProgress::Failed),
    ),
];

/// Writes the metrics of moves.
pub(super) fn write(text: &mut Text, moves: &[MoveReport]) {
    if moves.is_empty() {
        return;
    }
    for (name, help, value) in METRICS {
        text.head(name, "gauge", help);
        for one in moves {
            let labels = format!("group=\"{}\"", escaped(&one.group));
            text.value(name, &labels, value(one));
        }
    }
}
