//! What is behind a directory: the attachment it is on, that one's owner, and its server.
//!
//! All of it only adds figures to a run (CPU of the client and the server, the wire between them), so
//! whatever cannot be found out is left out. A server is found only if it runs on this machine.

use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;

use attach::AttachmentStatus;
use nbd::client::{Address, Target};

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Behind {
    /// The process that owns the attachment.
    pub(super) client_pid: Option<u32>,
    /// The process that serves it, on this machine.
    pub(super) server_pid: Option<u32>,
    /// The server's address.
    pub(super) peer: Option<IpAddr>,
}

/// Entries of `/proc` that are looked at to find a socket's owner.
const PROCESSES_MAX: usize = 100_000;
/// State of a listening socket in `/proc/net/tcp`.
const TCP_LISTEN: &str = "0A";

/// Finds out what is behind `directory`.
pub(super) fn find(directory: &Path) -> Behind {
    let Some(attachment) = attachment_of(directory) else {
        return Behind::default();
    };
    let client_pid = Some(attachment.pid);
    let Ok(Target { address, .. }) = attachment.source.parse::<Target>() else {
        return Behind {
            client_pid,
            ..Behind::default()
        };
    };
    match address {
        Address::Tcp { host, port } => {
            let peer = (host.as_str(), port).to_socket_addrs().ok();
            let peer = peer
                .and_then(|mut found| found.next())
                .map(|found| found.ip());
            let here = peer.is_some_and(|peer| peer.is_loopback());
            let server_pid = here.then(|| owner_of(&tcp_listeners(port))).flatten();
            Behind {
                client_pid,
                server_pid,
                peer,
            }
        }
        Address::Vsock(_) => Behind {
            client_pid,
            ..Behind::default()
        },
        Address::Unix(path) => {
            let server_pid = owner_of(&unix_listeners(&path));
            Behind {
                client_pid,
                server_pid,
                peer: None,
            }
        }
    }
}

/// The attachment whose mount holds `directory`, the innermost one.
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

/// Inodes of the sockets that listen on a TCP port.
fn tcp_listeners(port: u16) -> Vec<u64> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let tables = tables
        .iter()
        .filter_map(|table| std::fs::read_to_string(table).ok());
    tables.flat_map(|table| tcp_inodes(&table, port)).collect()
}

/// `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …` (proc(5)).
fn tcp_inodes(table: &str, port: u16) -> Vec<u64> {
    let local_end = format!(":{port:04X}");
    let rows = table.lines().skip(1).map(|line| line.split_whitespace());
    rows.filter_map(|mut cells| {
        let local = cells.nth(1)?;
        let state = cells.nth(1)?;
        let inode = cells.nth(5)?;
        (local.ends_with(&local_end) && state == TCP_LISTEN)
            .then_some(inode)?
            .parse()
            .ok()
    })
    .collect()
}

/// Inodes of the sockets that are bound to a path.
fn unix_listeners(path: &Path) -> Vec<u64> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    unix_inodes(&table, &path.to_string_lossy())
}

/// `Num RefCount Protocol Flags Type St Inode Path` (proc(5)); the path may hold blanks.
fn unix_inodes(table: &str, path: &str) -> Vec<u64> {
    let rows = table
        .lines()
        .skip(1)
        .filter(|line| line.ends_with(&format!(" {path}")));
    rows.filter_map(|line| line.split_whitespace().nth(6)?.parse().ok())
        .collect()
}

/// The process that has one of these sockets open, of those that may be looked at.
fn owner_of(inodes: &[u64]) -> Option<u32> {
    let wanted: Vec<String> = inodes
        .iter()
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if wanted.is_empty() {
        return None;
    }
    let processes = std::fs::read_dir("/proc").ok()?.take(PROCESSES_MAX);
    let mut ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.find(|id: &u32| has_open(*id, &wanted))
}

fn has_open(process: u32, wanted: &[String]) -> bool {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{process}/fd")) else {
        return false;
    };
    descriptors
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .any(|link| wanted.iter().any(|name| link.as_os_str() == name.as_str()))
}

#[cfg(test)]
mod tests;
