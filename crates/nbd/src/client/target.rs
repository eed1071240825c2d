//! [`Target`]: which export on which server.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use nbd_proto::{NbdUri, Transport, UriError, UriTls};

use crate::tls::{ClientTls, TlsError, VerifyPeer};
use crate::vsock::VsockAddress;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// TCP.
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// A Unix domain socket.
    Unix(PathBuf),
    /// The machine that this virtual machine is on, or another one on it.
    Vsock(VsockAddress),
}

/// An export on a server. Written as an NBD URI.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// The server.
    pub address: Address,
    /// What to ask of TLS; `None`: it goes in the clear.
    pub tls: Option<UriTls>,
    /// The export's name; empty for the default one.
    pub export: String,
}

impl Target {
    /// Reads the certificates that `tls` speaks of. The server's has to be for the name it says, or
    /// for the host's; over a Unix socket or vsock, which have no host, for `localhost`.
    ///
    /// # Errors
    /// [`TlsError`].
    pub(super) fn load_tls(&self, tls: &UriTls) -> Result<ClientTls, TlsError> {
        let host = match &self.address {
            Address::Tcp { host, .. } => host,
            Address::Unix(_) | Address::Vsock(_) => "localhost",
        };
        let name = tls.hostname.as_deref().unwrap_or(host);
        let verify = match tls.verify_peer {
            true => VerifyPeer::Yes,
            false => VerifyPeer::No,
        };
        ClientTls::load(name, tls.certificates.as_deref(), verify, tls.minimum)
    }
}

impl TryFrom<NbdUri> for Target {
    type Error = UriError;

    fn try_from(uri: NbdUri) -> Result<Self, UriError> {
        let address = match uri.transport {
            Transport::Tcp { host, port } => Address::Tcp { host, port },
            Transport::Unix(path) => Address::Unix(path),
            Transport::Vsock { cid, port } => Address::Vsock(VsockAddress { cid, port }),
        };
        Ok(Self {
            address,
            tls: uri.tls,
            export: uri.export,
        })
    }
}

impl From<&Target> for NbdUri {
    fn from(target: &Target) -> Self {
        let transport = match target.address.clone() {
            Address::Tcp { host, port } => Transport::Tcp { host, port },
            Address::Unix(path) => Transport::Unix(path),
            Address::Vsock(VsockAddress { cid, port }) => Transport::Vsock { cid, port },
        };
        Self {
            transport,
            tls: target.tls.clone(),
            export: target.export.clone(),
        }
    }
}

impl FromStr for Target {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        text.parse::<NbdUri>()?.try_into()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        NbdUri::from(self).fmt(f)
    }
}
