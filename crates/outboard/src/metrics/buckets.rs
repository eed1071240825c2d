//! Volumes on object stores in Prometheus' text format: requests by kind, so that what they cost can be computed. Pure.

use bucket::{JournalFigures, OperationFigures, VolumeCost, VolumeFigures};

use super::text::{Metric, NANOS, Text, escaped};

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
const OF_OPERATIONS: [Metric<OperationFigures, f64>; 3] = [
    (
        "outboard_bucket_requests_total",
        "counter",
        "Requests to the store of a volume.",
        |one| one.requests as f64,
    ),
    (
        "outboard_bucket_request_failures_total",
        "counter",
        "Requests that the store did not carry out.",
        |one| one.failures as f64,
    ),
    (
        "outboard_bucket_request_seconds_total",
        "counter",
        "Time from requests to their answers.",
        |one| one.nanos as f64 / NANOS,
    ),
];

const OF_VOLUMES: [Metric<VolumeFigures>; 4] = [
    (
        "outboard_bucket_received_bytes_total",
        "counter",
        "Data that came from the store.",
        |one| one.received,
    ),
    (
        "outboard_bucket_sent_bytes_total",
        "counter",
        "Data that was sent to the store.",
        |one| one.sent,
    ),
    (
        "outboard_bucket_unwritten_bytes",
        "gauge",
        "Memory of changes that are not in the store yet.",
        |one| one.unwritten,
    ),
    (
        "outboard_bucket_failed",
        "gauge",
        "Whether the volume is out of use.",
        |one| u64::from(one.failure.is_some()),
    ),
];

const OF_COSTS: [Metric<VolumeCost, f64>; 1] = [(
    "outboard_bucket_estimated_cost_total",
    "counter",
    "Estimated cost of the requests to the store and the data from it, by the prices of the configuration.",
    |one| one.total.as_f64(),
)];

const OF_JOURNALS: [Metric<JournalFigures>; 3] = [
    (
        "outboard_bucket_journal_unstored_bytes",
        "gauge",
        "Records of the local journal that are not in the store yet.",
        |one| one.unstored,
    ),
    (
        "outboard_bucket_journal_size_bytes",
        "gauge",
        "Size of the local journal.",
        |one| one.size,
    ),
    (
        "outboard_bucket_journal_full_waits_total",
        "counter",
        "Flushes that waited for the store because the local journal was full.",
        |one| one.full_waits,
    ),
];

/// One for each volume and use: a volume may be open for reading several times, and a series is there once.
fn merged(volumes: &[VolumeFigures]) -> Vec<VolumeFigures> {
    let mut merged: Vec<VolumeFigures> = Vec::new();
    for volume in volumes {
        let is_same =
            |one: &&mut VolumeFigures| one.uri == volume.uri && one.is_writer == volume.is_writer;
        match merged.iter_mut().find(is_same) {
            Some(one) => one.add(volume),
            None => merged.push(volume.clone()),
        }
    }
    merged
}

/// Writes the metrics of volumes.
pub(super) fn write(text: &mut Text, volumes: &[VolumeFigures]) {
    // A build without them has no code for it.
    if volumes.is_empty() || !cfg!(any(feature = "bucket", test)) {
        return;
    }
    let volumes = merged(volumes);
    let label = |one: &VolumeFigures| {
        let use_of_it = if one.is_writer { "write" } else { "read" };
        format!("volume=\"{}\",use=\"{use_of_it}\"", escaped(&one.uri))
    };
    let of_operations = volumes.iter().flat_map(|one| {
        let operations = one.operations.iter();
        operations.map(move |operation| {
            let name = operation.operation.name();
            (format!("{},operation=\"{name}\"", label(one)), operation)
        })
    });
    text.families(&OF_OPERATIONS, &of_operations.collect::<Vec<_>>());
    let of_volumes: Vec<_> = volumes.iter().map(|one| (label(one), one)).collect();
    text.families(&OF_VOLUMES, &of_volumes);
    let of_costs = volumes.iter().filter_map(|one| {
        let cost = one.cost.as_ref()?;
        let currency = escaped(&cost.currency);
        Some((format!("{},currency=\"{currency}\"", label(one)), cost))
    });
    let of_costs: Vec<_> = of_costs.collect();
    if !of_costs.is_empty() {
        text.families(&OF_COSTS, &of_costs);
    }
    let of_journals = volumes.iter().filter_map(|one| {
        let journal = one.journal.as_ref()?;
        Some((label(one), journal))
    });
    let of_journals: Vec<_> = of_journals.collect();
    if !of_journals.is_empty() {
        text.families(&OF_JOURNALS, &of_journals);
    }
}
