//! [`Listener`]: a bound socket that clients connect to.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::net::AddressFamily;
use tokio::net::{TcpListener, UnixListener};

use super::error::ServeError;
use super::peer::Peer;
use super::socket_file::{self, SocketFile};
use crate::vsock::{self, VsockAddress, VsockListener};

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket; `None` if it has no path.
    Unix(Option<PathBuf>),
    /// A socket for virtual machines.
    Vsock(VsockAddress),
}

impl ListenAddress {
    /// The port actually bound, for TCP.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(address) => Some(address.port()),
            Self::Unix(_) | Self::Vsock(_) => None,
        }
    }

    /// Whether only this machine, and those inside it, can reach it.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) | Self::Vsock(_) => true,
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(Some(path)) => write!(f, "unix:{}", path.display()),
            Self::Unix(None) => f.write_str("unix:(unnamed)"),
            Self::Vsock(address) => write!(f, "{address}"),
        }
    }
}

/// A listening socket. A Unix socket's file that it made is removed with it.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    address: ListenAddress,
    _file: Option<SocketFile>,
}

impl Listener {
    /// Listens on a TCP address; port 0 takes a free one.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn tcp(address: SocketAddr) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Listen {
            address: address.to_string(),
            source,
        };
        let fd = bind_tcp(address).map_err(failed)?;
        Self::with_fd(fd, None).map_err(failed)
    }

    /// Listens on a Unix socket at `path`. A socket left there by a server that is gone is replaced.
    ///
    /// # Errors
    /// [`ServeError::PathInUse`], [`ServeError::NoSocket`], [`ServeError::Listen`].
    pub fn unix(path: &Path) -> Result<Self, ServeError> {
        Self::unix_with_mode(path, None)
    }

    /// The same where the socket's file has the permissions of `mode`, as chmod(2) takes them, from its first client on.
    ///
    /// # Errors
    /// As [`unix`](Self::unix).
    pub fn unix_with_mode(path: &Path, mode: Option<u32>) -> Result<Self, ServeError> {
        let (listener, file) = socket_file::bind(path, mode)?;
        let bound = Self::with_fd(listener, Some(file));
        bound.map_err(|source| ServeError::Listen {
            address: format!("unix:{}", path.display()),
            source,
        })
    }

    /// Listens for virtual machines.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn vsock(address: VsockAddress) -> Result<Self, ServeError> {
        let bound = vsock::listen(address).and_then(|fd| Self::with_fd(fd, None));
        bound.map_err(|source| ServeError::Listen {
            address: address.to_string(),
            source,
        })
    }

    /// Takes over a socket that listens already, as a service manager hands it over.
    ///
    /// # Errors
    /// [`ServeError::Descriptor`] if it is no listening stream socket.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, ServeError> {
        use rustix::net::{SocketType, sockopt};
        let refused = |text: &str| Err(ServeError::Descriptor(io::Error::other(text.to_owned())));
        let failed = |e: rustix::io::Errno| ServeError::Descriptor(e.into());
        if !sockopt::socket_acceptconn(&fd).map_err(failed)? {
            return refused("it is a socket that does not listen");
        }
        if sockopt::socket_type(&fd).map_err(failed)? != SocketType::STREAM {
            return refused("it is no stream socket");
        }
        Self::with_fd(fd, None).map_err(ServeError::Descriptor)
    }

    fn with_fd(fd: OwnedFd, file: Option<SocketFile>) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        let name = rustix::net::getsockname(&fd)?;
        let address = match name.address_family() {
            AddressFamily::VSOCK => {
                let address = VsockAddress::of(&fd)?;
                ListenAddress::Vsock(address.ok_or(io::ErrorKind::Unsupported)?)
            }
            AddressFamily::UNIX => {
                let unix = rustix::net::SocketAddrUnix::try_from(name)?;
                let path = unix
                    .path()
                    .map(|p| OsStr::from_bytes(p.to_bytes()).to_owned());
                ListenAddress::Unix(path.map(PathBuf::from))
            }
            _ => ListenAddress::Tcp(SocketAddr::try_from(name)?),
        };
        Ok(Self {
            fd,
            address,
            _file: file,
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> &ListenAddress {
        &self.address
    }
}

/// A listener as its runtime sees it.
#[derive(Debug)]
pub(super) struct Acceptor {
    socket: AcceptSocket,
    /// Removes the socket's file in the end.
    _listener: Listener,
}

#[derive(Debug)]
enum AcceptSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
    Vsock(VsockListener),
}

impl Acceptor {
    /// Shares the listener's socket.
    pub(super) fn new(listener: Listener) -> io::Result<Self> {
        let fd = listener.fd.try_clone()?;
        let socket = match &listener.address {
            ListenAddress::Tcp(_) => AcceptSocket::Tcp(TcpListener::from_std(fd.into())?),
            ListenAddress::Unix(_) => AcceptSocket::Unix(UnixListener::from_std(fd.into())?),
            ListenAddress::Vsock(_) => AcceptSocket::Vsock(VsockListener::new(fd)?),
        };
        Ok(Self {
            socket,
            _listener: listener,
        })
    }

    /// The next client's socket, not bound to this core's runtime, and its peer.
    pub(super) async fn accept(&self) -> io::Result<(OwnedFd, Peer)> {
        match &self.socket {
            AcceptSocket::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                let peer = Peer::new(peer.to_string(), Some(peer.ip()));
                Ok((stream.into_std()?.into(), peer))
            }
            AcceptSocket::Unix(listener) => {
                let (stream, _unnamed) = listener.accept().await?;
                let peer = Peer::new("a unix socket", None).of_process(process_of(&stream));
                Ok((stream.into_std()?.into(), peer))
            }
            AcceptSocket::Vsock(listener) => {
                let (socket, address) = listener.accept().await?;
                let name = address.map_or_else(|| "vsock".to_owned(), |found| found.to_string());
                Ok((socket, Peer::new(name, None)))
            }
        }
    }
}

/// The user and the number of the process that connected to a Unix socket.
pub(super) fn process_of(socket: impl AsFd) -> Option<(u32, u32)> {
    let name = rustix::net::getsockname(&socket).ok()?;
    if name.address_family() != AddressFamily::UNIX {
        return None;
    }
    let process = rustix::net::sockopt::socket_peercred(&socket).ok()?;
    let number = u32::try_from(process.pid.as_raw_nonzero().get()).ok()?;
    Some((process.uid.as_raw(), number))
}

/// Whether an accept failed for something that is that client's, so that the next one may do better
/// (accept(2), "Error handling").
pub(super) fn is_clients_fault(error: &io::Error) -> bool {
    use rustix::io::Errno as Os;
    let os = error.raw_os_error().map(Os::from_raw_os_error);
    let theirs = [
        Os::CONNABORTED,
        Os::PERM,
        Os::PROTO,
        Os::NOPROTOOPT,
        Os::OPNOTSUPP,
        Os::NETDOWN,
        Os::NETUNREACH,
        Os::NONET,
        Os::HOSTDOWN,
        Os::HOSTUNREACH,
    ];
    os.is_some_and(|os| theirs.contains(&os))
}

fn bind_tcp(address: SocketAddr) -> io::Result<OwnedFd> {
    use rustix::net::{SocketFlags, SocketType, bind, listen, socket_with, sockopt};
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let fd = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // A server that restarts gets its port back while old connections linger.
    sockopt::set_socket_reuseaddr(&fd, true)?;
    bind(&fd, &address)?;
    listen(&fd, BACKLOG)?;
    Ok(fd)
}
