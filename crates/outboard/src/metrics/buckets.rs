//! Volumes on object stores in Prometheus' text format: requests by kind, so that what they cost can be computed. Pure.

use bucket::{OperationFigures, VolumeFigures};

use super::text::{NANOS, Text, escaped};

/// A metric of each kind of request.
type OfOperation = (&'static str, &'static str, fn(&OperationFigures) -> f64);

/// Name, kind and help of a metric of each volume, and its value.
type OfVolume = (
    &'static str,
    &'static str,
    &'static str,
    fn(&VolumeFigures) -> u64,
);

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
const OF_OPERATIONS: [OfOperation; 3] = [
    (
        "outboard_bucket_requests_total",
        "Requests to the store of a volume.",
        |one| one.requests as f64,
    ),
    (
        "outboard_bucket_request_failures_total",
        "Requests that the store did not carry out.",
        |one| one.failures as f64,
    ),
    (
        "outboard_bucket_request_seconds_total",
        "Time from requests to their answers.",
        |one| one.nanos as f64 / NANOS,
    ),
];

const OF_VOLUMES: [OfVolume; 4] = [
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
    if volumes.is_empty() {
        return;
    }
    let volumes = merged(volumes);
    let label = |one: &VolumeFigures| {
        let use_of_it = if one.is_writer { "write" } else { "read" };
        format!("volume=\"{}\",use=\"{use_of_it}\"", escaped(&one.uri))
    };
    for (name, help, value) in OF_OPERATIONS {
        text.head(name, "counter", help);
        for one in &volumes {
            for operation in &one.operations {
                let of = operation.operation.name();
                let labels = format!("{},operation=\"{of}\"", label(one));
                text.value(name, &labels, value(operation));
            }
        }
    }
    for (name, kind, help, value) in OF_VOLUMES {
        text.head(name, kind, help);
        for one in &volumes {
            text.value(name, &label(one), value(one));
        }
    }
}
