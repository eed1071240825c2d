//! [`ServerFigures`] in Prometheus' text format. Pure.
//!
//! Clients are not labels: they come and go, and a series for each would never end.

use std::fmt::{Arguments, Display, Write as _};

use nbd::server::{
    BUCKETS, ClientDiskFigures, CommandFigures, ExportFigures, ServerFigures, StandbyFigures,
    WritersFigures, bucket_limit,
};

use bucket::VolumeFigures;
use nodes::CacheStatus;

use crate::arrays::report::ArrayReport;
use crate::remotes::RemoteReport;
use crate::snapshots::report::SnapshotReport;
use crate::volume_moves::report::MoveReport;

/// In a second.
pub(super) const NANOS: f64 = 1e9;

/// Text that grows.
pub(super) struct Text(String);

impl Text {
    pub(super) fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    pub(super) fn value(&mut self, name: &str, labels: &str, value: impl Display) {
        if labels.is_empty() {
            self.line(format_args!("{name} {value}"));
        } else {
            self.line(format_args!("{name}{{{labels}}} {value}"));
        }
    }

    /// Writes all `metrics`, each with a value for every row of labels and their `T`.
    pub(super) fn families<T: ?Sized, V: Display>(
        &mut self,
        metrics: &[Metric<T, V>],
        rows: &[(String, &T)],
    ) {
        for (name, kind, help, value) in metrics {
            self.head(name, kind, help);
            for (labels, of) in rows {
                self.value(name, labels, value(of));
            }
        }
    }

    fn line(&mut self, line: Arguments<'_>) {
        self.0.write_fmt(line).expect("a string takes all");
        self.0.push('\n');
    }
}

/// Name, kind and help of a metric, and its value for a `T`.
pub(super) type Metric<T, V = u64> = (&'static str, &'static str, &'static str, fn(&T) -> V);

/// What has figures besides the exports. A server without one of them has no such metrics.
#[derive(Debug, Default)]
pub(super) struct Reports {
    pub(super) arrays: Vec<ArrayReport>,
    pub(super) snapshots: Vec<SnapshotReport>,
    pub(super) moves: Vec<MoveReport>,
    pub(super) caches: Vec<CacheStatus>,
    pub(super) remotes: Vec<RemoteReport>,
    /// Volumes on object stores.
    pub(super) volumes: Vec<VolumeFigures>,
}

/// The whole answer to a scrape.
pub(super) fn of(figures: &ServerFigures, reports: &Reports) -> String {
    let mut text = Text(String::new());
    server(&mut text, figures);
    exports(&mut text, figures);
    writers(&mut text, figures);
    standby(&mut text, figures);
    overlays(&mut text, figures);
    commands(&mut text, figures);
    latencies(&mut text, figures);
    super::arrays::write(&mut text, &reports.arrays);
    super::snapshots::write(&mut text, &reports.snapshots);
    super::volume_moves::write(&mut text, &reports.moves);
    super::caches::write(&mut text, &reports.caches);
    super::remotes::write(&mut text, &reports.remotes);
    super::buckets::write(&mut text, &reports.volumes);
    text.0
}

fn server(text: &mut Text, figures: &ServerFigures) {
    let values = [
        (
            "outboard_connections",
            "gauge",
            "Open connections, those in the handshake among them.",
            figures.connections,
        ),
        (
            "outboard_connections_accepted_total",
            "counter",
            "Connections accepted.",
            figures.accepted,
        ),
        (
            "outboard_connections_refused_total",
            "counter",
            "Connections closed at once, because there were too many.",
            figures.refused,
        ),
        (
            "outboard_handshakes_failed_total",
            "counter",
            "Connections that ended in the handshake.",
            figures.handshakes_failed,
        ),
        (
            "outboard_in_flight_bytes",
            "gauge",
            "Memory of requests and replies in flight.",
            figures.memory,
        ),
    ];
    for (name, kind, help, value) in values {
        text.head(name, kind, help);
        text.value(name, "", value);
    }
}

fn exports(text: &mut Text, figures: &ServerFigures) {
    let metrics: [Metric<ExportFigures>; 3] = [
        (
            "outboard_export_size_bytes",
            "gauge",
            "Size that new clients get.",
            |e| e.size,
        ),
        (
            "outboard_export_clients",
            "gauge",
            "Clients that are connected.",
            |e| e.clients.len() as u64,
        ),
        (
            "outboard_export_clients_total",
            "counter",
            "Clients that ever connected.",
            |e| e.clients_ever,
        ),
    ];
    let exports = figures.exports.iter();
    let rows: Vec<_> = exports.map(|export| (label(export), export)).collect();
    text.families(&metrics, &rows);
}

fn writers(text: &mut Text, figures: &ServerFigures) {
    let metrics: [Metric<WritersFigures>; 2] = [
        (
            "outboard_export_has_writer",
            "gauge",
            "Whether a client holds the export for writing.",
            |writers| u64::from(writers.writer.is_some()),
        ),
        (
            "outboard_export_writer_generation",
            "gauge",
            "Clients that were the one writer, one after the other.",
            |writers| writers.generation,
        ),
    ];
    let exports = figures.exports.iter();
    let rows = exports.filter_map(|export| Some((label(export), export.writers.as_ref()?)));
    let rows: Vec<_> = rows.collect();
    // A server without writable exports has no such metrics.
    if !rows.is_empty() {
        text.families(&metrics, &rows);
    }
}

fn standby(text: &mut Text, figures: &ServerFigures) {
    let metrics: [Metric<StandbyFigures>; 2] = [
        (
            "outboard_export_standby",
            "gauge",
            "Whether the disk is not open for writing here: another server may have it.",
            |standby| u64::from(!standby.is_open),
        ),
        (
            "outboard_export_takeovers_total",
            "counter",
            "How often the disk was opened for writing here.",
            |standby| standby.takeovers,
        ),
    ];
    let exports = figures.exports.iter();
    let rows = exports.filter_map(|export| Some((label(export), export.standby.as_ref()?)));
    let rows: Vec<_> = rows.collect();
    // A server without exports that stand by has no such metrics.
    if !rows.is_empty() {
        text.families(&metrics, &rows);
    }
}

fn overlays(text: &mut Text, figures: &ServerFigures) {
    let metrics: [Metric<[ClientDiskFigures]>; 4] = [
        (
            "outboard_export_overlays",
            "gauge",
            "Overlays of clients over the current image.",
            |disks| disks.iter().filter(|disk| !disk.is_older).count() as u64,
        ),
        (
            "outboard_export_overlays_older",
            "gauge",
            "Overlays of clients over images that were replaced.",
            |disks| disks.iter().filter(|disk| disk.is_older).count() as u64,
        ),
        (
            "outboard_export_overlays_open",
            "gauge",
            "Overlays of clients that are connected.",
            |disks| disks.iter().filter(|disk| disk.connections > 0).count() as u64,
        ),
        (
            "outboard_export_overlay_bytes",
            "gauge",
            "What the overlays of all clients take.",
            |disks| disks.iter().filter_map(|disk| disk.bytes).sum(),
        ),
    ];
    let exports = figures.exports.iter();
    let rows = exports.filter_map(|export| Some((label(export), export.client_disks.as_deref()?)));
    let rows: Vec<_> = rows.collect();
    // A server without overlays of clients has no such metrics.
    if !rows.is_empty() {
        text.families(&metrics, &rows);
    }
}

fn commands(text: &mut Text, figures: &ServerFigures) {
    let metrics: [Metric<CommandFigures>; 4] = [
        (
            "outboard_requests_total",
            "counter",
            "Requests taken in.",
            |c| c.requests,
        ),
        (
            "outboard_request_errors_total",
            "counter",
            "Requests answered with an error.",
            |c| c.errors,
        ),
        (
            "outboard_request_bytes_total",
            "counter",
            "Bytes that successful requests were about.",
            |c| c.bytes,
        ),
        (
            "outboard_requests_in_flight",
            "gauge",
            "Requests that wait for their disk.",
            |c| c.in_flight,
        ),
    ];
    let rows = figures.exports.iter().flat_map(|export| {
        let commands = export.figures.commands.iter();
        commands.map(move |command| (labels(export, command), command))
    });
    text.families(&metrics, &rows.collect::<Vec<_>>());
}

fn latencies(text: &mut Text, figures: &ServerFigures) {
    const NAME: &str = "outboard_request_duration_seconds";
    text.head(
        NAME,
        "histogram",
        "Time from a request's arrival to its reply, in the server.",
    );
    for export in &figures.exports {
        for command in &export.figures.commands {
            let labels = labels(export, command);
            let mut sum = 0;
            for (index, count) in command.latency.iter().enumerate().take(BUCKETS) {
                sum += count;
                let limit = bucket_limit(index).map_or_else(
                    || "+Inf".to_owned(),
                    |limit| limit.as_secs_f64().to_string(),
                );
                let labels = format!("{labels},le=\"{limit}\"");
                text.value(&format!("{NAME}_bucket"), &labels, sum);
            }
            #[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
            let seconds = command.latency_nanos as f64 / NANOS;
            text.value(&format!("{NAME}_sum"), &labels, seconds);
            text.value(&format!("{NAME}_count"), &labels, sum);
        }
    }
}

fn label(export: &ExportFigures) -> String {
    format!("export=\"{}\"", escaped(&export.name))
}

fn labels(export: &ExportFigures, command: &CommandFigures) -> String {
    format!("{},command=\"{}\"", label(export), command.command.name())
}

/// A label's value, as the format wants it.
pub(super) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
