//! [`PlainSocket`]: a connected stream socket of either family, with non-blocking calls that report
//! readiness to the runtime.
//!
//! # Invariants
//!
//! * A transfer shorter than requested clears the socket's readiness: the next call waits for the
//!   kernel's next event instead of trying in vain. Events are edge-triggered, so none is lost.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, sockopt};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use crate::tls::RawSocket;

/// Keepalive probes begin after this idle time…
const SILENCE: Duration = Duration::from_secs(10);
/// …follow at this interval…
const ASK_EVERY: Duration = Duration::from_secs(5);
/// …and after so many without an answer the connection is dead.
const ASK_TIMES: u32 = 3;
/// What was sent is acknowledged within this, or the machine is gone.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(60);

/// A connected stream socket.
#[derive(Debug)]
pub(super) enum PlainSocket {
    /// TCP.
    Tcp(TcpStream),
    /// Unix, or vsock: the runtime, which only waits for it, need not know.
    Unix(UnixStream),
}

impl PlainSocket {
    /// Takes over a connected socket. Called on the core that will serve it.
    ///
    /// # Errors
    /// If it is no stream socket of a known family.
    pub(super) fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        // Checked first: a descriptor that is no socket keeps its flags.
        if sockopt::socket_type(&fd)? != SocketType::STREAM {
            let text = "it is no stream socket";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let family = rustix::net::getsockname(&fd)?.address_family();
        rustix::io::ioctl_fionbio(&fd, true)?;
        match family {
            AddressFamily::UNIX | AddressFamily::VSOCK => {
                Ok(Self::Unix(UnixStream::from_std(fd.into())?))
            }
            AddressFamily::INET | AddressFamily::INET6 => {
                let stream = std::net::TcpStream::from(fd);
                // Replies are sent when they are ready, in as few pieces as there are.
                stream.set_nodelay(true)?;
                ask_silent_peer(&stream)?;
                engine::tcp::unpace_within_machine(stream.as_fd());
                Ok(Self::Tcp(TcpStream::from_std(stream)?))
            }
            other => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!(
                    "sockets of address family {} are not served",
                    other.as_raw()
                ),
            )),
        }
    }

    /// Whether reading may succeed; registers the task otherwise.
    pub(super) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(cx),
            Self::Unix(stream) => stream.poll_read_ready(cx),
        }
    }

    /// Whether writing may succeed; registers the task otherwise.
    pub(super) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_write_ready(cx),
            Self::Unix(stream) => stream.poll_write_ready(cx),
        }
    }

    /// Receives what is there, up to `into.len()` bytes. `Ok(0)` is the end of the stream.
    /// `eagerly` calls the kernel even if no event has announced data.
    pub(super) fn receive(&self, into: &mut [u8], eagerly: bool) -> io::Result<usize> {
        let wanted = into.len();
        let mut call = || Ok(rustix::net::recv(self, &mut *into, RecvFlags::DONTWAIT)?.0);
        if eagerly {
            return call();
        }
        self.transfer(Interest::READABLE, wanted, call)
    }

    /// Receives into two places, one after the other.
    pub(super) fn receive_into(&self, first: &mut [u8], then: &mut [u8]) -> io::Result<usize> {
        let wanted = first.len() + then.len();
        self.transfer(Interest::READABLE, wanted, || {
            let mut places = [io::IoSliceMut::new(first), io::IoSliceMut::new(then)];
            Ok(rustix::io::readv(self, &mut places)?)
        })
    }

    /// Sends `data`; `more` says that something follows at once.
    pub(super) fn send(&self, data: &[u8], more: bool) -> io::Result<usize> {
        let mut flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        flags.set(SendFlags::MORE, more);
        self.transfer(Interest::WRITABLE, data.len(), || {
            Ok(rustix::net::send(self, data, flags)?)
        })
    }

    /// Sends several pieces.
    pub(super) fn send_pieces(&self, pieces: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        let mut flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        flags.set(SendFlags::MORE, more);
        let wanted = pieces.iter().map(|p| p.len()).sum();
        self.transfer(Interest::WRITABLE, wanted, || {
            let mut no_ancillary = rustix::net::SendAncillaryBuffer::default();
            Ok(rustix::net::sendmsg(
                self,
                pieces,
                &mut no_ancillary,
                flags,
            )?)
        })
    }

    /// Sends `len` bytes of `file` at `offset` without copying them here. `Ok(0)`: the file ends
    /// before.
    pub(super) fn send_file(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> io::Result<usize> {
        // A short count may also be the file's end, which no event of the socket announces.
        self.transfer(Interest::WRITABLE, 1, || {
            let mut at = offset;
            Ok(rustix::fs::sendfile(self, file, Some(&mut at), len)?)
        })
    }

    /// Runs one non-blocking call and clears the readiness if it moved less than `wanted`.
    fn transfer(
        &self,
        interest: Interest,
        wanted: usize,
        mut call: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        // The result of the call, which is not made where the runtime knows that the socket is not ready.
        let mut result = Err(io::ErrorKind::WouldBlock.into());
        let run = || {
            result = loop {
                match call() {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    other => break other,
                }
            };
            match &result {
                Ok(count) if *count >= wanted => Ok(()),
                Err(e) if e.kind() != io::ErrorKind::WouldBlock => Ok(()),
                _ => Err(io::ErrorKind::WouldBlock.into()),
            }
        };
        // The result is in `result`: what `try_io` returns only says whether readiness was kept.
        let _kept: io::Result<()> = match self {
            Self::Tcp(stream) => stream.try_io(interest, run),
            Self::Unix(stream) => stream.try_io(interest, run),
        };
        result
    }
}

/// A machine that lost its power closes no connection: without this its connection, and its claim to be the
/// writer, stay for ever.
fn ask_silent_peer(stream: &std::net::TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENCE)?;
    sockopt::set_tcp_keepintvl(stream, ASK_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, ASK_TIMES)?;
    let millis = u32::try_from(UNACKNOWLEDGED_MAX.as_millis()).map_err(io::Error::other)?;
    sockopt::set_tcp_user_timeout(stream, millis)?;
    Ok(())
}

impl RawSocket for PlainSocket {
    fn receive(&self, into: &mut [u8], eagerly: bool) -> io::Result<usize> {
        Self::receive(self, into, eagerly)
    }

    fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize> {
        Self::send(self, bytes, more)
    }
}

impl AsFd for PlainSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}
