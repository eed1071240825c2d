//! What the kernel knows of a TCP connection beyond its bytes: whether the other machine is there, or
//! is this one.

use std::io;
use std::mem::{offset_of, size_of};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt;

/// The beginning of `struct tcp_info` (include/uapi/linux/tcp.h). Times are in milliseconds.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
struct TcpInfo {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    /// Probes without an answer: keepalive ones, or into a window that is shut.
    probes: u8,
    backoff: u8,
    options: u8,
    bit_fields: [u8; 2],
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    /// Segments sent that were not acknowledged.
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
}

/// Bytes of it.
const LEN: u32 = 60;

const _: () = assert!(size_of::<TcpInfo>() == LEN as usize);
const _: () = assert!(offset_of!(TcpInfo, last_ack_recv) == 56);

impl TcpInfo {
    fn unheard_for(&self) -> Option<Duration> {
        let is_asked = self.unacked > 0 || self.probes > 0;
        let heard = self.last_ack_recv.min(self.last_data_recv);
        is_asked.then(|| Duration::from_millis(heard.into()))
    }
}

/// How long nothing was heard of the machine at the other end of `socket`, if it owes an answer to
/// data or to a probe; `None`: it owes none. A machine that is there answers, even if its programs hang.
///
/// # Errors
/// Those of getsockopt(2); also where `socket` is not of TCP.
pub fn unheard_for(socket: BorrowedFd<'_>) -> io::Result<Option<Duration>> {
    let mut info = TcpInfo::default();
    let mut len = LEN;
    // SAFETY: the structure is as the kernel declares its beginning, of the length that is passed, and
    // outlives the call.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(info.unheard_for())
}

/// The congestion control that every kernel has and every process may choose.
const RENO: &str = "reno";

/// Has the bytes of a connection within this machine leave at once, with any congestion control that the
/// machine prefers. BBR, for one, spaces them by a rate that it computes from the times they take, and
/// those depend on the scheduler alone where there is no wire; Reno, where nothing is lost, never waits
/// (docs/adr/0003-large-reads.md). A connection to another machine is left as it is, and so is one
/// with options that cannot be set.
pub fn unpace_within_machine(socket: BorrowedFd<'_>) {
    let is_within = || -> rustix::io::Result<bool> {
        let local: SocketAddr = rustix::net::getsockname(socket)?.try_into()?;
        let peer = rustix::net::getpeername(socket)?.ok_or(Errno::NOTCONN)?;
        let peer: SocketAddr = peer.try_into()?;
        Ok(are_of_one_machine(local.ip(), peer.ip()))
    };
    if is_within() == Ok(true)
        && let Err(e) = sockopt::set_tcp_congestion(socket, RENO)
    {
        tracing::debug!("the congestion control {RENO} cannot be had: {e}");
    }
}

/// Whether a connection between these addresses leaves no machine.
fn are_of_one_machine(local: IpAddr, peer: IpAddr) -> bool {
    let (local, peer) = (local.to_canonical(), peer.to_canonical());
    local == peer || (local.is_loopback() && peer.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A connection within this machine, and what keeps its other end.
    fn connected() -> (TcpStream, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("an address"));
        (stream.expect("a connection"), listener)
    }

    #[test]
    fn a_machine_is_unheard_since_its_last_sign_where_it_owes_an_answer() {
        let quiet = TcpInfo {
            last_ack_recv: 9000,
            last_data_recv: 7000,
            ..TcpInfo::default()
        };
        assert_eq!(quiet.unheard_for(), None);
        let probed = TcpInfo { probes: 1, ..quiet };
        assert_eq!(probed.unheard_for(), Some(Duration::from_secs(7)));
        let unacked = TcpInfo {
            unacked: 1,
            last_ack_recv: 20,
            ..quiet
        };
        assert_eq!(unacked.unheard_for(), Some(Duration::from_millis(20)));
    }

    #[test]
    fn a_connection_within_a_machine_is_found_by_its_addresses() {
        let one = |local: &str, peer: &str| {
            let parse = |text: &str| text.parse().expect("an address");
            are_of_one_machine(parse(local), parse(peer))
        };
        assert!(one("127.0.0.1", "127.0.0.1"));
        assert!(one("127.0.0.2", "127.0.0.1"));
        assert!(one("::ffff:127.0.0.1", "127.0.0.1"));
        assert!(one("::1", "::1"));
        assert!(one("192.0.2.1", "192.0.2.1"));
        assert!(!one("192.0.2.1", "192.0.2.2"));
        assert!(!one("192.0.2.1", "127.0.0.1"));
        assert!(!one("2001:db8::1", "2001:db8::2"));
    }

    #[test]
    fn a_connection_within_the_machine_is_not_paced() {
        let (stream, _listener) = connected();
        unpace_within_machine(stream.as_fd());
        assert_eq!(sockopt::tcp_congestion(&stream).expect("told"), RENO);
        let (unix, _other) = UnixStream::pair().expect("a pair");
        unpace_within_machine(unix.as_fd());
    }

    #[test]
    fn the_kernel_reports_on_tcp_sockets_only() {
        let (stream, _listener) = connected();
        // Nothing was sent, so nothing is owed.
        assert_eq!(unheard_for(stream.as_fd()).expect("told"), None);
        let (unix, _other) = UnixStream::pair().expect("a pair");
        unheard_for(unix.as_fd()).expect_err("no TCP");
    }
}
