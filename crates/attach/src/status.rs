//! `status`: what is attached on this machine, and how it is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use crate::daemon::control::send_request;
use crate::daemon::message::{ControlReply, ControlRequest, OwnerReport};
use crate::error::AttachError;
use crate::health::{Health, ServerUse};
use crate::local::CacheCounts;
use crate::mount;
use crate::request::Source;
use crate::state::{self, DeviceDriver, Folder, MountPlace, Record, RuntimeDir};
use crate::sysfs;

/// How long an owner may take to answer.
const ANSWER_FOR: Duration = Duration::from_secs(2);

/// An attachment and how it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttachmentStatus {
    /// Its short name.
    pub id: String,
    /// The disk, as requested.
    pub source: String,
    /// Of several servers of the disk, the one that is used, or was last.
    #[serde(flatten)]
    pub used: Option<ServerUse>,
    /// The export below its cache file, as a URI, where such a disk is attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached: Option<String>,
    /// The cache files in front of its disks, and the reads that they answered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<CacheCounts>,
    /// The block device, once there is one.
    pub device: Option<PathBuf>,
    /// Where it is mounted.
    pub mount: Option<MountPlace>,
    /// The way it takes.
    pub via: DeviceDriver,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Size, bytes.
    pub size: u64,
    /// The process that owns it.
    pub pid: u32,
    /// Since when, seconds since 1970.
    pub since: u64,
    /// How it is.
    pub health: Health,
    /// Where its process writes what happens.
    pub log: PathBuf,
}

impl AttachmentStatus {
    /// The disk on the server that is used, as a URI; of one with a single server, or none, as it was requested.
    #[must_use]
    pub fn disk(&self) -> &str {
        let used = self.used.as_ref();
        used.map_or(&self.source, |used| &used.server)
    }
}

/// Every attachment of this user.
///
/// # Errors
/// If the runtime directory cannot be read.
pub fn status() -> Result<Vec<AttachmentStatus>, AttachError> {
    let mut all = Vec::new();
    for folder in RuntimeDir::of_user()?.list()? {
        match folder.read() {
            Ok(Some(record)) => all.push(of(&folder, record)),
            Ok(None) => {}
            Err(e) if e.is_denied() => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(all)
}

/// How many attachments there are that this user may not look at: those of root.
#[must_use]
pub fn hidden_attachments() -> usize {
    if rustix::process::geteuid().is_root() {
        return 0;
    }
    let mut folders = RuntimeDir::of_root().list().unwrap_or_default();
    folders.extend(
        RuntimeDir::of_user()
            .and_then(|dir| dir.list())
            .unwrap_or_default(),
    );
    let is_hidden = |folder: &&Folder| folder.read().is_err_and(|e| e.is_denied());
    folders.iter().filter(is_hidden).count()
}

fn of(folder: &Folder, record: Record) -> AttachmentStatus {
    let OwnerReport {
        health,
        used,
        caches,
    } = report(folder, &record);
    let source = Source::Remote(record.source.clone());
    AttachmentStatus {
        size: size(&record),
        health,
        used: used.filter(|_| source.has_several_servers()),
        caches,
        cached: record.cached,
        log: folder.log_path(),
        id: record.id,
        source: record.source,
        mount: record
            .mount
            .filter(|place| is_mounted(record.device.as_deref(), place)),
        device: record.device,
        via: record.driver,
        read_only: record.read_only,
        pid: record.process.pid,
        since: record.since,
    }
}

/// Whether the device, or a partition of it, is mounted there: it may have been unmounted since.
fn is_mounted(device: Option<&Path>, place: &MountPlace) -> bool {
    let Some(device) = device else { return false };
    let mounted = mount::mounted_at(&sysfs::numbers(device));
    // Where the mounts cannot be read the record is all there is.
    mounted.map_or(true, |dirs| dirs.contains(&place.dir))
}

/// The device's own, since it may have grown; as long as there is none, what is written down.
fn size(record: &Record) -> u64 {
    match record.device.as_deref().map_or(0, sysfs::size) {
        0 => record.size,
        size => size,
    }
}

/// What the owner reports, or what is known without it.
fn report(folder: &Folder, record: &Record) -> OwnerReport {
    let health = match (state::is_alive(record.process), record.ready) {
        (false, _) => Health::Dead,
        (true, false) => Health::Starting,
        (true, true) => {
            match send_request(&folder.socket_path(), ControlRequest::Status, ANSWER_FOR) {
                Ok(ControlReply::Status(report)) => return report,
                _ => Health::Unresponsive,
            }
        }
    };
    health.into()
}
