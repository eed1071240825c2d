//! The control socket of a running `serve`: one request and one answer per connection.
//!
//! ```text
//! {"version":1,"ask":"status"}\n          ->  {"version":1,"answer":{"status":{…}}}\n
//! {"version":1,"ask":{"resize":{…}}}\n    ->  {"version":1,"error":"…"}\n
//! ```
//!
//! # Invariants
//!
//! * The socket is its owner's alone (0600 from the moment it exists).
//! * The server bounds the size of requests ([`ASK_MAX`]), their time and the connections at once; the client bounds
//!   the size of answers ([`ANSWER_MAX`]).
//! * A request of another version gets an error and changes nothing.

pub(crate) mod arrays;
pub(crate) mod client;
mod moves;
pub(crate) mod place;
pub(crate) mod server;
pub(crate) mod server_report;
mod snapshots;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

use bucket::VolumeFigures;
use nbd::server::ServerFigures;
use serde::{Deserialize, Serialize};

pub(crate) use self::arrays::{ArrayRequest, ArrayStep, NewPolicy};
pub(crate) use self::moves::{MoveChanged, MoveExtents, MoveStep};
pub(crate) use self::snapshots::{ServedGroup, SnapshotChanged, SnapshotRequest, SnapshotStep};
use crate::arrays::report::ArrayReport;
use crate::caches::report::CacheReport;
use crate::config::WriterOptions;
use crate::snapshots::report::SnapshotReport;
use crate::volume_moves::report::MoveReport;

/// The version of the questions and answers.
pub(crate) const VERSION: u32 = 1;
/// Longest request, bytes.
pub(crate) const ASK_MAX: usize = 64 << 10;
/// Longest answer that is read, bytes.
pub(crate) const ANSWER_MAX: u64 = 64 << 20;

/// A request line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RequestLine {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// The request.
    pub(crate) ask: ControlRequest,
}

/// The requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ControlRequest {
    /// Report the status.
    Status,
    /// Read the configuration again.
    Reload,
    /// Add or remove an export.
    Export(ExportRequest),
    /// Refresh the size of an export.
    Resize {
        /// Its name.
        export: String,
    },
    /// Disconnect a client.
    Disconnect {
        /// Its number.
        client: u64,
    },
    /// Remove overlays.
    DropOverlay(DropOverlay),
    /// Report the arrays.
    Arrays,
    /// Change an array.
    Array(ArrayRequest),
    /// Report the volume groups of which volumes are open for writing.
    VolumeGroups,
    /// Change a snapshot.
    Snapshot(SnapshotRequest),
    /// Report the moves of extents.
    Moves,
    /// Move extents.
    MoveExtents(MoveExtents),
}

/// An export that a command adds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddedExport {
    /// Its name.
    pub(crate) name: String,
    /// Its disk, as an expression; its paths are absolute.
    pub(crate) disk: String,
    /// Refuse writes.
    pub(crate) read_only: bool,
    /// Open it when a client is going to write.
    #[serde(default)]
    pub(crate) is_standby: bool,
    /// How writers are taken.
    pub(crate) writers: WriterOptions,
}

/// A change of the exports, which the configuration does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ExportRequest {
    /// Serve one more.
    Add(AddedExport),
    /// End one.
    Remove {
        /// Its name.
        name: String,
    },
}

/// Which overlays are to be removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DropOverlay {
    /// Only those of this export.
    pub(crate) export: Option<String>,
    /// Only those of this client.
    pub(crate) client: Option<String>,
    /// Those over images that were replaced, instead of those over the current one.
    pub(crate) older: bool,
    /// Disconnect the client first.
    pub(crate) force: bool,
}

/// An answer line: either `answer` or `error`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reply {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// The result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<ControlAnswer>,
    /// Why the request failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// The results of requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ControlAnswer {
    /// The status.
    Status(Box<ServerStatus>),
    /// What the new configuration, or a command, changed.
    Reloaded(Reloaded),
    /// Sizes before and after.
    Resized {
        /// Before, bytes.
        from: u64,
        /// Now, bytes.
        to: u64,
    },
    /// The client was disconnected.
    Disconnected,
    /// Overlays are gone.
    Dropped {
        /// Which.
        dropped: Vec<DroppedOverlay>,
        /// Why others are not.
        kept: Vec<String>,
    },
    /// How the arrays are.
    Arrays(Vec<ArrayReport>),
    /// How the array is that was changed.
    Array(Box<ArrayReport>),
    /// The volume groups.
    VolumeGroups(Vec<ServedGroup>),
    /// A snapshot was changed.
    Snapshot(Box<SnapshotChanged>),
    /// The last move of each group.
    Moves(Vec<MoveReport>),
    /// A move was begun or ended.
    MoveExtents(Box<MoveChanged>),
}

/// An overlay that was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DroppedOverlay {
    /// The export.
    pub(crate) export: String,
    /// The client that it belonged to.
    pub(crate) client: String,
    /// The image that it changed.
    pub(crate) image: String,
    /// What it took, bytes, where that is known.
    pub(crate) bytes: Option<u64>,
}

/// A server and what it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServerStatus {
    /// What it is called on this machine.
    pub(crate) name: String,
    /// Its process.
    pub(crate) process: u32,
    /// The version of its program.
    pub(crate) program: String,
    /// Its configuration.
    pub(crate) config: Option<PathBuf>,
    /// Where it listens.
    pub(crate) listen: Vec<String>,
    /// Where its metrics are.
    pub(crate) metrics: Option<String>,
    /// Seconds since it started.
    pub(crate) up_seconds: u64,
    /// Exports, clients and figures.
    pub(crate) figures: ServerFigures,
    /// The disks that are served, by their exports, as they were written. Not those that clients have
    /// overlays over.
    #[serde(default)]
    pub(crate) disks: BTreeMap<String, String>,
    /// Where relative paths in them begin.
    #[serde(default)]
    pub(crate) directory: PathBuf,
    /// Its arrays.
    #[serde(default)]
    pub(crate) arrays: Vec<ArrayReport>,
    /// The snapshots of the volumes that it serves.
    #[serde(default)]
    pub(crate) snapshots: Vec<SnapshotReport>,
    /// The last move of extents of each volume group.
    #[serde(default)]
    pub(crate) moves: Vec<MoveReport>,
    /// The cache files that are open.
    #[serde(default)]
    pub(crate) caches: Vec<CacheReport>,
    /// The volumes on object stores that are open.
    #[serde(default)]
    pub(crate) bucket_volumes: Vec<VolumeFigures>,
}

/// What a reload, or a command, did, by names of exports.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Reloaded {
    /// New.
    pub(crate) added: Vec<String>,
    /// Ended.
    pub(crate) removed: Vec<String>,
    /// On another disk.
    pub(crate) replaced: Vec<String>,
    /// With another image, or other overlays, for new clients.
    #[serde(default)]
    pub(crate) renewed: Vec<String>,
    /// Under other rules.
    pub(crate) updated: Vec<String>,
    /// The files of TLS have other contents, which new clients meet.
    #[serde(default)]
    pub(crate) certificates: bool,
    /// Keys that wait for the next start.
    pub(crate) later: Vec<String>,
    /// What did not go as it should, though the rest was done.
    pub(crate) warnings: Vec<String>,
}

impl Reply {
    /// The reply to what was done, or not.
    pub(crate) fn new(result: Result<ControlAnswer, String>) -> Self {
        let version = VERSION;
        let (answer, error) = match result {
            Ok(answer) => (Some(answer), None),
            Err(error) => (None, Some(error)),
        };
        Self {
            version,
            answer,
            error,
        }
    }
}

/// Parses a request. The version is checked first: other versions may have other fields.
pub(crate) fn parse_request(line: &[u8]) -> Result<ControlRequest, String> {
    #[derive(Deserialize)]
    struct VersionField {
        version: u32,
    }
    let broken = |e: serde_json::Error| format!("not a request: {e}");
    let VersionField { version } = serde_json::from_slice(line).map_err(broken)?;
    if version != VERSION {
        let program = env!("CARGO_PKG_VERSION");
        return Err(format!(
            "version {version} of the control protocol was requested; this server (outboard {program}) \
             speaks version {VERSION}"
        ));
    }
    let question: RequestLine = serde_json::from_slice(line).map_err(broken)?;
    Ok(question.ask)
}
