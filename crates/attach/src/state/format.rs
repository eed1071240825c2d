//! [`Record`]: what an attachment writes down about itself. JSON, one file.
//!
//! `status` and `detach` have only this file of an attachment without a process, so it
//! names everything that must be taken down. Unknown fields are ignored, another version is refused.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Version of the record written here.
pub(crate) const VERSION: u32 = 1;

/// Which way an attachment takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceDriver {
    /// The kernel's nbd client.
    Kernel,
    /// A FUSE file under a loop device.
    Fuse,
}

impl std::fmt::Display for DeviceDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Kernel => "kernel",
            Self::Fuse => "fuse",
        })
    }
}

/// A mounted attachment's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountPlace {
    /// The directory, absolute.
    pub dir: PathBuf,
    /// Whether `attach` made the directory; `detach` removes it then.
    pub created: bool,
}

/// A process that cannot be mistaken for a later one with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// When it was started, clock ticks since boot.
    pub start_ticks: u64,
}

/// What an attachment writes down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// Short name, unique in the runtime directory.
    pub(crate) id: String,
    /// The process that owns it.
    pub(crate) process: ProcessId,
    /// The disk, as requested.
    pub(crate) source: String,
    /// The URI of the export that it is a cache of.
    #[serde(default)]
    pub(crate) cached: Option<String>,
    /// What drives the device.
    #[serde(rename = "way")]
    pub(crate) driver: DeviceDriver,
    /// The name of its own, if it was given one.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// The block device, once there is one.
    pub(crate) device: Option<PathBuf>,
    /// Where it is mounted, if requested. Written before the directory is touched.
    pub(crate) mount: Option<MountPlace>,
    /// The number of its FUSE connection, below `/sys/fs/fuse/connections`.
    #[serde(default)]
    pub(crate) fuse_connection: Option<u32>,
    /// Whether writes are refused.
    pub(crate) read_only: bool,
    /// Whether others may write to the disk meanwhile, because its users coordinate.
    #[serde(default)]
    pub(crate) shared: bool,
    /// Size, bytes; 0 until it is known.
    pub(crate) size: u64,
    /// When, seconds since 1970.
    pub(crate) since: u64,
    /// Whether the attachment is complete.
    pub(crate) ready: bool,
}

/// Why a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FormatError {
    /// Not the JSON it should be.
    #[error("it is damaged: {0}")]
    Json(#[from] serde_json::Error),
    /// Written by another version.
    #[error("it has version {found}; this program reads version {VERSION}")]
    Version {
        /// What it says.
        found: u64,
    },
}

/// The bytes of a record.
pub(crate) fn encode(record: &Record) -> Result<Vec<u8>, FormatError> {
    let mut bytes = serde_json::to_vec_pretty(record)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The record in `bytes`.
pub(crate) fn decode(bytes: &[u8]) -> Result<Record, FormatError> {
    let value: serde_json::Value = serde_json::from_slice(bytes)?;
    match value.get("version").and_then(serde_json::Value::as_u64) {
        Some(found) if found != u64::from(VERSION) => Err(FormatError::Version { found }),
        _ => Ok(serde_json::from_slice(bytes)?),
    }
}

impl Record {
    /// The loop device's label and the nbd device's backend name: by it a device is known to be this
    /// attachment's before it is touched. The process makes it differ from that of an attachment
    /// with the same short name in another runtime directory.
    pub(crate) fn label(&self) -> String {
        format!("outboard-{}-{}", self.id, self.process.pid)
    }
}
