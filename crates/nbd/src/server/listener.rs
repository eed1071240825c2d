//! [`Listener`]: a bound socket that clients connect to.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::net::AddressFamily;
use tokio::net::{TcpListener, UnixListener};

use super::error::ServeError;

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket; `None` if it has no path.
    Unix(Option<PathBuf>),
}

impl ListenAddress {
    /// The port actually bound, for TCP.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(address) => Some(address.port()),
            Self::Unix(_) => None,
        }
    }

    /// Whether only this machine can reach it.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(Some(path)) => write!(f, "unix:{}", path.display()),
            Self::Unix(None) => f.write_str("unix:(unnamed)"),
        }
    }
}

/// A listening socket. A Unix socket's file that it made is removed with it.
#[derive(Debug)]
pub struct Listener {
    pub(super) fd: OwnedFd,
    address: ListenAddress,
    made: Option<Made>,
}

/// A socket's file that a listener made.
#[derive(Debug)]
struct Made {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
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
        let failed = |source| ServeError::Listen {
            address: format!("unix:{}", path.display()),
            source,
        };
        if let Ok(found) = std::fs::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                return Err(ServeError::NoSocket(path.to_owned()));
            }
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(ServeError::PathInUse(path.to_owned()));
            }
            std::fs::remove_file(path).map_err(failed)?;
        }
        let listener = std::os::unix::net::UnixListener::bind(path).map_err(failed)?;
        let made = Made {
            path: path.to_owned(),
            identity: identity(path).map_err(failed)?,
        };
        Self::with_fd(listener.into(), Some(made)).map_err(failed)
    }

    /// Takes over a socket that listens already, as a service manager hands it over.
    ///
    /// # Errors
    /// [`ServeError::Descriptor`] if it is no listening stream socket.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, ServeError> {
        if !rustix::net::sockopt::socket_acceptconn(&fd)
            .map_err(|e| ServeError::Descriptor(e.into()))?
        {
            let text = "it is a socket that does not listen";
            return Err(ServeError::Descriptor(io::Error::other(text)));
        }
        Self::with_fd(fd, None).map_err(ServeError::Descriptor)
    }

    fn with_fd(fd: OwnedFd, made: Option<Made>) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        let name = rustix::net::getsockname(&fd)?;
        let address = match name.address_family() {
            AddressFamily::UNIX => {
                let unix = rustix::net::SocketAddrUnix::try_from(name)?;
                let path = unix
                    .path()
                    .map(|p| OsStr::from_bytes(p.to_bytes()).to_owned());
                ListenAddress::Unix(path.map(PathBuf::from))
            }
            _ => ListenAddress::Tcp(SocketAddr::try_from(name)?),
        };
        Ok(Self { fd, address, made })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> &ListenAddress {
        &self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Some(made) = self.made.take() else { return };
        // Another server may have put its own socket there meanwhile.
        if identity(&made.path).ok() == Some(made.identity)
            && let Err(e) = std::fs::remove_file(&made.path)
        {
            tracing::warn!(
                "the socket {} could not be removed: {e}",
                made.path.display()
            );
        }
    }
}

/// A listener as its runtime sees it.
#[derive(Debug)]
pub(super) enum Acceptor {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Acceptor {
    /// Shares the listener's socket.
    pub(super) fn new(listener: &Listener) -> io::Result<Self> {
        let fd = listener.fd.try_clone()?;
        match &listener.address {
            ListenAddress::Tcp(_) => Ok(Self::Tcp(TcpListener::from_std(fd.into())?)),
            ListenAddress::Unix(_) => Ok(Self::Unix(UnixListener::from_std(fd.into())?)),
        }
    }

    /// The next client's socket, free of this core's runtime, and its name for the log.
    pub(super) async fn accept(&self) -> io::Result<(OwnedFd, String)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((stream.into_std()?.into(), peer.to_string()))
            }
            Self::Unix(listener) => {
                let (stream, _unnamed) = listener.accept().await?;
                Ok((stream.into_std()?.into(), "a unix socket".to_owned()))
            }
        }
    }
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
