//! [`Access`]: which clients an export is for. Pure.
//!
//! # Invariants
//!
//! * An address is compared as numbers, by whole bits, never as text: `10.0.0.1` does not let
//!   `10.0.0.10` in, and an IPv4 client that came in over IPv6 is an IPv4 client.
//! * Properties that the server does not know of a client (its address on a Unix socket, its certificate without TLS)
//!   matches no rule.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use super::peer::Peer;

/// Where clients come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A network; a single address is one of a single host.
    Network(IpNet),
    /// A Unix socket, or a socket that was handed over.
    Unix,
}

/// Why a text is no [`Origin`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// Nothing that is known.
    #[error("`{0}` is no address, no network like 192.168.1.0/24 and not `unix`")]
    Unknown(String),
    /// An address within the network, where the network itself is meant.
    #[error("`{text}` has bits behind its prefix; the network is {network}, the one host {host}")]
    HostBits {
        /// The rejected text.
        text: String,
        /// The network of that prefix.
        network: IpNet,
        /// The address alone.
        host: IpAddr,
    },
}

impl Origin {
    fn holds(&self, peer: &Peer) -> bool {
        match (self, peer.address) {
            (Self::Network(network), Some(address)) => network.contains(&address),
            (Self::Unix, address) => address.is_none(),
            (Self::Network(_), None) => false,
        }
    }
}

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        if text == "unix" {
            return Ok(Self::Unix);
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Network(address.to_canonical().into()));
        }
        let network: IpNet = text
            .parse()
            .map_err(|_| OriginError::Unknown(text.to_owned()))?;
        if network.trunc() != network {
            return Err(OriginError::HostBits {
                text: text.to_owned(),
                network: network.trunc(),
                host: network.addr(),
            });
        }
        Ok(Self::Network(canonical(network)))
    }
}

/// Clients have canonical addresses, so `::ffff:10.0.0.0/104` must mean `10.0.0.0/8`.
fn canonical(network: IpNet) -> IpNet {
    let mapped = match network {
        IpNet::V6(v6) => v6
            .prefix_len()
            .checked_sub(96)
            .zip(v6.addr().to_ipv4_mapped()),
        IpNet::V4(_) => None,
    };
    mapped
        .and_then(|(prefix, address)| IpNet::new(address.into(), prefix).ok())
        .unwrap_or(network)
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(network) if network.prefix_len() == network.max_prefix_len() => {
                write!(f, "{}", network.addr())
            }
            Self::Network(network) => write!(f, "{network}"),
            Self::Unix => f.write_str("unix"),
        }
    }
}

/// The clients that may use an export. The default is all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// Only clients from there.
    pub origins: Option<Vec<Origin>>,
    /// Only clients with a certificate that has one of these names.
    pub certificates: Option<Vec<String>>,
}

impl Access {
    /// Whether `peer` may use the export, and know of it.
    #[must_use]
    pub fn allows(&self, peer: &Peer) -> bool {
        let from_there = |origins: &Vec<Origin>| origins.iter().any(|origin| origin.holds(peer));
        let is_named = |names: &Vec<String>| {
            let name = peer.certificate_name.as_ref();
            name.is_some_and(|name| names.contains(name))
        };
        self.origins.as_ref().is_none_or(from_there)
            && self.certificates.as_ref().is_none_or(is_named)
    }
}
