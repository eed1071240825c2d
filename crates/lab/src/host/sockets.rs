//! Sockets of this machine and the processes that have them open: `/proc/net/tcp`, `/proc/net/unix` and the
//! descriptors of processes (source: proc(5)); and free ports.
//!
//! Only processes that may be looked at are found: one's own, and all for root.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;

use crate::sensors::read;

/// Entries of `/proc` that are looked at to find a socket's owner.
const PROCESSES_MAX: usize = 100_000;
/// State of a listening socket in `/proc/net/tcp`.
const TCP_LISTEN: &str = "0A";

/// One row of `/proc/net/tcp`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TcpSocket {
    /// Address and port, in hexadecimal.
    local: String,
    /// The same of the other end.
    remote: String,
    is_listening: bool,
    inode: u64,
}

/// The process that listens on a TCP port of this machine.
#[must_use]
pub fn owner_of_tcp(port: u16) -> Option<u32> {
    owners(&tcp_listeners(port)).next()
}

/// The process that listens at a path.
#[must_use]
pub fn owner_of_unix(path: &Path) -> Option<u32> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    owners(&unix_inodes(&table, &path.to_string_lossy())).next()
}

/// Whether a process listens on a TCP port of this machine.
#[must_use]
pub fn listens(port: u16) -> bool {
    !tcp_listeners(port).is_empty()
}

/// The other processes of this machine at the other end of TCP connections that `processes` have.
#[must_use]
pub fn peers_of(processes: &[u32]) -> Vec<u32> {
    let sockets = tcp_sockets();
    let own: Vec<u64> = processes.iter().flat_map(|id| inodes_of(*id)).collect();
    let ours = sockets.iter().filter(|socket| own.contains(&socket.inode));
    let theirs: Vec<u64> = ours
        .flat_map(|our| {
            let back = |one: &&TcpSocket| (&one.local, &one.remote) == (&our.remote, &our.local);
            sockets.iter().filter(back).map(|one| one.inode)
        })
        .filter(|inode| !own.contains(inode))
        .collect();
    owners(&theirs).collect()
}

/// This end of each TCP connection that a process has, those in other network namespaces left out.
#[must_use]
pub fn local_addresses(process: u32) -> Vec<SocketAddr> {
    let own: Vec<u64> = inodes_of(process).collect();
    let sockets = tcp_sockets().into_iter();
    let ours = sockets.filter(|socket| !socket.is_listening && own.contains(&socket.inode));
    ours.filter_map(|socket| parse_address(&socket.local))
        .collect()
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
    listening(&tcp_sockets(), port)
}

fn listening(sockets: &[TcpSocket], port: u16) -> Vec<u64> {
    let local_end = format!(":{port:04X}");
    let listen = |one: &&TcpSocket| one.is_listening && one.local.ends_with(&local_end);
    sockets.iter().filter(listen).map(|one| one.inode).collect()
}

fn tcp_sockets() -> Vec<TcpSocket> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter();
    let tables = tables.filter_map(|table| std::fs::read_to_string(table).ok());
    tables.flat_map(|table| parse_tcp(&table)).collect()
}

/// `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …` (proc(5)).
fn parse_tcp(table: &str) -> Vec<TcpSocket> {
    let socket = |line: &str| {
        let mut cells = line.split_whitespace().skip(1);
        Some(TcpSocket {
            local: cells.next()?.to_owned(),
            remote: cells.next()?.to_owned(),
            is_listening: cells.next()? == TCP_LISTEN,
            inode: cells.nth(5)?.parse().ok()?,
        })
    };
    table.lines().skip(1).filter_map(socket).collect()
}

/// `0100007F:2A39`: an address as one word of the host's byte order for IPv4 and four of them for IPv6, and a port.
fn parse_address(cell: &str) -> Option<SocketAddr> {
    let (address, port) = cell.split_once(':')?;
    let words = address.as_bytes().chunks(8).map(|word| {
        let word = std::str::from_utf8(word).ok()?;
        u32::from_str_radix(word, 16).ok().map(u32::from_be)
    });
    let words: Option<Vec<u32>> = words.collect();
    let address = match words?.as_slice() {
        [bits] => IpAddr::from(Ipv4Addr::from_bits(*bits)),
        &[a, b, c, d] => {
            let joined = [a, b, c, d].into_iter();
            let bits = joined.fold(0, |all, word| (all << 32) | u128::from(word));
            IpAddr::from(Ipv6Addr::from_bits(bits))
        }
        _ => return None,
    };
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(SocketAddr::new(address, port))
}

/// Inodes of the sockets that are bound to a path: `Num RefCount Protocol Flags Type St Inode Path` (proc(5)); the
/// path may hold blanks.
fn unix_inodes(table: &str, path: &str) -> Vec<u64> {
    let rows = table
        .lines()
        .skip(1)
        .filter(|line| line.ends_with(&format!(" {path}")));
    rows.filter_map(|line| line.split_whitespace().nth(6)?.parse().ok())
        .collect()
}

/// The processes that have one of these sockets open, of those that may be looked at.
fn owners(inodes: &[u64]) -> impl Iterator<Item = u32> {
    let processes = match inodes.is_empty() {
        true => 0,
        false => PROCESSES_MAX,
    };
    let has = move |id: &u32| inodes_of(*id).any(|inode| inodes.contains(&inode));
    read::pids().take(processes).filter(has)
}

/// Inodes of the sockets that a process has open.
fn inodes_of(process: u32) -> impl Iterator<Item = u64> {
    read::descriptors(process).filter_map(|(_, file)| {
        let number = file.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        number.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::{
        listening, listens, local_addresses, owner_of_tcp, owner_of_unix, parse_tcp, peers_of,
        unix_inodes,
    };

    const TCP: &str = "\
      sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
       0: 0100007F:2A39 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0
       1: 0100007F:2A39 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0
       2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0
    ";

    #[test]
    fn only_listening_sockets_of_the_port_count() {
        let inodes = |table, port| listening(&parse_tcp(table), port);
        assert_eq!(inodes(TCP, 10809), [4711]);
        assert_eq!(inodes(TCP, 22), [4713]);
        assert_eq!(inodes(TCP, 23), [0_u64; 0]);
        assert_eq!(inodes("", 22), [0_u64; 0]);
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

    #[test]
    fn rows_name_the_connected_process() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:2A39 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1 0 100 0 0 10 0\n\
            1: 0100007F:A2C2 0100007F:2A39 01 00000000:00000000 00:00000000 00000000     0        0 78 1 0 20 4 30 10 -1\n";
        let rows = parse_tcp(table);
        assert_eq!((rows[0].inode, rows[1].inode), (77, 78));
        assert_eq!(rows[1].remote, rows[0].local);
    }

    #[test]
    fn a_process_that_talks_to_itself_has_no_peer() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let _one = std::net::TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        let _other = listener.accept().expect("its other end");
        assert!(peers_of(&[std::process::id()]).is_empty());
    }

    #[test]
    fn a_connections_own_address_is_found_by_its_process() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(host) else {
                eprintln!("skipped: no {host} here");
                continue;
            };
            let listens_at = listener.local_addr().expect("an address");
            let one = std::net::TcpStream::connect(listens_at).expect("a connection");
            let own = local_addresses(std::process::id());
            assert!(
                own.contains(&one.local_addr().expect("an address")),
                "{own:?}"
            );
        }
    }
}
