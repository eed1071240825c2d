//! [`Target`]: which export on which server, or on which servers of the same disk.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

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
///
/// Several servers may have it: copies of an image that is only read, or one volume that they serve one at a time. They are
/// tried in their order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// The server, or the first of several.
    pub address: Address,
    /// Further servers of the same disk.
    pub others: Vec<Address>,
    /// How long after its last answer a server carries out nothing more, because something outside of NBD fences it.
    /// `None`: that is not known.
    pub fenced_after: Option<Duration>,
    /// What to ask of TLS; `None`: it goes in the clear.
    pub tls: Option<UriTls>,
    /// The export's name; empty for the default one.
    pub export: String,
}

impl Target {
    /// An export on one server.
    #[must_use]
    pub const fn new(address: Address, export: String) -> Self {
        Self {
            address,
            others: Vec::new(),
            fenced_after: None,
            tls: None,
            export,
        }
    }

    /// Every address of it, in order.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        std::iter::once(&self.address).chain(&self.others)
    }

    /// Whether several servers have it.
    #[must_use]
    pub const fn has_several(&self) -> bool {
        !self.others.is_empty()
    }

    /// The same export on each server alone, in order.
    #[must_use]
    pub fn servers(&self) -> Vec<Self> {
        let alone = |address: &Address| Self {
            address: address.clone(),
            others: Vec::new(),
            fenced_after: None,
            ..self.clone()
        };
        self.addresses().map(alone).collect()
    }

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
        let address = |transport| match transport {
            Transport::Tcp { host, port } => Address::Tcp { host, port },
            Transport::Unix(path) => Address::Unix(path),
            Transport::Vsock { cid, port } => Address::Vsock(VsockAddress { cid, port }),
        };
        Ok(Self {
            address: address(uri.transport),
            others: uri.others.into_iter().map(address).collect(),
            fenced_after: uri.fenced_after,
            tls: uri.tls,
            export: uri.export,
        })
    }
}

impl From<&Target> for NbdUri {
    fn from(target: &Target) -> Self {
        let transport = |address: &Address| match address.clone() {
            Address::Tcp { host, port } => Transport::Tcp { host, port },
            Address::Unix(path) => Transport::Unix(path),
            Address::Vsock(VsockAddress { cid, port }) => Transport::Vsock { cid, port },
        };
        Self {
            transport: transport(&target.address),
            others: target.others.iter().map(transport).collect(),
            fenced_after: target.fenced_after,
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
