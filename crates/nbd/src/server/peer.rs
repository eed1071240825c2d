//! [`Peer`]: the client at the other end of a connection.

use std::net::IpAddr;

/// A client, as far as is known before it chose an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its name in the log and in figures.
    pub label: String,
    /// Its address, an IPv4 one also where it came in over IPv6; none for Unix sockets.
    pub address: Option<IpAddr>,
    /// The user ID of the process that connected to a Unix socket.
    pub user: Option<u32>,
    /// That process's number.
    pub process: Option<u32>,
    /// The name in its certificate, once TLS has verified that (`tls/certificate_name.rs`).
    /// [`NamedBy::name`](super::NamedBy::name) makes the [`ClientName`](super::ClientName) of it.
    pub certificate_name: Option<String>,
}

impl Peer {
    /// A client at `address`, which is made canonical: `::ffff:10.0.0.1` is `10.0.0.1`.
    #[must_use]
    pub fn new(label: impl Into<String>, address: Option<IpAddr>) -> Self {
        Self {
            label: label.into(),
            address: address.map(|address| address.to_canonical()),
            user: None,
            process: None,
            certificate_name: None,
        }
    }

    /// The same on a Unix socket, with the user and the number of its process.
    #[must_use]
    pub fn of_process(self, found: Option<(u32, u32)>) -> Self {
        let (user, process) = found.unzip();
        Self {
            user,
            process,
            ..self
        }
    }
}
