//! Where an agent listens, and which machines may reach it there.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::str::FromStr;

use lab::agent::protocol::PORT;

use crate::failure::Failure;

/// `--listen`: an address of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListenAddress(SocketAddr);

/// Why a text is no place to listen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("say ADDRESS, ADDRESS:PORT or [IPV6]:PORT, with an address of this machine")]
pub(super) struct ListenAddressError;

impl Default for ListenAddress {
    fn default() -> Self {
        Self((Ipv4Addr::LOCALHOST, PORT).into())
    }
}

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<Self, ListenAddressError> {
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(Self((ip, PORT).into()));
        }
        text.parse().map(Self).map_err(|_| ListenAddressError)
    }
}

impl ListenAddress {
    /// Opens it.
    pub(super) fn open(&self) -> Result<(TcpListener, SocketAddr), Failure> {
        let opened = TcpListener::bind(self.0).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        });
        opened.map_err(|error| Failure::because(format!("cannot listen on {}", self.0), &error))
    }
}

/// Refuses to let other machines in without TLS, and near fio at all, unless the user waived that.
pub(super) fn check(
    address: SocketAddr,
    has_tls: bool,
    insecure: bool,
    allow_fio: bool,
) -> Result<(), Failure> {
    if address.ip().is_loopback() || insecure {
        return Ok(());
    }
    if !has_tls {
        let what = format!("{address} can be reached by other machines, and they need no TLS");
        return Err(Failure::new(what)
            .next("add --tls DIR (`outboard tls init DIR` makes one), or say --insecure"));
    }
    if allow_fio {
        let what = format!(
            "{address} can be reached by other machines, and fio requires no token of them"
        );
        return Err(Failure::new(what).next("leave --allow-fio away, or say --insecure"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Tests of where an agent listens.

    use super::*;

    #[test]
    fn an_address_alone_has_the_agents_port() {
        for (text, expected) in [
            ("192.0.2.1", "192.0.2.1:10811"),
            ("192.0.2.1:7", "192.0.2.1:7"),
            ("::", "[::]:10811"),
            ("[::1]:0", "[::1]:0"),
        ] {
            let place: ListenAddress = text.parse().expect(text);
            assert_eq!(place.0.to_string(), expected);
        }
        for text in ["", "10811", "nas.lan", "192.0.2.1:", "unix:s"] {
            assert_eq!(
                text.parse::<ListenAddress>(),
                Err(ListenAddressError),
                "{text}"
            );
        }
    }

    #[test]
    fn other_machines_need_tls_and_never_meet_fio_unasked() {
        let is_fine = |address: &str, tls, insecure, fio| {
            let address = address.parse().expect("an address");
            check(address, tls, insecure, fio).is_ok()
        };
        assert!(is_fine("127.0.0.1:1", false, false, true));
        assert!(is_fine("[::1]:1", false, false, true));
        for far in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1"] {
            assert!(!is_fine(far, false, false, false), "{far}");
            assert!(is_fine(far, true, false, false));
            assert!(!is_fine(far, true, false, true));
            assert!(is_fine(far, false, true, true));
        }
    }
}
