//! vsock(7): stream sockets between a machine and the virtual machines on it.
//!
//! The runtime knows no such sockets. It is given them as Unix ones: it only waits for them, and never
//! queries their address.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Listens for every peer that can reach this machine (`VMADDR_CID_ANY`).
pub const ANY_CID: u32 = u32::MAX;
/// Clients that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A machine, by its context ID, and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VsockAddress {
    /// 2 is the machine that virtual machines are on; [`ANY_CID`] is for listening.
    pub cid: u32,
    /// The port; not that of any TCP.
    pub port: u32,
}

impl fmt::Display for VsockAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cid {
            ANY_CID => write!(f, "vsock:{}", self.port),
            cid => write!(f, "vsock:{cid}:{}", self.port),
        }
    }
}

impl VsockAddress {
    /// The address that a socket is bound to; `None`: it is of another family.
    pub(crate) fn of(socket: impl AsFd) -> io::Result<Option<Self>> {
        let name = SockRef::from(&socket).local_addr()?;
        Ok(Self::from_name(&name))
    }

    fn from_name(name: &SockAddr) -> Option<Self> {
        let (cid, port) = name.as_vsock_address()?;
        Some(Self { cid, port })
    }

    fn name(self) -> SockAddr {
        SockAddr::vsock(self.cid, self.port)
    }
}

/// A socket that listens at `address`.
pub(crate) fn listen(address: VsockAddress) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::VSOCK, Type::STREAM, None)?;
    socket.bind(&address.name())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Connects to `address`.
pub(crate) async fn connect(address: VsockAddress) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::VSOCK, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.name()) {
        Ok(()) => {}
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
        Err(error) => return Err(error),
    }
    let stream = UnixStream::from_std(OwnedFd::from(socket).into())?;
    stream.writable().await?;
    match SockRef::from(&stream).take_error()? {
        Some(error) => Err(error),
        None => Ok(stream),
    }
}

/// A listening socket as its runtime sees it.
#[derive(Debug)]
pub(crate) struct VsockListener(UnixStream);

impl VsockListener {
    /// Takes over a socket that listens, without waiting.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        UnixStream::from_std(fd.into()).map(Self)
    }

    /// The next client's socket, and where it is.
    pub(crate) async fn accept(&self) -> io::Result<(OwnedFd, Option<VsockAddress>)> {
        loop {
            self.0.readable().await?;
            let accept = || SockRef::from(&self.0).accept();
            match self.0.try_io(Interest::READABLE, accept) {
                Ok((socket, name)) => return Ok((socket.into(), VsockAddress::from_name(&name))),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}
