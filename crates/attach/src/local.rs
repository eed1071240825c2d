//! [`LocalDisk`]: an opened disk of this machine, and its supervisor.

use std::path::PathBuf;
use std::pin::Pin;

use block::Node;
use serde::{Deserialize, Serialize};

/// A disk of this machine that was opened to be attached.
pub struct LocalDisk {
    /// The disk.
    pub disk: Node,
    /// Its supervisor, if it has state of its own.
    pub supervisor: Option<Box<dyn DiskSupervisor>>,
}

/// Why a disk of this machine was not opened.
#[derive(Debug)]
pub struct LocalDiskError {
    /// Which one and why.
    pub why: String,
    /// A server below it could not be reached: another attempt may go better.
    pub is_of_the_server: bool,
}

impl From<String> for LocalDiskError {
    fn from(why: String) -> Self {
        Self {
            why,
            is_of_the_server: false,
        }
    }
}

/// What a cache file in front of a disk has done since it was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheCounts {
    /// The cache file.
    pub file: PathBuf,
    /// Reads that it answered by itself.
    pub hits: u64,
    /// Reads that the disk behind it was read for.
    pub misses: u64,
}

/// Supervises a disk that has state of its own: an array, which may be degraded and
/// must be stopped in order.
pub trait DiskSupervisor: Send + Sync {
    /// Why the disk is degraded although it answers, for `status`.
    fn problem(&self) -> Option<String>;

    /// The cache files in front of disks below it, and what they have done. None without an implementation.
    fn caches(&self) -> Vec<CacheCounts> {
        Vec::new()
    }

    /// Ends it in order, behind the last request and a flush.
    fn close(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>>;
}

impl From<Node> for LocalDisk {
    fn from(disk: Node) -> Self {
        Self {
            disk,
            supervisor: None,
        }
    }
}
