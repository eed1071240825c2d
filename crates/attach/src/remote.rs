//! The one place that talks to the NBD client: a remote disk as a node, and bare connections for the
//! kernel.
use std::os::fd::OwnedFd;
use std::time::Duration;

use block::Node;

use crate::request::AttachRequest;

/// A negotiated connection, before its first request.
#[derive(Debug)]
pub(crate) struct Dialed {
    /// Size of the export, bytes.
    pub(crate) size: u64,
    /// Smallest block, bytes.
    pub(crate) block_size: u32,
    /// Transmission flags.
    pub(crate) flags: u16,
    /// The connection.
    pub(crate) socket: OwnedFd,
}

/// Negotiates one connection as the kernel's client understands it. Blocks.
pub(crate) fn dial(uri: &str, _timeout: Duration) -> Result<Dialed, String> {
    Err(format!("{uri}: no client yet"))
}

/// A remote disk.
#[derive(Debug, Clone)]
pub(crate) struct Remote {}

impl Remote {
    pub(crate) async fn connect(
        uri: &str,
        _request: &AttachRequest,
    ) -> Result<(Self, Node), String> {
        Err(format!("{uri}: no client yet"))
    }
    pub(crate) fn gone(&self) -> Option<(Duration, String)> {
        None
    }
    pub(crate) async fn close(&self) {}
}
