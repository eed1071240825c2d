//! [`Stream`]: a connected socket, TCP, Unix or vsock, bare or under TLS, without waiting.
//!
//! # Invariants
//!
//! * A caller whose bytes were sent in part sends the rest again, the same bytes:
//!   under TLS some of them may be sealed already.
//! * A machine that is gone is detected: over TCP the kernel probes it. The end of a Unix or vsock
//!   peer is its socket's.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BufMut;
use rustix::net::sockopt;
use tokio::net::{TcpStream, UnixStream};

use crate::client::Address;
#[cfg(test)]
use crate::client::tests::worlds::network::{self, Socket};
use crate::tls::{Link, RawSocket};
use crate::vsock;

/// Longest time between two questions of TCP to a machine that says nothing.
const ASK_EVERY_MAX: Duration = Duration::from_secs(60);
/// Questions without an answer, at most: what the kernel takes.
const ASK_TIMES_MAX: u32 = 127;

/// A connected socket.
#[derive(Debug)]
enum Plain {
    Tcp(TcpStream),
    /// Unix, or vsock.
    Unix(UnixStream),
    /// On the simulated network of a test.
    #[cfg(test)]
    Simulated(Socket),
}

/// A connection.
#[derive(Debug)]
pub(super) struct Stream {
    plain: Plain,
    link: Option<Box<Link>>,
}

impl Plain {
    async fn connect(address: &Address, limit: Duration) -> io::Result<Self> {
        #[cfg(test)]
        if let Some(network) = network::installed() {
            return network.connect(address).await.map(Self::Simulated);
        }
        match address {
            Address::Tcp { host, port } => {
                let stream = connect_tcp(host, *port).await?;
                // A port without a listener in the range of outgoing ports can connect to itself.
                if stream.local_addr()? == stream.peer_addr()? {
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
                stream.set_nodelay(true)?;
                ask_silent_server(&stream, limit)?;
                engine::tcp::unpace_within_machine(stream.as_fd());
                Ok(Self::Tcp(stream))
            }
            Address::Unix(path) => UnixStream::connect(path).await.map(Self::Unix),
            Address::Vsock(address) => vsock::connect(*address).await.map(Self::Unix),
        }
    }
}

/// Connects to the first of the host's addresses that answers. Reports a refusal only where all of them refuse: then no server
/// is there.
async fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::AddrNotAvailable, "the host has no address");
    for (nth, address) in tokio::net::lookup_host((host, port)).await?.enumerate() {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) if nth == 0 || error.kind() != io::ErrorKind::ConnectionRefused => {
                failure = error;
            }
            Err(_) => {}
        }
    }
    Err(failure)
}

/// Finds out within `limit` (2 s at least) about a machine that vanished while nothing was under way
/// to it. Without `TCP_USER_TIMEOUT`, which also ends connections to a server that is there and
/// takes nothing, because it waits for its disk.
fn ask_silent_server(stream: &TcpStream, limit: Duration) -> io::Result<()> {
    let every = (limit / 4).clamp(Duration::from_secs(1), ASK_EVERY_MAX);
    let every = Duration::from_secs(every.as_secs());
    let times = (limit.as_secs() / every.as_secs()).saturating_sub(1);
    let times = u32::try_from(times).unwrap_or(ASK_TIMES_MAX);
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, every)?;
    sockopt::set_tcp_keepintvl(stream, every)?;
    sockopt::set_tcp_keepcnt(stream, times.clamp(1, ASK_TIMES_MAX))?;
    Ok(())
}

impl RawSocket for Plain {
    fn receive(&self, into: &mut [u8], _eagerly: bool) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(into),
            Self::Unix(stream) => stream.try_read(into),
            #[cfg(test)]
            Self::Simulated(socket) => socket.try_read(into),
        }
    }

    fn send(&self, bytes: &[u8], _more: bool) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
            #[cfg(test)]
            Self::Simulated(socket) => socket.try_write(bytes),
        }
    }
}

impl Stream {
    /// Connects to the first address of `address` that answers. A machine that has vanished is found
    /// out about within `limit`.
    pub(super) async fn connect(address: &Address, limit: Duration) -> io::Result<Self> {
        let plain = Plain::connect(address, limit).await?;
        Ok(Self { plain, link: None })
    }

    /// From here on there is only TLS on it.
    pub(super) fn secure(&mut self, link: Link) {
        assert!(self.link.is_none(), "TLS begins once");
        self.link = Some(Box::new(link));
    }

    /// Receives into the free part of `into`.
    pub(super) fn try_read_buf<B: BufMut>(&self, into: &mut B) -> io::Result<usize> {
        match (&self.link, &self.plain) {
            (Some(link), plain) => link.receive(plain, into, false),
            (None, Plain::Tcp(stream)) => stream.try_read_buf(into),
            (None, Plain::Unix(stream)) => stream.try_read_buf(into),
            #[cfg(test)]
            (None, Plain::Simulated(socket)) => socket.try_read_buf(into),
        }
    }

    /// Receives over `into`.
    pub(super) fn try_read(&self, mut into: &mut [u8]) -> io::Result<usize> {
        match &self.link {
            Some(link) => link.receive(&self.plain, &mut into, false),
            None => self.plain.receive(into, false),
        }
    }

    /// Sends as much of `parts` as the socket takes.
    pub(super) fn try_write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match (&self.link, &self.plain) {
            (Some(link), plain) => link.send(plain, parts, false),
            (None, Plain::Tcp(stream)) => stream.try_write_vectored(parts),
            (None, Plain::Unix(stream)) => stream.try_write_vectored(parts),
            #[cfg(test)]
            (None, Plain::Simulated(socket)) => socket.try_write_vectored(parts),
        }
    }

    /// Ready when there may be something to receive, or an error to be had.
    pub(super) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.link.as_ref().is_some_and(|link| link.has_received()) {
            return Poll::Ready(());
        }
        let ready = match &self.plain {
            Plain::Tcp(stream) => stream.poll_read_ready(cx),
            Plain::Unix(stream) => stream.poll_read_ready(cx),
            #[cfg(test)]
            Plain::Simulated(socket) => socket.poll_read_ready(cx),
        };
        // The next receive returns the error.
        ready.map(drop)
    }

    /// Ready when something may be sent, or there is an error to be had.
    pub(super) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let ready = match &self.plain {
            Plain::Tcp(stream) => stream.poll_write_ready(cx),
            Plain::Unix(stream) => stream.poll_write_ready(cx),
            #[cfg(test)]
            Plain::Simulated(socket) => socket.poll_write_ready(cx),
        };
        ready.map(drop)
    }

    /// How long nothing was heard of the server's machine, if it owes TCP an answer.
    pub(super) fn unheard_for(&self) -> Option<Duration> {
        #[cfg(test)]
        if let Plain::Simulated(socket) = &self.plain {
            return socket.unheard_for();
        }
        let Plain::Tcp(stream) = &self.plain else {
            return None;
        };
        // Where the kernel does not report it, its own limits apply.
        engine::tcp::unheard_for(stream.as_fd()).ok().flatten()
    }

    /// Receives once; 0 bytes: the other side closed.
    pub(super) async fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            std::future::poll_fn(|cx| self.poll_readable(cx)).await;
            match self.try_read(into) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    /// Sends all of `bytes`.
    pub(super) async fn send_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            std::future::poll_fn(|cx| self.poll_writable(cx)).await;
            match self.try_write_vectored(&[IoSlice::new(bytes)]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => bytes = &bytes[sent..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Closes it, and over TCP what was not sent yet is not sent: otherwise the kernel would go on
    /// trying for minutes, and a server that comes back would get it after what was sent later.
    pub(super) fn reset(self) {
        #[cfg(test)]
        if let Plain::Simulated(socket) = &self.plain {
            socket.reset();
        }
        if let Plain::Tcp(stream) = &self.plain
            && let Err(e) = sockopt::set_socket_linger(stream, Some(Duration::ZERO))
        {
            tracing::debug!("a connection is closed in good order: {e}");
        }
    }

    /// The bare socket, blocking.
    ///
    /// # Errors
    /// `Unsupported` under TLS, which the new owner of the socket would have to know of.
    pub(super) fn into_blocking(self) -> io::Result<OwnedFd> {
        if self.link.is_some() {
            let text = "a connection under TLS cannot be handed on";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let fd = match &self.plain {
            Plain::Tcp(stream) => stream.as_fd().try_clone_to_owned()?,
            Plain::Unix(stream) => stream.as_fd().try_clone_to_owned()?,
            #[cfg(test)]
            Plain::Simulated(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        rustix::io::ioctl_fionbio(&fd, false)?;
        Ok(fd)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(link) = &self.link {
            link.close(&self.plain);
        }
    }
}
