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
use super::peer::Peer;

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
    fd: OwnedFd,
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

/// What connecting to a socket's path told.
enum Asked {
    Answers,
    IsDead,
    CannotTell(rustix::io::Errno),
}

/// Connects to the socket at `path` without waiting. Only a refusal says that nobody is behind it.
fn ask(path: &Path) -> Asked {
    use rustix::io::Errno;
    use rustix::net::{SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let connected = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .and_then(|fd| connect(&fd, &SocketAddrUnix::new(path)?));
    match connected {
        // AGAIN: there are too many who wait for its answer already.
        Ok(()) | Err(Errno::AGAIN) => Asked::Answers,
        Err(Errno::CONNREFUSED) => Asked::IsDead,
        Err(e) => Asked::CannotTell(e),
    }
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
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(ServeError::NoSocket(path.to_owned()));
            }
            Ok(_) => match ask(path) {
                Asked::Answers => return Err(ServeError::PathInUse(path.to_owned())),
                Asked::IsDead => std::fs::remove_file(path).map_err(failed)?,
                Asked::CannotTell(e) => return Err(failed(e.into())),
            },
            // Binding will tell what is wrong, if something is.
            Err(_) => {}
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
pub(super) struct Acceptor {
    socket: Accepting,
    /// Removes the socket's file in the end.
    _listener: Listener,
}

#[derive(Debug)]
enum Accepting {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Acceptor {
    /// Shares the listener's socket.
    pub(super) fn new(listener: Listener) -> io::Result<Self> {
        let fd = listener.fd.try_clone()?;
        let socket = match &listener.address {
            ListenAddress::Tcp(_) => Accepting::Tcp(TcpListener::from_std(fd.into())?),
            ListenAddress::Unix(_) => Accepting::Unix(UnixListener::from_std(fd.into())?),
        };
        Ok(Self {
            socket,
            _listener: listener,
        })
    }

    /// The next client's socket, free of this core's runtime, and who is there.
    pub(super) async fn accept(&self) -> io::Result<(OwnedFd, Peer)> {
        match &self.socket {
            Accepting::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                let peer = Peer::new(peer.to_string(), Some(peer.ip()));
                Ok((stream.into_std()?.into(), peer))
            }
            Accepting::Unix(listener) => {
                let (stream, _unnamed) = listener.accept().await?;
                Ok((stream.into_std()?.into(), Peer::new("a unix socket", None)))
            }
        }
    }
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
