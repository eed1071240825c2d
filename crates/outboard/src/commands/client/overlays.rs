//! `outboard client overlays` and `drop-overlay`: what clients changed of the images they share.

use std::time::{Duration, UNIX_EPOCH};

use nbd::server::ClientDiskFigures;
use serde::Serialize;

use crate::commands::reload::{WhichServer, unexpected_answer};
use crate::commands::status::rounded;
use crate::completion;
use crate::control::{ControlAnswer, ControlRequest, DropOverlay};
use crate::failure::Failure;
use crate::graph::ByteSize;
use crate::output::{Format, columns};

/// Arguments of `client overlays`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only those of this export
    #[arg(long, value_name = "NAME", add = completion::exports())]
    export: Option<String>,

    #[command(flatten)]
    which: WhichServer,
}

/// Arguments of `client drop-overlay`.
#[derive(Debug, clap::Args)]
pub(crate) struct DropArgs {
    /// The client, as `client overlays` shows it; optional with --older: all clients
    #[arg(required_unless_present = "older")]
    client: Option<String>,

    /// Only that of this export
    #[arg(long, value_name = "NAME", add = completion::exports())]
    export: Option<String>,

    /// Those over images that were replaced, instead of the one over the current image
    #[arg(long)]
    older: bool,

    /// Disconnect the client first, if it is connected
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    which: WhichServer,
}

/// An overlay, for programs.
#[derive(Debug, Serialize)]
struct OverlayRow<'a> {
    export: &'a str,
    client: String,
    #[serde(flatten)]
    figures: &'a ClientDiskFigures,
}

/// Lists them.
pub(super) fn list(args: &ListArgs, format: Format) -> Result<(), Failure> {
    let ControlAnswer::Status(status) = args.which.request(ControlRequest::Status)? else {
        return Err(unexpected_answer());
    };
    let meant = |name: &str| args.export.as_deref().is_none_or(|export| export == name);
    let exports = status.figures.exports.iter().filter(|e| meant(&e.name));
    let rows: Vec<OverlayRow<'_>> = exports
        .flat_map(|export| {
            let disks = export.client_disks.iter().flatten();
            disks.map(|figures| OverlayRow {
                export: &export.name,
                client: figures.name.to_string(),
                figures,
            })
        })
        .collect();
    let now = engine::clock::wall().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_secs();
    format.print(&rows, || text(&rows, now))
}

fn text(rows: &[OverlayRow<'_>], now: u64) -> String {
    if rows.is_empty() {
        return "there are no overlays of clients".to_owned();
    }
    let head = [
        "EXPORT",
        "CLIENT",
        "CONNECTIONS",
        "CHANGED",
        "QUOTA",
        "LAST SEEN",
        "IMAGE",
    ];
    let none = || "-".to_owned();
    let line = |row: &OverlayRow<'_>| {
        let figures = row.figures;
        let seen = match (figures.connections, figures.last_seen) {
            (0, Some(seen)) => ago(Duration::from_secs(now.saturating_sub(seen))),
            (0, None) => none(),
            _ => "now".to_owned(),
        };
        let older = if figures.is_older { " (older)" } else { "" };
        [
            named(row.export),
            row.client.clone(),
            figures.connections.to_string(),
            figures.bytes.map_or_else(none, rounded),
            figures
                .quota
                .map_or_else(none, |quota| ByteSize(quota).to_string()),
            seen,
            format!("{}{older}", figures.image),
        ]
    };
    let head = head.map(str::to_owned);
    let rows: Vec<_> = std::iter::once(head).chain(rows.iter().map(line)).collect();
    columns(&rows)
}

fn named(export: &str) -> String {
    match export {
        "" => "(default)".to_owned(),
        name => name.to_owned(),
    }
}

/// How long ago something was, in its largest unit.
fn ago(time: Duration) -> String {
    const UNITS: [(u64, &str); 4] = [
        (86_400, "day"),
        (3600, "hour"),
        (60, "minute"),
        (1, "second"),
    ];
    let seconds = time.as_secs();
    let fits = UNITS.iter().find(|(length, _)| seconds >= *length);
    let Some((length, unit)) = fits else {
        return "just now".to_owned();
    };
    let count = seconds / length;
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural} ago")
}

/// Removes them.
pub(super) fn drop(args: &DropArgs, format: Format) -> Result<(), Failure> {
    let answer = args
        .which
        .request(ControlRequest::DropOverlay(DropOverlay {
            export: args.export.clone(),
            client: args.client.clone(),
            older: args.older,
            force: args.force,
        }))?;
    let ControlAnswer::Dropped { dropped, kept } = answer else {
        return Err(unexpected_answer());
    };
    let said = serde_json::json!({ "dropped": dropped, "kept": kept });
    format.print(&said, || {
        if dropped.is_empty() {
            return "there was none".to_owned();
        }
        let line = |gone: &crate::control::DroppedOverlay| {
            format!(
                "{}: the overlay of {} over {} is dropped{}",
                named(&gone.export),
                gone.client,
                gone.image,
                gone.bytes
                    .map_or_else(String::new, |bytes| format!(" ({})", rounded(bytes)))
            )
        };
        dropped.iter().map(line).collect::<Vec<_>>().join("\n")
    })?;
    match kept.as_slice() {
        [] => Ok(()),
        kept => Err(Failure::new(kept.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    //! Tests of how overlays are shown.

    use nbd::server::ClientName;

    use super::*;

    #[test]
    fn a_time_is_shown_in_its_largest_unit() {
        let told = |seconds| ago(Duration::from_secs(seconds));
        assert_eq!(told(0), "just now");
        assert_eq!(told(1), "1 second ago");
        assert_eq!(told(119), "1 minute ago");
        assert_eq!(told(7200), "2 hours ago");
        assert_eq!(told(86_400 * 40), "40 days ago");
    }

    #[test]
    fn overlays_over_the_current_and_a_replaced_image_are_distinguished() {
        let figures = |connections, is_older| ClientDiskFigures {
            name: ClientName::Certificate("pi".to_owned()),
            connections,
            bytes: Some(3 << 20),
            quota: Some(2 << 30),
            last_seen: Some(100),
            image: "golden.img".to_owned(),
            image_id: "1".to_owned(),
            is_older,
        };
        let (now, old) = (figures(2, false), figures(0, true));
        let row = |figures| OverlayRow {
            export: "",
            client: "pi".to_owned(),
            figures,
        };
        let told = text(&[row(&now), row(&old)], 160);
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines[1].starts_with("(default)  pi"), "{told}");
        assert!(
            lines[1].contains("now") && lines[1].ends_with("golden.img"),
            "{told}"
        );
        assert!(lines[2].contains("1 minute ago"), "{told}");
        assert!(lines[2].ends_with("golden.img (older)"), "{told}");
    }
}
