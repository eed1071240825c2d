//! Listeners: `/proc/net/tcp`, `/proc/net/unix` and the files that processes have open (source: proc(5)); and
//! free ports.
//!
//! Only processes that may be looked at are found: one's own, and all for root.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::path::Path;

use crate::sensors::read;

/// Entries of `/proc` that are looked at to find a socket's owner.
const PROCESSES_MAX: usize = 100_000;
/// State of a listening socket in `/proc/net/tcp`.
const TCP_LISTEN: &str = "0A";

/// The process that listens on a TCP port of this machine.
#[must_use]
pub fn owner_of_tcp(port: u16) -> Option<u32> {
    owner_of(&tcp_listeners(port))
}

/// The process that listens at a path.
#[must_use]
pub fn owner_of_unix(path: &Path) -> Option<u32> {
    owner_of(&unix_listeners(path))
}

/// Whether a process listens on a TCP port of this machine.
#[must_use]
pub fn listens(port: u16) -> bool {
    !tcp_listeners(port).is_empty()
}

/// A TCP port that is free now, for a program that takes no open socket: if it no longer is in a moment, that
/// program ends.
///
/// # Errors
/// Of the system: it has no such address, or no port.
pub fn free_port(address: IpAddr) -> io::Result<u16> {
    Ok(TcpListener::bind((address, 0))?.local_addr()?.port())
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
    let mut processes = read::pids().take(PROCESSES_MAX);
    processes.find(|id| has_open(*id, &wanted))
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
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::{listens, owner_of_tcp, owner_of_unix, tcp_inodes, unix_inodes};

    const TCP: &str = "\
      sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
       0: 0100007F:2A39 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0
       1: 0100007F:2A39 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0
       2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0
    ";

    #[test]
    fn only_listening_sockets_of_the_port_count() {
        assert_eq!(tcp_inodes(TCP, 10809), [4711]);
        assert_eq!(tcp_inodes(TCP, 22), [4713]);
        assert_eq!(tcp_inodes(TCP, 23), [0_u64; 0]);
        assert_eq!(tcp_inodes("", 22), [0_u64; 0]);
    }

    #[test]
    fn a_unix_socket_is_known_by_its_whole_path() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                     0000000000000000: 00000002 00000000 00010000 0001 01 4711 /run/a b\n\
                     0000000000000000: 00000002 00000000 00010000 0001 01 4712 /run/a\n\
                     0000000000000000: 00000003 00000000 00000000 0001 03 4713\n";
        assert_eq!(unix_inodes(table, "/run/a b"), [4711]);
        assert_eq!(unix_inodes(table, "/run/a"), [4712]);
    }

    #[test]
    fn this_process_is_found_behind_its_own_sockets() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        assert!(listens(port));
        assert_eq!(owner_of_tcp(port), Some(std::process::id()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let unix = UnixListener::bind(&path).unwrap();
        assert_eq!(owner_of_unix(&path), Some(std::process::id()));
        drop((tcp, unix));
    }
}
