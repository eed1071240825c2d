//! [`DiskPerClient`]: opens the disks of an export's clients.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use block::{Geometry, Node};
use serde::{Deserialize, Serialize};

use super::client_name::{ClientName, Nameless};
use crate::server::peer::Peer;

/// A future of a disk of one client.
pub type ClientFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why a client does not get its disk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct CannotOpen {
    /// The text for the client, without paths of the server.
    pub client_message: String,
    /// The text for the log.
    pub cause: String,
}

/// A client's disk, whether it is open or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientDiskFigures {
    /// The name of the client.
    pub name: ClientName,
    /// Connections that use it.
    pub connections: u64,
    /// Bytes that its changes take, where that is known.
    pub bytes: Option<u64>,
    /// Bytes that they may take.
    pub quota: Option<u64>,
    /// When the client was last seen, seconds since 1970.
    pub last_seen: Option<u64>,
    /// What the image is called that it changes.
    pub image: String,
    /// Number of that image, as [`DiskPerClient::image`] returns it.
    pub image_id: String,
    /// New clients get another image.
    pub is_older: bool,
}

/// Disks that several servers have, with a storage that fences them: when [`DiskPerClient::open`] returns, no other server changes the
/// disk, and what one flushed is there. Such a disk has an identity ([`block::BlockDevice::identity`]), the same on each server.
pub trait DiskFence: Debug + Send + Sync {
    /// Resolves when the disk of `name`, which is open, is another server's (`true`) or closed. It does not keep the disk open.
    fn lost(&self, name: &ClientName) -> ClientFuture<'static, bool>;

    /// Whether the disk of `name`, which is open, still is this server's: no other one had opened it at a moment after the call.
    ///
    /// # Errors
    /// The storage does not answer.
    fn confirm<'a>(&'a self, name: &'a ClientName) -> ClientFuture<'a, Result<bool, CannotOpen>>;
}

/// Opens the disks of an export's clients.
pub trait DiskPerClient: Debug + Send + Sync {
    /// What each client's disk is before it is opened.
    fn geometry(&self) -> &Geometry;

    /// What `peer` is called.
    ///
    /// # Errors
    /// [`Nameless`]: it is refused.
    fn name(&self, peer: &Peer) -> Result<ClientName, Nameless>;

    /// The number of the image that they change: those of another image are others.
    fn image(&self) -> &str;

    /// Opens the disk of `name`, and makes it where there is none. Never called for a name with
    /// an open disk.
    fn open<'a>(&'a self, name: &'a ClientName) -> ClientFuture<'a, Result<Node, CannotOpen>>;

    /// Where other servers have the same disks: how this one learns that it lost one. `None` where no other server can open them.
    fn fence(&self) -> Option<&dyn DiskFence> {
        None
    }

    /// The disk of `name` was closed.
    fn closed<'a>(&'a self, name: &'a ClientName) -> ClientFuture<'a, ()>;

    /// Removes the disk of `name` that changes the image of that number. Not called while it is
    /// open here.
    fn remove<'a>(
        &'a self,
        name: &'a ClientName,
        image: &'a str,
    ) -> ClientFuture<'a, Result<(), String>>;

    /// All that there are, those of older images too. May block.
    fn list(&self) -> Vec<ClientDiskFigures>;
}
