//! [`ClientName`]: the name of a client that has a disk of its own, by its certificate, address or user. Pure.
//!
//! `export_selection.rs` lists the steps from a certificate to an overlay; the next one after this is
//! `ClientDisks::acquire` in `mod.rs`.
//!
//! # Invariants
//!
//! * A name comes from what the server found out about the client, never from what it says of
//!   itself but through a certificate that was verified.
//! * Names of different kinds differ, even if they look the same: a certificate for `10.0.0.1` is not
//!   the client at that address.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::server::peer::Peer;

/// The name of a client, the same for all its connections.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientName {
    /// The name in its certificate.
    Certificate(String),
    /// Its address, without a port.
    Address(IpAddr),
    /// The user ID of its process, on a Unix socket.
    User(u32),
}

/// What distinguishes clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NamedBy {
    /// The certificate where there is one, else the address.
    #[default]
    Either,
    /// Certificates only: clients without one are refused.
    Certificate,
    /// Addresses only, even for clients with certificates.
    Address,
}

/// Why a client has no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Nameless {
    /// It showed no certificate.
    #[error("clients of this export are known by their certificates, and this one has none")]
    NoCertificate,
    /// Neither certificate nor address nor user.
    #[error("nothing distinguishes this client from others")]
    Nothing,
}

impl NamedBy {
    /// The name of `peer`.
    ///
    /// # Errors
    /// [`Nameless`].
    pub fn name(self, peer: &Peer) -> Result<ClientName, Nameless> {
        let certificate = || {
            let name = peer.certificate_name.clone();
            name.filter(|name| !name.is_empty())
                .map(ClientName::Certificate)
        };
        let place = || {
            let address = peer.address.map(ClientName::Address);
            address.or(peer.user.map(ClientName::User))
        };
        match self {
            Self::Either => certificate().or_else(place).ok_or(Nameless::Nothing),
            Self::Certificate => certificate().ok_or(Nameless::NoCertificate),
            Self::Address => place().ok_or(Nameless::Nothing),
        }
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate(name) => f.write_str(name),
            Self::Address(address) => write!(f, "{address}"),
            Self::User(uid) => write!(f, "uid-{uid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of what clients are called.

    use super::*;

    fn peer(address: Option<&str>, certificate: Option<&str>) -> Peer {
        Peer {
            certificate_name: certificate.map(str::to_owned),
            ..Peer::new("peer", address.map(|a| a.parse().expect("an address")))
        }
    }

    #[test]
    fn a_certificate_goes_before_an_address_and_never_looks_like_one() {
        let name = |by: NamedBy, address, certificate| {
            by.name(&peer(address, certificate)).map(|n| n.to_string())
        };
        let at = Some("10.0.0.1");
        assert_eq!(name(NamedBy::Either, at, Some("pi")), Ok("pi".to_owned()));
        assert_eq!(
            name(NamedBy::Address, at, Some("pi")),
            Ok("10.0.0.1".to_owned())
        );
        for none in [None, Some("")] {
            let refused = name(NamedBy::Certificate, at, none);
            assert_eq!(refused, Err(Nameless::NoCertificate));
        }
        assert_eq!(name(NamedBy::Either, None, None), Err(Nameless::Nothing));
        let forged = NamedBy::Either.name(&peer(None, Some("10.0.0.1")));
        assert_ne!(forged, NamedBy::Either.name(&peer(at, None)));
    }

    #[test]
    fn a_client_has_one_name_over_ipv4_and_ipv6_and_a_user_one_on_unix_sockets() {
        let name = |address| NamedBy::Either.name(&peer(Some(address), None));
        assert_eq!(name("::ffff:10.0.0.1"), name("10.0.0.1"));
        let local = Peer::new("a unix socket", None).of_process(Some((1000, 7)));
        assert_eq!(NamedBy::Address.name(&local), Ok(ClientName::User(1000)));
        assert_eq!(ClientName::User(1000).to_string(), "uid-1000");
    }
}
