//! What is behind a directory: the attachment it is on, that one's owner, and its server.
//!
//! All of it only adds figures to a run (CPU of the client and the server, the wire between them), so
//! anything that cannot be found out is left out. A server is found only if it runs on this machine.

use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;

use attach::AttachmentStatus;
use lab::host::sockets;
use nbd::client::{Address, Target};

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttachmentProcesses {
    /// The process that owns the attachment.
    pub client_pid: Option<u32>,
    /// The process that serves it, on this machine.
    pub server_pid: Option<u32>,
    /// The server's address.
    pub peer: Option<IpAddr>,
    /// The server's TCP port.
    pub port: Option<u16>,
}

/// Finds out what is behind `directory`.
#[must_use]
pub fn find(directory: &Path) -> AttachmentProcesses {
    let Some(attachment) = attachment_of(directory) else {
        return AttachmentProcesses::default();
    };
    let client_pid = Some(attachment.pid);
    let Ok(Target { address, .. }) = attachment.disk().parse::<Target>() else {
        return AttachmentProcesses {
            client_pid,
            ..AttachmentProcesses::default()
        };
    };
    match address {
        Address::Tcp { host, port } => {
            let peer = (host.as_str(), port).to_socket_addrs().ok();
            let peer = peer
                .and_then(|mut found| found.next())
                .map(|found| found.ip());
            let here = peer.is_some_and(|peer| peer.is_loopback());
            let server_pid = here.then(|| sockets::owner_of_tcp(port)).flatten();
            AttachmentProcesses {
                client_pid,
                server_pid,
                peer,
                port: Some(port),
            }
        }
        Address::Vsock(_) => AttachmentProcesses {
            client_pid,
            ..AttachmentProcesses::default()
        },
        Address::Unix(path) => {
            let server_pid = sockets::owner_of_unix(&path);
            AttachmentProcesses {
                client_pid,
                server_pid,
                ..AttachmentProcesses::default()
            }
        }
    }
}

/// The attachment with the innermost mount above `directory`.
fn attachment_of(directory: &Path) -> Option<AttachmentStatus> {
    let directory = std::fs::canonicalize(directory).ok()?;
    let all = attach::status().ok()?.into_iter();
    let on = all.filter(|attachment| {
        let mount = attachment.mount.as_ref();
        mount.is_some_and(|place| directory.starts_with(&place.dir))
    });
    on.max_by_key(|attachment| {
        let mount = attachment.mount.as_ref();
        mount.map(|place| place.dir.components().count())
    })
}
