//! [`Target`]: which export on which server.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use nbd_proto::{NbdUri, Transport, UriError};

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
}

/// An export on a server. Written as an NBD URI.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// The server.
    pub address: Address,
    /// The export's name; empty for the default one.
    pub export: String,
}

impl TryFrom<NbdUri> for Target {
    type Error = UriError;

    fn try_from(uri: NbdUri) -> Result<Self, UriError> {
        // Never in the clear what was to be under TLS.
        if uri.tls.is_some() {
            return Err(UriError::Scheme("nbds".to_owned()));
        }
        let address = match uri.transport {
            Transport::Tcp { host, port } => Address::Tcp { host, port },
            Transport::Unix(path) => Address::Unix(path),
            Transport::Vsock { .. } => return Err(UriError::Scheme("nbd+vsock".to_owned())),
        };
        Ok(Self {
            address,
            export: uri.export,
        })
    }
}

impl From<&Target> for NbdUri {
    fn from(target: &Target) -> Self {
        let transport = match target.address.clone() {
            Address::Tcp { host, port } => Transport::Tcp { host, port },
            Address::Unix(path) => Transport::Unix(path),
        };
        Self {
            transport,
            tls: None,
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
