//! [`LocalDisk`]: an opened disk of this machine, and who looks after it.

use std::pin::Pin;

use block::Node;

/// A disk of this machine that was opened to be attached.
pub struct LocalDisk {
    /// The disk.
    pub disk: Node,
    /// Who looks after it beside its requests, if anybody has to.
    pub supervisor: Option<Box<dyn DiskSupervisor>>,
}

/// Looks after a disk that has a state of its own: an array, which may go on with fewer members and
/// wants to be stopped in order.
pub trait DiskSupervisor: Send + Sync {
    /// What is wrong with the disk although it answers, for `status`.
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
