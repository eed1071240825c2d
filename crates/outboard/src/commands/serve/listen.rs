//! Where `serve` listens: what `--listen` can say.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use nbd::server::ListenAddress;
use nbd::{ANY_CID, VsockAddress};

use crate::failure::Failure;

/// Permissions of owner, group and others.
const MODE_MAX: u32 = 0o777;

/// The port that IANA gave to NBD.
pub(crate) const PORT: u16 = 10809;

/// A parsed `--listen`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListenPlace {
    /// `ADDRESS[:PORT]`
    Tcp {
        /// An address or a host's name.
        host: String,
        /// The port; 0 for any free one.
        port: u16,
    },
    /// `unix:PATH[,mode=OCTAL]`
    Unix {
        /// The socket's file.
        path: PathBuf,
        /// Its permissions, if not those of the umask.
        mode: Option<u32>,
    },
    /// `vsock:[CID:]PORT`
    Vsock(VsockAddress),
}

/// Why a text is no place to listen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}: write ADDRESS, ADDRESS:PORT, [IPV6]:PORT, unix:PATH, unix:PATH,mode=660 or vsock:PORT"
)]
pub(crate) struct PlaceError(&'static str);

impl ListenPlace {
    /// The default: port 10809 of loopback.
    pub(crate) fn loopback() -> Self {
        Self::Tcp {
            host: Ipv4Addr::LOCALHOST.to_string(),
            port: PORT,
        }
    }

    /// Whether a socket with this address listens here.
    pub(super) fn is_at(&self, address: &ListenAddress) -> bool {
        match (self, address) {
            (Self::Tcp { host, port }, ListenAddress::Tcp(address)) => {
                Self::address(host, *port).is_ok_and(|own| own == *address)
            }
            (Self::Unix { path: own, .. }, ListenAddress::Unix(Some(path))) => own == path,
            (Self::Vsock(own), ListenAddress::Vsock(address)) => own == address,
            _ => false,
        }
    }

    /// The address of a TCP place; a host's name is looked up.
    pub(crate) fn address(host: &str, port: u16) -> Result<SocketAddr, Failure> {
        let what = format!("cannot listen on {host}");
        let found = (host, port)
            .to_socket_addrs()
            .map_err(|error| Failure::because(&what, &error))?;
        let mut found: Vec<SocketAddr> = found.collect();
        // A name like localhost has an address of each family; most clients try IPv4 in any case.
        found.sort_by_key(SocketAddr::is_ipv6);
        let first = found.into_iter().next();
        first.ok_or_else(|| Failure::new(format!("{what}: the name has no address")))
    }
}

/// `PATH[,mode=OCTAL]`
fn unix(text: &str) -> Result<ListenPlace, PlaceError> {
    let (path, mode) = match text.rsplit_once(",mode=") {
        None => (text, None),
        Some((path, octal)) => {
            let mode = u32::from_str_radix(octal, 8).ok();
            let mode = mode.filter(|mode| *mode <= MODE_MAX);
            let wrong = PlaceError("`mode` has three octal digits such as 660");
            (path, Some(mode.ok_or(wrong)?))
        }
    };
    if path.is_empty() {
        return Err(PlaceError("no path behind `unix:`"));
    }
    Ok(ListenPlace::Unix {
        path: PathBuf::from(path),
        mode,
    })
}

impl FromStr for ListenPlace {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        if let Some(rest) = text.strip_prefix("unix:") {
            return unix(rest);
        }
        if let Some(rest) = text.strip_prefix("vsock:") {
            return vsock(rest).map(Self::Vsock);
        }
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(Self::Tcp {
                host: ip.to_string(),
                port: PORT,
            });
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => bracketed(rest)?,
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        if host.is_empty() {
            return Err(PlaceError("no address"));
        }
        if port.is_none() && host.bytes().all(|b| b.is_ascii_digit()) {
            return Err(PlaceError("a port alone"));
        }
        let port = match port {
            Some(port) => port
                .parse()
                .map_err(|_| PlaceError("no port from 0 to 65535"))?,
            None => PORT,
        };
        Ok(Self::Tcp {
            host: host.to_owned(),
            port,
        })
    }
}

/// `PORT` or `CID:PORT`
fn vsock(text: &str) -> Result<VsockAddress, PlaceError> {
    let (cid, port) = match text.split_once(':') {
        Some((cid, port)) => (cid.parse().ok(), port),
        None => (Some(ANY_CID), text),
    };
    Ok(VsockAddress {
        cid: cid.ok_or(PlaceError("no context ID behind `vsock:`"))?,
        port: port
            .parse()
            .map_err(|_| PlaceError("no port behind `vsock:`"))?,
    })
}

/// `IPV6]` or `IPV6]:PORT`
fn bracketed(rest: &str) -> Result<(&str, Option<&str>), PlaceError> {
    let (host, behind) = rest.split_once(']').ok_or(PlaceError("no `]`"))?;
    if host.parse::<IpAddr>().is_err() {
        return Err(PlaceError("no IPv6 address between the brackets"));
    }
    match behind.strip_prefix(':') {
        Some(port) => Ok((host, Some(port))),
        None if behind.is_empty() => Ok((host, None)),
        None => Err(PlaceError("something other than a port behind `]`")),
    }
}
