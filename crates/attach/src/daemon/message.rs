//! Messages between the processes: one JSON line each way.
//!
//! parent -> child (standard input): [`Launch`] · child -> parent (standard output): [`LaunchResult`] ·
//! `status`, `detach` -> owner (control socket): [`ControlRequest`] · owner -> them: [`ControlReply`].

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::health::Health;
use crate::request::AttachRequest;
use crate::state::{DeviceDriver, MountPlace};
use crate::sysfs::Partition;

/// Longest line of any of these.
pub(crate) const LINE_LEN_MAX: u64 = 64 * 1024;

/// What the background process is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Launch {
    /// Its folder, made by the parent.
    pub(crate) folder: PathBuf,
    /// What to attach.
    pub(crate) request: AttachRequest,
}

/// An attachment that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Its short name.
    pub id: String,
    /// The block device.
    pub device: PathBuf,
    /// A link to it with a stable name, if one was requested.
    pub link: Option<PathBuf>,
    /// Where it is mounted.
    pub mount: Option<MountPlace>,
    /// Size, bytes.
    pub size: u64,
    /// The partitions on it.
    #[serde(default)]
    pub partitions: Vec<Partition>,
    /// The way it took.
    pub via: DeviceDriver,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Where its process writes what happens.
    pub log: PathBuf,
    /// Warnings that were logged while it was attached.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The result of the start.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LaunchResult {
    /// Attached.
    Ready(Attachment),
    /// Failed, with nothing left.
    Failed(String),
}

/// A request to the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ControlRequest {
    /// Report the health.
    Status,
    /// Report the server that is used.
    Server,
    /// Fetch the size from the server, and grow with it.
    Refresh,
    /// Take it down.
    Detach {
        /// How long a step may take.
        timeout_ms: u64,
        /// Also what is in use.
        force: bool,
    },
}

/// What a detach could not do, as text for users.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftovers {
    /// What may not have reached the disk, and why.
    pub lost: Vec<String>,
    /// What is still there, and why.
    pub left: Vec<String>,
}

impl Leftovers {
    /// Whether all was flushed and nothing is left behind.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.lost.is_empty() && self.left.is_empty()
    }
}

/// The owner's reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ControlReply {
    /// To [`ControlRequest::Status`].
    Status(Health),
    /// To [`ControlRequest::Server`]: the URI of the one that is used, or was last, where one server at a time has the disk.
    Server(Option<String>),
    /// To [`ControlRequest::Refresh`]: the size of the device now, bytes.
    Size(u64),
    /// To [`ControlRequest::Detach`]: it is down, and the owner ends now.
    Detached(Leftovers),
    /// To [`ControlRequest::Detach`] and [`ControlRequest::Refresh`]: it is as it was, and why.
    Refused(String),
}
