//! [`Stream`]: a connected socket, TCP or Unix, without waiting.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};

use bytes::BufMut;
use rustix::net::sockopt;
use tokio::net::{TcpStream, UnixStream};

use crate::client::Address;

/// A connected socket.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Connects to the first address of `address` that answers.
    pub(super) async fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                // A port without a listener in the range of outgoing ports can connect to itself.
                if stream.local_addr()? == stream.peer_addr()? {
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
                stream.set_nodelay(true)?;
                // Finds out about a server that vanished while nothing was asked of it.
                sockopt::set_socket_keepalive(&stream, true)?;
                Ok(Self::Tcp(stream))
            }
            Address::Unix(path) => UnixStream::connect(path).await.map(Self::Unix),
        }
    }

    /// Receives into the free part of `into`.
    pub(super) fn try_read_buf<B: BufMut>(&self, into: &mut B) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read_buf(into),
            Self::Unix(stream) => stream.try_read_buf(into),
        }
    }

    /// Receives over `into`.
    pub(super) fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(into),
            Self::Unix(stream) => stream.try_read(into),
        }
    }

    /// Sends as much of `parts` as the socket takes.
    pub(super) fn try_write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write_vectored(parts),
            Self::Unix(stream) => stream.try_write_vectored(parts),
        }
    }

    /// Ready when there may be something to receive, or an error to be had.
    pub(super) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let ready = match self {
            Self::Tcp(stream) => stream.poll_read_ready(cx),
            Self::Unix(stream) => stream.poll_read_ready(cx),
        };
        // What is wrong is told by the next receive.
        ready.map(drop)
    }

    /// Ready when something may be sent, or there is an error to be had.
    pub(super) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let ready = match self {
            Self::Tcp(stream) => stream.poll_write_ready(cx),
            Self::Unix(stream) => stream.poll_write_ready(cx),
        };
        ready.map(drop)
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

    /// The bare socket, blocking.
    pub(super) fn into_blocking(self) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(stream) => {
                let stream = stream.into_std()?;
                stream.set_nonblocking(false)?;
                Ok(stream.into())
            }
            Self::Unix(stream) => {
                let stream = stream.into_std()?;
                stream.set_nonblocking(false)?;
                Ok(stream.into())
            }
        }
    }
}
