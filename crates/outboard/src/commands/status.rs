//! `outboard status`: what is attached and served here, and how it is.

use attach::AttachmentStatus;
use nbd::server::{ClientDiskFigures, ExportFigures, Figures, Op, StandbyFigures};
use serde::Serialize;

use crate::arrays::show;
use crate::buckets;
use crate::caches::report::CacheReport;
use crate::control::{self, ServerStatus};
use crate::failure::Failure;
use crate::graph::ByteSize;
use crate::output::{Format, columns};
use crate::snapshots::report::SnapshotReport;
use crate::volume_moves::report::MoveReport;

/// All of it.
#[derive(Debug, Serialize)]
struct Status {
    attachments: Vec<AttachmentStatus>,
    /// How many more there are, which only root may look at; where there are some.
    #[serde(skip_serializing_if = "is_zero")]
    root_attachments: usize,
    servers: Vec<ServerStatus>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Prints it.
pub(crate) fn run(format: Format) -> Result<(), Failure> {
    let status = Status {
        attachments: attach::status().map_err(Failure::new)?,
        root_attachments: attach::hidden_attachments(),
        servers: control::client::statuses(),
    };
    format.print(&status, || text(&status))
}

fn text(status: &Status) -> String {
    let mut parts = Vec::new();
    if !status.attachments.is_empty() {
        let head = ["DEVICE", "MOUNTED ON", "SIZE", "VIA", "DISK", "STATE"].map(str::to_owned);
        let rows = status.attachments.iter().map(row);
        parts.push(columns(
            &std::iter::once(head).chain(rows).collect::<Vec<_>>(),
        ));
    } else if status.servers.is_empty() && status.root_attachments == 0 {
        parts.push("nothing is attached".to_owned());
    }
    parts.extend(of_root(status.root_attachments));
    parts.extend(status.servers.iter().map(server));
    parts.join("\n\n")
}

/// The line about root's attachments for other users.
fn of_root(count: usize) -> Option<String> {
    let what = match count {
        0 => return None,
        1 => "1 attachment of root exists".to_owned(),
        count => format!("{count} attachments of root exist"),
    };
    Some(format!("{what}; `sudo outboard status` shows more"))
}

/// A server: a line about it, its exports, its clients.
fn server(server: &ServerStatus) -> String {
    let listen = server.listen.join(", ");
    let mut about = format!(
        "{} (process {}) serves on {listen}",
        server.name, server.process
    );
    if let Some(config) = &server.config {
        about.push_str(&format!(", configured by {}", config.display()));
    }
    let exports = &server.figures.exports;
    let head = EXPORT_HEAD.map(str::to_owned);
    let rows = exports.iter().map(export_row);
    let mut parts = vec![about];
    parts.push(columns(
        &std::iter::once(head).chain(rows).collect::<Vec<_>>(),
    ));
    parts.extend(exports.iter().filter_map(overlays));
    parts.extend(exports.iter().filter_map(writer));
    parts.extend(exports.iter().filter_map(standby));
    let arrays = server
        .arrays
        .iter()
        .map(|array| format!("array {}", show::line(array)));
    parts.extend(arrays);
    parts.extend(server.snapshots.iter().map(SnapshotReport::line));
    parts.extend(server.moves.iter().map(MoveReport::line));
    parts.extend(server.caches.iter().map(CacheReport::line));
    parts.extend(server.bucket_volumes.iter().map(buckets::line));
    let clients: Vec<_> = exports.iter().flat_map(client_rows).collect();
    if !clients.is_empty() {
        let head = CLIENT_HEAD.map(str::to_owned);
        parts.push(columns(
            &std::iter::once(head).chain(clients).collect::<Vec<_>>(),
        ));
    }
    parts.join("\n")
}

/// A line about the overlays of an export's clients, where they have some.
fn overlays(export: &ExportFigures) -> Option<String> {
    let overlays = export.client_disks.as_ref()?;
    let count = |is_meant: fn(&ClientDiskFigures) -> bool| {
        overlays.iter().filter(|overlay| is_meant(overlay)).count()
    };
    let (all, older) = (overlays.len(), count(|overlay| overlay.is_older));
    let older = match older {
        0 => String::new(),
        older => format!(", {older} over replaced images"),
    };
    let used = count(|overlay| overlay.connections > 0);
    let known = overlays.iter().filter_map(|overlay| overlay.bytes);
    let bytes = match known.clone().count() {
        0 if all > 0 => String::new(),
        _ => format!("they take {}; ", rounded(known.sum())),
    };
    let name = display_name(export);
    Some(format!(
        "{name}: overlays of clients: {all}, {used} in use{older}; {bytes}\
         `outboard client overlays` lists them"
    ))
}

/// A line about the one writer of an export, while there is one.
fn writer(export: &ExportFigures) -> Option<String> {
    let writers = export.writers.as_ref()?;
    let writer = writers.writer.as_ref()?;
    let since = engine::clock::Calendar::of(writer.since).to_the_minute();
    let fenced = match writers.policy.as_str() {
        "fenced" => format!(", generation {}", writers.generation),
        _ => String::new(),
    };
    Some(format!(
        "{}: written by {} since {since}{fenced}",
        display_name(export),
        writer.peer
    ))
}

/// A line about an export with a disk that another server may have.
fn standby(export: &ExportFigures) -> Option<String> {
    let line = standby_line(export.standby.as_ref()?);
    Some(format!("{}: {line}", display_name(export)))
}

fn standby_line(standby: &StandbyFigures) -> String {
    let state = match standby.is_open {
        true => "open for writing",
        false => "in standby",
    };
    let times = match standby.takeovers {
        0 => "never taken over".to_owned(),
        1 => "taken over once".to_owned(),
        times => format!("taken over {times} times"),
    };
    format!("{state}, {times}")
}

fn display_name(export: &ExportFigures) -> String {
    match export.name.as_str() {
        "" => "(default)".to_owned(),
        name => name.to_owned(),
    }
}

const EXPORT_HEAD: [&str; 9] = [
    "EXPORT", "SIZE", "CLIENTS", "READS", "READ", "WRITES", "WRITTEN", "ERRORS", "P99",
];

fn export_row(export: &ExportFigures) -> [String; 9] {
    let clients = export.clients.len().to_string();
    let [reads, read, writes, written, errors, p99] = figures(&export.figures);
    let name = display_name(export);
    let size = ByteSize(export.size).to_string();
    [
        name, size, clients, reads, read, writes, written, errors, p99,
    ]
}

/// Titles of [`client_rows`].
pub(crate) const CLIENT_HEAD: [&str; 9] = [
    "CLIENT", "FROM", "EXPORT", "READS", "READ", "WRITES", "WRITTEN", "ERRORS", "P99",
];

/// A row for each client of an export.
pub(crate) fn client_rows(export: &ExportFigures) -> impl Iterator<Item = [String; 9]> {
    export.clients.iter().map(|client| {
        let [reads, read, writes, written, errors, p99] = figures(&client.figures);
        let from = match &client.certificate {
            Some(name) => format!("{} ({name})", client.peer),
            None => client.peer.clone(),
        };
        let id = client.id.to_string();
        let export = export.name.clone();
        [id, from, export, reads, read, writes, written, errors, p99]
    })
}

fn figures(figures: &Figures) -> [String; 6] {
    let (read, write, total) = (figures.of(Op::Read), figures.of(Op::Write), figures.total());
    // The limit of the bucket it falls into: not more, perhaps half of it.
    let p99 = total.percentile(99).map(|limit| format!("{limit:.1?}"));
    [
        read.requests.to_string(),
        rounded(read.bytes),
        write.requests.to_string(),
        rounded(write.bytes),
        total.errors.to_string(),
        p99.unwrap_or_else(|| "-".to_owned()),
    ]
}

/// A size to look at: three digits at most before the unit.
pub(crate) fn rounded(bytes: u64) -> String {
    let mut units = ["B", "K", "M", "G", "T", "P", "E"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    let (mut whole, mut tenths) = (bytes, 0);
    for next in units {
        if whole < 1024 {
            break;
        }
        tenths = whole % 1024 * 10 / 1024;
        whole /= 1024;
        unit = next;
    }
    if whole < 10 && unit != "B" {
        return format!("{whole}.{tenths}{unit}");
    }
    format!("{whole}{unit}")
}

fn row(attachment: &AttachmentStatus) -> [String; 6] {
    let none = || "-".to_owned();
    let device = attachment.device.as_ref();
    let mount = attachment.mount.as_ref();
    let mut state = attachment.health.to_string();
    if let Some(used) = &attachment.used {
        state.push_str(&format!(", server {}", used.server));
        match used.server_changes {
            0 => {}
            1 => state.push_str(" after 1 change"),
            changes => state.push_str(&format!(" after {changes} changes")),
        }
    }
    if attachment.read_only {
        state.push_str(", read-only");
    }
    [
        device.map_or_else(none, |path| path.display().to_string()),
        mount.map_or_else(none, |place| place.dir.display().to_string()),
        ByteSize(attachment.size).to_string(),
        attachment.via.to_string(),
        attachment.source.clone(),
        state,
    ]
}

#[cfg(test)]
mod tests {
    use super::{StandbyFigures, rounded, standby_line};

    #[test]
    fn an_export_that_stands_by_has_its_state_in_the_status() {
        let line = |is_open, takeovers| standby_line(&StandbyFigures { is_open, takeovers });
        assert_eq!(line(false, 0), "in standby, never taken over");
        assert_eq!(line(true, 1), "open for writing, taken over once");
        assert_eq!(line(false, 2), "in standby, taken over 2 times");
    }

    #[test]
    fn sizes_are_rounded_down_to_what_can_be_taken_in() {
        assert_eq!(rounded(0), "0B");
        assert_eq!(rounded(1023), "1023B");
        assert_eq!(rounded(1536), "1.5K");
        assert_eq!(rounded(10 << 20), "10M");
        assert_eq!(rounded(u64::MAX), "15E");
    }
}
