//! Arrays in Prometheus' text format. Pure.
//!
//! Where nothing is done in the background its figures are left out; counts of what goes wrong are there
//! from the beginning, so that a rise can be seen.

use super::text::{Text, escaped};
use crate::arrays::report::{ArrayReport, MemberHealth, SyncOperation};

/// A metric of each array.
type OfArray = (
    &'static str,
    &'static str,
    &'static str,
    fn(&ArrayReport) -> Option<u64>,
);

const METRICS: [OfArray; 16] = [
    (
        "outboard_array_size_bytes",
        "gauge",
        "Size of the array.",
        |a| Some(a.size),
    ),
    (
        "outboard_array_parts",
        "gauge",
        "Parts of the complete array.",
        |a| Some(a.parts.into()),
    ),
    (
        "outboard_array_degraded",
        "gauge",
        "Parts that are missing, or not complete yet.",
        |a| Some(a.parts.saturating_sub(a.working).into()),
    ),
    (
        "outboard_array_clean",
        "gauge",
        "Whether all members know that no write is under way.",
        |a| Some(a.clean.into()),
    ),
    (
        "outboard_array_resync_pending",
        "gauge",
        "Whether copies may differ and no resync is under way.",
        |a| Some(a.resync_pending.into()),
    ),
    (
        "outboard_array_events_total",
        "counter",
        "Changes of its state.",
        |a| Some(a.events),
    ),
    (
        "outboard_array_bitmap_chunks",
        "gauge",
        "Chunks of its write-intent bitmap.",
        |a| a.bitmap.map(|bitmap| bitmap.chunks),
    ),
    (
        "outboard_array_bitmap_dirty_chunks",
        "gauge",
        "Chunks that were written, or are to be copied to an unreachable member.",
        |a| a.bitmap.map(|bitmap| bitmap.dirty),
    ),
    (
        "outboard_array_sync_done_bytes",
        "gauge",
        "How far the work in the background is.",
        |a| a.sync.as_ref().map(|sync| sync.done),
    ),
    (
        "outboard_array_sync_total_bytes",
        "gauge",
        "How much work in the background there is.",
        |a| a.sync.as_ref().map(|sync| sync.of),
    ),
    (
        "outboard_array_sync_bytes_per_second",
        "gauge",
        "How fast the work in the background is, lately.",
        |a| a.sync.as_ref().map(|sync| sync.speed),
    ),
    (
        "outboard_array_mismatched_sectors",
        "gauge",
        "Sectors of 512 bytes that differed in the last scrub, or so far in this one.",
        |a| {
            let now = a.sync.as_ref().filter(|sync| sync.kind.is_scrub());
            let last = a.scrubbed.as_ref().map(|last| last.mismatches);
            now.map(|sync| sync.mismatches).or(last)
        },
    ),
    (
        "outboard_array_reshape_paused",
        "gauge",
        "Whether a reshape cannot go on, and waits.",
        |a| Some(a.reshape_paused.is_some().into()),
    ),
    (
        "outboard_array_reshape_lost_places",
        "gauge",
        "Places that a reshape found and no member can read: moved as bad blocks, or where it is paused.",
        |a| Some(a.reshape_lost.places),
    ),
    (
        "outboard_array_reshape_lost_bytes",
        "gauge",
        "Bytes of these places.",
        |a| Some(a.reshape_lost.bytes),
    ),
    (
        "outboard_array_corrected_reads_total",
        "counter",
        "Read errors that were repaired from other members.",
        |a| Some(a.members.iter().map(|member| member.corrected).sum()),
    ),
];

/// Writes the metrics of arrays.
pub(super) fn write(text: &mut Text, arrays: &[ArrayReport]) {
    if arrays.is_empty() {
        return;
    }
    for (name, kind, help, value) in METRICS {
        text.head(name, kind, help);
        for array in arrays {
            if let Some(value) = value(array) {
                text.value(name, &labels(array), value);
            }
        }
    }
    let name = "outboard_array_members";
    text.head(name, "gauge", "Members, by how they stand.");
    for array in arrays {
        for state in MemberHealth::ALL {
            let count = array.members.iter().filter(|member| member.state == state);
            let labels = format!("{},state=\"{}\"", labels(array), state.name());
            text.value(name, &labels, count.count());
        }
    }
    let name = "outboard_array_sync";
    text.head(name, "gauge", "Whether this is done in the background.");
    for array in arrays {
        for kind in SyncOperation::ALL {
            let is_done = array.sync.as_ref().is_some_and(|sync| sync.kind == kind);
            let labels = format!("{},kind=\"{}\"", labels(array), kind.name());
            text.value(name, &labels, u8::from(is_done));
        }
    }
}

fn labels(array: &ArrayReport) -> String {
    let export = array.export.as_deref().unwrap_or_default();
    format!(
        "array=\"{}\",uuid=\"{}\",export=\"{}\"",
        escaped(array.short_name()),
        array.uuid,
        escaped(export)
    )
}
