//! Messages between the processes: one JSON line each way.
//!
//! parent -> child (standard input): [`Launch`] · child -> parent (standard output): [`LaunchResult`] ·
//! `status`, `detach` -> owner (control socket): [`ControlRequest`] · owner -> them: [`ControlReply`].

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::health::{Health, ServerUse};
use crate::local::CacheCounts;
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
    /// Report the health, and the server that is used.
    Status,
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

/// How an attachment is, from its owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnerReport {
    /// How it is. The owner of an attachment that an older version made reports this alone.
    #[serde(flatten)]
    pub(crate) health: Health,
    /// The server that is used, where one server at a time has the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) used: Option<ServerUse>,
    /// The cache files in front of its disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) caches: Vec<CacheCounts>,
}

impl From<Health> for OwnerReport {
    /// A report of nothing else.
    fn from(health: Health) -> Self {
        Self {
            health,
            used: None,
            caches: Vec::new(),
        }
    }
}

/// The owner's reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ControlReply {
    /// To [`ControlRequest::Status`].
    Status(OwnerReport),
    /// To [`ControlRequest::Refresh`]: the size of the device now, bytes.
    Size(u64),
    /// To [`ControlRequest::Detach`]: it is down, and the owner ends now.
    Detached(Leftovers),
    /// To [`ControlRequest::Detach`] and [`ControlRequest::Refresh`]: it is as it was, and why.
    Refused(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attachment lives on when the program is replaced by a newer one, or an older one.
    #[test]
    fn owners_and_programs_of_other_versions_agree_on_the_health() {
        let gone = Health::Reconnecting {
            for_s: 7,
            why: "refused".into(),
        };
        let used = ServerUse {
            server: "nbd://a/x".into(),
            server_changes: 2,
            unreachable_s: 7,
        };
        for health in [gone, Health::Connected] {
            let old = serde_json::json!({ "status": health });
            let reply = ControlReply::Status(health.clone().into());
            assert_eq!(serde_json::to_value(&reply).unwrap(), old);
            assert_eq!(serde_json::from_value::<ControlReply>(old).unwrap(), reply);
            let new = ControlReply::Status(OwnerReport {
                health: health.clone(),
                used: Some(used.clone()),
                caches: vec![CacheCounts {
                    file: "/var/cache/x".into(),
                    hits: 3,
                    misses: 1,
                }],
            });
            let json = serde_json::to_value(&new).unwrap();
            let read: Health = serde_json::from_value(json["status"].clone()).unwrap();
            assert_eq!(read, health);
            assert_eq!(serde_json::from_value::<ControlReply>(json).unwrap(), new);
        }
    }
}
