//! [`LocalDisk`]: an opened disk of this machine, and its supervisor.

use std::pin::Pin;

use block::Node;

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

/// Supervises a disk that has state of its own: an array, which may be degraded and
/// must be stopped in order.
pub trait DiskSupervisor: Send + Sync {
    /// Why the disk is degraded although it answers, for `status`.
    fn problem(&self) -> Option<String>;

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
