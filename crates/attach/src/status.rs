//! `status`: what is attached on this machine, and how it is.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::daemon::control::ask;
use crate::daemon::message::{Ask, Reply};
use crate::error::AttachError;
use crate::health::Health;
use crate::state::{self, Folder, MountPlace, Record, RuntimeDir, Way};
use crate::sysfs;

/// How long an owner may take to answer.
const ANSWER_FOR: Duration = Duration::from_secs(2);

/// An attachment and how it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttachmentStatus {
    /// Its short name.
    pub id: String,
    /// The disk, as it was asked for.
    pub source: String,
    /// The block device, once there is one.
    pub device: Option<PathBuf>,
    /// Where it is mounted.
    pub mount: Option<MountPlace>,
    /// The way it takes.
    pub via: Way,
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

/// Every attachment of this user.
///
/// # Errors
/// If the runtime directory cannot be read.
pub fn status() -> Result<Vec<AttachmentStatus>, AttachError> {
    let mut all = Vec::new();
    for folder in RuntimeDir::of_user()?.list()? {
        if let Some(record) = folder.read()? {
            all.push(of(&folder, record));
        }
    }
    Ok(all)
}

fn of(folder: &Folder, record: Record) -> AttachmentStatus {
    let size = size(&record);
    AttachmentStatus {
        size,
        health: health(folder, &record),
        log: folder.log_path(),
        id: record.id,
        source: record.source,
        device: record.device,
        mount: record.mount,
        via: record.way,
        read_only: record.read_only,
        pid: record.process.pid,
        since: record.since,
    }
}

/// The device's own, since it may have grown; as long as there is none, what is written down.
fn size(record: &Record) -> u64 {
    match record.device.as_deref().map_or(0, sysfs::size) {
        0 => record.size,
        size => size,
    }
}

fn health(folder: &Folder, record: &Record) -> Health {
    if !state::lives(record.process) {
        return Health::Dead;
    }
    if !record.ready {
        return Health::Starting;
    }
    match ask(&folder.socket_path(), Ask::Status, ANSWER_FOR) {
        Ok(Reply::Status(health)) => health,
        _ => Health::Unresponsive,
    }
}
