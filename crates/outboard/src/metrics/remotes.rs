//! Remote disks and their servers in Prometheus' text format. Pure.

use super::text::{Metric, Text, escaped};
use crate::remotes::RemoteReport;

const METRICS: [Metric<RemoteReport, String>; 5] = [
    (
        "outboard_remote_unreachable",
        "gauge",
        "Clients of the disk in this process that no server answers.",
        |one| one.unreachable.to_string(),
    ),
    (
        "outboard_remote_server_changes_total",
        "counter",
        "Times that another server took the place of the one that was used.",
        |one| one.server_changes.to_string(),
    ),
    (
        "outboard_remote_reconnects_total",
        "counter",
        "Times that connections were made again, to the same server or another one.",
        |one| one.reconnects.to_string(),
    ),
    (
        "outboard_remote_unreachable_seconds_total",
        "counter",
        "Time in which no server answered.",
        |one| one.unreachable_for.as_secs_f64().to_string(),
    ),
    (
        "outboard_remote_unflushed_bytes",
        "gauge",
        "Acknowledged writes that no flush has covered, which are kept to be written again.",
        |one| one.unflushed.to_string(),
    ),
];

/// Clients of each server of each disk.
const SERVERS: &str = "outboard_remote_server_clients";

/// Writes the metrics of remote disks.
pub(super) fn write(text: &mut Text, remotes: &[RemoteReport]) {
    if remotes.is_empty() {
        return;
    }
    let disk = |one: &RemoteReport| format!("disk=\"{}\"", escaped(&one.disk));
    text.head(
        SERVERS,
        "gauge",
        "Clients of the disk in this process that use the server, or used it last.",
    );
    for one in remotes {
        for (server, clients) in &one.servers {
            let labels = format!("{},server=\"{}\"", disk(one), escaped(server));
            text.value(SERVERS, &labels, clients);
        }
    }
    let rows: Vec<_> = remotes.iter().map(|one| (disk(one), one)).collect();
    text.families(&METRICS, &rows);
}
