//! NBD server and client: the protocol of `nbd-proto` on sockets, disks behind it.
//!
//! [`server`] serves disks, [`client`] makes a remote export a disk, [`errno`] is the one table
//! between a disk's errors and the protocol's, [`tls`] is what hides both from others.

#![cfg_attr(not(test), deny(clippy::disallowed_types))]

pub mod client;
pub mod errno;
#[cfg(test)]
mod file_disk;
pub mod server;
pub mod tls;
mod vsock;

pub use vsock::{ANY_CID, VsockAddress};
