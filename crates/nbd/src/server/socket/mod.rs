//! [`Socket`]: a client's connection, plain or under TLS. Callers need not know which.
//!
//! # Invariants
//!
//! * Once a socket is secured, nothing goes over it but TLS.
//! * Under TLS bytes may have been received that the socket knows nothing of any more:
//!   [`Socket::poll_readable`] is ready for those too.
//! * After a short send the caller must retry with the rest, the same bytes:
//!   under TLS some of them may be sealed already.
//! * A secured socket says goodbye when it is dropped.

mod plain;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};

use bytes::BufMut;

use crate::tls::Link;
use plain::PlainSocket;

/// A connection.
#[derive(Debug)]
pub(crate) struct Socket {
    plain: PlainSocket,
    link: Option<Box<Link>>,
}

impl Socket {
    /// Takes over a connected socket. Called on the core that will serve it.
    ///
    /// # Errors
    /// If it is no stream socket of a known family.
    pub(crate) fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let plain = PlainSocket::from_fd(fd)?;
        Ok(Self { plain, link: None })
    }

    /// [`from_fd`](Self::from_fd) for a socket that may not be connected.
    ///
    /// # Errors
    /// Also if it is not.
    pub(crate) fn connected(fd: OwnedFd) -> io::Result<Self> {
        rustix::net::getpeername(&fd)?;
        Self::from_fd(fd)
    }

    /// From here on there is only TLS on it.
    pub(crate) fn secure(&mut self, link: Link) {
        assert!(self.link.is_none(), "TLS begins once");
        self.link = Some(Box::new(link));
    }

    /// Whether the other end may be on another machine.
    pub(crate) const fn is_network(&self) -> bool {
        matches!(self.plain, PlainSocket::Tcp(_))
    }

    /// Whether reading may succeed; registers the task otherwise.
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.link {
            Some(link) if link.has_received() => Poll::Ready(Ok(())),
            _ => self.plain.poll_readable(cx),
        }
    }

    /// Whether writing may succeed; registers the task otherwise.
    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.plain.poll_writable(cx)
    }

    /// Receives what is there, up to `into.len()` bytes. `Ok(0)` is the end of the stream.
    /// `eagerly` calls the kernel even if no event has announced data.
    pub(crate) fn receive(&self, mut into: &mut [u8], eagerly: bool) -> io::Result<usize> {
        match &self.link {
            None => self.plain.receive(into, eagerly),
            Some(link) => link.receive(&self.plain, &mut into, eagerly),
        }
    }

    /// Receives into two places, one after the other.
    pub(crate) fn receive_into(&self, first: &mut [u8], then: &mut [u8]) -> io::Result<usize> {
        match &self.link {
            None => self.plain.receive_into(first, then),
            Some(link) => link.receive(&self.plain, &mut first.chain_mut(then), false),
        }
    }

    /// Sends `data`; `more` says that something follows at once.
    pub(crate) fn send(&self, data: &[u8], more: bool) -> io::Result<usize> {
        match &self.link {
            None => self.plain.send(data, more),
            Some(link) => link.send(&self.plain, &[IoSlice::new(data)], more),
        }
    }

    /// Sends several pieces.
    pub(crate) fn send_pieces(&self, pieces: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        match &self.link {
            None => self.plain.send_pieces(pieces, more),
            Some(link) => link.send(&self.plain, pieces, more),
        }
    }

    /// Sends `len` bytes of `file` at `offset`, from the page cache where that goes. `Ok(0)`: the
    /// file ends before.
    pub(crate) fn send_file(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> io::Result<usize> {
        match &self.link {
            None => self.plain.send_file(file, offset, len),
            Some(link) => link.send_file(&self.plain, file, offset, len),
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(link) = &self.link {
            link.close(&self.plain);
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.plain.as_fd()
    }
}
